//! The artifacts of a session `[D9, D9a]`: long tool output, kept in files beside the session.
//!
//! They lie in the directory named like the session file without `.jsonl`, as `<n>.<tool>.log`. Other files there
//! (sub-agents' sessions, notes) are not ours: never numbered, never listed, but they go where the session goes.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::layout::artifact_dir;
use crate::storage::{FileKind, SessionStorage};

/// The number of an artifact, unique in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArtifactId(u64);

impl ArtifactId {
    /// Reads an id as it is written: decimal digits. None for everything else.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().ok().map(Self)).flatten()
    }

    /// The number.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ArtifactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A saved artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// Its number.
    pub id: ArtifactId,
    /// The tool that made it, as it stands in the file name.
    pub tool: String,
    /// Where it is.
    pub path: PathBuf,
}

/// The artifacts of one session.
///
/// ```
/// use std::sync::Arc;
/// use session_core::{Artifacts, storage::MemorySessionStorage};
/// let storage = Arc::new(MemorySessionStorage::new());
/// let artifacts = Artifacts::of_session(storage, "/s/x.jsonl".as_ref())?;
/// let id = artifacts.save("a long listing", "bash")?;
/// assert_eq!(artifacts.path(id)?.unwrap(), std::path::Path::new("/s/x/0.bash.log"));
/// assert_eq!(artifacts.save("more", "read")?.to_string(), "1");
/// # Ok::<(), session_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Artifacts {
    storage: Arc<dyn SessionStorage>,
    dir: PathBuf,
}

impl Artifacts {
    /// The artifacts of the session in `file`. Nothing is made or looked at yet.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when the file's name does not end in `.jsonl`: there is no name for a directory then.
    pub fn of_session(storage: Arc<dyn SessionStorage>, file: &Path) -> Result<Self> {
        let Some(dir) = artifact_dir(file) else {
            let message = "only a session whose file name ends in `.jsonl` has a place for artifacts: rename it";
            return Err(Error::new(ErrorKind::InvalidInput, message).at(file));
        };
        Ok(Self { storage, dir })
    }

