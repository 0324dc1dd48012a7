//! Sessions in memory `[S2, W1]`: a map of paths that behaves like files, for tests and for sessions that leave no trace.
//!
//! It has directories, identities that change when a file is replaced, readers that keep the replaced content, and locks
//! that work within the process. It has no links, no permissions and no medium: syncing does nothing.

mod handle;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use handle::{MemoryLock, MemoryReader, MemoryWriter};

use super::{
    DirItem, FileIdentity, FileKind, OpenMode, SessionStorage, Stat, StorageLock, StorageReader, StorageWriter,
};
use crate::clock::{Clock, SystemClock};
use crate::error::{Error, ErrorKind, Result};

/// The device number of every memory storage: an identity means something within one storage only.
const DEVICE: u64 = 0;

/// A map of absolute paths to files and directories; clones share it. The root directory is always there.
///
/// ```
/// use std::path::Path;
/// use session_core::storage::{MemorySessionStorage, SessionStorage};
/// # fn main() -> session_core::Result<()> {
/// let storage = MemorySessionStorage::new();
/// storage.ensure_dir(Path::new("/s"))?;
/// storage.write_text(Path::new("/s/x.jsonl"), "{}\n")?;
/// assert_eq!(storage.list_files(Path::new("/s"), "*.jsonl")?, [Path::new("/s/x.jsonl")]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct MemorySessionStorage {
    nodes: Arc<Mutex<BTreeMap<PathBuf, Node>>>,
    next_inode: Arc<AtomicU64>,
    clock: Arc<dyn Clock>,
}

#[derive(Clone, Debug)]
enum Node {
    File(Arc<MemoryFile>),
    Directory { inode: u64, modified: SystemTime },
}

/// A file apart from its name, as an inode is.
#[derive(Debug)]
struct MemoryFile {
    inode: u64,
    links: AtomicU64,
    content: Mutex<Content>,
    lock: Mutex<Option<String>>,
    freed: Condvar,
}

#[derive(Debug)]
struct Content {
    bytes: Vec<u8>,
    modified: SystemTime,
    /// How often it was changed.
    changes: u64,
}

impl Content {
    pub(super) fn changed_at(&mut self, time: SystemTime) {
        self.modified = time;
        self.changes += 1;
    }
}

impl Default for MemorySessionStorage {
    fn default() -> Self {
        Self::new()
    }
}

impl MemorySessionStorage {
    /// An empty storage whose files change at the system's time.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock))
    }

    /// An empty storage whose files change at `clock`'s time.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self { nodes: Arc::default(), next_inode: Arc::new(AtomicU64::new(2)), clock }
    }

    fn nodes(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Node>> {
        locked(&self.nodes)
    }

    fn now(&self) -> SystemTime {
        let millis = self.clock.now().millis();
        let distance = Duration::from_millis(millis.unsigned_abs());
        if millis < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
    }

    fn inode(&self) -> u64 {
        self.next_inode.fetch_add(1, Ordering::Relaxed)
    }

    fn new_file(&self) -> Arc<MemoryFile> {
        Arc::new(MemoryFile {
            inode: self.inode(),
            links: AtomicU64::new(1),
            content: Mutex::new(Content { bytes: Vec::new(), modified: self.now(), changes: 0 }),
            lock: Mutex::new(None),
            freed: Condvar::new(),
        })
    }

    fn file(&self, path: &Path) -> Result<Arc<MemoryFile>> {
        match find(&self.nodes(), &absolute(path)?) {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Directory { .. }) => Err(not_a_file(path)),
            None => Err(missing(path)),
        }
    }

    /// The file at `path`, made when there is none.
    fn file_or_new(&self, path: &Path) -> Result<Arc<MemoryFile>> {
        let place = absolute(path)?;
        let mut nodes = self.nodes();
        match find(&nodes, &place) {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Directory { .. }) => Err(not_a_file(path)),
            None => self.insert_new(&mut nodes, place),
        }
    }

    /// The lock file at `path`, made with its directory when there is none.
    fn lock_file(&self, path: &Path) -> Result<Arc<MemoryFile>> {
        if let Some(dir) = path.parent() {
            self.ensure_dir(dir)?;
        }
        self.file_or_new(path)
    }

    fn insert_new(&self, nodes: &mut BTreeMap<PathBuf, Node>, place: PathBuf) -> Result<Arc<MemoryFile>> {
        needs_directory(nodes, &place)?;
        let file = self.new_file();
        nodes.insert(place, Node::File(file.clone()));
        Ok(file)
    }

    fn writer(&self, file: Arc<MemoryFile>, path: &Path) -> Box<dyn StorageWriter> {
        Box::new(MemoryWriter::new(file, self.clone(), path))
    }
}

