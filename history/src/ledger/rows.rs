//! What is written: rows of the history with their words, and our records of submissions.

use rusqlite::{OptionalExtension as _, params};

use super::{Found, Ledger, Origin, prompt_hash};
use crate::{
    schema::Fts,
    submission::{EntryKey, Recorded, Submission},
    value,
};

impl Ledger<'_> {
    /// Writes a row, or counts one up.
    pub(super) fn write(&self, prompt: &str, at: i64, submission: &Submission) -> rusqlite::Result<(Recorded, i64)> {
        let found = if self.shape.is_counted() { self.find(prompt)? } else { None };
        let Some(found) = found else {
            let row = self.insert(prompt, at, submission, 1)?;
            self.note(row, prompt, at, submission, Origin::Ours, self.shape.is_counted().then_some(1))?;
            return Ok((Recorded::Inserted, row));
        };
        let uses = self.count(prompt, at, submission, &found, 1)?;
        self.note(found.row, prompt, at, submission, Origin::Ours, Some(uses))?;
        Ok((Recorded::Bumped, found.row))
    }

    pub(super) fn insert(&self, prompt: &str, at: i64, submission: &Submission, uses: i64) -> rusqlite::Result<i64> {
        let written = if self.shape.is_counted() {
            self.conn
                .prepare_cached(
                    "INSERT INTO history(prompt, created_at, cwd, session_id, use_count) VALUES (?, ?, ?, ?, ?)",
                )?
                .execute(params![prompt, at, submission.cwd, submission.session, uses])?
        } else {
            self.conn
                .prepare_cached("INSERT INTO history(prompt, created_at, cwd) VALUES (?, ?, ?)")?
                .execute(params![prompt, at, submission.cwd])?
        };
        unless_kept_out(written)?;
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
    /// session win `[H4]`. Returns the new count.
    pub(super) fn count(
        &self,
        prompt: &str,
        at: i64,
        submission: &Submission,
        found: &Found,
        uses: i64,
    ) -> rusqlite::Result<i64> {
        self.note_earlier(prompt, found)?;
        let uses = found.uses.saturating_add(uses);
        let written = if at >= found.created_at {
            self.conn
                .prepare_cached(
                    "UPDATE history SET use_count = ?5, created_at = ?2, cwd = ?3, session_id = ?4 WHERE id = ?1",
                )?
                .execute(params![found.row, at, submission.cwd, submission.session, uses])?
        } else {
            self.conn.prepare_cached("UPDATE history SET use_count = ?2 WHERE id = ?1")?.execute([found.row, uses])?
        };
        unless_kept_out(written)?;
        Ok(uses)
    }

    pub(super) fn find(&self, prompt: &str) -> rusqlite::Result<Option<Found>> {
        let sql = "SELECT id, created_at, cwd, session_id, use_count FROM history WHERE prompt = ?";
        let found = |row: &rusqlite::Row<'_>| {
            Ok(Found {
                row: row.get(0)?,
                created_at: value::number(row, 1)?,
                cwd: value::optional_text(row, 2)?,
                session: value::optional_text(row, 3)?,
                uses: value::number(row, 4)?,
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

    /// A record for a submission that is the same as the one before it; the one that a live add made, if there is one.
    pub(super) fn fold(&self, row: i64, prompt: &str, at: i64, submission: &Submission) -> rusqlite::Result<()> {
        match self.unkeyed(row, prompt, at, submission, "origin = 2")? {
            Some(id) => self.give_key(id, submission),
            None => self.note(row, prompt, at, submission, Origin::Folded, None),
        }
    }

    /// Claims a row that stands for this submission already: same prompt, near in time, same directory or none, not
    /// claimed by another key.
    pub(super) fn claim_row(&self, prompt: &str, at: i64, submission: &Submission) -> rusqlite::Result<Option<i64>> {
        let sql = "SELECT EXISTS (SELECT 1 FROM history h
                   WHERE id = ?1 AND prompt = ?2 AND (cwd IS ?3 OR cwd IS NULL OR ?3 IS NULL)
                     AND NOT EXISTS (SELECT 1 FROM watcher_submission
                                     WHERE row = h.id AND key IS NOT NULL AND origin <> 2))";
        let mut is_free = self.conn.prepare_cached(sql)?;
        let mut free = None;
        for row in self.unclaimed.near(self.conn, self.shape, prompt, at)? {
            if is_free.query_row(params![row, prompt, submission.cwd], |row| row.get(0))? {
                free = Some(row);
                break;
            }
        }
        let Some(row) = free else { return Ok(None) };
        self.unclaimed.remove(prompt, row);
        match self.unkeyed(row, prompt, at, submission, "origin <> 2")? {
            Some(id) => self.give_key(id, submission)?,
            None => self.note(row, prompt, at, submission, Origin::Theirs, None)?,
        }
        Ok(Some(row))
    }

    /// Claims one of the uses that somebody else has counted `[H4]`.
    pub(super) fn claim_count(&self, prompt: &str, at: i64, submission: &Submission) -> rusqlite::Result<Option<i64>> {
        let Some(found) = self.find(prompt)? else { return Ok(None) };
        if let Some(id) = self.unkeyed(found.row, prompt, at, submission, "origin <> 2")? {
            self.give_key(id, submission)?;
            return Ok(Some(found.row));
        }
        let Some((row, uses)) = self.uncounted_use(prompt, at)? else { return Ok(None) };
        self.note(row, prompt, at, submission, Origin::Theirs, uses)?;
        Ok(Some(row))
    }

    pub(super) fn note(
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
            formerly: None,
            heard: false,
        };
        self.note(found.row, prompt, found.created_at, &earlier, Origin::Theirs, Some(found.uses))
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

    /// The record with the key `of` is known by this key, too.
    pub(super) fn give_alias(&self, of: &EntryKey, key: &EntryKey) -> rusqlite::Result<()> {
        self.conn
            .prepare_cached("INSERT OR REPLACE INTO watcher_alias(key, record) VALUES (?, ?)")?
            .execute([key.as_bytes(), of.as_bytes()])?;
        Ok(())
    }

    pub(super) fn give_key(&self, id: i64, submission: &Submission) -> rusqlite::Result<()> {
        let key = submission.key.as_ref().map(crate::EntryKey::as_bytes);
        self.conn
            .prepare_cached(
                "UPDATE watcher_submission SET key = ?2, session = ifnull(session, ?3), cwd = ifnull(cwd, ?4)
                 WHERE id = ?1",
            )?
            .execute(params![id, key, submission.session, submission.cwd])?;
        Ok(())
    }
}

/// A trigger of the owner's that says `RAISE(IGNORE)` lets a statement do nothing without an error.
fn unless_kept_out(written: usize) -> rusqlite::Result<()> {
    if written == 0 { Err(rusqlite::Error::StatementChangedRows(0)) } else { Ok(()) }
}
