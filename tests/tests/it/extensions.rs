//! A session with entries of extensions, opened again through the conformance driver: what the model sees is what the
//! extensions meant it to see, and the tree is sound.

use base64::Engine as _;
use std::path::Path;

use plugin_sdk::{Attribution, Content, Extension, Version};
use session_core::{AgentDir, CompactionEntry, Environment, Host, Json, JsonText, SessionManager, quote};
use tests::conformance::answer;

fn message(text: &str) -> JsonText {
    JsonText::parse(&format!(r#"{{"role":"user","content":{},"timestamp":1}}"#, quote(text))).unwrap()
}

/// The driver's answer to a command on a file.
fn ask(command: &str, file: &Path, blobs: &Path) -> JsonText {
    let (file, blobs) = (quote(file.to_str().unwrap()), quote(blobs.to_str().unwrap()));
    JsonText::parse(&answer(&format!(r#"{{"cmd":"{command}","file":{file},"blobs":{blobs}}}"#))).unwrap()
}

#[test]
fn the_driver_sees_the_context_that_extensions_made() {
    // [C3, C4, C5, W8, W9]
    let dir = tempfile::tempdir().unwrap();
    let agent = AgentDir::at(dir.path().join("agent")).unwrap();
    let host = Host::new(agent.clone(), Environment::new(dir.path()));
    let mut session = SessionManager::create(&host, dir.path(), None).unwrap();
    session.ensure_on_disk().unwrap();
    let (todo, weather) = (Extension::new("todo").unwrap(), Extension::new("weather").unwrap());
    let list = todo.state::<Vec<String>>(Version(2));
    let radar = vec![7_u8; 3_000];

    session.append_message(&message("before")).unwrap();
    let fork = list.save(&mut session, &vec!["milk".into()]).unwrap().entry().unwrap().clone();
    todo.message("left behind on another branch").append(&mut session).unwrap();
    session.branch(fork.as_str()).unwrap();
    let content = Content::from("The radar:").image(&radar, "image/png");
    let kept = weather.message(content).hidden().attribution(Attribution::Agent).append(&mut session).unwrap();
    let compaction = CompactionEntry {
        summary: "they met".into(),
        short_summary: None,
        first_kept_entry_id: kept,
        tokens_before: 9,
        details: None,
        from_extension: None,
        preserve_data: None,
    };
    session.append_compaction(&compaction).unwrap();
    list.clear(&mut session).unwrap();
    todo.message("Nothing is open.").details(&[1.5]).unwrap().append(&mut session).unwrap();
    session.append_message(&message("after")).unwrap();
    session.flush().unwrap();
    let file = session.file().unwrap().to_owned();
    let expected = session.context(&session_core::Leaf::Current).unwrap().to_json();
    drop(session);

    let answer = ask("context", &file, &agent.blobs());
    let read = answer.view().get("ok").unwrap();
    assert_eq!(String::from_utf8_lossy(read.raw()), expected);
    let messages = read.get("messages").unwrap();
    let shown: Vec<_> = messages
        .items()
        .map(|message| {
            let text =
                |key: &str| message.get(key).and_then(Json::text).map(std::borrow::Cow::into_owned).unwrap_or_default();
            (text("role"), text("customType"), text("content") + &text("summary"))
        })
        .collect();
    let shown: Vec<_> = shown.iter().map(|(role, kind, said)| (role.as_str(), kind.as_str(), said.as_str())).collect();
    assert_eq!(
        shown,
        [
            ("compactionSummary", "", "they met"),
            ("custom", "weather", ""),
            ("custom", "todo", "Nothing is open."),
            ("user", "", "after"),
        ]
    );
    // The image is one again, of the same bytes.
    let image = messages.items().nth(1).unwrap().get("content").unwrap().items().nth(1).unwrap();
    let bytes =
        base64::engine::general_purpose::STANDARD.decode(&*image.get("data").and_then(Json::text).unwrap()).unwrap();
    assert_eq!(bytes, radar);

    let opened = ask("open", &file, &agent.blobs());
    let opened = opened.view().get("ok").unwrap();
    assert_eq!(opened.get("defects").unwrap().raw(), b"[]");
    assert_eq!(opened.get("tree").unwrap().items().count(), 1);
}
