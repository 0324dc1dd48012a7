//! A storage that records what is done to it, fails on purpose, and knows what a crash would leave.
//!
//! ```
//! use std::path::Path;
//! use session_core::storage::{MemorySessionStorage, SessionStorage};
//! use tests::recording::{CallKind, Loss, RecordingStorage};
//! # fn main() -> session_core::Result<()> {
//! let storage = RecordingStorage::new(MemorySessionStorage::new(), Path::new("/"))?;
//! storage.write_text(Path::new("/x"), "new")?;
//! assert_eq!(storage.count(CallKind::Fsync), 1);
//! for crash in storage.crashes(3) {
//!     let x = crash.remains.files.get(Path::new("x"));
//!     assert!(x.is_none_or(|bytes| bytes == b"new"), "{crash:?}");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Every call is forwarded to the storage inside and recorded with its outcome, those of readers, writers and locks too.
//! Methods of the trait that are built from others (`write_text`, `read_text`, `list_files`…) show as what they are built
//! from. Recording takes the memory of everything written.

mod call;
mod crash;
mod fault;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use session_core::storage::{
    DirItem, Holder, OpenMode, SessionStorage, Stat, StorageLock, StorageReader, StorageWriter,
};
use session_core::{Error, ErrorKind, Result};

pub use call::{Call, CallKind, Handle, Outcome, Record};
use crash::Disk;
pub use crash::{Loss, Remains};
use fault::Fault;
pub use fault::{Failure, Target, Times};

/// Wraps any storage; clones share the recording. See the [module](self).
#[derive(Clone, Debug)]
pub struct RecordingStorage<S> {
    inner: Arc<S>,
    root: PathBuf,
    log: Arc<Mutex<Log>>,
}

#[derive(Debug)]
struct Log {
    start: Disk,
    records: Vec<Record>,
    /// Calls begun, the numbers that faults go by.
    begun: u64,
    counts: BTreeMap<CallKind, u64>,
    bytes_read: u64,
    bytes_written: u64,
    next_handle: u64,
    faults: Vec<Fault>,
}

/// A crash that could have happened, and what it would have left.
#[derive(Clone, Debug)]
pub struct Crash {
    /// After how many recorded calls.
    pub after: usize,
    /// What it took.
    pub loss: Loss,
    /// What it left.
    pub remains: Remains,
}

impl<S: SessionStorage> RecordingStorage<S> {
    /// Records what is done to `inner`. What lies below `root` now is what a crash before the first call leaves; files
    /// outside `root` are forwarded and recorded, and no crash shows them.
    pub fn new(inner: S, root: &Path) -> Result<Self> {
        let root = inner.resolve(root);
        let log = Log {
            start: Disk::of(&inner, &root)?,
            records: Vec::new(),
            begun: 0,
            counts: BTreeMap::new(),
            bytes_read: 0,
            bytes_written: 0,
            next_handle: 0,
            faults: Vec::new(),
        };
        Ok(Self { inner: Arc::new(inner), root, log: Arc::new(Mutex::new(log)) })
    }

    /// The storage inside; what is done to it directly is another program's doing and not recorded.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Every call since the beginning or the last [`restart`](Self::restart), in the order of their effects.
    pub fn records(&self) -> Vec<Record> {
        self.log().records.clone()
    }

    /// How many calls were recorded.
    pub fn len(&self) -> usize {
        self.log().records.len()
    }

    /// Whether nothing was called yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many calls of a kind there were, failed ones included.
    pub fn count(&self, kind: CallKind) -> u64 {
        self.log().counts.get(&kind).copied().unwrap_or(0)
    }

    /// How many bytes readers gave out.
    pub fn bytes_read(&self) -> u64 {
        self.log().bytes_read
    }

    /// How many bytes were written.
    pub fn bytes_written(&self) -> u64 {
        self.log().bytes_written
    }

