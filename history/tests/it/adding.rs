//! Adding: [H2] and [H2a] from one process.

use history::{EntryKey, ErrorKind, HistoryStorage, OpenOptions, Recorded, Scope, Submission};

fn keyed(prompt: &str, at: i64, key: &str) -> Submission {
    Submission::new(prompt).cwd("/p").session("s").at(at).key(EntryKey::new(key))
}

#[test]
fn h2_an_add_can_be_awaited_or_dropped_and_close_commits_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    let store = HistoryStorage::open(&path).unwrap();
    for number in 0..500 {
        drop(store.add(format!("prompt {number}"), None));
    }
    assert_eq!(store.recent(1, &Scope::everywhere()).unwrap()[0].prompt(), "prompt 499");
    for number in 500..1000 {
        drop(store.add(format!("prompt {number}"), None));
    }
    store.close().unwrap();
    let store = HistoryStorage::open(&path).unwrap();
    assert_eq!(store.recent(1000, &Scope::everywhere()).unwrap().len(), 1000);
}

#[test]
fn apply_commits_rows_and_the_callers_statements_together_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let store = HistoryStorage::open(dir.path().join("history.db")).unwrap();
    let first = store.apply(vec![keyed("one", 1, "a"), keyed("two", 2, "b")], |transaction, outcomes| {
        transaction
            .execute_batch("CREATE TABLE watcher_position(at INTEGER); INSERT INTO watcher_position VALUES (7)")?;
        Ok(outcomes.iter().map(history::Outcome::recorded).collect::<Vec<_>>())
    });
    assert_eq!(first.wait().unwrap(), [Recorded::Inserted, Recorded::Inserted]);
    let failed = store.apply(vec![keyed("three", 3, "c")], |transaction, _| {
        transaction.execute("UPDATE watcher_position SET at = 8", [])?;
        Err::<(), _>("no".into())
    });
    assert_eq!(failed.wait().unwrap_err().kind(), ErrorKind::Rejected);
    let panicked = store.apply(vec![keyed("three", 3, "c")], |_, _| -> Result<(), _> { panic!("expected") });
    assert_eq!(panicked.wait().unwrap_err().kind(), ErrorKind::Rejected);
    let again = store.apply(vec![keyed("one", 1, "a"), keyed("three", 3, "c")], |transaction, outcomes| {
        let at: i64 = transaction.query_row("SELECT at FROM watcher_position", [], |row| row.get(0))?;
        Ok((at, outcomes.iter().map(history::Outcome::recorded).collect::<Vec<_>>()))
    });
    assert_eq!(again.wait().unwrap(), (7, vec![Recorded::Known, Recorded::Inserted]));
    let prompts: Vec<_> =
        store.recent(9, &Scope::everywhere()).unwrap().iter().map(|entry| entry.prompt().to_owned()).collect();
    assert_eq!(prompts, ["three", "two", "one"]);
}

#[test]
fn h2a_an_entry_with_a_new_key_is_the_submission_that_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let store = HistoryStorage::open(dir.path().join("history.db")).unwrap();
    let record = |submissions: Vec<Submission>| {
        let answers: Vec<_> = submissions.into_iter().map(|one| store.submit(one)).collect();
        answers.into_iter().map(|answer| answer.wait().unwrap().recorded()).collect::<Vec<_>>()
    };
    let known = [Recorded::Known, Recorded::Known];
    assert_eq!(record(vec![keyed("a", 1, "1"), keyed("b", 1, "2")]), [Recorded::Inserted, Recorded::Inserted]);
    let renamed = |prompt: &str, key: &str, old: &str| keyed(prompt, 1, key).formerly(EntryKey::new(old));
    assert_eq!(record(vec![renamed("a", "x", "1"), renamed("b", "y", "2")]), known);
    assert_eq!(record(vec![keyed("a", 1, "x"), keyed("b", 1, "y")]), known, "the new key is known, too");
    // What lies between them in time keeps them from being folded.
    assert_eq!(record(vec![keyed("a", 1, "1"), keyed("b", 1, "2")]), known, "a copy from before still has the old key");
    assert_eq!(record(vec![renamed("a", "xx", "1"), renamed("b", "yy", "y")]), known, "renamed once more, from either");
    for (a, b) in [("1", "2"), ("x", "y"), ("xx", "yy")] {
        assert_eq!(record(vec![keyed("a", 1, a), keyed("b", 1, b)]), known);
    }
    assert_eq!(record(vec![renamed("c", "z", "3")]), [Recorded::Inserted], "an old key that nothing had");
    assert_eq!(store.stats().unwrap().submissions, 3);
}

