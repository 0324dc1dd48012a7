//! The storage interface `[S1]`: everything that a session manager asks of a file system, and nothing else touches one.
//!
//! A storage is synchronous and object safe; others can be written outside this crate. Every error names the path. A missing
//! file is told apart from one that cannot be read: an I/O error never looks like "nothing there" `[L1]`.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use globset::Glob;

use crate::error::{Error, ErrorKind, Result};

/// What tells one file from another whatever its name: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileIdentity {
    /// The device that holds the file.
    pub device: u64,
    /// Its number on that device. A number is used again once a file is gone.
    pub inode: u64,
}

/// What kind of thing a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A device, a pipe, a socket.
    Other,
}

/// What is known of a file without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// What it is, symbolic links followed.
    pub kind: FileKind,
    /// Its length in bytes.
    pub len: u64,
    /// When its content last changed.
    pub modified: SystemTime,
    /// Which file it is.
    pub identity: FileIdentity,
    /// How many names it has; 0 for an open file that was deleted.
    pub links: u64,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirItem {
    /// The whole path.
    pub path: PathBuf,
    /// What it names, symbolic links followed; none for a dangling link or one that loops.
    pub kind: Option<FileKind>,
}

/// How a writer opens its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Every write goes to the end, wherever that is by then. Creates the file (0600) when missing.
    Append,
    /// Empties the file first. Creates it (0600) when missing.
    Truncate,
}

/// A process that has a file open for writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process id.
    pub pid: u32,
    /// Its command name, where it can be read.
    pub command: Option<String>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.command {
            Some(command) => write!(f, "process {} ({command})", self.pid),
            None => write!(f, "process {}", self.pid),
        }
    }
}

/// A file opened for reading ranges. It stays on the file that it was opened on, whatever is renamed over the path later.
pub trait StorageReader: Send + Sync + fmt::Debug {
    /// Reads up to `buffer.len()` bytes at `offset`; less only at the end of the file. Never moves a shared position.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize>;
    /// What the file is now.
    fn stat(&self) -> Result<Stat>;
}

/// A file opened for appending.
///
/// Dropping a writer closes it without saying whether that worked; [`close`](StorageWriter::close) says.
pub trait StorageWriter: Send + fmt::Debug {
    /// Writes `bytes` in one call to the kernel. When this returns, killing the process loses nothing of it `[W3]`; a power
    /// cut may, until [`fsync`](StorageWriter::fsync). After a short write nothing is taken back: the error says so.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;

    /// Writes `line` and a line feed in one call; the same promise as [`write`](StorageWriter::write).
    fn write_line(&mut self, line: &[u8]) -> Result<()> {
        let mut whole = Vec::with_capacity(line.len() + 1);
        whole.extend_from_slice(line);
        whole.push(b'\n');
        self.write(&whole)
    }

    /// Hands everything to the kernel. Storages without a buffer of their own have nothing to do.
    fn flush(&mut self) -> Result<()>;
    /// Returns when the file's content is on the medium: a power cut after it loses nothing `[W3]`.
    fn fsync(&mut self) -> Result<()>;
    /// Closes the file and reports what an operating system only says then.
    fn close(self: Box<Self>) -> Result<()>;
    /// The first error that this writer met.
    fn error(&self) -> Option<&Error>;
    /// What the file is now; `links` is 0 once it was deleted.
    fn stat(&self) -> Result<Stat>;
}

/// A lock that is held until it is dropped, or until its process ends in whatever way.
pub trait StorageLock: Send + fmt::Debug {}

