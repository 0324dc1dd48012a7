//! Which directories are looked into, what was in them, which of them give events, and which must be polled.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use session_core::storage::{DirItem, FileIdentity, FileKind, SessionStorage, Stat};

use crate::source::{Coverage, Source};

/// A listing serves for so long at most: not every file system tells all that it should.
const SERVES: Duration = Duration::from_secs(3600);

/// The directories.
pub(crate) struct Watches {
    source: Box<dyn Source>,
    /// Each has its path once: there may be tens of thousands.
    dirs: BTreeMap<Arc<Path>, Watched>,
    paths: HashMap<FileIdentity, Arc<Path>>,
    /// Reasons for polling that are to be told.
    reasons: Vec<String>,
    told: Vec<String>,
    /// Which pass over the directories this is.
    pass: u64,
}

struct Watched {
    /// As the last look saw it.
    stat: Stat,
    /// The pass of that look.
    looked_in: u64,
    gives_events: bool,
    listing: Listing,
    /// None: the listing has to be made anew.
    made: Option<Made>,
}

/// When a listing was made.
struct Made {
    /// The directory's number of changes before it, [settled](SessionStorage::is_settled).
    change: u64,
    at: Duration,
}

/// What is of interest in a directory.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) files: Vec<Arc<Path>>,
    pub(crate) dirs: Vec<Arc<Path>>,
    /// A link leads nowhere that may have led to a directory: its disk may not be there now.
    pub(crate) is_partial: bool,
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
        Self { source, dirs: BTreeMap::new(), paths: HashMap::new(), reasons: Vec::new(), told: Vec::new(), pass: 0 }
    }

    /// A new pass over the directories begins.
    pub(crate) fn begin_pass(&mut self) {
        self.pass += 1;
    }

    /// Whether the directory was looked into in this pass.
    pub(crate) fn is_looked_into(&self, dir: &Path) -> bool {
        self.dirs.get(dir).is_some_and(|watched| watched.looked_in == self.pass)
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
        match self.dirs.get_mut(dir) {
            Some(watched) if watched.stat.identity == stat.identity => {
                watched.stat = stat;
                watched.looked_in = self.pass;
                return Ok(Standing::Followed);
            }
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
        let gives_events = coverage == Coverage::Events;
        self.dirs
            .insert(dir, Watched { stat, looked_in: self.pass, gives_events, listing: Listing::default(), made: None });
        Ok(Standing::Followed)
    }

    /// What is in a directory that is [followed](Self::follow). One that has not changed since it was read is not read
    /// again, unless it is one that must be polled: the clock of another machine may number its changes. None when it is not
    /// followed.
    ///
    /// # Errors
    /// The directory can't be read.
    pub(crate) fn list(
        &mut self,
        storage: &dyn SessionStorage,
        dir: &Path,
        now: Duration,
        sift: impl FnOnce(&[DirItem]) -> Listing,
    ) -> session_core::Result<Option<&Listing>> {
        let Some(watched) = self.dirs.get_mut(dir) else { return Ok(None) };
        let change = watched.stat.change;
        let serves = |made: &Made| made.change == change && now.saturating_sub(made.at) < SERVES;
        if !watched.made.as_ref().is_some_and(serves) {
            // Judged before it is read: what changes meanwhile gives the directory another number.
            let is_settled = watched.gives_events && storage.is_settled(&watched.stat);
            watched.made = None;
            let items = storage.read_dir(dir)?.unwrap_or_default();
            // What a link leads to may appear without a change of the directory.
            let is_plain = items.iter().all(|item| matches!(item.kind, Some(FileKind::File | FileKind::Directory)));
            watched.listing = sift(&items);
            watched.made = (is_settled && is_plain).then_some(Made { change, at: now });
        }
        Ok(Some(&watched.listing))
    }

    pub(crate) fn forget(&mut self, dir: &Path) {
        if let Some(watched) = self.dirs.remove(dir) {
            self.paths.remove(&watched.stat.identity);
            self.source.forget(dir);
        }
    }

    /// Forgets all directories: what follows them again asks for events anew.
    pub(crate) fn forget_all(&mut self) {
        self.paths.clear();
        for dir in std::mem::take(&mut self.dirs).into_keys() {
            self.source.forget(&dir);
        }
    }

    /// Forgets the directories below `root` that were not looked into in this pass.
    pub(crate) fn retain_looked_into(&mut self, root: &Path) {
        let is_gone = |(dir, watched): &(&Arc<Path>, &Watched)| watched.looked_in != self.pass && dir.starts_with(root);
        let gone: Vec<Arc<Path>> = self.dirs.iter().filter(is_gone).map(|(dir, _)| Arc::clone(dir)).collect();
        for dir in gone {
            self.forget(&dir);
        }
    }

    /// The directories that give no events.
    pub(crate) fn polled(&self) -> Vec<Arc<Path>> {
        let polled = self.dirs.iter().filter(|(_, watched)| !watched.gives_events);
        polled.map(|(dir, _)| Arc::clone(dir)).collect()
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
