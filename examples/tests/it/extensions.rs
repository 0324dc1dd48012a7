//! The extensions: todo, counter, injector, bookmarks; two of them side by side on one session.

use session_core::{AgentDir, Environment, Host, JsonText, SessionManager};

use crate::program::{Place, saved, text};

const TODO: &str = env!("CARGO_BIN_EXE_todo");
const COUNTER: &str = env!("CARGO_BIN_EXE_counter");
const INJECTOR: &str = env!("CARGO_BIN_EXE_injector");
const BOOKMARKS: &str = env!("CARGO_BIN_EXE_bookmarks");

#[test]
fn a_todo_list_survives_branches() {
    let place = Place::new();
    let file = place.session();
    let todo = |arguments: &[&str]| place.run(TODO, &[&[text(&file)], arguments].concat());
    let milk = saved(&todo(&["add", "milk"]));
    todo(&["add", "bread"]);
    todo(&["done", "1"]);
    assert_eq!(todo(&["list"]), "1. [x] milk\n2. [ ] bread\n");
    let size = std::fs::metadata(&file).unwrap().len();
    assert_eq!(todo(&["done", "1"]), "1. [x] milk\n2. [ ] bread\n", "nothing changes, nothing is saved");
    assert_eq!(std::fs::metadata(&file).unwrap().len(), size);

    let tea = todo(&["at", &milk, "add", "tea"]);
    assert_eq!(tea, format!("1. [ ] milk\n2. [ ] tea\nsaved as {}\n", saved(&tea)));
    assert_eq!(todo(&["list"]), "1. [ ] milk\n2. [ ] tea\n");
    assert!(place.fail(TODO, &[text(&file), "done", "9"]).contains("no such item"));
    assert!(place.fail(TODO, &[text(&file), "at", "nowhere", "list"]).contains("no such entry"));
}

#[test]
fn a_counter_with_two_schema_versions() {
    let place = Place::new();
    let file = place.session();
    let counter = |arguments: &[&str]| place.run(COUNTER, &[&[text(&file)], arguments].concat());
    assert_eq!(counter(&["v1"]), "1\n");
    assert_eq!(counter(&["v1"]), "2\n");
    assert_eq!(counter(&["step", "10"]), "12\n");
    assert_eq!(counter(&[]), "22\n");
    let told = counter(&["v1"]);
    assert!(told.contains("version 2") && told.ends_with("the data: {\"count\":22,\"step\":10}\n"), "{told}");
    assert_eq!(counter(&[]), "32\n");
    // What JavaScript saved.
    let host = Host::new(AgentDir::at(place.path("agent")).unwrap(), Environment::new("/w"));
    let mut session = SessionManager::open(&host, &file, None).unwrap();
    session.append_custom_entry("counter", Some(&JsonText::parse("7").unwrap()), None).unwrap();
    drop(session);
    assert_eq!(counter(&[]), "8\n");
}

#[test]
fn notes_are_injected_once_and_again_when_they_change() {
    let place = Place::new();
    let (file, notes) = (place.session(), place.path("notes.md"));
    std::fs::write(&notes, "Be brief.\n").unwrap();
    let say = |words: &str| place.run(INJECTOR, &[text(&file), text(&notes), words]);
    assert_eq!(say("hi"), "user: hi\ncustom: Be brief.\n");
    assert_eq!(say("there"), "user: hi\ncustom: Be brief.\nuser: there\n");
    std::fs::write(&notes, "Be kind.\n").unwrap();
    assert_eq!(say("now"), "user: hi\ncustom: Be brief.\nuser: there\nuser: now\ncustom: Be kind.\n");
    // The notes are gone: the listener fails, what the user said is stored.
    std::fs::remove_file(&notes).unwrap();
    let printed = say("end");
    assert!(printed.starts_with("(the listener notes failed: ") && printed.ends_with("user: end\n"), "{printed}");
}

#[test]
fn bookmarks_are_labels() {
    let place = Place::new();
    let (file, notes) = (place.session(), place.path("notes.md"));
    std::fs::write(&notes, "Be brief.\n").unwrap();
    place.run(INJECTOR, &[text(&file), text(&notes), "hi"]);
    let bookmarks = |arguments: &[&str]| place.run(BOOKMARKS, &[&[text(&file)], arguments].concat());
    bookmarks(&["set", "start"]);
    place.run(INJECTOR, &[text(&file), text(&notes), "later"]);
    bookmarks(&["set", "later"]);
    let list = bookmarks(&["list"]);
    let names: Vec<&str> = list.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(names, ["start:", "later:"]);
    let printed = bookmarks(&["say", "start", "another way"]);
    assert!(printed.ends_with(", after 2 messages\n"), "{printed}");
    bookmarks(&["remove", "later"]);
    assert_eq!(bookmarks(&["list"]).lines().count(), 1);
    assert!(place.fail(BOOKMARKS, &[text(&file), "say", "later", "x"]).contains("no bookmark is named later"));
}

#[test]
fn who_calls_a_program_wrongly_hears_how_it_is_called() {
    let place = Place::new();
    let file = place.session();
    for (program, words) in [
        (TODO, &[][..]),
        (TODO, &[text(&file), "burn"]),
        (COUNTER, &[]),
        (INJECTOR, &[text(&file)]),
        (BOOKMARKS, &[text(&file), "say"]),
        (env!("CARGO_BIN_EXE_follower"), &[]),
    ] {
        let output = place.command(program, words).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{program} {words:?}: {said}");
        assert!(said.starts_with("usage: "), "{said}");
    }
}

/// Two extensions on one session: branches, a compaction, a fork, a branched session, and each program opens it anew.
#[test]
fn two_extensions_side_by_side() {
    let place = Place::new();
    let file = place.session();
    let todo = |file, arguments: &[&str]| place.run(TODO, &[&[text(file)], arguments].concat());
    let count = |file| place.run(COUNTER, &[text(file)]);
    let host = Host::new(AgentDir::at(place.path("agent")).unwrap(), Environment::new("/w"));

    let milk = saved(&todo(&file, &["add", "milk"]));
    assert_eq!(count(&file), "1\n");
    todo(&file, &["add", "bread"]);
    assert_eq!(count(&file), "2\n");
    // Another branch from before the counter: it has the list of then and no count.
    todo(&file, &["at", &milk, "add", "tea"]);
    assert_eq!(count(&file), "1\n");

    let mut session = SessionManager::open(&host, &file, None).unwrap();
    let kept = session.leaf_id().unwrap().into();
    session
        .append_compaction(&session_core::CompactionEntry {
            summary: "they shopped".into(),
            short_summary: None,
            first_kept_entry_id: kept,
            tokens_before: 1,
            details: None,
            from_extension: None,
            preserve_data: None,
        })
        .unwrap();
    let fork = session.fork().unwrap().unwrap().new;
    let leaf = session.leaf_id().unwrap().to_owned();
    let branch = session.create_branched_session(&leaf).unwrap().unwrap();
    drop(session);
    for file in [&file, &fork, &branch] {
        assert_eq!(todo(file, &["list"]), "1. [ ] milk\n2. [ ] tea\n");
        assert_eq!(count(file), "2\n");
        assert_eq!(todo(file, &["done", "2"]).lines().nth(1), Some("2. [x] tea"));
        assert_eq!(count(file), "3\n");
    }
}
