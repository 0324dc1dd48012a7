//! Copies of a whole database by SQLite's backup interface: consistent, whoever is writing, and without the write lock.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{
    Connection, Transaction, TransactionBehavior,
    backup::{Backup, StepResult},
};
use tempfile::TempPath;

use crate::error::{Error, Result};

/// So many pages are copied before others get a turn, where copying keeps them from writing.
const PAGES: i32 = 1024;
/// After so many turns the rest is copied in one: each write of somebody else begins such a copy anew.
const TURNS: usize = 1000;

/// An empty private file beside `path` that nobody has open.
pub(crate) fn private_file_beside(path: &Path) -> Result<TempPath> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let file = tempfile::Builder::new()
        .prefix(".history-")
        .suffix(".tmp")
        .permissions(fs::Permissions::from_mode(0o600))
        .tempfile_in(dir);
    Ok(file.map_err(|error| Error::io(path, "no file can be made beside it", error))?.into_temp_path())
}

/// A copy of the database in a private file beside `path`, one file without a journal.
pub(crate) fn copy(from: &Connection, path: &Path) -> Result<TempPath> {
    let temporary = private_file_beside(path)?;
    let run = || -> rusqlite::Result<()> {
        let mut to = Connection::open(&temporary)?;
        copy_pages(from, &mut to)?;
        to.pragma_update_and_check(None, "journal_mode", "delete", |_| Ok(()))?;
        to.close().map_err(|(_, error)| error)
    };
    run().map_err(|error| Error::sqlite(path, error))?;
    Ok(temporary)
}

fn copy_pages(from: &Connection, to: &mut Connection) -> rusqlite::Result<()> {
    // With a write-ahead log a reader keeps nobody from writing, and what it sees stays as it is: no copy begins anew.
    let snapshot = Transaction::new_unchecked(from, TransactionBehavior::Deferred)?;
    let journal: String = snapshot.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    let in_log = journal == "wal";
    if in_log {
        snapshot.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(()))?;
    }
    let backup = Backup::new(&snapshot, to)?;
    for turn in 0.. {
        match backup.step(if in_log || turn >= TURNS { -1 } else { PAGES })? {
            StepResult::Done => break,
            StepResult::More => std::thread::sleep(Duration::from_millis(1)),
            // It has waited as long as the connection's patience goes.
            _ => {
                return Err(rusqlite::Error::SqliteFailure(
                    rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY),
                    None,
                ));
            }
        }
    }
    Ok(())
}

/// Gives a finished copy its name beside `path`, see [`dated_name`]. It replaces nothing.
pub(crate) fn keep(mut copy: TempPath, path: &Path, what: &str, now: i64) -> Result<PathBuf> {
    loop {
        let name = dated_name(path, what, now);
        match copy.persist_noclobber(&name) {
            Ok(()) => return Ok(name),
            // Another process was faster.
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => copy = error.path,
            Err(error) => return Err(Error::io(&name, "the copy can't be kept", error.error)),
        }
    }
}

/// A name beside `path` that tells what the file is and when it was made; a number is added until it is free.
pub(crate) fn dated_name(path: &Path, what: &str, now: i64) -> PathBuf {
    let date = jiff::Timestamp::from_second(now)
        .map_or_else(|_| now.to_string(), |time| time.strftime("%Y%m%dT%H%M%SZ").to_string());
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{what}-{date}"));
    let mut candidate = PathBuf::from(&name);
    let mut number = 1;
    while fs::symlink_metadata(&candidate).is_ok() {
        number += 1;
        let mut numbered = name.clone();
        numbered.push(format!("-{number}"));
        candidate = PathBuf::from(numbered);
    }
    candidate
}

/// The copies that were made beside a database, and databases that were moved aside.
pub(crate) fn kept_beside(path: &Path) -> Vec<PathBuf> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
    let ours = [format!("{name}.before-watcher-"), format!("{name}.corrupt-")];
    let mut kept: Vec<PathBuf> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|file| file.file_name().to_str().is_some_and(|name| ours.iter().any(|start| name.starts_with(start))))
        .map(|file| file.path())
        .collect();
    kept.sort();
    kept
}
