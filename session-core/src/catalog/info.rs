//! What a listing shows of a session `[R1, R3]`. Values only; nothing here reads a file.

use std::path::{Path, PathBuf};

use super::facts::{Facts, Status};
use super::files::SessionFile;
use super::name;
use super::problem::Problem;
use crate::clock::Timestamp;
use crate::id::SessionId;

/// What stands where a session has no first message `[R3]`.
const NO_MESSAGES: &str = "(no messages)";

/// Sessions, newest modification first, and what was left out because something is wrong with it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Listing<T> {
    /// The sessions.
    pub sessions: Vec<T>,
    /// The files that were left out, by path.
    pub problems: Vec<Problem>,
}

/// A session as a full listing shows it.
#[derive(Clone, Debug)]
pub struct SessionInfo {
    file: SessionFile,
    facts: Facts,
    owner: Option<PathBuf>,
}

impl SessionInfo {
    pub(super) fn new(file: SessionFile, facts: Facts) -> Self {
        Self { file, facts, owner: None }
    }

    pub(super) fn owned_by(mut self, owner: Option<PathBuf>) -> Self {
        self.owner = owner;
        self
    }

    /// The session file.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// The session's id.
    pub fn id(&self) -> &SessionId {
        &self.facts.id
    }

    /// The working directory that the header names; empty when it names none.
    pub fn cwd(&self) -> &str {
        self.facts.cwd.as_deref().unwrap_or_default()
    }

    /// The session's name, else the short summary of its latest compaction that has one. Of a file that was not read
    /// whole, the name that its beginning gives.
    pub fn title(&self) -> Option<&str> {
        self.facts.title.as_deref()
    }

    /// Where it came from: opaque text, an id or a path `[F2]`.
    pub fn parent_session(&self) -> Option<&str> {
        self.facts.parent.as_deref()
    }

    /// When it began, by its header; none when that can't be read.
    pub fn created(&self) -> Option<Timestamp> {
        self.facts.created
    }

    /// When its file was modified.
    pub fn modified(&self) -> Timestamp {
        Timestamp::from_system(self.file.stat.modified)
    }

    /// The file's size in bytes.
    pub fn size(&self) -> u64 {
        self.file.stat.len
    }

    /// How many messages it has; none when it was not read whole.
    pub fn message_count(&self) -> Option<u64> {
        self.facts.messages
    }

    /// The text of the first user message that has text, its blocks joined by a space; `(no messages)` when there is none,
    /// or none near the beginning of a file that was not read whole.
    pub fn first_message(&self) -> &str {
        self.first_prompt().unwrap_or(NO_MESSAGES)
    }

    /// The same, none where [`first_message`](Self::first_message) has a placeholder.
    pub fn first_prompt(&self) -> Option<&str> {
        self.facts.first_message.as_deref()
    }

    /// The latest time of an entry; none when it was not read whole, or has no entry whose time can be read.
    pub fn last_activity(&self) -> Option<Timestamp> {
        self.facts.last_activity
    }

    /// How it stands; none when it was not read whole.
    pub fn status(&self) -> Option<Status> {
        self.facts.status
    }

    /// For a sub-agent's session: the session file in whose artifact directory it lies, where that exists `[D9]`.
    pub fn owner(&self) -> Option<&Path> {
        self.owner.as_deref()
    }

    /// What to call it in one line: the first of title, first prompt, id, file name that has something to show `[R1]`.
    pub fn name(&self) -> String {
        let facts = &self.facts;
        let names = [facts.title.as_deref(), facts.first_message.as_deref(), Some(facts.id.as_str())];
        names.into_iter().flatten().find_map(name::first_line).unwrap_or_else(|| name::stem(self.path()))
    }
}

/// A session as a short list shows it `[R1]`.
#[derive(Clone, Debug)]
pub struct RecentSession {
    path: PathBuf,
    name: String,
    modified: Timestamp,
}

impl RecentSession {
    pub(super) fn of(info: &SessionInfo) -> Self {
        Self { path: info.path().into(), name: info.name(), modified: info.modified() }
    }

    /// The session file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The first of title, first prompt, id, file name that has something to show: its first line, without control
    /// characters and outer blanks.
    pub fn full_name(&self) -> &str {
        &self.name
    }

    /// The same in at most 40 characters; `…` ends a cut one.
    pub fn name(&self) -> String {
        name::shortened(&self.name)
    }

    /// When its file was modified.
    pub fn modified(&self) -> Timestamp {
        self.modified
    }

    /// How long before `now` that was, as [`time_ago`](crate::time_ago) says it.
    pub fn time_ago(&self, now: Timestamp) -> String {
        name::time_ago(self.modified, now)
    }
}
