//! The one error type of this crate.
//!
//! An error says what went wrong, where (path, line, entry) and what to do next where there is something to do. It is cheap
//! to clone, because the first write error of a session is kept and returned again by every later write `[W5]`. Damage
//! inside a session file is no error but a [`Defect`](crate::Defect): loading never fails on content.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::id::EntryId;

/// What every fallible call of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error with its [`kind`](Error::kind), the place it concerns and the cause.
///
/// ```
/// use session_core::{Error, ErrorKind};
/// let error = Error::new(ErrorKind::UnknownEntry, "no entry has this id").at("/s/x.jsonl").on_line(7);
/// assert_eq!(error.kind(), ErrorKind::UnknownEntry);
/// assert_eq!(error.to_string(), "/s/x.jsonl:7: no entry has this id");
/// ```
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    path: Option<PathBuf>,
    line: Option<u64>,
    entry: Option<EntryId>,
    source: Option<Arc<io::Error>>,
}

/// The kinds that a caller may want to tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file or directory that was asked for does not exist.
    NotFound,
    /// Something is where a new file or directory was to be made.
    AlreadyExists,
    /// The operating system refused access.
    PermissionDenied,
    /// The path names a directory, a device or something else that cannot be a session file.
    NotAFile,
    /// No room on the device, or a quota is used up.
    StorageFull,
    /// Any other input or output error.
    Io,
    /// An argument that cannot be used: an empty name, text that is no JSON, a path that leaves its directory.
    InvalidInput,
    /// An entry id that this session does not hold.
    UnknownEntry,
    /// An argument that fits more than one session; the message lists them.
    Ambiguous,
    /// The session may be read but not written: its version is newer than ours, or is no number `[F9]`.
    ReadOnly,
    /// Another process of ours holds the lock of this session; the message names it `[W6]`.
    Locked,
    /// A process that is not ours has the file open for writing; the message names it `[W6]`.
    HeldElsewhere,
    /// Sessions are being written: what needs a quiet moment was not done, and can be tried again later.
    Busy,
    /// The session file was deleted while it was open; what is in memory can be written again `[W6]`.
    Deleted,
    /// The file no longer holds the entry where it stood when it was opened `[L9]`.
    Changed,
    /// A line or payload that was asked for is no JSON.
    NotJson,
    /// Content over a documented limit.
    TooLarge,
    /// The session or writer was closed.
    Closed,
    /// The storage or platform cannot do this.
    Unsupported,
    /// Content that does not match its checksum.
    Corrupt,
}

impl Error {
    /// An error of `kind`; `message` says what went wrong and what to do.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner { kind, message: message.into(), path: None, line: None, entry: None, source: None }))
    }

    /// An operating system error while doing `action` (an infinitive: "read the session file") on `path`.
    pub fn io(action: &str, path: &Path, source: io::Error) -> Self {
        let kind = match source.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => ErrorKind::PermissionDenied,
            io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory => ErrorKind::NotAFile,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::StorageFull,
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidFilename => ErrorKind::InvalidInput,
            io::ErrorKind::Unsupported => ErrorKind::Unsupported,
            _ => ErrorKind::Io,
        };
        let mut error = Self::new(kind, format!("cannot {action}: {source}")).at(path);
        error.inner().source = Some(Arc::new(source));
        error
    }

    /// The same error, naming the file or directory it concerns.
    #[must_use]
    pub fn at(mut self, path: impl Into<PathBuf>) -> Self {
        self.inner().path = Some(path.into());
        self
    }

    /// The same error, naming the physical line (from 1).
    #[must_use]
    pub fn on_line(mut self, line: u64) -> Self {
        self.inner().line = Some(line);
        self
    }

    /// The same error, naming the entry it concerns.
    #[must_use]
    pub fn on_entry(mut self, entry: EntryId) -> Self {
        self.inner().entry = Some(entry);
        self
    }

    /// What kind of error this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The file or directory it concerns.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// The physical line it concerns, from 1.
    pub fn line(&self) -> Option<u64> {
        self.0.line
    }

    /// The entry it concerns. For a failed append: the entry that is in memory but not on disk `[W5]`.
    pub fn entry(&self) -> Option<&EntryId> {
        self.0.entry.as_ref()
    }

    fn inner(&mut self) -> &mut Inner {
        Arc::make_mut(&mut self.0)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.0.path {
            write!(f, "{}:", path.display())?;
            if let Some(line) = self.0.line {
                write!(f, "{line}:")?;
            }
            f.write_str(" ")?;
        }
        if let Some(entry) = &self.0.entry {
            write!(f, "entry {entry}: ")?;
        }
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({self})", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
