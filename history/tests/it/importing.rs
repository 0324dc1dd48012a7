//! Import and export: whole, once, and with an error that names its line.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use history::{
    ErrorKind, HistoryStorage, Import, OpenOptions, Recorded, Redaction, Scope, Selection, Submission, rusqlite,
};
use proptest::prelude::*;

fn prompts(store: &HistoryStorage) -> Vec<String> {
    store.recent(1000, &Scope::everywhere()).unwrap().iter().map(|entry| entry.prompt().to_owned()).collect()
}

#[test]
fn an_import_twice_adds_nothing_the_second_time() {
    let dir = tempfile::tempdir().unwrap();
    let from = HistoryStorage::open(dir.path().join("from.db")).unwrap();
    for (prompt, cwd) in [("one", Some("/a")), ("two", None), ("one", Some("/b"))] {
        from.add(prompt, cwd).wait().unwrap();
    }
    let mut exported = Vec::new();
    assert_eq!(from.export(&Selection::all(), &mut exported).unwrap(), 3);
    let source = |name: &str| match name {
        "database" => Import::database(dir.path().join("from.db")),
        _ => Import::json_lines("json", exported.as_slice()),
    };
    for name in ["database", "json"] {
        let to = HistoryStorage::open(dir.path().join(format!("{name}.db"))).unwrap();
        let first = to.import(source(name), |_| ()).unwrap();
        assert_eq!((first.read, first.added, first.known), (3, 3, 0), "{name}");
        let again = to.import(source(name), |_| ()).unwrap();
        assert_eq!((again.read, again.added, again.known), (3, 0, 3), "{name}");
        assert_eq!(prompts(&to), ["one", "two", "one"]);
        assert_eq!(to.recent(9, &Scope::directory("/a")).unwrap().len(), 1);
        let mut back = Vec::new();
        to.export(&Selection::all(), &mut back).unwrap();
        assert_eq!(back, exported);
        assert_eq!(
            to.add("one", None).wait().unwrap().recorded(),
            Recorded::Inserted,
            "imported rows fold nothing [H2]"
        );
        assert_eq!(to.add("one", None).wait().unwrap().recorded(), Recorded::Folded);
    }
}

#[test]
fn lines_without_a_time_are_known_by_their_text() {
    let dir = tempfile::tempdir().unwrap();
    let store = HistoryStorage::open(dir.path().join("history.db")).unwrap();
    store.add("there", None).wait().unwrap();
    let mut progress = Vec::new();
    let sum =
        store.import(Import::lines("x", "there\nnew\r\n\n  new\nlast".as_bytes()), |sum| progress.push(sum)).unwrap();
    assert_eq!((sum.read, sum.added, sum.known, sum.refused), (5, 2, 2, 1));
    assert_eq!(progress, [sum]);
    assert_eq!(prompts(&store), ["last", "new", "there"]);
}

#[test]
fn a_bad_line_is_named_and_nothing_before_it_is_lost_twice() {
    let dir = tempfile::tempdir().unwrap();
    let store = HistoryStorage::open(dir.path().join("history.db")).unwrap();
    let lines = "\"good\"\n{\"prompt\":\"also good\"}\n{\"text\":\"no prompt\"}\n";
    let error = store.import(Import::json_lines("file.jsonl", lines.as_bytes()), |_| ()).unwrap_err();
    assert_eq!((error.kind(), error.line()), (ErrorKind::Invalid, Some(3)));
    assert!(error.to_string().starts_with("file.jsonl:3:"), "{error}");
}

