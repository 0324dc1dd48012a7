//! Which directories are looked into, which of them give events, and which must be polled.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use session_core::storage::{FileIdentity, FileKind, SessionStorage};

use crate::source::{Coverage, Source};

/// The directories.
pub(crate) struct Watches {
    source: Box<dyn Source>,
    /// Each has its path once: there may be tens of thousands.
    dirs: BTreeMap<Arc<Path>, Watched>,
    paths: HashMap<FileIdentity, Arc<Path>>,
    /// Reasons for polling that are to be told.
    reasons: Vec<String>,
    told: Vec<String>,
}

struct Watched {
    identity: FileIdentity,
    gives_events: bool,
}

/// What a directory is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// No directory is there.
    Missing,
    /// It is looked into under this name.
    Followed,
    /// It is another name of a directory that is followed.
    Alias,
}

impl Watches {
    pub(crate) fn new(source: Box<dyn Source>) -> Self {
        Self { source, dirs: BTreeMap::new(), paths: HashMap::new(), reasons: Vec::new(), told: Vec::new() }
    }

    /// Follows a directory. Events are asked for before anybody looks into it, so that what appears in between is seen.
    ///
    /// # Errors
    /// The directory can't be looked at.
    pub(crate) fn follow(&mut self, storage: &dyn SessionStorage, dir: &Path) -> session_core::Result<Standing> {
        let Some(stat) = storage.stat(dir)?.filter(|stat| stat.kind == FileKind::Directory) else {
            self.forget(dir);
            return Ok(Standing::Missing);
        };
        match self.dirs.get(dir) {
            Some(watched) if watched.identity == stat.identity => return Ok(Standing::Followed),
            // Deleted and made again: the old watch went with the old directory.
            Some(_) => self.forget(dir),
            None => {}
        }
        if let Some(other) = self.paths.get(&stat.identity).cloned() {
            let is_there = storage.stat(&other)?.is_some_and(|other| other.identity == stat.identity);
            if is_there {
                return Ok(Standing::Alias);
            }
            // Renamed. A watch follows the directory and not its name: it must go before the new one comes.
            self.forget(&other);
        }
        let coverage = self.source.watch(dir);
        if let Coverage::Polling(reason) = &coverage
            && !self.told.contains(reason)
        {
            self.told.push(reason.clone());
            self.reasons.push(reason.clone());
        }
        let dir: Arc<Path> = dir.into();
        self.paths.insert(stat.identity, Arc::clone(&dir));
        self.dirs.insert(dir, Watched { identity: stat.identity, gives_events: coverage == Coverage::Events });
        Ok(Standing::Followed)
    }

    pub(crate) fn forget(&mut self, dir: &Path) {
        if let Some(watched) = self.dirs.remove(dir) {
            self.paths.remove(&watched.identity);
            self.source.forget(dir);
        }
    }

    /// Forgets the directories below `root` that are not among `present`.
    pub(crate) fn retain(&mut self, root: &Path, present: &std::collections::BTreeSet<PathBuf>) {
        let is_gone = |dir: &&Arc<Path>| dir.starts_with(root) && !present.contains(dir.as_ref());
        let gone: Vec<Arc<Path>> = self.dirs.keys().filter(is_gone).cloned().collect();
        for dir in gone {
            self.forget(&dir);
        }
    }

    /// The directories that give no events.
    pub(crate) fn polled(&self) -> Vec<PathBuf> {
        let polled = self.dirs.iter().filter(|(_, watched)| !watched.gives_events);
        polled.map(|(dir, _)| dir.to_path_buf()).collect()
    }

    pub(crate) fn polls(&self) -> bool {
        self.dirs.values().any(|watched| !watched.gives_events)
    }

    pub(crate) fn len(&self) -> usize {
        self.dirs.len()
    }

    /// Why directories are polled, each reason once.
    pub(crate) fn news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.reasons)
    }
}
