//! Replacing a file whole: a temporary file beside it, sync, rename over it, sync of the directory `[W4]`.
//!
//! Built from the primitives of a storage alone, so every storage has it and a recording one sees each step. It does not
//! decide whether the file may be replaced: locks and foreign writers are the caller's.

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{SessionStorage, StorageWriter};
use crate::error::{Error, ErrorKind, Result};

/// The new content of a file on its way. Nothing shows at the path before [`commit`](Replacement::commit); dropping it
/// removes the temporary file and leaves the old content alone.
///
/// A crash or power cut at any instant leaves the old or the new content, whole, and at worst a temporary file beside it
/// ([`is_temporary`]). When the path is a symbolic link, the file that it leads to is replaced.
///
/// ```
/// use std::path::Path;
/// use session_core::storage::{MemorySessionStorage, Replacement, SessionStorage};
/// # fn main() -> session_core::Result<()> {
/// let storage = MemorySessionStorage::new();
/// storage.write_text(Path::new("/x"), "old")?;
/// let mut new = Replacement::of(&storage, Path::new("/x"))?;
/// new.write(b"ne")?;
/// new.write(b"w")?;
/// assert_eq!(storage.read_text(Path::new("/x"))?, "old");
/// new.commit()?;
/// assert_eq!(storage.read_text(Path::new("/x"))?, "new");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Replacement<'a, S: SessionStorage + ?Sized> {
    storage: &'a S,
    target: PathBuf,
    temporary: PathBuf,
    writer: Option<Box<dyn StorageWriter>>,
    committed: bool,
}

impl<'a, S: SessionStorage + ?Sized> Replacement<'a, S> {
    /// Starts a replacement of `path`, which need not exist; its directory must.
    pub fn of(storage: &'a S, path: &Path) -> Result<Self> {
        let target = storage.resolve(path);
        let (Some(dir), Some(name)) = (target.parent(), target.file_name()) else {
            return Err(Error::new(ErrorKind::InvalidInput, "a file cannot have this name").at(path));
        };
        // A name in use is no accident worth a second thought, only worth another name.
        for _ in 0..8 {
            let temporary = dir.join(temporary_name(name));
            match storage.create_new(&temporary) {
                Ok(writer) => return Ok(Self { storage, target, temporary, writer: Some(writer), committed: false }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::new(ErrorKind::Io, "found no free name for a temporary file beside it").at(path))
    }

    /// Adds `bytes` to the new content.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.writer {
            Some(writer) => writer.write(bytes),
            None => Err(Error::new(ErrorKind::Closed, "the new content is complete already").at(&self.target)),
        }
    }

    /// Completes the new content: synced and closed, still beside the file. What is checked between this and
    /// [`commit`](Replacement::commit) is checked as late as can be.
    pub fn complete(&mut self) -> Result<()> {
        if let Some(mut writer) = self.writer.take() {
            writer.flush()?;
            writer.fsync()?;
            writer.close()?;
        }
        Ok(())
    }

    /// Completes the new content and gives it a modification time, so that a rewrite makes no session the most recent
    /// `[F6a]`.
    pub fn set_modified(&mut self, time: SystemTime) -> Result<()> {
        self.complete()?;
        self.storage.set_modified(&self.temporary, time)
    }

    /// Puts the new content in place. When this returns it survives a power cut.
    ///
    /// # Errors
    /// The old content is in place and the temporary file gone, unless only the sync of the directory failed: then the new
    /// content is in place, and a power cut may bring the old back.
    pub fn commit(mut self) -> Result<()> {
        self.complete()?;
        self.storage.rename(&self.temporary, &self.target)?;
        self.committed = true;
        match self.target.parent() {
            Some(dir) => self.storage.sync_dir(dir),
            None => Ok(()),
        }
    }

    /// Puts the new content in place without waiting for the medium, for what may be lost: whole for every process when this
    /// returns; after a power cut there is the old content, the new, or an empty file.
    ///
    /// # Errors
    /// The old content is in place and the temporary file gone.
    pub fn commit_soon(mut self) -> Result<()> {
        if let Some(mut writer) = self.writer.take() {
            writer.flush()?;
            writer.close()?;
        }
        self.storage.rename(&self.temporary, &self.target)?;
        self.committed = true;
        Ok(())
    }
}

impl<S: SessionStorage + ?Sized> Drop for Replacement<'_, S> {
    fn drop(&mut self) {
        if !self.committed {
            drop(self.writer.take());
            if let Err(error) = self.storage.unlink(&self.temporary) {
                tracing::warn!(%error, "a temporary file could not be removed; it is safe to delete");
            }
        }
    }
}

/// Whether a file name is one of our temporary names: what a crash in the middle of a replacement may leave. Such a file is
/// never the only copy of anything once it is older than any process that could be writing it.
pub fn is_temporary(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    let Some(stem) = name.strip_prefix(b".").and_then(|rest| rest.strip_suffix(b".tmp")) else {
        return false;
    };
    let Some(dot) = stem.len().checked_sub(17) else {
        return false;
    };
    stem[dot] == b'.' && stem[dot + 1..].iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

/// A hidden name that nobody can guess and no `*.jsonl` pattern finds, short enough for a long `name`.
pub(super) fn temporary_name(name: &OsStr) -> OsString {
    // Names have 255 bytes at most; ours needs 22 beside what it keeps of the original, a character being 4 at most.
    const KEPT: usize = 50;
    // Each `RandomState` is keyed from the operating system's randomness.
    let random = RandomState::new().build_hasher().finish();
    let kept: String = name.to_string_lossy().chars().take(KEPT).collect();
    OsString::from(format!(".{kept}.{random:016x}.tmp"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_names_are_unique_hidden_and_known_again() {
        // [W4, K20]
        let name = OsStr::new("2026-01-05T09-30-00-250Z_0000000000400002.jsonl");
        let names: std::collections::HashSet<_> = (0..1000).map(|_| temporary_name(name)).collect();
        assert_eq!(names.len(), 1000);
        for name in &names {
            assert!(is_temporary(name), "{name:?}");
            assert!(name.as_encoded_bytes().starts_with(b"."));
        }
        let long = "é".repeat(127);
        let temporary = temporary_name(OsStr::new(&long));
        assert!(temporary.len() <= 255 && is_temporary(&temporary));
        for other in ["x.jsonl", ".tmp", "..tmp", ".x.tmp", ".x.0123456789abcdeg.tmp", "x.0123456789abcdef.tmp"] {
            assert!(!is_temporary(OsStr::new(other)), "{other}");
        }
    }
}
