//! `watcher continue`: which session this terminal would go on with, and why. Writes nothing; with `--exec` it becomes the
//! command that goes on with it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use clap::Args;
use serde::Serialize;
use session_core::{Likely, LikelyReason, Pointers, Session, TerminalId, Timestamp, time_ago};

use super::output::{Tone, remark};
use super::surroundings::storage;
use super::{Context, busy, completions, named};
use crate::exit::{Exit, Refusal};

/// Say which session this terminal would go on with, and why
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher continue
  watcher continue --cwd ~/project --json
  watcher continue --exec omp --resume {}     become `omp --resume PATH`
  watcher continue --terminal tmux-%3         what that terminal would go on with

The first line of the answer is the session's file; it existed a moment ago. Exits with code 3 when there is no session to
go on with. Nothing is written, whatever is asked: the session becomes this terminal's when the agent opens it.")]
pub(crate) struct Continue {
    /// Go on in this directory [default: the working directory]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Go on at this terminal [default: this one]
    #[arg(long, value_name = "ID", add = completions::terminals())]
    terminal: Option<String>,
    /// Go on although another process writes the session
    #[arg(long, requires = "exec")]
    force: bool,
    /// Become this command; `{}` in it is the session's file. Takes all that follows
    #[arg(long, value_name = "CMD", num_args = 1.., allow_hyphen_values = true, trailing_var_arg = true)]
    exec: Option<Vec<OsString>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    path: Option<PathBuf>,
    reason: &'static str,
    terminal: Option<String>,
    cwd: PathBuf,
    id: Option<String>,
    name: Option<String>,
    last_activity: Option<String>,
    in_use: Vec<User>,
}

#[derive(Serialize)]
struct User {
    pid: u32,
    command: Option<String>,
    terminal: Option<String>,
}

impl Continue {
    pub(crate) fn run(self, context: &mut Context) -> Result<Exit> {
        let cwd = context.directory(self.cwd.as_deref())?;
        let terminal = match &self.terminal {
            Some(id) => Some(TerminalId::new(id)?),
            None => context.terminal(),
        };
        let likely = context.catalog()?.most_likely(&cwd, None, terminal.as_ref())?;
        let storage = storage();
        // The library goes on without it: whoever asks should know that it is a guess.
        if let Some(terminal) = terminal.as_ref().filter(|_| likely.reason() != LikelyReason::Pointer)
            && let Err(error) = Pointers::new(&*storage, context.agent()?.terminal_sessions()).get(terminal)
        {
            remark(&format!("{error}; which session this terminal had is not known"));
        }
        let users = likely.session().map(|path| busy::writers(&*storage, path)).transpose()?.unwrap_or_default();
        if let Some(command) = &self.exec {
            if let (Some(user), false) = (users.first(), self.force) {
                let message = format!("{} is using this session; say --force to go on all the same", busy::name(user));
                return Err(Refusal::new(Exit::Refused, message).into());
            }
            return become_command(command, likely.session());
        }
        let facts = likely.session().map(facts).transpose()?;
        if likely.session().is_none() {
            context.tell_absence(&context.agent()?);
        }
        let (reason, why) = reason(&likely);
        let out = &mut context.out;
        if let Some(path) = likely.session() {
            // Not cleaned: it is the path that another program opens.
            if !out.is_json() {
                out.raw(path.as_os_str().as_encoded_bytes())?;
                out.raw(b"\n")?;
            }
        }
        let now = context.now()?;
        let age = facts.as_ref().and_then(|facts| Some(time_ago(facts.activity?, now)));
        let out = &mut context.out;
        if let Some(facts) = &facts {
            out.toned(Tone::Strong, &facts.name)?;
        }
        match &age {
            Some(age) => out.line(&format!("{why}, {age}"))?,
            None => out.line(why)?,
        }
        for user in &users {
            out.toned(Tone::Mark, &format!("in use by {}", busy::name(user)))?;
        }
        let exit = if likely.session().is_some() { Exit::Done } else { Exit::NotFound };
        let user = |holder: &session_core::storage::Holder| User {
            pid: holder.pid,
            command: holder.command.clone(),
            terminal: super::terminals::of_process(holder.pid),
        };
        let shown = Shown {
            path: likely.session().map(Path::to_owned),
            reason,
            terminal: terminal.map(|terminal| terminal.as_str().to_owned()),
            cwd,
            id: facts.as_ref().map(|facts| facts.id.clone()),
            name: facts.as_ref().map(|facts| facts.name.clone()),
            last_activity: facts.as_ref().and_then(|facts| Some(facts.activity?.to_string())),
            in_use: users.iter().map(user).collect(),
        };
        context.out.json("continue", shown)?;
        Ok(exit)
    }
}

struct Facts {
    id: String,
    name: String,
    activity: Option<Timestamp>,
}

/// What the session is called and when something last happened in it.
fn facts(path: &Path) -> Result<Facts> {
    let session = Session::read(path)?;
    let id = session.header().map(|header| header.id().to_string()).unwrap_or_default();
    let begun = session.header().and_then(session_core::Header::timestamp);
    let activity = session.entries().filter_map(session_core::Entry::timestamp).max().or(begun);
    Ok(Facts { id, name: named::called(&session)?, activity })
}

fn reason(likely: &Likely) -> (&'static str, &'static str) {
    match likely.reason() {
        LikelyReason::Pointer => ("pointer", "this terminal's session"),
        LikelyReason::FreshPointer => ("freshPointer", "none: a new session was begun here and nothing is in it yet"),
        LikelyReason::MostRecent => ("mostRecent", "the newest session of this directory"),
        _ => ("nothing", "none: this directory has no session"),
    }
}

/// Replaces this process. Returns only when that fails.
fn become_command(command: &[OsString], session: Option<&Path>) -> Result<Exit> {
    let Some(path) = session else {
        return Err(Refusal::new(Exit::NotFound, "there is no session to go on with").into());
    };
    let mut words = command.iter().map(|word| replaced(word, path));
    let program = words.next().unwrap_or_default();
    let error = Command::new(&program).args(words).exec();
    Err(error).with_context(|| format!("{} can't be started", program.display()))
}

/// The word with each `{}` as the path.
fn replaced(word: &OsString, path: &Path) -> OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let mut bytes = Vec::new();
    let mut rest = word.as_bytes();
    while let Some(at) = rest.windows(2).position(|pair| pair == b"{}") {
        bytes.extend_from_slice(&rest[..at]);
        bytes.extend_from_slice(path.as_os_str().as_bytes());
        rest = &rest[at + 2..];
    }
    bytes.extend_from_slice(rest);
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_are_the_path() {
        let of = |word: &str| replaced(&word.into(), Path::new("/s/{}.jsonl"));
        assert_eq!(of("--session={}"), "--session=/s/{}.jsonl");
        assert_eq!((of("{}{}"), of("{ }")), ("/s/{}.jsonl/s/{}.jsonl".into(), "{ }".into()));
    }
}
