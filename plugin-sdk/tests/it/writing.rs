//! When writing fails: an error for what is not stored, none for what is, and nothing lost.

use std::sync::{Arc, Mutex};

use plugin_sdk::testing::FakeSession;
use plugin_sdk::{ErrorKind, Event, Extension, Saved, SessionWriter, State, Version};

fn state() -> State<u32> {
    Extension::new("n").unwrap().state(Version(1))
}

#[test]
fn a_state_that_was_not_written_is_an_error_until_it_is() {
    // [W5, W5a, W6]
    let mut session = FakeSession::new();
    state().save(&mut session, &1).unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&heard);
    session.listen("recorder", move |event, _| {
        if let Event::EntryAppended { id, .. } = event {
            sink.lock().unwrap().push(id.clone());
        }
        Ok(())
    });

    session.host().storage().unlink(&session.file()).unwrap();
    let error = state().save(&mut session, &2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Session);
    assert_eq!(error.session().unwrap().kind(), session_core::ErrorKind::Deleted);
    let entry = error.entry().unwrap().clone();
    // It is in memory, which is no reason to call it saved.
    assert_eq!(state().load(&session).unwrap(), Some(2));
    assert_eq!(state().save(&mut session, &2).unwrap_err().kind(), ErrorKind::Session);
    assert!(heard.lock().unwrap().is_empty(), "nobody is told of what is not stored");

    session.recover().unwrap();
    assert_eq!(*heard.lock().unwrap(), [entry]);
    assert_eq!(state().save(&mut session, &2).unwrap(), Saved::Unchanged);
    session.assert_wrote("n", "[1, 2]");
    session.reload();
    assert_eq!(state().load(&session).unwrap(), Some(2));
}

#[test]
fn a_session_that_can_only_be_read() {
    // [F9]
    let mut session = FakeSession::new();
    state().save(&mut session, &1).unwrap();
    session.rewrite(|text| text.replace(r#""version":3"#, r#""version":4"#));
    assert_eq!(state().load(&session).unwrap(), Some(1));
    let before = session.text();
    let error = state().save(&mut session, &2).unwrap_err();
    assert_eq!(error.session().unwrap().kind(), session_core::ErrorKind::ReadOnly);
    assert_eq!(error.entry(), None);
    assert_eq!(session.text(), before);
}

#[test]
fn state_of_a_session_that_is_not_written_yet_goes_with_it() {
    // [W2]
    let fake = FakeSession::new();
    let mut session = session_core::SessionManager::create(fake.host(), std::path::Path::new("/w"), None).unwrap();
    state().save(&mut session, &1).unwrap();
    assert_eq!(state().save(&mut session, &1).unwrap(), Saved::Unchanged);
    assert!(!session.is_on_disk());
    session.ensure_on_disk().unwrap();
    let file = session.file().unwrap().to_owned();
    let again = session_core::SessionManager::open(fake.host(), &file, None).unwrap();
    assert_eq!(state().load(&again).unwrap(), Some(1));
}
