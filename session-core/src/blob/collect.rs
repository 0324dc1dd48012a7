//! Removing blobs that nothing names any more `[W11]`: first a plan that only looks, then the plan carried out.
//!
//! Whatever might hold a reference counts as holding it. What cannot be read may hold one, so it stops the collection; so
//! does any sign that sessions are being written. Files that nobody pointed this module to are never touched: in the blob
//! directory it removes blobs and our own temporary files, nothing else.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::references::References;
use super::{BlobHash, BlobStore};
use crate::error::{Error, ErrorKind, Result};
use crate::layout::artifact_dir;
use crate::storage::{FileIdentity, FileKind, SessionStorage, is_temporary};

/// A blob younger than this stays, named or not: the line that names it may not be written yet.
const MIN_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// A session that was written more recently than this is being written.
const QUIET: Duration = Duration::from_secs(10 * 60);

/// Where references to blobs are looked for.
#[derive(Clone, Debug, Default)]
pub struct CollectionScope {
    directories: Vec<PathBuf>,
    pointers: Vec<PathBuf>,
    locks: Vec<PathBuf>,
}

impl CollectionScope {
    /// An empty scope. A collection needs at least one directory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a directory in which every file counts, at any depth and through symbolic links: the sessions with all that lies
    /// beside and below them, a trash, a backup. It must exist when the collection runs: one that is missing may only be
    /// unmounted.
    #[must_use]
    pub fn with_directory(mut self, dir: impl Into<PathBuf>) -> Self {
        self.directories.push(dir.into());
        self
    }

    /// Adds a directory of terminal pointers `[D7]`: the session files that they name count, wherever they are.
    #[must_use]
    pub fn with_pointers(mut self, dir: impl Into<PathBuf>) -> Self {
        self.pointers.push(dir.into());
        self
    }

    /// Adds a directory of lock files: while one of them is held nothing is collected.
    #[must_use]
    pub fn with_locks(mut self, dir: impl Into<PathBuf>) -> Self {
        self.locks.push(dir.into());
        self
    }
}

/// What a collection would remove.
#[derive(Clone, Debug)]
pub struct CollectionPlan {
    scope: CollectionScope,
    unreferenced: BTreeMap<PathBuf, UnreferencedFile>,
    kept: usize,
    files_read: usize,
    missing: Vec<PathBuf>,
}

/// A file in the blob directory that nothing names: a blob, or a temporary file that a crash left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreferencedFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its length in bytes.
    pub len: u64,
    /// When it was written or last put again.
    pub modified: SystemTime,
}

impl CollectionPlan {
    /// What would be removed, in the order of the paths.
    pub fn unreferenced(&self) -> impl Iterator<Item = &UnreferencedFile> {
        self.unreferenced.values()
    }

    /// How many blobs stay because something names them, or because they are too young.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// How many files were searched for references.
    pub fn files_read(&self) -> usize {
        self.files_read
    }

    /// Paths that a pointer or a `parentSession` names and where nothing is now. If one of them is only out of reach (a disk
    /// that is not mounted), do not carry the plan out.
    pub fn missing(&self) -> &[PathBuf] {
        &self.missing
    }
}

/// What a collection did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// What was removed.
    pub removed: Vec<UnreferencedFile>,
    /// What the plan held but was named, put again or gone by the time it came to it.
    pub spared: Vec<PathBuf>,
}

