//! What comes back from a question. Plain values: nothing here touches the database.

/// The row of a prompt in the `history` table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(pub(crate) i64);

impl RowId {
    /// The number that SQLite knows it by.
    pub fn get(self) -> i64 {
        self.0
    }
}

impl From<i64> for RowId {
    fn from(id: i64) -> Self {
        Self(id)
    }
}

impl std::fmt::Display for RowId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// One prompt of the history and what is known of it. In a scope, time, directory and session are those of the latest
/// submission inside the scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub(crate) id: RowId,
    pub(crate) prompt: String,
    pub(crate) created_at: i64,
    pub(crate) cwd: Option<String>,
    pub(crate) session: Option<String>,
    pub(crate) use_count: u64,
}

impl Entry {
    /// Its row.
    pub fn id(&self) -> RowId {
        self.id
    }

    /// The text; bytes that are not UTF-8 in a foreign database read as U+FFFD.
    pub fn prompt(&self) -> &str {
        &self.prompt
    }

    /// When it was submitted, in seconds since 1970 (UTC).
    pub fn created_at(&self) -> i64 {
        self.created_at
    }

    /// The directory it was submitted in, when that is known.
    pub fn cwd(&self) -> Option<&str> {
        self.cwd.as_deref()
    }

    /// The session it was submitted to, when that is known.
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// How often it was submitted, as far as was counted; at least 1.
    pub fn use_count(&self) -> u64 {
        self.use_count
    }
}

/// The answer to a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub(crate) entries: Vec<Entry>,
    pub(crate) stopped_early: bool,
}

impl Page {
    /// The entries, in the order that was asked for.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Takes the entries out.
    pub fn into_entries(self) -> Vec<Entry> {
        self.entries
    }

    /// Whether older prompts were not looked through for words inside words: there may be more than the page shows.
    pub fn stopped_early(&self) -> bool {
        self.stopped_early
    }
}
