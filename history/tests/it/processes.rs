//! Several processes and sudden death: K38, [H2], [H5].

use std::{
    io::{BufRead as _, BufReader},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use history::{HistoryStorage, Import, Scope, SearchOptions, Selection, rusqlite};
use rusqlite::Connection;

use crate::child::{finish, numbered_lines, start};

fn count(path: &std::path::Path) -> i64 {
    let conn = rusqlite::Connection::open(path).unwrap();
    let (rows, words): (i64, i64) = conn
        .query_row("SELECT (SELECT count(*) FROM history), (SELECT count(*) FROM history_fts_docsize)", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert_eq!(rows, words, "rows and index agree");
    conn.execute("INSERT INTO history_fts(history_fts, rank) VALUES ('integrity-check', 1)", []).unwrap();
    let verdict: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
    rows
}

#[test]
fn k38_32_processes_make_a_database_add_and_search_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/er/history.db");
    let children: Vec<_> = (0..32).map(|number| start(&format!("add {number}"), &path).spawn().unwrap()).collect();
    children.into_iter().for_each(finish);
    assert_eq!(count(&path), 32);
    let left: Vec<_> =
        std::fs::read_dir(path.parent().unwrap()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left, ["history.db"], "no temporary file is left");
}

/// Kills the child after so many acknowledgements; returns how many there were.
fn killed_after(job: &str, path: &std::path::Path, acknowledgements: usize) -> i64 {
    let mut child = start(job, path).spawn().unwrap();
    let mut acknowledged = 0;
    let mut seen = 0;
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for line in lines.by_ref() {
        if let Some(number) = line.unwrap().strip_prefix("acknowledged ") {
            acknowledged = number.parse().unwrap();
            seen += 1;
        }
        if seen == acknowledgements {
            child.kill().unwrap();
            break;
        }
    }
    // What it still said before it died counts too.
    for line in lines {
        if let Some(Ok(number)) = line.unwrap().strip_prefix("acknowledged ").map(str::parse) {
            acknowledged = number;
        }
    }
    assert!(!child.wait().unwrap().success(), "the child was to be killed");
    acknowledged
}

#[test]
fn h2_an_awaited_add_survives_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    let mut total = 0;
    for round in 1..=8 {
        let acknowledged = killed_after("add-for-ever", &path, round * 7);
        let rows = count(&path);
        // One more may have been committed and not yet told.
        assert!((acknowledged..=acknowledged + 1).contains(&(rows - total)), "{acknowledged} {rows} {total}");
        total = rows;
    }
}

#[test]
fn h5_kill_9_in_the_middle_of_a_bulk_import_leaves_a_whole_database_and_the_import_can_be_run_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    for round in 1..=3 {
        let acknowledged = killed_after("import", &path, round);
        let rows = count(&path);
        assert!(acknowledged > 0 && rows < 40_000, "it was killed in the middle");
    }
    let store = HistoryStorage::open(&path).unwrap();
    let before = count(&path);
    let lines = numbered_lines(16_000);
    let sum = store.import(Import::lines("lines", lines.as_bytes()), |_| ()).unwrap();
    assert_eq!(sum.read, 16_000);
    assert_eq!(sum.known + sum.added, 16_000);
    assert_eq!(count(&path), before.max(16_000));
    assert_eq!(store.recent(1, &Scope::everywhere()).unwrap().len(), 1);
}

#[test]
fn h5_kill_9_in_the_middle_of_a_repair_leaves_an_index_and_the_next_one_completes_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    let store = HistoryStorage::open(&path).unwrap();
    store.import(Import::lines("lines", numbered_lines(40_000).as_bytes()), |_| ()).unwrap();
    store.close().unwrap();
    let other = Connection::open(&path).unwrap();
    other.busy_timeout(Duration::from_secs(10)).unwrap();
    other.execute("INSERT INTO history_fts(history_fts, rowid, prompt) VALUES ('delete', 7, 'imported')", []).unwrap();
    let indexed = || -> i64 {
        let sql = "SELECT ifnull(max(value), 0) FROM watcher_meta WHERE name = 'indexed'";
        other.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    let mut before = 0;
    for _ in 0..3 {
        let mut child = start("repair", &path).spawn().unwrap();
        while [0, before].contains(&indexed()) {
            assert!(child.try_wait().unwrap().is_none(), "it was over before it could be killed");
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        before = indexed();
        let found = HistoryStorage::open(&path).unwrap().search("imported line", &SearchOptions::new(5)).unwrap();
        assert_eq!(found.entries().len(), 5, "the old index answers until the new one is complete");
    }
    // One that was killed before the replaced index had gone left this behind.
    other
        .execute_batch(
            "CREATE VIRTUAL TABLE watcher_old_fts USING fts5(prompt, content='history', content_rowid='id');
             INSERT INTO watcher_old_fts(watcher_old_fts) VALUES ('rebuild')",
        )
        .unwrap();
    finish(start("repair", &path).spawn().unwrap());
    let tables: i64 = other
        .query_row("SELECT count(*) FROM sqlite_master WHERE name GLOB 'watcher_*fts*'", [], |row| row.get(0))
        .unwrap();
    assert_eq!((tables, indexed()), (0, 0));
    let store = HistoryStorage::open(&path).unwrap();
    assert!(store.check().unwrap().is_well());
    assert_eq!(store.search("39999", &SearchOptions::new(5)).unwrap().entries().len(), 1);
}

#[test]
fn h2_two_stores_in_two_processes_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    let store = HistoryStorage::open(&path).unwrap();
    let children: Vec<_> = (0..8).map(|number| start(&format!("add {number}"), &path).spawn().unwrap()).collect();
    let pending: Vec<_> = (100..200).map(|number| store.add(format!("prompt number{number}"), None)).collect();
    for pending in pending {
        pending.wait().unwrap();
    }
    children.into_iter().for_each(finish);
    assert_eq!(count(&path), 108);
}

#[test]
fn h5a_detaching_beside_a_store_that_adds_and_one_that_deletes_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    let adding = HistoryStorage::open(&path).unwrap();
    let deleting = HistoryStorage::open(&path).unwrap();
    let stop = AtomicBool::new(false);
    let mut added = 0;
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut added = 0;
            while !stop.load(Ordering::SeqCst) {
                adding.add(format!("kept {added}"), Some("/p")).wait().unwrap();
                drop(adding.add("doomed", None));
                added += 1;
            }
            added
        });
        let third = scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                deleting.delete(Selection::all().matching("doomed").unwrap()).wait().unwrap();
            }
        });
        for _ in 0..15 {
            HistoryStorage::open(&path).unwrap().detach().unwrap();
        }
        stop.store(true, Ordering::SeqCst);
        added = other.join().unwrap();
        third.join().unwrap();
    });
    assert!(adding.stats().unwrap().prompts >= added, "after all that was queued");
    deleting.delete(Selection::all().matching("doomed").unwrap()).wait().unwrap();
    assert_eq!(adding.stats().unwrap().prompts, added);
    assert!(adding.check().unwrap().is_well());
    adding.close().unwrap();
}