impl BlobStore {
    /// Looks for blobs that nothing in `scope` names, and changes nothing `[W11]`. A blob counts from the age of 7 days on.
    ///
    /// ```
    /// # use std::{path::Path, sync::Arc};
    /// # use session_core::storage::{MemorySessionStorage, SessionStorage};
    /// # use session_core::{BlobStore, CollectionScope, ManualClock, SystemClock, Timestamp};
    /// # let storage = Arc::new(MemorySessionStorage::new());
    /// # storage.ensure_dir(Path::new("/agent/sessions"))?;
    /// # let clock = Arc::new(ManualClock::at(Timestamp::from_system(std::time::SystemTime::now())));
    /// let blobs = BlobStore::new(storage, "/agent/blobs", clock.clone());
    /// blobs.put(b"an image")?;
    /// clock.advance_millis(8 * 24 * 60 * 60 * 1000);
    /// let plan = blobs.plan_collection(&CollectionScope::new().with_directory("/agent/sessions"))?;
    /// assert_eq!(plan.unreferenced().count(), 1);
    /// let done = blobs.collect(&plan)?;
    /// assert_eq!(done.removed.len(), 1);
    /// # Ok::<(), session_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Busy`], [`ErrorKind::HeldElsewhere`] or [`ErrorKind::Locked`] while a session is being written;
    /// [`ErrorKind::InvalidInput`] for an empty scope; and the error of whatever in the scope could not be read, since it may
    /// hold references.
    pub fn plan_collection(&self, scope: &CollectionScope) -> Result<CollectionPlan> {
        if scope.directories.is_empty() {
            return Err(Error::new(ErrorKind::InvalidInput, "say which directories hold the sessions").at(&self.dir));
        }
        let mut search = Search::new(self)?;
        search.locks(&scope.locks)?;
        for dir in &scope.directories {
            search.must_be_directory(dir)?;
            search.visit_listed(dir.clone())?;
        }
        for dir in &scope.pointers {
            search.pointers(dir)?;
        }
        search.follow_parents()?;
        let mut plan = CollectionPlan {
            scope: scope.clone(),
            unreferenced: BTreeMap::new(),
            kept: 0,
            files_read: search.files_read,
            missing: std::mem::take(&mut search.missing),
        };
        for item in self.storage.read_dir(&self.dir)?.unwrap_or_default() {
            let name = item.path.file_name().unwrap_or_default();
            let hash = blob_name(name);
            if item.kind != Some(FileKind::File) || (hash.is_none() && !is_temporary(name)) {
                continue;
            }
            let Some(stat) = self.storage.stat(&item.path)? else { continue };
            let named = hash.is_some_and(|hash| search.references.blobs.contains(&hash));
            if named || !self.is_older(stat.modified, MIN_AGE) {
                plan.kept += 1;
                continue;
            }
            let file = UnreferencedFile { path: item.path.clone(), len: stat.len, modified: stat.modified };
            plan.unreferenced.insert(item.path, file);
        }
        if !plan.unreferenced.is_empty() {
            search.must_be_quiet_still()?;
        }
        Ok(plan)
    }

    /// Carries a plan out. All is looked at again first, and only what is still unreferenced goes; a blob that is put in the
    /// same moment stays.
    ///
    /// A crash in between leaves each blob removed or in place; one that was caught half-way is put back by the next call.
    ///
    /// # Errors
    /// Those of [`plan_collection`](BlobStore::plan_collection), with nothing removed; or the first removal that failed, with
    /// those before it done.
    pub fn collect(&self, plan: &CollectionPlan) -> Result<Collected> {
        self.put_back_leftovers()?;
        let now = self.plan_collection(&plan.scope)?;
        let mut done = Collected::default();
        for path in plan.unreferenced.keys() {
            match now.unreferenced.get(path) {
                Some(file) if self.remove(file)? => done.removed.push(file.clone()),
                _ => done.spared.push(path.clone()),
            }
        }
        if !done.removed.is_empty() {
            self.storage.sync_dir(&self.dir)?;
        }
        Ok(done)
    }

    /// Removes a file unless it was put again since `file` was looked at. Moved aside first: whoever puts it from then on
    /// finds nothing and writes it anew, and whoever did before has changed its time.
    fn remove(&self, file: &UnreferencedFile) -> Result<bool> {
        let mut aside = file.path.clone().into_os_string();
        aside.push(ASIDE);
        let aside = PathBuf::from(aside);
        match self.storage.rename(&file.path, &aside) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        }
        let stat = self.storage.stat(&aside)?;
        if stat.is_some_and(|stat| stat.modified == file.modified && stat.len == file.len) {
            self.storage.unlink(&aside)?;
            return Ok(true);
        }
        self.storage.rename(&aside, &file.path)?;
        Ok(false)
    }

    /// What a crash left aside: back to its place, where it will be judged like any other blob.
    fn put_back_leftovers(&self) -> Result<()> {
        for item in self.storage.read_dir(&self.dir)?.unwrap_or_default() {
            let Some(name) = item.path.file_name().and_then(OsStr::to_str).and_then(|name| name.strip_suffix(ASIDE))
            else {
                continue;
            };
            let place = self.dir.join(name);
            if self.storage.exists(&place)? {
                self.storage.unlink(&item.path)?;
            } else {
                self.storage.rename(&item.path, &place)?;
            }
        }
        Ok(())
    }

    /// A time in the future is not older.
    fn is_older(&self, time: SystemTime, than: Duration) -> bool {
        self.now().duration_since(time).is_ok_and(|age| age >= than)
    }
}

