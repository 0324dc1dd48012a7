//! One prompt handed in, and what became of it. It decides nothing: the rules are in `ledger`.

use crate::entry::RowId;

/// The identity of a submission, made by the caller: the same key is the same submission, wherever it is met again
/// (copied sessions, forks, a file read twice). Opaque bytes; a hash is a good choice.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EntryKey(pub(crate) Vec<u8>);

impl EntryKey {
    /// Wraps the caller's bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// The caller's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// One prompt handed to the store.
///
/// Without a [key](Self::key) it is *live*: typed just now, folded into the last one when it is the same text `[H2]`.
/// With a key it was *read from somewhere* that may be read again and that the owner of the database may have read or
/// written too: a known key is skipped, a row that the owner wrote for it is claimed instead of written twice.
/// [Heard of](Self::heard), it was typed at a time that may be past, and whoever reads sessions may have been first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    pub(crate) prompt: String,
    pub(crate) cwd: Option<String>,
    pub(crate) session: Option<String>,
    pub(crate) created_at: Option<i64>,
    pub(crate) key: Option<EntryKey>,
    pub(crate) formerly: Option<EntryKey>,
    pub(crate) heard: bool,
}

impl Submission {
    /// A prompt; white space around it is dropped when it is recorded, and an empty one is ignored `[H2]`.
    pub fn new(prompt: impl Into<String>) -> Self {
        Self {
            prompt: prompt.into(),
            cwd: None,
            session: None,
            created_at: None,
            key: None,
            formerly: None,
            heard: false,
        }
    }

    /// The working directory it was typed in.
    #[must_use]
    pub fn cwd(mut self, cwd: impl Into<String>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// The session it was typed to.
    #[must_use]
    pub fn session(mut self, session: impl Into<String>) -> Self {
        self.session = Some(session.into());
        self
    }

    /// When it was typed, in seconds since 1970 (UTC); the store's clock decides when this is not given.
    #[must_use]
    pub fn at(mut self, seconds: i64) -> Self {
        self.created_at = Some(seconds);
        self
    }

    /// What makes it the same submission when it is met again.
    #[must_use]
    pub fn key(mut self, key: EntryKey) -> Self {
        self.key = Some(key);
        self
    }

    /// The key that it had when it was read before, if it was: then it is known, from now on by its [key](Self::key) too.
    /// For entries whose file was rewritten with other ids.
    #[must_use]
    pub fn formerly(mut self, key: EntryKey) -> Self {
        self.formerly = Some(key);
        self
    }

    /// It was heard of from a program that saw it typed, maybe a while ago: what was read from a session or written by the
    /// owner within a minute of it, of the same text and directory, is this very submission, and so is what is read later.
    /// Has no meaning beside a [key](Self::key).
    #[must_use]
    pub fn heard(mut self) -> Self {
        self.heard = true;
        self
    }
}

/// What became of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Recorded {
    /// A new row.
    Inserted,
    /// The row that had this prompt already counts one more use (databases where prompts are unique) `[H4]`.
    Bumped,
    /// The same text as the submission before it: no new row, but it is in the scopes of its directory and session.
    Folded,
    /// A row that the database's owner wrote for this very submission.
    Claimed,
    /// The key was known: nothing was written.
    Known,
    /// Nothing but white space: nothing was written.
    Empty,
    /// It was deleted on purpose earlier: nothing was written `[H5b]`.
    Forgotten,
    /// Its directory is one that is never recorded: nothing was written.
    Excluded,
    /// A trigger of the database's owner keeps it out: nothing was written.
    Refused,
}

/// What became of a submission, and where it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub(crate) recorded: Recorded,
    pub(crate) row: Option<RowId>,
    pub(crate) redacted: Vec<String>,
}

impl Outcome {
    pub(crate) fn new(recorded: Recorded, row: Option<i64>) -> Self {
        Self { recorded, row: row.map(RowId), redacted: Vec::new() }
    }

    /// What was done.
    pub fn recorded(&self) -> Recorded {
        self.recorded
    }

    /// The row that stands for it; none when there is no such row.
    pub fn row(&self) -> Option<RowId> {
        self.row
    }

    /// The kinds of secrets that were replaced before anything was written, in the order of the text.
    pub fn redacted(&self) -> &[String] {
        &self.redacted
    }
}
