//! Rows that a submission with a key may claim, by their text. Asking the database for each submission would mean looking at
//! every row of the minutes around it, and in a burst all rows are of these minutes.

use std::{
    cell::RefCell,
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use rusqlite::{Connection, Row};

use crate::{ledger::WINDOW, schema::Shape, value};

/// What is read at once reaches so far beyond what is asked for (seconds): submissions come in the order of their times.
const AHEAD: i64 = 3600;

/// The rows of some stretch of time, as the writer's connection last saw them. What is gone meanwhile may still be among
/// them: whoever claims one looks at it first.
#[derive(Debug, Default)]
pub(crate) struct Unclaimed(RefCell<Option<Stretch>>);

#[derive(Debug)]
struct Stretch {
    /// Of the schema, and of what other connections have written.
    versions: (i64, i64),
    from: i64,
    to: i64,
    /// The rows up to this one were looked at.
    up_to: i64,
    /// Time and row, by the hash of the text.
    rows: HashMap<u64, Vec<(i64, i64)>>,
}

impl Unclaimed {
    /// The rows that may have this text and are near in time, the nearest first.
    pub(crate) fn near(&self, conn: &Connection, shape: &Shape, prompt: &str, at: i64) -> rusqlite::Result<Rows> {
        let (from, to) = (at.saturating_sub(WINDOW), at.saturating_add(WINDOW));
        let data: i64 = conn.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        let versions = (shape.version, data);
        let mut stretch = self.0.borrow_mut();
        let known = stretch.take().filter(|known| known.versions == versions && known.from <= from && known.to >= to);
        let known = match known {
            Some(mut known) => {
                known.walk(conn)?;
                known
            }
            None => Stretch::read(conn, versions, from, to.saturating_add(AHEAD))?,
        };
        let rows = stretch.insert(known).rows.get(&hash(prompt)).map_or(&[][..], Vec::as_slice);
        let near = rows.iter().filter(|(time, _)| (from..=to).contains(time));
        Ok(Rows(near.map(|(time, row)| Reverse((time.abs_diff(at), *row))).collect()))
    }

    /// A row was claimed.
    pub(crate) fn remove(&self, prompt: &str, row: i64) {
        if let Some(rows) = self.0.borrow_mut().as_mut().and_then(|stretch| stretch.rows.get_mut(&hash(prompt))) {
            rows.retain(|(_, other)| *other != row);
        }
    }
}

/// Rows, the nearest first.
pub(crate) struct Rows(BinaryHeap<Reverse<(u64, i64)>>);

impl Iterator for Rows {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        self.0.pop().map(|Reverse((_, row))| row)
    }
}

impl Stretch {
    fn read(conn: &Connection, versions: (i64, i64), from: i64, to: i64) -> rusqlite::Result<Self> {
        let up_to =
            conn.prepare_cached("SELECT ifnull(max(id), 0) FROM history")?.query_row([], |row| row.get::<_, i64>(0))?;
        let mut stretch = Self { versions, from, to, up_to, rows: HashMap::new() };
        let sql = "SELECT id, prompt, created_at FROM history h WHERE created_at BETWEEN ? AND ?
                     AND NOT EXISTS (SELECT 1 FROM watcher_submission
                                     WHERE row = h.id AND key IS NOT NULL AND origin <> 2)";
        let mut statement = conn.prepare_cached(sql)?;
        let mut rows = statement.query([from, to])?;
        while let Some(row) = rows.next()? {
            stretch.add(row)?;
        }
        Ok(stretch)
    }

    /// Takes in what this connection has written since.
    fn walk(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        let sql = "SELECT id, prompt, created_at FROM history WHERE id > ? ORDER BY id";
        let mut statement = conn.prepare_cached(sql)?;
        let mut rows = statement.query([self.up_to])?;
        while let Some(row) = rows.next()? {
            self.up_to = row.get(0)?;
            let is_claimed = "SELECT EXISTS (SELECT 1 FROM watcher_submission
                                             WHERE row = ? AND key IS NOT NULL AND origin <> 2)";
            let is_claimed = conn.prepare_cached(is_claimed)?.query_row([self.up_to], |row| row.get::<_, bool>(0))?;
            if !is_claimed && (self.from..=self.to).contains(&value::number(row, 2)?) {
                self.add(row)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, row: &Row<'_>) -> rusqlite::Result<()> {
        let prompt = value::text(row, 1)?;
        self.rows.entry(hash(&prompt)).or_default().push((value::number(row, 2)?, row.get(0)?));
        Ok(())
    }
}

fn hash(prompt: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    prompt.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        guard::Guard,
        ledger::Ledger,
        schema,
        steps::Steps,
        submission::{EntryKey, Recorded, Submission},
    };

