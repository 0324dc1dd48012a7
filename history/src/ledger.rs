//! What becomes of a submission: a row, a fold, a claim, or nothing `[H2, H2a, H4]`. One submission counts once, whoever
//! wrote it.
//!
//! Every submission is recorded in `watcher_submission`, with the row that stands for it. A row that somebody else wrote
//! can be *claimed* by at most one submission with a key; a row that we wrote and that somebody else then writes too is
//! taken away again. Nothing here starts or ends a transaction.

use rusqlite::{Connection, OptionalExtension as _, params, types::ToSqlOutput};
use sha2::{Digest as _, Sha256};

use crate::{
    fold::trim,
    guard::Guard,
    known::Rows,
    meta,
    schema::{Fts, Shape},
    slice::Slice,
    submission::{Outcome, Recorded, Submission},
};

/// Two records of one submission by two programs lie at most so far apart (seconds).
const WINDOW: i64 = 60;

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
    pub(crate) fn new(conn: &'a Connection, shape: &'a Shape, guard: &'a Guard, now: i64) -> Self {
        Self { conn, shape, guard, now }
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
        self.guarded(submission, |raw, prompt, at| {
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
    pub(crate) fn import(&self, submission: &Submission, uses: i64, rows: &mut Rows) -> rusqlite::Result<Outcome> {
        self.guarded(submission, |_, prompt, at| self.imported(prompt, at, submission, uses, rows))
    }

    fn guarded(
        &self,
        submission: &Submission,
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
        // A live prompt is new, whatever was deleted before.
        let repeats = submission.key.is_some() || submission.created_at.is_some();
        if repeats && (self.guard.is_forgotten(raw, at, submission) || self.guard.is_forgotten(prompt, at, submission))
        {
            return Ok(Outcome::new(Recorded::Forgotten, None));
        }
        let (recorded, row) = record(raw, prompt, at)?;
        let mut outcome = Outcome::new(recorded, Some(row));
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

    /// The row of a record with a key that this submission is: same text, near in time, same directory or none, and the same
    /// session where both name one.
    fn read_near(&self, prompt: &str, at: i64, submission: &Submission) -> rusqlite::Result<Option<i64>> {
        let sql = "SELECT row FROM watcher_submission WHERE at BETWEEN ?2 - ?5 AND ?2 + ?5 AND prompt_hash = ?1
                     AND key IS NOT NULL AND (cwd IS ?3 OR cwd IS NULL OR ?3 IS NULL)
                     AND (session IS ?4 OR session IS NULL OR ?4 IS NULL)
                   ORDER BY abs(at - ?2), id LIMIT 1";
        let hash = prompt_hash(prompt);
        self.conn
            .prepare_cached(sql)?
            .query_row(params![hash, at, submission.cwd, submission.session, WINDOW], |found| found.get(0))
            .optional()
    }

    /// The record without a key that this submission is, the nearest in time, with its row.
    fn told_near(&self, prompt: &str, at: i64, submission: &Submission) -> rusqlite::Result<Option<(i64, i64)>> {
        let sql = "SELECT id, row FROM watcher_submission WHERE at BETWEEN ?2 - ?4 AND ?2 + ?4 AND prompt_hash = ?1
                     AND key IS NULL AND origin <> 3 AND (cwd IS ?3 OR cwd IS NULL OR ?3 IS NULL)
                   ORDER BY session IS NOT ?5, abs(at - ?2), id LIMIT 1";
        let hash = prompt_hash(prompt);
        self.conn
            .prepare_cached(sql)?
            .query_row(params![hash, at, submission.cwd, WINDOW, submission.session], |found| {
                Ok((found.get(0)?, found.get(1)?))
            })
            .optional()
    }

    /// A row of somebody else's that no record stands for yet.
    fn unrecorded_row(&self, prompt: &str, at: i64, submission: &Submission) -> rusqlite::Result<Option<i64>> {
        let sql = "SELECT id FROM history h
                   WHERE created_at BETWEEN ?1 - ?4 AND ?1 + ?4 AND prompt = ?2
                     AND (cwd IS ?3 OR cwd IS NULL OR ?3 IS NULL)
                     AND NOT EXISTS (SELECT 1 FROM watcher_submission WHERE row = h.id AND origin <> 2)
                   ORDER BY abs(created_at - ?1), id LIMIT 1";
        self.conn
            .prepare_cached(sql)?
            .query_row(params![at, prompt, submission.cwd, WINDOW], |row| row.get(0))
            .optional()
    }

    /// A record for a submission that is the same as the one before it; the one that a live add made, if there is one.
    fn fold(&self, row: i64, prompt: &str, at: i64, submission: &Submission) -> rusqlite::Result<()> {
        match self.unkeyed(row, at, submission, "origin = 2")? {
            Some(id) => self.give_key(id, submission),
            None => self.note(row, prompt, at, submission, Origin::Folded, None),
        }
    }

    fn imported(
        &self,
        prompt: &str,
        at: i64,
        submission: &Submission,
        uses: i64,
        rows: &mut Rows,
    ) -> rusqlite::Result<(Recorded, i64)> {
        if let Some(row) = self.known(submission)? {
            return Ok((Recorded::Known, row));
        }
        if !self.shape.is_counted() {
            if let Some(row) = rows.find(prompt, at, submission.cwd.as_deref()) {
                return Ok((Recorded::Known, row));
            }
            let row = self.insert(prompt, at, submission, uses)?;
            rows.note(row, prompt, at, submission.cwd.as_deref());
            // The row itself tells time and directory; only what has no room in it needs a record.
            if submission.session.is_some() || submission.key.is_some() {
                self.note(row, prompt, at, submission, Origin::Imported, None)?;
            }
            return Ok((Recorded::Inserted, row));
        }
        let Some(found) = self.find(prompt)? else {
            let row = self.insert(prompt, at, submission, uses)?;
            self.note(row, prompt, at, submission, Origin::Imported, Some(uses))?;
            return Ok((Recorded::Inserted, row));
        };
        let known: bool = self
            .conn
            .prepare_cached("SELECT EXISTS(SELECT 1 FROM watcher_submission WHERE row = ? AND at = ? AND cwd IS ?)")?
            .query_row(params![found.row, at, submission.cwd], |row| row.get(0))?;
        if known || (found.created_at == at && found.cwd == submission.cwd) {
            return Ok((Recorded::Known, found.row));
        }
        self.count(prompt, at, submission, &found, uses)?;
        self.note(found.row, prompt, at, submission, Origin::Imported, Some(found.uses + uses))?;
        Ok((Recorded::Bumped, found.row))
    }

    /// Remembers which rows an import made: they take no part in folding `[H2]`.
    pub(crate) fn note_import(&self, first: i64, last: i64) -> rusqlite::Result<()> {
        let grown = self
            .conn
            .prepare_cached("UPDATE watcher_import SET last = ?2 WHERE last = ?1 - 1")?
            .execute([first, last])?;
        if grown == 0 {
            self.conn
                .prepare_cached("INSERT INTO watcher_import(first, last) VALUES (?, ?)")?
                .execute([first, last])?;
        }
        Ok(())
    }

    fn known(&self, submission: &Submission) -> rusqlite::Result<Option<i64>> {
        let Some(key) = &submission.key else { return Ok(None) };
        self.conn
            .prepare_cached("SELECT row FROM watcher_submission WHERE key = ?")?
            .query_row([key.as_bytes()], |row| row.get(0))
            .optional()
    }

    /// The latest live addition: the row with the highest id, where prompts are unique the latest time. Imported rows
    /// take no part `[H2]`.
    fn latest(&self) -> rusqlite::Result<Option<(i64, String)>> {
        if self.shape.is_counted() {
            // Of several in one second, the one that we saw submitted last.
            let sql = "SELECT id, CAST(prompt AS TEXT) FROM history h
                       WHERE created_at = (SELECT max(created_at) FROM history WHERE NOT EXISTS
                         (SELECT 1 FROM watcher_import WHERE first <= history.id AND last >= history.id))
                       ORDER BY (SELECT max(s.id) FROM watcher_submission s WHERE s.row = h.id) DESC, id DESC LIMIT 1";
            return self.conn.prepare_cached(sql)?.query_row([], |row| Ok((row.get(0)?, row.get(1)?))).optional();
        }
        let mut below = i64::MAX;
        loop {
            let found = self
                .conn
                .prepare_cached("SELECT id, CAST(prompt AS TEXT) FROM history WHERE id < ? ORDER BY id DESC LIMIT 1")?
                .query_row([below], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            let Some((row, prompt)) = found else { return Ok(None) };
            match self.imported_from(row)? {
                Some(first) => below = first,
                None => return Ok(Some((row, prompt))),
            }
        }
    }

    /// Where prompts are unique, a row tells when it was used last and not when before. A repetition is looked for among
    /// the records first, else it would claim a use that the owner counted for a later submission.
    fn repeated_use(&self, prompt: &str, at: i64) -> rusqlite::Result<Option<i64>> {
        if !self.shape.is_counted() {
            return Ok(None);
        }
        let Some((row, before, time)) = self.record_before(at)? else { return Ok(None) };
        if before != prompt {
            return Ok(None);
        }
        let between = self.row_before(at)?.is_some_and(|(_, _, created_at)| created_at > time);
        Ok((!between).then_some(row))
    }

    /// The live addition that came last up to `at`.
    fn before(&self, at: i64) -> rusqlite::Result<Option<(i64, String)>> {
        let row = self.row_before(at)?;
        let record = if self.shape.is_counted() { self.record_before(at)? } else { None };
        let later = match (row, record) {
            (Some(row), Some(record)) if row.2 > record.2 => Some(row),
            (row, record) => record.or(row),
        };
        Ok(later.map(|(id, prompt, _)| (id, prompt)))
    }

    fn record_before(&self, at: i64) -> rusqlite::Result<Option<(i64, String, i64)>> {
        let sql = "SELECT h.id, CAST(h.prompt AS TEXT), s.at FROM watcher_submission s JOIN history h ON h.id = s.row
                   WHERE s.at <= ? AND s.origin <> 3 ORDER BY s.at DESC, s.id DESC LIMIT 1";
        self.conn
            .prepare_cached(sql)?
            .query_row([at], |found| Ok((found.get(0)?, found.get(1)?, found.get(2)?)))
            .optional()
    }

    fn row_before(&self, at: i64) -> rusqlite::Result<Option<(i64, String, i64)>> {
        // Bounded, since the write lock is held: a thousand imported prompts in between end the search for a repetition.
        let sql = "SELECT id, CAST(prompt AS TEXT), created_at FROM history
                   WHERE created_at <= ? ORDER BY created_at DESC, id DESC LIMIT 1000";
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query([at])?;
        while let Some(row) = rows.next()? {
            let id = row.get(0)?;
            if self.imported_from(id)?.is_none() {
                return Ok(Some((id, row.get(1)?, row.get(2)?)));
            }
        }
        Ok(None)
    }

    /// The first row of the import that this row came with.
    fn imported_from(&self, row: i64) -> rusqlite::Result<Option<i64>> {
        let sql = "SELECT first, last FROM watcher_import WHERE first <= ? ORDER BY first DESC LIMIT 1";
        let range: Option<(i64, i64)> =
            self.conn.prepare_cached(sql)?.query_row([row], |found| Ok((found.get(0)?, found.get(1)?))).optional()?;
        Ok(range.filter(|(_, last)| *last >= row).map(|(first, _)| first))
    }

    /// Writes a row, or counts one up.
    fn write(&self, prompt: &str, at: i64, submission: &Submission) -> rusqlite::Result<(Recorded, i64)> {
        let found = if self.shape.is_counted() { self.find(prompt)? } else { None };
        let Some(found) = found else {
            let row = self.insert(prompt, at, submission, 1)?;
            self.note(row, prompt, at, submission, Origin::Ours, self.shape.is_counted().then_some(1))?;
            return Ok((Recorded::Inserted, row));
        };
        self.count(prompt, at, submission, &found, 1)?;
        self.note(found.row, prompt, at, submission, Origin::Ours, Some(found.uses + 1))?;
        Ok((Recorded::Bumped, found.row))
    }

    fn insert(&self, prompt: &str, at: i64, submission: &Submission, uses: i64) -> rusqlite::Result<i64> {
        if self.shape.is_counted() {
            self.conn
                .prepare_cached(
                    "INSERT INTO history(prompt, created_at, cwd, session_id, use_count) VALUES (?, ?, ?, ?, ?)",
                )?
                .execute(params![prompt, at, submission.cwd, submission.session, uses])?;
        } else {
            self.conn
                .prepare_cached("INSERT INTO history(prompt, created_at, cwd) VALUES (?, ?, ?)")?
                .execute(params![prompt, at, submission.cwd])?;
        }
        let row = self.conn.last_insert_rowid();
        self.index(row, prompt)?;
        Ok(row)
    }

    /// A row as it was in a database that broke, in a new one.
    pub(crate) fn restore(&self, row: i64, prompt: &str, at: i64, cwd: Option<&str>) -> rusqlite::Result<()> {
        self.conn
            .prepare_cached("INSERT INTO history(id, prompt, created_at, cwd) VALUES (?, ?, ?, ?)")?
            .execute(params![row, prompt, at, cwd])?;
        self.index(row, prompt)
    }

    /// Gives the index the words of a new row, where no trigger does.
    fn index(&self, row: i64, prompt: &str) -> rusqlite::Result<()> {
        if self.shape.fts == Fts::Words && !self.shape.triggers.insert {
            self.conn
                .prepare_cached("INSERT INTO history_fts(rowid, prompt) VALUES (?, ?)")?
                .execute(params![row, prompt])?;
        }
        Ok(())
    }

    /// The owner's rule for a prompt that is there: one more use, and the latest submission's time, directory and
    /// session win `[H4]`.
    fn count(&self, prompt: &str, at: i64, submission: &Submission, found: &Found, uses: i64) -> rusqlite::Result<()> {
        self.note_earlier(prompt, found)?;
        if at >= found.created_at {
            self.conn
                .prepare_cached(
                    "UPDATE history SET use_count = use_count + ?5, created_at = ?2, cwd = ?3, session_id = ?4
                     WHERE id = ?1",
                )?
                .execute(params![found.row, at, submission.cwd, submission.session, uses])?;
        } else {
            self.conn
                .prepare_cached("UPDATE history SET use_count = use_count + ?2 WHERE id = ?1")?
                .execute([found.row, uses])?;
        }
        Ok(())
    }

    fn find(&self, prompt: &str) -> rusqlite::Result<Option<Found>> {
        let sql = "SELECT id, created_at, cwd, session_id, use_count FROM history WHERE prompt = ?";
        let found = |row: &rusqlite::Row<'_>| {
            Ok(Found {
                row: row.get(0)?,
                created_at: row.get(1)?,
                cwd: row.get(2)?,
                session: row.get(3)?,
                uses: row.get(4)?,
            })
        };
        self.conn.prepare_cached(sql)?.query_row([prompt], found).optional()
    }

    /// Takes a row away, with its words.
    pub(crate) fn remove(&self, row: i64) -> rusqlite::Result<()> {
        if self.shape.fts == Fts::Words && !self.shape.triggers.delete {
            self.conn
                .prepare_cached(
                    "INSERT INTO history_fts(history_fts, rowid, prompt)
                     SELECT 'delete', id, prompt FROM history WHERE id = ?",
                )?
                .execute([row])?;
        }
        self.conn.prepare_cached("DELETE FROM history WHERE id = ?")?.execute([row])?;
        Ok(())
    }

    /// Whether this row still has this prompt.
    pub(crate) fn holds(&self, row: i64, prompt: &str) -> rusqlite::Result<bool> {
        let mut statement = self.conn.prepare_cached("SELECT prompt FROM history WHERE id = ?")?;
        let mut rows = statement.query([row])?;
        let Some(found) = rows.next()? else { return Ok(false) };
        Ok(matches!(found.get_ref(0)?.as_bytes_or_null(), Ok(Some(text)) if String::from_utf8_lossy(text) == prompt))
    }

    /// Drops the records of a row.
    pub(crate) fn forget(&self, row: i64) -> rusqlite::Result<()> {
        self.conn.prepare_cached("DELETE FROM watcher_submission WHERE row = ?")?.execute([row])?;
        Ok(())
    }

    fn note(
        &self,
        row: i64,
        prompt: &str,
        at: i64,
        submission: &Submission,
        origin: Origin,
        uses: Option<i64>,
    ) -> rusqlite::Result<()> {
        self.conn
            .prepare_cached(
                "INSERT INTO watcher_submission(row, prompt_hash, at, cwd, session, key, origin, uses)
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            )?
            .execute(params![
                row,
                prompt_hash(prompt),
                at,
                submission.cwd,
                submission.session,
                submission.key.as_ref().map(crate::EntryKey::as_bytes),
                origin as i64,
                uses
            ])?;
        Ok(())
    }

    /// Before a row forgets who used it last, that use becomes a record, so that scopes still find it.
    fn note_earlier(&self, prompt: &str, found: &Found) -> rusqlite::Result<()> {
        let recorded: bool = self
            .conn
            .prepare_cached("SELECT EXISTS(SELECT 1 FROM watcher_submission WHERE row = ? AND at = ? AND cwd IS ?)")?
            .query_row(params![found.row, found.created_at, found.cwd], |row| row.get(0))?;
        if recorded {
            return Ok(());
        }
        let earlier = Submission {
            prompt: String::new(),
            cwd: found.cwd.clone(),
            session: found.session.clone(),
            created_at: None,
            key: None,
            heard: false,
        };
        self.note(found.row, prompt, found.created_at, &earlier, Origin::Theirs, Some(found.uses))
    }

    /// A record without a key of the same row that this submission may be, the nearest in time.
    fn unkeyed(&self, row: i64, at: i64, submission: &Submission, which: &str) -> rusqlite::Result<Option<i64>> {
        let sql = format!(
            "SELECT id FROM watcher_submission WHERE row = ?1 AND key IS NULL AND {which}
             AND at BETWEEN ?2 - ?4 AND ?2 + ?4 AND (cwd IS ?3 OR cwd IS NULL OR ?3 IS NULL)
             ORDER BY abs(at - ?2), id LIMIT 1"
        );
        self.conn
            .prepare_cached(&sql)?
            .query_row(params![row, at, submission.cwd, WINDOW], |found| found.get(0))
            .optional()
    }

    fn give_key(&self, id: i64, submission: &Submission) -> rusqlite::Result<()> {
        let key = submission.key.as_ref().map(crate::EntryKey::as_bytes);
        self.conn
            .prepare_cached(
                "UPDATE watcher_submission SET key = ?2, session = ifnull(session, ?3), cwd = ifnull(cwd, ?4)
                 WHERE id = ?1",
            )?
            .execute(params![id, key, submission.session, submission.cwd])?;
        Ok(())
    }

    /// Claims a row that stands for this submission already: same prompt, near in time, same directory or none, not
    /// claimed by another key.
    fn claim_row(&self, prompt: &str, at: i64, submission: &Submission) -> rusqlite::Result<Option<i64>> {
        let sql = "SELECT id FROM history h
                   WHERE created_at BETWEEN ?1 - ?4 AND ?1 + ?4 AND prompt = ?2
                     AND (cwd IS ?3 OR cwd IS NULL OR ?3 IS NULL)
                     AND NOT EXISTS (SELECT 1 FROM watcher_submission
                                     WHERE row = h.id AND key IS NOT NULL AND origin <> 2)
                   ORDER BY abs(created_at - ?1), id LIMIT 1";
        let row: Option<i64> = self
            .conn
            .prepare_cached(sql)?
            .query_row(params![at, prompt, submission.cwd, WINDOW], |row| row.get(0))
            .optional()?;
        let Some(row) = row else { return Ok(None) };
        match self.unkeyed(row, at, submission, "origin <> 2")? {
            Some(id) => self.give_key(id, submission)?,
            None => self.note(row, prompt, at, submission, Origin::Theirs, None)?,
        }
        Ok(Some(row))
    }

    /// Claims one of the uses that somebody else has counted `[H4]`.
    fn claim_count(&self, prompt: &str, at: i64, submission: &Submission) -> rusqlite::Result<Option<i64>> {
        let Some(found) = self.find(prompt)? else { return Ok(None) };
        if let Some(id) = self.unkeyed(found.row, at, submission, "origin <> 2")? {
            self.give_key(id, submission)?;
            return Ok(Some(found.row));
        }
        let Some((row, uses)) = self.uncounted_use(prompt, at)? else { return Ok(None) };
        self.note(row, prompt, at, submission, Origin::Theirs, uses)?;
        Ok(Some(row))
    }

    /// The row of a prompt that somebody else has counted up without a record of ours, with its count `[H4]`.
    fn uncounted_use(&self, prompt: &str, at: i64) -> rusqlite::Result<Option<(i64, Option<i64>)>> {
        let Some(found) = self.find(prompt)? else { return Ok(None) };
        let ours: i64 = self
            .conn
            .prepare_cached("SELECT count(*) FROM watcher_submission WHERE row = ? AND origin <> 2")?
            .query_row([found.row], |row| row.get(0))?;
        let is_theirs = found.uses > ours && at <= found.created_at + WINDOW;
        Ok(is_theirs.then_some((found.row, Some(found.uses))))
    }

    /// What the owner wrote since the last time for submissions that we had written first: its row stays, ours goes.
    /// When there is too much for one slice, the answer is the row that it came to.
    pub(crate) fn yield_to_owner(&self, slice: &Slice) -> rusqlite::Result<Option<i64>> {
        if self.shape.is_counted() { self.yield_counts().map(|()| None) } else { self.yield_rows(slice) }
    }

    fn yield_rows(&self, slice: &Slice) -> rusqlite::Result<Option<i64>> {
        let any: bool = self
            .conn
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM watcher_submission WHERE origin = 0)")?
            .query_row([], |row| row.get(0))?;
        if !any {
            return Ok(None);
        }
        let seen = meta::get(self.conn, meta::SEEN)?.unwrap_or(i64::MAX);
        let sql = "SELECT id, prompt, created_at, cwd FROM history h WHERE id > ?
                   AND NOT EXISTS (SELECT 1 FROM watcher_submission WHERE row = h.id)
                   AND NOT EXISTS (SELECT 1 FROM watcher_import WHERE first <= h.id AND last >= h.id) ORDER BY id";
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query([seen])?;
        while let Some(row) = rows.next()? {
            let theirs: i64 = row.get(0)?;
            let prompt = String::from_utf8_lossy(row.get_ref(1)?.as_bytes_or_null()?.unwrap_or_default()).into_owned();
            let redacted = self.guard.redact(&prompt).map_or_else(|| prompt.clone(), |(redacted, _)| redacted);
            let double = "SELECT h.id, s.id FROM watcher_submission s CROSS JOIN history h ON h.id = s.row
                          WHERE s.origin = 0 AND s.prompt_hash IN (?1, ?2) AND s.at BETWEEN ?3 - ?6 AND ?3 + ?6
                            AND h.id <> ?4 AND (h.cwd IS ?5 OR h.cwd IS NULL OR ?5 IS NULL)
                          ORDER BY abs(s.at - ?3), h.id LIMIT 1";
            let found: Option<(i64, i64)> = self
                .conn
                .prepare_cached(double)?
                .query_row(
                    params![
                        prompt_hash(&prompt),
                        prompt_hash(&redacted),
                        ToSqlOutput::Borrowed(row.get_ref(2)?),
                        theirs,
                        ToSqlOutput::Borrowed(row.get_ref(3)?),
                        WINDOW
                    ],
                    |row| Ok((row.get(0)?, row.get(1)?)),
                )
                .optional()?;
            if let Some((ours, submission)) = found {
                self.remove(ours)?;
                self.conn
                    .prepare_cached("UPDATE watcher_submission SET row = ?1 WHERE row = ?2")?
                    .execute([theirs, ours])?;
                self.conn
                    .prepare_cached("UPDATE watcher_submission SET origin = 1 WHERE id = ?")?
                    .execute([submission])?;
            }
            if slice.is_over() {
                return Ok(Some(theirs));
            }
        }
        Ok(None)
    }

    fn yield_counts(&self) -> rusqlite::Result<()> {
        // The latest of our uses of each row knows the count that it left behind; what is above came later.
        let sql = "SELECT s.row, h.use_count - max(s.uses), h.use_count FROM watcher_submission s
                   JOIN history h ON h.id = s.row
                   WHERE s.at >= ?1 AND s.origin = 0 AND h.created_at BETWEEN s.at - ?2 AND s.at + ?2
                   GROUP BY s.row HAVING h.use_count > max(s.uses)";
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query([self.now - 2 * WINDOW, WINDOW])?;
        while let Some(row) = rows.next()? {
            let (id, above, uses): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let yielded = self
                .conn
                .prepare_cached(
                    "UPDATE watcher_submission SET origin = 1 WHERE id IN
                       (SELECT id FROM watcher_submission WHERE row = ?1 AND origin = 0 AND at >= ?2
                        ORDER BY id LIMIT ?3)",
                )?
                .execute([id, self.now - 2 * WINDOW, above])?;
            let yielded = i64::try_from(yielded).unwrap_or(0);
            self.conn
                .prepare_cached("UPDATE history SET use_count = use_count - ?2 WHERE id = ?1")?
                .execute([id, yielded])?;
            self.conn
                .prepare_cached("UPDATE watcher_submission SET uses = ?2 WHERE row = ?1 AND origin = 0")?
                .execute([id, uses - yielded])?;
        }
        Ok(())
    }
}

/// A number that two equal prompts share, to find a row again after the owner has built its table anew.
pub(crate) fn prompt_hash(prompt: &str) -> i64 {
    let digest = Sha256::digest(prompt.as_bytes());
    i64::from_le_bytes(digest[..8].try_into().unwrap_or_default())
}
