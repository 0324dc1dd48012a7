//! What a shell completes: commands and options by themselves, session ids and names, terminals and the trash live.
//!
//! A shell asks with `COMPLETE=SHELL watcher -- WORDS`; what it needs for that, `watcher completions SHELL` prints. Asking
//! never fails and never writes: where nothing can be found out, nothing is proposed.

use std::ffi::OsStr;
use std::io::Write;

use anyhow::{Context as _, Result};
use clap::{Args, FromArgMatches as _, ValueEnum};
use clap_complete::env::{Elvish, Fish, Powershell, Shells, Zsh};
use clap_complete::{ArgValueCompleter, CompletionCandidate};
use serde::Serialize;
use session_core::storage::FileSessionStorage;
use session_core::{AgentDir, Catalog, Environment, ListDepth, Pointers, Session, SystemClock, Trash};

use super::bash::Bash;
use super::{Common, Context, text};
use crate::agents::{self, Selection};
use crate::exit::Exit;

/// How shells ask.
const VARIABLE: &str = "COMPLETE";
const SHELLS: Shells<'_> = Shells(&[&Bash, &Elvish, &Fish, &Powershell, &Zsh]);
/// `compinit` makes the whole script a function, whose first call so far only defined what answers the next ones.
const AUTOLOADED: &str = "if [[ $funcstack[1] == _watcher ]]; then _clap_dynamic_completer_watcher \"$@\"; fi\n";
/// More than anybody chooses from.
const MOST: usize = 100;
/// How much of a session's name stands beside its id.
const NAME: usize = 60;

/// Print what a shell needs to complete commands, session ids and names
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher completions bash > ~/.local/share/bash-completion/completions/watcher
  watcher completions zsh  > ~/.zfunc/_watcher
  watcher completions fish > ~/.config/fish/completions/watcher.fish

`make install` does this.")]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
}

#[derive(Serialize)]
struct Script {
    shell: String,
    script: String,
}

/// Answers a shell that asks, and ends the process then.
pub(super) fn answer() {
    clap_complete::CompleteEnv::with_factory(super::definition).var(VARIABLE).shells(SHELLS).complete();
}

impl Completions {
    pub(crate) fn run(self, context: &mut Context) -> Result<Exit> {
        let name = self.shell.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        let shell = SHELLS.completer(&name).with_context(|| format!("no completions for {name}"))?;
        let mut script = Vec::new();
        shell.write_registration(VARIABLE, "watcher", "watcher", "watcher", &mut script)?;
        script.flush()?;
        if matches!(self.shell, Shell::Zsh) {
            script.extend_from_slice(AUTOLOADED.as_bytes());
        }
        if !context.out.is_json() {
            context.out.raw(&script)?;
        }
        context.out.json("completions", Script { shell: name, script: String::from_utf8(script)? })?;
        Ok(Exit::Done)
    }
}

/// Session ids that begin so; else names that hold it.
pub(super) fn sessions() -> ArgValueCompleter {
    ArgValueCompleter::new(|begin: &OsStr| propose(begin, session_names))
}

/// Terminals that have pointers.
pub(super) fn terminals() -> ArgValueCompleter {
    ArgValueCompleter::new(|begin: &OsStr| propose(begin, terminal_names))
}

/// Sessions in the trash.
pub(super) fn trashed() -> ArgValueCompleter {
    ArgValueCompleter::new(|begin: &OsStr| propose(begin, trashed_names))
}

/// Something that can be completed, and what it is.
type Proposal = (String, String);

fn propose(begin: &OsStr, all: fn(&AgentDir, &Environment) -> Option<Vec<Proposal>>) -> Vec<CompletionCandidate> {
    let environment = Environment::from_process();
    let agent = agents::resolve_one(&selection(&environment), &environment).ok();
    let (Some(begin), Some(all)) = (begin.to_str(), agent.and_then(|agent| all(&agent, &environment))) else {
        return Vec::new();
    };
    // zsh hands words over as they were typed.
    let begin = begin.replace(['\\', '\'', '"'], "").to_lowercase();
    let fitting = all.into_iter().filter_map(|(id, name)| {
        if id.to_lowercase().starts_with(&begin) {
            return Some(CompletionCandidate::new(id).help(Some(name.into())));
        }
        let by_name = !begin.is_empty() && name.to_lowercase().starts_with(&begin);
        by_name.then(|| CompletionCandidate::new(name).help(Some(id.into())))
    });
    fitting.take(MOST).collect()
}

/// The agent directory that the words of the command line name so far; of words that are not understood the rest counts.
fn selection(environment: &Environment) -> Selection {
    // `watcher -- watcher WORDS`.
    let words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    let matches = super::definition().ignore_errors(true).try_get_matches_from(words);
    let Ok(common) = matches.and_then(|matches| Common::from_arg_matches(&matches)) else {
        return Selection::default();
    };
    let mut selection = common.selection();
    for dir in &mut selection.dirs {
        // A shell has not done this yet.
        if let (Ok(below), Some(home)) = (dir.strip_prefix("~"), environment.home()) {
            *dir = home.join(below);
        }
    }
    selection
}

fn session_names(agent: &AgentDir, environment: &Environment) -> Option<Vec<Proposal>> {
    let catalog = Catalog::new(agent.clone(), environment.clone()).with_depth(ListDepth::Name);
    let mut listing = catalog.list(None, None).ok()?;
    if listing.sessions.is_empty() {
        listing = catalog.list_all().ok()?;
    }
    Some(listing.sessions.iter().map(|session| proposal(session.id().as_str(), &session.name())).collect())
}

fn terminal_names(agent: &AgentDir, _: &Environment) -> Option<Vec<Proposal>> {
    let storage = FileSessionStorage::new();
    let pointers = Pointers::new(&storage, agent.terminal_sessions()).list().ok()?;
    let proposal = |stored: session_core::StoredPointer| {
        let cwd = stored.pointer().map(|pointer| pointer.cwd().display().to_string()).unwrap_or_default();
        proposal(stored.terminal().as_str(), &cwd)
    };
    Some(pointers.into_iter().flatten().map(proposal).collect())
}

fn trashed_names(agent: &AgentDir, _: &Environment) -> Option<Vec<Proposal>> {
    let trash = Trash::of(std::sync::Arc::new(FileSessionStorage::new()), agent, std::sync::Arc::new(SystemClock));
    let items = trash.list().ok()?.into_iter().flatten();
    let proposal = |item: session_core::Trashed| {
        let session = Session::read(item.file()).ok()?;
        let name = super::named::called(&session).ok()?;
        Some(proposal(session.header()?.id().as_str(), &name))
    };
    Some(items.filter_map(proposal).collect())
}

/// Cleaned: a shell prints it into a terminal.
fn proposal(id: &str, name: &str) -> Proposal {
    let clean = |text: &str| super::output::clean(text).into_owned();
    (clean(id), text::fit(&clean(name), NAME).into_owned())
}
