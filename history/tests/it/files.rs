//! Files on disk: private, few, and handed back. K44, K46, [D10].

use std::{
    io::{BufRead as _, BufReader, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::Stdio,
};

use history::{HistoryStorage, SearchOptions, rusqlite};

use crate::child::start;

#[test]
fn k46_everything_is_private_whatever_the_umask() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent/history.db");
    let mut child = start("make-with-open-umask", &path).stdin(Stdio::piped()).spawn().unwrap();
    let ready = BufReader::new(child.stdout.as_mut().unwrap()).lines().map(Result::unwrap).any(|line| line == "ready");
    assert!(ready);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    for file in ["history.db", "history.db-wal", "history.db-shm"] {
        assert_eq!(mode(&path.with_file_name(file)), 0o600, "{file}");
    }
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn k44_a_thousand_openings_leave_no_file_open() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    // Other tests run in this process: only files of this directory count.
    let open_files = || {
        let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        files
            .filter_map(|file| std::fs::read_link(file.path()).ok())
            .filter(|file| file.starts_with(dir.path()))
            .count()
    };
    HistoryStorage::open(&path).unwrap().add("hello", None).wait().unwrap();
    for _ in 0..1000 {
        let store = HistoryStorage::open(&path).unwrap();
        assert_eq!(store.search("hel", &SearchOptions::new(5)).unwrap().entries().len(), 1);
        store.close().unwrap();
        assert_eq!(open_files(), 0);
    }
}

#[test]
fn a_new_database_on_an_empty_file_is_ours() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    std::fs::write(&path, "").unwrap();
    let store = HistoryStorage::open(&path).unwrap();
    assert!(store.search("x", &SearchOptions::new(5)).unwrap().entries().is_empty());
    store.add("x", None).wait().unwrap();
    let stats = store.stats().unwrap();
    assert!(stats.created_by_us && stats.journal == "wal", "{stats:?}");
}

#[test]
fn h1_a_database_of_ours_has_short_prefixes_and_three_triggers_that_feed_the_index() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    let store = HistoryStorage::open(&path).unwrap();
    let owner = rusqlite::Connection::open(&path).unwrap();
    let names = |kind: &str| -> Vec<String> {
        let sql = "SELECT name FROM sqlite_master WHERE type = ? AND tbl_name = 'history' ORDER BY 1";
        let mut statement = owner.prepare(sql).unwrap();
        statement.query_map([kind], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    assert_eq!(names("trigger"), ["history_ad", "history_ai", "history_au"]);
    assert_eq!(names("index"), ["idx_history_created_at"]);
    let sql: String =
        owner.query_row("SELECT sql FROM sqlite_master WHERE name = 'history_fts'", [], |row| row.get(0)).unwrap();
    assert!(sql.contains("prefix='1 2 3'") && sql.contains("content='history'"), "{sql}");
    owner
        .execute_batch(
            "INSERT INTO history(prompt) VALUES ('alpha'), ('beta');
             UPDATE history SET prompt = 'gamma' WHERE prompt = 'alpha';
             DELETE FROM history WHERE prompt = 'beta';
             INSERT INTO history_fts(history_fts, rank) VALUES ('integrity-check', 1);",
        )
        .unwrap();
    for (query, found) in [("al", 0), ("be", 0), ("g", 1)] {
        assert_eq!(store.search(query, &SearchOptions::new(5)).unwrap().entries().len(), found, "{query}");
    }
    let now: i64 = owner.query_row("SELECT unixepoch() - created_at FROM history", [], |row| row.get(0)).unwrap();
    assert!((0..3600).contains(&now), "the default is the time in seconds");
}

#[test]
fn h5_our_sqlite_is_one_without_the_reset_race() {
    assert!(rusqlite::version_number() >= 3_051_003, "{}", rusqlite::version());
}

#[test]
fn numbers_follow_whoever_writes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    let store = HistoryStorage::open(&path).unwrap();
    let owner = rusqlite::Connection::open(&path).unwrap();
    let prompts = || store.stats().unwrap().prompts;
    assert_eq!((prompts(), prompts()), (0, 0));
    for round in 0..3 {
        store.add(format!("ours {round}"), None);
        assert_eq!((prompts(), prompts()), (2 * round + 1, 2 * round + 1));
        owner.execute("INSERT INTO history(prompt, created_at) VALUES ('theirs', 1)", []).unwrap();
        assert_eq!((prompts(), prompts()), (2 * round + 2, 2 * round + 2));
    }
    owner.execute("DELETE FROM history WHERE prompt = 'theirs'", []).unwrap();
    assert_eq!(prompts(), 3);
}
