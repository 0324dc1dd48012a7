//! The one error type: what went wrong, with which file, and what to do about it. It never hides SQLite's own words.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of failure an [`Error`] is, for code that decides by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused: a missing directory, a permission, a failing disk.
    Io,
    /// Another process kept the database locked for longer than we wait. Nothing is wrong with it.
    Locked,
    /// SQLite says that the file is corrupt or not a database.
    Corrupt,
    /// Something needs the database for itself, and another process has it open or may have.
    InUse,
    /// The database can be read and not written.
    ReadOnly,
    /// No room on the disk.
    DiskFull,
    /// The `history` table has a form that we don't know; it is read and never altered.
    UnknownSchema,
    /// A redaction rule, directory pattern or imported line is not valid.
    Invalid,
    /// The caller's own statements in [`apply`](crate::HistoryStorage::apply) failed, for a reason of theirs; nothing was
    /// written.
    Rejected,
    /// The store was closed before it could do this.
    Closed,
    /// Any other failure that SQLite reports.
    Sqlite,
}

/// A failure of the prompt store. Cheap to clone: one failed transaction answers every prompt that was in it.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: ErrorKind,
    path: Option<PathBuf>,
    line: Option<u64>,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, path: &Path, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner { kind, path: Some(path.into()), line: None, message: message.into(), source: None }))
    }

    pub(crate) fn at_line(path: &Path, line: u64, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner {
            kind: ErrorKind::Invalid,
            path: Some(path.into()),
            line: Some(line),
            message: message.into(),
            source: None,
        }))
    }

    pub(crate) fn io(path: &Path, doing: &str, source: std::io::Error) -> Self {
        let kind = match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => ErrorKind::DiskFull,
            std::io::ErrorKind::ReadOnlyFilesystem => ErrorKind::ReadOnly,
            _ => ErrorKind::Io,
        };
        let message = format!("{doing}: {source}");
        Self(Arc::new(Inner { kind, path: Some(path.into()), line: None, message, source: Some(Box::new(source)) }))
    }

    #[allow(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
    pub(crate) fn sqlite(path: &Path, source: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode as Code;
        let (kind, advice) = match source.sqlite_error_code() {
            Some(Code::DatabaseBusy | Code::DatabaseLocked) => {
                (ErrorKind::Locked, "another process holds the write lock; try again when it is done")
            }
            Some(Code::DatabaseCorrupt | Code::NotADatabase) => {
                (ErrorKind::Corrupt, "once no process has it open, it can be moved aside and built anew")
            }
            Some(Code::ReadOnly) => (ErrorKind::ReadOnly, "make the file and its directory writable to add prompts"),
            Some(Code::DiskFull) => (ErrorKind::DiskFull, "free some space; what was not written can be added again"),
            Some(Code::CannotOpen | Code::SystemIoFailure | Code::PermissionDenied) => {
                (ErrorKind::Io, "check the file's and its directory's permissions and the disk")
            }
            _ => (ErrorKind::Sqlite, ""),
        };
        // SQLite's words are in the message; what stands behind them says the same once more, with a number.
        let message = if advice.is_empty() { source.to_string() } else { format!("{source}; {advice}") };
        Self(Arc::new(Inner { kind, path: Some(path.into()), line: None, message, source: None }))
    }

    /// The caller's part of a transaction failed. What the database itself could not do there (its file is corrupt, the disk
    /// is full) is no less that for having been asked by the caller.
    pub(crate) fn rejected(path: &Path, source: Box<dyn std::error::Error + Send + Sync>) -> Self {
        let source = match source.downcast::<rusqlite::Error>() {
            Ok(error) if is_the_database_s(&error) => return Self::sqlite(path, *error),
            Ok(error) => error,
            Err(source) => source,
        };
        let message = format!("the statements of the caller failed, nothing was written: {source}");
        Self(Arc::new(Inner {
            kind: ErrorKind::Rejected,
            path: Some(path.into()),
            line: None,
            message,
            source: Some(source),
        }))
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The file that it is about.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// The physical line (from 1) of a text file that it is about.
    pub fn line(&self) -> Option<u64> {
        self.0.line
    }
}

/// Whether an error says something of the database, and not of the statement.
fn is_the_database_s(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode as Code;
    matches!(
        error.sqlite_error_code(),
        Some(
            Code::DatabaseBusy
                | Code::DatabaseLocked
                | Code::DatabaseCorrupt
                | Code::NotADatabase
                | Code::ReadOnly
                | Code::DiskFull
                | Code::CannotOpen
                | Code::SystemIoFailure
                | Code::PermissionDenied
        )
    )
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
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error").field("kind", &self.0.kind).field("message", &self.to_string()).finish_non_exhaustive()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}