#[test]
fn h4_an_import_into_a_counted_history_counts_each_submission_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    let owner = rusqlite::Connection::open(&path).unwrap();
    owner
        .execute_batch(
            "CREATE TABLE history(id INTEGER PRIMARY KEY AUTOINCREMENT, prompt TEXT NOT NULL UNIQUE, created_at INTEGER NOT NULL, cwd TEXT, session_id TEXT, use_count INTEGER NOT NULL DEFAULT 1);
             INSERT INTO history(prompt, created_at, cwd) VALUES ('build', 500, '/p');",
        )
        .unwrap();
    let store = HistoryStorage::open(&path).unwrap();
    let lines = "{\"prompt\":\"build\",\"created_at\":100,\"cwd\":\"/q\"}\n{\"prompt\":\"build\",\"created_at\":500,\"cwd\":\"/p\"}\n{\"prompt\":\"new\",\"created_at\":7,\"use_count\":4}\n";
    for _ in 0..2 {
        store.import(Import::json_lines("x", lines.as_bytes()), |_| ()).unwrap();
        let build: (i64, i64) = owner
            .query_row("SELECT use_count, created_at FROM history WHERE prompt = 'build'", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .unwrap();
        assert_eq!(build, (2, 500));
        let new: i64 =
            owner.query_row("SELECT use_count FROM history WHERE prompt = 'new'", [], |row| row.get(0)).unwrap();
        assert_eq!(new, 4);
    }
    assert_eq!(store.recent(5, &Scope::directory("/q")).unwrap().len(), 1);
}

#[test]
fn a_large_history_is_exported_whole_and_comes_back_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let from = HistoryStorage::open(dir.path().join("from.db")).unwrap();
    let lines = (0..2500).fold(String::new(), |lines, n| {
        let session = if n % 3 == 0 { "" } else { ",\"session\":\"s\"" };
        lines + &format!("{{\"prompt\":\"prompt {}\",\"created_at\":{n}{session}}}\n", n % 700)
    });
    let sum = from.import(Import::json_lines("x", lines.as_bytes()), |_| ()).unwrap();
    assert_eq!((sum.read, sum.added), (2500, 2500));
    let (mut out, mut back) = (Vec::new(), Vec::new());
    assert_eq!(from.export(&Selection::all(), &mut out).unwrap(), 2500);
    let to = HistoryStorage::open(dir.path().join("to.db")).unwrap();
    to.import(Import::json_lines("x", out.as_slice()), |_| ()).unwrap();
    to.export(&Selection::all(), &mut back).unwrap();
    assert!(out == back);
}

#[test]
fn h5b_what_was_deleted_stays_away_whatever_is_imported() {
    let dir = tempfile::tempdir().unwrap();
    let now = Arc::new(AtomicI64::new(1000));
    let clock = Arc::clone(&now);
    let store = OpenOptions::new().clock(move || clock.load(Ordering::SeqCst)).open(dir.path().join("h.db")).unwrap();
    // From a clock that was ahead, or in milliseconds.
    let future = "{\"prompt\":\"from the future\",\"created_at\":1700000000000}\n";
    store.import(Import::json_lines("x", future.as_bytes()), |_| ()).unwrap();
    store.import(Import::lines("x", "without a time".as_bytes()), |_| ()).unwrap();
    rusqlite::Connection::open(dir.path().join("h.db"))
        .unwrap()
        .execute("INSERT INTO history(prompt, created_at) VALUES (' with spaces ', 5)", [])
        .unwrap();
    assert_eq!(store.delete(Selection::all()).wait().unwrap().rows(), 3);
    now.store(5000, Ordering::SeqCst);
    let mut sum = store.import(Import::json_lines("x", future.as_bytes()), |_| ()).unwrap();
    assert_eq!((sum.added, sum.refused), (0, 1));
    sum = store.import(Import::lines("x", "without a time\nnew".as_bytes()), |_| ()).unwrap();
    assert_eq!((sum.added, sum.refused), (1, 1));
    let spaces = "{\"prompt\":\" with spaces\",\"created_at\":5}\n";
    sum = store.import(Import::json_lines("x", spaces.as_bytes()), |_| ()).unwrap();
    assert_eq!((sum.added, sum.refused), (0, 1));
    assert_eq!(store.add("without a time", None).wait().unwrap().recorded(), Recorded::Inserted, "typed anew");
}

#[test]
fn lines_without_a_time_are_known_when_their_secrets_are_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let now = Arc::new(AtomicI64::new(1000));
    let clock = Arc::clone(&now);
    let options = OpenOptions::new().redact(Redaction::known()).clock(move || clock.fetch_add(9, Ordering::SeqCst));
    let store = options.open(dir.path().join("history.db")).unwrap();
    for added in [1, 0] {
        let sum =
            store.import(Import::lines("x", "use password=tr0ub4dor\nuse password=x".as_bytes()), |_| ()).unwrap();
        assert_eq!((sum.added, sum.known), (added, 2 - added));
    }
}

