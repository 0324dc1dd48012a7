//! Event-sourced state: computed from the entries of the path, with snapshots so that a long session stays cheap to fold.
//!
//! A snapshot is a named state of the extension: what the fold came to at its place in the tree. Since it lies on the path, it
//! is of this branch, and all before it is in it. Snapshots are a cache: one that can't be used (another version, another
//! shape, rewritten by others) is passed over, and the fold begins further back.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use session_core::{Entry, EntryReader, JsonText, Leaf, Session};

use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::state::State;
use crate::stored::{self, Stored};
use crate::value::{self, Numbers};
use crate::writer::SessionWriter;

/// How many entries are folded again before [`Fold::keep`] writes the next snapshot, unless the fold says otherwise.
pub const SNAPSHOT_EVERY: usize = 256;

/// What takes one entry into the state.
type StepFn<S> = dyn Fn(&mut S, &mut Step<'_, '_>) -> Result<(), BoxError> + Send + Sync;

/// A state that is computed from the entries of the path.
///
/// ```
/// use plugin_sdk::{Extension, Version, testing::FakeSession};
/// use session_core::EntryKind;
/// let messages = Extension::new("meter")?.fold("messages", Version(1), |count: &mut u64, step| {
///     *count += u64::from(step.entry().kind() == EntryKind::Message);
///     Ok(())
/// })?;
/// let mut session = FakeSession::new();
/// session.user("hello");
/// session.assistant("hi");
/// assert_eq!(messages.read(&session)?.state, 2);
/// # Ok::<(), plugin_sdk::Error>(())
/// ```
pub struct Fold<S> {
    snapshots: State<S>,
    every: usize,
    step: Box<StepFn<S>>,
}

/// What a fold came to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Folded<S> {
    /// The state.
    pub state: S,
    /// How many entries were folded: those after the latest snapshot on the path, or all.
    pub entries: usize,
}

/// One entry of the path, its JSON read when asked for.
#[derive(Debug)]
pub struct Step<'s, 'r> {
    entry: Entry<'s>,
    reader: &'r mut EntryReader<'s>,
}

impl<'s> Step<'s, '_> {
    /// The entry.
    pub fn entry(&self) -> Entry<'s> {
        self.entry
    }

    /// The whole entry as JSON; neighbours cost one read.
    ///
    /// # Errors
    /// As [`Entry::json`]. A step that passes it on makes the fold fail; one that can do without such an entry returns `Ok`.
    pub fn json(&mut self) -> session_core::Result<JsonText> {
        self.reader.json(self.entry)
    }
}

impl<S: Default + Serialize + DeserializeOwned> Fold<S> {
    pub(crate) fn new<F>(snapshots: State<S>, step: F) -> Self
    where
        F: Fn(&mut S, &mut Step<'_, '_>) -> Result<(), BoxError> + Send + Sync + 'static,
    {
        Self { snapshots, every: SNAPSHOT_EVERY, step: Box::new(step) }
    }

    /// The same fold, which keeps a snapshot once this many entries were folded since the last.
    #[must_use]
    pub fn snapshot_every(mut self, entries: usize) -> Self {
        self.every = entries;
        self
    }

    /// The `customType` of its snapshots.
    pub fn custom_type(&self) -> &str {
        self.snapshots.custom_type()
    }

    /// Folds the path to the leaf. Writes nothing.
    ///
    /// # Errors
    /// [`ErrorKind::StepFailed`] with the entry on which the step failed; [`ErrorKind::Session`].
    pub fn read<W: AsRef<Session> + ?Sized>(&self, session: &W) -> Result<Folded<S>> {
        self.fold(session.as_ref(), &Leaf::Current)
    }

    /// Folds the path to an entry, wherever the leaf is. Writes nothing.
    ///
    /// # Errors
    /// [`ErrorKind::UnknownEntry`], and as [`read`](Self::read).
    pub fn read_at<W: AsRef<Session> + ?Sized>(&self, session: &W, entry: &str) -> Result<Folded<S>> {
        let session = session.as_ref();
        self.fold(session, &stored::leaf_at(session, entry)?)
    }

    /// Folds the path to the leaf, and appends a snapshot when enough entries were folded since the last one.
    ///
    /// # Errors
    /// As [`read`](Self::read); and, when the snapshot can't be written, as [`State::save`].
    pub fn keep<W: SessionWriter + ?Sized>(&self, session: &mut W) -> Result<Folded<S>> {
        let folded = self.fold((*session).as_ref(), &Leaf::Current)?;
        if folded.entries > 0 && folded.entries >= self.every {
            // Also when it equals the last one: what counts is its place on the path.
            let data = value::to_json(&folded.state, Numbers::Json)?;
            self.snapshots.append(session, &data)?;
        }
        Ok(folded)
    }

    fn fold(&self, session: &Session, leaf: &Leaf) -> Result<Folded<S>> {
        let mut reader = session.reader();
        let mut state = S::default();
        let mut events = Vec::new();
        for entry in session.ancestors(leaf) {
            match stored::of_type(entry, self.custom_type(), &mut reader)? {
                None => events.push(entry),
                Some(stored) => {
                    if let Some(snapshot) = self.usable(&stored) {
                        state = snapshot;
                        break;
                    }
                }
            }
        }
        for &entry in events.iter().rev() {
            (self.step)(&mut state, &mut Step { entry, reader: &mut reader }).map_err(|error| {
                let message = format!("the fold {} failed here: {error}", self.custom_type());
                Error::new(ErrorKind::StepFailed, message).on_entry(entry.id().into()).caused_by(error)
            })?;
        }
        Ok(Folded { state, entries: events.len() })
    }

    /// What a snapshot came to; none when it is of another version or shape. Such a one is no event either.
    fn usable(&self, stored: &Stored<'_>) -> Option<S> {
        let is_current = stored.version().is_ok_and(|version| version == self.snapshots.version());
        if is_current { self.snapshots.decode(stored).ok().flatten() } else { None }
    }
}

impl<S> fmt::Debug for Fold<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fold").field("snapshots", &self.snapshots).field("every", &self.every).finish_non_exhaustive()
    }
}
