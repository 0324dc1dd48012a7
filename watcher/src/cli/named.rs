//! From what a person typed to a session: an id, the beginning of one, a path, or a name; else what is nearest to it.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use session_core::{Catalog, Entry, EntryId, ErrorKind, Leaf, ListDepth, Session, SessionInfo};

use super::Context;
use super::completions;
use super::text::first_line;
use super::transcript;
use crate::exit::{Exit, Refusal};

/// How alike two words are from which one is proposed for the other (Jaro-Winkler, 0 to 1).
const ALIKE: f64 = 0.8;
/// How many are proposed.
const PROPOSED: usize = 3;

/// A session, as commands take it.
#[derive(Clone, Debug, Args)]
pub(crate) struct Named {
    /// The session: its id or the beginning of one, its file, or its name
    #[arg(value_name = "SESSION", add = completions::sessions())]
    session: String,
}

impl Named {
    pub(super) fn file(&self, context: &Context) -> Result<PathBuf> {
        find(context, &self.session)
    }

    /// The session, read.
    ///
    /// # Errors
    /// When there is none, and when its file holds nothing that is a session.
    pub(super) fn read(&self, context: &Context) -> Result<Session> {
        read(context, &self.session)
    }
}

/// The session that a person named, read.
pub(super) fn read(context: &Context, wanted: &str) -> Result<Session> {
    let path = find(context, wanted)?;
    let session = Session::read(&path)?;
    if session.header().is_none() {
        let found = session.examine()?;
        let first = found.list().first().map(|defect| format!("\n{defect}")).unwrap_or_default();
        let message = format!("{}: no session header: nothing in this file is a session{first}", path.display());
        return Err(Refusal::new(Exit::Failed, message).into());
    }
    Ok(session)
}

/// What a session is called in one line: its name, else its first prompt, else its id.
pub(super) fn called(session: &Session) -> Result<String> {
    let name = session.name()?.filter(|name| !first_line(name).is_empty());
    let name = match name {
        Some(name) => Some(name),
        None => transcript::first_prompt(session)?,
    };
    let id = || session.header().map(|header| header.id().to_string()).unwrap_or_default();
    Ok(name.map_or_else(id, |name| first_line(&name).to_owned()))
}

/// The leaf that was asked for: an entry's id or the beginning of one.
pub(super) fn leaf(session: &Session, wanted: Option<&str>) -> Result<Leaf> {
    wanted.map_or(Ok(Leaf::Current), |wanted| Ok(Leaf::Entry(entry(session, wanted)?)))
}

/// The entry that has this id, or the only one whose id begins so.
pub(super) fn entry(session: &Session, wanted: &str) -> Result<EntryId> {
    if session.entry(wanted).is_some() {
        return Ok(wanted.into());
    }
    let mut fitting: Vec<&str> = session.entries().map(Entry::id).filter(|id| id.starts_with(wanted)).collect();
    fitting.sort_unstable();
    fitting.dedup();
    match fitting.as_slice() {
        [only] if !wanted.is_empty() => Ok((*only).into()),
        [] => Err(missing(
            format!("no entry has the id {wanted:?}"),
            &nearest(wanted, session.entries().map(|entry| entry.id().to_owned())),
        )),
        _ => Err(missing(format!("{} entries have an id that begins with {wanted:?}", fitting.len()), &[])),
    }
}

/// What a name led to.
enum Found {
    /// A session's file.
    File(PathBuf),
    /// No session has this name: why the command can't go on that needs one.
    Nothing(anyhow::Error),
}

/// The file of the session that a person named `[R4]`. A name counts where no id fits.
pub(super) fn find(context: &Context, wanted: &str) -> Result<PathBuf> {
    match look_up(context, wanted)? {
        Found::File(path) => Ok(path),
        Found::Nothing(error) => Err(error),
    }
}

/// The id of the session that a person named; what they typed when there is none: what is kept of a session outlives it.
///
/// # Errors
/// When several sessions have this name.
pub(super) fn id(context: &Context, wanted: &str) -> Result<String> {
    match look_up(context, wanted)? {
        Found::File(path) => {
            let session = Session::read(&path).ok();
            let id = session.as_ref().and_then(Session::header).map(|header| header.id().to_string());
            Ok(id.or_else(|| id_in_name(&path)).unwrap_or_else(|| wanted.to_owned()))
        }
        Found::Nothing(_) => Ok(wanted.to_owned()),
    }
}

