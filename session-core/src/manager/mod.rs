//! The session manager: a façade over reader, tree, context, writer, blob store and pointers `[W1–W6]`.
//!
//! It decides *when* something reaches the disk and what happens when that fails; how a file is shared is `disk`'s, what an
//! entry looks like is `compose`'s. One operation a file: appending, branching, forking, naming, editing, moving.

mod append;
#[cfg(feature = "tokio")]
mod asynchronous;
mod branching;
mod editing;
mod fork;
mod host;
mod locate;
mod moving;
mod naming;
mod open;
mod recovery;
mod repair;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::blob::BlobStore;
use crate::compose::Draft;
use crate::context::Context;
use crate::disk::{Disk, ForeignWriters, Noticed};
use crate::error::{Error, ErrorKind, Result};
use crate::header::Header;
use crate::id::{EntryId, SessionId};
use crate::json::JsonText;
use crate::log::{Envelope, Index, Place};
use crate::message::{Message, Role};
use crate::persist::persist;
use crate::pointer::Pointers;
use crate::session::{Leaf, Session};

pub use append::{CompactionEntry, CustomMessageEntry, SessionInitEntry};
pub use editing::EntryEdit;
pub use fork::Forked;
pub use host::Host;
pub use repair::{Repair, RepairPlan};

/// A session that can be appended to.
///
/// `Send` and synchronous: it blocks for as long as the disk does.
///
/// # What survives what
///
/// * When an append on a session that is on disk returns, its line has been handed to the kernel in one write: `kill -9`
///   right after loses nothing `[W3]`. After [`flush`](SessionManager::flush) a power cut loses nothing.
/// * A rewrite (name, edit, move, migration) is a new file renamed over the old one: a crash leaves the old or the new, whole
///   `[W4]`.
/// * The first write error is kept and returned by every later write; the entries stay in memory, in order, and
///   [`recover`](SessionManager::recover) writes them once there is room again `[W5]`.
///
/// ```
/// use std::path::Path;
/// use std::sync::Arc;
/// use session_core::storage::MemorySessionStorage;
/// use session_core::{AgentDir, Environment, Host, JsonText, Leaf, SessionManager};
/// # fn main() -> session_core::Result<()> {
/// let host = Host::new(AgentDir::at("/agent")?, Environment::new("/w")).with_storage(Arc::new(MemorySessionStorage::new()));
/// let mut session = SessionManager::create(&host, Path::new("/w"), None)?;
/// session.append_message(&JsonText::parse(r#"{"role":"user","content":"hi","timestamp":1}"#)?)?;
/// assert!(!session.is_on_disk()); // nothing is written before the model has answered
/// session.append_message(&JsonText::parse(r#"{"role":"assistant","content":[],"timestamp":2}"#)?)?;
/// assert!(session.is_on_disk()); // in the kernel: a killed process loses nothing
/// session.flush()?; // on the medium: a power cut loses nothing
/// assert_eq!(session.context(&Leaf::Current)?.messages().len(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SessionManager {
    host: Host,
    session: Session,
    /// The session's file, whether it exists yet or not.
    file: PathBuf,
    /// Where forks, branches and new sessions go.
    dir: PathBuf,
    cwd: Option<PathBuf>,
    state: State,
    /// The first write error, until [`recover`](Self::recover) `[W5]`.
    trouble: Option<Error>,
    /// An older version was read and could not be rewritten yet `[L4]`.
    migration_owed: bool,
    foreign: ForeignWriters,
    has_assistant: bool,
    notices: Vec<Notice>,
}

/// Whether and how a session is on disk.
#[derive(Debug)]
enum State {
    /// Never.
    InMemory,
    /// Once the first assistant message exists `[W2]`.
    NotYet(WhatIsThere),
    /// Each append is written.
    OnDisk(Box<Disk>),
    /// [`close`](SessionManager::close) was called.
    Closed,
}

/// What stands at the path of a session that is not written yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WhatIsThere {
    Nothing,
    /// Bytes that are no session; they are kept beside the new file `[L3]`.
    Invalid,
}

/// Something that a caller should know and that did not make a call fail.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Notice {
    /// The file is of an older version and could not be rewritten now; that comes before the first append `[L4]`.
    MigrationPostponed(Error),
    /// The path held something that is no session; it will be kept under another name when the session is written `[L3]`.
    InvalidWillBeKept(PathBuf),
    /// What the path held is here now `[L3]`.
    InvalidKept(PathBuf),
    /// The terminal's pointer could not be written `[P3]`.
    PointerNotWritten(Error),
    /// The session file was moved by another program, and followed `[W6]`.
    Followed {
        /// Where it was.
        from: PathBuf,
        /// Where it is.
        to: PathBuf,
    },
}

impl std::fmt::Display for Notice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::MigrationPostponed(error) => write!(f, "the session's older format was not rewritten yet: {error}"),
            Self::InvalidWillBeKept(path) => {
                write!(f, "{}: no session; it will be kept beside the new session", path.display())
            }
            Self::InvalidKept(path) => write!(f, "what stood in the session's place is kept as {}", path.display()),
            Self::PointerNotWritten(error) => write!(f, "the terminal's pointer was not written: {error}"),
            Self::Followed { from, to } => write!(f, "the session moved from {} to {}", from.display(), to.display()),
        }
    }
}

