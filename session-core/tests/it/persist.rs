//! What is written of a payload, and what comes back [W8, W9, F6].

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use session_core::storage::MemorySessionStorage;
use session_core::{
    BlobHash, BlobProblemKind, BlobStore, Error, ErrorKind, JsonText, MAX_TEXT_UNITS, SystemClock, persist,
    resolve_blobs,
};

const NOTICE: &str = "\n\n[Session persistence truncated large content]";

fn parse(text: &str) -> JsonText {
    JsonText::parse(text).unwrap()
}

/// What is written of `text`, and the blobs that were put.
fn written(text: &str) -> (String, Vec<Vec<u8>>) {
    let blobs = RefCell::new(Vec::new());
    let payload = parse(text);
    let after = persist(&payload, |bytes| {
        blobs.borrow_mut().push(bytes.to_vec());
        Ok(BlobHash::of(bytes))
    })
    .unwrap()
    .into_owned();
    (after.as_str().to_owned(), blobs.into_inner())
}

#[track_caller]
fn check(text: &str, want: &str) {
    let (got, _) = written(text);
    assert!(got == want, "{}… became {}…, not {}…", head(text), head(&got), head(want));
}

#[track_caller]
fn unchanged(text: &str) {
    check(text, text);
}

fn head(text: &str) -> String {
    text.chars().take(300).collect()
}

