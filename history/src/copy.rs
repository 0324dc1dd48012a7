//! Copies of a whole database by SQLite's backup interface: consistent, whoever is writing, and without the write lock.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, backup::Backup};
use tempfile::TempPath;

use crate::error::{Error, Result};

/// So many pages are copied before others get a turn.
const PAGES: i32 = 1024;

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
        Backup::new(from, &mut to)?.run_to_completion(PAGES, Duration::from_millis(1), None)?;
        to.pragma_update_and_check(None, "journal_mode", "delete", |_| Ok(()))?;
        to.close().map_err(|(_, error)| error)
    };
    run().map_err(|error| Error::sqlite(path, error))?;
    Ok(temporary)
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
