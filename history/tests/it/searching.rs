//! Searching: [H3], [H6], K39, K40, K45, and that the fast order is the exact one.

use history::{HistoryStorage, Import, Order, Scope, SearchOptions, Submission, rusqlite};
use proptest::prelude::*;

fn store() -> (tempfile::TempDir, HistoryStorage) {
    let dir = tempfile::tempdir().unwrap();
    let store = HistoryStorage::open(dir.path().join("history.db")).unwrap();
    (dir, store)
}

fn found(store: &HistoryStorage, query: &str) -> Vec<String> {
    let page = store.search(query, &SearchOptions::new(1000)).unwrap();
    page.entries().iter().map(|entry| entry.prompt().to_owned()).collect()
}

#[test]
fn k39_k40_whatever_is_asked_is_text_and_is_found() {
    let (_dir, store) = store();
    for (prompt, queries) in [
        ("see POL-358 again", &["POL-358", "pol-35", "358"][..]),
        ("please don't", &["don't", "DON'T"]),
        ("TODO: x marks", &["TODO: x", "todo:"]),
        ("version 38.101 is", &["38.101", "38.1"]),
        ("grep a* here", &["a*", "grep a*"]),
        ("call NEAR(b)", &["NEAR(", "near(b"]),
        ("rm -x now", &["-x", "rm -x"]),
        ("sure 100% yes", &["100%"]),
        ("name a_b c", &["a_b"]),
        ("open LoginForm.tsx now", &["Form.tsx", "form.ts", "LoginForm"]),
        ("我想修复登录页面", &["登录", "修复", "页面"]),
        ("使用React组件", &["React", "react", "组件"]),
        ("ภาษาไทยไม่มีช่องว่าง", &["ไทย", "ช่องว่าง"]),
        ("한국어를배우다", &["국어", "배우"]),
        ("🎉 party", &["🎉"]),
        ("Việt Nam tiếng", &["viet", "TIENG", "tie\u{302}\u{301}ng"]),
        ("nul\0inside it", &["inside", "nul\0inside", "nul"]),
    ] {
        store.add(prompt, None).wait().unwrap();
        for query in queries {
            assert!(
                found(&store, query).contains(&prompt.to_owned()),
                "{query} finds {prompt}: {:?}",
                found(&store, query)
            );
        }
    }
    for nothing in ["", "   ", "\0", "\u{feff}", "\t\n"] {
        assert!(found(&store, nothing).is_empty(), "{nothing:?}");
    }
    let page = store.search(&"x".repeat(100_000), &SearchOptions::new(5)).unwrap();
    assert!(page.entries().is_empty() && !page.stopped_early());
    assert!(found(&store, &"a.".repeat(50_000)).is_empty());
    assert!(found(&store, &"a ".repeat(5_000)).len() < 20);
}

#[test]
fn h3_prefixes_and_insides_of_words_share_a_page_newest_first() {
    let (_dir, store) = store();
    for (prompt, at) in [("informal", 1), ("form first", 2), ("LoginForm", 3), ("form last", 4)] {
        store.submit(Submission::new(prompt).at(at)).wait().unwrap();
    }
    assert_eq!(found(&store, "form"), ["form last", "LoginForm", "form first", "informal"]);
    let best = store.search("form", &SearchOptions::new(10).order(Order::Relevance)).unwrap();
    assert!(best.entries()[0].prompt().starts_with("form "), "{best:?}");
    let page = store.search("form", &SearchOptions::new(2)).unwrap();
    assert_eq!(page.entries().len(), 2);
    assert!(!page.stopped_early());
}

#[test]
fn k41_each_scope_combines_with_search() {
    let (_dir, store) = store();
    for (prompt, cwd, session, at) in
        [("fix it", "/a", "s1", 1), ("fix it", "/b", "s2", 2), ("fix it", "/a", "s1", 3), ("fix that", "/a/c", "s3", 4)]
    {
        store.submit(Submission::new(prompt).cwd(cwd).session(session).at(at)).wait().unwrap();
    }
    for (scope, expected) in [
        (Scope::everywhere(), &["fix that", "fix it"][..]),
        (Scope::directory("/a"), &["fix it"]),
        (Scope::directory("/b"), &["fix it"]),
        (Scope::below("/a"), &["fix that", "fix it"]),
        (Scope::everywhere().session("s3"), &["fix that"]),
        (Scope::everywhere().since(2).until(2), &["fix it"]),
        (Scope::directory("/a").since(4), &[]),
    ] {
        for query in ["fi", "ix", "fix"] {
            let page = store.search(query, &SearchOptions::new(10).scope(scope.clone())).unwrap();
            let prompts: Vec<_> = page.entries().iter().map(history::Entry::prompt).collect();
            assert_eq!(prompts, expected, "{query} in {scope:?}");
        }
    }
}

#[test]
fn h6_looking_into_prompts_is_bounded_and_says_so() {
    let (_dir, store) = store();
    let lines: String =
        std::iter::once("needlework\n".to_owned()).chain((0..10_050).map(|n| format!("edlew {n}\n"))).collect();
    store.import(Import::lines("x", lines.as_bytes()), |_| ()).unwrap();
    let page = store.search("edlew 99999", &SearchOptions::new(5)).unwrap();
    assert!(page.entries().is_empty());
    assert!(!page.stopped_early(), "a word that the index does not know is looked for everywhere here");
    let page = store.search("edlew needle", &SearchOptions::new(5)).unwrap();
    assert!(page.stopped_early(), "the index knows both words; only the newest prompts were looked into for more");
    assert_eq!(found(&store, "eedlewor"), ["needlework"]);
}

