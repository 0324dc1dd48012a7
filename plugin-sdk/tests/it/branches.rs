//! State follows the branch, and survives what happens to sessions.

use std::path::Path;

use plugin_sdk::testing::FakeSession;
use plugin_sdk::{ErrorKind, Extension, State, Version};
use session_core::SessionManager;

fn state() -> State<u32> {
    Extension::new("n").unwrap().state(Version(1))
}

#[test]
fn k26_state_is_that_of_the_branch_and_both_can_be_listed() {
    let mut session = FakeSession::new();
    let fork = session.user("where it forks");
    let on_a = state().save(&mut session, &1).unwrap().entry().unwrap().clone();
    session.branch_to(&fork);
    let on_b = state().save(&mut session, &2).unwrap().entry().unwrap().clone();
    session.branch_to(&on_a);

    assert_eq!(state().load(&session).unwrap(), Some(1));
    let all: Vec<_> = state().all(&session).unwrap();
    let all: Vec<_> = all.iter().map(|r| (r.entry().clone(), *r.value().unwrap().unwrap(), r.is_on_path())).collect();
    assert_eq!(all, [(on_a.clone(), 1, true), (on_b.clone(), 2, false)]);
    // Before either was saved there is none, and moving the leaf changes what is asked of an entry in no way.
    assert_eq!(state().load_at(&session, fork.as_str()).unwrap(), None);
    assert_eq!(state().load_at(&session, on_b.as_str()).unwrap(), Some(2));
    assert_eq!(state().load_at(&session, "nowhere").unwrap_err().kind(), ErrorKind::UnknownEntry);

    // The state of the other branch is no reason not to save here.
    session.branch_to(&fork);
    assert!(state().save(&mut session, &1).unwrap().entry().is_some());
    session.reset_leaf();
    assert_eq!(state().load(&session).unwrap(), None);
}

#[test]
fn history_is_that_of_the_path() {
    let mut session = FakeSession::new();
    for n in 1..=3 {
        session.advance_millis(1_000);
        state().save(&mut session, &n).unwrap();
    }
    let second = state().history(&session).unwrap()[1].entry().clone();
    session.branch_to(&second);
    state().save(&mut session, &9).unwrap();
    session.reload();
    let history = state().history(&session).unwrap();
    let values: Vec<_> = history.iter().map(|record| *record.value().unwrap().unwrap()).collect();
    assert_eq!(values, [1, 2, 9]);
    let seconds: Vec<_> = history.iter().map(|record| record.timestamp().unwrap().seconds() % 60).collect();
    assert_eq!(seconds, [1, 2, 3]);
    assert_eq!(state().all(&session).unwrap().len(), 4);
}

/// Everything that a session goes through, with the state checked after each.
#[test]
fn state_survives_compaction_fork_branched_sessions_moves_and_reload() {
    let mut session = FakeSession::new();
    session.user("a");
    state().save(&mut session, &7).unwrap();
    let kept = session.assistant("b");
    let check = |session: &FakeSession| {
        assert_eq!(state().load(session).unwrap(), Some(7));
        assert_eq!(state().load(&session.other_process()).unwrap(), Some(7));
    };

    session.compact(&kept, "what came before");
    check(&session);
    session.reload();
    check(&session);
    session.fork().unwrap().unwrap();
    check(&session);
    let leaf = session.user("c");
    session.create_branched_session(leaf.as_str()).unwrap().unwrap();
    check(&session);
    session.move_to(Path::new("/work/elsewhere")).unwrap();
    check(&session);
    // A fork of the file for another directory.
    let (host, file) = (plugin_sdk::SessionWriter::host(&session).clone(), session.file());
    let copy = SessionManager::fork_from(&host, &file, Path::new("/work/third"), None).unwrap();
    assert_eq!(state().load(&copy).unwrap(), Some(7));
    // All of that appended nothing.
    session.assert_wrote("n", "[7]");
    assert_eq!(state().save(&mut session, &7).unwrap().entry(), None);
}

#[test]
fn a_branched_session_has_the_state_of_its_branch() {
    let mut session = FakeSession::new();
    let first = state().save(&mut session, &1).unwrap().entry().unwrap().clone();
    session.assistant("an answer");
    state().save(&mut session, &2).unwrap();
    let labelled = session.append_label_change(first.as_str(), Some("here")).unwrap();
    let on_label = session.user("hangs on a label");
    session.branch_to(&labelled);
    session.create_branched_session(first.as_str()).unwrap();
    assert_eq!(state().load(&session).unwrap(), Some(1));
    assert_eq!(state().all(&session).unwrap().len(), 1);
    assert!(session.manager().session().entry(on_label.as_str()).is_none());
}

#[test]
fn a_session_in_memory_keeps_state_too() {
    let fake = FakeSession::new();
    let host = plugin_sdk::SessionWriter::host(&fake).clone();
    let mut session = SessionManager::in_memory(&host, Path::new("/w")).unwrap();
    state().save(&mut session, &1).unwrap();
    assert_eq!(state().save(&mut session, &1).unwrap().entry(), None);
    assert_eq!(state().load(&session).unwrap(), Some(1));
}

#[test]
fn state_is_found_in_any_session_that_can_be_read() {
    let mut session = FakeSession::new();
    state().save(&mut session, &1).unwrap();
    // A torn line and a payload that is no JSON, on the path.
    session.rewrite(|text| {
        text + r#"{"type":"custom","id":"0000aaaa","parentId":"00000002","timestamp":"x","customType":"n","data":nonsense}"#
            + "\n{\"type\":\"cus"
    });
    assert_eq!(state().load(&session).unwrap(), Some(1));
    assert!(!session.manager().session().examine().unwrap().list().is_empty());
    let read_only = session.manager().session();
    assert_eq!(state().load(read_only).unwrap(), Some(1));
}
