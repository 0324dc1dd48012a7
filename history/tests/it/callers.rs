//! What callers hand in: paths, clocks, times, closures. None of it loses a prompt or leaves anybody waiting for ever.

use std::{
    os::unix::fs::symlink,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use history::{
    EntryKey, ErrorKind, HistoryStorage, Import, OpenOptions, Recorded, Redaction, Scope, SearchOptions, Selection,
    Submission, rusqlite,
};

use crate::child::{finish, start};

fn prompts(store: &HistoryStorage) -> Vec<String> {
    store.recent(1000, &Scope::everywhere()).unwrap().iter().map(|entry| entry.prompt().to_owned()).collect()
}

#[test]
fn h2_questions_are_answered_after_the_callers_clock_has_panicked() {
    let dir = tempfile::tempdir().unwrap();
    let broken = Arc::new(AtomicBool::new(false));
    let clock = {
        let broken = Arc::clone(&broken);
        move || if broken.load(Ordering::SeqCst) { panic!("no time") } else { 7 }
    };
    let store = OpenOptions::new().clock(clock).open(dir.path().join("history.db")).unwrap();
    store.add("before", None).wait().unwrap();
    broken.store(true, Ordering::SeqCst);
    assert_eq!(store.add("lost", None).wait().unwrap_err().kind(), ErrorKind::Closed);
    drop(store.add("lost too", None));
    assert_eq!(prompts(&store), ["before"]);
    assert_eq!(store.close().unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn h2_the_callers_work_may_ask_the_store_and_may_be_the_last_to_hold_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    let store = Arc::new(HistoryStorage::open(&path).unwrap());
    store.add("before", None);
    let held = Arc::clone(&store);
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let seen = store.apply(vec![Submission::new("with it")], move |_, _| {
        wait.recv()?;
        let seen = prompts(&held);
        drop(held.add("from within", None));
        Ok(seen)
    });
    drop(store);
    go.send(()).unwrap();
    assert_eq!(seen.wait().unwrap(), ["before"], "what is committed");
    // The store closes itself on its own thread, after all that was queued.
    let again = HistoryStorage::open(&path).unwrap();
    again.add("after", None).wait().unwrap();
    assert!(prompts(&again).contains(&"with it".to_owned()));
}

#[test]
fn h2_the_callers_work_can_neither_commit_nor_roll_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = HistoryStorage::open(dir.path().join("history.db")).unwrap();
    store.add("before", None).wait().unwrap();
    for sql in ["COMMIT", "ROLLBACK", "COMMIT; BEGIN", "ROLLBACK; BEGIN", "ROLLBACK; BEGIN IMMEDIATE; SELECT 1"] {
        let heeding =
            store.apply(vec![Submission::new(sql)], move |transaction, _| Ok(transaction.execute_batch(sql)?));
        assert_eq!(heeding.wait().unwrap_err().kind(), ErrorKind::Rejected, "{sql}");
        let heedless = store.apply(vec![Submission::new(sql)], move |transaction, _| {
            drop(transaction.execute_batch(sql));
            Ok(())
        });
        assert_eq!(heedless.wait().unwrap_err().kind(), ErrorKind::Rejected, "{sql}");
        assert_eq!(prompts(&store), ["before"], "{sql}");
    }
    store
        .apply(vec![Submission::new("with a savepoint")], |transaction, _| {
            Ok(transaction.execute_batch("SAVEPOINT a; CREATE TABLE watcher_a(b); ROLLBACK TO a; RELEASE a")?)
        })
        .wait()
        .unwrap();
    store.add("after", None).wait().unwrap();
    assert_eq!(prompts(&store), ["after", "with a savepoint", "before"]);
}

#[test]
fn times_and_counts_at_the_ends_of_their_range_break_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for form in ["", COUNTED] {
        let path = dir.path().join(format!("history{}.db", form.len()));
        rusqlite::Connection::open(&path).unwrap().execute_batch(form).unwrap();
        let times = [i64::MAX, i64::MIN, 0, -1, i64::MAX - 1, i64::MIN + 1];
        for now in [i64::MAX, i64::MIN, 7] {
            let store = OpenOptions::new().clock(move || now).open(&path).unwrap();
            for at in times {
                let submission = Submission::new("same").at(at);
                store.submit(submission.clone().key(EntryKey::new(format!("{now} {at}")))).wait().unwrap();
                store.submit(submission.clone().heard()).wait().unwrap();
                store.submit(submission).wait().unwrap();
                store.add(format!("at {at} and {now}"), None).wait().unwrap();
            }
            let lines = times.map(|at| {
                format!("{{\"prompt\":\"same\",\"created_at\":{at},\"cwd\":\"/{now}\",\"use_count\":{}}}\n", i64::MAX)
            });
            for _ in 0..2 {
                store.import(Import::json_lines("x", lines.concat().as_bytes()), |_| ()).unwrap();
            }
            store.submit(Submission::new("same").at(3)).wait().unwrap();
            assert!(store.check().unwrap().is_well());
            assert!(store.select(&Selection::all()).unwrap().iter().all(|entry| entry.use_count() > 0));
            assert_eq!(store.search("same", &SearchOptions::new(1)).unwrap().entries()[0].prompt(), "same");
        }
    }
}

