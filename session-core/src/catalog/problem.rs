//! What is wrong with a file that a listing left out `[R3]`. A problem of one file never fails the listing of the others.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// A file that is named like a session and is not listed.
#[derive(Clone, Debug)]
pub struct Problem {
    path: PathBuf,
    kind: ProblemKind,
    error: Option<Error>,
}

/// Why a file is not listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProblemKind {
    /// The file has no content.
    Empty,
    /// Nothing in it is valid: its first object is no session header, or there is none in its first 4 MiB `[L2]`.
    NoHeader,
    /// A directory, device or pipe.
    NotAFile,
    /// A symbolic link that leads nowhere or around in circles.
    DanglingLink,
    /// It could not be read.
    Unreadable,
}

impl ProblemKind {
    /// The kind's name as `--json` prints it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::NoHeader => "noHeader",
            Self::NotAFile => "notAFile",
            Self::DanglingLink => "danglingLink",
            Self::Unreadable => "unreadable",
        }
    }

    /// What it means and what to do, for a person.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Empty => "the file is empty; whoever made it may not have written yet",
            Self::NoHeader => "the file holds no session header; `repair` makes one from what is in it",
            Self::NotAFile => "named like a session, but not a regular file",
            Self::DanglingLink => "a link that leads to no file",
            Self::Unreadable => "the file cannot be read",
        }
    }
}

impl Problem {
    pub(super) fn new(kind: ProblemKind, path: &Path) -> Self {
        Self { path: path.into(), kind, error: None }
    }

    pub(super) fn unreadable(path: &Path, error: Error) -> Self {
        Self { path: path.into(), kind: ProblemKind::Unreadable, error: Some(error) }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is wrong.
    pub fn kind(&self) -> ProblemKind {
        self.kind
    }

    /// What the system said, when the file is [unreadable](ProblemKind::Unreadable).
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self::unreadable(&error.path().map(Path::to_path_buf).unwrap_or_default(), error)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.error {
            Some(error) => error.fmt(f),
            None => write!(f, "{}: {}", self.path.display(), self.kind.meaning()),
        }
    }
}
