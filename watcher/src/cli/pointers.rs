//! `watcher pointers`: which terminal is at which session. `list` and `show` write nothing.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde::Serialize;
use session_core::storage::SessionStorage;
use session_core::{PointerChange, Pointers, Session, StoredPointer, TerminalId, Timestamp, time_ago};

use super::confirm::Confirm;
use super::grid::{Column, Grid};
use super::named::{self, Named};
use super::output::Tone;
use super::surroundings::storage;
use super::text::plural;
use super::{Context, completions};
use crate::exit::Exit;

/// See and set which session each terminal goes on with
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  watcher pointers list
  watcher pointers set 15c0              this terminal goes on with that session
  watcher pointers prune                 removes those whose session is gone")]
pub(crate) enum PointersOf {
    List(List),
    Show(Show),
    Set(Set),
    Prune(Prune),
}

/// All pointers, latest first
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher pointers list
  watcher pointers list --json

STATE is `good`, `fresh` (its session has not begun), `gone` (its session is not there) or `broken` (no pointer).")]
pub(crate) struct List {}

/// One terminal's pointer
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher pointers show
  watcher pointers show tmux-%3

Exits with code 3 when the terminal has none.")]
pub(crate) struct Show {
    /// The terminal [default: this one]
    #[arg(add = completions::terminals())]
    terminal: Option<String>,
}

/// Point a terminal at a session: it goes on with that
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher pointers set 15c0
  watcher pointers set 15c0 --terminal tmux-%3")]
pub(crate) struct Set {
    #[command(flatten)]
    session: Named,
    /// The terminal [default: this one]
    #[arg(long, value_name = "ID", add = completions::terminals())]
    terminal: Option<String>,
    /// The working directory [default: the session's]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
}

/// Remove pointers whose session is gone
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher pointers prune --dry-run
  watcher pointers prune --yes

With --json the answer is the terminals whose pointers went, or would go.

A pointer stays when its session only moved, when its session is about to begin, and when the place of its session is not
there, as on a disk that is not mounted.")]
pub(crate) struct Prune {
    #[command(flatten)]
    confirm: Confirm,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    terminal: String,
    here: bool,
    cwd: Option<String>,
    session: Option<String>,
    name: Option<String>,
    modified: String,
    state: &'static str,
}

/// How a pointer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its session is there.
    Good,
    /// Its session has not begun.
    Fresh,
    /// Its session is not there.
    Gone,
    /// The file is no pointer.
    Broken,
}

impl State {
    fn of(storage: &dyn SessionStorage, stored: &StoredPointer) -> Self {
        match stored.pointer() {
            None => Self::Broken,
            // What can't be looked at is not gone.
            Some(pointer) if storage.exists(pointer.session_file()).unwrap_or(true) => Self::Good,
            Some(pointer) if pointer.is_fresh() => Self::Fresh,
            Some(_) => Self::Gone,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Fresh => "fresh",
            Self::Gone => "gone",
            Self::Broken => "broken",
        }
    }
}

impl PointersOf {
    pub(crate) fn run(self, context: &mut Context) -> Result<Exit> {
        match self {
            Self::List(_) => list(context),
            Self::Show(command) => command.run(context),
            Self::Set(command) => command.run(context),
            Self::Prune(command) => command.run(context),
        }
    }
}

fn list(context: &mut Context) -> Result<Exit> {
    let storage = storage();
    let mut stored = read_all(context, &*storage)?;
    stored.sort_by_key(|stored| std::cmp::Reverse(stored.modified()));
    let shown: Vec<Shown> = stored.iter().map(|stored| shown(context, &*storage, stored)).collect();
    let now = context.now()?;
    let mut grid = Grid::new([
        Column::left("TERMINAL"),
        Column::left("SET"),
        Column::left("STATE"),
        Column::left("DIRECTORY").from(90),
        Column::left("SESSION"),
    ]);
    for (stored, shown) in stored.iter().zip(&shown) {
        let here = if shown.here { " (here)" } else { "" };
        let cwd = shown.cwd.as_ref().map(|cwd| context.homely(cwd.as_ref())).unwrap_or_default();
        let session = shown.name.clone().or_else(|| shown.session.clone()).unwrap_or_default();
        let age = time_ago(Timestamp::from_system(stored.modified()), now);
        grid.row([format!("{}{here}", shown.terminal), age, shown.state.to_owned(), cwd, session]);
    }
    if !context.tell_absence(&context.agent()?) && stored.is_empty() && !context.out.is_json() {
        context.remark("no terminal has a pointer");
    }
    context.out.grid(&grid)?;
    context.out.json("pointers.list", shown)?;
    Ok(Exit::Done)
}

impl Show {
    fn run(self, context: &mut Context) -> Result<Exit> {
        let storage = storage();
        let terminal = terminal(context, self.terminal.as_deref())?;
        let pointers = Pointers::new(&*storage, context.agent_there()?.terminal_sessions());
        let Some(stored) = pointers.read(&terminal)? else {
            let all = read_all(context, &*storage)?;
            let near = named::nearest(terminal.as_str(), all.iter().map(|one| one.terminal().as_str().to_owned()));
            return Err(named::missing(format!("{terminal} has no pointer", terminal = terminal.as_str()), &near));
        };
        let shown = shown(context, &*storage, &stored);
        let extra: Vec<String> = stored.pointer().map_or(Vec::new(), |pointer| {
            pointer.extra_lines().map(|line| String::from_utf8_lossy(line).into_owned()).collect()
        });
        let homely = |path: &Option<String>| path.as_ref().map(|path| context.homely(path.as_ref()));
        let (session, cwd) = (homely(&shown.session), homely(&shown.cwd));
        let out = &mut context.out;
        out.toned(Tone::Strong, &shown.terminal)?;
        for (what, value) in [
            ("session", session.as_deref()),
            ("name", shown.name.as_deref()),
            ("directory", cwd.as_deref()),
            ("set", Some(shown.modified.as_str())),
            ("state", Some(shown.state)),
        ] {
            if let Some(value) = value {
                out.line(&format!("{what:<11}{value}"))?;
            }
        }
        for line in extra {
            out.line(&format!("{:<11}{line}", "also"))?;
        }
        context.out.json("pointers.show", shown)?;
        Ok(Exit::Done)
    }
}