const COUNTED: &str = "
CREATE TABLE history(id INTEGER PRIMARY KEY AUTOINCREMENT, prompt TEXT NOT NULL UNIQUE, created_at INTEGER NOT NULL, cwd TEXT, session_id TEXT, use_count INTEGER NOT NULL DEFAULT 1);
CREATE INDEX idx_history_created_at ON history(created_at DESC);";

#[test]
fn h5b_one_database_has_one_list_of_deleted_prompts_by_whatever_name_it_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let real = dir.path().join("real/history.db");
    let link = dir.path().join("link.db");
    HistoryStorage::open(&real).unwrap().close().unwrap();
    symlink(&real, &link).unwrap();
    let gone = Submission::new("gone").at(5).key(EntryKey::new("k"));
    let store = HistoryStorage::open(&link).unwrap();
    store.submit(gone.clone()).wait().unwrap();
    store.delete(Selection::all()).wait().unwrap();
    drop(store);
    let store = HistoryStorage::open(&real).unwrap();
    assert_eq!(store.submit(gone).wait().unwrap().recorded(), Recorded::Forgotten);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "nothing lies beside the link");
}

#[test]
fn h5b_the_list_of_deleted_prompts_stays_beside_the_database_wherever_the_process_goes() {
    let dir = tempfile::tempdir().unwrap();
    finish(start("forget-after-chdir", dir.path()).spawn().unwrap());
    assert!(dir.path().join("history.db.forgotten").is_file());
}

#[test]
fn k43_a_corrupt_database_behind_a_link_is_moved_aside_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let real = dir.path().join("real/history.db");
    let link = dir.path().join("link.db");
    std::fs::create_dir(real.parent().unwrap()).unwrap();
    std::fs::write(&real, "noise ".repeat(1000)).unwrap();
    symlink(&real, &link).unwrap();
    let rebuilt = OpenOptions::new().rebuild_if_corrupt(&link, |_| Ok(())).unwrap().unwrap();
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(std::fs::read(rebuilt.aside()).unwrap().starts_with(b"noise"));
    assert!(!std::fs::symlink_metadata(rebuilt.aside()).unwrap().is_symlink());
    assert!(HistoryStorage::open(&real).unwrap().check().unwrap().is_well());
}

#[test]
fn a_history_is_a_file_whatever_it_is_called_and_nothing_but_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let store = HistoryStorage::open(dir.path().join("history.db")).unwrap();
    for path in [&fifo, dir.path(), std::path::Path::new("/dev/zero")] {
        assert_eq!(HistoryStorage::open(path).unwrap_err().kind(), ErrorKind::Io, "{}", path.display());
        assert_eq!(store.import(Import::database(path), |_| ()).unwrap_err().kind(), ErrorKind::Io);
    }
    let named = HistoryStorage::open(dir.path().join(":memory:")).unwrap();
    named.add("kept", None).wait().unwrap();
    assert!(dir.path().join(":memory:").is_file());
}

#[test]
fn a_rule_that_matches_between_letters_says_nothing_and_redacting_twice_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let rules = dir.path().join("rules");
    std::fs::write(&rules, "between = \\b\nmaybe = a(?P<secret>b*)\n").unwrap();
    let redaction = Redaction::known().with_rules_of(&rules).unwrap();
    assert_eq!(redaction.apply("a c"), None);
    assert_eq!(redaction.apply("abb").unwrap().0, "a[redacted:maybe]");
    for secret in ["https://me:pw@host", "{\"password\": \"x\"}", "maybe abb", "token: Bearer abcdefabcdefabc"] {
        let (once, _) = redaction.apply(secret).unwrap();
        assert_eq!(redaction.apply(&once), None, "{once}");
    }
    std::fs::write(&rules, "large = (a{1000}){1000}\n").unwrap();
    assert_eq!(Redaction::known().with_rules_of(&rules).unwrap_err().line(), Some(1));
    std::fs::write(&rules, "slow = (x+x+)+y\n").unwrap();
    let redaction = Redaction::known().with_rules_of(&rules).unwrap();
    assert_eq!(redaction.apply(&"x".repeat(100_000)), None, "it ends");
}

#[test]
fn secrets_in_quotes_are_replaced_whole_however_deep_the_quotes() {
    for (text, expected) in [
        (r#"{"password": "a\"b c"}, x"#, r#"{"password": [redacted:password]}, x"#),
        (r#""{\"password\": \"hunter2 x\", \"a\": 1}""#, r#""{\"password\": [redacted:password], \"a\": 1}""#),
        (r#"{\\\"api_key\\\":\\\"k\\\",1}"#, r#"{\\\"api_key\\\":[redacted:password],1}"#),
    ] {
        assert_eq!(Redaction::known().apply(text).map(|(text, _)| text).as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn what_is_never_recorded_below_a_directory_is_not_recorded_in_it_either() {
    let dir = tempfile::tempdir().unwrap();
    let store = OpenOptions::new().never_record(["/secret/**"]).unwrap().open(dir.path().join("history.db")).unwrap();
    for (cwd, recorded) in [
        ("/secret", Recorded::Excluded),
        ("/secret/", Recorded::Excluded),
        ("/secret/a", Recorded::Excluded),
        ("/secrets", Recorded::Inserted),
    ] {
        assert_eq!(store.add("x", Some(cwd)).wait().unwrap().recorded(), recorded, "{cwd}");
    }
}
