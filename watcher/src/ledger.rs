//! What the watcher remembers: how far each session file was read, and which terminal pointers it wrote. Tables of ours
//! beside the harness's, written in the transaction that writes the rows, so that a position is never ahead of what it
//! stands for.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use history::rusqlite::{Connection, params};
use session_core::follow::Position;

type Result<T> = history::rusqlite::Result<T>;

/// Names begin with the prefix that detaching takes away. No foreign keys, views or triggers `[H2a]`.
const TABLES: &str = "
CREATE TABLE IF NOT EXISTS watcher_file(path BLOB PRIMARY KEY, position TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS watcher_pointer(terminal TEXT PRIMARY KEY, content BLOB NOT NULL, modified INTEGER NOT NULL)
  WITHOUT ROWID;
";

/// A change of the ledger.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// The file was read so far.
    Read(Arc<Path>, Box<Position>),
    /// The file is no longer there, and no pointer needs to know that it was.
    Gone(Arc<Path>),
    /// We wrote a terminal's pointer.
    Wrote(String, Ours),
}

/// A pointer that we wrote: its content, and the file's time in nanoseconds since 1970. Anybody else's has another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ours {
    pub(crate) content: Vec<u8>,
    pub(crate) modified: i64,
}

/// All that is remembered.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// How far each file was read.
    pub(crate) files: Vec<(Arc<Path>, Position)>,
    /// The pointers that we wrote, by terminal.
    pub(crate) pointers: BTreeMap<String, Ours>,
}

/// Reads the whole ledger. A position that can't be understood is left out: its file is read again, and nothing is doubled.
pub(crate) fn load(conn: &Connection) -> Result<Memory> {
    conn.execute_batch(TABLES)?;
    let mut memory = Memory::default();
    let count: i64 = conn.query_row("SELECT count(*) FROM watcher_file", [], |row| row.get(0))?;
    memory.files.reserve_exact(usize::try_from(count).unwrap_or(0));
    let mut statement = conn.prepare("SELECT path, position FROM watcher_file ORDER BY path")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let path: Arc<Path> = Path::new(OsStr::from_bytes(row.get_ref(0)?.as_bytes()?)).into();
        match row.get_ref(1)?.as_str()?.parse() {
            Ok(position) => memory.files.push((path, position)),
            Err(error) => tracing::info!(path = %path.display(), %error, "a session is read again"),
        }
    }
    let mut statement = conn.prepare("SELECT terminal, content, modified FROM watcher_pointer")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        memory.pointers.insert(row.get(0)?, Ours { content: row.get(1)?, modified: row.get(2)? });
    }
    Ok(memory)
}

/// Writes changes, in the caller's transaction.
pub(crate) fn record(conn: &Connection, changes: &[Change]) -> Result<()> {
    for change in changes {
        match change {
            Change::Read(path, position) => conn
                .prepare_cached("INSERT OR REPLACE INTO watcher_file(path, position) VALUES (?, ?)")?
                .execute(params![bytes(path), position.to_string()])?,
            Change::Gone(path) => {
                conn.prepare_cached("DELETE FROM watcher_file WHERE path = ?")?.execute([bytes(path)])?
            }
            Change::Wrote(terminal, ours) => conn
                .prepare_cached("INSERT OR REPLACE INTO watcher_pointer(terminal, content, modified) VALUES (?, ?, ?)")?
                .execute(params![terminal, ours.content, ours.modified])?,
        };
    }
    Ok(())
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recorded_is_loaded() {
        let conn = Connection::open_in_memory().unwrap();
        assert!(load(&conn).unwrap().files.is_empty());
        let odd: Arc<Path> = Path::new(OsStr::from_bytes(b"/s/\xff.jsonl")).into();
        let gone: Arc<Path> = Path::new("/s/gone.jsonl").into();
        let ours = Ours { content: b"/w\n/s/x.jsonl\n".to_vec(), modified: 7 };
        let read = |path: &Arc<Path>| Change::Read(Arc::clone(path), Box::default());
        record(&conn, &[read(&odd), read(&gone), Change::Wrote("pts-3".into(), ours.clone())]).unwrap();
        record(&conn, &[read(&odd), Change::Gone(gone)]).unwrap();
        conn.execute("INSERT INTO watcher_file(path, position) VALUES (x'2f', 'of another version')", []).unwrap();
        let memory = load(&conn).unwrap();
        assert_eq!(memory.files, [(odd, Position::default())]);
        assert_eq!(memory.pointers, BTreeMap::from([("pts-3".to_owned(), ours)]));
    }
}