fn look_up(context: &Context, wanted: &str) -> Result<Found> {
    let cwd = context.environment.cwd()?;
    let catalog = context.catalog()?.with_depth(ListDepth::Header);
    match catalog.resolve(wanted, cwd, None) {
        Ok(Some(found)) => {
            let path = cwd.join(found.path());
            // What can't be looked at is there, and reading it says what is wrong.
            if matches!(path.try_exists(), Ok(false)) {
                return Ok(Found::Nothing(missing(format!("{}: there is no such file", path.display()), &[])));
            }
            Ok(Found::File(path))
        }
        Ok(None) => match context.absence(&context.agent()?) {
            Some(absence) => Ok(Found::Nothing(missing(absence, &[]))),
            None => by_name(&catalog, wanted),
        },
        Err(error) if error.kind() == ErrorKind::Ambiguous => Err(missing(error.to_string(), &[])),
        Err(error) => Err(error.into()),
    }
}

fn by_name(catalog: &Catalog, wanted: &str) -> Result<Found> {
    let listing = catalog.clone().with_depth(ListDepth::Prefix).list_all()?;
    let is_it = |session: &&SessionInfo| session.name().to_lowercase() == wanted.trim().to_lowercase();
    let fitting: Vec<&SessionInfo> = listing.sessions.iter().filter(is_it).collect();
    match fitting.as_slice() {
        [only] => Ok(Found::File(only.path().to_owned())),
        [] => {
            // A file that can't be read as a session has its id in its name all the same.
            let wanted_id = wanted.trim().to_lowercase();
            let is_it = |path: &Path| id_in_name(path).is_some_and(|id| id.to_lowercase().starts_with(&wanted_id));
            let mut broken = listing.problems.iter().filter(|problem| is_it(problem.path()));
            if let (Some(only), None) = (broken.next(), broken.next()) {
                return Ok(Found::File(only.path().to_owned()));
            }
            let ids = listing.sessions.iter().map(|session| session.id().to_string());
            let names = listing.sessions.iter().map(SessionInfo::name);
            let meant = nearest(wanted, ids.chain(names));
            Ok(Found::Nothing(missing(format!("no session is called {wanted:?}"), &meant)))
        }
        _ => {
            let ids: Vec<String> = fitting.iter().map(|session| format!("\n  {}", session.id())).collect();
            Err(missing(format!("{} sessions have this name; say which:{}", ids.len(), ids.concat()), &[]))
        }
    }
}

/// The id in a file's name, `<time>_<id>.jsonl` `[D3]`.
fn id_in_name(path: &Path) -> Option<String> {
    let stem = path.file_stem()?.to_string_lossy();
    stem.rsplit_once('_').map(|(_, id)| id.to_owned())
}

/// Those that are most like `wanted`, best first.
pub(super) fn nearest(wanted: &str, candidates: impl Iterator<Item = String>) -> Vec<String> {
    let wanted = wanted.to_lowercase();
    let alike = |candidate: &String| {
        let candidate = candidate.to_lowercase();
        let whole = strsim::jaro_winkler(&wanted, &candidate);
        // The beginning of an id is as good as all of it.
        let beginning: String = candidate.chars().take(wanted.chars().count()).collect();
        let words = candidate.split_whitespace().map(|word| strsim::jaro_winkler(&wanted, word)).fold(0.0, f64::max);
        let contains = if wanted.len() > 2 && candidate.contains(&wanted) { 1.0 } else { 0.0 };
        whole.max(strsim::jaro_winkler(&wanted, &beginning)).max(words).max(contains)
    };
    let scored = candidates.map(|candidate| (alike(&candidate), candidate));
    let mut scored: Vec<(f64, String)> = scored.filter(|(score, _)| *score >= ALIKE).collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    scored.dedup_by(|a, b| a.1 == b.1);
    scored.into_iter().take(PROPOSED).map(|(_, candidate)| candidate).collect()
}

/// What was asked for is not there, and what may have been meant.
pub(super) fn missing(message: String, meant: &[String]) -> anyhow::Error {
    let meant = match meant {
        [] => String::new(),
        meant => {
            format!("; did you mean {}?", meant.iter().map(|one| format!("{one:?}")).collect::<Vec<_>>().join(" or "))
        }
    };
    Refusal::new(Exit::NotFound, message + &meant).into()
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn what_was_meant_is_near() {
        let names = ["15c0ffee00000001", "15c1ffee00000002", "fix the login page", "release notes"];
        let near = |wanted| nearest(wanted, names.iter().map(|name| (*name).to_owned()));
        assert_eq!(near("15c2")[..2], ["15c0ffee00000001", "15c1ffee00000002"]);
        assert_eq!(near("fix the loggin page"), ["fix the login page"]);
        assert_eq!(near("notes"), ["release notes"]);
        assert!(near("zzz").is_empty());
    }
}