    /// Forgets the calls and counts, and takes what is on the disk now for safe. Writers that are open now are no longer
    /// part of what a crash shows: open them after. Faults stay; numbers begin at 1 again.
    pub fn restart(&self) -> Result<()> {
        let mut log = self.log();
        log.start = Disk::of(&*self.inner, &self.root)?;
        log.records.clear();
        log.counts.clear();
        (log.begun, log.bytes_read, log.bytes_written) = (0, 0, 0);
        Ok(())
    }

    /// Makes calls fail. Of several faults that meet a call the first that was set strikes.
    pub fn fail(&self, target: Target, failure: Failure, times: Times) {
        self.log().faults.push(Fault { target, failure, times });
    }

    /// Fails every call that needs room until [`clear_faults`](Self::clear_faults).
    pub fn fill_disk(&self) {
        self.fail(Target::NeedsRoom, Failure::Error(io::ErrorKind::StorageFull), Times::Always);
    }

    /// Takes all faults away.
    pub fn clear_faults(&self) {
        self.log().faults.clear();
    }

    /// What a crash after the first `calls` recorded calls leaves.
    pub fn crash(&self, calls: usize, loss: Loss) -> Remains {
        let log = self.log();
        let mut disk = log.start.clone();
        log.records.iter().take(calls).for_each(|record| disk.apply(record));
        disk.remains(loss)
    }

    /// The crashes before the first call and after every call that changes something: `kill -9`, the worst power cut, and
    /// `seeds` power cuts in between.
    pub fn crashes(&self, seeds: u64) -> Vec<Crash> {
        let log = self.log();
        let mut disk = log.start.clone();
        let mut crashes = Vec::new();
        let losses = || [Loss::Nothing, Loss::Unsynced].into_iter().chain((0..seeds).map(Loss::Some));
        let mut show = |disk: &Disk, after| {
            crashes.extend(losses().map(|loss| Crash { after, loss, remains: disk.remains(loss) }));
        };
        show(&disk, 0);
        for (number, record) in log.records.iter().enumerate() {
            disk.apply(record);
            if record.call.kind().is_change() {
                show(&disk, number + 1);
            }
        }
        crashes
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a call and does it, unless it is to fail. The log is held meanwhile: its order is that of the effects.
    fn call<T>(&self, call: Call, work: impl FnOnce(&S) -> Result<T>) -> Result<T> {
        self.log().call(call, || work(&self.inner))
    }

    fn writer(&self, path: &Path, call: impl FnOnce(Handle) -> Call, open: Open<'_, S>) -> Opened {
        let mut log = self.log();
        log.next_handle += 1;
        let handle = Handle(log.next_handle);
        let inner = log.call(call(handle), || open(&self.inner))?;
        let log = self.log.clone();
        Ok(Box::new(RecordingWriter { inner, path: path.into(), handle, log, error: None }))
    }
}

type Opened = Result<Box<dyn StorageWriter>>;
type Open<'a, S> = &'a dyn Fn(&S) -> Opened;

impl Log {
    fn call<T>(&mut self, call: Call, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let result = match self.begin(&call) {
            Some(Failure::Error(kind)) => Err(injected(&call, kind)),
            Some(Failure::Short(_)) => Err(injected(&call, io::ErrorKind::StorageFull)),
            None => work(),
        };
        let outcome = result.as_ref().map_or_else(|error| Outcome::Failed(error.kind()), |_| Outcome::Done);
        self.records.push(Record { call, outcome });
        result
    }