#[test]
fn h2a_scopes_find_folded_submissions_too() {
    let dir = tempfile::tempdir().unwrap();
    let store = OpenOptions::new().clock(|| 50).open(dir.path().join("history.db")).unwrap();
    let add = |prompt: &str, cwd: &str, session: &str, at: i64| {
        store.submit(Submission::new(prompt).cwd(cwd).session(session).at(at)).wait().unwrap().recorded()
    };
    assert_eq!(add("go on", "/w/a", "s1", 10), Recorded::Inserted);
    assert_eq!(add("go on", "/w/b", "s2", 20), Recorded::Folded);
    assert_eq!(add("go on", "/w/a", "s1", 30), Recorded::Folded);
    assert_eq!(add("stop", "/w/a/deep", "s1", 40), Recorded::Inserted);
    let ask = |scope: Scope| -> Vec<(String, i64)> {
        let recent = store.recent(10, &scope).unwrap();
        recent.iter().map(|entry| (entry.prompt().to_owned(), entry.created_at())).collect()
    };
    assert_eq!(ask(Scope::directory("/w/a")), [("go on".to_owned(), 30)]);
    assert_eq!(ask(Scope::directory("/w/b")), [("go on".to_owned(), 20)]);
    assert_eq!(ask(Scope::below("/w/a")), [("stop".to_owned(), 40), ("go on".to_owned(), 30)]);
    assert_eq!(ask(Scope::below("/w")).len(), 2);
    assert_eq!(ask(Scope::below("/")).len(), 2);
    assert_eq!(ask(Scope::everywhere().session("s2")), [("go on".to_owned(), 20)]);
    assert_eq!(ask(Scope::everywhere().since(25).until(35)), [("go on".to_owned(), 30)]);
    assert_eq!(ask(Scope::below("/w").session("s1").until(35)), [("go on".to_owned(), 30)]);
    assert_eq!(ask(Scope::directory("/elsewhere")), []);
}

struct Unpark(std::thread::Thread);

impl std::task::Wake for Unpark {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.unpark();
    }
}

#[test]
fn h2_an_add_can_be_awaited_by_any_executor() {
    let dir = tempfile::tempdir().unwrap();
    let store = HistoryStorage::open(dir.path().join("history.db")).unwrap();
    let mut pending = std::pin::pin!(store.add("awaited", None));
    let waker = std::task::Waker::from(std::sync::Arc::new(Unpark(std::thread::current())));
    let outcome = loop {
        match pending.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
            std::task::Poll::Ready(outcome) => break outcome,
            std::task::Poll::Pending => std::thread::park(),
        }
    };
    assert_eq!(outcome.unwrap().recorded(), Recorded::Inserted);
}

#[test]
fn h2_add_returns_while_the_database_is_locked_and_everything_is_there_afterwards_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    let store = HistoryStorage::open(&path).unwrap();
    store.add("before", None).wait().unwrap();
    let owner = history::rusqlite::Connection::open(&path).unwrap();
    owner.execute_batch("BEGIN IMMEDIATE").unwrap();
    let pending: Vec<_> = (0..300).map(|number| store.add(format!("queued {number}"), None)).collect();
    assert!(pending.iter().all(|pending| !pending.is_ready()), "nothing can have been written");
    owner.execute_batch("COMMIT").unwrap();
    for pending in pending {
        assert_eq!(pending.wait().unwrap().recorded(), Recorded::Inserted);
    }
    assert_eq!(store.recent(1000, &Scope::everywhere()).unwrap().len(), 301);
}

#[test]
fn h5_only_what_can_be_done_again_waits_for_no_medium_and_only_with_a_write_ahead_log() {
    let dir = tempfile::tempdir().unwrap();
    for (journal, lessened) in [("wal", 1), ("truncate", 2)] {
        let path = dir.path().join(format!("{journal}.db"));
        HistoryStorage::open(&path).unwrap().close().unwrap();
        let conn = history::rusqlite::Connection::open(&path).unwrap();
        conn.pragma_update_and_check(None, "journal_mode", journal, |_| Ok(())).unwrap();
        drop(conn);
        let store = HistoryStorage::open(&path).unwrap();
        let care = |transaction: &history::rusqlite::Transaction<'_>| -> i64 {
            transaction.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap()
        };
        assert_eq!(store.apply(Vec::new(), move |transaction, _| Ok(care(transaction))).wait().unwrap(), 2);
        let redoable = store.apply_redoable(Vec::new(), move |transaction, _| Ok(care(transaction)));
        assert_eq!(redoable.wait().unwrap(), lessened, "{journal}");
        assert!(store.apply_redoable(Vec::new(), |_, _| -> Result<(), _> { Err("no".into()) }).wait().is_err());
        assert_eq!(store.apply(Vec::new(), move |transaction, _| Ok(care(transaction))).wait().unwrap(), 2);
    }
}
