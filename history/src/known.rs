//! What a history holds already, for an import. Asking the database for each prompt would mean looking at every row of the
//! same second, and a file of lines without times makes all its rows in one second.

use std::collections::{HashMap, HashSet};

use rusqlite::Connection;
use sha2::{Digest as _, Sha256};

use crate::{
    ledger::prompt_hash,
    schema::{Form, Shape},
};

/// The texts that there are, as hashes, wherever and whenever they were submitted.
pub(crate) type Texts = HashSet<i64>;

/// The rows that there are: which time, text and directory stand in which.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    rows: HashMap<u128, i64>,
    /// The rows up to this one are known.
    up_to: i64,
}

/// Reads both, outside the write lock. Where prompts are unique the database itself knows its rows best.
pub(crate) fn read(conn: &Connection, shape: &Shape) -> rusqlite::Result<(Texts, Rows)> {
    let (mut texts, mut rows) = (Texts::new(), Rows::default());
    if shape.form == Form::Plain {
        rows.walk(conn, |prompt| {
            texts.insert(prompt_hash(prompt));
        })?;
    } else if shape.is_readable() {
        let mut statement = conn.prepare("SELECT CAST(prompt AS TEXT) FROM history")?;
        let mut found = statement.query([])?;
        while let Some(row) = found.next()? {
            texts.insert(prompt_hash(row.get_ref(0)?.as_str().unwrap_or_default()));
        }
    }
    Ok((texts, rows))
}

impl Rows {
    /// Takes in what anybody has written since; inside the write transaction, so that nothing is missed.
    pub(crate) fn catch_up(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        self.walk(conn, |_| ())
    }

    /// The row of this submission.
    pub(crate) fn find(&self, prompt: &str, at: i64, cwd: Option<&str>) -> Option<i64> {
        self.rows.get(&fingerprint(prompt, at, cwd)).copied()
    }

    /// A row that was written just now, the highest.
    pub(crate) fn note(&mut self, row: i64, prompt: &str, at: i64, cwd: Option<&str>) {
        self.rows.entry(fingerprint(prompt, at, cwd)).or_insert(row);
        self.up_to = self.up_to.max(row);
    }

    fn walk(&mut self, conn: &Connection, mut each: impl FnMut(&str)) -> rusqlite::Result<()> {
        let mut statement = conn.prepare_cached(
            "SELECT id, CAST(prompt AS TEXT), created_at, CAST(cwd AS TEXT) FROM history WHERE id > ? ORDER BY id",
        )?;
        let mut found = statement.query([self.up_to])?;
        while let Some(row) = found.next()? {
            let prompt = row.get_ref(1)?.as_str().unwrap_or_default();
            each(prompt);
            // A time that is no number is none that an import could bring.
            if let Ok(at) = row.get(2) {
                self.note(row.get(0)?, prompt, at, row.get_ref(3)?.as_str_or_null().unwrap_or_default());
            }
        }
        Ok(())
    }
}

/// A number that only equal submissions share.
fn fingerprint(prompt: &str, at: i64, cwd: Option<&str>) -> u128 {
    let mut digest = Sha256::new();
    digest.update(at.to_le_bytes());
    digest.update([u8::from(cwd.is_some())]);
    digest.update(cwd.map_or(0, str::len).to_le_bytes());
    digest.update(cwd.unwrap_or_default());
    digest.update(prompt);
    u128::from_le_bytes(digest.finalize()[..16].try_into().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::{
        path::Path,
        sync::{
            Arc,
            atomic::{AtomicU64, Ordering},
        },
    };

    use globset::GlobSet;

    use super::*;
    use crate::{guard::Guard, ledger::Ledger, place, submission::Submission, tombstone::Tombstones};

    /// Lines without times are all of one second; each of them must not cost a look at all of them.
    #[test]
    fn a_row_of_an_import_costs_the_same_however_many_are_of_its_second() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.db");
        place::create_if_missing(&path).unwrap();
        let mut conn = Connection::open(&path).unwrap();
        let steps = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&steps);
        let count = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            false
        };
        conn.progress_handler(1, Some(count)).unwrap();
        let shape = Shape::read(&conn).unwrap();
        let guard =
            Guard { redaction: None, excluded: GlobSet::empty(), tombstones: Tombstones::of(Path::new("nowhere")) };
        let ledger = Ledger::new(&conn, &shape, &guard, 0);
        let mut rows = Rows::default();
        let mut import = |numbers: std::ops::Range<usize>| {
            let before = steps.load(Ordering::Relaxed);
            conn.execute_batch("BEGIN").unwrap();
            for number in numbers {
                ledger.import(&Submission::new(format!("line {number}")).at(7), 1, &mut rows).unwrap();
            }
            conn.execute_batch("COMMIT").unwrap();
            steps.load(Ordering::Relaxed) - before
        };
        import(0..100);
        let early = import(100..600);
        import(600..4_000);
        let late = import(4_000..4_500);
        assert!(early > 500 && late < early * 2, "{early} steps, then {late}");
    }

    #[test]
    fn rows_of_others_are_taken_in_and_tell_a_missing_directory_from_an_empty_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.db");
        place::create_if_missing(&path).unwrap();
        let conn = Connection::open(&path).unwrap();
        let (texts, mut rows) = read(&conn, &Shape::read(&conn).unwrap()).unwrap();
        assert!(texts.is_empty());
        conn.execute_batch("INSERT INTO history(prompt, created_at, cwd) VALUES ('a', 1, NULL), ('a', 1, '/p')")
            .unwrap();
        rows.catch_up(&conn).unwrap();
        assert_eq!((rows.find("a", 1, None), rows.find("a", 1, Some("/p"))), (Some(1), Some(2)));
        assert_eq!(
            (rows.find("a", 1, Some("")), rows.find("a", 2, None), rows.find("/pa", 1, None)),
            (None, None, None)
        );
    }
}
