//! Opened files: ranges are read from, and lines are added to, the file that was opened, whatever its name means by then.

use std::fs::{File, FileType, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::retry_interrupted;
use crate::error::{Error, ErrorKind, Result};
use crate::storage::{FileIdentity, FileKind, Stat, StorageReader, StorageWriter};

pub(super) fn kind_of(kind: FileType) -> FileKind {
    match kind {
        kind if kind.is_file() => FileKind::File,
        kind if kind.is_dir() => FileKind::Directory,
        _ => FileKind::Other,
    }
}

pub(super) fn stat_of(metadata: &Metadata) -> Stat {
    Stat {
        kind: kind_of(metadata.file_type()),
        len: metadata.len(),
        modified: metadata.modified().unwrap_or_else(|_| seconds(metadata.mtime())),
        change: (metadata.ctime().cast_unsigned())
            .wrapping_mul(1_000_000_000)
            .wrapping_add(metadata.ctime_nsec().cast_unsigned()),
        identity: FileIdentity { device: metadata.dev(), inode: metadata.ino() },
        links: metadata.nlink(),
    }
}

fn seconds(since_1970: i64) -> SystemTime {
    let distance = Duration::from_secs(since_1970.unsigned_abs());
    let time = if since_1970 < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) };
    time.unwrap_or(UNIX_EPOCH)
}

pub(super) fn short_write(path: &Path, written: usize, asked: usize) -> Error {
    let message = format!(
        "only {written} of {asked} bytes were written, then the system stopped; nothing was taken back. Is the disk full?"
    );
    Error::new(ErrorKind::Io, message).at(path)
}

#[derive(Debug)]
pub(super) struct FileReader {
    file: File,
    path: PathBuf,
}

impl FileReader {
    pub(super) fn new(file: File, path: &Path) -> Self {
        Self { file, path: path.into() }
    }
}

impl StorageReader for FileReader {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            let place = offset.saturating_add(filled as u64);
            let read = retry_interrupted(|| self.file.read_at(&mut buffer[filled..], place))
                .map_err(|error| Error::io("read the file", &self.path, error))?;
            if read == 0 {
                break;
            }
            filled += read;
        }
        Ok(filled)
    }

    fn stat(&self) -> Result<Stat> {
        stat(&self.file, &self.path)
    }
}

/// Appends with one system call each (`O_APPEND`), so that lines of several processes never mix.
#[derive(Debug)]
pub(super) struct FileWriter {
    file: File,
    path: PathBuf,
    error: Option<Error>,
}

impl FileWriter {
    pub(super) fn new(file: File, path: &Path) -> Self {
        Self { file, path: path.into(), error: None }
    }

    /// Does `call` unless an earlier one failed; the first failure stays.
    fn attempt(&mut self, call: impl FnOnce(&File, &Path) -> Result<()>) -> Result<()> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let done = call(&self.file, &self.path);
        if let Err(error) = &done {
            self.error = Some(error.clone());
        }
        done
    }
}

impl StorageWriter for FileWriter {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.attempt(|mut file, path| {
            if bytes.is_empty() {
                return Ok(());
            }
            let written =
                retry_interrupted(|| file.write(bytes)).map_err(|error| Error::io("write to the file", path, error))?;
            if written < bytes.len() { Err(short_write(path, written, bytes.len())) } else { Ok(()) }
        })
    }

    fn flush(&mut self) -> Result<()> {
        self.attempt(|_, _| Ok(()))
    }

    fn fsync(&mut self) -> Result<()> {
        // The data and the length, which is all that reading it back needs.
        self.attempt(|file, path| file.sync_data().map_err(|error| Error::io("sync the file", path, error)))
    }

    fn close(self: Box<Self>) -> Result<()> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    fn stat(&self) -> Result<Stat> {
        stat(&self.file, &self.path)
    }
}

fn stat(file: &File, path: &Path) -> Result<Stat> {
    let metadata: io::Result<Metadata> = file.metadata();
    metadata.map(|metadata| stat_of(&metadata)).map_err(|error| Error::io("look at the open file", path, error))
}
