//! Messages to the model: what they become in the file and in the context, and what is refused before anything is written.

use plugin_sdk::testing::FakeSession;
use plugin_sdk::{Attribution, Content, ErrorKind, Extension};
use session_core::JsonText;

fn extension() -> Extension {
    Extension::new("weather").unwrap()
}

#[test]
fn a_message_in_the_file_and_in_the_context() {
    // [F4, F8b, C3]
    let mut session = FakeSession::new();
    let draft = extension().message("It rains.").hidden().details(&[1, 2]).unwrap().attribution(Attribution::Agent);
    let id = draft.append(&mut session).unwrap();
    assert_eq!(
        session.text().lines().last().unwrap(),
        format!(
            r#"{{"type":"custom_message","id":"{id}","parentId":null,"timestamp":"2026-01-05T09:30:00.000Z","customType":"weather","content":"It rains.","display":false,"details":[1,2],"attribution":"agent"}}"#
        )
    );
    session.reload();
    let seen = session.model_sees();
    assert_eq!(
        seen[0].as_str(),
        r#"{"role":"custom","customType":"weather","content":"It rains.","display":false,"details":[1,2],"attribution":"agent","timestamp":1767605400000}"#
    );
    let named = extension().named_message("radar", "x").unwrap().append(&mut session).unwrap();
    let line = session.text().lines().last().unwrap().to_owned();
    assert!(line.contains(&format!(r#""id":"{named}""#)) && line.contains(r#""customType":"weather/radar""#));
    assert!(line.contains(r#""display":true"#) && !line.contains("details") && !line.contains("attribution"));
}

#[test]
fn images_go_through_the_blob_rules() {
    // [W8, W9]
    let picture: Vec<u8> = (0..100_000_u32).map(|n| (n % 251) as u8).collect();
    let mut session = FakeSession::new();
    let content = || Content::from("The radar:").image(&picture, "image/png").image(b"tiny", "image/gif").text("end");
    for _ in 0..2 {
        extension().message(content()).append(&mut session).unwrap();
    }
    assert!(session.text().len() < 3_000, "two large images are one blob beside the file");
    assert!(session.text().contains("blob:sha256:"));
    let in_memory = session.model_sees();
    session.reload();
    assert_eq!(session.model_sees(), in_memory);
    let seen = session.model_sees();
    let blocks: Vec<_> = session_core::Message::new(seen[0].view()).blocks().collect();
    assert_eq!(blocks.len(), 4);
    let session_core::Block::Image { data, mime_type } = &blocks[1] else { panic!("{blocks:?}") };
    assert_eq!(mime_type, "image/png");
    assert_eq!(data.len(), picture.len().div_ceil(3) * 4);
}

#[test]
fn k11_what_a_reader_would_pass_over_is_refused_before_anything_is_written() {
    let mut session = FakeSession::new();
    let before = session.text();
    let json = |text: &str| Content::from_json(JsonText::parse(text).unwrap());
    let long = "x".repeat(500_001);
    for (content, kind) in [
        (Content::from(""), ErrorKind::InvalidInput),
        (Content::blocks(), ErrorKind::InvalidInput),
        (Content::blocks().image(b"", "image/png"), ErrorKind::InvalidInput),
        (Content::blocks().image(b"x", "text/plain"), ErrorKind::InvalidInput),
        (Content::blocks().image(b"x", "image/"), ErrorKind::InvalidInput),
        (json("null"), ErrorKind::InvalidInput),
        (json("null").text("more"), ErrorKind::InvalidInput),
        (json(r#"{"type":"text","text":"x"}"#), ErrorKind::InvalidInput),
        (json(r#"["x"]"#), ErrorKind::InvalidInput),
        (json(r#"[{"type":"text"}]"#), ErrorKind::InvalidInput),
        (json(r#"[{"type":"text","text":null}]"#), ErrorKind::InvalidInput),
        (json(r#"[{"type":"toolCall","name":"x"}]"#), ErrorKind::InvalidInput),
        (json(r#"[{"type":"image","data":"%%%%","mimeType":"image/png"}]"#), ErrorKind::InvalidInput),
        (json(r#"[{"type":"image","data":"blob:sha256:../x","mimeType":"image/png"}]"#), ErrorKind::InvalidInput),
        (json(r#"[{"type":"text","text":"x","partialJson":"y"}]"#), ErrorKind::NotRepresentable),
        (Content::from(long.as_str()), ErrorKind::TooLarge),
        (Content::blocks().text(long.as_str()), ErrorKind::TooLarge),
    ] {
        let error = extension().message(content.clone()).append(&mut session).unwrap_err();
        assert_eq!(error.kind(), kind, "{content:?}: {error}");
    }
    assert_eq!(session.text(), before);
}

#[test]
fn content_as_json_keeps_its_spelling() {
    let mut session = FakeSession::new();
    let blocks = r#"[{"type":"text","text":"\u00e9","cache":1.0}]"#;
    let content = Content::from_json(JsonText::parse(blocks).unwrap()).text("more");
    extension().message(content).append(&mut session).unwrap();
    assert!(
        session
            .text()
            .contains(r#""content":[{"type":"text","text":"\u00e9","cache":1.0},{"type":"text","text":"more"}]"#)
    );
}
