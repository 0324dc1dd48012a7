//! Connections that ask questions, and what remains possible when the database can't be written `[H5, K42]`.

use std::{fs, path::Path, sync::PoisonError};

use crate::{
    database::{Database, Mode},
    error::{ErrorKind, Result},
    occupancy::{self, Occupancy},
    options::OpenOptions,
    rebuild::with_ending,
    storage::Notice,
    writer::Notices,
};

/// A connection that refuses to write, once it has read the form of the database.
pub(crate) fn reader(path: &Path, mode: Mode, options: &OpenOptions) -> Result<Database> {
    let mut database = Database::open(path, mode, options.patience)?;
    // A negative size is one in kibibytes.
    let ready = database.conn.pragma_update(None, "cache_size", -i64::from(options.cache));
    let ready =
        ready.and_then(|()| database.conn.pragma_update(None, "query_only", true)).and_then(|()| database.shape());
    let ready = ready.and_then(|_| database.trust());
    ready.map_err(|error| database.error(error))?;
    Ok(database)
}

/// A connection that only reads. Where SQLite can't make the files that reading beside writers needs (a directory that
/// is read-only), and nobody has the database open, it is read as a file that can't change.
pub(crate) fn open(path: &Path, options: &OpenOptions, notices: &Notices) -> Result<Database> {
    let error = match reader(path, Mode::Read, options) {
        Err(error) if matches!(error.kind(), ErrorKind::ReadOnly | ErrorKind::Io) => error,
        other => return other,
    };
    if fs::metadata(path).is_err() || occupancy::of(path) != Occupancy::Free {
        return Err(error);
    }
    let database = reader(path, Mode::Immutable, options)?;
    let log = with_ending(path, "-wal");
    if fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        tracing::warn!(log = %log.display(), "the history is read without its write-ahead log; rows in that are missing");
        notices.lock().unwrap_or_else(PoisonError::into_inner).push(Notice::UnreadLog(log));
    }
    Ok(database)
}
