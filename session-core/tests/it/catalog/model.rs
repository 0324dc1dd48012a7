//! A listing says what a plain reading of each file says `[R3]`.

use proptest::prelude::*;
use serde_json::Value;
use session_core::{CacheMode, ListDepth, Session};

use super::{Place, header, write};

/// A line of a session file, good or bad.
fn line() -> impl Strategy<Value = String> {
    let text = prop_oneof![Just(String::new()), Just("hello".to_owned()), "[a-z ]{0,5000}"];
    let content = prop_oneof![
        text.clone().prop_map(|text| format!("{text:?}")),
        text.prop_map(|text| format!(
            "[{{\"type\":\"image\",\"data\":\"zz\"}},{{\"type\":\"text\",\"text\":{text:?}}}]"
        )),
        Just("null".to_owned()),
    ];
    let role = prop::sample::select(vec!["user", "assistant", "toolResult", "bashExecution"]);
    let id = prop_oneof![4 => "[0-9a-f]{8}".prop_map(|id| format!("\"{id}\"")), 1 => Just("7".to_owned())];
    let time = prop_oneof![
        4 => (0_u32..60, 0_u32..60).prop_map(|(m, s)| format!("2026-02-01T10:{m:02}:{s:02}.000Z")),
        1 => Just("never".to_owned())
    ];
    let entry = (id, time, role, content).prop_flat_map(|(id, time, role, content)| {
        let base = format!("\"id\":{id},\"parentId\":null,\"timestamp\":\"{time}\"");
        prop::sample::select(vec![
            format!("{{\"type\":\"message\",{base},\"message\":{{\"role\":\"{role}\",\"content\":{content}}}}}"),
            format!("{{\"type\":\"message\",{base},\"message\":\"bare\"}}"),
            format!("{{\"type\":\"compaction\",{base},\"summary\":\"s\",\"shortSummary\":\"short {role}\"}}"),
            format!("{{\"type\":\"session_info\",{base},\"name\":\"name {role}\"}}"),
            format!("{{\"type\":\"custom\",{base},\"data\":{content}}}"),
        ])
    });
    prop_oneof![8 => entry, 1 => Just("{\"type\":\"mess".to_owned()), 1 => Just("null".to_owned()), 1 => Just(String::new())]
}

/// What a person would find with any JSON reader.
struct Plain {
    messages: u64,
    first: Option<String>,
    last_activity: Option<String>,
    name: Option<String>,
}

fn plain(text: &str) -> Plain {
    let mut plain = Plain { messages: 0, first: None, last_activity: None, name: None };
    let mut short = None;
    for line in text.lines().skip(1) {
        let Ok(entry) = serde_json::from_str::<Value>(line) else { continue };
        let Some(true) = entry["id"].as_str().map(|id| !id.is_empty()) else { continue };
        let time = entry["timestamp"].as_str().filter(|time| time.ends_with('Z')).map(str::to_owned);
        plain.last_activity = plain.last_activity.max(time);
        match entry["type"].as_str().unwrap() {
            "message" => {
                plain.messages += 1;
                let content = &entry["message"]["content"];
                let text = content.as_str().or_else(|| content[1]["text"].as_str()).unwrap_or_default();
                if entry["message"]["role"] == "user" && plain.first.is_none() && !text.is_empty() {
                    plain.first = Some(text.to_owned());
                }
            }
            "compaction" => short = entry["shortSummary"].as_str().map(str::to_owned),
            "session_info" => plain.name = entry["name"].as_str().map(str::to_owned),
            _ => {}
        }
    }
    plain.name = plain.name.or(short);
    plain
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn property_a_listing_equals_a_plain_reading(
        files in prop::collection::vec((prop::collection::vec(line(), 0..12), any::<bool>()), 1..12)
    ) {
        let place = Place::new();
        let mut texts = Vec::new();
        for (n, (lines, ended)) in files.iter().enumerate() {
            let mut text = header(&format!("s{n}"), "/w") + &lines.join("\n");
            if *ended {
                text.push('\n');
            }
            write(&place.sessions(&format!("--w--/{n:02}.jsonl")), &text, 1_000 - n as u64);
            texts.push(text);
        }
        let catalog = place.catalog().with_cache(CacheMode::ReadWrite);
        let prefix = place.catalog().with_depth(ListDepth::Prefix).list_all().unwrap();
        for listing in [catalog.list_all().unwrap(), catalog.list_all().unwrap()] {
            prop_assert_eq!((listing.sessions.len(), listing.problems.len()), (texts.len(), 0));
            for ((info, short), text) in listing.sessions.iter().zip(&prefix.sessions).zip(&texts) {
                let want = plain(text);
                prop_assert_eq!(info.message_count(), Some(want.messages));
                prop_assert_eq!(info.first_prompt(), want.first.as_deref());
                prop_assert_eq!(short.first_prompt(), want.first.as_deref());
                prop_assert_eq!(info.last_activity().map(|time| time.to_string()), want.last_activity);
                prop_assert_eq!(info.title(), want.name.as_deref());
                prop_assert_eq!(info.size(), text.len() as u64);
                let session = Session::read(info.path()).unwrap();
                prop_assert_eq!(session.header().unwrap().id(), info.id());
            }
        }
    }
}
