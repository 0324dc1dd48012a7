//! What a crash after some calls leaves: a model of a disk that keeps what was synced and may lose the rest.
//!
//! The model promises no more than POSIX does: content is safe after the file's fsync, a name after its directory's sync,
//! and neither implies the other. Unsynced content comes back whole, short, or as NUL bytes of its length; an unsynced
//! name is the old one or the new one. Links and lock files are not part of it.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use session_core::Result;
use session_core::storage::{FileKind, OpenMode, SessionStorage};

use super::call::{Call, Handle, Outcome, Record};

/// What a crash takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Nothing that reached the kernel: `kill -9`.
    Nothing,
    /// Everything that was not synced: the worst power cut.
    Unsynced,
    /// A power cut that takes part of what was not synced; each seed another part.
    Some(u64),
}

/// What a crash leaves below the root of the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remains {
    /// Directories, relative to the root.
    pub dirs: Vec<PathBuf>,
    /// Files by path relative to the root.
    pub files: BTreeMap<PathBuf, Vec<u8>>,
    times: BTreeMap<PathBuf, SystemTime>,
}

impl Remains {
    /// Writes everything below `root`, which must exist, in a storage that then is what the next process finds.
    pub fn restore(&self, storage: &dyn SessionStorage, root: &Path) -> Result<()> {
        for dir in &self.dirs {
            storage.ensure_dir(&root.join(dir))?;
        }
        for (path, bytes) in &self.files {
            let path = root.join(path);
            let mut writer = storage.open_writer(&path, OpenMode::Truncate)?;
            writer.write(bytes)?;
            writer.close()?;
        }
        for (path, time) in &self.times {
            storage.set_modified(&root.join(path), *time)?;
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Dir(usize),
    File(usize),
}

/// A change of a directory's names. It is safe when every directory that it concerns was synced after it.
#[derive(Clone, Debug)]
enum NameOp {
    Set { place: Place, node: Node },
    Remove { place: Place },
    Move { from: Place, to: Place, node: Node },
}

type Place = (usize, OsString);

#[derive(Clone, Debug)]
struct Pending {
    op: NameOp,
    unsynced_dirs: Vec<usize>,
}

/// A change of a file's content. It is safe when the file was synced after it.
#[derive(Clone, Debug)]
enum ContentOp {
    Append(Vec<u8>),
    Overwrite(usize, Vec<u8>),
    Empty,
}

#[derive(Clone, Debug, Default)]
struct File {
    safe: Vec<u8>,
    unsynced: Vec<ContentOp>,
    modified: Option<SystemTime>,
}

type Names = Vec<BTreeMap<OsString, Node>>;

/// The disk: what is safe, and what has been done since.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    root: PathBuf,
    /// Names that are safe, by directory; directory 0 is the root.
    safe: Names,
    pending: Vec<Pending>,
    /// Names as a running process sees them.
    now: Names,
    files: Vec<File>,
    handles: HashMap<Handle, usize>,
}

impl Disk {
    /// The disk as it is now, everything safe.
    pub(super) fn of(storage: &dyn SessionStorage, root: &Path) -> Result<Self> {
        let mut disk = Self {
            root: root.into(),
            safe: vec![BTreeMap::new()],
            pending: Vec::new(),
            now: Vec::new(),
            files: Vec::new(),
            handles: HashMap::new(),
        };
        let mut todo = vec![(root.to_path_buf(), 0)];
        while let Some((dir, id)) = todo.pop() {
            for item in storage.read_dir(&dir)?.unwrap_or_default() {
                let name = item.path.file_name().unwrap_or_default().to_owned();
                let node = match item.kind {
                    Some(FileKind::Directory) => {
                        disk.safe.push(BTreeMap::new());
                        todo.push((item.path, disk.safe.len() - 1));
                        Node::Dir(disk.safe.len() - 1)
                    }
                    Some(FileKind::File) => {
                        let modified = storage.stat(&item.path)?.map(|stat| stat.modified);
                        let safe = storage.read_bytes(&item.path, u64::MAX)?;
                        disk.files.push(File { safe, unsynced: Vec::new(), modified });
                        Node::File(disk.files.len() - 1)
                    }
                    _ => continue,
                };
                disk.safe[id].insert(name, node);
            }
        }
        disk.now.clone_from(&disk.safe);
        Ok(disk)
    }

