//! Finding sessions `[R1–R5]`: recent ones, all of a working directory, all there are, one by its id.
//!
//! Reading only: the one file that a catalog may write is its own cache, and only when it is told to. Which session belongs
//! to a working directory is what its header says, never the name of the directory that it lies in `[D5]`.

#[cfg(feature = "tokio")]
mod asynchronous;
mod cache;
mod cwd;
mod facts;
mod files;
mod info;
mod likely;
mod name;
mod parallel;
mod prefix;
mod problem;
mod reading;
mod resolve;
mod scan;
mod texts;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::layout::{AgentDir, Environment};
use crate::storage::{FileSessionStorage, SessionStorage};
use cache::Cache;
use cwd::SameCwd;
pub use facts::Status;
use files::{Files, Level, SessionFile};
pub use info::{Listing, RecentSession, SessionInfo};
pub use likely::{Likely, LikelyReason};
pub use name::time_ago;
pub use problem::{Problem, ProblemKind};
pub use resolve::{Resolved, ResolvedBy};
use scan::{Scan, Scanned};
pub use texts::{MessageText, Texts};

/// How far a listing reads each file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListDepth {
    /// Only to the header.
    Header,
    /// As far as its name needs: to the header when that gives a title, else as [`Prefix`](Self::Prefix).
    Name,
    /// To the first user message that has text, when it stands in the first MiB.
    Prefix,
    /// All of it, files above 64 MiB only as far as [`Prefix`](Self::Prefix) `[R3]`.
    #[default]
    Bounded,
    /// All of it, whatever its size.
    Whole,
}

/// What a catalog does with its cache: the file [`AgentDir::catalog_cache`].
///
/// What stands in the cache is believed for a file whose path, size, modification time, change time and identity are those
/// of then; a cache that is damaged or of another version is ignored. It is safe to delete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheMode {
    /// Neither read nor written.
    Off,
    /// Read. Commands that only show write nothing.
    #[default]
    ReadOnly,
    /// Read, and replaced by [`Catalog::list`], [`Catalog::list_all`] and [`Catalog::subagents`] when they learned
    /// something; atomically, so that two processes at once lose at most what one of them learned.
    ReadWrite,
}

/// The sessions of an agent directory, or of any directory.
///
/// ```
/// use session_core::{AgentDir, Catalog, Environment, storage::MemorySessionStorage, storage::SessionStorage};
/// use std::{path::Path, sync::Arc};
/// # fn main() -> session_core::Result<()> {
/// let storage = Arc::new(MemorySessionStorage::new());
/// storage.ensure_dir(Path::new("/agent/sessions/--w--"))?;
/// storage.write_text(Path::new("/agent/sessions/--w--/x.jsonl"), concat!(
///     r#"{"type":"session","version":3,"id":"15c0000000000001","timestamp":"2026-01-05T09:30:00.000Z","cwd":"/w"}"#, "\n",
///     r#"{"type":"message","id":"00000001","parentId":null,"timestamp":"2026-01-05T09:30:01.000Z","message":{"role":"user","content":"hi"}}"#, "\n",
/// ))?;
/// let catalog = Catalog::new(AgentDir::at("/agent")?, Environment::new("/w")).with_storage(storage);
/// let listing = catalog.list(Some(Path::new("/w")), None)?;
/// assert_eq!(listing.sessions[0].first_message(), "hi");
/// assert!(listing.problems.is_empty());
/// assert_eq!(catalog.resolve("15C0", Path::new("/w"), None)?.unwrap().path(), listing.sessions[0].path());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Catalog {
    storage: Arc<dyn SessionStorage>,
    agent: AgentDir,
    environment: Environment,
    depth: ListDepth,
    cache: CacheMode,
}

impl Catalog {
    /// The catalog of an agent directory on this machine's files.
    pub fn new(agent: AgentDir, environment: Environment) -> Self {
        let storage = Arc::new(FileSessionStorage::new());
        Self { storage, agent, environment, depth: ListDepth::default(), cache: CacheMode::default() }
    }

    /// The same catalog on another storage.
    #[must_use]
    pub fn with_storage(mut self, storage: Arc<dyn SessionStorage>) -> Self {
        self.storage = storage;
        self
    }

    /// The same catalog, reading files as far as `depth` says when it lists.
    #[must_use]
    pub fn with_depth(mut self, depth: ListDepth) -> Self {
        self.depth = depth;
        self
    }

    /// The same catalog, doing with its cache what `mode` says.
    #[must_use]
    pub fn with_cache(mut self, mode: CacheMode) -> Self {
        self.cache = mode;
        self
    }