    fn begin(&mut self, call: &Call) -> Option<Failure> {
        self.begun += 1;
        *self.counts.entry(call.kind()).or_default() += 1;
        fault::due(&mut self.faults, self.begun, call.kind())
    }
}

fn injected(call: &Call, kind: io::ErrorKind) -> Error {
    Error::io(&format!("do this call ({:?}, a fault of the test)", call.kind()), call.path(), kind.into())
}

fn shared(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: SessionStorage> SessionStorage for RecordingStorage<S> {
    fn ensure_dir(&self, dir: &Path) -> Result<()> {
        self.call(Call::EnsureDir { dir: dir.into() }, |inner| inner.ensure_dir(dir))
    }

    fn stat(&self, path: &Path) -> Result<Option<Stat>> {
        self.call(Call::Stat { path: path.into() }, |inner| inner.stat(path))
    }

    fn is_settled(&self, stat: &Stat) -> bool {
        // No call: it asks the storage's clock and no file.
        self.inner.is_settled(stat)
    }

    fn read_dir(&self, dir: &Path) -> Result<Option<Vec<DirItem>>> {
        self.call(Call::ReadDir { dir: dir.into() }, |inner| inner.read_dir(dir))
    }

    fn open_reader(&self, path: &Path) -> Result<Box<dyn StorageReader>> {
        let inner = self.call(Call::OpenReader { path: path.into() }, |inner| inner.open_reader(path))?;
        Ok(Box::new(RecordingReader { inner, path: path.into(), log: self.log.clone() }))
    }

    fn open_writer(&self, path: &Path, mode: OpenMode) -> Result<Box<dyn StorageWriter>> {
        let call = |handle| Call::OpenWriter { path: path.into(), mode, handle };
        self.writer(path, call, &|inner| inner.open_writer(path, mode))
    }

    fn create_new(&self, path: &Path) -> Result<Box<dyn StorageWriter>> {
        let call = |handle| Call::CreateNew { path: path.into(), handle };
        self.writer(path, call, &|inner| inner.create_new(path))
    }

    fn write_at(&self, path: &Path, offset: u64, bytes: &[u8]) -> Result<()> {
        let call = Call::WriteAt { path: path.into(), offset, bytes: bytes.into() };
        self.call(call, |inner| inner.write_at(path, offset, bytes))?;
        self.log().bytes_written += bytes.len() as u64;
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.call(Call::Rename { from: from.into(), to: to.into() }, |inner| inner.rename(from, to))
    }

    fn unlink(&self, path: &Path) -> Result<()> {
        self.call(Call::Unlink { path: path.into() }, |inner| inner.unlink(path))
    }

    fn remove_tree(&self, dir: &Path) -> Result<()> {
        self.call(Call::RemoveTree { dir: dir.into() }, |inner| inner.remove_tree(dir))
    }

    fn copy(&self, from: &Path, to: &Path) -> Result<()> {
        self.call(Call::Copy { from: from.into(), to: to.into() }, |inner| inner.copy(from, to))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.call(Call::SyncDir { dir: dir.into() }, |inner| inner.sync_dir(dir))
    }

    fn set_modified(&self, path: &Path, time: SystemTime) -> Result<()> {
        self.call(Call::SetModified { path: path.into(), time }, |inner| inner.set_modified(path, time))
    }

    fn resolve(&self, path: &Path) -> PathBuf {
        self.inner.resolve(path)
    }

    fn open_lock(&self, path: &Path, holder: &str) -> Result<Box<dyn StorageLock>> {
        let inner = self.call(Call::OpenLock { path: path.into() }, |inner| inner.open_lock(path, holder))?;
        Ok(Box::new(RecordingLock { inner, path: path.into(), log: self.log.clone() }))
    }

    fn writers_of(&self, path: &Path, lock: &Path) -> Result<Vec<Holder>> {
        self.call(Call::WritersOf { path: path.into() }, |inner| inner.writers_of(path, lock))
    }
}

#[derive(Debug)]
struct RecordingReader {
    inner: Box<dyn StorageReader>,
    path: PathBuf,
    log: Arc<Mutex<Log>>,
}

impl StorageReader for RecordingReader {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let call = Call::ReadAt { path: self.path.clone(), offset, len: buffer.len() };
        let mut log = shared(&self.log);
        let read = log.call(call, || self.inner.read_at(offset, buffer))?;
        log.bytes_read += read as u64;
        Ok(read)
    }

    fn stat(&self) -> Result<Stat> {
        shared(&self.log).call(Call::Stat { path: self.path.clone() }, || self.inner.stat())
    }
}

#[derive(Debug)]
struct RecordingWriter {
    inner: Box<dyn StorageWriter>,
    path: PathBuf,
    handle: Handle,
    log: Arc<Mutex<Log>>,
    /// An injected error counts as one that the writer met.
    error: Option<Error>,
}

impl RecordingWriter {
    fn attempt(&mut self, call: Call, work: impl FnOnce(&mut dyn StorageWriter) -> Result<()>) -> Result<()> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let done = shared(&self.log).call(call, || work(&mut *self.inner));
        self.keep(done)
    }