    /// Does what a recorded call did.
    pub(super) fn apply(&mut self, record: &Record) {
        let done = match &record.outcome {
            Outcome::Failed(_) => return,
            Outcome::Done => usize::MAX,
            Outcome::Short(written) => *written,
        };
        match &record.call {
            Call::EnsureDir { dir } => self.ensure_dir(dir),
            Call::OpenWriter { path, mode, handle } => {
                let Some(place) = self.place(path) else { return };
                let file = match self.node(&place) {
                    Some(Node::File(file)) => file,
                    Some(Node::Dir(_)) => return,
                    None => self.create(place),
                };
                if *mode == OpenMode::Truncate {
                    self.files[file].change(ContentOp::Empty);
                }
                self.handles.insert(*handle, file);
            }
            Call::CreateNew { path, handle } => {
                if let Some(place) = self.place(path) {
                    let file = self.create(place);
                    self.handles.insert(*handle, file);
                }
            }
            Call::Write { handle, bytes, .. } => {
                if let Some(file) = self.handles.get(handle) {
                    self.files[*file].change(ContentOp::Append(bytes[..bytes.len().min(done)].to_vec()));
                }
            }
            Call::Fsync { handle, .. } => {
                if let Some(file) = self.handles.get(handle) {
                    self.files[*file].sync();
                }
            }
            Call::WriteAt { path, offset, bytes } => {
                if let Some(file) = self.file(path) {
                    let bytes = bytes[..bytes.len().min(done)].to_vec();
                    let offset = usize::try_from(*offset).unwrap_or(usize::MAX);
                    self.files[file].change(ContentOp::Overwrite(offset, bytes));
                }
            }
            Call::SetModified { path, time } => {
                if let Some(file) = self.file(path) {
                    self.files[file].modified = Some(*time);
                }
            }
            Call::Rename { from, to } => {
                if let (Some(from), Some(to)) = (self.place(from), self.place(to))
                    && let Some(node) = self.node(&from)
                {
                    self.change(NameOp::Move { from, to, node });
                }
            }
            Call::Unlink { path } => {
                if let Some(place) = self.place(path) {
                    self.change(NameOp::Remove { place });
                }
            }
            Call::RemoveTree { dir } => self.remove_tree(dir),
            Call::Copy { from, to } => self.copy(from, to),
            Call::SyncDir { dir } => self.sync_dir(dir),
            Call::Stat { .. }
            | Call::ReadDir { .. }
            | Call::OpenReader { .. }
            | Call::ReadAt { .. }
            | Call::Flush { .. }
            | Call::Close { .. }
            | Call::OpenLock { .. }
            | Call::Acquire { .. }
            | Call::Release { .. }
            | Call::WritersOf { .. } => {}
        }
    }

    /// What is there when the next process looks.
    pub(super) fn remains(&self, loss: Loss) -> Remains {
        let mut dice = Dice(match loss {
            Loss::Some(seed) => seed,
            Loss::Nothing | Loss::Unsynced => 0,
        });
        let mut names = self.safe.clone();
        for pending in &self.pending {
            let kept = match loss {
                Loss::Nothing => true,
                Loss::Unsynced => pending.unsynced_dirs.is_empty(),
                Loss::Some(_) => pending.unsynced_dirs.is_empty() || dice.roll(2) == 0,
            };
            if kept {
                apply(&mut names, &pending.op);
            }
        }
        let contents: Vec<Vec<u8>> = self.files.iter().map(|file| file.remains(loss, &mut dice)).collect();
        let mut remains = Remains::default();
        let mut todo = vec![(PathBuf::new(), 0)];
        while let Some((dir, id)) = todo.pop() {
            for (name, node) in &names[id] {
                let path = dir.join(name);
                match node {
                    Node::Dir(id) => {
                        remains.dirs.push(path.clone());
                        todo.push((path, *id));
                    }
                    Node::File(file) => {
                        remains.files.insert(path.clone(), contents[*file].clone());
                        remains.times.extend(self.files[*file].modified.map(|time| (path, time)));
                    }
                }
            }
        }
        remains.dirs.sort();
        remains
    }

    /// Where a path stands: its directory and its name there. None outside the root, and where no directory is.
    fn place(&self, path: &Path) -> Option<Place> {
        let dir = self.dir(path.parent()?)?;
        Some((dir, path.file_name()?.to_owned()))
    }

    fn dir(&self, path: &Path) -> Option<usize> {
        let mut id = 0;
        for component in path.strip_prefix(&self.root).ok()?.components() {
            match (component, component.as_os_str()) {
                (Component::Normal(_), name) => match self.now[id].get(name) {
                    Some(Node::Dir(below)) => id = *below,
                    _ => return None,
                },
                _ => return None,
            }
        }
        Some(id)
    }

    fn node(&self, (dir, name): &Place) -> Option<Node> {
        self.now[*dir].get(name).copied()
    }

    fn file(&self, path: &Path) -> Option<usize> {
        match self.node(&self.place(path)?)? {
            Node::File(file) => Some(file),
            Node::Dir(_) => None,
        }
    }

    fn create(&mut self, place: Place) -> usize {
        let file = self.files.len();
        self.files.push(File::default());
        self.change(NameOp::Set { place, node: Node::File(file) });
        file
    }

    fn change(&mut self, op: NameOp) {
        apply(&mut self.now, &op);
        let unsynced_dirs = match &op {
            NameOp::Set { place, .. } | NameOp::Remove { place } => vec![place.0],
            NameOp::Move { from, to, .. } => vec![from.0, to.0],
        };
        self.pending.push(Pending { op, unsynced_dirs });
    }

