//! Lifecycle: what listeners hear, in which order, and that nothing they do touches what is stored.

use std::sync::{Arc, Mutex};

use plugin_sdk::testing::FakeSession;
use plugin_sdk::{ErrorKind, Event, Extension, Failure, LONGEST_CHAIN, Opening, SessionWriter, Version};
use session_core::{EntryId, EntryKind};

type Heard = Arc<Mutex<Vec<Event>>>;

fn recording(session: &mut FakeSession) -> Heard {
    let heard = Heard::default();
    let sink = Arc::clone(&heard);
    session.listen("recorder", move |event, _| {
        sink.lock().unwrap().push(event.clone());
        Ok(())
    });
    heard
}

fn take(heard: &Heard) -> Vec<Event> {
    std::mem::take(&mut heard.lock().unwrap())
}

fn appended(id: &EntryId, kind: EntryKind) -> Event {
    Event::EntryAppended { id: id.clone(), kind }
}

#[test]
fn what_listeners_hear() {
    let mut session = FakeSession::new();
    let heard = recording(&mut session);
    assert_eq!(take(&heard), [Event::Opened(Opening::New)]);
    let a = session.user("a");
    let b = session.assistant("b");
    assert_eq!(take(&heard), [appended(&a, EntryKind::Message), appended(&b, EntryKind::Message)]);

    session.branch_to(&a);
    session.branch_to(&a);
    session.reset_leaf();
    let moved =
        |from: Option<&EntryId>, to: Option<&EntryId>| Event::LeafMoved { from: from.cloned(), to: to.cloned() };
    assert_eq!(take(&heard), [moved(Some(&b), Some(&a)), moved(Some(&a), None)]);
    let summary = session.branch_with_summary(Some(b.as_str()), "left", None, None).unwrap();
    assert_eq!(take(&heard), [moved(None, Some(&b)), appended(&summary, EntryKind::BranchSummary)]);
    assert!(session.branch_with_summary(Some("nowhere"), "x", None, None).is_err());
    assert!(session.branch("nowhere").is_err());
    assert_eq!(take(&heard), []);

    let old = session.file();
    session.fork().unwrap().unwrap();
    session.create_branched_session(a.as_str()).unwrap();
    session.set_session_file(&old).unwrap();
    session.new_session(None).unwrap();
    let openings = [Opening::Forked, Opening::Forked, Opening::Switched, Opening::New].map(Event::Opened);
    assert_eq!(take(&heard), openings);
    // Who comes later hears how the session at work was opened.
    assert_eq!(take(&recording(&mut session)), [Event::Opened(Opening::New)]);
    assert_eq!(take(&heard), []);
}

#[test]
fn listeners_append_and_all_hear_of_it_in_order() {
    let mut session = FakeSession::new();
    let echo = Extension::new("echo").unwrap().state::<String>(Version(1));
    session.listen("echo", move |event, session| {
        if let Event::EntryAppended { id, kind: EntryKind::Message } = event {
            echo.save(session, &id.to_string())?;
        }
        Ok(())
    });
    let heard = recording(&mut session);
    let user = session.user("a");
    let heard = take(&heard);
    assert_eq!(heard[1], appended(&user, EntryKind::Message));
    assert!(matches!(&heard[2], Event::EntryAppended { kind: EntryKind::Custom, .. }));
    session.assert_wrote("echo", &format!(r#"["{user}"]"#));
    assert!(session.take_failures().is_empty());
}

#[test]
fn two_listeners_that_answer_each_other_end_after_a_hundred() {
    let mut session = FakeSession::new();
    for name in ["ping", "pong"] {
        let state = Extension::new(name).unwrap().state::<u64>(Version(1));
        session.listen(name, move |event, session| {
            if matches!(event, Event::EntryAppended { .. }) {
                let n = state.load(session)?.unwrap_or(0);
                state.save(session, &(n + 1))?;
            }
            Ok(())
        });
    }
    session.user("go");
    let appends = session.wrote("ping").len() + session.wrote("pong").len();
    assert_eq!(appends, LONGEST_CHAIN);
    let failures = session.take_failures();
    assert!(!failures.is_empty());
    for failure in failures {
        let Failure::Error(error) = &failure.failure else { panic!("{failure}") };
        assert_eq!(error.downcast_ref::<plugin_sdk::Error>().unwrap().kind(), ErrorKind::ChainTooLong);
    }
    // The next call has a chain of its own.
    session.user("again");
    assert_eq!(session.wrote("ping").len() + session.wrote("pong").len(), 2 * LONGEST_CHAIN);
}

#[test]
fn neither_error_nor_panic_touches_the_append_or_the_others() {
    let mut session = FakeSession::new();
    session.listen("fails", |event, _| match event {
        Event::EntryAppended { .. } => Err("no".into()),
        _ => Ok(()),
    });
    session.listen("panics", |event, session| {
        if matches!(event, Event::EntryAppended { .. }) {
            session.append_label(session.manager().leaf_id().unwrap().to_owned().as_str(), Some("before the panic"))?;
            panic!("broken");
        }
        Ok(())
    });
    let heard = recording(&mut session);
    take(&heard);
    // FakeSession would panic if the append gave an error.
    let user = session.user("a");
    let events = take(&heard);
    assert_eq!(events.len(), 2, "the message, and the label that was written before the panic: {events:?}");

    let failures = session.take_failures();
    let failed: Vec<_> =
        failures.iter().map(|f| (f.listener.as_str(), matches!(f.failure, Failure::Panic(_)))).collect();
    assert_eq!(failed, [("fails", false), ("panics", true), ("fails", false)]);
    assert!(failures[1].to_string().contains("broken"), "{}", failures[1]);
    assert_eq!(failures[1].event, appended(&user, EntryKind::Message));

    session.user("b");
    assert_eq!(session.take_failures().len(), 1, "who panicked is not called again");
    session.reload();
    let texts = session.model_reads();
    assert_eq!(texts, ["a", "b"]);
}

#[test]
fn failures_that_nobody_takes_do_not_pile_up() {
    let mut session = FakeSession::new();
    session.listen("fails", |_, _| Err("no".into()));
    for n in 0..150 {
        session.user(&n.to_string());
    }
    assert_eq!(session.take_failures().len(), 100);
}
