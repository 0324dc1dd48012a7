//! What must not be in the history: deleted prompts [H5b, K60], secrets, directories that are never recorded.

use history::{EntryKey, HistoryStorage, Import, OpenOptions, Recorded, Redaction, Scope, Selection, Submission};

fn keyed(prompt: &str, at: i64) -> Submission {
    Submission::new(prompt).cwd("/p").session("s1").at(at).key(EntryKey::new(format!("{prompt}@{at}")))
}

#[test]
fn h5b_where_no_list_can_be_kept_nothing_is_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    let store = HistoryStorage::open(&path).unwrap();
    store.add("stays", None).wait().unwrap();
    std::os::unix::fs::symlink("nowhere", dir.path().join("history.db.forgotten")).unwrap();
    let error = store.delete(Selection::all()).wait().unwrap_err();
    assert!(error.to_string().contains("nothing was deleted"), "{error}");
    assert_eq!(store.stats().unwrap().prompts, 1);
    assert!(!dir.path().join("nowhere").exists());
}

#[test]
fn k60_a_deleted_prompt_stays_away() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    let options = OpenOptions::new().clock(|| 1000);
    let store = options.open(&path).unwrap();
    let all = [keyed("keep me", 1), keyed("my unspeakable secret", 2), keyed("keep me too", 3)];
    let sync = |store: &HistoryStorage| -> Vec<Recorded> {
        let done =
            store.apply(all.to_vec(), |_, outcomes| Ok(outcomes.iter().map(history::Outcome::recorded).collect()));
        done.wait().unwrap()
    };
    sync(&store);
    let selection = Selection::all().matching("unspeakable").unwrap();
    assert_eq!(store.select(&selection).unwrap().len(), 1);
    let deleted = store.delete(selection).wait().unwrap();
    assert_eq!(deleted.rows(), 1);
    assert_eq!(deleted.sessions().collect::<Vec<_>>(), ["s1"], "who still holds the text is said");
    assert!(deleted.log_truncated());
    assert_eq!(sync(&store), [Recorded::Known, Recorded::Forgotten, Recorded::Known]);
    let line = "{\"prompt\":\"my unspeakable secret\",\"created_at\":2}\n";
    let sum = store.import(Import::json_lines("old", line.as_bytes()), |_| ()).unwrap();
    assert_eq!((sum.added, sum.refused), (0, 1));
    assert!(store.check().unwrap().is_well());
    store.close().unwrap();
    for file in std::fs::read_dir(dir.path()).unwrap() {
        let content = std::fs::read(file.unwrap().path()).unwrap();
        assert!(memchr::memmem::find(&content, b"unspeakable").is_none(), "no trace in any file");
    }
    // Rebuilt from the sessions, with nothing left but the list.
    std::fs::write(&path, "noise ".repeat(1000)).unwrap();
    options.rebuild_if_corrupt(&path, |give| all.iter().cloned().try_for_each(give)).unwrap().unwrap();
    let store = options.open(&path).unwrap();
    let prompts: Vec<_> =
        store.recent(9, &Scope::everywhere()).unwrap().iter().map(|entry| entry.prompt().to_owned()).collect();
    assert_eq!(prompts, ["keep me too", "keep me"]);
    assert_eq!(store.add("my unspeakable secret", None).wait().unwrap().recorded(), Recorded::Inserted, "typed anew");
}

#[test]
fn h5b_deleting_by_row_and_by_scope() {
    let dir = tempfile::tempdir().unwrap();
    let store = HistoryStorage::open(dir.path().join("history.db")).unwrap();
    for (prompt, cwd) in [("a", "/p"), ("b", "/p/q"), ("c", "/r"), ("d", "/p")] {
        store.add(prompt, Some(cwd)).wait().unwrap();
    }
    let first = store.select(&Selection::all()).unwrap()[0].id();
    assert_eq!(store.delete(Selection::rows([first])).wait().unwrap().rows(), 1);
    assert_eq!(store.delete(Selection::all().scope(Scope::below("/p"))).wait().unwrap().rows(), 2);
    assert_eq!(store.delete(Selection::rows([first])).wait().unwrap().rows(), 0);
    assert_eq!(store.recent(9, &Scope::everywhere()).unwrap()[0].prompt(), "c");
}

#[test]
fn secrets_are_replaced_before_anything_is_written_and_it_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    let store = OpenOptions::new().redact(Redaction::known()).open(&path).unwrap();
    let outcome = store.add("login with password=tr0ub4dor please", None).wait().unwrap();
    assert_eq!(outcome.redacted(), ["password"]);
    assert_eq!(
        store.recent(1, &Scope::everywhere()).unwrap()[0].prompt(),
        "login with password=[redacted:password] please"
    );
    store.close().unwrap();
    for file in std::fs::read_dir(dir.path()).unwrap() {
        let content = std::fs::read(file.unwrap().path()).unwrap();
        assert!(memchr::memmem::find(&content, b"tr0ub4dor").is_none());
    }
}

#[test]
fn some_directories_are_never_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let options = OpenOptions::new().never_record(["/home/*/private", "/home/*/private/**"]).unwrap();
    let store = options.open(dir.path().join("history.db")).unwrap();
    for (cwd, recorded) in [
        ("/home/u/private", Recorded::Excluded),
        ("/home/u/private/deep/er", Recorded::Excluded),
        ("/home/u/work", Recorded::Inserted),
    ] {
        assert_eq!(store.add("x", Some(cwd)).wait().unwrap().recorded(), recorded, "{cwd}");
    }
    assert_eq!(OpenOptions::new().never_record(["[a"]).unwrap_err().kind(), history::ErrorKind::Invalid);
}

#[test]
fn h5b_a_torn_record_of_a_deletion_spoils_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    let list = dir.path().join("history.db.forgotten");
    let store = OpenOptions::new().clock(|| 1000).open(&path).unwrap();
    let forget = |prompt: &str| {
        store.submit(keyed(prompt, 1)).wait().unwrap();
        store.delete(Selection::all().matching(prompt).unwrap()).wait().unwrap();
    };
    forget("first");
    let whole = std::fs::read_to_string(&list).unwrap();
    std::fs::write(&list, format!("{whole}{{\"prompt\":\"0123")).unwrap();
    forget("second");
    for prompt in ["first", "second"] {
        assert_eq!(store.submit(keyed(prompt, 1)).wait().unwrap().recorded(), Recorded::Forgotten, "{prompt}");
    }
    assert!(!std::fs::read_to_string(&list).unwrap().contains("first"), "it holds no text");
}
