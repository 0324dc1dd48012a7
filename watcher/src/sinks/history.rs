//! Prompts into the history: rows and reading positions in one transaction, oldest first.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use session_core::follow::Position;

use history::{HistoryStorage, Outcome, Recorded, Submission};

use crate::intake::Look;
use crate::ledger::{self, Change, Memory};

/// Positions without prompts in one transaction.
const POSITIONS_AT_ONCE: usize = 500;

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Prompts that became a row, or one more use of a row.
    pub(crate) added: u64,
    /// Prompts that the harness had written, or that were known.
    pub(crate) known: u64,
    /// Prompts that are not to be recorded: deleted on purpose, typed in an excluded directory, kept out by the owner.
    pub(crate) refused: u64,
    /// Of those that were added, the ones whose secrets were replaced.
    pub(crate) redacted: u64,
}

impl Tally {
    fn count(&mut self, outcomes: &[Outcome]) {
        for outcome in outcomes {
            match outcome.recorded() {
                Recorded::Inserted | Recorded::Bumped => {
                    self.added += 1;
                    self.redacted += u64::from(!outcome.redacted().is_empty());
                }
                Recorded::Empty | Recorded::Forgotten | Recorded::Excluded | Recorded::Refused => self.refused += 1,
                _ => self.known += 1,
            }
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.added += other.added;
        self.known += other.known;
        self.refused += other.refused;
        self.redacted += other.redacted;
    }
}

/// A prompt on its way, with the number of the file that it stands in.
struct Queued {
    seconds: Option<i64>,
    file: usize,
    submission: Submission,
}

/// Writes what a number of files brought, sorted by time over all of them. A file's position goes with the last of its
/// prompts: it is on disk only when they are.
///
/// `done` gets each file whose position is committed. When `stop` is raised it ends after the transaction at hand.
///
/// # Errors
/// What the history said. What earlier transactions wrote stays; the rest can be handed in again, nothing is doubled.
pub(crate) fn commit(
    store: &HistoryStorage,
    looks: Vec<(Arc<Path>, Look)>,
    stop: &AtomicBool,
    mut done: impl FnMut(Vec<Arc<Path>>, Tally),
) -> history::Result<()> {
    let mut left: Vec<usize> = Vec::with_capacity(looks.len());
    let mut files: Vec<Option<(Arc<Path>, Position)>> = Vec::with_capacity(looks.len());
    let mut queue = Vec::new();
    for (number, (path, look)) in looks.into_iter().enumerate() {
        left.push(look.prompts.len());
        let session = look.position.session();
        let id = session.map_or("", |session| session.id().as_str());
        let cwd = session.and_then(|session| session.cwd()).filter(|cwd| !cwd.is_empty());
        queue.extend(look.prompts.into_iter().map(|prompt| Queued {
            seconds: prompt.seconds(),
            file: number,
            submission: prompt.into_submission(id, cwd),
        }));
        files.push(Some((path, look.position)));
    }
    // The sort is stable: prompts of one second stay in the order of their file.
    queue.sort_by_key(|queued| queued.seconds);

    let mut idle: Vec<(Arc<Path>, Position)> =
        (0..files.len()).filter(|file| left[*file] == 0).filter_map(|file| files[file].take()).collect();
    let mut queue = queue.into_iter().peekable();
    let mut pace = Pace::default();
    while queue.peek().is_some() || !idle.is_empty() {
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut submissions = Vec::new();
        let mut finished: Vec<(Arc<Path>, Position)> = idle.drain(..idle.len().min(POSITIONS_AT_ONCE)).collect();
        for queued in queue.by_ref().take(pace.prompts) {
            left[queued.file] -= 1;
            if left[queued.file] == 0 {
                finished.extend(files[queued.file].take());
            }
            submissions.push(queued.submission);
        }
        let paths = finished.iter().map(|(path, _)| Arc::clone(path)).collect();
        let changes =
            finished.into_iter().map(|(path, position)| Change::Read(path, Box::new(position))).collect::<Vec<_>>();
        let begun = Instant::now();
        let tally = store
            .apply_redoable(submissions, move |transaction, outcomes| {
                ledger::record(transaction, &changes)?;
                let mut tally = Tally::default();
                tally.count(outcomes);
                Ok(tally)
            })
            .wait()?;
        done(paths, tally);
        pace.learn(begun.elapsed());
        if queue.peek().is_some() || !idle.is_empty() {
            store.give_way().wait()?;
        }
    }
    Ok(())
}

/// How much goes into one transaction: the harness drops a prompt that it can't write in time `[H5]`.
#[derive(Debug)]
struct Pace {
    prompts: usize,
}

impl Default for Pace {
    fn default() -> Self {
        Self { prompts: 100 }
    }
}

impl Pace {
    /// Few enough that the lock is held for well under a tenth of a second, on this machine and under this load.
    const FEWEST: usize = 25;
    const MOST: usize = 2_000;

    /// After a transaction that took so long.
    fn learn(&mut self, took: Duration) {
        if took < Duration::from_millis(30) {
            self.prompts = (self.prompts * 2).min(Self::MOST);
        } else if took > Duration::from_millis(60) {
            self.prompts = (self.prompts / 2).max(Self::FEWEST);
        }
    }
}

/// Reads the ledger.
pub(crate) fn load(store: &HistoryStorage) -> history::Result<Memory> {
    store.apply(Vec::new(), |transaction, _| Ok(ledger::load(transaction)?)).wait()
}

/// Writes changes of the ledger that belong to no prompt.
pub(crate) fn record(store: &HistoryStorage, changes: Vec<Change>) -> history::Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    store.apply_redoable(Vec::new(), move |transaction, _| Ok(ledger::record(transaction, &changes)?)).wait()
}