impl SessionStorage for MemorySessionStorage {
    fn ensure_dir(&self, dir: &Path) -> Result<()> {
        let place = absolute(dir)?;
        let mut nodes = self.nodes();
        let mut path = PathBuf::from("/");
        for component in place.components().skip(1) {
            path.push(component);
            match nodes.get(&path) {
                Some(Node::Directory { .. }) => {}
                Some(Node::File(_)) => return Err(not_a_directory(&path)),
                None => {
                    let directory = Node::Directory { inode: self.inode(), modified: self.now() };
                    nodes.insert(path.clone(), directory);
                }
            }
        }
        Ok(())
    }

    fn stat(&self, path: &Path) -> Result<Option<Stat>> {
        Ok(find(&self.nodes(), &absolute(path)?).map(|node| node.stat()))
    }

    fn read_dir(&self, dir: &Path) -> Result<Option<Vec<DirItem>>> {
        let place = absolute(dir)?;
        let nodes = self.nodes();
        match find(&nodes, &place) {
            Some(Node::Directory { .. }) => {}
            Some(Node::File(_)) => return Err(not_a_directory(dir)),
            None => return Ok(None),
        }
        let inside = below(&nodes, &place).filter(|(path, _)| path.parent() == Some(&place));
        let item = |(path, node): (&PathBuf, &Node)| {
            let name = path.file_name().unwrap_or_default();
            DirItem { path: dir.join(name), kind: Some(node.stat().kind) }
        };
        Ok(Some(inside.map(item).collect()))
    }

    fn open_reader(&self, path: &Path) -> Result<Box<dyn StorageReader>> {
        Ok(Box::new(MemoryReader::new(self.file(path)?)))
    }

    fn open_writer(&self, path: &Path, mode: OpenMode) -> Result<Box<dyn StorageWriter>> {
        let file = self.file_or_new(path)?;
        if mode == OpenMode::Truncate {
            file.change(self.now(), Vec::clear);
        }
        Ok(self.writer(file, path))
    }

    fn create_new(&self, path: &Path) -> Result<Box<dyn StorageWriter>> {
        let place = absolute(path)?;
        let mut nodes = self.nodes();
        if find(&nodes, &place).is_some() {
            return Err(already_there(path));
        }
        let file = self.insert_new(&mut nodes, place)?;
        Ok(self.writer(file, path))
    }

    fn write_at(&self, path: &Path, offset: u64, bytes: &[u8]) -> Result<()> {
        let file = self.file(path)?;
        let mut content = locked(&file.content);
        let start = usize::try_from(offset).ok();
        let end = start.and_then(|start| start.checked_add(bytes.len()));
        let range = start.zip(end).and_then(|(start, end)| content.bytes.get_mut(start..end));
        let Some(range) = range else {
            let message = format!("the range to overwrite reaches past the file's end at {}", content.bytes.len());
            return Err(Error::new(ErrorKind::InvalidInput, message).at(path));
        };
        range.copy_from_slice(bytes);
        content.changed_at(self.now());
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let (source, target) = (absolute(from)?, absolute(to)?);
        let mut nodes = self.nodes();
        let moving = find(&nodes, &source).ok_or_else(|| missing(from))?;
        needs_directory(&nodes, &target)?;
        if source == target {
            return Ok(());
        }
        match (&moving, find(&nodes, &target)) {
            (_, None) => {}
            (Node::File(_), Some(Node::File(replaced))) => replaced.unlinked(),
            (Node::File(_), Some(Node::Directory { .. })) => return Err(not_a_file(to)),
            (Node::Directory { .. }, Some(Node::File(_))) => return Err(not_a_directory(to)),
            (Node::Directory { .. }, Some(Node::Directory { .. })) => {
                if below(&nodes, &target).next().is_some() {
                    return Err(Error::new(ErrorKind::Io, "the directory at the new name is not empty").at(to));
                }
            }
        }
        if target.starts_with(&source) {
            return Err(Error::new(ErrorKind::InvalidInput, "a directory cannot move into itself").at(to));
        }
        let paths: Vec<PathBuf> = nodes.keys().filter(|path| path.starts_with(&source)).cloned().collect();
        for path in paths {
            if let (Some(node), Ok(rest)) = (nodes.remove(&path), path.strip_prefix(&source)) {
                let place = if rest.as_os_str().is_empty() { target.clone() } else { target.join(rest) };
                nodes.insert(place, node);
            }
        }
        Ok(())
    }

