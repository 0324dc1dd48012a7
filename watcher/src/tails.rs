//! All files that are followed, by path and by identity: what moved, what went. It reads nothing by itself.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use session_core::follow::Position;
use session_core::storage::FileIdentity;

use crate::intake::Tail;

/// The files.
#[derive(Debug, Default)]
pub(crate) struct Tails {
    files: BTreeMap<PathBuf, Tail>,
    paths: HashMap<FileIdentity, PathBuf>,
    /// Paths where a session was, and what is known of it: what pointers may still name.
    gone: BTreeMap<PathBuf, Gone>,
}

/// A session file that is no longer where it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gone {
    pub(crate) session: Option<String>,
    pub(crate) identity: Option<FileIdentity>,
}

impl Tails {
    pub(crate) fn insert(&mut self, path: PathBuf, position: Position) {
        self.put(path, Tail::resume(position));
    }

    fn index(&mut self, path: &Path, identity: Option<FileIdentity>) {
        if let Some(identity) = identity {
            self.paths.insert(identity, path.to_owned());
        }
    }

    /// Hands the file at a path out, to be looked at; [`put`](Self::put) brings it back.
    pub(crate) fn take(&mut self, path: &Path) -> Option<Tail> {
        self.files.remove(path)
    }

    /// After a look: the file's identity may be another one.
    pub(crate) fn put(&mut self, path: PathBuf, tail: Tail) {
        self.index(&path, tail.identity());
        self.files.insert(path, tail);
    }

    pub(crate) fn get(&self, path: &Path) -> Option<&Tail> {
        self.files.get(path)
    }

    pub(crate) fn gone(&self, path: &Path) -> Option<&Gone> {
        self.gone.get(path)
    }

    /// Paths where a session was.
    pub(crate) fn gone_paths(&self) -> impl Iterator<Item = &Path> {
        self.gone.keys().map(PathBuf::as_path)
    }

    /// Where a file with this identity was seen last.
    pub(crate) fn path_of(&self, identity: FileIdentity) -> Option<&Path> {
        self.paths.get(&identity).map(PathBuf::as_path)
    }

    /// The file has another name now.
    pub(crate) fn rename(&mut self, from: &Path, to: &Path) {
        self.vanish(from);
        if let Some(gone) = self.gone.get(from).cloned()
            && let Some(tail) = self.files.remove(from)
        {
            debug_assert_eq!(tail.identity(), gone.identity);
            self.index(to, gone.identity);
            self.files.insert(to.to_owned(), tail);
        }
        self.gone.remove(to);
    }

    /// Nothing is at the path any more. What is known of it stays: the same file may appear elsewhere.
    pub(crate) fn vanish(&mut self, path: &Path) {
        if let Some(tail) = self.files.get(path) {
            let gone = Gone { session: tail.session().map(str::to_owned), identity: tail.identity() };
            self.gone.insert(path.to_owned(), gone);
        }
    }

    /// Something is at the path (again).
    pub(crate) fn appear(&mut self, path: &Path) {
        self.gone.remove(path);
    }

    /// Back to a position that was stored; none: the file was never seen.
    pub(crate) fn roll_back(&mut self, path: &Path, position: Option<Position>) {
        match position {
            Some(position) => self.insert(path.to_owned(), position),
            None => drop(self.files.remove(path)),
        }
    }

    /// Forgets what is gone, and returns where it was.
    pub(crate) fn bury(&mut self) -> Vec<PathBuf> {
        let buried: Vec<PathBuf> = std::mem::take(&mut self.gone).into_keys().collect();
        for path in &buried {
            if let Some(tail) = self.files.remove(path)
                && let Some(identity) = tail.identity()
                && self.paths.get(&identity) == Some(path)
            {
                self.paths.remove(&identity);
            }
        }
        buried
    }

    /// Every path that is there, as far as is known.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.keys().map(PathBuf::as_path).filter(|path| !self.gone.contains_key(*path))
    }

    /// Where sessions with this id are.
    pub(crate) fn with_session<'a>(&'a self, session: &'a str) -> impl Iterator<Item = (&'a Path, &'a Tail)> {
        let here = move |(path, tail): &(&PathBuf, &Tail)| {
            tail.session() == Some(session) && !self.gone.contains_key(path.as_path())
        };
        self.files.iter().filter(here).map(|(path, tail)| (path.as_path(), tail))
    }

    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }
}
