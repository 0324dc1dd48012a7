//! The files that may be sessions: in one directory, in all of an agent directory, and below them `[R3, D9]`.
//!
//! Each file counts once, however many names lead to it: symbolic links to directories and files, `.` in a path, hard links.
//! What is in the files is not its business.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::parallel;
use super::problem::{Problem, ProblemKind};
use crate::error::{Error, Result};
use crate::storage::{DirItem, FileIdentity, FileKind, SessionStorage, Stat};

/// How deep below a session directory sub-agents' sessions are looked for. Each level is a sub-agent of the one above.
const DEEPEST: usize = 32;

/// A file named like a session.
#[derive(Clone, Debug)]
pub(super) struct SessionFile {
    pub(super) path: PathBuf,
    pub(super) stat: Stat,
}

/// The files of some directories, newest modification first, and what is named like a session and is no file.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) found: Vec<SessionFile>,
    pub(super) problems: Vec<Problem>,
    /// The directories that were looked through.
    pub(super) dirs: Vec<PathBuf>,
}

/// Which files of a directory are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// Those in it: sessions.
    In,
    /// Those below it: sub-agents' sessions `[D9]`.
    Below,
}

impl Files {
    /// The session files of `dirs`.
    ///
    /// # Errors
    /// When one of `dirs` itself cannot be read. One that does not exist has no files.
    pub(super) fn of(storage: &dyn SessionStorage, dirs: Vec<PathBuf>, level: Level) -> Result<Self> {
        let mut files = Self { dirs: each_once(storage, dirs)?, ..Self::default() };
        let mut paths = Vec::new();
        for dir in &files.dirs {
            let items = storage.read_dir(dir)?.unwrap_or_default();
            match level {
                Level::In => take_files(&items, &mut paths, &mut files.problems),
                Level::Below => below(storage, dir, &items, &mut paths, &mut files.problems)?,
            }
        }
        for (path, stat) in paths.iter().zip(parallel::map(&paths, |path| storage.stat(path))) {
            match stat {
                Ok(Some(stat)) if stat.kind == FileKind::File => {
                    files.found.push(SessionFile { path: path.clone(), stat });
                }
                // It was there when the directory was read.
                Ok(Some(_) | None) => {}
                Err(error) => files.problems.push(Problem::unreadable(path, error)),
            }
        }
        files.drop_second_names(storage);
        // Names begin with the time of creation: among equals the younger session comes first.
        files.found.sort_by(|a, b| b.stat.modified.cmp(&a.stat.modified).then_with(|| b.path.cmp(&a.path)));
        files.problems.sort_by(|a, b| a.path().cmp(b.path()));
        Ok(files)
    }

    fn drop_second_names(&mut self, storage: &dyn SessionStorage) {
        let mut first: HashMap<FileIdentity, usize> = HashMap::with_capacity(self.found.len());
        let mut kept: Vec<SessionFile> = Vec::with_capacity(self.found.len());
        for file in std::mem::take(&mut self.found) {
            match first.get(&file.stat.identity) {
                None => {
                    first.insert(file.stat.identity, kept.len());
                    kept.push(file);
                }
                Some(&n) if is_link(storage, &kept[n].path) && !is_link(storage, &file.path) => kept[n] = file,
                Some(_) => {}
            }
        }
        self.found = kept;
    }
}

/// All session directories of an agent directory: those in `sessions`, and itself for files that lie there directly.
pub(super) fn session_dirs(storage: &dyn SessionStorage, sessions: &Path) -> Result<Vec<PathBuf>> {
    let items = storage.read_dir(sessions)?.unwrap_or_default();
    let files: HashSet<PathBuf> =
        items.iter().filter(|item| is_session_name(&item.path)).map(|item| item.path.with_extension("")).collect();
    let dirs = items.into_iter().filter(|item| item.kind == Some(FileKind::Directory) && !is_session_name(&item.path));
    // A directory beside a session file of its name holds that session's artifacts.
    let dirs = dirs.map(|item| item.path).filter(|dir| !files.contains(dir));
    Ok(dirs.chain([sessions.to_path_buf()]).collect())
}

