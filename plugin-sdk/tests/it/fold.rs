//! Folding the path: the same with snapshots as without, on every branch, and cheap on long sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use plugin_sdk::testing::FakeSession;
use plugin_sdk::{ErrorKind, Extension, Fold, Version};
use proptest::prelude::*;
use session_core::{EntryId, EntryKind, Json};

/// The texts of the user on the path, joined; counts how often it is called.
fn texts(calls: &Arc<AtomicUsize>, version: u32) -> Fold<String> {
    let calls = Arc::clone(calls);
    let step = move |state: &mut String, step: &mut plugin_sdk::Step<'_, '_>| {
        calls.fetch_add(1, Ordering::Relaxed);
        if step.entry().kind() == EntryKind::Message {
            let json = step.json()?;
            let message = json.view().get("message");
            state.push_str(&message.and_then(|m| m.get("content")).and_then(Json::text).unwrap_or_default());
        }
        Ok(())
    };
    Extension::new("texts").unwrap().fold("all", Version(version), step).unwrap()
}

#[test]
fn a_long_session_is_folded_from_its_latest_snapshot() {
    let calls = Arc::new(AtomicUsize::new(0));
    let fold = texts(&calls, 1).snapshot_every(100);
    let mut session = FakeSession::new();
    let mut most = 0;
    for n in 0..1_000 {
        session.user(&(n % 10).to_string());
        calls.store(0, Ordering::Relaxed);
        fold.keep(&mut session).unwrap();
        most = most.max(calls.load(Ordering::Relaxed));
    }
    assert_eq!(most, 100);
    assert_eq!(session.wrote("texts/all").len(), 10);
    session.reload();
    let folded = fold.read(&session).unwrap();
    assert_eq!((folded.state, folded.entries), ("0123456789".repeat(100), 0));
    // Nothing new: nothing is written.
    fold.keep(&mut session).unwrap();
    fold.snapshot_every(0).keep(&mut session).unwrap();
    assert_eq!(session.wrote("texts/all").len(), 10);
}

#[test]
fn snapshots_that_can_not_be_used_are_passed_over() {
    let calls = Arc::new(AtomicUsize::new(0));
    let mut session = FakeSession::new();
    session.user("a");
    texts(&calls, 1).snapshot_every(1).keep(&mut session).unwrap();
    session.user("b");
    texts(&calls, 1).snapshot_every(1).keep(&mut session).unwrap();
    // Another version folds all anew, and takes no snapshot for an event.
    let folded = texts(&calls, 2).read(&session).unwrap();
    assert_eq!((folded.state.as_str(), folded.entries), ("ab", 2));
    // A rewrite lost the latest snapshot's version: the one before it serves.
    session.rewrite(|text| text.replace(r#""data":"ab","schemaVersion":1"#, r#""data":"ab""#));
    let folded = texts(&calls, 1).read(&session).unwrap();
    assert_eq!((folded.state.as_str(), folded.entries), ("ab", 1));
}

#[test]
fn a_step_that_fails_names_the_entry() {
    let mut session = FakeSession::new();
    session.user("a");
    let bad = session.user("b");
    let at = bad.clone();
    let fold = Extension::new("x")
        .unwrap()
        .fold(
            "y",
            Version(1),
            move |(): &mut (), step| {
                if step.entry().id() == at.as_str() { Err("not this one".into()) } else { Ok(()) }
            },
        )
        .unwrap();
    let error = fold.read(&session).unwrap_err();
    assert_eq!((error.kind(), error.entry()), (ErrorKind::StepFailed, Some(&bad)));
    assert!(fold.read_at(&session, "nowhere").is_err_and(|error| error.kind() == ErrorKind::UnknownEntry));
}

#[derive(Clone, Debug)]
enum Action {
    Say(u8),
    Branch(prop::sample::Index),
    Keep,
    Reload,
    Compact,
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let action = prop_oneof![
        4 => any::<u8>().prop_map(Action::Say),
        2 => any::<prop::sample::Index>().prop_map(Action::Branch),
        3 => Just(Action::Keep),
        1 => Just(Action::Reload),
        1 => Just(Action::Compact),
    ];
    prop::collection::vec(action, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn property_with_snapshots_as_without(actions in actions(), every in 1_usize..5) {
        let calls = Arc::new(AtomicUsize::new(0));
        let fold = texts(&calls, 1).snapshot_every(every);
        let plain = texts(&calls, 9);
        let mut session = FakeSession::new();
        let mut entries: Vec<EntryId> = Vec::new();
        for action in actions {
            match action {
                Action::Say(n) => entries.push(session.user(&n.to_string())),
                Action::Branch(at) if !entries.is_empty() => session.branch_to(at.get(&entries)),
                Action::Keep => {
                    fold.keep(&mut session).unwrap();
                }
                Action::Reload => session.reload(),
                Action::Compact if !entries.is_empty() => {
                    let first_kept = entries[0].clone();
                    entries.push(session.compact(&first_kept, "x"));
                }
                Action::Branch(_) | Action::Compact => {}
            }
            let (kept, whole) = (fold.read(&session).unwrap(), plain.read(&session).unwrap());
            prop_assert_eq!(kept.state, whole.state);
            for entry in &entries {
                let (kept, whole) = (fold.read_at(&session, entry.as_str()), plain.read_at(&session, entry.as_str()));
                prop_assert_eq!(kept.unwrap().state, whole.unwrap().state);
            }
        }
    }
}
