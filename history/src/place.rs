//! Where a new database file comes from: private from its first byte, complete when it appears, and never made by
//! opening an existing one (closing a plain file handle would drop the locks of SQLite's connections in this process).

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::Path,
};

use rusqlite::Connection;

use crate::{
    error::{Error, Result},
    meta, schema,
};

/// Makes a database of ours at `path` unless something is there already.
///
/// It is built beside the place under an unguessable name and appears in one step, with schema and journal mode, so a
/// process that opens it at the same moment finds nothing or all of it. Someone else's database that appears first
/// wins.
pub(crate) fn create_if_missing(path: &Path) -> Result<()> {
    if fs::symlink_metadata(path).is_ok() {
        return Ok(());
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|error| Error::io(path, "its directory can't be made", error))?;
    let temporary = tempfile::Builder::new()
        .prefix(".history-")
        .suffix(".new")
        .permissions(fs::Permissions::from_mode(0o600))
        .tempfile_in(dir)
        .map_err(|error| Error::io(path, "it can't be made", error))?
        .into_temp_path();
    let build = || -> rusqlite::Result<()> {
        let mut conn = Connection::open(&temporary)?;
        set_journal(&conn, path)?;
        let transaction = conn.transaction()?;
        schema::create(&transaction)?;
        meta::set(&transaction, meta::CREATED_BY_US, 1)?;
        transaction.commit()?;
        conn.close().map_err(|(_, error)| error)
    };
    build().map_err(|error| Error::sqlite(path, error))?;
    match temporary.persist_noclobber(path) {
        Ok(()) => Ok(()),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(Error::io(path, "it can't be made", error.error)),
    }
}

/// Chooses the journal of a database that we create.
pub(crate) fn set_journal(conn: &Connection, _path: &Path) -> rusqlite::Result<()> {
    conn.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))
}