/// Whether a path ends in `.jsonl`.
pub(super) fn is_session_name(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jsonl")
}

fn take_files(items: &[DirItem], paths: &mut Vec<PathBuf>, problems: &mut Vec<Problem>) {
    for DirItem { path, kind } in items {
        if !is_session_name(path) {
            continue;
        }
        match kind {
            Some(FileKind::File) => paths.push(path.clone()),
            Some(_) => problems.push(Problem::new(ProblemKind::NotAFile, path)),
            None => problems.push(Problem::new(ProblemKind::DanglingLink, path)),
        }
    }
}

/// The files below `dir`, whose own items are given. Links are followed, each directory once.
fn below(
    storage: &dyn SessionStorage,
    dir: &Path,
    items: &[DirItem],
    paths: &mut Vec<PathBuf>,
    problems: &mut Vec<Problem>,
) -> Result<()> {
    let mut seen: HashSet<FileIdentity> = storage.identity(dir)?.into_iter().collect();
    let mut levels = vec![subdirectories(items)];
    while let Some(level) = levels.last_mut() {
        let Some(dir) = level.pop() else {
            levels.pop();
            continue;
        };
        let items = match storage.identity(&dir) {
            Ok(Some(identity)) if seen.insert(identity) => storage.read_dir(&dir),
            Ok(_) => continue,
            Err(error) => Err(error),
        };
        match items {
            Ok(items) => {
                let items = items.unwrap_or_default();
                if levels.len() < DEEPEST {
                    levels.push(subdirectories(&items));
                }
                take_files(&items, paths, problems);
            }
            Err(error) => problems.push(Problem::unreadable(&dir, error)),
        }
    }
    Ok(())
}

fn subdirectories(items: &[DirItem]) -> Vec<PathBuf> {
    let dirs = items.iter().filter(|item| item.kind == Some(FileKind::Directory));
    dirs.map(|item| item.path.clone()).collect()
}

/// The directories that exist, without `.` in their paths, each once: of two names of one, that which is no link.
fn each_once(storage: &dyn SessionStorage, dirs: Vec<PathBuf>) -> Result<Vec<PathBuf>> {
    let mut seen: HashMap<FileIdentity, usize> = HashMap::new();
    let mut kept: Vec<PathBuf> = Vec::new();
    for dir in dirs {
        let dir: PathBuf = dir.components().collect();
        match storage.stat(&dir)? {
            Some(stat) if stat.kind == FileKind::Directory => match seen.get(&stat.identity) {
                None => {
                    seen.insert(stat.identity, kept.len());
                    kept.push(dir);
                }
                Some(&n) if is_link(storage, &kept[n]) && !is_link(storage, &dir) => kept[n] = dir,
                Some(_) => {}
            },
            Some(_) => {
                let message = "this is no directory; name the directory that holds the sessions";
                return Err(Error::new(crate::ErrorKind::NotAFile, message).at(dir));
            }
            None => {}
        }
    }
    Ok(kept)
}

/// Whether the last part of a path is a symbolic link.
fn is_link(storage: &dyn SessionStorage, path: &Path) -> bool {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => storage.resolve(path) != storage.resolve(parent).join(name),
        _ => false,
    }
}

/// The session file of a directory whose name comes last: names begin with the time of creation.
pub(super) fn last_named(storage: &dyn SessionStorage, dir: &Path) -> Option<SessionFile> {
    let items = storage.read_dir(dir).ok()??;
    let is_session = |item: &&DirItem| item.kind == Some(FileKind::File) && is_session_name(&item.path);
    let path = items.iter().rev().find(is_session)?.path.clone();
    let stat = storage.stat(&path).ok()??;
    Some(SessionFile { path, stat })
}
