//! Lifecycle events, and the queue through which listeners get them.
//!
//! A listener runs after the append that it hears of has returned. What it appends itself is heard by all in turn, from the
//! queue and never from inside each other. Its error and its panic are kept for whoever asks; the append that set it off is
//! durable already, and its caller gets its result.

use std::any::Any;
use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use session_core::{CustomMessageEntry, EntryId, EntryKind, Host, JsonText, Session, SessionManager};

use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::writer::SessionWriter;

/// The most appends by listeners that one call sets off. The next one is refused: two listeners that answer each other would
/// go on for ever.
pub const LONGEST_CHAIN: usize = 100;

/// The most failures that are kept until they are taken; of more the latest.
const MOST_FAILURES: usize = 100;

/// How a session came to be the one at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Opening {
    /// It was made.
    New,
    /// It was there and is continued.
    Resumed,
    /// It was made from another: a fork, or a branch as a session of its own.
    Forked,
    /// Another file was taken up in place of the one before.
    Switched,
}

/// What happened to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A session is at work. Each listener hears this first.
    Opened(Opening),
    /// The leaf was moved, other than by an append: state may be another now.
    LeafMoved {
        /// Where it was; none before the first entry.
        from: Option<EntryId>,
        /// Where it is.
        to: Option<EntryId>,
    },
    /// An entry was appended. On a session that is on disk, it is with the kernel.
    EntryAppended {
        /// Its id.
        id: EntryId,
        /// Its type.
        kind: EntryKind,
    },
}

/// A listener that failed.
#[derive(Debug)]
#[non_exhaustive]
pub struct ListenerFailure {
    /// The name that the listener was registered with.
    pub listener: String,
    /// What it was told.
    pub event: Event,
    /// How it failed.
    pub failure: Failure,
}

/// How a listener failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failure {
    /// It returned an error. It stays registered.
    Error(BoxError),
    /// It panicked. What it knows may be half changed, so it is not called again.
    Panic(String),
}

impl fmt::Display for ListenerFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.failure {
            Failure::Error(error) => write!(f, "the listener {} failed: {error}", self.listener),
            Failure::Panic(message) => {
                write!(f, "the listener {} panicked and is not called again: {message}", self.listener)
            }
        }
    }
}

type Listener = Box<dyn FnMut(&Event, &mut Handle<'_>) -> Result<(), BoxError> + Send>;

/// The listeners, what they have not heard yet, and what became of them.
#[derive(Default)]
pub(crate) struct Listeners {
    registered: Vec<Registered>,
    waiting: VecDeque<Event>,
    failures: VecDeque<ListenerFailure>,
    pub(crate) ours: Ours,
}

struct Registered {
    name: String,
    listener: Listener,
    /// What it has not heard, before all else: how the session was opened.
    first: Option<Event>,
    panicked: bool,
}

/// The entries that this process appended.
#[derive(Debug, Default)]
pub(crate) struct Ours {
    appended: HashSet<EntryId>,
    /// In memory after a failed write, and not announced yet; in order.
    unwritten: Vec<EntryId>,
}

impl Listeners {
    pub(crate) fn register(&mut self, name: String, opened: Event, listener: Listener) {
        self.registered.push(Registered { name, listener, first: Some(opened), panicked: false });
    }

    pub(crate) fn tell(&mut self, event: Event) {
        self.waiting.push_back(event);
    }

    /// Notes what an append came to.
    pub(crate) fn note(&mut self, session: &Session, appended: &session_core::Result<EntryId>) {
        self.ours.note(session, appended, &mut self.waiting);
    }

    /// Announces what failed writes left in memory and a later one wrote.
    pub(crate) fn note_written(&mut self, session: &Session) {
        self.ours.note_written(session, &mut self.waiting);
    }

    pub(crate) fn take_failures(&mut self) -> Vec<ListenerFailure> {
        std::mem::take(&mut self.failures).into()
    }

    /// Runs the listeners until nothing is waiting.
    pub(crate) fn run(&mut self, manager: &mut SessionManager) {
        let mut appends = 0;
        for n in 0..self.registered.len() {
            if let Some(event) = self.registered[n].first.take() {
                self.call(n, &event, manager, &mut appends);
            }
        }
        while let Some(event) = self.waiting.pop_front() {
            for n in 0..self.registered.len() {
                self.call(n, &event, manager, &mut appends);
            }
        }
    }

    fn call(&mut self, n: usize, event: &Event, manager: &mut SessionManager, appends: &mut usize) {
        let registered = &mut self.registered[n];
        if registered.panicked {
            return;
        }
        let mut handle = Handle { manager, ours: &mut self.ours, waiting: &mut self.waiting, appends };
        // Nothing of ours is half changed when a listener panics: the handle's calls have returned, or panicked themselves.
        let failure = match catch_unwind(AssertUnwindSafe(|| (registered.listener)(event, &mut handle))) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => Failure::Error(error),
            Err(panic) => {
                registered.panicked = true;
                Failure::Panic(message_of(panic.as_ref()))
            }
        };
        let failure = ListenerFailure { listener: registered.name.clone(), event: event.clone(), failure };
        tracing::warn!(%failure, "what it was told of is stored all the same");
        if self.failures.len() == MOST_FAILURES {
            self.failures.pop_front();
        }
        self.failures.push_back(failure);
    }
}

