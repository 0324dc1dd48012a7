//! How a store is opened. Time is handed in; nothing is read from the environment.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use crate::{error::Result, storage::HistoryStorage};

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
        Self { access: Access::default(), patience: Duration::from_secs(60), clock: Arc::new(clock) }
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

    /// Opens the store.
    ///
    /// # Errors
    /// As [`HistoryStorage::open`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<HistoryStorage> {
        HistoryStorage::open_with(path.as_ref(), self.clone())
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