    /// The directory; it need not exist.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Saves `text` as the next artifact. On the medium when this returns: a crash or power cut after it loses nothing, one
    /// before it leaves at worst a file that nobody was told of. Nothing is ever overwritten, and two processes never get the
    /// same number.
    ///
    /// Letters, digits, `-`, `_` and `.` of the tool's name stand in the file name as they are, all else as `%XX`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for a tool without a name or with one too long for a file name; otherwise what the storage
    /// says, and then nothing is left.
    pub fn save(&self, text: &str, tool: &str) -> Result<ArtifactId> {
        let tool = file_name_part(tool).ok_or_else(|| {
            Error::new(ErrorKind::InvalidInput, "the tool's name is empty or too long for a file name").at(&self.dir)
        })?;
        self.storage.ensure_dir(&self.dir)?;
        loop {
            let claim = self.claim()?;
            match self.write(&self.dir.join(format!("{}.{tool}.log", claim.id)), text) {
                Ok(()) => return Ok(claim.id),
                // A program that knows no claims was faster.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The artifact's file; none when there is no such artifact.
    pub fn path(&self, id: ArtifactId) -> Result<Option<PathBuf>> {
        Ok(self.list()?.into_iter().find(|artifact| artifact.id == id).map(|artifact| artifact.path))
    }

    /// All artifacts, by number. A missing directory has none.
    pub fn list(&self) -> Result<Vec<Artifact>> {
        let items = self.storage.read_dir(&self.dir)?.unwrap_or_default();
        let files = items.into_iter().filter(|item| item.kind == Some(FileKind::File));
        let mut artifacts: Vec<Artifact> = files.filter_map(|item| artifact(item.path)).collect();
        artifacts.sort_by(|a, b| (a.id, &a.path).cmp(&(b.id, &b.path)));
        Ok(artifacts)
    }

    /// Copies the whole directory for another session, whose directory must not exist yet; nothing when this one has none.
    /// Synced before it returns.
    pub fn copy_to(&self, session: &Self) -> Result<()> {
        if self.storage.exists(&self.dir)? { self.storage.copy(&self.dir, &session.dir) } else { Ok(()) }
    }

    /// Moves the whole directory to another session's place, where nothing may be yet; nothing when this one has none. The
    /// new name is on the medium when this returns; a crash leaves the directory in one place or the other.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`] when something is at the target; nothing has moved then.
    pub fn move_to(&self, session: &Self) -> Result<()> {
        if !self.storage.exists(&self.dir)? {
            return Ok(());
        }
        if self.storage.exists(&session.dir)? {
            let message = "artifacts cannot move here, since another session's lie here already";
            return Err(Error::new(ErrorKind::AlreadyExists, message).at(&session.dir));
        }
        self.storage.rename(&self.dir, &session.dir)?;
        for dir in [&session.dir, &self.dir] {
            if let Some(parent) = dir.parent() {
                self.storage.sync_dir(parent)?;
            }
        }
        Ok(())
    }

    /// Removes the directory with all in it; nothing when there is none `[S3]`.
    pub fn remove(&self) -> Result<()> {
        if self.storage.exists(&self.dir)? { self.storage.remove_tree(&self.dir) } else { Ok(()) }
    }

    /// Reserves the next number. The names `8.read.log` and `8.bash.log` differ, so creating the file itself would not keep
    /// another process from the number; creating the claim does. The numbers in use are read again once it is held: whoever
    /// held it before has left a file.
    fn claim(&self) -> Result<Claim<'_>> {
        let mut number = self.next_number()?;
        loop {
            let claim = self.dir.join(format!(".{number}{CLAIM}"));
            match self.storage.create_new(&claim) {
                Ok(writer) => {
                    let claim = Claim { storage: &*self.storage, path: claim, id: ArtifactId(number) };
                    writer.close()?;
                    let next = self.next_number()?;
                    if next <= number {
                        return Ok(claim);
                    }
                    number = next;
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    number = number.checked_add(1).ok_or_else(|| self.full())?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn next_number(&self) -> Result<u64> {
        // Whatever kind of thing has the name: a directory or a dangling link is in the way as well.
        let items = self.storage.read_dir(&self.dir)?.unwrap_or_default();
        match items.into_iter().filter_map(|item| artifact(item.path)).map(|artifact| artifact.id).max() {
            Some(id) => id.0.checked_add(1).ok_or_else(|| self.full()),
            None => Ok(0),
        }
    }

    fn full(&self) -> Error {
        Error::new(ErrorKind::TooLarge, "the numbers for artifacts are used up: rename the one with the highest")
            .at(&self.dir)
    }

    fn write(&self, path: &Path, text: &str) -> Result<()> {
        let mut writer = self.storage.create_new(path)?;
        let written = writer.write(text.as_bytes()).and_then(|()| writer.flush()).and_then(|()| writer.fsync());
        let written = written.and(writer.close()).and_then(|()| self.storage.sync_dir(&self.dir));
        if written.is_err()
            && let Err(error) = self.storage.unlink(path)
        {
            tracing::warn!(%error, "half an artifact could not be removed; it is safe to delete");
        }
        written
    }
}

/// The end of the name that reserves a number. A crash may leave such a file: that number is then passed over.
const CLAIM: &str = ".claim";

/// A number that no other process takes while this lives.
struct Claim<'a> {
    storage: &'a dyn SessionStorage,
    path: PathBuf,
    id: ArtifactId,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.storage.unlink(&self.path) {
            tracing::warn!(%error, "the reservation of an artifact's number could not be removed; it is safe to delete");
        }
    }
}

/// Reads `<n>.<tool>.log`.
fn artifact(path: PathBuf) -> Option<Artifact> {
    let (number, tool) = path.file_name()?.to_str()?.strip_suffix(".log")?.split_once('.')?;
    let (id, tool) = (ArtifactId::parse(number)?, tool.to_owned());
    Some(Artifact { id, tool, path })
}

/// The tool's name as part of a file name; none when it cannot be one.
fn file_name_part(tool: &str) -> Option<String> {
    // A file name has 255 bytes at most; a number and `.log` come to it.
    const MAX_BYTES: usize = 200;
    let mut part = String::with_capacity(tool.len());
    for c in tool.chars() {
        if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') {
            part.push(c);
        } else {
            let mut bytes = [0; 4];
            part.extend(c.encode_utf8(&mut bytes).bytes().map(|byte| format!("%{byte:02X}")));
        }
    }
    (!part.is_empty() && part.len() <= MAX_BYTES).then_some(part)
}
