//! Beside the owner, in both of its generations: [H1], [H2a], [H4], [H5a], K58, K59.

use std::path::{Path, PathBuf};

use history::{
    EntryKey, ErrorKind, HistoryStorage, Notice, OpenOptions, Recorded, Scope, SearchOptions, Submission, rusqlite,
};
use proptest::prelude::*;
use rusqlite::Connection;

const PLAIN: &str = "
CREATE TABLE history(id INTEGER PRIMARY KEY AUTOINCREMENT, prompt TEXT NOT NULL, created_at INTEGER NOT NULL DEFAULT (unixepoch()), cwd TEXT);
CREATE INDEX idx_history_created_at ON history(created_at DESC);
CREATE VIRTUAL TABLE history_fts USING fts5(prompt, content='history', content_rowid='id');
CREATE TRIGGER history_ai AFTER INSERT ON history BEGIN INSERT INTO history_fts(rowid, prompt) VALUES (new.id, new.prompt); END;
";

const COUNTED: &str = "
CREATE TABLE history(id INTEGER PRIMARY KEY AUTOINCREMENT, prompt TEXT NOT NULL UNIQUE, created_at INTEGER NOT NULL DEFAULT (unixepoch()), cwd TEXT, session_id TEXT, use_count INTEGER NOT NULL DEFAULT 1);
CREATE INDEX idx_history_created_at ON history(created_at DESC);
CREATE VIRTUAL TABLE history_fts USING fts5(prompt, content='history', content_rowid='id');
CREATE TRIGGER history_ai AFTER INSERT ON history BEGIN INSERT INTO history_fts(rowid, prompt) VALUES (new.id, new.prompt); END;
";

const NOW: i64 = 1_700_000_000;

/// The harness: its own connection and its own rule for adding.
struct Owner {
    conn: Connection,
    counted: bool,
    last: Option<String>,
}

impl Owner {
    fn new(path: &Path, schema: &str) -> Self {
        let conn = Connection::open(path).unwrap();
        conn.execute_batch(schema).unwrap();
        Self { conn, counted: schema == COUNTED, last: None }
    }

    fn add(&mut self, prompt: &str, at: i64) {
        if self.last.as_deref() == Some(prompt) {
            return;
        }
        self.last = Some(prompt.to_owned());
        let sql = if self.counted {
            "INSERT INTO history(prompt, created_at, cwd, session_id) VALUES (?1, ?2, '/p', 's')
             ON CONFLICT(prompt) DO UPDATE SET created_at = ?2, cwd = '/p', session_id = 's', use_count = use_count + 1"
        } else {
            "INSERT INTO history(prompt, created_at, cwd) VALUES (?1, ?2, '/p')"
        };
        self.conn.execute(sql, (prompt, at)).unwrap();
    }

    fn rows(&self) -> Vec<(String, i64)> {
        let uses = if self.counted { "use_count" } else { "1" };
        let mut statement =
            self.conn.prepare(&format!("SELECT prompt, {uses} FROM history ORDER BY created_at, id")).unwrap();
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
    }

    fn index_is_well(&self) {
        self.conn.execute("INSERT INTO history_fts(history_fts, rank) VALUES ('integrity-check', 1)", []).unwrap();
    }
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    (dir, path)
}

fn open(path: &Path) -> HistoryStorage {
    OpenOptions::new().clock(|| NOW + 20).open(path).unwrap()
}

fn entry(prompt: &str, at: i64, key: &str) -> Submission {
    Submission::new(prompt).cwd("/p").session("s").at(at).key(EntryKey::new(key))
}

fn read(store: &HistoryStorage, entries: &[(&str, i64, &str)]) -> Vec<Recorded> {
    let submissions = entries.iter().map(|(prompt, at, key)| entry(prompt, *at, key)).collect();
    store
        .apply(submissions, |_, outcomes| Ok(outcomes.iter().map(history::Outcome::recorded).collect()))
        .wait()
        .unwrap()
}

const THREE: [(&str, i64, &str); 3] = [("continue", NOW, "e1"), ("x", NOW + 4, "e2"), ("continue", NOW + 9, "e3")];