    fn keep(&mut self, done: Result<()>) -> Result<()> {
        if let Err(error) = &done {
            self.error.get_or_insert_with(|| error.clone());
        }
        done
    }
}

impl StorageWriter for RecordingWriter {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let call = Call::Write { path: self.path.clone(), handle: self.handle, bytes: bytes.into() };
        let mut log = shared(&self.log);
        let (done, outcome) = match log.begin(&call) {
            Some(Failure::Error(kind)) => {
                let error = injected(&call, kind);
                let outcome = Outcome::Failed(error.kind());
                (Err(error), outcome)
            }
            Some(Failure::Short(len)) => {
                let len = len.min(bytes.len().saturating_sub(1));
                let message = format!("only {len} of {} bytes were written (a fault of the test)", bytes.len());
                let short = self.inner.write(&bytes[..len]);
                let error = short.err().unwrap_or_else(|| Error::new(ErrorKind::Io, message).at(&self.path));
                log.bytes_written += len as u64;
                (Err(error), Outcome::Short(len))
            }
            None => {
                let done = self.inner.write(bytes);
                let outcome = done.as_ref().map_or_else(|error| Outcome::Failed(error.kind()), |()| Outcome::Done);
                log.bytes_written += if done.is_ok() { bytes.len() as u64 } else { 0 };
                (done, outcome)
            }
        };
        log.records.push(Record { call, outcome });
        drop(log);
        self.keep(done)
    }

    fn flush(&mut self) -> Result<()> {
        self.attempt(Call::Flush { path: self.path.clone(), handle: self.handle }, |inner| inner.flush())
    }

    fn fsync(&mut self) -> Result<()> {
        self.attempt(Call::Fsync { path: self.path.clone(), handle: self.handle }, |inner| inner.fsync())
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Self { inner, path, handle, log, error } = *self;
        let closed = shared(&log).call(Call::Close { path, handle }, || inner.close());
        error.map_or(closed, Err)
    }

    fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    fn stat(&self) -> Result<Stat> {
        shared(&self.log).call(Call::Stat { path: self.path.clone() }, || self.inner.stat())
    }
}

#[derive(Debug)]
struct RecordingLock {
    inner: Box<dyn StorageLock>,
    path: PathBuf,
    log: Arc<Mutex<Log>>,
}

impl StorageLock for RecordingLock {
    fn acquire(&mut self, wait: Duration) -> Result<()> {
        let call = Call::Acquire { path: self.path.clone() };
        // The log is not held while waiting: whoever has the lock may need it to go on.
        let due = shared(&self.log).begin(&call);
        let done = match due {
            Some(Failure::Error(kind)) => Err(injected(&call, kind)),
            Some(Failure::Short(_)) => Err(injected(&call, io::ErrorKind::StorageFull)),
            None => self.inner.acquire(wait),
        };
        let outcome = done.as_ref().map_or_else(|error| Outcome::Failed(error.kind()), |()| Outcome::Done);
        shared(&self.log).records.push(Record { call, outcome });
        done
    }

    fn release(&mut self) {
        let call = Call::Release { path: self.path.clone() };
        let mut log = shared(&self.log);
        // Giving up a lock cannot fail: a fault that meets it strikes nothing.
        let _ = log.begin(&call);
        self.inner.release();
        log.records.push(Record { call, outcome: Outcome::Done });
    }
}

#[cfg(test)]
mod tests;