    /// A change that is safe when its call returns.
    fn change_safely(&mut self, op: NameOp) {
        self.change(op);
        if let Some(last) = self.pending.last_mut() {
            last.unsynced_dirs.clear();
        }
    }

    fn sync_dir(&mut self, path: &Path) {
        if let Some(dir) = self.dir(path) {
            for pending in &mut self.pending {
                pending.unsynced_dirs.retain(|unsynced| *unsynced != dir);
            }
        }
    }

    fn ensure_dir(&mut self, path: &Path) {
        let Ok(below) = path.strip_prefix(&self.root) else { return };
        let mut id = 0;
        for name in below.components().map(Component::as_os_str) {
            id = match self.now[id].get(name) {
                Some(Node::Dir(there)) => *there,
                Some(Node::File(_)) => return,
                None => self.new_dir((id, name.to_owned())),
            };
        }
    }

    fn new_dir(&mut self, place: Place) -> usize {
        let id = self.now.len();
        self.now.push(BTreeMap::new());
        self.safe.push(BTreeMap::new());
        self.change_safely(NameOp::Set { place, node: Node::Dir(id) });
        id
    }

    /// Names go one by one, deepest first, as they do on a disk.
    fn remove_tree(&mut self, path: &Path) {
        let Some(top) = self.place(path) else { return };
        let mut order = vec![top];
        let mut next = 0;
        while let Some(place) = order.get(next) {
            if let Some(Node::Dir(id)) = self.node(place) {
                let names: Vec<Place> = self.now[id].keys().map(|name| (id, name.clone())).collect();
                order.extend(names);
            }
            next += 1;
        }
        for place in order.into_iter().rev() {
            self.change(NameOp::Remove { place });
        }
    }

    /// A copy shows whole and safe, or not at all.
    fn copy(&mut self, from: &Path, to: &Path) {
        let (Some(from), Some(to)) = (self.place(from), self.place(to)) else { return };
        let mut todo = vec![(from, to)];
        while let Some((from, to)) = todo.pop() {
            match self.node(&from) {
                Some(Node::Dir(source)) => {
                    let id = self.new_dir(to);
                    let names: Vec<OsString> = self.now[source].keys().cloned().collect();
                    todo.extend(names.into_iter().map(|name| ((source, name.clone()), (id, name))));
                }
                Some(Node::File(source)) => {
                    let mut copy = self.files[source].clone();
                    copy.sync();
                    self.files.push(copy);
                    self.change_safely(NameOp::Set { place: to, node: Node::File(self.files.len() - 1) });
                }
                None => {}
            }
        }
    }
}

/// Changes names; what is no longer possible, because an earlier change was lost, does not happen.
fn apply(names: &mut Names, op: &NameOp) {
    match op {
        NameOp::Set { place, node } => drop(names[place.0].insert(place.1.clone(), *node)),
        NameOp::Remove { place } => drop(names[place.0].remove::<OsStr>(&place.1)),
        NameOp::Move { from, to, node } => {
            if names[from.0].get::<OsStr>(&from.1) == Some(node) {
                names[from.0].remove::<OsStr>(&from.1);
                names[to.0].insert(to.1.clone(), *node);
            }
        }
    }
}

impl File {
    fn change(&mut self, op: ContentOp) {
        self.unsynced.push(op);
        self.modified = None;
    }

    fn sync(&mut self) {
        for op in std::mem::take(&mut self.unsynced) {
            op.apply(&mut self.safe);
        }
    }

    fn remains(&self, loss: Loss, dice: &mut Dice) -> Vec<u8> {
        let mut bytes = self.safe.clone();
        let kept = match loss {
            Loss::Nothing => self.unsynced.len(),
            Loss::Unsynced => 0,
            Loss::Some(_) => dice.roll(self.unsynced.len() + 1),
        };
        for op in &self.unsynced[..kept] {
            op.clone().apply(&mut bytes);
        }
        // The first change that is not kept whole may have got half of the way, or only as far as the length.
        if let (Loss::Some(_), Some(ContentOp::Append(added))) = (loss, self.unsynced.get(kept)) {
            match dice.roll(3) {
                0 => bytes.extend_from_slice(&added[..dice.roll(added.len() + 1)]),
                1 => bytes.resize(bytes.len() + added.len(), 0),
                _ => {}
            }
        }
        bytes
    }
}

impl ContentOp {
    fn apply(self, bytes: &mut Vec<u8>) {
        match self {
            Self::Append(added) => bytes.extend(added),
            Self::Overwrite(offset, new) => {
                if let Some(range) = bytes.get_mut(offset..offset + new.len()) {
                    range.copy_from_slice(&new);
                }
            }
            Self::Empty => bytes.clear(),
        }
    }
}

/// Numbers that are the same for the same seed (`splitmix64`).
struct Dice(u64);

impl Dice {
    /// A number below `sides`.
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % sides as u64).unwrap_or(0)
    }
}
