//! How far each session file was read: a table of ours beside the harness's, written in the transaction that writes the
//! rows, so that a position is never ahead of what it stands for.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use history::rusqlite::{Connection, OptionalExtension as _, params};

type Result<T> = history::rusqlite::Result<T>;

/// What is remembered of a session file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// The session's id.
    pub(crate) session: Option<String>,
    /// How far it was read.
    pub(crate) position: String,
}

/// A change of the ledger.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// The file was read so far.
    Read(PathBuf, Known),
}

/// Reads the whole ledger; a missing table is an empty one.
pub(crate) fn load(conn: &Connection) -> Result<BTreeMap<PathBuf, Known>> {
    let exists = conn
        .query_row("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'watcher_file'", [], |_| Ok(()))
        .optional()?;
    if exists.is_none() {
        return Ok(BTreeMap::new());
    }
    let mut statement = conn.prepare("SELECT path, session, position FROM watcher_file")?;
    let rows = statement.query_map([], |row| {
        let path = PathBuf::from(OsStr::from_bytes(row.get_ref(0)?.as_bytes()?));
        Ok((path, Known { session: row.get(1)?, position: row.get(2)? }))
    })?;
    rows.collect()
}

/// Writes changes, in the caller's transaction.
pub(crate) fn record(conn: &Connection, changes: &[Change]) -> Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    conn.execute_batch(
        "CREATE TABLE IF NOT EXISTS watcher_file(path BLOB PRIMARY KEY, session TEXT, position TEXT NOT NULL) WITHOUT ROWID",
    )?;
    for change in changes {
        match change {
            Change::Read(path, known) => {
                conn.prepare_cached("INSERT OR REPLACE INTO watcher_file(path, session, position) VALUES (?, ?, ?)")?
                    .execute(params![bytes(path), known.session, known.position])?;
            }
        }
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
        assert!(load(&conn).unwrap().is_empty());
        let odd = PathBuf::from(OsStr::from_bytes(b"/s/\xff.jsonl"));
        let known = Known { session: Some("s".into()), position: "1".into() };
        record(&conn, &[Change::Read(odd.clone(), Known::default()), Change::Read("/s/a.jsonl".into(), known.clone())])
            .unwrap();
        record(&conn, &[Change::Read(odd.clone(), known.clone())]).unwrap();
        assert_eq!(load(&conn).unwrap(), BTreeMap::from([(odd, known.clone()), ("/s/a.jsonl".into(), known)]));
    }
}
