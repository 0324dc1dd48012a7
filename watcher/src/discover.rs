//! Which session files an agent directory holds: those directly in its session directories. Sub-agents' files lie deeper
//! and are none of them `[D9]`.

use std::path::{Path, PathBuf};

use session_core::Result;
use session_core::storage::{FileKind, SessionStorage};

/// Whether a name is that of a session file.
pub(crate) fn is_session_name(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jsonl")
        && !path.file_name().is_some_and(session_core::storage::is_temporary)
}

/// The session directories, sorted; none when there is no directory of sessions.
pub(crate) fn dirs(storage: &dyn SessionStorage, sessions: &Path) -> Result<Vec<PathBuf>> {
    let items = storage.read_dir(sessions)?.unwrap_or_default();
    Ok(items.into_iter().filter(|item| item.kind == Some(FileKind::Directory)).map(|item| item.path).collect())
}

/// The session files in one session directory, sorted.
pub(crate) fn files(storage: &dyn SessionStorage, dir: &Path) -> Result<Vec<PathBuf>> {
    let items = storage.read_dir(dir)?.unwrap_or_default();
    let files = items.into_iter().filter(|item| item.kind == Some(FileKind::File));
    Ok(files.map(|item| item.path).filter(|path| is_session_name(path)).collect())
}
