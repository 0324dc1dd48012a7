//! What becomes of a submission: a row, a fold, a claim, or nothing `[H2, H2a, H4]`. One submission counts once, whoever
//! wrote it.
//!
//! Every submission is recorded in `watcher_submission`, with the row that stands for it. A row that somebody else wrote
//! can be *claimed* by at most one submission with a key; a row that we wrote and that somebody else then writes too is
//! taken away again. Nothing here starts or ends a transaction.

mod matching;
mod owner;
mod rows;

use rusqlite::{Connection, params};
use sha2::{Digest as _, Sha256};

use crate::{
    fold::trim,
    guard::Guard,
    known::Known,
    schema::Shape,
    submission::{Outcome, Recorded, Submission},
    unclaimed::Unclaimed,
};

/// Two records of one submission by two programs lie at most so far apart (seconds).
pub(crate) const WINDOW: i64 = 60;

/// What a record points at whose row is gone: SQLite counts from 1.
pub(crate) const NO_ROW: i64 = 0;

/// How a submission came to its row; what `watcher_submission.origin` holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// We wrote the row, or counted it up, and nobody else has yet.
    Ours = 0,
    /// Somebody else wrote the row, or counted it up.
    Theirs = 1,
    /// No row was written for it: it was the same as the one before.
    Folded = 2,
    /// It came with an import.
    Imported = 3,
}

/// The rules, applied inside one write transaction.
#[derive(Clone, Copy)]
pub(crate) struct Ledger<'a> {
    conn: &'a Connection,
    shape: &'a Shape,
    guard: &'a Guard,
    unclaimed: &'a Unclaimed,
    now: i64,
}

struct Found {
    row: i64,
    created_at: i64,
    cwd: Option<String>,
    session: Option<String>,
    uses: i64,
}

impl<'a> Ledger<'a> {
    pub(crate) fn new(
        conn: &'a Connection,
        shape: &'a Shape,
        guard: &'a Guard,
        unclaimed: &'a Unclaimed,
        now: i64,
    ) -> Self {
        Self { conn, shape, guard, unclaimed, now }
    }