/// Base64 of `chars` characters.
fn base64(chars: usize) -> String {
    use base64::Engine as _;
    let bytes: Vec<u8> = (0..chars / 4 * 3).map(|i| (i * 7).to_le_bytes()[0]).collect();
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn store() -> BlobStore {
    BlobStore::new(Arc::new(MemorySessionStorage::new()), "/agent/blobs", Arc::new(SystemClock))
}

#[test]
fn long_texts_are_cut_to_the_limit_with_the_notice() {
    // [W8]
    let notice = NOTICE.replace('\n', "\\n");
    unchanged(&format!(r#"{{"t":"{}"}}"#, "x".repeat(MAX_TEXT_UNITS)));
    check(
        &format!(r#"[ "{}" ]"#, "x".repeat(MAX_TEXT_UNITS + 1)),
        &format!(r#"[ "{}{notice}" ]"#, "x".repeat(MAX_TEXT_UNITS - 47)),
    );
    check(
        &format!(r#""{}""#, "x".repeat(MAX_TEXT_UNITS + 1)),
        &format!(r#""{}{notice}""#, "x".repeat(MAX_TEXT_UNITS - 47)),
    );
    // Units, not bytes: escapes and letters of several bytes count as JavaScript counts them.
    for one in ["\\n", "\\u0041", "\\\\", "é", "漢"] {
        unchanged(&format!(r#"{{"t":"{}"}}"#, one.repeat(MAX_TEXT_UNITS)));
        check(
            &format!(r#"{{"t":"{}"}}"#, one.repeat(MAX_TEXT_UNITS + 1)),
            &format!(r#"{{"t":"{}{notice}"}}"#, one.repeat(MAX_TEXT_UNITS - 47)),
        );
    }
}

#[test]
fn no_surrogate_pair_is_split() {
    // [W8] as themselves, as two escapes, and lone ones, which are nobody's half
    let notice = NOTICE.replace('\n', "\\n");
    for pair in ["😀", r"\ud83d\ude00", r"\uD83D\uDE00"] {
        unchanged(&format!(r#"["{}"]"#, pair.repeat(MAX_TEXT_UNITS / 2)));
        check(
            &format!(r#"["a{}"]"#, pair.repeat(MAX_TEXT_UNITS / 2)),
            &format!(r#"["a{}{notice}"]"#, pair.repeat((MAX_TEXT_UNITS - 48) / 2)),
        );
        check(
            &format!(r#"["{}"]"#, pair.repeat(MAX_TEXT_UNITS / 2 + 1)),
            &format!(r#"["{}{notice}"]"#, pair.repeat((MAX_TEXT_UNITS - 48) / 2)),
        );
    }
    let lone = r"\ud83d".repeat(MAX_TEXT_UNITS + 1);
    check(&format!(r#"["{lone}"]"#), &format!(r#"["{}{notice}"]"#, &lone[..(MAX_TEXT_UNITS - 47) * 6]));
    // An escaped backslash before `ud83d` is no surrogate.
    let text = r"\\ud83d\ude00".repeat(MAX_TEXT_UNITS / 7 + 1);
    let (got, _) = written(&format!(r#"["{text}"]"#));
    let cut: Vec<String> = serde_json::from_str(&got.replace(r"\ude00", "?")).unwrap();
    assert_eq!(cut[0].encode_utf16().count(), MAX_TEXT_UNITS);
}

#[test]
fn transient_keys_are_left_out_at_any_depth() {
    // [W8, F6]
    check(r#"{"partialJson":1}"#, "{}");
    check(r#" { "partialJson" : {"a":[1,"}"]} , "jsonlEvents":[] } "#, "{  }");
    check(r#"{"a" : 1.0 , "partialJson":"x" , "b":2}"#, r#"{"a" : 1.0  , "b":2}"#);
    check(r#"{ "jsonlEvents":0, "partialJson":[[]],"b" : 1e3,"partialJson":1}"#, r#"{ "b" : 1e3}"#);
    check(r#"[{"x":{"partial\u004ason":1,"y":[{"jsonlEvents":2}]}}]"#, r#"[{"x":{"y":[{}]}}]"#);
    unchanged(r#"["partialJson",{"a":"partialJson","partialjson":1,"partial\\u004ason":2}]"#);
}

#[test]
fn lines_are_counted_anew_where_anything_changed() {
    // [W8]
    unchanged(r#"{"content":"a\nb","lineCount":99}"#);
    check(
        r#"{"lineCount":99,"content":"a\nb\u000Ac\\n","partialJson":1}"#,
        r#"{"lineCount":3,"content":"a\nb\u000Ac\\n"}"#,
    );
    check(r#"{"content":"","lineCount":99,"deep":[{"partialJson":1}]}"#, r#"{"content":"","lineCount":1,"deep":[{}]}"#);
    check(r#"{"content":"a","lineCount":"99","partialJson":1}"#, r#"{"content":"a","lineCount":"99"}"#);
    check(r#"{"content":["a"],"lineCount":99,"partialJson":1}"#, r#"{"content":["a"],"lineCount":99}"#);
    // Of repeated keys the last counts. [L8]
    check(
        r#"{"content":"a\nb","content":"c","lineCount":7,"lineCount":8,"partialJson":1}"#,
        r#"{"content":"a\nb","content":"c","lineCount":7,"lineCount":1}"#,
    );
    check(
        &format!(r#"{{"content":"{}","lineCount":250002}}"#, "l\\n".repeat(250_001)),
        &format!(r#"{{"content":"{}l{}","lineCount":249979}}"#, "l\\n".repeat(249_976), NOTICE.replace('\n', "\\n")),
    );
}

#[test]
fn signed_content_stays_as_it_is() {
    // [W8]
    let long = "s".repeat(MAX_TEXT_UNITS + 100);
    for sealed in [
        format!(r#"{{"type":"text","text":"{long}","textSignature":"sig"}}"#),
        format!(r#"{{"thoughtSignature":"ts","arguments":{{"a":"{long}","partialJson":1}}}}"#),
        format!(r#"{{"thinking":"t","thinkingSignature":"{long}"}}"#),
        format!(r#"{{"type":"redacted_thinking","data":"{long}"}}"#),
        format!(r#"{{"data":"{long}","type":"redactedThinking"}}"#),
        format!(r#"{{"type":"thinking","redacted":true,"thinking":"{long}"}}"#),
        format!(r#"{{"summary":[{{"text":"{long}","partialJson":"k"}}],"encrypted_content":"e"}}"#),
        format!(r#"{{"content":[{{"type":"image","data":"{}"}}],"textSignature":"x"}}"#, base64(1024)),
    ] {
        unchanged(&format!(r#"{{"content":[{sealed}],"items":{{"x":{sealed}}}}}"#));
        check(&format!(r#"[{sealed},{{"partialJson":1}}]"#), &format!("[{sealed},{{}}]"));
        assert!(written(&sealed).1.is_empty(), "nothing is stored for what stays inline");
    }
    // An empty signature signs nothing.
    let cut = format!("{}{}", &long[..MAX_TEXT_UNITS - 47], NOTICE.replace('\n', "\\n"));
    for key in ["thinkingSignature", "textSignature", "thoughtSignature"] {
        for empty in [r#""""#, "null"] {
            check(
                &format!(r#"{{"text":"{long}","{key}":"x","{key}":{empty}}}"#),
                &format!(r#"{{"text":"{cut}","{key}":"x","{key}":{empty}}}"#),
            );
        }
    }
}

#[test]
fn images_move_to_blobs() {
    // [W8]
    let big = base64(1024);
    let (got, blobs) = written(&format!(
        r#"{{"content":[{{"type":"image","mimeType":"image/png","data":"{big}"}},{{"type":"image","data":"{}"}}]}}"#,
        base64(1020)
    ));
    assert_eq!(blobs.len(), 1);
    assert_eq!(blobs[0].len(), 768);
    let reference = "blob:sha256:ebdcafe2c6429d57b28652a6a85cf0f7efd8835839b55a3c57e948a23f2f8508";
    let want = format!(
        r#"{{"content":[{{"type":"image","mimeType":"image/png","data":"{reference}"}},{{"type":"image","data":"{}"}}]}}"#,
        base64(1020)
    );
    assert_eq!(got, want);
    unchanged(&got);
    // Elsewhere it is text like any other.
    for other in [
        format!(r#"{{"images":[{{"type":"image","data":"{big}"}}]}}"#),
        format!(r#"{{"content":{{"type":"image","data":"{big}"}}}}"#),
        format!(r#"{{"content":[[{{"type":"image","data":"{big}"}}]]}}"#),
        format!(r#"{{"content":[{{"type":"file","data":"{big}"}}]}}"#),
        format!(r#"{{"content":[{{"type":"image","x":{{"data":"{big}"}}}}]}}"#),
        format!(r#"{{"content":[{{"type":"image","data":"{big}","data":7}}]}}"#),
        format!(r#"{{"content":[{{"type":"image","type":"x","data":"{big}"}}]}}"#),
        format!(r#"{{"content":[{{"type":"image","data":"{}-_"}}]}}"#, base64(1200)),
        format!(r#"{{"content":[{{"type":"image","data":"{}"}}]}}"#, "!".repeat(1200)),
    ] {
        unchanged(&other);
    }
    // Over the limit and no base64: a text over the limit.
    let long = "!".repeat(MAX_TEXT_UNITS + 1);
    check(
        &format!(r#"{{"content":[{{"type":"image","data":"{long}"}}]}}"#),
        &format!(
            r#"{{"content":[{{"type":"image","data":"{}{}"}}]}}"#,
            &long[..MAX_TEXT_UNITS - 47],
            NOTICE.replace('\n', "\\n")
        ),
    );
}

#[test]
fn image_urls_move_to_blobs_whole() {
    // [W8]
    let (got, blobs) = written(r#"{"image_url":"data:image\/png;base64,iVBORw0KGgo="}"#);
    assert_eq!(blobs, [b"data:image/png;base64,iVBORw0KGgo="]);
    assert_eq!(got, r#"{"image_url":"blob:sha256:e1e10747c2374f621aa59fefede6ef99dc6acdb41b267ab4af408d5529f89ea8"}"#);
    assert_eq!(written(r#"{"image_url":"DATA:image/PNG;name=x;BASE64,AA=="}"#).1.len(), 1);
    for other in [
        r#"{"image_url":"data:image/svg+xml,<svg/>"}"#,
        r#"{"image_url":"data:text/plain;base64,aGk="}"#,
        r#"{"image_url":"https://example.invalid/a.png"}"#,
        r#"{"image_url":{"url":"data:image/png;base64,AA=="}}"#,
        r#"{"url":"data:image/png;base64,AA=="}"#,
        r#"["image_url","data:image/png;base64,AA=="]"#,
        r#"{"image_url":"data:image/png;base64,\ud83d"}"#,
    ] {
        unchanged(other);
    }
}

#[test]
fn a_damaged_blob_keeps_the_image_inline_and_uncut() {
    // Nothing is lost when the blob's place is taken. [W10]
    let payload = parse(&format!(r#"{{"content":[{{"type":"image","data":"{}"}}],"partialJson":1}}"#, base64(600_000)));
    let after = persist(&payload, |_| Err(Error::new(ErrorKind::Corrupt, "not what its name says"))).unwrap();
    assert_eq!(after.as_str(), payload.as_str().replace(r#","partialJson":1"#, ""));
    let error = persist(&payload, |_| Err(Error::new(ErrorKind::StorageFull, "full"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
}

#[test]
fn nesting_is_only_long() {
    let deep = 300_000;
    let text = format!("{}{}", r#"{"content":[{"type":"x","a":"#.repeat(deep), "1".to_owned() + &"}]}".repeat(deep));
    unchanged(&text);
    let references = parse(&text.replace('1', r#""blob:sha256:""#));
    let (resolved, problems) = resolve_blobs(&references, &store());
    assert!(matches!(resolved, Cow::Borrowed(_)) && problems.is_empty());
}

#[test]
fn references_come_back_where_they_count() {
    // [W9, W10]
    let store = store();
    let hash = store.put(b"\x89PNG shared").unwrap();
    let url = store.put("data:image/png;base64,\"é".as_bytes()).unwrap();
    let (r, u) = (hash.reference(), url.reference());
    let resolved = |text: &str| {
        let payload = parse(text);
        let (after, problems) = resolve_blobs(&payload, &store);
        (after.as_str().to_owned(), problems.iter().map(session_core::BlobProblem::kind).collect::<Vec<_>>())
    };
    for reference in
        [r.clone(), r.replace(&hash.to_string(), &hash.to_string().to_uppercase()), r.replace('b', "\\u0062")]
    {
        let (after, problems) = resolved(&format!(
            r#"{{"content":[{{"type":"t","content":[ {{"data":"{reference}", "type":"im\u0061ge"}}]}}],"n":1.0}}"#
        ));
        assert_eq!(
            after,
            r#"{"content":[{"type":"t","content":[ {"data":"iVBORyBzaGFyZWQ=", "type":"im\u0061ge"}]}],"n":1.0}"#
        );
        assert_eq!(problems, []);
    }
    assert_eq!(resolved(&format!(r#"{{"image_url":"{u}"}}"#)).0, r#"{"image_url":"data:image/png;base64,\"é"}"#);
    for text in [
        format!(r#"{{"data":{{"data":"{r}"}},"text":"{r}"}}"#),
        format!(
            r#"{{"content":[{{"type":"file","data":"{r}"}},"{r}",["{r}"]],"images":[{{"type":"image","data":"{r}"}}]}}"#
        ),
        format!(
            r#"{{"content":[{{"type":"image","data":"{r}","data":[]}},{{"type":"image","type":[],"data":"{r}"}}]}}"#
        ),
    ] {
        assert_eq!(resolved(&text), (text.clone(), vec![]));
    }
    let missing = BlobHash::of(b"missing").reference();
    for (reference, kind) in [
        (missing.as_str(), BlobProblemKind::Missing),
        (&r[..r.len() - 1], BlobProblemKind::BadReference),
        ("blob:sha256:", BlobProblemKind::BadReference),
        ("blob:sha256:../../../../../../etc/hostname", BlobProblemKind::BadReference),
    ] {
        let text = format!(r#"{{"content":[{{"type":"image","data":"{reference}"}}]}}"#);
        assert_eq!(resolved(&text), (text.clone(), vec![kind]));
    }
    let text = format!(r#"{{"image_url":"{r}"}}"#);
    assert_eq!(resolved(&text), (text.clone(), vec![BlobProblemKind::NotAUrl]));
}

/// JSON with the keys that decide something; `LONG` stands for a text over the limit, `IMAGE` for base64 that moves.
fn payload() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        4 => any::<i32>().prop_map(Value::from),
        4 => "[a\"\\\\\n😀é]{0,6}".prop_map(Value::from),
        1 => Just(json!("LONG")),
        2 => Just(json!("IMAGE")),
        2 => Just(json!("image")),
        1 => Just(json!("data:image/png;base64,AA==")),
        1 => Just(Value::Null),
    ];
    let key = prop::sample::select(vec![
        "a",
        "content",
        "content",
        "type",
        "data",
        "partialJson",
        "jsonlEvents",
        "lineCount",
        "image_url",
        "textSignature",
        "encrypted_content",
    ]);
    leaf.prop_recursive(5, 40, 5, move |inner| {
        let image = prop::sample::select(vec!["IMAGE", "LONG", "short"])
            .prop_map(|data| json!({"data": data, "type": "image", "x": {"partialJson": 1}}));
        let item = prop_oneof![3 => inner.clone(), 1 => image];
        prop_oneof![
            prop::collection::vec(item, 0..4).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..6).prop_map(|members| Value::from(
                members.into_iter().map(|(k, v)| (k.to_owned(), v)).collect::<Map<_, _>>()
            )),
        ]
    })
}

fn spell_out(value: Value) -> Value {
    match value {
        Value::String(text) if text == "LONG" => "漢\n".repeat(MAX_TEXT_UNITS / 2 + 1).into(),
        Value::String(text) if text == "IMAGE" => base64(1200).into(),
        Value::Array(items) => items.into_iter().map(spell_out).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(key, value)| (key, spell_out(value))).collect::<Map<_, _>>().into()
        }
        other => other,
    }
}

/// The rules of [W8] on a document model, recursively: the plain way that the crate itself cannot take.
fn model(value: &Value, key: &str, in_content: bool) -> Value {
    match value {
        Value::String(text) if key == "image_url" && text.starts_with("data:image/") => {
            BlobHash::of(text.as_bytes()).reference().into()
        }
        Value::String(text) if text.encode_utf16().count() > MAX_TEXT_UNITS => {
            let units: Vec<u16> = text.encode_utf16().take(MAX_TEXT_UNITS - 47).collect();
            (String::from_utf16(&units).unwrap() + NOTICE).into()
        }
        Value::Array(items) => items.iter().map(|item| model(item, "", key == "content")).collect(),
        Value::Object(members) => {
            let signature = members.get("textSignature");
            if signature.is_some_and(|s| !s.is_null() && s != "") || members.contains_key("encrypted_content") {
                return value.clone();
            }
            let mut out = Map::new();
            for (name, member) in members {
                match (name.as_str(), member.as_str()) {
                    ("partialJson" | "jsonlEvents", _) => {}
                    ("data", Some(data))
                        if in_content && members.get("type") == Some(&json!("image")) && data.len() == 1200 =>
                    {
                        use base64::Engine as _;
                        let bytes = base64::engine::general_purpose::STANDARD.decode(data).unwrap();
                        out.insert(name.clone(), BlobHash::of(&bytes).reference().into());
                    }
                    _ => {
                        out.insert(name.clone(), model(member, name, false));
                    }
                }
            }
            if out != *members
                && out.get("lineCount").is_some_and(Value::is_number)
                && let Some(content) = out.get("content").and_then(Value::as_str)
            {
                let lines = content.split('\n').count();
                out.insert("lineCount".to_owned(), lines.into());
            }
            out.into()
        }
        other => other.clone(),
    }
}

/// No text in it is over the limit, signed content apart.
fn assert_short(value: &Value) {
    match value {
        Value::String(text) => assert!(text.encode_utf16().count() <= MAX_TEXT_UNITS),
        Value::Array(items) => items.iter().for_each(assert_short),
        Value::Object(members)
            if !members.contains_key("textSignature") && !members.contains_key("encrypted_content") =>
        {
            members.values().for_each(assert_short);
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn property_persist_equals_the_model(value in payload()) {
        // [W8]
        let value = spell_out(value);
        let text = value.to_string();
        let (got, _) = written(&text);
        let got: Value = serde_json::from_str(&got).unwrap();
        prop_assert!(got == model(&value, "", false), "{}", head(&text));
        assert_short(&got);
    }

    #[test]
    fn property_images_come_back(value in payload()) {
        // [W8, W9] what only moved comes back byte for byte
        let text = value.to_string().replace("LONG", "short").replace("partialJson", "p").replace("jsonlEvents", "j")
            .replace("lineCount", "lines");
        let payload = JsonText::from_serialize(&spell_out(serde_json::from_str(&text).unwrap())).unwrap();
        let store = store();
        let after = persist(&payload, |bytes| store.put(bytes)).unwrap();
        let (back, problems) = resolve_blobs(&after, &store);
        prop_assert!(problems.is_empty());
        prop_assert_eq!(back.as_str(), payload.as_str());
    }

    #[test]
    fn property_untouched_payloads_are_not_copied(value in payload(), blanks in "[ \t\r\n]{0,3}") {
        // [F6] what needs nothing stays byte for byte, whatever its spelling
        let text = value.to_string().replace(",\"", &format!(",{blanks}\"")).replace("data:image/", "data:text/").replace("partialJson", "p").replace("jsonlEvents", "j")
            .replace("image_url", "url").replace("LONG", "1.0").replace("IMAGE", "\\ud83d");
        let payload = parse(&text);
        let after = persist(&payload, |_| unreachable!("there is nothing to store")).unwrap();
        prop_assert!(matches!(after, Cow::Borrowed(_)));
        prop_assert_eq!(after.as_str(), payload.as_str());
    }

    #[test]
    fn property_any_json_survives(text in r#"([\[{"}\]:,0-9a ]|"content"|"data":|"type":"image"|"partialJson":|\\u00){0,40}"#) {
        if let Ok(payload) = JsonText::parse(&text) {
            let after = persist(&payload, |bytes| Ok(BlobHash::of(bytes))).unwrap();
            prop_assert!(JsonText::parse(after.as_str()).is_ok(), "{} -> {}", payload, after);
            let _ = resolve_blobs(&after, &store());
        }
    }
}
