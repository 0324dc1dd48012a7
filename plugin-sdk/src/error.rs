//! The one error type of this crate.
//!
//! Whatever an extension meets, the data is in hand: an error about stored state carries the raw JSON, its version and its
//! entry. Errors of the session itself are passed on whole.

use std::fmt;
use std::sync::Arc;

use session_core::{EntryId, JsonText};

use crate::Version;

/// What every fallible call of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the functions of an extension's author may fail with: anything; `?` and `"text".into()` make one.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An error with its [`kind`](Error::kind) and what it is about.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    entry: Option<EntryId>,
    data: Option<JsonText>,
    version: Option<Version>,
    session: Option<session_core::Error>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// The kinds that an author may want to tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A name that can't be a custom type: empty, too long, control characters.
    InvalidName,
    /// An argument that can't be used: a message without content, an image that is none.
    InvalidInput,
    /// A value that JSON, or JavaScript where that was asked for, can't hold; or that would not come back as it was saved.
    NotRepresentable,
    /// Over a documented limit. Large parts belong into a blob ([`put_blob`](crate::put_blob)) or an artifact.
    TooLarge,
    /// State of a newer schema version than this extension knows; [`Error::data`] has it.
    NewerVersion,
    /// State of an older schema version that no registered upgrade starts from; [`Error::data`] has it.
    NoUpgrade,
    /// An upgrade function failed; [`Error::data`] has what it was given.
    UpgradeFailed,
    /// State that has not the expected shape; [`Error::data`] has it.
    Malformed,
    /// The step of a fold failed on an entry.
    StepFailed,
    /// An entry id that the session does not hold.
    UnknownEntry,
    /// One call set off more appends by listeners than [`LONGEST_CHAIN`](crate::LONGEST_CHAIN).
    ChainTooLong,
    /// The session could not be read or written; [`Error::session`] says why.
    Session,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            entry: None,
            data: None,
            version: None,
            session: None,
            source: None,
        }))
    }

    pub(crate) fn on_entry(mut self, entry: EntryId) -> Self {
        self.0.entry = Some(entry);
        self
    }

    pub(crate) fn with_data(mut self, data: &JsonText, version: Option<Version>) -> Self {
        self.0.data = Some(data.clone());
        self.0.version = version;
        self
    }

    /// What a function of the author's failed with.
    pub(crate) fn caused_by(mut self, source: BoxError) -> Self {
        self.0.source = Some(Arc::from(source));
        self
    }

    /// What kind of error this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The entry it is about. For a failed append: the entry that is in memory and not on disk `[W5]`.
    pub fn entry(&self) -> Option<&EntryId> {
        self.0.entry.as_ref()
    }

    /// The raw `data` of the state it is about, spelled as in the file.
    pub fn data(&self) -> Option<&JsonText> {
        self.0.data.as_ref()
    }

    /// The schema version of that data.
    pub fn version(&self) -> Option<Version> {
        self.0.version
    }

    /// The session's own error, for [`ErrorKind::Session`].
    pub fn session(&self) -> Option<&session_core::Error> {
        self.0.session.as_ref()
    }
}

impl From<session_core::Error> for Error {
    fn from(error: session_core::Error) -> Self {
        let kind = match error.kind() {
            session_core::ErrorKind::UnknownEntry => ErrorKind::UnknownEntry,
            _ => ErrorKind::Session,
        };
        let mut own = Self::new(kind, error.to_string());
        own.0.entry = error.entry().cloned();
        own.0.session = Some(error);
        own
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.0.entry, &self.0.session) {
            (Some(entry), None) => write!(f, "entry {entry}: {}", self.0.message),
            _ => f.write_str(&self.0.message),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({self})", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let session = self.0.session.as_ref().map(|error| error as &(dyn std::error::Error + 'static));
        session.or_else(|| self.0.source.as_deref().map(|source| source as _))
    }
}
