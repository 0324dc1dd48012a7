//! One connection with its settings, and what it knows of the form of the database. It holds no rules.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior, config::DbConfig};

use crate::{
    error::{Error, ErrorKind, Result},
    occupancy::{self, Occupancy},
    schema::{self, Shape},
    slice::{Pace, Slice},
};

/// The first SQLite in which resetting the write-ahead log can't lose a transaction to a race.
const OLDEST_SQLITE: i32 = 3_051_003;

/// A store's writer and its reader.
const CONNECTIONS: usize = 2;

/// A connection and the form of the database as it last saw it.
pub(crate) struct Database {
    pub(crate) conn: Connection,
    pub(crate) path: PathBuf,
    known: Option<Shape>,
    pace: Pace,
}

/// How much care commits took before it was lessened.
#[must_use]
#[derive(Clone, Copy)]
pub(crate) struct Care(Option<i64>);

/// How a connection is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Reading and writing, where the file allows it.
    Write,
    /// Only reading, beside others who write.
    Read,
    /// Only reading a file that nobody writes: no locks, no files beside it.
    Immutable,
}

impl Database {
    pub(crate) fn open(path: &Path, mode: Mode, patience: Duration) -> Result<Self> {
        let version = rusqlite::version_number();
        if version < OLDEST_SQLITE {
            let message = format!("this program was built with SQLite {}, 3.51.3 is needed", rusqlite::version());
            return Err(Error::new(ErrorKind::Sqlite, path, message));
        }
        let access = match mode {
            Mode::Write => OpenFlags::SQLITE_OPEN_READ_WRITE,
            Mode::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
            Mode::Immutable => OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI,
        };
        let name = if mode == Mode::Immutable { immutable_uri(path) } else { path.into() };
        let open = || -> rusqlite::Result<Connection> {
            let conn = Connection::open_with_flags(&name, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
            conn.busy_timeout(patience)?;
            conn.set_prepared_statement_cache_capacity(64);
            // The plan of a statement with a partial index would be made anew for each value that is bound.
            conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
            // Closing the last connection writes the log into the file and removes it: not before the file is known to
            // be well, see `trust`.
            conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            Ok(conn)
        };
        let conn = open().map_err(|error| Error::sqlite(path, error))?;
        Ok(Self { conn, path: path.into(), known: None, pace: Pace::default() })
    }

    /// The file has turned out to be a database: closing it may tidy up behind us.
    pub(crate) fn trust(&self) -> rusqlite::Result<()> {
        self.conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).map(drop)
    }

    /// The form of the database, read anew when anything in the schema changed.
    pub(crate) fn shape(&mut self) -> rusqlite::Result<Shape> {
        shape_of(&self.conn, &mut self.known)
    }

    /// A transaction that has the write lock, the form of the database inside it, and how long it may take.
    pub(crate) fn begin(&mut self) -> rusqlite::Result<(Transaction<'_>, Shape, Slice)> {
        let transaction = Transaction::new_unchecked(&self.conn, TransactionBehavior::Immediate)?;
        let slice = self.pace.slice();
        let shape = shape_of(&transaction, &mut self.known)?;
        Ok((transaction, shape, slice))
    }

    /// A transaction that sees one state of the database, and its form.
    pub(crate) fn snapshot(&mut self) -> rusqlite::Result<(Transaction<'_>, Shape)> {
        let transaction = Transaction::new_unchecked(&self.conn, TransactionBehavior::Deferred)?;
        let shape = shape_of(&transaction, &mut self.known)?;
        Ok((transaction, shape))
    }

    /// Does long work whose loss would cost nothing but doing it again: with a write-ahead log, no commit of it waits for
    /// the medium while others wait for the lock.
    pub(crate) fn unhurried<T>(&mut self, work: impl FnOnce(&mut Self) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        let before = self.relax()?;
        let result = work(self);
        self.restore(before)?;
        result
    }

    /// From now on commits are with the kernel when they return, not on the medium: a power cut may take the latest of them,
    /// never a part of one. Only with a write-ahead log; a rollback journal would not survive that. What was so before.
    pub(crate) fn relax(&self) -> rusqlite::Result<Care> {
        let journal: String = self.conn.prepare_cached("PRAGMA journal_mode")?.query_row([], |row| row.get(0))?;
        if journal != "wal" {
            return Ok(Care(None));
        }
        let before = self.conn.prepare_cached("PRAGMA synchronous")?.query_row([], |row| row.get(0))?;
        self.conn.pragma_update(None, "synchronous", "normal")?;
        Ok(Care(Some(before)))
    }

    /// The end of that.
    pub(crate) fn restore(&self, before: Care) -> rusqlite::Result<()> {
        before.0.map_or(Ok(()), |before| self.conn.pragma_update(None, "synchronous", before))
    }

    /// Learns from a slice that is committed.
    pub(crate) fn learn(&mut self, slice: &Slice) {
        self.pace.learn(slice);
    }

    /// The gap after the last slice, before the next.
    pub(crate) fn rest(&mut self) {
        let path = &self.path;
        self.pace.rest(|| is_alone(path));
    }

    /// Whether nobody but this store has the database open, as far as can be told.
    pub(crate) fn is_alone(&self) -> bool {
        is_alone(&self.path)
    }

    /// Whether SQLite opened the file for writing.
    pub(crate) fn is_writable(&mut self) -> Result<bool> {
        self.conn.is_readonly("main").map(|only| !only).map_err(|error| self.error(error))
    }

    pub(crate) fn error(&self, error: rusqlite::Error) -> Error {
        Error::sqlite(&self.path, error)
    }
}

fn is_alone(path: &Path) -> bool {
    occupancy::beside(path, CONNECTIONS) == Occupancy::Free
}

fn shape_of(conn: &Connection, known: &mut Option<Shape>) -> rusqlite::Result<Shape> {
    let version = schema::version(conn)?;
    match known {
        Some(shape) if shape.version == version => Ok(shape.clone()),
        _ => Ok(known.insert(Shape::read(conn)?).clone()),
    }
}

fn immutable_uri(path: &Path) -> PathBuf {
    use std::{fmt::Write as _, os::unix::ffi::OsStrExt as _};
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.into());
    let mut uri = "file:".to_owned();
    for byte in absolute.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.~".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri.push_str("?immutable=1");
    uri.into()
}