    /// The newest sessions in `dir`, at most `limit`; files of which something is wrong do not count, those met on the way
    /// are reported `[R1]`. A directory that does not exist has none.
    ///
    /// Of each file the first 4096 bytes are read, and more only while they do not give a name: 4 MiB at most for a header,
    /// 1 MiB for a first prompt.
    ///
    /// # Errors
    /// When the directory itself can't be read.
    pub fn recent_sessions(&self, dir: &Path, limit: usize) -> Result<Listing<RecentSession>> {
        let files = Files::of(&*self.storage, vec![dir.into()], Level::In)?;
        let mut recent = Listing { sessions: Vec::new(), problems: files.problems };
        let mut rest = files.found.as_slice();
        while recent.sessions.len() < limit && !rest.is_empty() {
            // As many as are still missing; broken ones among them make another round.
            let (next, later) = rest.split_at(rest.len().min(limit - recent.sessions.len()));
            rest = later;
            let scan = Scan { storage: &self.storage, cache: &Cache::default(), cwd: None, depth: ListDepth::Name };
            for Scanned { file, found, .. } in scan.files(next) {
                match found {
                    Ok(facts) => recent.sessions.push(RecentSession::of(&SessionInfo::new(file, facts))),
                    Err(problem) => recent.problems.push(problem),
                }
            }
        }
        Ok(recent)
    }

    /// The session in `dir` that was modified last, whatever its working directory; none when there is none. Files without
    /// a valid header do not count `[R2]`.
    ///
    /// # Errors
    /// When the directory itself can't be read.
    pub fn find_most_recent_session(&self, dir: &Path) -> Result<Option<PathBuf>> {
        let files = Files::of(&*self.storage, vec![dir.into()], Level::In)?;
        Ok(self.newest(&files.found, None))
    }

    /// The first of `files` that is a session (of a working directory).
    fn newest(&self, files: &[SessionFile], cwd: Option<&SameCwd<'_>>) -> Option<PathBuf> {
        let scan = Scan { storage: &self.storage, cache: &Cache::default(), cwd, depth: ListDepth::Header };
        let is_one = |file: &&SessionFile| scan.file(file).found.is_ok_and(|facts| scan.wants(&facts));
        files.iter().find(is_one).map(|file| file.path.clone())
    }

    /// The sessions in `dir`, or in the places of `cwd` `[D4]`; with a `cwd` only its own, in all cases. With neither, those
    /// of the environment's working directory. Sub-agents' sessions are not among them `[R3]`.
    ///
    /// # Errors
    /// When a directory itself can't be read, or `cwd` is no absolute path. A file that can't be read is a problem in the
    /// listing.
    pub fn list(&self, cwd: Option<&Path>, dir: Option<&Path>) -> Result<Listing<SessionInfo>> {
        self.list_scope(cwd, dir, Level::In)
    }

