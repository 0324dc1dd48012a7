//! One event that a harness's command hook tells: what it says, whose history it belongs to, and what is to be done.
//!
//! Two shapes are understood. Our own, whose keys are all optional but `event`:
//!
//! ```json
//! {"event":"prompt","harness":"xcsh","cwd":"/w","sessionId":"…","sessionFile":"/…/x.jsonl","prompt":"fix it",
//!  "time":1767605400000,"terminal":"/dev/pts/3"}
//! ```
//!
//! with the events `prompt`, `session_start`, `session_switch`, `session_branch` and `session_end`; and that of Claude Code's
//! hooks (`hook_event_name`, `session_id`, `transcript_path`, `cwd`, `prompt`). It never writes a session file, and a pointer
//! only to a file that is a session of this format.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use session_core::storage::FileSessionStorage;
use session_core::{AgentDir, Environment, Harness, Json, JsonKind, JsonText, Pointers, TerminalId};

use crate::agents::{self, Selection};
use crate::place::Place;
use crate::spool::{Heard, unique_name};

/// The harness whose hooks have a shape of their own.
const CLAUDE_CODE: &str = "claude-code";
/// A session file's header stands in so many first bytes.
const HEAD: u64 = 64 * 1024;

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    /// Somebody submitted this.
    Prompt(String),
    /// The session became the terminal's, or was when it ended.
    Session,
    /// Something that is none of our business; its name.
    Unknown(String),
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) happened: Happened,
    harness: Option<String>,
    cwd: Option<String>,
    session: Option<String>,
    file: Option<PathBuf>,
    millis: Option<i64>,
    terminal: Option<PathBuf>,
}

/// Where an event belongs.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) agent: AgentDir,
    /// Whether its sessions are of our format; else everything in the directory is ours.
    pub(crate) is_family: bool,
}

impl Event {
    /// Reads an event.
    ///
    /// # Errors
    /// It is no object of one of the two shapes.
    pub(crate) fn parse(json: &str) -> Result<Self> {
        let json = JsonText::parse(json).map_err(|error| anyhow::anyhow!("the event is no JSON: {error}"))?;
        let json = json.view();
        if json.kind() != JsonKind::Object {
            bail!("standard input is no JSON object: it holds another value");
        }
        let text = |key: &str| json.get(key).and_then(Json::text).map(std::borrow::Cow::into_owned);
        let some = |key: &str| text(key).filter(|text| !text.is_empty());
        let prompt = || text("prompt").context("a prompt event without a `prompt`");
        if let Some(name) = text("hook_event_name") {
            let happened = match name.as_str() {
                "UserPromptSubmit" => Happened::Prompt(prompt()?),
                "SessionStart" | "SessionEnd" => Happened::Session,
                _ => Happened::Unknown(name),
            };
            let file = some("transcript_path").map(PathBuf::from);
            let harness = Some(CLAUDE_CODE.to_owned());
            let (cwd, session) = (some("cwd"), some("session_id"));
            return Ok(Self { happened, harness, cwd, session, file, millis: None, terminal: None });
        }
        let Some(name) = text("event") else { bail!("the event has neither `event` nor `hook_event_name`") };
        let happened = match name.as_str() {
            "prompt" => Happened::Prompt(prompt()?),
            "session_start" | "session_switch" | "session_branch" | "session_end" => Happened::Session,
            _ => Happened::Unknown(name),
        };
        Ok(Self {
            happened,
            harness: some("harness"),
            cwd: some("cwd"),
            session: some("sessionId"),
            file: some("sessionFile").map(PathBuf::from),
            millis: json.get("time").and_then(Json::integer),
            terminal: some("terminal").map(PathBuf::from),
        })
    }

    /// Where it belongs.
    ///
    /// # Errors
    /// As [`Target::of`].
    pub(crate) fn target(&self, selection: &Selection, environment: &Environment) -> Result<Target> {
        Target::of(self.harness(), selection, environment)
    }

    /// The harness that it names.
    pub(crate) fn harness(&self) -> Option<&str> {
        self.harness.as_deref()
    }

    /// The prompt as the spool takes it; none for other events and for white space.
    pub(crate) fn heard(&self, now_millis: i64) -> Option<Heard> {
        let Happened::Prompt(prompt) = &self.happened else { return None };
        if prompt.trim().is_empty() {
            return None;
        }
        // A time that lies ahead is none.
        let millis = self.millis.filter(|millis| *millis > 0 && *millis <= now_millis).unwrap_or(now_millis);
        Some(Heard {
            id: unique_name(),
            at: millis.div_euclid(1000),
            prompt: prompt.clone(),
            cwd: self.cwd.clone(),
            session: self.session.clone(),
        })
    }

    /// Points this terminal at the session, if it is one of our format and on disk. What stands there for the same session
    /// stays as it is, others' lines included.
    ///
    /// # Errors
    /// What the file system said.
    pub(crate) fn point(&self, target: &Target, environment: &Environment) -> Result<Option<TerminalId>> {
        let (true, Happened::Session, Some(file)) = (target.is_family, &self.happened, &self.file) else {
            return Ok(None);
        };
        if !file.is_absolute() || !is_session(file) {
            return Ok(None);
        }
        let Some(terminal) = self.terminal(environment) else { return Ok(None) };
        let storage = FileSessionStorage::new();
        let pointers = Pointers::new(&storage, target.agent.terminal_sessions());
        if pointers.get(&terminal)?.is_some_and(|pointer| pointer.session_file() == file) {
            return Ok(None);
        }
        let cwd = match &self.cwd {
            Some(cwd) => PathBuf::from(cwd),
            None => environment.cwd()?.to_owned(),
        };
        pointers.set_soon(&terminal, &cwd, file)?;
        Ok(Some(terminal))
    }

