//! All files that are followed, by path and by identity: what moved, what went. It reads nothing by itself.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use session_core::follow::Position;
use session_core::storage::FileIdentity;

use crate::intake::Tail;

/// The files. There may be tens of thousands: each has its path once.
#[derive(Debug, Default)]
pub(crate) struct Tails {
    files: BTreeMap<Arc<Path>, Tail>,
    paths: HashMap<FileIdentity, Arc<Path>>,
    /// Paths where a session was, and what is known of it: what pointers may still name.
    gone: BTreeMap<Arc<Path>, Gone>,
}

/// A session file that is no longer where it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gone {
    pub(crate) session: Option<String>,
    pub(crate) identity: Option<FileIdentity>,
}

impl Tails {
    /// Goes on from positions that were stored.
    pub(crate) fn resume(files: Vec<(Arc<Path>, Position)>) -> Self {
        let files = files.into_iter().map(|(path, position)| (path, Tail::resume(position)));
        let files: BTreeMap<_, _> = files.collect();
        let identity = |(path, tail): (&Arc<Path>, &Tail)| Some((tail.identity()?, Arc::clone(path)));
        let paths = files.iter().filter_map(identity).collect();
        Self { files, paths, gone: BTreeMap::new() }
    }

    /// Hands the file at a path out, to be looked at; [`put`](Self::put) brings it back.
    pub(crate) fn take(&mut self, path: &Path) -> Option<(Arc<Path>, Tail)> {
        let (path, tail) = self.files.remove_entry(path)?;
        self.forget_identity(&path, &tail);
        Some((path, tail))
    }

    /// The file is at the path, in place of what was followed there.
    pub(crate) fn put(&mut self, path: &Arc<Path>, tail: Tail) {
        if let Some(identity) = tail.identity() {
            self.paths.insert(identity, Arc::clone(path));
        }
        if let Some(before) = self.files.insert(Arc::clone(path), tail) {
            let is_same = self.files.get(path).is_some_and(|tail| tail.identity() == before.identity());
            if !is_same {
                self.forget_identity(path, &before);
            }
        }
    }

    fn forget_identity(&mut self, path: &Path, tail: &Tail) {
        if let Some(identity) = tail.identity()
            && self.path_of(identity) == Some(path)
        {
            self.paths.remove(&identity);
        }
    }

    pub(crate) fn get(&self, path: &Path) -> Option<&Tail> {
        self.files.get(path)
    }

    pub(crate) fn gone(&self, path: &Path) -> Option<&Gone> {
        self.gone.get(path)
    }

    /// Paths where a session was.
    pub(crate) fn gone_paths(&self) -> impl Iterator<Item = &Path> {
        self.gone.keys().map(AsRef::as_ref)
    }

    /// Where a file with this identity was seen last.
    pub(crate) fn path_of(&self, identity: FileIdentity) -> Option<&Path> {
        self.paths.get(&identity).map(AsRef::as_ref)
    }

    /// The file has another name now.
    pub(crate) fn rename(&mut self, from: &Path, to: &Arc<Path>) {
        self.vanish(from);
        self.gone.remove(to);
        if let Some((_, tail)) = self.take(from) {
            self.put(to, tail);
        }
    }

    /// Nothing is at the path any more. What is known of it stays: the same file may appear elsewhere.
    pub(crate) fn vanish(&mut self, path: &Path) {
        if let Some((path, tail)) = self.files.get_key_value(path) {
            let gone = Gone { session: tail.session().map(str::to_owned), identity: tail.identity() };
            self.gone.insert(Arc::clone(path), gone);
        }
    }

    /// Something is at the path (again).
    pub(crate) fn appear(&mut self, path: &Path) {
        self.gone.remove(path);
    }

    /// Back to a position that was stored; none: the file was never seen.
    pub(crate) fn roll_back(&mut self, path: &Arc<Path>, position: Option<Box<Position>>) {
        match position {
            Some(position) => self.put(path, Tail::resume(*position)),
            None => drop(self.take(path)),
        }
    }

    /// Forgets what is gone, and returns where it was.
    pub(crate) fn bury(&mut self) -> Vec<Arc<Path>> {
        let buried: Vec<_> = std::mem::take(&mut self.gone).into_keys().collect();
        for path in &buried {
            drop(self.take(path));
        }
        buried
    }

    /// Every path that is there, as far as is known.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Arc<Path>> {
        self.files.keys().filter(|path| !self.gone.contains_key(*path))
    }

    /// Where sessions with this id are.
    pub(crate) fn with_session<'a>(&'a self, session: &'a str) -> impl Iterator<Item = (&'a Path, &'a Tail)> {
        let here = move |(path, tail): &(&Arc<Path>, &Tail)| {
            tail.session() == Some(session) && !self.gone.contains_key(path.as_ref())
        };
        self.files.iter().filter(here).map(|(path, tail)| (path.as_ref(), tail))
    }

    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// How much is remembered, of each kind.
    #[cfg(test)]
    pub(crate) fn sizes(&self) -> [usize; 3] {
        [self.files.len(), self.paths.len(), self.gone.len()]
    }
}
