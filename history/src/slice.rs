//! Long work in short transactions `[H5]`: the write lock is held for less than a tenth of a second at a time, and there
//! is a gap between two slices in which the owner of the database gets its turn.

use std::time::{Duration, Instant};

/// A transaction that can be cut short is, after so much time. The rest of the tenth of a second is for the commit, in
/// which FTS5 writes out what it has gathered.
const SLICE: Duration = Duration::from_millis(50);
/// A waiting SQLite asks every 25 ms in the first eighth of a second: a gap of this length it does not miss.
const GAP: Duration = Duration::from_millis(30);
/// Later it asks every 100 ms: so every now and then comes a gap that it does not miss either, however long the slices
/// have become on a busy machine.
const LONG_GAP: Duration = Duration::from_millis(150);
const BETWEEN_LONG_GAPS: Duration = Duration::from_millis(300);
/// So long we trust that nobody else has come: well within the second that the owner waits.
const ALONE: Duration = Duration::from_millis(250);

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
}

/// The gaps between slices, as long as there is somebody to leave them to.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    alone_at: Option<Instant>,
    long_at: Option<Instant>,
}

impl Pace {
    /// Leaves the lock alone. SQLite's waiting is a poll every so often: without a gap, a waiting process could lose
    /// every time. Nobody waits for a file that we alone have open.
    pub(crate) fn rest(&mut self, slice: &Slice, alone: impl FnOnce() -> bool) {
        if self.alone_at.is_none_or(|at| at.elapsed() > ALONE) {
            self.alone_at = alone().then(Instant::now);
        }
        if self.alone_at.is_some() {
            return;
        }
        if self.long_at.is_some_and(|at| at.elapsed() < BETWEEN_LONG_GAPS) {
            std::thread::sleep(slice.0.elapsed().clamp(GAP, 3 * GAP));
        } else {
            std::thread::sleep(LONG_GAP);
            self.long_at = Some(Instant::now());
        }
    }
}