    fn unlink(&self, path: &Path) -> Result<()> {
        let file = self.file(path)?;
        self.nodes().remove(&absolute(path)?);
        file.unlinked();
        Ok(())
    }

    fn remove_tree(&self, dir: &Path) -> Result<()> {
        let place = absolute(dir)?;
        let mut nodes = self.nodes();
        match find(&nodes, &place) {
            Some(Node::Directory { .. }) => {}
            Some(Node::File(_)) => return Err(not_a_directory(dir)),
            None => return Err(missing(dir)),
        }
        nodes.retain(|path, node| {
            let inside = path.starts_with(&place);
            if let (true, Node::File(file)) = (inside, node) {
                file.unlinked();
            }
            !inside
        });
        Ok(())
    }

    fn copy(&self, from: &Path, to: &Path) -> Result<()> {
        let (source, target) = (absolute(from)?, absolute(to)?);
        let mut nodes = self.nodes();
        if find(&nodes, &source).is_none() {
            return Err(missing(from));
        }
        if find(&nodes, &target).is_some() {
            return Err(already_there(to));
        }
        needs_directory(&nodes, &target)?;
        if target.starts_with(&source) {
            return Err(Error::new(ErrorKind::InvalidInput, "a directory cannot be copied into itself").at(to));
        }
        let originals: Vec<_> =
            nodes.range(source.clone()..).take_while(|(path, _)| path.starts_with(&source)).collect();
        let copies: Vec<_> = originals.into_iter().map(|(path, node)| (path.clone(), self.copy_of(node))).collect();
        for (path, node) in copies {
            if let Ok(rest) = path.strip_prefix(&source) {
                let place = if rest.as_os_str().is_empty() { target.clone() } else { target.join(rest) };
                nodes.insert(place, node);
            }
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        match find(&self.nodes(), &absolute(dir)?) {
            Some(Node::Directory { .. }) => Ok(()),
            Some(Node::File(_)) => Err(not_a_directory(dir)),
            None => Err(missing(dir)),
        }
    }

    fn set_modified(&self, path: &Path, time: SystemTime) -> Result<()> {
        locked(&self.file(path)?.content).changed_at(time);
        Ok(())
    }

    fn resolve(&self, path: &Path) -> PathBuf {
        absolute(path).unwrap_or_else(|_| path.into())
    }

    fn open_lock(&self, path: &Path, holder: &str) -> Result<Box<dyn StorageLock>> {
        let file = self.lock_file(path)?;
        Ok(Box::new(MemoryLock::new(file, self.clone(), path, holder)))
    }
}

impl MemorySessionStorage {
    fn copy_of(&self, node: &Node) -> Node {
        match node {
            Node::Directory { .. } => Node::Directory { inode: self.inode(), modified: self.now() },
            Node::File(original) => {
                let copy = self.new_file();
                let original = locked(&original.content);
                *locked(&copy.content) =
                    Content { bytes: original.bytes.clone(), modified: original.modified, changes: 0 };
                Node::File(copy)
            }
        }
    }
}

impl Node {
    fn stat(&self) -> Stat {
        match self {
            Self::File(file) => file.stat(),
            Self::Directory { inode, modified } => Stat {
                kind: FileKind::Directory,
                len: 0,
                modified: *modified,
                change: 0,
                identity: FileIdentity { device: DEVICE, inode: *inode },
                links: 1,
            },
        }
    }
}

impl MemoryFile {
    fn stat(&self) -> Stat {
        let content = locked(&self.content);
        Stat {
            kind: FileKind::File,
            len: content.bytes.len() as u64,
            modified: content.modified,
            change: content.changes,
            identity: FileIdentity { device: DEVICE, inode: self.inode },
            links: self.links.load(Ordering::Relaxed),
        }
    }

