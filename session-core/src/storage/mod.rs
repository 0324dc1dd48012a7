//! The storage interface `[S1]`: everything that a session manager asks of a file system, and nothing else touches one.
//!
//! A storage is synchronous and object safe; others can be written outside this crate, and `contract` (behind the feature of
//! that name) checks one. Every error names the path. A missing file is told apart from one that cannot be read: an I/O error
//! never looks like "nothing there" `[L1]`. Nothing here knows what a session is.

#[cfg(feature = "tokio")]
mod asynchronous;
#[cfg(any(test, feature = "contract"))]
pub mod contract;
mod file;
mod memory;
mod replacement;
#[cfg(target_os = "linux")]
mod writers;

#[cfg(feature = "tokio")]
pub(crate) use asynchronous::blocking;
#[cfg(feature = "tokio")]
pub use asynchronous::{AsyncSessionStorage, AsyncStorageWriter};
pub use file::FileSessionStorage;
pub use memory::MemorySessionStorage;
pub use replacement::{Replacement, is_temporary};

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
    /// When its content last changed. Can be set back ([`set_modified`](SessionStorage::set_modified)).
    pub modified: SystemTime,
    /// A number that is another one after every change, of content or of what is known about the file, times set back
    /// included: the change time in nanoseconds on real files. Two changes within one tick of the system's clock may share it.
    pub change: u64,
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
    /// Whether it is a process of ours: it has the session's lock file open too, so it takes part in locking `[W6]`.
    pub ours: bool,
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

