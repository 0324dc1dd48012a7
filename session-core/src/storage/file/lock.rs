//! Kernel locks on files that are never deleted `[W6]`. The kernel frees one when its process ends, however it ends.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::{create_private, open_regular};
use crate::error::{Error, ErrorKind, Result};
use crate::storage::StorageLock;

/// The longest pause between two tries. Locks are held for the time of one write, so a short pause finds a gap; the kernel's
/// own waiting call has no time limit, and a thread parked in it could not be called off.
const LONGEST_PAUSE: Duration = Duration::from_millis(2);

/// As much of the holder's text as a message shows.
const HOLDER_BYTES: usize = 256;

#[derive(Debug)]
pub(super) struct FileLock {
    file: File,
    path: PathBuf,
    holder: String,
    held: bool,
}

impl FileLock {
    pub(super) fn open(path: &Path, holder: &str) -> Result<Self> {
        let holder = holder.replace(|c: char| c.is_control(), " ");
        Ok(Self { file: open(path)?, path: path.into(), holder, held: false })
    }

    /// Whether the path still names the file that we have locked: somebody may have cleared the directory, and then the
    /// next process would lock another file.
    fn is_current(&self) -> io::Result<bool> {
        let ours = self.file.metadata()?;
        match fs::metadata(&self.path) {
            Ok(named) => Ok((named.dev(), named.ino()) == (ours.dev(), ours.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Leaves our name for whoever waits. One line, not cut to length: what follows the first line end is an older, longer
    /// name. That it cannot be written (a full disk) makes the lock no weaker, so it is no error.
    fn sign(&self) {
        let line = format!("{}\n", self.holder);
        let mut there = vec![0; line.len()];
        let same = self.file.read_at(&mut there, 0).is_ok_and(|read| there[..read] == *line.as_bytes());
        if !same && let Err(error) = self.file.write_at(line.as_bytes(), 0) {
            tracing::debug!(%error, path = %self.path.display(), "the holder of the lock could not be noted");
        }
    }

    fn held_by_another(&self, waited: Duration) -> Error {
        let mut text = [0; HOLDER_BYTES];
        let read = self.file.read_at(&mut text, 0).unwrap_or(0);
        let line = text[..read].split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line).replace(|c: char| c.is_control(), " ");
        let holder = if line.trim().is_empty() { "an unnamed process" } else { line.trim() };
        let message =
            format!("locked by {holder} for longer than {} ms; try again when it is done", waited.as_millis());
        Error::new(ErrorKind::Locked, message).at(&self.path)
    }
}

impl StorageLock for FileLock {
    fn acquire(&mut self, wait: Duration) -> Result<()> {
        let failed = |path: &Path, error| Error::io("lock the file", path, error);
        if self.held {
            return Ok(());
        }
        let start = Instant::now();
        let mut pause = Duration::from_micros(100);
        loop {
            match self.file.try_lock() {
                Ok(()) => {
                    if self.is_current().map_err(|error| failed(&self.path, error))? {
                        self.held = true;
                        self.sign();
                        return Ok(());
                    }
                    // Closing the old file frees it.
                    self.file = open(&self.path)?;
                }
                Err(TryLockError::WouldBlock) => {
                    let left = wait.saturating_sub(start.elapsed());
                    if left.is_zero() {
                        return Err(self.held_by_another(wait));
                    }
                    thread::sleep(pause.min(left));
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(TryLockError::Error(error)) => return Err(failed(&self.path, error)),
            }
        }
    }

    fn release(&mut self) {
        if std::mem::take(&mut self.held)
            && let Err(error) = self.file.unlock()
        {
            // Cannot happen to a lock that we hold; a new file description is free of it all the same.
            tracing::warn!(%error, path = %self.path.display(), "unlocking failed; the lock file is opened anew");
            if let Ok(file) = open(&self.path) {
                self.file = file;
            }
        }
    }
}

/// Opens the lock file, creating it, private, and its directory where somebody cleared them away.
fn open(path: &Path) -> Result<File> {
    match open_regular(path, OpenOptions::new().read(true).write(true), "lock") {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        opened => return opened,
    }
    if let Some(dir) = path.parent() {
        super::ensure_private_dir(dir)?;
    }
    match create_private(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
        Ok(_) => {}
    }
    // Opened again in either case: a handle for appending could not write the holder's name to the beginning.
    open_regular(path, OpenOptions::new().read(true).write(true), "lock")
}
