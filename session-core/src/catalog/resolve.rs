//! From what a person typed to a session `[R4]`. Never guesses: what fits several sessions is an error that lists them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::cwd::SameCwd;
use super::files::{self, Files, Level};
use super::{Catalog, ListDepth, Scan, name, without_root};
use crate::catalog::facts::Facts;
use crate::catalog::files::SessionFile;
use crate::catalog::info::SessionInfo;
use crate::error::{Error, ErrorKind, Result};
use crate::id::SessionId;

/// How many candidates the message of an ambiguous argument lists.
const LISTED: usize = 20;

/// A session that an argument names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    path: PathBuf,
    id: Option<SessionId>,
    by: ResolvedBy,
}

/// What in the argument named the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ResolvedBy {
    /// It is a path.
    Path,
    /// It is the session's id.
    Id,
    /// The session's id, file name or the id in its file name begins with it.
    Prefix,
}

impl Resolved {
    /// The session file. Of an argument that is a [path](ResolvedBy::Path) that path as it was given, which need not exist;
    /// in all other cases it was there a moment ago.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The session's id; none when the argument is the path of something that is no session.
    pub fn id(&self) -> Option<&SessionId> {
        self.id.as_ref()
    }

    /// What in the argument named it.
    pub fn by(&self) -> ResolvedBy {
        self.by
    }
}

/// A session that can be named.
#[derive(Debug)]
struct Candidate {
    file: SessionFile,
    facts: Facts,
}

impl Catalog {
    /// The session that `argument` names, looked for from the working directory `cwd`, in `dir` or else in the agent
    /// directory `[R4]`:
    ///
    /// 1. a path (with a separator, or ending in `.jsonl`), as it is;
    /// 2. the session with exactly this id, anywhere;
    /// 3. the session whose id, file name or id in its file name begins with it: among those of `cwd`, else among all, else
    ///    among sub-agents' sessions.
    ///
    /// Upper and lower case are the same. Of several files with the same id the newest counts. None when nothing fits.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an empty argument; [`ErrorKind::Ambiguous`] when several sessions fit, listed in the
    /// message (and by [`matching`](Self::matching)); when a directory can't be read.
    pub fn resolve(&self, argument: &str, cwd: &Path, dir: Option<&Path>) -> Result<Option<Resolved>> {
        if argument.trim().is_empty() {
            return Err(Error::new(ErrorKind::InvalidInput, "name a session: an id, the beginning of one, or a path"));
        }
        if argument.contains(['/', '\\']) || files::is_session_name(Path::new(argument)) {
            let path = PathBuf::from(argument);
            let id = self.id_of(&path);
            return Ok(Some(Resolved { path, id, by: ResolvedBy::Path }));
        }
        let (mut fitting, by) = self.fitting(argument, cwd, dir)?;
        match fitting.len() {
            0 => Ok(None),
            1 => Ok(fitting.pop().map(|one| Resolved { path: one.file.path, id: Some(one.facts.id), by })),
            _ => Err(ambiguous(argument, fitting)),
        }
    }

    /// The sessions that `argument` names, when it is no path: those that [`resolve`](Self::resolve) chooses from, newest
    /// first. For completions, and for showing what an ambiguous argument fits.
    ///
    /// # Errors
    /// When a directory can't be read, or `cwd` is no absolute path.
    pub fn matching(&self, argument: &str, cwd: &Path, dir: Option<&Path>) -> Result<Vec<SessionInfo>> {
        let (fitting, _) = self.fitting(argument, cwd, dir)?;
        Ok(fitting.into_iter().map(|one| SessionInfo::new(one.file, one.facts)).collect())
    }

    fn id_of(&self, path: &Path) -> Option<SessionId> {
        let stat = self.storage.stat(path).ok()??;
        let scan =
            Scan { storage: &self.storage, cache: &super::Cache::default(), cwd: None, depth: ListDepth::Header };
        scan.file(&SessionFile { path: path.into(), stat }).found.ok().map(|facts| facts.id)
    }

    fn fitting(&self, argument: &str, cwd: &Path, dir: Option<&Path>) -> Result<(Vec<Candidate>, ResolvedBy)> {
        let argument = argument.trim().to_lowercase();
        let same = SameCwd::of(&*self.storage, cwd)?;
        let sessions = self.agent.sessions();
        let dirs = match dir {
            Some(dir) => vec![dir.to_path_buf()],
            None => files::session_dirs(&*self.storage, &sessions)?,
        };
        let top = self.candidates(dirs.clone(), Level::In)?;
        let is_exact = |one: &Candidate| one.facts.id.as_str().to_lowercase() == argument;
        let begins = |one: &Candidate| one.begins_with(&argument);
        let here = |one: &Candidate| begins(one) && same.is(one.facts.cwd.as_deref());
        let (top, exact) = take(top, is_exact);
        if !exact.is_empty() {
            return Ok((exact, ResolvedBy::Id));
        }
        let below = self.candidates(without_root(dirs, &sessions), Level::Below)?;
        let (below, exact) = take(below, is_exact);
        if !exact.is_empty() {
            return Ok((exact, ResolvedBy::Id));
        }
        let (top, fitting) = take(top, here);
        let (_, fitting) = if fitting.is_empty() { take(top, begins) } else { (top, fitting) };
        let (_, fitting) = if fitting.is_empty() { take(below, begins) } else { (below, fitting) };
        Ok((fitting, ResolvedBy::Prefix))
    }

    fn candidates(&self, dirs: Vec<PathBuf>, level: Level) -> Result<Vec<Candidate>> {
        let files = Files::of(&*self.storage, dirs, level)?;
        let scan = Scan { storage: &self.storage, cache: &self.read_cache(), cwd: None, depth: ListDepth::Header };
        let scanned = scan.files(&files.found).into_iter();
        Ok(scanned.filter_map(|one| Some(Candidate { file: one.file, facts: one.found.ok()? })).collect())
    }
}

impl Candidate {
    fn begins_with(&self, argument: &str) -> bool {
        let stem = name::stem(&self.file.path).to_lowercase();
        let id_in_name = stem.split_once('_').map(|(_, id)| id);
        let id = self.facts.id.as_str().to_lowercase();
        id.starts_with(argument) || stem.starts_with(argument) || id_in_name.is_some_and(|id| id.starts_with(argument))
    }
}

/// The others, and those that fit: of each id the first, which is the newest.
fn take(candidates: Vec<Candidate>, fits: impl Fn(&Candidate) -> bool) -> (Vec<Candidate>, Vec<Candidate>) {
    let (fitting, others): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|one| fits(one));
    let mut seen: HashSet<SessionId> = HashSet::new();
    let fitting = fitting.into_iter().filter(|one| seen.insert(one.facts.id.clone())).collect();
    (others, fitting)
}

fn ambiguous(argument: &str, fitting: Vec<Candidate>) -> Error {
    use std::fmt::Write;
    let mut message = format!("{argument:?} fits {} sessions; give more of the id, or the path:", fitting.len());
    let more = fitting.len().saturating_sub(LISTED);
    for one in fitting.into_iter().take(LISTED) {
        let info = SessionInfo::new(one.file, one.facts);
        let _ = write!(message, "\n  {}  {}", info.id().as_str().escape_debug(), info.path().display());
    }
    if more > 0 {
        let _ = write!(message, "\n  and {more} more");
    }
    Error::new(ErrorKind::Ambiguous, message)
}