/// The end of a name that is on its way out.
const ASIDE: &str = ".collecting";

fn blob_name(name: &OsStr) -> Option<BlobHash> {
    let name = name.to_str()?;
    BlobHash::parse(name).filter(|hash| hash.to_string() == name)
}

/// The search for references.
struct Search<'a> {
    store: &'a BlobStore,
    storage: &'a dyn SessionStorage,
    /// Files and directories that were looked at, and the blob directory: each once, whatever its names.
    seen: HashSet<FileIdentity>,
    references: References,
    files_read: usize,
    missing: Vec<PathBuf>,
    /// Paths from `parentSession`, not visited yet.
    parents: Vec<PathBuf>,
    /// Session files that were read.
    sessions: Vec<PathBuf>,
}

impl<'a> Search<'a> {
    fn new(store: &'a BlobStore) -> Result<Self> {
        let storage = &*store.storage;
        Ok(Self {
            store,
            storage,
            seen: storage.identity(&store.dir)?.into_iter().collect(),
            references: References::default(),
            files_read: 0,
            missing: Vec::new(),
            parents: Vec::new(),
            sessions: Vec::new(),
        })
    }

    fn locks(&self, dirs: &[PathBuf]) -> Result<()> {
        let holder = format!("process {} (collecting blobs)", std::process::id());
        for dir in dirs {
            for lock in self.storage.list_files(dir, "*")? {
                // Free at this moment is all we ask: holding every lock would stop writers for the whole search.
                drop(self.storage.lock(&lock, &holder, Duration::ZERO)?);
            }
        }
        Ok(())
    }

    fn must_be_directory(&self, dir: &Path) -> Result<()> {
        match self.storage.stat(dir)? {
            Some(stat) if stat.kind == FileKind::Directory => Ok(()),
            Some(_) => Err(Error::new(ErrorKind::NotAFile, "not a directory: nothing is collected").at(dir)),
            None => Err(Error::new(
                ErrorKind::NotFound,
                "this directory is missing and may hold references to blobs: nothing is collected",
            )
            .at(dir)),
        }
    }

    /// Visits what a listing named, and all below it.
    fn visit_listed(&mut self, path: PathBuf) -> Result<()> {
        let mut open = vec![path];
        while let Some(path) = open.pop() {
            let Some(stat) = self.storage.stat(&path)? else {
                return Err(moved(&path));
            };
            if !self.seen.insert(stat.identity) {
                continue;
            }
            match stat.kind {
                FileKind::Directory => {
                    let items = self.storage.read_dir(&path)?.ok_or_else(|| moved(&path))?;
                    for item in items {
                        match item.kind {
                            Some(_) => open.push(item.path),
                            None => self.missing.push(item.path),
                        }
                    }
                }
                FileKind::File => {
                    let name = path.file_name().unwrap_or_default();
                    let session = path.extension() == Some(OsStr::new("jsonl"));
                    // The temporary file of a rewrite is a session being written too.
                    if session || is_temporary(name) {
                        self.must_be_quiet(&path, stat.modified)?;
                    }
                    self.read(&path)?;
                    if session {
                        self.sessions.push(path);
                    }
                }
                FileKind::Other => {}
            }
        }
        Ok(())
    }

    /// Visits a session file that something points to, with its artifacts.
    fn visit_named(&mut self, path: PathBuf) -> Result<()> {
        let artifacts = artifact_dir(&path);
        match self.storage.stat(&path)? {
            Some(stat) if stat.kind == FileKind::File => self.visit_listed(path)?,
            // A text that only looks like the path of a session may be that of a whole disk.
            _ => self.missing.push(path),
        }
        match artifacts {
            Some(artifacts) if self.storage.exists(&artifacts)? => self.visit_listed(artifacts),
            _ => Ok(()),
        }
    }

