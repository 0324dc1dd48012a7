//! A storage whose process dies: after a number of changing calls nothing reaches the disk any more. Or one that may not
//! look at a path, or one that others are faster in.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use session_core::storage::{
    DirItem, MemorySessionStorage, OpenMode, SessionStorage, Stat, StorageLock, StorageReader, StorageWriter,
};
use session_core::{Error, ErrorKind, Result};

/// Changing calls that are still carried out.
#[derive(Clone, Debug)]
struct Life(Arc<AtomicUsize>);

impl Life {
    fn spend(&self) -> Result<()> {
        let spent = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        spent.map(drop).map_err(|_| Error::new(ErrorKind::Io, "the process has died"))
    }
}

/// A storage in memory that dies after some changing calls; the memory stays, to be looked at.
#[derive(Debug)]
pub(crate) struct DyingStorage {
    disk: Arc<MemorySessionStorage>,
    life: Life,
    forbidden: Option<PathBuf>,
    others: Others,
}

/// What others do just before a file is created.
struct Others(Box<dyn Fn(&Path) + Send + Sync>);

impl std::fmt::Debug for Others {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Others")
    }
}

impl DyingStorage {
    pub(crate) fn new(disk: Arc<MemorySessionStorage>, calls: usize) -> Self {
        Self { disk, life: Life(Arc::new(AtomicUsize::new(calls))), forbidden: None, others: Others(Box::new(|_| {})) }
    }

    /// One that lives, and may neither read the file nor list the directory at `path`.
    pub(crate) fn forbidding(disk: Arc<MemorySessionStorage>, path: &str) -> Self {
        Self { forbidden: Some(path.into()), ..Self::new(disk, usize::MAX) }
    }

    /// One in which `others` do something just before each file is created.
    pub(crate) fn beside(disk: Arc<MemorySessionStorage>, others: impl Fn(&Path) + Send + Sync + 'static) -> Self {
        Self { others: Others(Box::new(others)), ..Self::new(disk, usize::MAX) }
    }

    fn may_look(&self, path: &Path) -> Result<()> {
        if self.forbidden.as_deref() == Some(path) {
            return Err(Error::new(ErrorKind::PermissionDenied, "no permission").at(path));
        }
        Ok(())
    }

    pub(crate) fn calls_left(&self) -> usize {
        self.life.0.load(Ordering::SeqCst)
    }
}

#[derive(Debug)]
struct DyingWriter {
    disk: Box<dyn StorageWriter>,
    life: Life,
}

impl StorageWriter for DyingWriter {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        // A write that is cut short by death leaves half of its bytes.
        self.life.spend().or_else(|error| self.disk.write(&bytes[..bytes.len() / 2]).and(Err(error)))?;
        self.disk.write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        self.disk.flush()
    }

    fn fsync(&mut self) -> Result<()> {
        self.life.spend()?;
        self.disk.fsync()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.disk.close()
    }

    fn error(&self) -> Option<&Error> {
        self.disk.error()
    }

    fn stat(&self) -> Result<Stat> {
        self.disk.stat()
    }
}

impl SessionStorage for DyingStorage {
    fn ensure_dir(&self, dir: &Path) -> Result<()> {
        self.life.spend()?;
        self.disk.ensure_dir(dir)
    }

    fn stat(&self, path: &Path) -> Result<Option<Stat>> {
        self.disk.stat(path)
    }

    fn read_dir(&self, dir: &Path) -> Result<Option<Vec<DirItem>>> {
        self.may_look(dir)?;
        self.disk.read_dir(dir)
    }

    fn open_reader(&self, path: &Path) -> Result<Box<dyn StorageReader>> {
        self.may_look(path)?;
        self.disk.open_reader(path)
    }

    fn open_writer(&self, path: &Path, mode: OpenMode) -> Result<Box<dyn StorageWriter>> {
        self.life.spend()?;
        let disk = self.disk.open_writer(path, mode)?;
        Ok(Box::new(DyingWriter { disk, life: self.life.clone() }))
    }

    fn create_new(&self, path: &Path) -> Result<Box<dyn StorageWriter>> {
        self.life.spend()?;
        (self.others.0)(path);
        let disk = self.disk.create_new(path)?;
        Ok(Box::new(DyingWriter { disk, life: self.life.clone() }))
    }

    fn write_at(&self, path: &Path, offset: u64, bytes: &[u8]) -> Result<()> {
        self.life.spend()?;
        self.disk.write_at(path, offset, bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.life.spend()?;
        self.disk.rename(from, to)
    }

    fn unlink(&self, path: &Path) -> Result<()> {
        self.life.spend()?;
        self.disk.unlink(path)
    }

    fn remove_tree(&self, dir: &Path) -> Result<()> {
        self.life.spend()?;
        self.disk.remove_tree(dir)
    }

    fn copy(&self, from: &Path, to: &Path) -> Result<()> {
        self.life.spend()?;
        self.disk.copy(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.life.spend()?;
        self.disk.sync_dir(dir)
    }

    fn set_modified(&self, path: &Path, time: SystemTime) -> Result<()> {
        self.life.spend()?;
        self.disk.set_modified(path, time)
    }

    fn resolve(&self, path: &Path) -> PathBuf {
        self.disk.resolve(path)
    }

    fn open_lock(&self, path: &Path, holder: &str) -> Result<Box<dyn StorageLock>> {
        self.disk.open_lock(path, holder)
    }
}
