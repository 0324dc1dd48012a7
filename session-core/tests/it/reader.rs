//! Reading many entries in any order gives what reading each alone gives; and what a session knows of its written entries.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use session_core::storage::{MemorySessionStorage, SessionStorage};
use session_core::{AgentDir, Environment, Host, JsonText, Session, SessionManager};

fn host() -> Host {
    Host::new(AgentDir::at("/agent").unwrap(), Environment::new("/w"))
        .with_storage(Arc::new(MemorySessionStorage::new()))
}

/// A session of entries of these sizes, on a file.
fn session(sizes: &[usize]) -> Session {
    let storage = MemorySessionStorage::new();
    let header =
        r#"{"type":"session","version":3,"id":"15c0000000000001","timestamp":"2026-01-05T09:30:00.000Z","cwd":"/w"}"#;
    let entries = sizes.iter().enumerate().map(|(n, size)| {
        let base = format!(r#""type":"custom","id":"{n:08x}","parentId":null,"timestamp":"2026-01-05T09:30:00.000Z""#);
        format!(r#"{{{base},"customType":"t","data":"{}"}}"#, "x".repeat(*size))
    });
    let lines: Vec<String> = std::iter::once(header.to_owned()).chain(entries).collect();
    let text = lines.join("\n") + "\n";
    storage.write_text(Path::new("/s.jsonl"), &text).unwrap();
    Session::read_from(Arc::new(storage), Path::new("/s.jsonl")).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn property_any_order_gives_each_entry(
        sizes in prop::collection::vec(prop_oneof![0_usize..200, 100_000_usize..300_000], 1..12),
        order in prop::collection::vec(any::<prop::sample::Index>(), 1..40),
    ) {
        let session = session(&sizes);
        let entries: Vec<_> = session.entries().collect();
        let mut reader = session.reader();
        for entry in entries.iter().rev().chain(order.iter().map(|at| at.get(&entries))).chain(&entries) {
            prop_assert_eq!(reader.json(*entry).unwrap(), entry.json().unwrap());
        }
    }
}

#[test]
fn an_entry_of_another_session_is_its_own() {
    let (a, b) = (session(&[1, 2]), session(&[3, 4]));
    let entry = b.entries().next().unwrap();
    assert_eq!(a.reader().json(entry).unwrap(), entry.json().unwrap());
}

#[test]
fn entries_are_written_once_the_session_is() {
    // [W2]
    let mut session = SessionManager::create(&host(), Path::new("/w"), None).unwrap();
    let id = session.append_custom_entry("t", None, None).unwrap();
    assert!(!session.session().entry(id.as_str()).unwrap().is_written());
    session.ensure_on_disk().unwrap();
    assert!(session.session().entry(id.as_str()).unwrap().is_written());
}

#[test]
fn a_fork_keeps_the_leaf() {
    // [T7] the same entries, and who appends goes on where they were.
    let mut session = SessionManager::create(&host(), Path::new("/w"), None).unwrap();
    let message = JsonText::parse(r#"{"role":"user","content":"x"}"#).unwrap();
    let first = session.append_message(&message).unwrap();
    session.append_message(&message).unwrap();
    session.branch(first.as_str()).unwrap();
    session.fork().unwrap().unwrap();
    assert_eq!(session.leaf_id(), Some(first.as_str()));
    session.reset_leaf();
    session.fork().unwrap().unwrap();
    assert_eq!(session.leaf_id(), None);
}