    fn pointers(&mut self, dir: &Path) -> Result<()> {
        // Two paths and a few words: whatever is longer is no pointer.
        const LIMIT: u64 = 64 * 1024;
        for pointer in self.storage.list_files(dir, "*")? {
            let text = self.storage.read_text_prefix(&pointer, LIMIT)?;
            if let Some(session) = text.lines().nth(1).filter(|line| !line.is_empty()) {
                self.visit_named(PathBuf::from(session))?;
            }
        }
        Ok(())
    }

    fn follow_parents(&mut self) -> Result<()> {
        while let Some(path) = self.parents.pop() {
            self.visit_named(path)?;
        }
        Ok(())
    }

    fn read(&mut self, path: &Path) -> Result<()> {
        let file = match self.storage.open_reader(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(moved(path)),
            Err(error) => return Err(error),
        };
        self.references.read(&*file)?;
        self.files_read += 1;
        let parents = std::mem::take(&mut self.references.parents);
        // An id needs no following: a session that is found by its id lies in the scope. [F2]
        let is_path = |parent: &String| {
            parent.contains(['/', '\\']) || Path::new(parent).extension() == Some(OsStr::new("jsonl"))
        };
        let dir = path.parent().unwrap_or(Path::new(""));
        self.parents.extend(parents.into_iter().filter(is_path).map(|parent| dir.join(parent)));
        Ok(())
    }

    fn must_be_quiet(&self, path: &Path, modified: SystemTime) -> Result<()> {
        if self.store.is_older(modified, QUIET) {
            return Ok(());
        }
        let message = "this session was written a moment ago: collect blobs when no session is in use";
        Err(Error::new(ErrorKind::Busy, message).at(path))
    }

    /// Asked last, when there is something to remove: no session was written while we read, and nobody is about to.
    fn must_be_quiet_still(&self) -> Result<()> {
        for path in &self.sessions {
            let stat = self.storage.stat(path)?.ok_or_else(|| moved(path))?;
            self.must_be_quiet(path, stat.modified)?;
            if let Some(holder) = self.storage.writers_of(path, path)?.first() {
                let message = format!("{holder} has this session open for writing: collect blobs when it has ended");
                return Err(Error::new(ErrorKind::HeldElsewhere, message).at(path));
            }
        }
        Ok(())
    }
}

fn moved(path: &Path) -> Error {
    let message = "this was moved or removed while references were looked for: nothing is collected, try again";
    Error::new(ErrorKind::Busy, message).at(path)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::clock::{ManualClock, Timestamp};
    use crate::storage::MemorySessionStorage;

    const DAY: i64 = 24 * 60 * 60 * 1000;

    #[test]
    fn a_blob_that_is_put_again_in_the_last_moment_stays() {
        // [W10, W11] between the last look and the removal
        let clock = Arc::new(ManualClock::at(Timestamp::parse("2026-01-05T09:30:00.000Z").unwrap()));
        let disk = Arc::new(MemorySessionStorage::new());
        let store = BlobStore::new(disk.clone(), "/blobs", clock.clone());
        disk.ensure_dir(Path::new("/sessions")).unwrap();
        let hash = store.put(b"image").unwrap();
        clock.advance_millis(8 * DAY);
        let plan = store.plan_collection(&CollectionScope::new().with_directory("/sessions")).unwrap();
        let seen = plan.unreferenced().next().unwrap();
        store.put(b"image").unwrap();
        assert!(!store.remove(seen).unwrap());
        assert_eq!(store.get(&hash).unwrap().unwrap(), b"image");

        // Death between the two renames: the next collection puts it back, and finds that it is named by now.
        let aside = PathBuf::from(format!("/blobs/{hash}{ASIDE}"));
        disk.rename(&store.path(&hash), &aside).unwrap();
        disk.write_text(Path::new("/sessions/notes"), &hash.reference()).unwrap();
        assert!(store.collect(&plan).unwrap().removed.is_empty());
        assert_eq!(store.get(&hash).unwrap().unwrap(), b"image");
        assert!(!disk.exists(&aside).unwrap());
    }
}
