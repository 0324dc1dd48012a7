//! What commands ask of their surroundings: the agent directory, its catalog, the working directory, the terminal, the time.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use session_core::storage::{FileSessionStorage, SessionStorage};
use session_core::{
    AgentDir, Catalog, Clock, Environment, ErrorKind, Host, ManualClock, SessionManager, SystemClock, TerminalId,
    Timestamp, Trash, stdin_terminal,
};

use super::Context;
use super::output::remark;
use super::text;
use crate::agents;
use crate::exit::{Exit, Refusal};
use crate::settings::{AgentSettings, Keys, Level, Sources};

/// Pins the time, so that what is shown today is shown tomorrow: transcripts, documentation, tests.
const NOW: &str = "WATCHER_NOW";

impl Context {
    /// The one agent directory that the command is about.
    pub(super) fn agent(&self) -> Result<AgentDir> {
        agents::resolve_one(&self.common.selection(), &self.environment)
    }

    /// The same, for a command that is about something in it.
    ///
    /// # Errors
    /// [`Exit::NotFound`] when it is not there.
    pub(super) fn agent_there(&self) -> Result<AgentDir> {
        let agent = self.agent()?;
        match self.absence(&agent) {
            Some(absence) => Err(Refusal::new(Exit::NotFound, absence).into()),
            None => Ok(agent),
        }
    }

    /// Says that an agent directory is not there: to a question that lists things nothing is an answer, and this is why.
    pub(super) fn tell_absence(&self, agent: &AgentDir) -> bool {
        let absence = self.absence(agent);
        if let Some(absence) = &absence {
            self.remark(absence);
        }
        absence.is_some()
    }

    /// That an agent directory is not there; none when it is, or when what belongs to it lies elsewhere `[D2]`.
    pub(super) fn absence(&self, agent: &AgentDir) -> Option<String> {
        let places = [agent.root().to_owned(), agent.sessions(), agent.history_db()];
        // What can't be looked at is there, and whoever reads it says what is wrong.
        if places.iter().any(|place| !matches!(place.try_exists(), Ok(false))) {
            return None;
        }
        let root = self.homely(agent.root());
        Some(match self.common.selection().strangers.first() {
            Some(name) => {
                format!("{root}: no hook of {name} has told a prompt yet; `watcher plugin install {name}` sets that up")
            }
            None => format!("{root}: there is no such agent directory; --agent-dir and --harness name others"),
        })
    }

    /// Its sessions. Reads; never writes its cache.
    pub(super) fn catalog(&self) -> Result<Catalog> {
        Ok(Catalog::new(self.agent()?, self.environment.clone()))
    }

    /// The settings of an agent directory, from the user's file alone.
    pub(super) fn settings(&self, agent: &AgentDir) -> Result<AgentSettings> {
        let environment = self.environment.clone();
        let sources = Sources { file: None, flags: Keys::default(), level: None, default: Level::Off, environment };
        sources.read()?.of(agent)
    }

    /// What session managers of ours work with. They have no terminal: no command makes a session this terminal's own.
    pub(super) fn host(&self) -> Result<Host> {
        Ok(Host::new(self.agent()?, self.environment.clone()).with_clock(self.clock()?))
    }

    /// A session that is there, to change it. One that was deleted a moment ago is not made anew.
    ///
    /// # Errors
    /// [`Exit::NotFound`] when the file is gone.
    pub(super) fn open(&self, file: &Path) -> Result<SessionManager> {
        SessionManager::open_existing(&self.host()?, file, None).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Refusal::new(Exit::NotFound, error.to_string()).into(),
            _ => error.into(),
        })
    }

    /// The sessions that were deleted.
    pub(super) fn trash(&self) -> Result<Trash> {
        Ok(Trash::of(storage(), &self.agent()?, self.clock()?))
    }

    /// The working directory that is meant: what was said, else this process's.
    pub(super) fn directory(&self, said: Option<&Path>) -> Result<PathBuf> {
        let here = self.environment.cwd()?;
        Ok(said.map_or_else(|| here.to_owned(), |said| tidy(&here.join(said))))
    }

    /// The terminal that this process has.
    pub(super) fn terminal(&self) -> Option<TerminalId> {
        TerminalId::detect(stdin_terminal().as_deref(), &self.environment)
    }

    /// The time, or the one that was handed in.
    pub(super) fn clock(&self) -> Result<Arc<dyn Clock>> {
        Ok(match pinned(&self.environment)? {
            Some(time) => Arc::new(ManualClock::at(time)),
            None => Arc::new(SystemClock),
        })
    }

    /// Whether the time was handed in.
    pub(super) fn time_is_pinned(&self) -> bool {
        matches!(pinned(&self.environment), Ok(Some(_)))
    }

    pub(super) fn now(&self) -> Result<Timestamp> {
        Ok(self.clock()?.now())
    }

    /// A remark beside the answer, on standard error.
    pub(super) fn remark(&self, text: &str) {
        remark(&self.homely_text(text));
    }

    /// A message with the home as `~` in the paths that it names, whoever made it.
    pub(super) fn homely_text(&self, text: &str) -> String {
        let home = self.environment.home().and_then(Path::to_str).filter(|home| home.len() > 1);
        home.map_or_else(|| text.to_owned(), |home| text::with_tilde(text, home))
    }

    /// A path as people write it: the home as `~`. In all that people read paths are so. Whole stay those that scripts take: a
    /// line that is a path and nothing else, and all of `--json`.
    pub(super) fn homely(&self, path: &Path) -> String {
        match self.environment.home().and_then(|home| path.strip_prefix(home).ok()) {
            Some(below) if below.as_os_str().is_empty() => "~".to_owned(),
            Some(below) => format!("~/{}", below.display()),
            None => path.display().to_string(),
        }
    }
}

/// The files of this machine.
pub(super) fn storage() -> Arc<dyn SessionStorage> {
    Arc::new(FileSessionStorage::new())
}

fn pinned(environment: &Environment) -> Result<Option<Timestamp>> {
    let Some(text) = environment.variable(NOW) else { return Ok(None) };
    let time = text.to_str().and_then(Timestamp::parse);
    Ok(Some(time.with_context(|| format!("{NOW} is no time like 2026-01-05T09:30:00Z: {}", text.display()))?))
}

/// The path without `.` and a trailing slash; `..` stays, since what it leads to only the file system knows.
fn tidy(path: &Path) -> PathBuf {
    path.components().filter(|part| !matches!(part, std::path::Component::CurDir)).collect()
}
