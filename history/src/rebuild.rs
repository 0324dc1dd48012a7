//! A corrupt database is moved aside and built anew `[H5, K43]`: from what is still readable in it and from what the
//! caller supplies. Only on SQLite's own word, and only while nobody has it open; a locked one is never touched.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, types::ValueRef};

use crate::{
    bulk::Bulk,
    copy,
    database::{Database, Mode},
    error::{Error, ErrorKind, Result},
    guard::Guard,
    health,
    ledger::Ledger,
    occupancy::{self, Occupancy},
    options::OpenOptions,
    order, place,
    schema::Shape,
    submission::{Recorded, Submission},
    tombstone::Tombstones,
    unclaimed::Unclaimed,
};

/// What a rebuild did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebuilt {
    aside: PathBuf,
    salvaged: usize,
    supplied: usize,
}

impl Rebuilt {
    /// Where the corrupt file is now; its `-wal` and `-shm`, where there were such, are beside it.
    pub fn aside(&self) -> &Path {
        &self.aside
    }

    /// How many rows could be read from it.
    pub fn salvaged(&self) -> usize {
        self.salvaged
    }

    /// How many rows the caller's submissions added.
    pub fn supplied(&self) -> usize {
        self.supplied
    }
}

impl OpenOptions {
    /// Moves a corrupt database aside and builds a new one in its place, from what is readable in it and from what
    /// `supply` hands to the function that it is given (the prompts of all session files, oldest first, with keys).
    /// Returns `None`, and does nothing, for a database that is well or missing.
    ///
    /// The new file takes the place of the old one in one step; a crash before it leaves the old one where it was. The
    /// old file is kept under a name with the date.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] while another process, or another store of this one, has it open, or where the system can't
    /// tell; [`ErrorKind::Locked`] for a database that is only locked. Nothing is moved then.
    ///
    /// ```
    /// # fn main() -> Result<(), history::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use history::{EntryKey, HistoryStorage, OpenOptions, Submission};
    /// let path = dir.path().join("history.db");
    /// std::fs::write(&path, "this is no database, though it is long enough to be taken for one".repeat(99)).unwrap();
    /// let rebuilt = OpenOptions::new().rebuild_if_corrupt(&path, |give| {
    ///     give(Submission::new("from a session file").at(1_700_000_000).key(EntryKey::new("s1:a1b2c3d4")))
    /// })?;
    /// assert!(rebuilt.is_some_and(|rebuilt| rebuilt.aside().exists()));
    /// assert_eq!(HistoryStorage::open(&path)?.stats()?.prompts, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn rebuild_if_corrupt(
        &self,
        path: impl AsRef<Path>,
        supply: impl FnOnce(&mut dyn FnMut(Submission) -> Result<()>) -> Result<()>,
    ) -> Result<Option<Rebuilt>> {
        let path = &place::real(path.as_ref())?;
        if fs::symlink_metadata(path).is_err() || !is_corrupt(path, self.patience)? {
            return Ok(None);
        }
        let busy = match occupancy::of(path) {
            Occupancy::Free => None,
            Occupancy::HeldBy(process) => Some(format!("process {process} has it open")),
            Occupancy::Unknown => Some("it can't be told here whether another process has it open".to_owned()),
        };
        if let Some(busy) = busy {
            let message = format!("it is corrupt and {busy}; nothing was moved: end that process and repair it then");
            return Err(Error::new(ErrorKind::InUse, path, message));
        }
        let now = (self.clock)();
        let rows = salvage(path);
        let guard = Guard {
            redaction: self.redaction.clone(),
            exclusions: self.exclusions.clone(),
            tombstones: Tombstones::of(path),
        };
        let mut supplied = 0;
        let new = place::build(path, |conn| {
            let sqlite = |error| Error::sqlite(path, error);
            let mut guard = guard;
            guard.tombstones.refresh()?;
            let shape = Shape::read(conn).map_err(sqlite)?;
            let unclaimed = Unclaimed::default();
            let bulk = Bulk::begin(Ledger::new(conn, &shape, &guard, &unclaimed, now), usize::MAX).map_err(sqlite)?;
            let ledger = bulk.ledger();
            for (id, (prompt, created_at, cwd)) in &rows {
                ledger.restore(*id, prompt, *created_at, cwd.as_deref()).map_err(sqlite)?;
            }
            supply(&mut |submission| {
                let outcome = ledger.record(&submission).map_err(sqlite)?;
                supplied += usize::from(outcome.recorded() == Recorded::Inserted);
                Ok(())
            })?;
            bulk.end().map_err(sqlite)?;
            order::advance(conn, &shape).map_err(sqlite)
        })?;
        let aside = copy::dated_name(path, "corrupt", now);
        let moved = |error| Error::io(path, "the corrupt database can't be moved aside", error);
        fs::hard_link(path, &aside).map_err(moved)?;
        // The old log must not be there when the new file appears: SQLite would think it belonged to it.
        for ending in ["-wal", "-shm", "-journal"] {
            match fs::rename(with_ending(path, ending), with_ending(&aside, ending)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(moved(error)),
                _ => {}
            }
        }
        new.persist(path).map_err(|error| Error::io(path, "the new database can't take its place", error.error))?;
        tracing::warn!(aside = %aside.display(), "the history was corrupt; it was moved aside and built anew");
        Ok(Some(Rebuilt { aside, salvaged: rows.len(), supplied }))
    }
}

/// SQLite's own word: corrupt, or not a database. Judged as a check judges it, so that what the one finds the other mends.
fn is_corrupt(path: &Path, patience: Duration) -> Result<bool> {
    let check = || -> Result<bool> {
        let database = Database::open(path, Mode::Write, patience)?;
        let found = health::file(&database.conn).map_err(|error| database.error(error))?;
        Ok(!found.is_empty())
    };
    match check() {
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok(true),
        other => other,
    }
}

type Salvaged = BTreeMap<i64, (String, i64, Option<String>)>;

/// The rows that can still be read, from both ends up to where reading fails.
fn salvage(path: &Path) -> Salvaged {
    let mut rows = Salvaged::new();
    for direction in ["ASC", "DESC"] {
        // A failure ends this direction and nothing else: what was read so far counts.
        if let Err(error) = salvage_in(path, direction, &mut rows) {
            tracing::warn!(%error, direction, rows = rows.len(), "reading the corrupt history ended early");
        }
    }
    rows
}

fn salvage_in(path: &Path, direction: &str, rows: &mut Salvaged) -> rusqlite::Result<()> {
    let conn = Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    // Another table whose place in the file is wrong makes SQLite refuse the whole schema, but for those who write schemas.
    conn.pragma_update(None, "writable_schema", true)?;
    let sql = format!("SELECT id, prompt, created_at, cwd FROM history NOT INDEXED ORDER BY id {direction}");
    let mut statement = conn.prepare(&sql)?;
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        if let (Ok(id), Ok(ValueRef::Text(prompt)), Ok(created_at)) = (row.get(0), row.get_ref(1), row.get(2)) {
            let prompt = String::from_utf8_lossy(prompt).into_owned();
            rows.entry(id).or_insert((prompt, created_at, row.get(3).ok().flatten()));
        }
    }
    Ok(())
}

pub(crate) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}