/// The bytes of a range, fewer when the file ends before.
pub(crate) fn read_range(file: &dyn StorageReader, offset: u64, len: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(offset + filled as u64, &mut bytes[filled..])? {
            0 => break,
            n => filled += n,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// A file opened for writing.
///
/// After its first error a writer writes no more: every later call returns that error, so nothing lands behind a torn line.
/// Dropping a writer closes it without saying whether that worked; [`close`](StorageWriter::close) says.
pub trait StorageWriter: Send + fmt::Debug {
    /// Writes `bytes` in one call to the kernel. When this returns, killing the process loses nothing of it `[W3]`; a power
    /// cut may, until [`fsync`](StorageWriter::fsync). A process that is killed inside the call may leave the beginning of
    /// `bytes`. After a short write nothing is taken back: the error says so.
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
    /// Closes the file and reports the first error that this writer met. A network file system may say only at
    /// [`fsync`](StorageWriter::fsync) that earlier writes failed: sync before closing what must not be lost.
    fn close(self: Box<Self>) -> Result<()>;
    /// The first error that this writer met.
    fn error(&self) -> Option<&Error>;
    /// What the file is now; `links` is 0 once it was deleted.
    fn stat(&self) -> Result<Stat>;
}

/// A lock file, opened. Held between [`acquire`](StorageLock::acquire) and [`release`](StorageLock::release), or until it is
/// dropped, or until its process ends in whatever way. While it is open, held or not, its process counts as one of ours
/// ([`Holder::ours`]).
///
/// Two opened locks of one path exclude each other also within one process. A lock is not reentrant.
pub trait StorageLock: Send + fmt::Debug {
    /// Takes the lock, waiting up to `wait`. Taking a lock that this value holds already does nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Locked`] with what the holder wrote, after `wait`. Any other error means that locking does not work here;
    /// the lock is not held then either.
    fn acquire(&mut self, wait: Duration) -> Result<()>;
    /// Gives the lock up and keeps the file open.
    fn release(&mut self);
}

/// Where sessions are stored.
///
/// # Contract
///
/// * What a storage creates is private: directories 0700, files 0600, whatever the umask `[D10]`. What others created keeps
///   its mode.
/// * `rename` replaces its target at once: a reader sees the old or the new file, never none.
/// * Durability of names needs [`sync_dir`](SessionStorage::sync_dir) after a create, rename or unlink. Only
///   [`ensure_dir`](SessionStorage::ensure_dir), [`copy`](SessionStorage::copy), [`write_text`](SessionStorage::write_text)
///   and a rename that has to cross file systems have done so when they return.
/// * Nothing is created in a directory that does not exist.
pub trait SessionStorage: Send + Sync + fmt::Debug {
    /// Makes the directory and its parents where missing; their names are on the medium when this returns.
    fn ensure_dir(&self, dir: &Path) -> Result<()>;
    /// What `path` is, symbolic links followed; none when there is nothing.
    fn stat(&self, path: &Path) -> Result<Option<Stat>>;
    /// Whether every later change is sure to give the file another [`Stat::change`] than this: whoever has looked into the file
    /// or directory since, and finds this again, need not look again. Never when it changed just now, within a tick of the
    /// clock that the number comes from, and never where that can't be told.
    fn is_settled(&self, stat: &Stat) -> bool {
        let _ = stat;
        false
    }
    /// The names in a directory, sorted; none when the directory does not exist.
    fn read_dir(&self, dir: &Path) -> Result<Option<Vec<DirItem>>>;
    /// Opens a regular file for reading ranges; a directory or device is [`ErrorKind::NotAFile`].
    fn open_reader(&self, path: &Path) -> Result<Box<dyn StorageReader>>;
    /// Opens a file for writing.
    fn open_writer(&self, path: &Path, mode: OpenMode) -> Result<Box<dyn StorageWriter>>;
    /// Creates a file that must not exist yet, and opens it for appending.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`] when anything is there, a dangling link too.
    fn create_new(&self, path: &Path) -> Result<Box<dyn StorageWriter>>;
    /// Overwrites bytes inside an existing file in one call. A range that would make it longer is
    /// [`ErrorKind::InvalidInput`], and nothing is written.
    fn write_at(&self, path: &Path, offset: u64, bytes: &[u8]) -> Result<()>;
    /// Renames a file or directory, replacing a file at the target at once. Across file systems it copies beside the target,
    /// syncs, compares, renames there and removes the original; what changed meanwhile is an error and nothing is removed
    /// `[S1]`.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Removes a file.
    fn unlink(&self, path: &Path) -> Result<()>;
    /// Removes a directory with all that is in it; symbolic links in it are removed, not followed.
    fn remove_tree(&self, dir: &Path) -> Result<()>;
    /// Copies a file, or a directory with all in it, to a path that must not exist; synced before it returns. Modification
    /// times are kept, modes are private, links inside a directory stay links. On an error nothing is left at `to`.
    fn copy(&self, from: &Path, to: &Path) -> Result<()>;
    /// Returns when the names in `dir` are on the medium.
    fn sync_dir(&self, dir: &Path) -> Result<()>;
    /// Sets the modification time.
    fn set_modified(&self, path: &Path, time: SystemTime) -> Result<()>;
    /// The same path with symbolic links resolved as far as it exists `[D5]`.
    fn resolve(&self, path: &Path) -> PathBuf;
    /// Opens the lock file at `path`, created private where missing and never deleted. `holder` says who we are; it is
    /// written into the file each time the lock is taken, for the message of whoever waits in vain.
    fn open_lock(&self, path: &Path, holder: &str) -> Result<Box<dyn StorageLock>>;

    /// Opens and takes the lock file at `path`: [`open_lock`](SessionStorage::open_lock), then
    /// [`acquire`](StorageLock::acquire) with its errors.
    fn lock(&self, path: &Path, holder: &str, wait: Duration) -> Result<Box<dyn StorageLock>> {
        let mut lock = self.open_lock(path, holder)?;
        lock.acquire(wait)?;
        Ok(lock)
    }

    /// Processes other than this one that have the file at `path` open for writing; those that have the lock file `lock`
    /// open too are [ours](Holder::ours). As far as the platform can tell: on Linux the processes that we may look into, none
    /// elsewhere. An empty list is no promise.
    fn writers_of(&self, path: &Path, lock: &Path) -> Result<Vec<Holder>> {
        let _ = (path, lock);
        Ok(Vec::new())
    }

    /// Replaces the file's content whole: temporary file, sync, rename, sync of the directory ([`Replacement`]). A crash or
    /// power cut at any instant leaves the old or the new text, whole; after an error no temporary file is left.
    fn write_text(&self, path: &Path, text: &str) -> Result<()> {
        let mut replacement = Replacement::of(self, path)?;
        replacement.write(text.as_bytes())?;
        replacement.commit()
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
