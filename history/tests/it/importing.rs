//! Import and export: whole, once, and with an error that names its line.

use history::{ErrorKind, HistoryStorage, Import, Recorded, Scope, Selection, rusqlite};

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
