//! How a store is opened. Time is handed in; nothing is read from the environment.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use crate::{error::Result, exclusions::Exclusions, redact::Redaction, storage::HistoryStorage};

/// Whether a store may write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// Reads and writes; a missing database is created.
    #[default]
    ReadWrite,
    /// Only reads; a missing database is an error and nothing is created.
    ReadOnly,
}

/// Settings of a store before it is opened.
///
/// ```
/// # fn main() -> Result<(), history::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// use history::OpenOptions;
/// let store = OpenOptions::new().clock(|| 1_700_000_000).open(dir.path().join("history.db"))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct OpenOptions {
    pub(crate) access: Access,
    pub(crate) patience: Duration,
    pub(crate) clock: Clock,
    pub(crate) cache: u32,
    pub(crate) redaction: Option<Redaction>,
    pub(crate) exclusions: Exclusions,
}

pub(crate) type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl OpenOptions {
    /// Reading and writing, the system's clock, a minute of patience with locks.
    pub fn new() -> Self {
        let clock = || match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            Err(before) => -i64::try_from(before.duration().as_secs()).unwrap_or(i64::MAX),
        };
        Self {
            access: Access::default(),
            patience: Duration::from_secs(60),
            clock: Arc::new(clock),
            // Looking into prompts passes over the whole table: one of a hundred thousand stays in memory between questions.
            cache: 16_000,
            redaction: None,
            exclusions: Exclusions::default(),
        }
    }

    /// Whether the store may write.
    #[must_use]
    pub fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// How long a statement waits for another process's lock before it fails with
    /// [`ErrorKind::Locked`](crate::ErrorKind::Locked).
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Where the time comes from, in seconds since 1970.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// How much of the database may stay in memory between questions, in kibibytes; 16,000 unless told. Less suits a process
    /// that lives long and asks seldom.
    #[must_use]
    pub fn cache(mut self, kibibytes: u32) -> Self {
        self.cache = kibibytes;
        self
    }

    /// Replaces secrets in prompts before anything is written; off by default.
    #[must_use]
    pub fn redact(mut self, redaction: Redaction) -> Self {
        self.redaction = Some(redaction);
        self
    }

    /// Never records what is submitted in a directory that one of these patterns matches, or below it. A `*` stands for
    /// slashes too; a pattern begins with `/`, or with `**/` for directories anywhere.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a pattern that is none, or that no directory could match.
    ///
    /// ```
    /// # fn main() -> Result<(), history::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use history::{OpenOptions, Recorded};
    /// let options = OpenOptions::new().never_record(["/home/u/private"])?;
    /// let store = options.open(dir.path().join("history.db"))?;
    /// for cwd in ["/home/u/private", "/home/u/private/letters"] {
    ///     assert!(options.never_records(cwd));
    ///     assert_eq!(store.add("dear diary", Some(cwd)).wait()?.recorded(), Recorded::Excluded);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn never_record<'a>(mut self, patterns: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        self.exclusions = Exclusions::new(patterns)?;
        Ok(self)
    }

    /// Whether nothing that is submitted in this directory would be recorded. For those who put prompts down somewhere else
    /// first.
    pub fn never_records(&self, cwd: &str) -> bool {
        self.exclusions.hold(cwd)
    }

    /// Opens the store.
    ///
    /// # Errors
    /// As [`HistoryStorage::open`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<HistoryStorage> {
        HistoryStorage::open_with(path.as_ref(), self)
    }
}

impl std::fmt::Debug for OpenOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenOptions")
            .field("access", &self.access)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}