#[test]
fn two_stores_that_import_the_same_lines_at_once_add_each_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    let now = Arc::new(AtomicI64::new(1000));
    let open = || {
        let clock = Arc::clone(&now);
        OpenOptions::new().clock(move || clock.fetch_add(1, Ordering::SeqCst)).open(&path).unwrap()
    };
    let (one, other) = (open(), open());
    let lines = |from: usize| (from..from + 5000).fold(String::new(), |lines, n| lines + &format!("line {n}\n"));
    let (first, second) = (lines(0), lines(2500));
    let mut sums = Vec::new();
    std::thread::scope(|scope| {
        let here = scope.spawn(|| one.import(Import::lines("x", first.as_bytes()), |_| ()).unwrap());
        let there = scope.spawn(|| other.import(Import::lines("x", second.as_bytes()), |_| ()).unwrap());
        sums.extend([here.join().unwrap(), there.join().unwrap()]);
    });
    assert_eq!(one.stats().unwrap().prompts, 7500, "{sums:?}");
    assert_eq!((sums[0].added + sums[1].added, sums[0].known + sums[1].known), (7500, 2500));
}

#[test]
fn json_lines_may_begin_with_a_mark_end_with_returns_and_hold_half_a_pair() {
    let dir = tempfile::tempdir().unwrap();
    let store = HistoryStorage::open(dir.path().join("history.db")).unwrap();
    let lines = "\u{feff}\"marked\"\r\n{\"prompt\":\"half \\ud83d of it\",\"created_at\":1}\r\n\r\n\
                 {\"prompt\":\"whole \\ud83d\\ude00\",\"created_at\":2,\"more\":[{}],\"cwd\":null}";
    let sum = store.import(Import::json_lines("x", lines.as_bytes()), |_| ()).unwrap();
    assert_eq!((sum.read, sum.added), (3, 3));
    assert_eq!(prompts(&store), ["marked", "whole \u{1f600}", "half \u{fffd} of it"]);
    let sum = store.import(Import::json_lines("x", lines.as_bytes()), |_| ()).unwrap();
    assert_eq!(sum.known, 3);
}

#[test]
fn a_bad_line_of_json_says_what_is_wrong_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = HistoryStorage::open(dir.path().join("history.db")).unwrap();
    for (line, says) in [
        ("{\"text\":\"x\"}", "missing field `prompt`"),
        ("{\"prompt\":\"x\",\"created_at\":1.5}", "floating point"),
        ("{\"prompt\":\"x\",\"created_at\":\"2026-01-01\"}", "string"),
        ("{\"prompt\":\"x\",\"prompt\":\"y\"}", "duplicate field"),
        ("{\"prompt\":7}", "integer"),
        ("[\"x\"]", "sequence"),
        ("{\"prompt\":\"x\"", "EOF"),
        ("\"x\" \"y\"", "trailing"),
    ] {
        let error = store.import(Import::json_lines("x", line.as_bytes()), |_| ()).unwrap_err();
        assert_eq!((error.kind(), error.line()), (ErrorKind::Invalid, Some(1)));
        assert!(error.to_string().contains(says), "{error}");
    }
    let error = store.import(Import::lines("x", b"good\n\xff\n".as_slice()), |_| ()).unwrap_err();
    assert_eq!((error.kind(), error.line()), (ErrorKind::Invalid, Some(2)));
}