    const PLAIN: &str = "CREATE TABLE history(id INTEGER PRIMARY KEY AUTOINCREMENT, prompt TEXT NOT NULL,
        created_at INTEGER NOT NULL, cwd TEXT);
        CREATE INDEX idx_history_created_at ON history(created_at DESC);";
    const COUNTED: &str = "CREATE TABLE history(id INTEGER PRIMARY KEY AUTOINCREMENT, prompt TEXT NOT NULL UNIQUE,
        created_at INTEGER NOT NULL, cwd TEXT, session_id TEXT, use_count INTEGER NOT NULL DEFAULT 1);
        CREATE INDEX idx_history_created_at ON history(created_at DESC);";

    fn submission(prompt: String, number: usize) -> Submission {
        Submission::new(prompt).at(7).key(EntryKey::new(format!("s:{number}")))
    }

    /// A burst has all its prompts in one second: each of them must not cost a look at all of them.
    #[test]
    fn k47_a_submission_costs_the_same_however_many_are_of_its_second() {
        for (form, has_owner) in [(PLAIN, false), (PLAIN, true), (COUNTED, false), (COUNTED, true)] {
            let mut conn = Connection::open_in_memory().unwrap();
            conn.execute_batch(form).unwrap();
            schema::create_own(&conn).unwrap();
            if has_owner {
                // The owner has written every second one of them.
                for number in (0..5_000).step_by(2) {
                    conn.execute("INSERT INTO history(prompt, created_at) VALUES (?, 7)", [format!("prompt {number}")])
                        .unwrap();
                }
            }
            let steps = Steps::of(&mut conn);
            let shape = Shape::read(&conn).unwrap();
            let guard = Guard::of_nothing();
            let unclaimed = Unclaimed::default();
            let ledger = Ledger::new(&conn, &shape, &guard, &unclaimed, 7);
            let record = |numbers: std::ops::Range<usize>| {
                steps.during(|| {
                    for number in numbers {
                        let outcome = ledger.record(&submission(format!("prompt {number}"), number)).unwrap();
                        let is_theirs = has_owner && number % 2 == 0;
                        assert_eq!(outcome.recorded(), if is_theirs { Recorded::Claimed } else { Recorded::Inserted });
                    }
                })
            };
            record(0..100);
            let early = record(100..600);
            record(600..4_000);
            let late = record(4_000..4_500);
            assert!(early > 500 && late < early * 2, "{early} steps, then {late}; {form} {has_owner}");
        }
    }

    /// Nor a look at all that were folded into the same row.
    #[test]
    fn k47_a_repetition_costs_the_same_however_many_were_before_it() {
        let mut conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(PLAIN).unwrap();
        schema::create_own(&conn).unwrap();
        let steps = Steps::of(&mut conn);
        let shape = Shape::read(&conn).unwrap();
        let guard = Guard::of_nothing();
        let unclaimed = Unclaimed::default();
        let ledger = Ledger::new(&conn, &shape, &guard, &unclaimed, 7);
        let record = |numbers: std::ops::Range<usize>| {
            steps.during(|| {
                for number in numbers {
                    let outcome = ledger.record(&submission("go on".to_owned(), number)).unwrap();
                    let expected = if number == 0 { Recorded::Inserted } else { Recorded::Folded };
                    assert_eq!(outcome.recorded(), expected);
                }
            })
        };
        record(0..100);
        let early = record(100..200);
        record(200..2_000);
        let late = record(2_000..2_100);
        assert!(early > 100 && late < early * 2, "{early} steps, then {late}");
    }

    #[test]
    fn rows_are_known_by_text_and_time_and_what_anybody_writes_later_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.db");
        let conn = Connection::open(&path).unwrap();
        conn.execute_batch(PLAIN).unwrap();
        schema::create_own(&conn).unwrap();
        let insert = |conn: &Connection, prompt: &str, at: i64| {
            conn.execute("INSERT INTO history(prompt, created_at) VALUES (?, ?)", (prompt, at)).unwrap();
        };
        for (prompt, at) in [("a", 100), ("b", 100), ("a", 90), ("a", 110), ("a", 39), ("a", 161), ("a", 4_000)] {
            insert(&conn, prompt, at);
        }
        let shape = Shape::read(&conn).unwrap();
        let unclaimed = Unclaimed::default();
        let near = |prompt: &str, at| unclaimed.near(&conn, &shape, prompt, at).unwrap().collect::<Vec<_>>();
        assert_eq!(near("a", 100), [1, 3, 4], "the nearest first, then the first; none beyond a minute");
        assert_eq!(near("a", 99), [1, 3, 4, 5]);
        assert_eq!(near("a", 4_000), [7], "beyond what was read at once");
        assert!(near("c", 100).is_empty());
        unclaimed.remove("a", 1);
        assert_eq!(near("a", 100), [3, 4]);
        // By this connection, by another, and one that has a key already.
        insert(&conn, "c", 100);
        assert_eq!(near("c", 100), [8]);
        let other = Connection::open(&path).unwrap();
        insert(&other, "c", 101);
        other.execute("UPDATE history SET prompt = 'd' WHERE id = 2", []).unwrap();
        assert_eq!((near("c", 100), near("d", 100), near("b", 100)), (vec![8, 9], vec![2], vec![]));
        insert(&conn, "c", 102);
        conn.execute_batch(
            "INSERT INTO watcher_submission(row, prompt_hash, at, key, origin) VALUES (10, 0, 102, x'00', 0)",
        )
        .unwrap();
        assert_eq!(near("c", 100), [8, 9]);
    }
}