    fn change(&self, now: SystemTime, change: impl FnOnce(&mut Vec<u8>)) {
        let mut content = locked(&self.content);
        change(&mut content.bytes);
        content.changed_at(now);
    }

    fn unlinked(&self) {
        self.links.store(0, Ordering::Relaxed);
    }
}

/// A thread that panicked in between left whole values behind: every change here is one step.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The path as a key: absolute, without `.`, `..` and doubled separators.
fn absolute(path: &Path) -> Result<PathBuf> {
    if !path.is_absolute() {
        return Err(Error::new(ErrorKind::InvalidInput, "a path in memory is absolute").at(path));
    }
    if path.as_os_str().as_bytes().contains(&0) {
        return Err(Error::new(ErrorKind::InvalidInput, "a path holds no NUL").at(path));
    }
    let mut clean = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::ParentDir => drop(clean.pop()),
            Component::Normal(name) => clean.push(name),
            _ => {}
        }
    }
    Ok(clean)
}

fn find(nodes: &BTreeMap<PathBuf, Node>, place: &Path) -> Option<Node> {
    if place.as_os_str() == OsStr::new("/") {
        return Some(Node::Directory { inode: 1, modified: UNIX_EPOCH });
    }
    nodes.get(place).cloned()
}

/// Everything below a directory; in a map of paths it stands together.
fn below<'a>(nodes: &'a BTreeMap<PathBuf, Node>, dir: &'a Path) -> impl Iterator<Item = (&'a PathBuf, &'a Node)> {
    let inside = nodes.range(dir.to_path_buf()..).take_while(move |(path, _)| path.starts_with(dir));
    inside.filter(move |(path, _)| *path != dir)
}

fn needs_directory(nodes: &BTreeMap<PathBuf, Node>, place: &Path) -> Result<()> {
    let Some(parent) = place.parent() else {
        return Err(already_there(place));
    };
    match find(nodes, parent) {
        Some(Node::Directory { .. }) => Ok(()),
        Some(Node::File(_)) => Err(not_a_directory(parent)),
        None => Err(missing(parent)),
    }
}

fn missing(path: &Path) -> Error {
    Error::new(ErrorKind::NotFound, "there is nothing at this path").at(path)
}

fn already_there(path: &Path) -> Error {
    Error::new(ErrorKind::AlreadyExists, "there is something at this path already").at(path)
}

fn not_a_file(path: &Path) -> Error {
    Error::new(ErrorKind::NotAFile, "this is no regular file").at(path)
}

fn not_a_directory(path: &Path) -> Error {
    Error::new(ErrorKind::NotAFile, "this is no directory").at(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{ManualClock, Timestamp};
    use crate::storage::contract;

    #[test]
    fn memory_storage_keeps_the_contract() {
        // [S1, S2]
        let storage = MemorySessionStorage::new();
        storage.ensure_dir(Path::new("/scratch")).unwrap();
        contract::check(&storage, Path::new("/scratch"));
        contract::check(&storage, Path::new("/"));
    }

    #[test]
    fn files_change_at_the_time_of_the_clock() {
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_000).unwrap()));
        let storage = MemorySessionStorage::with_clock(clock.clone());
        let mut writer = storage.create_new(Path::new("/x")).unwrap();
        clock.advance_millis(500);
        writer.write(b"x").unwrap();
        assert_eq!(writer.stat().unwrap().modified, UNIX_EPOCH + Duration::from_millis(1_500));
    }

    #[test]
    fn relative_paths_are_refused_and_dots_cannot_leave_the_root() {
        let storage = MemorySessionStorage::new();
        assert_eq!(storage.stat(Path::new("x")).unwrap_err().kind(), ErrorKind::InvalidInput);
        storage.write_text(Path::new("/../../x"), "x").unwrap();
        assert_eq!(storage.read_text(Path::new("/x")).unwrap(), "x");
    }
}
