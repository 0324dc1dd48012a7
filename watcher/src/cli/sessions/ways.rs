//! Where sessions go when their project was renamed: what moves, and what only changes its header. It moves nothing.

use std::path::{Path, PathBuf};

use anyhow::Result;
use session_core::storage::SessionStorage;
use session_core::{Header, ListDepth, Session, artifact_dir, same_path};

use crate::cli::surroundings::storage;
use crate::cli::{Context, named};

/// The way of one session.
pub(super) struct Way {
    pub(super) file: PathBuf,
    pub(super) name: String,
    pub(super) old_cwd: String,
    pub(super) cwd: PathBuf,
    pub(super) kind: Kind,
}

/// How a session goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Into the directory of its new working directory's sessions, artifacts and all.
    Moves,
    /// A sub-agent's session lies among the artifacts of another and goes where that goes; its header names the new working
    /// directory `[D9]`.
    Follows,
}

/// The way of one session, and of those that its sub-agents had in the same project.
pub(super) fn of_session(context: &Context, wanted: &str, to: &Path) -> Result<Vec<Way>> {
    let file = named::find(context, wanted)?;
    let read = Session::read(&file)?;
    let old_cwd = read.header().and_then(Header::cwd).unwrap_or_default();
    let below = artifact_dir(&file);
    let name = named::called(&read)?;
    let mut ways = vec![Way { file, name, old_cwd: old_cwd.clone(), cwd: to.to_owned(), kind: Kind::Moves }];
    if !old_cwd.is_empty() {
        let subagents = of_subagents(context, Path::new(&old_cwd), to)?;
        ways.extend(subagents.into_iter().filter(|way| below.as_ref().is_some_and(|dir| way.file.starts_with(dir))));
    }
    Ok(ways)
}

/// The ways of all sessions of a directory and those below it. Moves come first.
pub(super) fn of_project(context: &Context, from: &Path, to: &Path) -> Result<Vec<Way>> {
    let listing = context.catalog()?.with_depth(ListDepth::Name).list_all()?;
    for problem in &listing.problems {
        context.remark(&problem.to_string());
    }
    let storage = storage();
    let ways = listing.sessions.iter().filter_map(|session| {
        let cwd = renamed(&*storage, session.cwd(), from, to)?;
        let (file, old_cwd) = (session.path().to_owned(), session.cwd().to_owned());
        Some(Way { file, name: session.name(), old_cwd, cwd, kind: Kind::Moves })
    });
    let mut ways: Vec<Way> = ways.collect();
    ways.extend(of_subagents(context, from, to)?);
    Ok(ways)
}

fn of_subagents(context: &Context, from: &Path, to: &Path) -> Result<Vec<Way>> {
    let storage = storage();
    let listing = context.catalog()?.with_depth(ListDepth::Name).all_subagents()?;
    let ways = listing.sessions.iter().filter_map(|session| {
        let cwd = renamed(&*storage, session.cwd(), from, to)?;
        let (file, old_cwd) = (session.path().to_owned(), session.cwd().to_owned());
        Some(Way { file, name: session.name(), old_cwd, cwd, kind: Kind::Follows })
    });
    Ok(ways.collect())
}

/// What a working directory is called now; none when it is not `from` and not below it.
fn renamed(storage: &dyn SessionStorage, cwd: &str, from: &Path, to: &Path) -> Option<PathBuf> {
    match Path::new(cwd).strip_prefix(from) {
        Ok(below) if below.as_os_str().is_empty() => Some(to.to_owned()),
        Ok(below) => Some(to.join(below)),
        Err(_) if !cwd.is_empty() && same_path(storage, Path::new(cwd), from) => Some(to.to_owned()),
        Err(_) => None,
    }
}
