//! Long work in short transactions [H5]: the write lock is held for less than a tenth of a second at a time, and there
//! is a gap between two slices in which the owner of the database gets its turn.

use std::time::{Duration, Instant};

/// A transaction that can be cut short is, after so much time. The rest of the tenth of a second is for the commit, in
/// which FTS5 writes out what it has gathered.
const SLICE: Duration = Duration::from_millis(25);
/// A waiting SQLite asks every 25 ms in the first eighth of a second: a gap of this length it does not miss.
const GAP: Duration = Duration::from_millis(30);

/// The time that one transaction has taken so far.
pub(crate) struct Slice(Instant);

impl Slice {
    pub(crate) fn begin() -> Self {
        Self(Instant::now())
    }

    /// Whether it is time to commit.
    pub(crate) fn is_over(&self) -> bool {
        self.0.elapsed() > SLICE
    }

    /// Leaves the lock alone for as long as the slice took, within bounds. SQLite's waiting is a poll every so often:
    /// without a gap, a waiting process could lose every time.
    pub(crate) fn rest(self) {
        std::thread::sleep(self.0.elapsed().clamp(GAP, 3 * GAP));
    }
}