/// Whether row order or time order is asked for, pages are the same.
fn exact(conn: &rusqlite::Connection, token: &str, limit: usize) -> Vec<i64> {
    let mut statement = conn
        .prepare(
            "SELECT h.id FROM history_fts f JOIN history h ON h.id = f.rowid WHERE history_fts MATCH ?
             ORDER BY h.created_at DESC, h.id DESC LIMIT ?",
        )
        .unwrap();
    let ids = statement.query_map((format!("\"{token}\"*"), i64::try_from(limit).unwrap()), |row| row.get(0));
    ids.unwrap().map(Result::unwrap).collect()
}

#[derive(Debug, Clone)]
enum Change {
    /// A live or dated add of ours.
    Add(u8, Option<i64>),
    /// The owner inserts beside us.
    Foreign(u8, i64),
    /// The owner deletes or changes a row; its triggers keep FTS in step.
    Delete(u8),
    Update(u8, u8),
    Forget(u8),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (any::<u8>(), prop::option::weighted(0.2, 0..60_i64)).prop_map(|(word, at)| Change::Add(word, at)),
        2 => (any::<u8>(), 20..60_i64).prop_map(|(word, at)| Change::Foreign(word, at)),
        1 => any::<u8>().prop_map(Change::Delete),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(row, word)| Change::Update(row, word)),
        1 => any::<u8>().prop_map(Change::Forget),
    ]
}

proptest! {
    #![proptest_config(crate::cases(40))]

    /// K45: rows and index agree after any changes; and the fast order gives the pages of the exact one.
    #[test]
    fn property_k45_index_and_order_hold_after_any_changes(changes in prop::collection::vec(change(), 1..40)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.db");
        let time = std::sync::Arc::new(std::sync::atomic::AtomicI64::new(30));
        let clock = std::sync::Arc::clone(&time);
        let store = history::OpenOptions::new()
            .clock(move || clock.fetch_add(1, std::sync::atomic::Ordering::SeqCst))
            .open(&path)
            .unwrap();
        let owner = rusqlite::Connection::open(&path).unwrap();
        let text = |word: u8| format!("w{} x{} tail{word}", word % 3, word % 7);
        for change in changes {
            match change {
                Change::Add(word, None) => drop(store.add(text(word), None).wait().unwrap()),
                Change::Add(word, Some(at)) => drop(store.submit(Submission::new(text(word)).at(at)).wait().unwrap()),
                Change::Foreign(word, at) => {
                    owner.execute("INSERT INTO history(prompt, created_at) VALUES (?, ?)", (text(word), at)).unwrap();
                }
                Change::Delete(row) => {
                    owner.execute("DELETE FROM history WHERE id = ?", [i64::from(row % 24)]).unwrap();
                }
                Change::Update(row, word) => {
                    owner.execute("UPDATE history SET prompt = ? WHERE id = ?", (text(word), i64::from(row % 24))).unwrap();
                }
                Change::Forget(row) => {
                    let rows = [history::RowId::from(i64::from(row % 24))];
                    store.delete(history::Selection::rows(rows)).wait().unwrap();
                }
            }
            for (token, limit) in [("w0", 3), ("x1", 2), ("w", 5), ("tail", 1000)] {
                let page = store.search(token, &SearchOptions::new(limit)).unwrap();
                let ids: Vec<i64> = page.entries().iter().map(|entry| entry.id().get()).collect();
                prop_assert_eq!(ids, exact(&owner, token, limit));
            }
        }
        owner.execute("INSERT INTO history_fts(history_fts, rank) VALUES ('integrity-check', 1)", []).unwrap();
        prop_assert!(store.check().unwrap().is_well());
    }

    /// No input is a syntax error, and every prompt is found by any piece of its own words [H3].
    #[test]
    fn property_h3_any_text_can_be_asked_for(query in any::<String>(), prompt in "\\PC{1,40}") {
        let (_dir, store) = store();
        store.add(prompt.as_str(), None).wait().unwrap();
        store.search(&query, &SearchOptions::new(10)).unwrap();
        if prompt.chars().any(char::is_alphanumeric) {
            prop_assert_eq!(found(&store, &prompt), vec![prompt.trim().to_owned()]);
        }
    }
}

#[test]
fn h3_queries_of_any_length_are_answered() {
    let dir = tempfile::tempdir().unwrap();
    let store = HistoryStorage::open(dir.path().join("history.db")).unwrap();
    let words: Vec<String> = (0..10_000).map(|n| format!("w{n}")).collect();
    store.add(words.join(" "), None);
    store.add(words.join("."), None);
    store.add(format!("中{}文", "字".repeat(100_000)), None);
    store.add("brief", None).wait().unwrap();
    let found = |query: &str| store.search(query, &SearchOptions::new(10)).unwrap().entries().len();
    assert_eq!(found(&words.join(" ")), 2);
    assert_eq!(found(&words.join(".")), 2);
    assert_eq!(found(&"字".repeat(90_000)), 1);
    assert_eq!(found(&"x".repeat(1 << 20)), 0);
    assert_eq!(found(&"a ".repeat(1 << 19)), 0);
    assert_eq!(found(&"\" OR * ".repeat(100_000)), 0);
    assert_eq!(found(&"(".repeat(1 << 20)), 0);
    assert_eq!(found(&format!("w1 {}", "- ".repeat(1 << 18))), 2);
    for limit in [0, 1, 1000, i64::MAX, i64::MIN] {
        let page = store.search("w1", &SearchOptions::new(limit)).unwrap();
        assert_eq!(page.entries().len(), usize::try_from(limit.clamp(0, 2)).unwrap());
    }
}
