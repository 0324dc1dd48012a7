//! What other processes append: each entry once, half a line never.

use std::sync::Arc;

use plugin_sdk::testing::FakeSession;
use plugin_sdk::{Extension, SessionWriter, Subscription, Update, Version};
use session_core::follow::Transition;
use session_core::storage::OpenMode;
use session_core::{EntryKind, NameSource};

fn ids(update: &Update) -> Vec<String> {
    update.entries().map(|entry| entry.id().to_string()).collect()
}

#[test]
fn another_process_s_appends_and_not_our_own() {
    let state = Extension::new("n").unwrap().state::<u32>(Version(1));
    let mut session = FakeSession::new();
    session.user("before");
    let mut theirs = session.other_process();
    let mut others = Subscription::to(session.manager());
    assert!(ids(&others.look_beside(&session).unwrap()).is_empty());

    let first = state.save(&mut theirs, &1).unwrap().entry().unwrap().to_string();
    // Our own append takes theirs into our session; it is news all the same.
    let own = session.user("ours").to_string();
    let second = state.save(&mut theirs, &2).unwrap().entry().unwrap().to_string();
    let update = others.look_beside(&session).unwrap();
    assert_eq!(ids(&update), [first, second]);
    assert!(update.entries().all(|entry| entry.kind() == EntryKind::Custom));
    let data = update.entries().next().unwrap().json().unwrap();
    assert_eq!(data.view().get("data").unwrap().integer(), Some(1));
    assert!(!ids(&update).contains(&own));
    assert!(ids(&others.look_beside(&session).unwrap()).is_empty());
    assert_eq!(others.look().unwrap().transition(), Transition::Unchanged);
}

#[test]
fn each_entry_once_through_rewrites() {
    let mut session = FakeSession::new();
    session.user("a");
    let mut theirs = session.other_process();
    let mut others = Subscription::to(session.manager());
    let say = |manager: &mut session_core::SessionManager| {
        let message = session_core::JsonText::parse(r#"{"role":"user","content":"b"}"#).unwrap();
        manager.append_message(&message).unwrap().to_string()
    };
    let b = say(&mut theirs);
    theirs.set_session_name("a name", NameSource::User).unwrap();
    let c = say(&mut theirs);
    assert_eq!(ids(&others.look().unwrap()), [b, c]);
    theirs.set_session_name("another name", NameSource::User).unwrap();
    let update = others.look().unwrap();
    assert!(update.transition().is_from_the_beginning());
    assert!(ids(&update).is_empty());
}

#[test]
fn half_a_line_waits_and_a_file_from_its_beginning() {
    let mut session = FakeSession::new();
    let a = session.user("a").to_string();
    let (storage, file) = (Arc::clone(session.host().storage()), session.file());
    let mut others = Subscription::to_file(Arc::clone(&storage), &file);
    assert_eq!(others.file(), file);
    assert_eq!(ids(&others.look().unwrap()), [a]);
    let line = r#"{"type":"x","id":"0000aaaa","parentId":null}"#;
    for (piece, delivered) in [(&line[..10], 0), (&line[10..], 0), ("\n", 1)] {
        storage.open_writer(&file, OpenMode::Append).unwrap().write(piece.as_bytes()).unwrap();
        assert_eq!(others.look().unwrap().entries().count(), delivered);
    }
    storage.unlink(&file).unwrap();
    assert_eq!(others.look().unwrap().transition(), Transition::Deleted);
}

#[test]
fn a_session_that_moved_is_followed() {
    let mut session = FakeSession::new();
    session.user("a");
    let mut others = Subscription::to(session.manager());
    others.look().unwrap();
    session.move_to(std::path::Path::new("/work/elsewhere")).unwrap();
    assert_eq!(others.look().unwrap().transition(), Transition::Deleted);
    others.follow_to(&session.file());
    let b = session.user("b").to_string();
    assert_eq!(ids(&others.look().unwrap()), [b]);
}

#[test]
fn a_session_that_is_not_written_yet() {
    let fake = FakeSession::new();
    let mut session = session_core::SessionManager::create(fake.host(), std::path::Path::new("/w"), None).unwrap();
    let mut others = Subscription::to(&session);
    assert_eq!(others.look().unwrap().transition(), Transition::NotYet);
    Extension::new("n").unwrap().state::<u32>(Version(1)).save(&mut session, &1).unwrap();
    session.ensure_on_disk().unwrap();
    assert_eq!(others.look().unwrap().entries().count(), 1);
}
