//! How much work SQLite does, for tests of how it grows.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use rusqlite::Connection;

/// The steps of SQLite's machine that a connection has taken.
pub(crate) struct Steps(Arc<AtomicU64>);

impl Steps {
    pub(crate) fn of(conn: &mut Connection) -> Self {
        let steps = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&steps);
        let count = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            false
        };
        conn.progress_handler(1, Some(count)).unwrap();
        Self(steps)
    }

    /// Those of some work.
    pub(crate) fn during(&self, work: impl FnOnce()) -> u64 {
        let before = self.0.load(Ordering::Relaxed);
        work();
        self.0.load(Ordering::Relaxed) - before
    }
}