impl SessionManager {
    /// The session for reading: entries, tree, labels, usage, defects.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The surroundings it was made with.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The session's file. Exists when [`is_on_disk`](Self::is_on_disk) says so; none in memory.
    pub fn file(&self) -> Option<&Path> {
        match self.state {
            State::InMemory => None,
            _ => Some(&self.file),
        }
    }

    /// Whether the session's file exists: only then is it worth telling a user how to resume.
    pub fn is_on_disk(&self) -> bool {
        matches!(self.state, State::OnDisk(_))
    }

    /// The session's id.
    pub fn id(&self) -> &SessionId {
        self.header().id()
    }

    /// The session's header.
    pub fn header(&self) -> &Header {
        // A manager is made around a header and never takes over a file without one.
        self.session.header().unwrap_or_else(|| unreachable!("a managed session has a header"))
    }

    /// The working directory: the header's, else that of whoever opened it.
    pub fn cwd(&self) -> Option<&Path> {
        self.cwd.as_deref()
    }

    /// What happened that did not make a call fail, oldest first. Taken: a second call gives only what is new.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Whether a rewrite goes ahead while a process that is not ours has the file open. Refusing is the default `[W6]`.
    pub fn set_foreign_writers(&mut self, foreign: ForeignWriters) {
        self.foreign = foreign;
    }

    /// The first write error since the last [`recover`](Self::recover), if any.
    pub fn error(&self) -> Option<&Error> {
        self.trouble.as_ref()
    }

    /// The leaf's id: what the next entry hangs on.
    pub fn leaf_id(&self) -> Option<&str> {
        self.session.leaf_id()
    }

    /// The context for a leaf `[C1–C5]`.
    pub fn context(&self, leaf: &Leaf) -> Result<Context> {
        self.session.context(leaf)
    }

    /// The label on an entry.
    pub fn label(&self, id: &str) -> Result<Option<String>> {
        self.session.label(id)
    }

    /// The session's name.
    pub fn name(&self) -> Result<Option<String>> {
        self.session.name()
    }

    /// Whether writing is possible at all.
    fn check_writable(&self) -> Result<()> {
        if matches!(self.state, State::Closed) {
            return Err(Error::new(ErrorKind::Closed, "the session was closed").at(&self.file));
        }
        writable(self.header(), &self.file)
    }

    /// Appends an entry below the leaf `[T1, W2, W3, W5]`: in memory at once, then to the disk.
    fn append(&mut self, draft: &Draft) -> Result<EntryId> {
        self.check_writable()?;
        if let Some(trouble) = self.trouble.clone() {
            let id = self.push(draft);
            return Err(trouble.on_entry(id));
        }
        if self.is_on_disk() {
            return self.append_to_disk(draft);
        }
        let id = self.push(draft);
        self.write_if_due().map_err(|error| self.keep(error).on_entry(id.clone()))?;
        Ok(id)
    }

    fn append_to_disk(&mut self, draft: &Draft) -> Result<EntryId> {
        let mut id = None;
        let written = self.on_disk(|manager, disk| {
            let id = id.insert(manager.push(draft)).clone();
            manager.write_unwritten(disk)?;
            Ok(id)
        });
        written.map_err(|error| {
            // Whatever failed, the entry is in memory and its place in the order is kept.
            let id = id.unwrap_or_else(|| self.push(draft));
            self.keep(error).on_entry(id)
        })
    }

    /// Adds an entry in memory, with an id that is not in the file.
    fn push(&mut self, draft: &Draft) -> EntryId {
        let id = self.new_id();
        let now = self.host.clock.now();
        let parent = self.session.leaf_id().map(str::to_owned);
        let line = draft.line(&id, parent.as_deref(), now);
        if let Some(message) = line.view().get("message") {
            self.has_assistant |= draft.kind == "message" && Message::new(message).role() == Role::Assistant;
        }
        let envelope =
            Envelope { kind: &draft.kind, id: &id, parent: parent.as_deref(), timestamp: Some(now), line: 0 };
        self.session.push(&envelope, line);
        EntryId::from(id)
    }

    fn new_id(&self) -> String {
        new_id(&self.host, &self.session)
    }

    /// Works on the file: lock, refresh, work, unlock `[W6]`. A migration that is owed comes first `[L4]`.
    fn on_disk<T>(&mut self, work: impl FnOnce(&mut Self, &mut Disk) -> Result<T>) -> Result<T> {
        let State::OnDisk(mut disk) = std::mem::replace(&mut self.state, State::Closed) else {
            return Err(Error::new(ErrorKind::Closed, "the session has no file yet"));
        };
        let done = disk.locked(|disk| {
            self.refresh(disk)?;
            if self.migration_owed {
                self.rewrite_migrated(disk)?;
            }
            work(self, disk)
        });
        self.state = State::OnDisk(disk);
        done
    }