    /// All sessions of the agent directory `[R3]`.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn list_all(&self) -> Result<Listing<SessionInfo>> {
        let dirs = files::session_dirs(&*self.storage, &self.agent.sessions())?;
        self.list_dirs(dirs, None, Level::In)
    }

    /// Sub-agents' sessions: those below the directories where [`list`](Self::list) looks, in the artifact directories of
    /// other sessions `[D9, R3]`.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn subagents(&self, cwd: Option<&Path>, dir: Option<&Path>) -> Result<Listing<SessionInfo>> {
        self.list_scope(cwd, dir, Level::Below)
    }

    /// All sub-agents' sessions of the agent directory.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn all_subagents(&self) -> Result<Listing<SessionInfo>> {
        let dirs = files::session_dirs(&*self.storage, &self.agent.sessions())?;
        self.list_dirs(without_root(dirs, &self.agent.sessions()), None, Level::Below)
    }

    fn list_scope(&self, cwd: Option<&Path>, dir: Option<&Path>, level: Level) -> Result<Listing<SessionInfo>> {
        let cwd = match (cwd, dir) {
            (None, None) => Some(self.environment.cwd()?),
            _ => cwd,
        };
        let same = cwd.map(|cwd| SameCwd::of(&*self.storage, cwd)).transpose()?;
        let dirs = match (dir, cwd, &same) {
            (None, Some(cwd), Some(same)) => self.dirs_of(cwd, same)?,
            _ => dir.map(Path::to_path_buf).into_iter().collect(),
        };
        self.list_dirs(dirs, same.as_ref(), level)
    }

    fn list_dirs(&self, dirs: Vec<PathBuf>, cwd: Option<&SameCwd<'_>>, level: Level) -> Result<Listing<SessionInfo>> {
        let files = Files::of(&*self.storage, dirs, level)?;
        let cache = self.read_cache();
        let scan = Scan { storage: &self.storage, cache: &cache, cwd, depth: self.depth };
        let scanned = scan.files(&files.found);
        if self.cache == CacheMode::ReadWrite {
            cache.learn(&scanned, &files.dirs).write(&*self.storage, &self.agent.catalog_cache());
        }
        let mut listing = Listing { sessions: Vec::with_capacity(scanned.len()), problems: files.problems };
        let mut owners = Owners::default();
        for Scanned { file, found, .. } in scanned {
            match found {
                Ok(facts) if scan.wants(&facts) => {
                    let owner = if level == Level::Below { owners.of(&*self.storage, &file.path) } else { None };
                    listing.sessions.push(SessionInfo::new(file, facts).owned_by(owner));
                }
                Ok(_) => {}
                Err(problem) => listing.problems.push(problem),
            }
        }
        listing.problems.sort_by(|a, b| a.path().cmp(b.path()));
        Ok(listing)
    }

    fn read_cache(&self) -> Cache {
        match self.cache {
            CacheMode::Off => Cache::default(),
            CacheMode::ReadOnly | CacheMode::ReadWrite => Cache::read(&*self.storage, &self.agent.catalog_cache()),
        }
    }

    /// The directories that hold sessions of a working directory: those of its names `[D4]`, and those whose youngest
    /// session is of it all the same, because it was started through a link.
    fn dirs_of(&self, cwd: &Path, same: &SameCwd<'_>) -> Result<Vec<PathBuf>> {
        let mut dirs = self.agent.session_dirs(cwd, &self.environment, &*self.storage)?;
        let named: HashSet<&PathBuf> = dirs.iter().collect();
        let all = files::session_dirs(&*self.storage, &self.agent.sessions())?;
        let others: Vec<PathBuf> = all.into_iter().filter(|dir| !named.contains(dir)).collect();
        let scan = Scan { storage: &self.storage, cache: &Cache::default(), cwd: Some(same), depth: ListDepth::Header };
        let linked = parallel::map(&others, |dir| {
            files::last_named(&*self.storage, dir)
                .is_some_and(|file| scan.file(&file).found.is_ok_and(|facts| scan.wants(&facts)))
        });
        dirs.extend(others.into_iter().zip(linked).filter(|(_, linked)| *linked).map(|(dir, _)| dir));
        Ok(dirs)
    }

    /// The session with exactly this id, wherever it lies: in any session directory, or below one (a sub-agent's). Of
    /// several the newest. A file whose name has the id is looked at first, and the others only when none of those is it.
    ///
    /// # Errors
    /// When the agent directory can't be read; [`ErrorKind::InvalidInput`] for an empty id.
    pub fn find_by_id(&self, id: &crate::SessionId) -> Result<Option<PathBuf>> {
        if id.as_str().is_empty() {
            return Err(Error::new(ErrorKind::InvalidInput, "a session without an id cannot be found by it"));
        }
        let scan = Scan { storage: &self.storage, cache: &self.read_cache(), cwd: None, depth: ListDepth::Header };
        let sessions = self.agent.sessions();
        let dirs = files::session_dirs(&*self.storage, &sessions)?;
        for level in [Level::In, Level::Below] {
            let dirs = if level == Level::In { dirs.clone() } else { without_root(dirs.clone(), &sessions) };
            let files = Files::of(&*self.storage, dirs, level)?.found;
            let (named, others): (Vec<_>, Vec<_>) =
                files.into_iter().partition(|file| name::stem(&file.path).contains(id.as_str()));
            for files in [named, others] {
                let found =
                    scan.files(&files).into_iter().find(|one| one.found.as_ref().is_ok_and(|facts| facts.id == *id));
                if let Some(found) = found {
                    return Ok(Some(found.file.path));
                }
            }
        }
        Ok(None)
    }
}

/// What lies below the directory of all session directories lies below those.
fn without_root(dirs: Vec<PathBuf>, sessions: &Path) -> Vec<PathBuf> {
    dirs.into_iter().filter(|dir| dir != sessions).collect()
}

/// The session files in whose artifact directories others lie.
#[derive(Debug, Default)]
struct Owners(std::collections::HashMap<PathBuf, Option<PathBuf>>);

impl Owners {
    fn of(&mut self, storage: &dyn SessionStorage, path: &Path) -> Option<PathBuf> {
        let dir = path.parent()?;
        let session = |dir: &Path| {
            let file = dir.with_file_name(format!("{}.jsonl", dir.file_name()?.to_str()?));
            storage.exists(&file).unwrap_or(false).then_some(file)
        };
        // The nearest: it may lie in a directory of its own among the artifacts.
        self.0.entry(dir.into()).or_insert_with(|| dir.ancestors().find_map(session)).clone()
    }
}
