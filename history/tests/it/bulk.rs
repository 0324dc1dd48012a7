//! Many rows at once are what they would be one by one, and no trigger of anybody's is passed over: [H1], [H4], K45.

use std::path::Path;

use history::{EntryKey, HistoryStorage, OpenOptions, SearchOptions, Submission, rusqlite};
use proptest::prelude::*;
use rusqlite::Connection;

const NOW: i64 = 1_700_000_000;

/// The forms of a database that many rows may meet: ours, the owner's two, and triggers that are not what they seem.
const FORMS: [&str; 6] = [
    "",
    "CREATE TABLE history(id INTEGER PRIMARY KEY AUTOINCREMENT, prompt TEXT NOT NULL,
       created_at INTEGER NOT NULL DEFAULT (unixepoch()), cwd TEXT);
     CREATE VIRTUAL TABLE history_fts USING fts5(prompt, content='history', content_rowid='id');
     CREATE TRIGGER history_ai AFTER INSERT ON history BEGIN
       INSERT INTO history_fts(rowid, prompt) VALUES (new.id, new.prompt); END;",
    "CREATE TABLE history(id INTEGER PRIMARY KEY AUTOINCREMENT, prompt TEXT NOT NULL UNIQUE,
       created_at INTEGER NOT NULL DEFAULT (unixepoch()), cwd TEXT, session_id TEXT,
       use_count INTEGER NOT NULL DEFAULT 1);
     CREATE VIRTUAL TABLE history_fts USING fts5(prompt, content='history', content_rowid='id');
     CREATE TRIGGER \"history_ai\" after insert on \"history\" begin
       insert into history_fts(rowid,prompt) values(new.id,new.prompt); end;
     CREATE TRIGGER history_au AFTER UPDATE ON history BEGIN
       INSERT INTO history_fts(history_fts, rowid, prompt) VALUES ('delete', old.id, old.prompt);
       INSERT INTO history_fts(rowid, prompt) VALUES (new.id, new.prompt); END;",
    // A second trigger that the index has nothing to do with.
    "CREATE TABLE history(id INTEGER PRIMARY KEY AUTOINCREMENT, prompt TEXT NOT NULL,
       created_at INTEGER NOT NULL DEFAULT (unixepoch()), cwd TEXT);
     CREATE VIRTUAL TABLE history_fts USING fts5(prompt, content='history', content_rowid='id');
     CREATE TRIGGER history_ai AFTER INSERT ON history BEGIN
       INSERT INTO history_fts(rowid, prompt) VALUES (new.id, new.prompt); END;
     CREATE TABLE seen(row INTEGER);
     CREATE TRIGGER counting AFTER INSERT ON history BEGIN INSERT INTO seen VALUES (new.id); END;",
    // One trigger that does both.
    "CREATE TABLE history(id INTEGER PRIMARY KEY AUTOINCREMENT, prompt TEXT NOT NULL,
       created_at INTEGER NOT NULL DEFAULT (unixepoch()), cwd TEXT);
     CREATE VIRTUAL TABLE history_fts USING fts5(prompt, content='history', content_rowid='id');
     CREATE TABLE seen(row INTEGER);
     CREATE TRIGGER history_ai AFTER INSERT ON history BEGIN INSERT INTO seen VALUES (new.id);
       INSERT INTO history_fts(rowid, prompt) VALUES (new.id, new.prompt); END;",
    // One that leaves some rows out.
    "CREATE TABLE history(id INTEGER PRIMARY KEY AUTOINCREMENT, prompt TEXT NOT NULL,
       created_at INTEGER NOT NULL DEFAULT (unixepoch()), cwd TEXT);
     CREATE VIRTUAL TABLE history_fts USING fts5(prompt, content='history', content_rowid='id');
     CREATE TABLE seen(row INTEGER);
     CREATE TRIGGER counting AFTER INSERT ON history WHEN new.cwd IS NULL BEGIN INSERT INTO seen VALUES (new.id); END;
     CREATE TRIGGER history_ai AFTER INSERT ON history BEGIN
       INSERT INTO history_fts(rowid, prompt) VALUES (new.id, new.prompt); END;",
];

fn open(path: &Path, form: &str) -> HistoryStorage {
    if !form.is_empty() {
        Connection::open(path).unwrap().execute_batch(form).unwrap();
    }
    OpenOptions::new().clock(|| NOW + 500).open(path).unwrap()
}

/// Everything that the two ways of writing have to agree on, once the index agrees with the rows.
fn state(path: &Path) -> Vec<String> {
    let conn = Connection::open(path).unwrap();
    conn.execute("INSERT INTO history_fts(history_fts, rank) VALUES ('integrity-check', 1)", []).unwrap();
    let mut lines = Vec::new();
    for sql in [
        "SELECT * FROM history ORDER BY id",
        "SELECT row, prompt_hash, at, cwd, session, key, origin, uses FROM watcher_submission ORDER BY id",
        "SELECT * FROM watcher_meta ORDER BY name",
        "SELECT * FROM seen ORDER BY row",
    ] {
        // Only some of the forms have the last table.
        let Ok(mut statement) = conn.prepare(sql) else { continue };
        let columns = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let values: Vec<_> = (0..columns).map(|column| format!("{:?}", row.get_ref_unwrap(column))).collect();
            lines.push(values.join("|"));
        }
    }
    lines
}

fn submission(number: usize, (prompt, at, cwd): (u8, i64, bool)) -> Submission {
    let cwd = if cwd { Some("/p".to_owned()) } else { None };
    let mut submission =
        Submission::new(format!("prompt {prompt}")).at(NOW + at).key(EntryKey::new(format!("e{number}")));
    if let Some(cwd) = cwd {
        submission = submission.cwd(cwd);
    }
    submission
}

proptest! {
    #![proptest_config(crate::cases(8))]

    #[test]
    fn property_h1_many_rows_are_what_they_would_be_one_by_one(
        form in 0..FORMS.len(),
        prompts in prop::collection::vec((0..20_u8, 0..300_i64, any::<bool>()), 32..120),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let (together, single) = (dir.path().join("together.db"), dir.path().join("single.db"));
        let submissions: Vec<_> =
            prompts.iter().enumerate().map(|(number, prompt)| submission(number, *prompt)).collect();
        let store = open(&together, FORMS[form]);
        store.apply(submissions.clone(), |_, _| Ok(())).wait().unwrap();
        store.close().unwrap();
        let store = open(&single, FORMS[form]);
        for submission in submissions {
            store.submit(submission).wait().unwrap();
        }
        store.close().unwrap();
        prop_assert_eq!(state(&together), state(&single));
    }
}

#[test]
fn h1_what_a_caller_writes_beside_many_rows_goes_through_the_triggers_and_so_does_what_follows() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    let store = open(&path, "");
    let many =
        |from: usize| (from..from + 50).zip(0..).map(|(number, at)| submission(number, (200, at, true))).collect();
    store
        .apply(many(0), |transaction, _| {
            transaction.execute("INSERT INTO history(prompt, created_at) VALUES ('by the caller', 1)", [])?;
            Ok(())
        })
        .wait()
        .unwrap();
    assert!(store.apply(many(50), |_, _| -> Result<(), _> { Err("no".into()) }).wait().is_err());
    assert!(store.apply(many(100), |_, _| -> Result<(), _> { panic!("no") }).wait().is_err());
    store.add("one alone", None).wait().unwrap();
    for query in ["caller", "alone"] {
        assert_eq!(store.search(query, &SearchOptions::new(5)).unwrap().entries().len(), 1, "{query}");
    }
    store.close().unwrap();
    state(&path);
}
