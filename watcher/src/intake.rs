//! One session file and how far it was read: what is new in it, as prompts. It writes nothing and knows no database.

use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use session_core::follow::{Buffer, Follower, Position, Slice, Sought, Transition};
use session_core::storage::{FileIdentity, FileKind, SessionStorage, Stat};
use session_core::{EntryKind, ErrorKind, Result};

use crate::prompt::Prompt;

/// A file that was not written to for so long has a last line that is not being written.
const QUIET: Duration = Duration::from_secs(5);

/// A time that lies so far ahead tells nothing: the clock was set back, or the file was copied with its time.
const AHEAD: Duration = Duration::from_secs(60 * 60);

/// How much is read before it is looked at. Measured: more leaves the processor's cache in between.
const SLICE: u64 = 256 * 1024;
/// The role of what a person typed.
static A_PERSON: LazyLock<Sought> = LazyLock::new(|| Sought::new("user"));

/// Whether there will be another look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attention {
    /// There will: what is being written now can wait.
    Lasting,
    /// This is the only one: what is there counts.
    Once,
}

/// What looks at a session file brought.
#[derive(Clone, Debug, Default)]
pub(crate) struct Look {
    /// What became of the file, as the first look saw it.
    pub(crate) transition: Option<Transition>,
    /// Whether there were entries.
    pub(crate) has_news: bool,
    /// Whether the file was written to just now.
    pub(crate) is_fresh: bool,
    /// New prompts, in the order of the file.
    pub(crate) prompts: Vec<Prompt>,
    /// What is wrong in what was read: how many things, and the first of them.
    pub(crate) defects: Option<(u64, String)>,
    /// How far it was read.
    pub(crate) position: Position,
}

/// A file and how far it was read.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    follower: Follower,
}

impl Tail {
    /// Goes on from a position that was stored.
    pub(crate) fn resume(position: Position) -> Self {
        Self { follower: Follower::resume(position) }
    }

    pub(crate) fn position(&self) -> &Position {
        self.follower.position()
    }

    pub(crate) fn identity(&self) -> Option<FileIdentity> {
        self.position().identity()
    }

    /// The session's id; none when the file has no valid header, or was never there.
    pub(crate) fn session(&self) -> Option<&str> {
        self.position().session().map(|session| session.id().as_str())
    }

    /// The working directory that the header names.
    pub(crate) fn cwd(&self) -> Option<&str> {
        self.position().session().and_then(|session| session.cwd()).filter(|cwd| !cwd.is_empty())
    }

    /// Whether a look at a file of which this is known could bring anything.
    pub(crate) fn has_news(&self, stat: &Stat, now: SystemTime, attention: Attention) -> bool {
        !self.follower.has_seen(stat, slice(is_settled(stat, now, attention)))
    }

    /// Looks at the file that `path` names until nothing more is new. None when nothing is.
    ///
    /// # Errors
    /// What the storage said; the position may have moved, and what was read is not lost: resume from the stored one.
    pub(crate) fn look(
        &mut self,
        storage: &dyn SessionStorage,
        path: &Path,
        now: SystemTime,
        attention: Attention,
        buffer: &mut Buffer,
    ) -> Result<Option<Look>> {
        // A directory or a pipe in its place is no session.
        let Some(stat) = storage.stat(path)?.filter(|stat| stat.kind == FileKind::File) else {
            return Ok(self.identity().map(|_| Look { transition: Some(Transition::Deleted), ..self.empty() }));
        };
        let is_settled = is_settled(&stat, now, attention);
        let slice = slice(is_settled);
        let mut look = Look { is_fresh: !is_quiet(&stat, now), ..self.empty() };
        loop {
            let changes = self.follower.look_into(storage, path, slice, std::mem::take(buffer))?;
            if look.transition.is_none() {
                if matches!(changes.transition(), Transition::Unchanged | Transition::NotYet) {
                    *buffer = changes.into_buffer();
                    return Ok(None);
                }
                look.transition = Some(changes.transition());
            } else if changes.transition().is_from_the_beginning() {
                // Replaced between two slices: what was read before stays, it is known by its keys.
                look.transition = Some(changes.transition());
            }
            for entry in changes.entries() {
                look.has_news = true;
                // Nearly every message is the model's or a tool's: those are passed over without being decoded.
                if entry.kind() != EntryKind::Message || !entry.may_hold(&A_PERSON) {
                    continue;
                }
                match entry.json() {
                    Ok(json) => {
                        let version_1 = self.position().session().map(|session| session.version_1_id(entry.number()));
                        let prompt = Prompt::of(entry.id(), entry.timestamp(), json.view());
                        look.prompts.extend(prompt.map(|prompt| prompt.once_known_as(version_1)));
                    }
                    Err(error) if error.kind() == ErrorKind::NotJson => look.defect(1, &error.to_string()),
                    Err(error) => return Err(error),
                }
            }
            if let Some(first) = changes.defects().list().first() {
                look.defect(changes.defects().total(), &first.to_string());
            }
            let has_more = changes.has_more();
            *buffer = changes.into_buffer();
            if !has_more {
                break;
            }
        }
        look.position = self.position().clone();
        let has_begun = look.transition.is_some_and(Transition::is_from_the_beginning);
        let is_judged = if look.position.lines() > 0 { has_begun } else { is_settled && stat.len > 0 };
        if is_judged && self.session().is_none() {
            let total = look.defects.take().map_or(0, |(total, _)| total);
            look.defect(total + 1, &format!("{}: no valid session header; nothing of it is read", path.display()));
        }
        Ok(Some(look))
    }

    fn empty(&self) -> Look {
        Look { position: self.position().clone(), ..Look::default() }
    }
}

fn is_quiet(stat: &Stat, now: SystemTime) -> bool {
    match now.duration_since(stat.modified) {
        Ok(since) => since >= QUIET,
        Err(ahead) => ahead.duration() >= AHEAD,
    }
}

/// Whether a last line without a line feed counts.
fn is_settled(stat: &Stat, now: SystemTime, attention: Attention) -> bool {
    attention == Attention::Once || is_quiet(stat, now)
}

fn slice(is_settled: bool) -> Slice {
    let slice = Slice::of_bytes(SLICE);
    if is_settled { slice.taking_last_line() } else { slice }
}

impl Look {
    fn defect(&mut self, count: u64, message: &str) {
        let (total, _) = self.defects.get_or_insert_with(|| (0, message.to_owned()));
        *total += count;
    }

    /// What is wrong, in one line.
    pub(crate) fn problem(&self) -> Option<String> {
        let (total, first) = self.defects.as_ref()?;
        Some(if *total > 1 { format!("{first} (and {} more)", total - 1) } else { first.clone() })
    }
}
