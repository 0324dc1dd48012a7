//! Deleting a session for good `[S3]`. Who may still want it is asked before: [`session_writers`], or the
//! [trash](crate::Trash), which takes nothing away.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::artifacts::Artifacts;
use crate::error::{Error, ErrorKind, Result};
use crate::layout::artifact_dir;
use crate::storage::{FileKind, Holder, SessionStorage};

/// Removes a session file, then the directory of its artifacts with all in it `[S3]`. The names are gone from the medium
/// when this returns; a crash in between leaves artifacts without a session, never a session without its artifacts.
///
/// # Errors
/// [`ErrorKind::NotFound`] and [`ErrorKind::NotAFile`] when `path` is no file: nothing is removed then. When the file went
/// and the artifacts did not, the error is at their path, and removing that path finishes the work.
///
/// ```
/// use std::{path::Path, sync::Arc};
/// use session_core::storage::{MemorySessionStorage, SessionStorage};
/// use session_core::delete_session_with_artifacts;
/// let storage: Arc<dyn SessionStorage> = Arc::new(MemorySessionStorage::new());
/// storage.ensure_dir(Path::new("/s/x"))?;
/// storage.write_text(Path::new("/s/x.jsonl"), "{}\n")?;
/// storage.write_text(Path::new("/s/x/0.bash.log"), "long")?;
/// delete_session_with_artifacts(&storage, Path::new("/s/x.jsonl"))?;
/// assert!(!storage.exists(Path::new("/s/x"))? && !storage.exists(Path::new("/s/x.jsonl"))?);
/// # Ok::<(), session_core::Error>(())
/// ```
pub fn delete_session_with_artifacts(storage: &Arc<dyn SessionStorage>, path: &Path) -> Result<()> {
    check_file(&**storage, path)?;
    storage.unlink(path)?;
    if let Ok(artifacts) = Artifacts::of_session(Arc::clone(storage), path) {
        let left = |error: Error| {
            let message = format!("the session is gone, its artifacts are left here: {error}");
            Error::new(error.kind(), message).at(artifacts.dir())
        };
        artifacts.remove().map_err(left)?;
    }
    path.parent().map_or(Ok(()), |dir| storage.sync_dir(dir))
}

/// Whether `path` is a regular file that can be taken away.
pub(crate) fn check_file(storage: &dyn SessionStorage, path: &Path) -> Result<()> {
    match storage.stat(path)? {
        Some(stat) if stat.kind == FileKind::File => Ok(()),
        Some(_) => Err(Error::new(ErrorKind::NotAFile, "this is no session file").at(path)),
        None => Err(Error::new(ErrorKind::NotFound, "there is no such session file").at(path)),
    }
}

/// Processes other than this one that write a session: they have its file open for writing, or that of a sub-agent's session
/// among its artifacts. Each with the file that it has open.
///
/// As far as the platform can tell ([`SessionStorage::writers_of`]): a program that opens the file only to write a line is
/// seen only while it does. An empty list is no promise.
///
/// # Errors
/// What kept us from looking.
pub fn session_writers(storage: &dyn SessionStorage, path: &Path) -> Result<Vec<(PathBuf, Holder)>> {
    let mut files = vec![path.to_path_buf()];
    let mut dirs: Vec<PathBuf> = artifact_dir(path).into_iter().collect();
    while let Some(dir) = dirs.pop() {
        for item in storage.read_dir(&dir)?.unwrap_or_default() {
            match item.kind {
                Some(FileKind::Directory) => dirs.push(item.path),
                Some(FileKind::File) if artifact_dir(&item.path).is_some() => files.push(item.path),
                _ => {}
            }
        }
    }
    let mut writers = Vec::new();
    for file in files {
        for holder in storage.writers_of(&file, &file)? {
            writers.push((file.clone(), holder));
        }
    }
    Ok(writers)
}