    /// The harness's terminal `[P1]`: what it says, else what its process has for standard input, else its variables.
    fn terminal(&self, environment: &Environment) -> Option<TerminalId> {
        let is_device = |path: &PathBuf| path.starts_with("/dev") && path != Path::new("/dev/null");
        let of_parent = || std::fs::read_link(format!("/proc/{}/fd/0", std::os::unix::process::parent_id())).ok();
        let is_terminal = |path: &PathBuf| path.starts_with("/dev/pts") || path.starts_with("/dev/tty");
        let device = self.terminal.clone().filter(is_device).or_else(|| of_parent().filter(is_terminal));
        TerminalId::detect(device.as_deref(), environment)
    }
}

impl Target {
    /// The agent directory of a harness's events: for one of the family its own, or what the command line says; for any other a
    /// place of ours, since nothing of theirs is ours to write.
    ///
    /// # Errors
    /// There is no such place, or the harness's name is no plain name.
    pub(crate) fn of(harness: Option<&str>, selection: &Selection, environment: &Environment) -> Result<Self> {
        let Some(named) = harness else {
            return Ok(Self { agent: agents::resolve_one(selection, environment)?, is_family: true });
        };
        let Some(harness) = Harness::from_name(named) else {
            return Ok(Self { agent: agents::of_stranger(named, environment)?, is_family: false });
        };
        let agent = if selection.dirs.is_empty() {
            agents::resolve_one(&Selection { harnesses: vec![harness], ..Selection::default() }, environment)?
        } else {
            agents::resolve_one(selection, environment)?
        };
        Ok(Self { agent, is_family: true })
    }

    pub(crate) fn place(&self) -> Place {
        Place::of(&self.agent)
    }
}

/// Whether one of the first two lines is a session's header; before it only a title slot stands.
fn is_session(file: &Path) -> bool {
    if !file.is_file() {
        return false;
    }
    let mut head = Vec::new();
    let Ok(opened) = File::open(file) else { return false };
    if opened.take(HEAD).read_to_end(&mut head).is_err() {
        return false;
    }
    let is_header = |line: &[u8]| {
        let text = String::from_utf8_lossy(line);
        JsonText::parse(&text).is_ok_and(|json| {
            let text = |key: &str| json.view().get(key).and_then(Json::text);
            text("type").as_deref() == Some("session") && text("id").is_some()
        })
    };
    head.split(|byte| *byte == b'\n').take(2).any(is_header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_shapes_are_understood() {
        let own = Event::parse(
            r#"{"event":"prompt","harness":"omp","cwd":"/w","sessionId":"s","sessionFile":"/x.jsonl","prompt":"hi \ud83d","time":5000}"#,
        )
        .unwrap();
        let heard = own.heard(9_000).unwrap();
        assert_eq!((heard.at, heard.cwd.as_deref(), heard.session.as_deref()), (5, Some("/w"), Some("s")));
        assert!(heard.prompt.starts_with("hi "), "half a character loses no prompt");
        assert_eq!(own.heard(4_000).unwrap().at, 4, "a time that lies ahead is none");

        let claude = r#"{"session_id":"c","transcript_path":"/t.jsonl","cwd":"/w","hook_event_name":"UserPromptSubmit","prompt":"hi"}"#;
        let claude = Event::parse(claude).unwrap();
        assert_eq!(claude.happened, Happened::Prompt("hi".to_owned()));
        assert_eq!(claude.harness.as_deref(), Some("claude-code"));
        let unknown = Event::parse(r#"{"hook_event_name":"PreToolUse","tool_name":"Bash"}"#).unwrap();
        assert_eq!(unknown.happened, Happened::Unknown("PreToolUse".to_owned()));
        for bad in ["", "{", "[]", "{}", r#"{"event":"prompt"}"#] {
            assert!(Event::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_not_of_the_family_belongs_to_a_place_of_ours() {
        let home = tempfile::tempdir().unwrap();
        let environment = Environment::new(home.path()).with_variable("HOME", home.path());
        let target = |json: &str| Event::parse(json).unwrap().target(&Selection::default(), &environment);
        let claude = target(r#"{"hook_event_name":"SessionStart","cwd":"/w"}"#).unwrap();
        assert!(!claude.is_family);
        assert_eq!(claude.agent.root(), home.path().join(".local/state/watcher/claude-code"));
        let pi = target(r#"{"event":"session_start","harness":"pi"}"#).unwrap();
        assert!(pi.is_family && pi.agent.root() == home.path().join(".pi/agent"));
        for name in ["../x", "a/b", "", "-x", "A"] {
            let event = format!(r#"{{"event":"prompt","prompt":"p","harness":"{name}"}}"#);
            assert_eq!(target(&event).is_err(), !name.is_empty(), "{name}");
        }
    }
}
