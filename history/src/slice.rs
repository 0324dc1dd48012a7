//! Long work in short transactions `[H5]`: the write lock is held for less than a tenth of a second at a time, and there
//! is a gap between two slices in which the owner of the database gets its turn.

use std::time::{Duration, Instant};

/// A transaction that can be cut short is after so much time, at most and at least. What follows is the commit, in which
/// FTS5 writes out what it has gathered and the medium is waited for: how long that takes is learnt from the ones before.
/// Shorter ones would not help: every so many commits FTS5 merges what they wrote, however little that was.
const LONGEST: Duration = Duration::from_millis(50);
const SHORTEST: Duration = Duration::from_millis(20);
/// So long the write lock is meant to be held, commit and all: the rest of the tenth of a second is for what nobody foresees.
const MEANT: Duration = Duration::from_millis(60);
/// A waiting SQLite asks every 25 ms in the first eighth of a second: a gap of this length it does not miss.
const GAP: Duration = Duration::from_millis(30);
/// Later it asks every 100 ms: so every now and then comes a gap that it does not miss either, however long the slices
/// have become on a busy machine.
const LONG_GAP: Duration = Duration::from_millis(150);
const BETWEEN_LONG_GAPS: Duration = Duration::from_millis(300);
/// So long we trust that nobody else has come: well within the second that the owner waits.
const ALONE: Duration = Duration::from_millis(250);

/// The time that one transaction has the write lock.
pub(crate) struct Slice {
    begun: Instant,
    work: Duration,
}

impl Slice {
    /// Whether it is time to commit.
    pub(crate) fn is_over(&self) -> bool {
        self.begun.elapsed() > self.work
    }
}

/// How long slices may be, and the gaps between them for as long as there is somebody to leave them to.
#[derive(Debug)]
pub(crate) struct Pace {
    work: Duration,
    held: Duration,
    alone_at: Option<Instant>,
    long_at: Option<Instant>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { work: SHORTEST, held: Duration::ZERO, alone_at: None, long_at: None }
    }
}

impl Pace {
    /// A slice that begins now, as long as the commits of the ones before let it be. While nobody else was seen, they
    /// matter to nobody who waits.
    pub(crate) fn slice(&self) -> Slice {
        Slice { begun: Instant::now(), work: if self.alone_at.is_some() { LONGEST } else { self.work } }
    }

    /// Learns from a slice that is committed.
    pub(crate) fn learn(&mut self, slice: &Slice) {
        self.held(slice.begun.elapsed());
    }

    fn held(&mut self, held: Duration) {
        self.held = held;
        if held > MEANT {
            self.work = (self.work / 2).max(SHORTEST);
        } else if held < MEANT / 2 {
            self.work = (self.work + self.work / 4).min(LONGEST);
        }
    }

    /// Leaves the lock alone. SQLite's waiting is a poll every so often: without a gap, a waiting process could lose
    /// every time. Nobody waits for a file that we alone have open.
    pub(crate) fn rest(&mut self, alone: impl FnOnce() -> bool) {
        if self.alone_at.is_none_or(|at| at.elapsed() > ALONE) {
            self.alone_at = alone().then(Instant::now);
        }
        if self.alone_at.is_some() {
            return;
        }
        if self.long_at.is_some_and(|at| at.elapsed() < BETWEEN_LONG_GAPS) {
            std::thread::sleep(self.held.clamp(GAP, 3 * GAP));
        } else {
            std::thread::sleep(LONG_GAP);
            self.long_at = Some(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h5_slices_are_shorter_where_commits_take_long_and_recover() {
        let mut pace = Pace::default();
        for _ in 0..9 {
            pace.held(Duration::from_millis(90));
        }
        assert_eq!(pace.slice().work, SHORTEST);
        for _ in 0..99 {
            pace.held(Duration::from_millis(10));
        }
        assert_eq!(pace.slice().work, LONGEST);
        pace.held(Duration::from_millis(50));
        assert_eq!(pace.slice().work, LONGEST, "as it is meant to be");
    }
}