    /// Takes over what others did to the file, following it where it went.
    fn refresh(&mut self, disk: &mut Disk) -> Result<()> {
        let from = disk.path().to_owned();
        let locator = locate::Locator::new(&self.host, &self.file, self.cwd.as_deref(), self.id().clone());
        let noticed = disk.refresh(&mut self.session, &|identity| locator.find(identity))?;
        if noticed == Noticed::Moved {
            disk.path().clone_into(&mut self.file);
            if let Some(dir) = self.file.parent() {
                self.dir = dir.to_owned();
            }
            self.notices.push(Notice::Followed { from, to: self.file.clone() });
            self.set_pointer();
        }
        Ok(())
    }

    /// Writes what is only in memory, in order, in one write.
    fn write_unwritten(&mut self, disk: &mut Disk) -> Result<()> {
        let unwritten = self.session.unwritten_entries();
        if unwritten.is_empty() {
            return Ok(());
        }
        let lines = lines_to_write(&self.session, &unwritten, &self.host.blobs())?;
        disk.append(&mut self.session, &lines)?;
        for entry in unwritten {
            self.session.loaded.log.mark_written(entry);
        }
        Ok(())
    }

    /// Keeps the first write error and says so once in the log `[W5]`. Waiting in vain for another process is no write error:
    /// the next operation tries again.
    fn keep(&mut self, error: Error) -> Error {
        if matches!(error.kind(), ErrorKind::Locked | ErrorKind::HeldElsewhere) {
            return error;
        }
        if self.trouble.is_none() {
            tracing::error!(file = %self.file.display(), %error, "the session could not be written; entries are kept in memory");
            self.trouble = Some(error.clone());
        }
        error
    }

    /// Points this terminal at the session `[P3]`. Best effort.
    fn set_pointer(&mut self) {
        let (Some(terminal), Some(cwd)) = (&self.host.terminal, &self.cwd) else { return };
        if matches!(self.state, State::InMemory) {
            return;
        }
        let pointers = Pointers::new(self.host.storage.as_ref(), self.host.agent.terminal_sessions());
        if let Err(error) = pointers.set(terminal, cwd, &self.file) {
            tracing::warn!(%error, "the terminal's pointer was not written");
            self.notices.push(Notice::PointerNotWritten(error));
        }
    }

    fn needs_cwd(&self) -> Result<PathBuf> {
        self.cwd.clone().ok_or_else(|| {
            let message = "the header names no working directory; use fork_from or move_to with one";
            Error::new(ErrorKind::InvalidInput, message).at(&self.file)
        })
    }

    /// Makes this manager work on another session.
    fn switch_to(&mut self, other: Self) {
        let notices = std::mem::take(&mut self.notices);
        *self = other;
        self.notices.splice(0..0, notices);
    }

    fn lock_path(&self) -> PathBuf {
        self.host.agent.session_lock(self.id())
    }

    /// Loads the file that was just written, keeping what is in memory, and takes charge of it.
    fn attach(&mut self) -> Result<()> {
        let written = Session::read_from(Arc::clone(&self.host.storage), &self.file)?;
        self.session.take_over(written);
        let disk = Disk::attach(Arc::clone(&self.host.storage), self.lock_path(), &self.session)?;
        self.state = State::OnDisk(Box::new(disk));
        Ok(())
    }
}

/// The lines of entries as they go to disk: those of a file as they are, those in memory cut and their images as blobs, which
/// are in place when this returns `[W8, W10]`.
fn lines_to_write(session: &Session, entries: &[Index], blobs: &BlobStore) -> Result<Vec<Vec<u8>>> {
    let mut payloads = session.payloads();
    let mut lines = Vec::with_capacity(entries.len());
    for &entry in entries {
        let line = payloads.line(entry)?;
        let in_memory = matches!(session.log().place(entry), Place::Memory(_));
        lines.push(if in_memory {
            persist(&JsonText::from_valid(&line), |image| blobs.put(image))?.as_str().as_bytes().to_vec()
        } else {
            line
        });
    }
    Ok(lines)
}

/// An entry id that the session does not hold yet `[F3]`.
fn new_id(host: &Host, session: &Session) -> String {
    loop {
        let id = format!("{:08x}", host.ids.entry_bits());
        if session.entry(&id).is_none() {
            return id;
        }
    }
}

/// Whether we know what to write into a session `[F9]`.
fn writable(header: &Header, file: &Path) -> Result<()> {
    if header.version().is_writable() {
        return Ok(());
    }
    let message =
        "the session is of a newer or unknown version and can only be read; fork it with the program that wrote it";
    Err(Error::new(ErrorKind::ReadOnly, message).at(file))
}

/// Whether a session holds an entry.
fn known(session: &Session, id: &str, file: &Path) -> Result<()> {
    if session.entry(id).is_some() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::UnknownEntry, "this session holds no such entry").on_entry(id.into()).at(file))
}

/// Where an entry's line stands in the file; none for an entry that is only in memory.
fn range_in_file(session: &Session, entry: Index) -> Option<std::ops::Range<u64>> {
    session.log().range(entry)
}

impl AsRef<Session> for SessionManager {
    fn as_ref(&self) -> &Session {
        &self.session
    }
}
