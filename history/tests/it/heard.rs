//! Prompts that were heard of as they were typed: each is one submission with its session's entry and its owner's row,
//! whichever comes first [H2a, H4].

use history::rusqlite::{Connection, params};
use history::{EntryKey, HistoryStorage, OpenOptions, Recorded, Scope, Submission};

const COUNTED: &str = "CREATE TABLE history(id INTEGER PRIMARY KEY AUTOINCREMENT, prompt TEXT NOT NULL UNIQUE,
   created_at INTEGER NOT NULL DEFAULT (unixepoch()), cwd TEXT, session_id TEXT, use_count INTEGER NOT NULL DEFAULT 1);";
const PLAIN: &str = "CREATE TABLE history(id INTEGER PRIMARY KEY AUTOINCREMENT, prompt TEXT NOT NULL,
   created_at INTEGER NOT NULL DEFAULT (unixepoch()), cwd TEXT);";
const BASE: i64 = 1_800_000_000;

fn heard(prompt: &str, at: i64) -> Submission {
    Submission::new(prompt).cwd("/p").session("s").at(BASE + at).heard()
}

fn read(prompt: &str, at: i64) -> Submission {
    Submission::new(prompt).cwd("/p").session("s").at(BASE + at).key(EntryKey::new(format!("{prompt}{at}")))
}

fn uses(store: &HistoryStorage) -> Vec<(String, u64)> {
    let mut uses: Vec<(String, u64)> = Vec::new();
    for entry in store.recent(100, &Scope::everywhere()).unwrap() {
        uses.push((entry.prompt().to_owned(), entry.use_count()));
    }
    uses.sort();
    uses
}

/// One way in which the owner, the hook and the session's entry bring three prompts: each rank is when a party tells.
fn tell(schema: &str, order: &[&str]) -> (Vec<(String, u64)>, u64, u64) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    let owner = Connection::open(&path).unwrap();
    owner.execute_batch(schema).unwrap();
    let store = OpenOptions::new().clock(|| BASE + 5).open(&path).unwrap();
    for party in order {
        for (at, prompt) in (0..).zip(["go on", "x", "y"]) {
            match *party {
                "hook" => drop(store.submit(heard(prompt, at)).wait().unwrap()),
                "entry" => drop(store.submit(read(prompt, at + 1)).wait().unwrap()),
                "owner" if schema == COUNTED => {
                    let sql = "INSERT INTO history(prompt, created_at, cwd, session_id) VALUES (?1, ?2, '/p', 's')
                               ON CONFLICT(prompt) DO UPDATE SET created_at = ?2, use_count = use_count + 1";
                    owner.execute(sql, params![prompt, BASE + at]).unwrap();
                }
                "owner" => {
                    let sql = "INSERT INTO history(prompt, created_at, cwd) VALUES (?1, ?2, '/p')";
                    owner.execute(sql, params![prompt, BASE + at]).unwrap();
                }
                other => unreachable!("{other}"),
            }
        }
    }
    // What the owner wrote last is noticed with the next write.
    store.submit(read("end", 20)).wait().unwrap();
    let stats = store.stats().unwrap();
    (uses(&store), stats.prompts, stats.submissions)
}

#[test]
fn whoever_tells_first_a_prompt_is_one_submission() {
    let orders: &[&[&str]] = &[
        &["hook", "entry"],
        &["entry", "hook"],
        &["hook", "owner"],
        &["owner", "hook"],
        &["hook", "entry", "owner"],
        &["hook", "owner", "entry"],
        &["owner", "hook", "entry"],
        &["owner", "entry", "hook"],
        &["entry", "hook", "owner"],
        &["entry", "owner", "hook"],
    ];
    for schema in [PLAIN, COUNTED] {
        for order in orders {
            let (uses, prompts, submissions) = tell(schema, order);
            let expected = ["end", "go on", "x", "y"].map(|prompt| (prompt.to_owned(), 1));
            assert_eq!(uses, expected, "{order:?} {schema}");
            assert_eq!((prompts, submissions), (4, 4), "{order:?} {schema}");
        }
    }
}

#[test]
fn what_is_typed_twice_with_something_between_counts_twice() {
    let dir = tempfile::tempdir().unwrap();
    let store = HistoryStorage::open(dir.path().join("history.db")).unwrap();
    let recorded = |submission: Submission| store.submit(submission).wait().unwrap().recorded();
    assert_eq!(recorded(heard("go on", 0)), Recorded::Inserted);
    assert_eq!(recorded(heard("go on", 1)), Recorded::Folded);
    assert_eq!(recorded(heard("x", 2)), Recorded::Inserted);
    assert_eq!(recorded(heard("go on", 3)), Recorded::Inserted);
    for (at, prompt) in [(0, "go on"), (1, "go on"), (2, "x"), (3, "go on")] {
        assert!(matches!(recorded(read(prompt, at)), Recorded::Claimed | Recorded::Folded), "{prompt} {at}");
    }
    assert_eq!(store.stats().unwrap().prompts, 3);
    assert_eq!(store.stats().unwrap().submissions, 4);
    // Of another session, or long after: another submission.
    assert_eq!(recorded(heard("x", 500)), Recorded::Inserted);
    assert_eq!(recorded(heard("go on", 501)), Recorded::Inserted);
}
