//! Appends that no vector has: the extras of `[F5]`, and arguments of tool calls that are edited `[T9a]`.

use session_core::{Leaf, Session};

use super::{host, json, written};

#[test]
fn service_tier_and_tool_selection_are_in_force_after_reading_again() {
    // [F5, C2]
    let dir = tempfile::tempdir().unwrap();
    let mut session = written(&host(dir.path()), dir.path());
    session.append_service_tier_change(Some("flex")).unwrap();
    session.append_mcp_tool_selection(&["a".to_owned(), "b".to_owned()]).unwrap();
    let context = Session::read(session.file().unwrap()).unwrap().context(&Leaf::Current).unwrap();
    assert_eq!(context.service_tier(), Some("flex"));
    assert_eq!(context.mcp_tools().unwrap(), ["a", "b"]);
    session.append_service_tier_change(None).unwrap();
    assert_eq!(session.context(&Leaf::Current).unwrap().service_tier(), None);
}

#[test]
fn arguments_of_a_tool_call_are_replaced_and_nothing_else() {
    // [T9a, F6]
    let dir = tempfile::tempdir().unwrap();
    let mut session = written(&host(dir.path()), dir.path());
    let call = r#"{"role":"assistant","content":[{"type":"toolCall","id":"c1","name":"write","arguments":{"n":1.0}},{"type":"text","text":"x"}]}"#;
    session.append_message(&json(call)).unwrap();
    let file = session.file().unwrap().to_owned();
    let before = std::fs::read_to_string(&file).unwrap();
    session.rewrite_tool_call_arguments("c1", &json(r#"{"n":2}"#)).unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before.replace(r#"{"n":1.0}"#, r#"{"n":2}"#));
    assert!(session.context(&Leaf::Current).unwrap().to_json().contains(r#""arguments":{"n":2}"#));
}
