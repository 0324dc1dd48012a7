//! What a history holds already, for an import. Asking the database for each prompt would mean looking at every row of the
//! same second, and a file of lines without times makes all its rows in one second.

use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::{BuildHasher as _, Hash},
};

use rusqlite::Connection;

use crate::{database::Database, schema::Form, value};

/// So many rows are read at a time: beside a rollback journal, reading keeps others from writing.
const ROWS_AT_ONCE: usize = 5_000;

/// The rows that there are. Where prompts are unique the database itself knows them best, and this stays empty.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// By text, wherever and whenever it was submitted.
    texts: HashMap<u128, i64>,
    /// By time, text and directory.
    rows: HashMap<u128, Same>,
    fingerprints: Fingerprints,
    /// The rows up to this one are known.
    up_to: Option<i64>,
    /// The version of the schema in which they were read.
    version: Option<i64>,
}

/// Rows of the same time, text and directory.
#[derive(Debug)]
struct Same {
    row: i64,
    /// How many of them no submission of this import has been found to be.
    left: usize,
}

impl Known {
    /// Reads what was not read yet, or everything anew when the owner may have built its table anew. Outside the write
    /// lock, as far as it goes there.
    pub(crate) fn renew(&mut self, database: &mut Database) -> rusqlite::Result<()> {
        loop {
            let (snapshot, shape) = database.snapshot()?;
            if self.version != Some(shape.version) {
                *self = Self { version: Some(shape.version), ..Self::default() };
            }
            if shape.form != Form::Plain || self.walk(&snapshot, ROWS_AT_ONCE)? < ROWS_AT_ONCE {
                return Ok(());
            }
        }
    }

    /// Takes in what anybody has written since, inside the write transaction, so that nothing is missed. False when this
    /// is not the schema that it knows.
    pub(crate) fn catch_up(&mut self, conn: &Connection, version: i64) -> rusqlite::Result<bool> {
        let fits = self.version == Some(version);
        if fits {
            self.walk(conn, usize::MAX)?;
        }
        Ok(fits)
    }

    /// Any row of this text.
    pub(crate) fn find_text(&self, prompt: &str) -> Option<i64> {
        self.texts.get(&self.fingerprints.of(prompt)).copied()
    }

    /// A row that is this submission and that no earlier one of this import is: two of the same second are two.
    pub(crate) fn take(&mut self, prompt: &str, at: i64, cwd: Option<&str>) -> Option<i64> {
        let fingerprint = self.fingerprints.of((prompt, at, cwd));
        let same = self.rows.get_mut(&fingerprint).filter(|same| same.left > 0)?;
        same.left -= 1;
        Some(same.row)
    }

    /// A row that was written just now for a submission of this import, the highest.
    pub(crate) fn note(&mut self, row: i64, prompt: &str, at: i64, cwd: Option<&str>) {
        self.add(row, prompt, at, cwd, 0);
    }

    fn add(&mut self, row: i64, prompt: &str, at: i64, cwd: Option<&str>, left: usize) {
        self.texts.entry(self.fingerprints.of(prompt)).or_insert(row);
        self.rows.entry(self.fingerprints.of((prompt, at, cwd))).or_insert(Same { row, left: 0 }).left += left;
        self.up_to = self.up_to.max(Some(row));
    }

    fn walk(&mut self, conn: &Connection, at_most: usize) -> rusqlite::Result<usize> {
        let mut statement =
            conn.prepare_cached("SELECT id, prompt, created_at, cwd FROM history WHERE id > ? ORDER BY id")?;
        let mut found = statement.query([self.up_to.unwrap_or(i64::MIN)])?;
        for count in 0..at_most {
            let Some(row) = found.next()? else { return Ok(count) };
            let (prompt, cwd) = (value::text(row, 1)?, value::optional_text(row, 3)?);
            self.add(row.get(0)?, &prompt, value::number(row, 2)?, cwd.as_deref(), 1);
        }
        Ok(at_most)
    }
}

/// Numbers that only equal things share, as long as the process lives: two hashes whose keys nobody knows.
#[derive(Debug, Default)]
struct Fingerprints([RandomState; 2]);

impl Fingerprints {
    fn of(&self, what: impl Hash) -> u128 {
        let [high, low] = self.0.each_ref().map(|keys| keys.hash_one(&what));
        u128::from(high) << 64 | u128::from(low)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        database::Mode, guard::Guard, ledger::Ledger, place, schema::Shape, steps::Steps, submission::Submission,
        unclaimed::Unclaimed,
    };

    /// Lines without times are all of one second; each of them must not cost a look at all of them.
    #[test]
    fn a_row_of_an_import_costs_the_same_however_many_are_of_its_second() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.db");
        place::create_if_missing(&path).unwrap();
        let mut conn = Connection::open(&path).unwrap();
        let steps = Steps::of(&mut conn);
        let shape = Shape::read(&conn).unwrap();
        let guard = Guard::of_nothing();
        let unclaimed = Unclaimed::default();
        let ledger = Ledger::new(&conn, &shape, &guard, &unclaimed, 0);
        let mut known = Known { version: Some(shape.version), ..Known::default() };
        let mut import = |numbers: std::ops::Range<usize>| {
            steps.during(|| {
                conn.execute_batch("BEGIN").unwrap();
                for number in numbers {
                    ledger.import(&Submission::new(format!("line {number}")).at(7), 1, &mut known).unwrap();
                }
                conn.execute_batch("COMMIT").unwrap();
            })
        };
        import(0..100);
        let early = import(100..600);
        import(600..4_000);
        let late = import(4_000..4_500);
        assert!(early > 500 && late < early * 2, "{early} steps, then {late}");
    }

    #[test]
    fn rows_of_others_are_taken_in_and_each_is_taken_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.db");
        place::create_if_missing(&path).unwrap();
        let mut database = Database::open(&path, Mode::Write, Duration::ZERO).unwrap();
        let mut known = Known::default();
        known.renew(&mut database).unwrap();
        assert_eq!(known.find_text("a"), None);
        database
            .conn
            .execute_batch(
                "INSERT INTO history(prompt, created_at, cwd) VALUES ('a', 1, NULL), ('a', 1, '/p'), ('a', 1, NULL)",
            )
            .unwrap();
        let version = database.shape().unwrap().version;
        assert!(known.catch_up(&database.conn, version).unwrap());
        assert_eq!((known.find_text("a"), known.take("a", 1, Some("/p"))), (Some(1), Some(2)));
        assert_eq!(
            (known.take("a", 1, Some("")), known.take("a", 2, None), known.take("/pa", 1, None)),
            (None, None, None)
        );
        assert_eq!([(); 3].map(|()| known.take("a", 1, None)), [Some(1), Some(1), None]);
        assert!(!known.catch_up(&database.conn, version + 1).unwrap());
    }
}
