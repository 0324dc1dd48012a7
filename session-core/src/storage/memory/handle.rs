//! Opened files in memory, and locks: they stay on the file that they were opened on.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::{MemoryFile, MemorySessionStorage, locked};
use crate::error::{Error, ErrorKind, Result};
use crate::storage::{Stat, StorageLock, StorageReader, StorageWriter};

#[derive(Debug)]
pub(super) struct MemoryReader(Arc<MemoryFile>);

impl MemoryReader {
    pub(super) fn new(file: Arc<MemoryFile>) -> Self {
        Self(file)
    }
}

impl StorageReader for MemoryReader {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let content = locked(&self.0.content);
        let rest = usize::try_from(offset).ok().and_then(|start| content.bytes.get(start..)).unwrap_or_default();
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn stat(&self) -> Result<Stat> {
        Ok(self.0.stat())
    }
}

#[derive(Debug)]
pub(super) struct MemoryWriter {
    file: Arc<MemoryFile>,
    storage: MemorySessionStorage,
    path: PathBuf,
}

impl MemoryWriter {
    pub(super) fn new(file: Arc<MemoryFile>, storage: MemorySessionStorage, path: &Path) -> Self {
        Self { file, storage, path: path.into() }
    }
}

impl StorageWriter for MemoryWriter {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let mut content = locked(&self.file.content);
        let full = |_| Error::new(ErrorKind::StorageFull, "the memory of this process is used up").at(&self.path);
        content.bytes.try_reserve(bytes.len()).map_err(full)?;
        content.bytes.extend_from_slice(bytes);
        content.changed_at(self.storage.now());
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    fn fsync(&mut self) -> Result<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }

    fn error(&self) -> Option<&Error> {
        None
    }

    fn stat(&self) -> Result<Stat> {
        Ok(self.file.stat())
    }
}

#[derive(Debug)]
pub(super) struct MemoryLock {
    file: Arc<MemoryFile>,
    storage: MemorySessionStorage,
    path: PathBuf,
    holder: String,
    held: bool,
}

impl MemoryLock {
    pub(super) fn new(file: Arc<MemoryFile>, storage: MemorySessionStorage, path: &Path, holder: &str) -> Self {
        Self { file, storage, path: path.into(), holder: holder.into(), held: false }
    }
}

impl StorageLock for MemoryLock {
    fn acquire(&mut self, wait: Duration) -> Result<()> {
        if self.held {
            return Ok(());
        }
        // The path may have come to name another file: lock what whoever comes next would lock.
        self.file = self.storage.lock_file(&self.path)?;
        let taken = locked(&self.file.lock);
        let waited = self.file.freed.wait_timeout_while(taken, wait, |holder| holder.is_some());
        let (mut taken, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if let Some(holder) = &*taken {
            let message =
                format!("locked by {holder} for longer than {} ms; try again when it is done", wait.as_millis());
            return Err(Error::new(ErrorKind::Locked, message).at(&self.path));
        }
        *taken = Some(self.holder.clone());
        self.held = true;
        Ok(())
    }

    fn release(&mut self) {
        if std::mem::take(&mut self.held) {
            *locked(&self.file.lock) = None;
            self.file.freed.notify_one();
        }
    }
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.release();
    }
}