#[test]
fn a_database_can_be_imported_into_itself_and_while_its_owner_writes_whatever_its_journal() {
    for journal in ["wal", "delete"] {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("from.db");
        let owner = rusqlite::Connection::open(&from).unwrap();
        owner
            .execute_batch(&format!(
                "PRAGMA journal_mode = {journal}; PRAGMA synchronous = off;
                 CREATE TABLE history(id INTEGER PRIMARY KEY AUTOINCREMENT, prompt TEXT NOT NULL, created_at INTEGER NOT NULL, cwd TEXT);
                 CREATE INDEX idx_history_created_at ON history(created_at DESC);
                 WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 5000)
                 INSERT INTO history(prompt, created_at) SELECT 'prompt ' || i, i FROM c;"
            ))
            .unwrap();
        owner.busy_timeout(std::time::Duration::ZERO).unwrap();
        let to = HistoryStorage::open(dir.path().join("to.db")).unwrap();
        let mut written = 0;
        let sum = to
            .import(Import::database(&from), |_| {
                written += owner.execute("INSERT INTO history(prompt, created_at) VALUES ('x', 1)", []).unwrap();
            })
            .unwrap();
        assert!(written > 1 && sum.added == 5000, "{sum:?}");
        drop(owner);
        let itself = OpenOptions::new().patience(std::time::Duration::from_secs(2)).open(&from).unwrap();
        let sum = itself.import(Import::database(&from), |_| ()).unwrap();
        assert_eq!((sum.read, sum.added), (5000 + written, 0), "{journal}");
        let left =
            |file: std::io::Result<std::fs::DirEntry>| file.unwrap().path().extension().is_some_and(|end| end == "tmp");
        assert!(!std::fs::read_dir(dir.path()).unwrap().any(left), "no copy stays");
    }
}

#[test]
fn what_is_no_history_is_said_to_be_none_and_a_link_leads_to_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = HistoryStorage::open(dir.path().join("history.db")).unwrap();
    let file = |name: &str| dir.path().join(name);
    std::fs::write(file("noise"), "noise ".repeat(1000)).unwrap();
    std::fs::write(file("empty"), "").unwrap();
    rusqlite::Connection::open(file("other")).unwrap().execute_batch("CREATE TABLE a(b)").unwrap();
    for (name, kind) in [
        ("noise", ErrorKind::Corrupt),
        ("empty", ErrorKind::UnknownSchema),
        ("other", ErrorKind::UnknownSchema),
        ("missing", ErrorKind::Io),
    ] {
        let error = store.import(Import::database(file(name)), |_| ()).unwrap_err();
        assert_eq!((error.kind(), error.path()), (kind, Some(file(name).as_path())), "{error}");
    }
    assert!(!file("missing").exists());
    HistoryStorage::open(file("real")).unwrap().add("linked", None).wait().unwrap();
    std::os::unix::fs::symlink(file("real"), file("link")).unwrap();
    assert_eq!(store.import(Import::database(file("link")), |_| ()).unwrap().added, 1);
}

proptest! {
    #![proptest_config(crate::cases(8))]

    /// What is exported and imported elsewhere is exported there as the same.
    #[test]
    fn property_an_export_comes_back_the_same(
        typed in prop::collection::vec(("(a|b|\u{301}x|\u{5d0}|\u{1f600}\0y| z\n\"\\\\){1,3}", 0..3_i64, 0..3_u8, 0..2_u8), 1..40),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let now = Arc::new(AtomicI64::new(0));
        let clock = Arc::clone(&now);
        let options = OpenOptions::new().clock(move || clock.load(Ordering::SeqCst));
        let from = options.open(dir.path().join("from.db")).unwrap();
        for (prompt, pause, cwd, session) in typed {
            now.fetch_add(pause - 1, Ordering::SeqCst);
            let mut submission = Submission::new(prompt);
            if cwd > 0 {
                submission = submission.cwd(format!("/{cwd}"));
            }
            if session > 0 {
                submission = submission.session("s");
            }
            from.submit(submission).wait().unwrap();
        }
        let to = HistoryStorage::open(dir.path().join("to.db")).unwrap();
        let (mut out, mut back) = (Vec::new(), Vec::new());
        let count = from.export(&Selection::all(), &mut out).unwrap();
        for round in 0..2 {
            let sum = to.import(Import::json_lines("x", out.as_slice()), |_| ()).unwrap();
            prop_assert_eq!(sum.added, if round == 0 { count } else { 0 });
        }
        to.export(&Selection::all(), &mut back).unwrap();
        prop_assert_eq!(String::from_utf8(back).unwrap(), String::from_utf8(out).unwrap());
    }
}