impl Set {
    fn run(self, context: &mut Context) -> Result<Exit> {
        let session = self.session.read(context)?;
        let terminal = terminal(context, self.terminal.as_deref())?;
        let own = session.header().and_then(session_core::Header::cwd).filter(|cwd| !cwd.is_empty());
        let cwd = match (&self.cwd, own) {
            (None, Some(own)) => PathBuf::from(own),
            (said, _) => context.directory(said.as_deref())?,
        };
        let storage = storage();
        let file = session.path().unwrap_or(Path::new("")).to_owned();
        Pointers::new(&*storage, context.agent()?.terminal_sessions()).set(&terminal, &cwd, &file)?;
        context.out.line(&format!("{} goes on with {}", terminal.as_str(), context.homely(&file)))?;
        let shown = Shown {
            terminal: terminal.as_str().to_owned(),
            here: context.terminal().as_ref() == Some(&terminal),
            cwd: Some(cwd.display().to_string()),
            session: Some(file.display().to_string()),
            name: Some(named::called(&session)?),
            modified: context.now()?.to_string(),
            state: State::Good.name(),
        };
        context.out.json("pointers.set", shown)?;
        Ok(Exit::Done)
    }
}

impl Prune {
    fn run(self, context: &mut Context) -> Result<Exit> {
        let storage = storage();
        let agent = context.agent_there()?;
        if !agent.sessions().is_dir() {
            bail!("{}: the sessions are not there, so nothing can be told of the pointers", agent.sessions().display());
        }
        let mut gone = Vec::new();
        for stored in read_all(context, &*storage)? {
            if State::of(&*storage, &stored) == State::Gone && !moved(context, &*storage, &stored)? {
                gone.push(stored);
            }
        }
        for stored in &gone {
            let file = stored.pointer().map(|pointer| context.homely(pointer.session_file()));
            context.out.line(&format!("{}  {}", stored.terminal().as_str(), file.unwrap_or_default()))?;
        }
        let mut removed = Vec::new();
        let what = format!("Remove {}", plural(gone.len(), "pointer"));
        if gone.is_empty() {
            context.out.line("nothing to remove: no pointer leads to a session that is gone")?;
        } else if self.confirm.ask(context, &what)? {
            let pointers = Pointers::new(&*storage, agent.terminal_sessions());
            for stored in &gone {
                if pointers.remove(stored)? == PointerChange::Done {
                    removed.push(stored.terminal().as_str().to_owned());
                }
            }
            context.out.line(&format!("{} removed", plural(removed.len(), "pointer")))?;
        } else {
            removed.extend(gone.iter().map(|stored| stored.terminal().as_str().to_owned()));
        }
        context.out.json("pointers.prune", removed)?;
        Ok(Exit::Done)
    }
}

/// Whether the session may be somewhere else: its id, which its file name ends with, is found there; or the root that its
/// directory was in is not there, as on a disk that is not mounted.
fn moved(context: &Context, storage: &dyn SessionStorage, stored: &StoredPointer) -> Result<bool> {
    let Some(pointer) = stored.pointer() else { return Ok(true) };
    let file = pointer.session_file();
    let root = file.parent().and_then(Path::parent);
    if !root.is_some_and(|root| storage.exists(root).unwrap_or(false)) {
        return Ok(true);
    }
    let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let id = stem.rsplit('_').next().unwrap_or_default().to_owned();
    if id.is_empty() {
        return Ok(false);
    }
    Ok(context.catalog()?.find_by_id(&id.as_str().into())?.is_some())
}

fn terminal(context: &Context, said: Option<&str>) -> Result<TerminalId> {
    match said {
        Some(id) => Ok(TerminalId::new(id)?),
        None => match context.terminal() {
            Some(terminal) => Ok(terminal),
            None => {
                bail!("this process has no terminal; name one: `watcher pointers list` shows those that have pointers")
            }
        },
    }
}

/// All that can be read; the others are said.
fn read_all(context: &Context, storage: &dyn SessionStorage) -> Result<Vec<StoredPointer>> {
    let mut all = Vec::new();
    for stored in Pointers::new(storage, context.agent()?.terminal_sessions()).list()? {
        match stored {
            Ok(stored) => all.push(stored),
            Err(error) => context.remark(&error.to_string()),
        }
    }
    Ok(all)
}

fn shown(context: &Context, storage: &dyn SessionStorage, stored: &StoredPointer) -> Shown {
    let pointer = stored.pointer();
    let state = State::of(storage, stored);
    let name = pointer.as_ref().filter(|_| state == State::Good).and_then(|pointer| {
        let session = Session::read(pointer.session_file()).ok()?;
        session.header()?;
        named::called(&session).ok()
    });
    Shown {
        terminal: stored.terminal().as_str().to_owned(),
        here: context.terminal().as_ref() == Some(stored.terminal()),
        cwd: pointer.as_ref().map(|pointer| pointer.cwd().display().to_string()),
        session: pointer.as_ref().map(|pointer| pointer.session_file().display().to_string()),
        name,
        modified: Timestamp::from_system(stored.modified()).to_string(),
        state: state.name(),
    }
}