    /// The same rules on the same transaction, with another idea of the database's form.
    pub(crate) fn with_shape<'b>(&self, shape: &'b Shape) -> Ledger<'b>
    where
        'a: 'b,
    {
        Ledger { shape, ..*self }
    }

    pub(crate) fn conn(&self) -> &'a Connection {
        self.conn
    }

    pub(crate) fn shape(&self) -> &'a Shape {
        self.shape
    }

    /// Records one submission.
    pub(crate) fn record(&self, submission: &Submission) -> rusqlite::Result<Outcome> {
        // A live prompt is new, whatever was deleted before.
        let repeats = submission.key.is_some() || submission.created_at.is_some();
        let told_at = repeats.then(|| submission.created_at.unwrap_or(self.now));
        self.guarded(submission, told_at, |raw, prompt, at| {
            if submission.key.is_none() && submission.heard {
                self.heard(raw, prompt, at, submission)
            } else if submission.key.is_none() {
                self.live(prompt, at, submission)
            } else if let Some(row) = self.known(submission)? {
                Ok((Recorded::Known, row))
            } else {
                self.keyed(raw, prompt, at, submission)
            }
        })
    }

    /// Records one submission of an import: it is there already, or it is new; it folds and claims nothing `[H2]`.
    pub(crate) fn import(&self, submission: &Submission, uses: i64, known: &mut Known) -> rusqlite::Result<Outcome> {
        // Without a time it may be as old as any.
        let told_at = Some(submission.created_at.unwrap_or(i64::MIN));
        self.guarded(submission, told_at, |_, prompt, at| self.imported(prompt, at, submission, uses, known))
    }

    fn guarded(
        &self,
        submission: &Submission,
        told_at: Option<i64>,
        record: impl FnOnce(&str, &str, i64) -> rusqlite::Result<(Recorded, i64)>,
    ) -> rusqlite::Result<Outcome> {
        let raw = trim(&submission.prompt);
        if raw.is_empty() {
            return Ok(Outcome::new(Recorded::Empty, None));
        }
        if self.guard.excludes(submission) {
            return Ok(Outcome::new(Recorded::Excluded, None));
        }
        let at = submission.created_at.unwrap_or(self.now);
        let redacted = self.guard.redact(raw);
        let prompt = redacted.as_ref().map_or(raw, |(prompt, _)| prompt);
        let is_forgotten = |text: &str, at: i64| self.guard.is_forgotten(text, at, submission);
        if told_at.is_some_and(|at| is_forgotten(raw, at) || is_forgotten(prompt, at)) {
            return Ok(Outcome::new(Recorded::Forgotten, None));
        }
        let (recorded, row) = match record(raw, prompt, at) {
            Err(rusqlite::Error::StatementChangedRows(0)) => return Ok(Outcome::new(Recorded::Refused, None)),
            other => other?,
        };
        let mut outcome = Outcome::new(recorded, Some(row).filter(|row| *row != NO_ROW));
        if let Some((_, kinds)) = redacted {
            tracing::info!(?kinds, "secrets in a prompt were replaced before it was recorded");
            outcome.redacted = kinds;
        }
        Ok(outcome)
    }

    /// A prompt typed just now: the same as the latest live addition, or new `[H2]`.
    fn live(&self, prompt: &str, at: i64, submission: &Submission) -> rusqlite::Result<(Recorded, i64)> {
        if let Some((row, latest)) = self.latest()?
            && latest == prompt
        {
            self.note(row, prompt, at, submission, Origin::Folded, None)?;
            return Ok((Recorded::Folded, row));
        }
        self.write(prompt, at, submission)
    }

    /// A prompt read from somewhere: claimed, folded in its place in time, or new. The owner may have written the text
    /// with the secrets that we replace.
    fn keyed(&self, raw: &str, prompt: &str, at: i64, submission: &Submission) -> rusqlite::Result<(Recorded, i64)> {
        // One that was typed live, or heard of: no use of the owner's, and no repetition of itself.
        if let Some((id, row)) = self.told_near(prompt, at, submission)? {
            self.give_key(id, submission)?;
            return Ok((Recorded::Claimed, row));
        }
        if let Some(row) = self.repeated_use(prompt, at)? {
            self.fold(row, prompt, at, submission)?;
            return Ok((Recorded::Folded, row));
        }
        let texts = [raw, prompt];
        for text in &texts[usize::from(raw == prompt)..] {
            let claimed = if self.shape.is_counted() {
                self.claim_count(text, at, submission)?
            } else {
                self.claim_row(text, at, submission)?
            };
            if let Some(row) = claimed {
                return Ok((Recorded::Claimed, row));
            }
        }
        if let Some((row, before)) = self.before(at)?
            && before == prompt
        {
            self.fold(row, prompt, at, submission)?;
            return Ok((Recorded::Folded, row));
        }
        self.write(prompt, at, submission)
    }

    /// A prompt that somebody saw typed: read from its session already, written by the owner, folded in its place in time, or
    /// new. What it becomes has no key, so that its session's entry can claim it later.
    fn heard(&self, raw: &str, prompt: &str, at: i64, submission: &Submission) -> rusqlite::Result<(Recorded, i64)> {
        if let Some(row) = self.read_near(prompt, at, submission)? {
            return Ok((Recorded::Known, row));
        }
        if let Some(row) = self.repeated_use(prompt, at)? {
            self.note(row, prompt, at, submission, Origin::Folded, None)?;
            return Ok((Recorded::Folded, row));
        }
        let texts = [raw, prompt];
        for text in &texts[usize::from(raw == prompt)..] {
            let theirs = if self.shape.is_counted() {
                self.uncounted_use(text, at)?
            } else {
                self.unrecorded_row(text, at, submission)?.map(|row| (row, None))
            };
            if let Some((row, uses)) = theirs {
                self.note(row, text, at, submission, Origin::Theirs, uses)?;
                return Ok((Recorded::Claimed, row));
            }
        }
        if let Some((row, before)) = self.before(at)?
            && before == prompt
        {
            self.note(row, prompt, at, submission, Origin::Folded, None)?;
            return Ok((Recorded::Folded, row));
        }
        self.write(prompt, at, submission)
    }

    fn imported(
        &self,
        prompt: &str,
        at: i64,
        submission: &Submission,
        uses: i64,
        known: &mut Known,
    ) -> rusqlite::Result<(Recorded, i64)> {
        if let Some(row) = self.known(submission)? {
            return Ok((Recorded::Known, row));
        }
        let has_time = submission.created_at.is_some();
        if !self.shape.is_counted() {
            let cwd = submission.cwd.as_deref();
            let there = if has_time { known.take(prompt, at, cwd) } else { known.find_text(prompt) };
            if let Some(row) = there {
                return Ok((Recorded::Known, row));
            }
            let row = self.insert(prompt, at, submission, uses)?;
            known.note(row, prompt, at, cwd);
            // The row itself tells time and directory; only what has no room in it needs a record.
            if submission.session.is_some() || submission.key.is_some() || uses > 1 {
                self.note(row, prompt, at, submission, Origin::Imported, Some(uses))?;
            }
            return Ok((Recorded::Inserted, row));
        }
        let Some(found) = self.find(prompt)? else {
            let row = self.insert(prompt, at, submission, uses)?;
            self.note(row, prompt, at, submission, Origin::Imported, Some(uses))?;
            return Ok((Recorded::Inserted, row));
        };
        let recorded: bool = self
            .conn
            .prepare_cached("SELECT EXISTS(SELECT 1 FROM watcher_submission WHERE row = ? AND at = ? AND cwd IS ?)")?
            .query_row(params![found.row, at, submission.cwd], |row| row.get(0))?;
        if recorded || !has_time || (found.created_at == at && found.cwd == submission.cwd) {
            return Ok((Recorded::Known, found.row));
        }
        let uses = self.count(prompt, at, submission, &found, uses)?;
        self.note(found.row, prompt, at, submission, Origin::Imported, Some(uses))?;
        Ok((Recorded::Bumped, found.row))
    }
}

/// A number that two equal prompts share, to find a row again after the owner has built its table anew.
pub(crate) fn prompt_hash(prompt: &str) -> i64 {
    let digest = Sha256::digest(prompt.as_bytes());
    i64::from_le_bytes(digest[..8].try_into().unwrap_or_default())
}