impl fmt::Debug for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.registered.iter().map(|registered| registered.name.as_str()).collect();
        f.debug_struct("Listeners")
            .field("registered", &names)
            .field("failures", &self.failures)
            .finish_non_exhaustive()
    }
}

impl Ours {
    pub(crate) fn holds(&self, id: &EntryId) -> bool {
        self.appended.contains(id)
    }

    fn note(&mut self, session: &Session, appended: &session_core::Result<EntryId>, waiting: &mut VecDeque<Event>) {
        match appended {
            Ok(id) => {
                self.appended.insert(id.clone());
                self.note_written(session, waiting);
                waiting.push_back(event_of(session, id));
            }
            Err(error) => {
                if let Some(id) = error.entry().filter(|id| session.entry(id.as_str()).is_some_and(|e| !e.is_written()))
                {
                    self.appended.insert(id.clone());
                    self.unwritten.push(id.clone());
                }
            }
        }
    }

    fn note_written(&mut self, session: &Session, waiting: &mut VecDeque<Event>) {
        self.unwritten.retain(|id| {
            let is_written = session.entry(id.as_str()).is_some_and(session_core::Entry::is_written);
            if is_written {
                waiting.push_back(event_of(session, id));
            }
            !is_written
        });
    }
}

fn event_of(session: &Session, id: &EntryId) -> Event {
    let kind = session.entry(id.as_str()).map_or(EntryKind::Other, session_core::Entry::kind);
    Event::EntryAppended { id: id.clone(), kind }
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

/// The session in a listener's hand: to read, and to append to.
#[derive(Debug)]
pub struct Handle<'a> {
    manager: &'a mut SessionManager,
    ours: &'a mut Ours,
    waiting: &'a mut VecDeque<Event>,
    appends: &'a mut usize,
}

impl Handle<'_> {
    /// The session manager, for reading.
    pub fn manager(&self) -> &SessionManager {
        self.manager
    }

    fn append(&mut self, append: impl FnOnce(&mut SessionManager) -> session_core::Result<EntryId>) -> Result<EntryId> {
        if *self.appends == LONGEST_CHAIN {
            let message = format!(
                "listeners appended {LONGEST_CHAIN} entries because of one call: they may be answering each other"
            );
            return Err(Error::new(ErrorKind::ChainTooLong, message));
        }
        *self.appends += 1;
        let appended = append(self.manager);
        self.ours.note(self.manager.session(), &appended, self.waiting);
        Ok(appended?)
    }
}

impl AsRef<Session> for Handle<'_> {
    fn as_ref(&self) -> &Session {
        self.manager.session()
    }
}

impl SessionWriter for Handle<'_> {
    fn host(&self) -> &Host {
        self.manager.host()
    }

    fn append_custom(&mut self, custom_type: &str, data: Option<&JsonText>, version: Option<u32>) -> Result<EntryId> {
        self.append(|manager| manager.append_custom_entry(custom_type, data, version))
    }

    fn append_custom_message(&mut self, message: &CustomMessageEntry) -> Result<EntryId> {
        self.append(|manager| manager.append_custom_message_entry(message))
    }

    fn append_label(&mut self, target: &str, label: Option<&str>) -> Result<EntryId> {
        self.append(|manager| manager.append_label_change(target, label))
    }

    fn flush(&mut self) -> Result<()> {
        let flushed = self.manager.flush();
        self.ours.note_written(self.manager.session(), self.waiting);
        Ok(flushed?)
    }
}
