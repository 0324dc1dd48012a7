//! Which record or row a submission is, or comes right after: questions only, nothing is written.

use rusqlite::{OptionalExtension as _, params, types::Value};

use super::{Ledger, WINDOW, prompt_hash};
use crate::{
    submission::{EntryKey, Submission},
    value,
};

impl Ledger<'_> {
    pub(super) fn known(&self, submission: &Submission) -> rusqlite::Result<Option<i64>> {
        let Some(key) = &submission.key else { return Ok(None) };
        if let Some((_, row)) = self.recorded_with(key)? {
            return Ok(Some(row));
        }
        let Some(formerly) = &submission.formerly else { return Ok(None) };
        let Some((of, row)) = self.recorded_with(formerly)? else { return Ok(None) };
        // Both stay: copies of the session have the one and the other.
        self.give_alias(&of, key)?;
        Ok(Some(row))
    }

    /// The record that has this key, or has it as another one: its own key, and its row.
    fn recorded_with(&self, key: &EntryKey) -> rusqlite::Result<Option<(EntryKey, i64)>> {
        let sql = "SELECT key, row FROM watcher_submission
                   WHERE key = ifnull((SELECT record FROM watcher_alias WHERE key = ?1), ?1)";
        self.conn
            .prepare_cached(sql)?
            .query_row([key.as_bytes()], |found| Ok((EntryKey(found.get(0)?), found.get(1)?)))
            .optional()
    }

    /// The row of a record with a key that this submission is: same text, near in time, same directory or none, and the same
    /// session where both name one.
    pub(super) fn read_near(&self, prompt: &str, at: i64, submission: &Submission) -> rusqlite::Result<Option<i64>> {
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
    pub(super) fn told_near(
        &self,
        prompt: &str,
        at: i64,
        submission: &Submission,
    ) -> rusqlite::Result<Option<(i64, i64)>> {
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
    pub(super) fn unrecorded_row(
        &self,
        prompt: &str,
        at: i64,
        submission: &Submission,
    ) -> rusqlite::Result<Option<i64>> {
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

    /// A record without a key of the same row and text that this submission may be, the nearest in time. By the text: a row
    /// into which a burst was folded has many records with keys, none of which is worth a look.
    pub(super) fn unkeyed(
        &self,
        row: i64,
        prompt: &str,
        at: i64,
        submission: &Submission,
        which: &str,
    ) -> rusqlite::Result<Option<i64>> {
        let sql = format!(
            "SELECT id FROM watcher_submission WHERE +row = ?1 AND prompt_hash = ?5 AND key IS NULL AND {which}
             AND at BETWEEN ?2 - ?4 AND ?2 + ?4 AND (cwd IS ?3 OR cwd IS NULL OR ?3 IS NULL)
             ORDER BY abs(at - ?2), id LIMIT 1"
        );
        self.conn
            .prepare_cached(&sql)?
            .query_row(params![row, at, submission.cwd, WINDOW, prompt_hash(prompt)], |found| found.get(0))
            .optional()
    }

    /// Where prompts are unique, a row tells when it was used last and not when before. A repetition is looked for among
    /// the records first, else it would claim a use that the owner counted for a later submission.
    pub(super) fn repeated_use(&self, prompt: &str, at: i64) -> rusqlite::Result<Option<i64>> {
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

    /// The latest live addition: the row with the highest id, where prompts are unique the latest time. Imported rows
    /// take no part `[H2]`.
    pub(super) fn latest(&self) -> rusqlite::Result<Option<(i64, String)>> {
        if self.shape.is_counted() {
            return self.before(i64::MAX);
        }
        let mut below = i64::MAX;
        loop {
            let found = self
                .conn
                .prepare_cached("SELECT id, prompt FROM history WHERE id < ? ORDER BY id DESC LIMIT 1")?
                .query_row([below], |row| Ok((row.get(0)?, value::text(row, 1)?)))
                .optional()?;
            let Some((row, prompt)) = found else { return Ok(None) };
            match self.imported_from(row)? {
                Some(first) => below = first,
                None => return Ok(Some((row, prompt))),
            }
        }
    }

    /// The live addition that came last up to `at`.
    pub(super) fn before(&self, at: i64) -> rusqlite::Result<Option<(i64, String)>> {
        let row = self.row_before(at)?;
        let record = if self.shape.is_counted() { self.record_before(at)? } else { None };
        let later = match (row, record) {
            (Some(row), Some(record)) if row.2 > record.2 => Some(row),
            (row, record) => record.or(row),
        };
        Ok(later.map(|(id, prompt, _)| (id, prompt)))
    }

    // Both are bounded, since the write lock is held: a thousand imported prompts in between end the search for a
    // repetition.

    fn record_before(&self, at: i64) -> rusqlite::Result<Option<(i64, String, i64)>> {
        let sql =
            "SELECT row, at, origin = 3 FROM watcher_submission WHERE at <= ? ORDER BY at DESC, id DESC LIMIT 1000";
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut records = statement.query([at])?;
        while let Some(record) = records.next()? {
            let (row, at, is_imported): (i64, i64, bool) = (record.get(0)?, record.get(1)?, record.get(2)?);
            if is_imported {
                continue;
            }
            let prompt = self
                .conn
                .prepare_cached("SELECT prompt FROM history WHERE id = ?")?
                .query_row([row], |found| value::text(found, 0))
                .optional()?;
            if let Some(prompt) = prompt {
                return Ok(Some((row, prompt, at)));
            }
        }
        Ok(None)
    }

    fn row_before(&self, at: i64) -> rusqlite::Result<Option<(i64, String, i64)>> {
        let latest = "SELECT max(created_at) FROM history WHERE created_at <= ?";
        let earlier = "SELECT max(created_at) FROM history WHERE created_at < ?";
        // One row at a time: the owner's index has those of one second in the other order, and a burst has thousands.
        let last =
            "SELECT id, prompt, created_at FROM history WHERE created_at = ? AND id < ? ORDER BY id DESC LIMIT 1";
        let time = |sql: &str, at: &Value| -> rusqlite::Result<Value> {
            self.conn.prepare_cached(sql)?.query_row([at], |row| row.get(0))
        };
        let mut last = self.conn.prepare_cached(last)?;
        let (mut second, mut below) = (time(latest, &at.into())?, i64::MAX);
        for _ in 0..1000 {
            if second == Value::Null {
                return Ok(None);
            }
            let found = last.query_row(params![second, below], |row| {
                Ok((row.get(0)?, value::text(row, 1)?, value::number(row, 2)?))
            });
            let Some((id, prompt, created_at)) = found.optional()? else {
                (second, below) = (time(earlier, &second)?, i64::MAX);
                continue;
            };
            if !self.is_from_import(id, created_at)? {
                return Ok(Some((id, prompt, created_at)));
            }
            below = id;
        }
        Ok(None)
    }

    /// Whether this row, and where prompts are unique its latest use, came with an import.
    fn is_from_import(&self, row: i64, time: i64) -> rusqlite::Result<bool> {
        if !self.shape.is_counted() {
            return Ok(self.imported_from(row)?.is_some());
        }
        let sql = "SELECT ifnull(min(origin = 3), 0) FROM watcher_submission WHERE row = ? AND at = ?";
        self.conn.prepare_cached(sql)?.query_row([row, time], |found| found.get(0))
    }

    /// The first row of the import that this row came with.
    fn imported_from(&self, row: i64) -> rusqlite::Result<Option<i64>> {
        let sql = "SELECT first, last FROM watcher_import WHERE first <= ? ORDER BY first DESC LIMIT 1";
        let range: Option<(i64, i64)> =
            self.conn.prepare_cached(sql)?.query_row([row], |found| Ok((found.get(0)?, found.get(1)?))).optional()?;
        Ok(range.filter(|(_, last)| *last >= row).map(|(first, _)| first))
    }

    /// The row of a prompt that somebody else has counted up without a record of ours, with its count `[H4]`.
    pub(super) fn uncounted_use(&self, prompt: &str, at: i64) -> rusqlite::Result<Option<(i64, Option<i64>)>> {
        let Some(found) = self.find(prompt)? else { return Ok(None) };
        let ours: i64 = self
            .conn
            .prepare_cached("SELECT count(*) FROM watcher_submission WHERE row = ? AND origin <> 2")?
            .query_row([found.row], |row| row.get(0))?;
        let is_theirs = found.uses > ours && at <= found.created_at.saturating_add(WINDOW);
        Ok(is_theirs.then_some((found.row, Some(found.uses))))
    }
}
