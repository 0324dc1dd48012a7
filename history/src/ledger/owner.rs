//! Standing back: a row of ours goes when the owner writes the same submission, whichever came first `[H2a, H4]`.

use rusqlite::{OptionalExtension as _, params, types::ToSqlOutput};

use super::{Ledger, WINDOW, prompt_hash};
use crate::{meta, slice::Slice, value};

impl Ledger<'_> {
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
            let prompt = value::text(row, 1)?;
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
                   GROUP BY s.row HAVING typeof(h.use_count) = 'integer' AND h.use_count > max(s.uses)";
        let mut statement = self.conn.prepare_cached(sql)?;
        let since = self.now.saturating_sub(2 * WINDOW);
        let mut rows = statement.query([since, WINDOW])?;
        while let Some(row) = rows.next()? {
            let (id, above, uses): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let yielded = self
                .conn
                .prepare_cached(
                    "UPDATE watcher_submission SET origin = 1 WHERE id IN
                       (SELECT id FROM watcher_submission WHERE row = ?1 AND origin = 0 AND at >= ?2
                        ORDER BY id LIMIT ?3)",
                )?
                .execute([id, since, above])?;
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
