//! Where a new database file comes from: private from its first byte, complete when it appears, and never made by
//! opening an existing one (closing a plain file handle would drop the locks of SQLite's connections in this process).

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

use rusqlite::Connection;
use tempfile::TempPath;

use crate::{
    copy,
    error::{Error, ErrorKind, Result},
    meta, schema,
};

/// The one name of a database, whatever link or relative path leads to it: what lies beside it (SQLite's own files, the
/// list of deleted prompts, copies) is found again by another store, and after a change of the working directory.
///
/// # Errors
/// What is there and is no file: SQLite would wait for ever for somebody to write into a pipe.
pub(crate) fn real(path: &Path) -> Result<PathBuf> {
    let failed = |error| Error::io(path, "it can't be reached", error);
    match fs::metadata(path) {
        Ok(found) if found.is_file() => fs::canonicalize(path).map_err(failed),
        Ok(_) => Err(Error::new(ErrorKind::Io, path, "this is no file; name the database itself")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => std::path::absolute(path).map_err(failed),
        Err(error) => Err(failed(error)),
    }
}

/// What tells a file from another one that has its name later.
pub(crate) type Identity = (u64, u64);

/// Which file is at a path; none when nothing is. It is looked at and not opened.
pub(crate) fn identity(path: &Path) -> Result<Option<Identity>> {
    match fs::metadata(path) {
        Ok(found) => Ok(Some((found.dev(), found.ino()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(path, "it can't be looked at", error)),
    }
}

/// Makes a database of ours at `path` unless something is there already.
///
/// It is built beside the place under an unguessable name and appears in one step, with schema and journal mode, so a
/// process that opens it at the same moment finds nothing or all of it. Someone else's database that appears first
/// wins.
pub(crate) fn create_if_missing(path: &Path) -> Result<()> {
    if fs::symlink_metadata(path).is_ok() {
        return Ok(());
    }
    let new = build(path, |_| Ok(()))?;
    match new.persist_noclobber(path) {
        Ok(()) => Ok(()),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(Error::io(path, "it can't be made", error.error)),
    }
}

/// Builds a database of ours beside `path`, fills it with `fill` in one transaction, and hands over the file.
pub(crate) fn build(path: &Path, fill_rows: impl FnOnce(&Connection) -> Result<()>) -> Result<TempPath> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|error| Error::io(path, "its directory can't be made", error))?;
    let temporary = copy::private_file_beside(path)?;
    let sqlite = |error| Error::sqlite(path, error);
    let mut conn = Connection::open(&temporary).map_err(sqlite)?;
    // Nobody else sees this file and a crash leaves nothing of it, so it needs no journal; a large cache spares merges.
    conn.pragma_update_and_check(None, "journal_mode", "off", |_| Ok(())).map_err(sqlite)?;
    conn.pragma_update(None, "synchronous", "off").map_err(sqlite)?;
    let transaction = conn.transaction().map_err(sqlite)?;
    fill(&transaction).map_err(sqlite)?;
    fill_rows(&transaction)?;
    transaction.commit().map_err(sqlite)?;
    conn.pragma_update(None, "synchronous", "full").map_err(sqlite)?;
    set_journal(&conn, path).map_err(sqlite)?;
    conn.close().map_err(|(_, error)| sqlite(error))?;
    let synced = fs::File::open(&temporary).and_then(|file| file.sync_all());
    synced.map_err(|error| Error::io(path, "it can't be made durable", error))?;
    Ok(temporary)
}

/// Makes an empty database ours.
pub(crate) fn fill(conn: &Connection) -> rusqlite::Result<()> {
    schema::create(conn)?;
    meta::set(conn, meta::CREATED_BY_US, 1)?;
    meta::set(conn, meta::FITS, schema::version(conn)?)
}

/// Chooses the journal of a database that we create: the write-ahead log, except where shared memory between processes
/// does not work.
pub(crate) fn set_journal(conn: &Connection, path: &Path) -> rusqlite::Result<()> {
    set_journal_for(conn, path, file_system_of(path))
}

fn set_journal_for(conn: &Connection, path: &Path, kind: Option<u32>) -> rusqlite::Result<()> {
    let mode = if kind.is_some_and(is_remote) {
        tracing::warn!(
            history = %path.display(),
            "this file system can't hold a write-ahead log; the history gets a rollback journal and is slower"
        );
        "truncate"
    } else {
        "wal"
    };
    conn.pragma_update_and_check(None, "journal_mode", mode, |_| Ok(()))
}

/// NFS, 9p, FUSE, SMB, CIFS, SMB2, Ceph, AFS and the shared folders of `VirtualBox`, as `statfs(2)` calls them.
const REMOTE: [u32; 9] =
    [0x6969, 0x0102_1997, 0x6573_5546, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x00c3_6400, 0x5346_414f, 0x786f_4256];

/// Whether a file system of this kind is one that other machines, or a host, may see at the same time.
fn is_remote(kind: u32) -> bool {
    REMOTE.contains(&kind)
}

#[cfg(target_os = "linux")]
fn file_system_of(path: &Path) -> Option<u32> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the numbers have 32 bits everywhere")]
    rustix::fs::statfs(dir).ok().map(|stat| stat.f_type as u32)
}

#[cfg(not(target_os = "linux"))]
fn file_system_of(_path: &Path) -> Option<u32> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h5_no_write_ahead_log_where_shared_memory_does_not_work() {
        let dir = tempfile::tempdir().unwrap();
        for (kind, expected) in [
            (Some(0x6969), "truncate"),
            (Some(0x0102_1997), "truncate"),
            (Some(0x6573_5546), "truncate"),
            (Some(0xef53), "wal"),
            (None, "wal"),
        ] {
            let path = dir.path().join(format!("{kind:?}.db"));
            let conn = Connection::open(&path).unwrap();
            set_journal_for(&conn, &path, kind).unwrap();
            let mode: String = conn.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
            assert_eq!(mode, expected, "{kind:?}");
        }
        assert!(
            file_system_of(&dir.path().join("history.db")).is_some_and(|kind| kind != 0) || !cfg!(target_os = "linux")
        );
    }
}