/// Where sessions are stored.
///
/// # Contract
///
/// * What a storage creates is private: directories 0700, files 0600, whatever the umask `[D10]`.
/// * `rename` replaces its target at once: a reader sees the old or the new file, never none.
/// * Durability of names needs [`sync_dir`](SessionStorage::sync_dir) after a create or rename.
pub trait SessionStorage: Send + Sync + fmt::Debug {
    /// Makes the directory and its parents where missing.
    fn ensure_dir(&self, dir: &Path) -> Result<()>;
    /// What `path` is, symbolic links followed; none when there is nothing.
    fn stat(&self, path: &Path) -> Result<Option<Stat>>;
    /// The names in a directory, sorted; none when the directory does not exist.
    fn read_dir(&self, dir: &Path) -> Result<Option<Vec<DirItem>>>;
    /// Opens a regular file for reading ranges; a directory or device is [`ErrorKind::NotAFile`].
    fn open_reader(&self, path: &Path) -> Result<Box<dyn StorageReader>>;
    /// Opens a file for writing.
    fn open_writer(&self, path: &Path, mode: OpenMode) -> Result<Box<dyn StorageWriter>>;
    /// Creates a file that must not exist yet, and opens it for writing.
    fn create_new(&self, path: &Path) -> Result<Box<dyn StorageWriter>>;
    /// Replaces the file's content whole: temporary file, sync, rename. A crash leaves the old or the new text.
    fn write_text(&self, path: &Path, text: &str) -> Result<()>;
    /// Overwrites bytes inside an existing file in one call; never makes it longer.
    fn write_at(&self, path: &Path, offset: u64, bytes: &[u8]) -> Result<()>;
    /// Renames, replacing the target.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Removes a file.
    fn unlink(&self, path: &Path) -> Result<()>;
    /// Removes a directory with all that is in it; symbolic links in it are removed, not followed.
    fn remove_tree(&self, dir: &Path) -> Result<()>;
    /// Copies a file, or a directory with all in it, to a path that must not exist; synced before it returns.
    fn copy(&self, from: &Path, to: &Path) -> Result<()>;
    /// Returns when the names in `dir` are on the medium.
    fn sync_dir(&self, dir: &Path) -> Result<()>;
    /// Sets the modification time.
    fn set_modified(&self, path: &Path, time: SystemTime) -> Result<()>;
    /// The same path with symbolic links resolved as far as it exists `[D5]`.
    fn resolve(&self, path: &Path) -> PathBuf;
    /// Takes the lock file at `path`, created private and never deleted, writing `holder` into it, and waits up to `wait`.
    /// The kernel frees it when its process ends.
    ///
    /// # Errors
    /// [`ErrorKind::Locked`] with what the holder wrote, after `wait`.
    fn lock(&self, path: &Path, holder: &str, wait: Duration) -> Result<Box<dyn StorageLock>>;

    /// Processes other than this one that have the file open for writing, as far as the platform can tell (Linux). None of
    /// them can be seen elsewhere: an empty list is no promise.
    fn writers_of(&self, path: &Path) -> Result<Vec<Holder>> {
        let _ = path;
        Ok(Vec::new())
    }

    /// Whether something is at `path`.
    fn exists(&self, path: &Path) -> Result<bool> {
        Ok(self.stat(path)?.is_some())
    }

    /// Which file `path` names; none when there is nothing.
    fn identity(&self, path: &Path) -> Result<Option<FileIdentity>> {
        Ok(self.stat(path)?.map(|stat| stat.identity))
    }

    /// The regular files directly in `dir` whose names match `glob` (`*.jsonl`), sorted; none of a missing directory.
    fn list_files(&self, dir: &Path, glob: &str) -> Result<Vec<PathBuf>> {
        let matcher = Glob::new(glob)
            .map_err(|error| Error::new(ErrorKind::InvalidInput, format!("not a file pattern: {error}")).at(dir))?
            .compile_matcher();
        let items = self.read_dir(dir)?.unwrap_or_default();
        let files = items.into_iter().filter(|item| item.kind == Some(FileKind::File));
        Ok(files
            .map(|item| item.path)
            .filter(|path| path.file_name().is_some_and(|name| matcher.is_match(name)))
            .collect())
    }

    /// The whole file as text; invalid UTF-8 decodes to U+FFFD.
    fn read_text(&self, path: &Path) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.read_bytes(path, u64::MAX)?).into_owned())
    }

    /// At most the first `bytes` bytes as text; a character that the end cuts is left out, not made garbage `[S2]`.
    fn read_text_prefix(&self, path: &Path, bytes: u64) -> Result<String> {
        let mut prefix = self.read_bytes(path, bytes)?;
        let cut = prefix.len() as u64 == bytes;
        if let (true, Err(error)) = (cut, std::str::from_utf8(&prefix))
            && error.error_len().is_none()
        {
            prefix.truncate(error.valid_up_to());
        }
        Ok(String::from_utf8_lossy(&prefix).into_owned())
    }

    /// At most the first `limit` bytes.
    fn read_bytes(&self, path: &Path, limit: u64) -> Result<Vec<u8>> {
        let reader = self.open_reader(path)?;
        let len = reader.stat()?.len.min(limit);
        let mut bytes = Vec::new();
        let room = usize::try_from(len)
            .map_err(|_| Error::new(ErrorKind::TooLarge, "the file does not fit in memory").at(path))?;
        bytes
            .try_reserve_exact(room)
            .map_err(|_| Error::io("read the file", path, io::ErrorKind::OutOfMemory.into()))?;
        bytes.resize(room, 0);
        let mut filled = 0;
        while filled < bytes.len() {
            match reader.read_at(filled as u64, &mut bytes[filled..])? {
                0 => break,
                n => filled += n,
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}