#[test]
fn k58_three_prompts_that_the_owner_writes_too_are_three_rows() {
    let orders: [(&str, &[usize], bool); 4] =
        [("before", &[3], true), ("after", &[0], true), ("between", &[1, 2, 3], true), ("never", &[0], false)];
    for (when, steps, writes) in orders {
        for schema in [PLAIN, COUNTED] {
            let (_dir, path) = place();
            let mut owner = Owner::new(&path, schema);
            let store = open(&path);
            let mut written = 0;
            for step in steps {
                while writes && written < *step {
                    owner.add(THREE[written].0, THREE[written].1);
                    written += 1;
                }
                let seen = if steps.len() > 1 { *step } else { 3 };
                read(&store, &THREE[..seen]);
            }
            while writes && written < 3 {
                owner.add(THREE[written].0, THREE[written].1);
                written += 1;
            }
            assert_eq!(read(&store, &THREE), [Recorded::Known; 3]);
            let expected: Vec<(String, i64)> = if schema == COUNTED {
                vec![("x".to_owned(), 1), ("continue".to_owned(), 2)]
            } else {
                THREE.iter().map(|(prompt, ..)| ((*prompt).to_owned(), 1)).collect()
            };
            assert_eq!(owner.rows(), expected, "{when}, counted: {}", schema == COUNTED);
            owner.index_is_well();
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// The owner writes its next prompt.
    Owner,
    /// We read the session file as far as it goes, and another time.
    Sync,
}

proptest! {
    #![proptest_config(crate::cases(48))]

    /// Whatever the order in which owner and we get to the same prompts, each counts once [H4, K58].
    #[test]
    fn property_h4_one_submission_counts_once(
        words in prop::collection::vec(0..3_u8, 1..12),
        steps in prop::collection::vec(prop_oneof![Just(Step::Owner), Just(Step::Sync)], 0..24),
        counted in any::<bool>(),
    ) {
        let (_dir, path) = place();
        let mut owner = Owner::new(&path, if counted { COUNTED } else { PLAIN });
        let store = open(&path);
        let prompts: Vec<(String, i64, String)> = words
            .iter()
            .enumerate()
            .map(|(n, word)| (format!("word{word}"), NOW + i64::try_from(n).unwrap(), format!("k{n}")))
            .collect();
        // The prompt is in the session file when the owner writes its row, or a moment later.
        let all: Vec<(&str, i64, &str)> = prompts.iter().map(|(p, at, key)| (p.as_str(), *at, key.as_str())).collect();
        let mut written = 0;
        for step in &steps {
            match step {
                Step::Owner if written < all.len() => {
                    owner.add(all[written].0, all[written].1);
                    written += 1;
                }
                Step::Owner => {}
                Step::Sync => drop(read(&store, &all[..(written + 1).min(all.len())])),
            }
        }
        while written < all.len() {
            owner.add(all[written].0, all[written].1);
            written += 1;
        }
        read(&store, &all);
        read(&store, &all);
        let mut alone = all.iter().map(|(prompt, ..)| *prompt).collect::<Vec<_>>();
        alone.dedup();
        let mut total: Vec<String> =
            owner.rows().into_iter().flat_map(|(prompt, uses)| vec![prompt; usize::try_from(uses).unwrap()]).collect();
        let mut expected: Vec<String> = alone.iter().map(|prompt| (*prompt).to_owned()).collect();
        total.sort();
        expected.sort();
        prop_assert_eq!(total, expected);
        owner.index_is_well();
    }
}

#[test]
fn h2a_the_owner_builds_its_table_anew_beside_our_tables() {
    let (_dir, path) = place();
    let mut owner = Owner::new(&path, PLAIN);
    owner.add("from before", NOW - 500);
    owner.add("to be dropped", NOW - 400);
    let store = open(&path);
    read(&store, &[("first", NOW, "a"), ("second", NOW + 1, "b"), ("first", NOW + 2, "c")]);
    store
        .apply(Vec::new(), |transaction, _| {
            transaction
                .execute_batch("CREATE TABLE watcher_files(position INTEGER); INSERT INTO watcher_files VALUES (77)")?;
            Ok(())
        })
        .wait()
        .unwrap();
    // What the 2026 harness does to a database of the form before: row numbers change on the way.
    owner
        .conn
        .execute_batch(
            "BEGIN IMMEDIATE;
             DROP TRIGGER history_ai; DROP TABLE history_fts; DROP INDEX idx_history_created_at;
             ALTER TABLE history RENAME TO history_legacy;
             CREATE TABLE history(id INTEGER PRIMARY KEY AUTOINCREMENT, prompt TEXT NOT NULL UNIQUE, created_at INTEGER NOT NULL DEFAULT (unixepoch()), cwd TEXT, session_id TEXT, use_count INTEGER NOT NULL DEFAULT 1);
             INSERT INTO history(prompt, created_at, cwd, use_count)
               SELECT prompt, max(created_at), cwd, count(*) FROM history_legacy WHERE prompt <> 'to be dropped' GROUP BY prompt ORDER BY 2 DESC;
             DROP TABLE history_legacy;
             CREATE INDEX idx_history_created_at ON history(created_at DESC);
             CREATE VIRTUAL TABLE history_fts USING fts5(prompt, content='history', content_rowid='id');
             CREATE TRIGGER history_ai AFTER INSERT ON history BEGIN INSERT INTO history_fts(rowid, prompt) VALUES (new.id, new.prompt); END;
             INSERT INTO history_fts(history_fts) VALUES ('rebuild');
             PRAGMA user_version = 1;
             COMMIT;",
        )
        .unwrap();
    let again = read(&store, &[("first", NOW, "a"), ("second", NOW + 1, "b"), ("first", NOW + 2, "c")]);
    assert_eq!(again, [Recorded::Known; 3], "nothing is recorded again");
    let disagreeing: i64 = owner
        .conn
        .query_row(
            "SELECT count(*) FROM watcher_submission s LEFT JOIN history h ON h.id = s.row
             WHERE h.prompt IS NOT (CASE s.key WHEN CAST('b' AS BLOB) THEN 'second' ELSE 'first' END)",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(disagreeing, 0, "records point at the right rows");
    let scoped = store.recent(10, &Scope::directory("/p").session("s")).unwrap();
    let prompts: Vec<_> = scoped.iter().map(history::Entry::prompt).collect();
    assert_eq!(prompts, ["first", "second"]);
    let position: i64 = owner.conn.query_row("SELECT position FROM watcher_files", [], |row| row.get(0)).unwrap();
    assert_eq!(position, 77);
    assert_eq!(read(&store, &[("third", NOW + 3, "d")]), [Recorded::Inserted]);
    owner.counted = true;
    owner.add("second", NOW + 9);
    assert_eq!(read(&store, &[("second", NOW + 9, "e")]), [Recorded::Claimed]);
    owner.index_is_well();
    assert_eq!(store.search("fir", &SearchOptions::new(5)).unwrap().entries().len(), 1);
}

#[test]
fn h5a_first_contact_makes_a_copy_and_detach_takes_everything_away() {
    for schema in [PLAIN, COUNTED] {
        let (dir, path) = place();
        let mut owner = Owner::new(&path, schema);
        owner.add("theirs", NOW);
        let names = |conn: &Connection| -> Vec<String> {
            let mut statement = conn.prepare("SELECT type || ' ' || name FROM sqlite_master ORDER BY 1").unwrap();
            statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        let before = names(&owner.conn);
        let store = open(&path);
        assert_eq!(store.search("theirs", &SearchOptions::new(5)).unwrap().entries().len(), 1);
        assert_eq!(names(&owner.conn), before, "reading changes nothing");
        assert_eq!(store.notices(), []);
        store.add("ours", None).wait().unwrap();
        let copy = dir.path().join("history.db.before-watcher-20231114T221340Z");
        assert_eq!(store.notices(), [Notice::Copied(copy.clone())]);
        let copied = Connection::open(&copy).unwrap();
        assert_eq!(names(&copied), before);
        let rows: i64 = copied.query_row("SELECT count(*) FROM history", [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 1);
        store
            .apply(Vec::new(), |transaction, _| Ok(transaction.execute_batch("CREATE TABLE watcher_more(a) STRICT")?))
            .wait()
            .unwrap_err();
        store
            .apply(Vec::new(), |transaction, _| Ok(transaction.execute_batch("CREATE TABLE watcher_more(a)")?))
            .wait()
            .unwrap();
        let deleted = store.delete(history::Selection::all().matching("^ours$").unwrap()).wait().unwrap();
        assert_eq!((deleted.rows(), deleted.copies()), (1, [copy.clone()].as_slice()));
        let plan = store.detachable().unwrap();
        let detached = store.detach().unwrap();
        assert_eq!(plan, detached, "what would go is what goes");
        assert_eq!(detached.forgotten(), Some(dir.path().join("history.db.forgotten").as_path()));
        assert!(!dir.path().join("history.db.forgotten").exists());
        assert!(detached.tables().contains(&"watcher_more".to_owned()), "{detached:?}");
        assert_eq!(detached.kept(), [copy]);
        assert_eq!(names(&owner.conn), before);
        assert_eq!(owner.rows(), [("theirs".to_owned(), 1)], "rows stay");
    }
}

#[test]
fn h5a_what_has_the_name_of_a_table_of_ours_and_is_none_is_an_error_and_one_copy() {
    let (dir, path) = place();
    let mut owner = Owner::new(&path, PLAIN);
    owner.add("theirs", NOW);
    owner.conn.execute_batch("CREATE VIEW watcher_import AS SELECT 1").unwrap();
    let store = open(&path);
    let error = store.add("ours", None).wait().unwrap_err();
    assert!(error.to_string().contains("no table has the name of one of ours"), "{error}");
    assert_eq!(owner.rows(), [("theirs".to_owned(), 1)]);
    let copies = std::fs::read_dir(dir.path())
        .unwrap()
        .filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().contains("before-watcher"));
    assert_eq!(copies.count(), 1);
    owner.conn.execute_batch("DROP VIEW watcher_import").unwrap();
    store.add("ours", None).wait().unwrap();
}

#[test]
fn h5a_whichever_table_of_ours_another_process_has_just_taken_away_the_next_add_arrives() {
    for table in ["watcher_meta", "watcher_submission", "watcher_alias", "watcher_import"] {
        let (_dir, path) = place();
        let owner = Owner::new(&path, PLAIN);
        let store = open(&path);
        store.import(history::Import::lines("lines", b"imported".as_slice()), |_| ()).unwrap();
        read(&store, &THREE);
        owner.conn.execute_batch(&format!("DROP TABLE {table}")).unwrap();
        let recorded = store.add("after it", None).wait().unwrap().recorded();
        assert_eq!(recorded, Recorded::Inserted, "without {table}");
        if table != "watcher_submission" {
            assert_eq!(read(&store, &THREE), [Recorded::Known; 3], "records outlive {table}");
        }
        assert_eq!(store.stats().unwrap().prompts, 5, "without {table}");
        assert!(store.check().unwrap().is_well());
    }
}

#[test]
fn h5a_an_emptied_history_is_not_filled_again() {
    let (_dir, path) = place();
    let owner = Owner::new(&path, PLAIN);
    let store = open(&path);
    read(&store, &THREE);
    owner.conn.execute_batch("DELETE FROM history; INSERT INTO history_fts(history_fts) VALUES ('rebuild')").unwrap();
    assert_eq!(read(&store, &THREE), [Recorded::Known; 3]);
    assert_eq!(owner.rows(), []);
    assert!(store.stats().unwrap().emptied, "whoever fills histories from old sessions can tell");
}

#[test]
fn h5a_a_history_that_was_emptied_before_we_came_is_told_from_a_new_one() {
    for schema in [PLAIN, COUNTED] {
        let (_dir, path) = place();
        let mut owner = Owner::new(&path, schema);
        assert!(!open(&path).stats().unwrap().emptied);
        owner.add("gone", NOW);
        owner
            .conn
            .execute_batch("DELETE FROM history; INSERT INTO history_fts(history_fts) VALUES ('rebuild')")
            .unwrap();
        assert!(open(&path).stats().unwrap().emptied);
    }
}

#[test]
fn h1_in_a_guests_database_we_add_no_trigger_and_feed_the_index_by_hand() {
    for schema in [PLAIN, COUNTED] {
        let (_dir, path) = place();
        let mut owner = Owner::new(&path, schema);
        owner.add("theirs", NOW - 500);
        let store = open(&path);
        store.add("ours to go", None).wait().unwrap();
        store.add("ours to stay", None).wait().unwrap();
        let selection = history::Selection::all().matching("to go|theirs").unwrap();
        assert_eq!(store.delete(selection).wait().unwrap().rows(), 2);
        owner.index_is_well();
        assert!(store.search("theirs", &SearchOptions::new(5)).unwrap().entries().is_empty());
        assert_eq!(store.search("stay", &SearchOptions::new(5)).unwrap().entries().len(), 1);
        let triggers: String = owner
            .conn
            .query_row("SELECT group_concat(name) FROM sqlite_master WHERE type = 'trigger'", [], |row| row.get(0))
            .unwrap();
        assert_eq!(triggers, "history_ai");
    }
}

#[test]
fn h4_an_older_submission_never_lowers_the_time_and_stays_in_its_scope() {
    let (_dir, path) = place();
    let mut owner = Owner::new(&path, COUNTED);
    owner.add("build", NOW);
    let store = open(&path);
    let older = Submission::new("build").cwd("/old").session("old").at(NOW - 900).key(EntryKey::new("o"));
    let newer = Submission::new("build").cwd("/new").session("new").at(NOW + 900).key(EntryKey::new("n"));
    store.submit(older).wait().unwrap();
    let one = |scope: Scope| {
        let found = store.recent(5, &scope).unwrap();
        found.first().map(|entry| (entry.created_at(), entry.cwd().map(str::to_owned)))
    };
    assert_eq!(one(Scope::everywhere()), Some((NOW, Some("/p".to_owned()))));
    assert_eq!(one(Scope::directory("/old")), Some((NOW - 900, Some("/old".to_owned()))));
    store.submit(Submission::new("test").at(NOW + 300).key(EntryKey::new("between"))).wait().unwrap();
    assert_eq!(store.submit(newer).wait().unwrap().recorded(), Recorded::Bumped);
    assert_eq!(one(Scope::everywhere()), Some((NOW + 900, Some("/new".to_owned()))));
    assert_eq!(one(Scope::directory("/p")), Some((NOW, Some("/p".to_owned()))), "its earlier use is remembered");
    assert_eq!(one(Scope::everywhere().until(NOW - 1)), Some((NOW - 900, Some("/old".to_owned()))));
}

#[test]
fn h4_an_unknown_form_is_read_and_never_altered() {
    let (_dir, path) = place();
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch(
        "CREATE TABLE history(id INTEGER PRIMARY KEY, prompt TEXT NOT NULL, created_at INTEGER, cwd TEXT, mood TEXT NOT NULL);
         INSERT INTO history VALUES (1, 'strange days', 5, '/p', 'gloomy');",
    )
    .unwrap();
    let schema =
        |conn: &Connection| -> i64 { conn.pragma_query_value(None, "schema_version", |row| row.get(0)).unwrap() };
    let before = schema(&conn);
    let store = open(&path);
    assert_eq!(store.search("strange", &SearchOptions::new(5)).unwrap().entries().len(), 1);
    assert_eq!(store.recent(5, &Scope::directory("/p")).unwrap()[0].created_at(), 5);
    assert_eq!(store.add("new", None).wait().unwrap_err().kind(), ErrorKind::UnknownSchema);
    assert_eq!(store.delete(history::Selection::all()).wait().unwrap().rows(), 0);
    assert_eq!(store.select(&history::Selection::all()).unwrap().len(), 1);
    assert_eq!(schema(&conn), before);
}

#[test]
fn k59_the_owner_gets_its_turn_while_an_index_is_built() {
    let (_dir, path) = place();
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;
         CREATE TABLE history(id INTEGER PRIMARY KEY AUTOINCREMENT, prompt TEXT NOT NULL, created_at INTEGER NOT NULL, cwd TEXT);
         WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 30000)
         INSERT INTO history(prompt, created_at) SELECT 'some prompt with a number ' || i || ' and words to index', i FROM c;",
    )
    .unwrap();
    conn.busy_timeout(std::time::Duration::from_secs(1)).unwrap();
    let store = open(&path);
    let ours = store.add("ours", None);
    let mut theirs = 0;
    while !ours.is_ready() {
        theirs += 1;
        conn.execute("INSERT INTO history(prompt, created_at) VALUES (?, ?)", (format!("theirs {theirs}"), NOW))
            .unwrap();
    }
    ours.wait().unwrap();
    assert!(theirs > 2, "the owner wrote meanwhile");
    let words: i64 = conn.query_row("SELECT count(*) FROM history_fts_docsize", [], |row| row.get(0)).unwrap();
    let rows: i64 = conn.query_row("SELECT count(*) FROM history", [], |row| row.get(0)).unwrap();
    assert_eq!(words, rows);
    assert_eq!(rows, 30_001 + theirs);
    conn.execute("INSERT INTO history_fts(history_fts, rank) VALUES ('integrity-check', 1)", []).unwrap();
}
