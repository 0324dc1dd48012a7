//! What saving writes, and what it does not: the shape on disk, and the same state appended on every event.

use std::collections::{BTreeMap, HashMap};

use plugin_sdk::testing::FakeSession;
use plugin_sdk::{ErrorKind, Extension, Saved, State, Version};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Todos {
    items: Vec<String>,
    weight: f64,
}

fn todos() -> State<Todos> {
    Extension::new("todo").unwrap().state(Version(2))
}

fn list(items: &[&str]) -> Todos {
    Todos { items: items.iter().map(|&item| item.into()).collect(), weight: 1.0 }
}

#[test]
fn the_entry_has_the_shape_that_every_program_of_the_family_reads() {
    // [F4, F8b]
    let mut session = FakeSession::new();
    let saved = todos().save(&mut session, &list(&["milk"])).unwrap();
    let line = session.text().lines().last().unwrap().to_owned();
    let id = saved.entry().unwrap();
    assert_eq!(
        line,
        format!(
            r#"{{"type":"custom","id":"{id}","parentId":null,"timestamp":"2026-01-05T09:30:00.000Z","customType":"todo","data":{{"items":["milk"],"weight":1.0}},"schemaVersion":2}}"#
        )
    );
}

#[test]
fn a_state_of_version_0_has_no_schema_version() {
    let mut session = FakeSession::new();
    let plain = Extension::new("todo").unwrap().state::<Vec<String>>(Version(0));
    plain.save(&mut session, &vec!["milk".into()]).unwrap();
    assert!(session.text().lines().last().unwrap().ends_with(r#""customType":"todo","data":["milk"]}"#));
    assert_eq!(plain.save(&mut session, &vec!["milk".into()]).unwrap(), Saved::Unchanged);
}

#[test]
fn equal_state_saved_a_hundred_times_is_one_entry() {
    let mut session = FakeSession::new();
    for n in 0..100 {
        let saved = todos().save(&mut session, &list(&["milk"])).unwrap();
        assert_eq!(saved == Saved::Unchanged, n > 0);
        session.user("an event");
    }
    session.assert_wrote("todo", r#"[{"weight":1,"items":["milk"]}]"#);
}

#[test]
fn a_map_without_order_is_one_entry_too() {
    let state = Extension::new("map").unwrap().state::<HashMap<String, u32>>(Version(1));
    let mut session = FakeSession::new();
    for _ in 0..100 {
        // Each map has an order of its own.
        let map: HashMap<String, u32> = (0..20).map(|n| (n.to_string(), n)).collect();
        state.save(&mut session, &map).unwrap();
    }
    assert_eq!(session.wrote("map").len(), 1);
}

#[test]
fn a_rewrite_in_another_spelling_is_no_difference() {
    let mut session = FakeSession::new();
    todos().save(&mut session, &list(&["mélk"])).unwrap();
    // As JSON.stringify spells numbers, and a program that sorts keys and escapes.
    let respelled = r#""data" : {"weight":1, "items":["m\u00e9lk"]}"#;
    session.rewrite(|text| text.replace(r#""data":{"items":["mélk"],"weight":1.0}"#, respelled));
    assert!(session.text().contains(respelled));
    assert_eq!(todos().save(&mut session, &list(&["mélk"])).unwrap(), Saved::Unchanged);
    assert_eq!(todos().load(&session).unwrap(), Some(list(&["mélk"])));
    assert!(todos().save(&mut session, &list(&["melk"])).unwrap().entry().is_some());
}

#[test]
fn integers_that_are_one_float_are_two_states() {
    let state = Extension::new("n").unwrap().state::<u64>(Version(1));
    let mut session = FakeSession::new();
    for n in [1_u64 << 53, (1 << 53) + 1, u64::MAX - 1, u64::MAX] {
        assert!(state.save(&mut session, &n).unwrap().entry().is_some(), "{n}");
        session.reload();
        assert_eq!(state.load(&session).unwrap(), Some(n));
    }
}

#[test]
fn no_state_cleared_state_and_null() {
    let state = Extension::new("maybe").unwrap().state::<Option<u32>>(Version(1));
    let mut session = FakeSession::new();
    assert_eq!(state.load(&session).unwrap(), None);
    assert_eq!(state.clear(&mut session).unwrap(), Saved::Unchanged);
    state.save(&mut session, &None).unwrap();
    assert_eq!(state.load(&session).unwrap(), Some(None));
    state.save(&mut session, &Some(7)).unwrap();
    assert!(state.clear(&mut session).unwrap().entry().is_some());
    assert_eq!(state.clear(&mut session).unwrap(), Saved::Unchanged);
    session.reload();
    assert_eq!(state.load(&session).unwrap(), None);
    // What was cleared can be saved again.
    state.save(&mut session, &Some(7)).unwrap();
    session.assert_wrote("maybe", "[null, 7, null, 7]");
}

#[test]
fn several_named_states_of_one_extension() {
    let extension = Extension::new("todo").unwrap();
    let (plain, settings) =
        (extension.state::<u32>(Version(1)), extension.named_state::<u32>("settings", Version(1)).unwrap());
    let mut session = FakeSession::new();
    plain.save(&mut session, &1).unwrap();
    settings.save(&mut session, &2).unwrap();
    assert_eq!((plain.load(&session).unwrap(), settings.load(&session).unwrap()), (Some(1), Some(2)));
    session.assert_wrote("todo", "[1]");
    session.assert_wrote("todo/settings", "[2]");
}

#[test]
fn over_a_megabyte_is_refused_and_says_what_to_do() {
    let state = Extension::new("big").unwrap().state::<Vec<String>>(Version(1));
    let mut session = FakeSession::new();
    let before = session.text();
    let chunks = |count: usize| vec!["x".repeat(9_997); count];
    let error = state.save(&mut session, &chunks(101)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    for way_out in ["put_blob", "get_blob", "artifact"] {
        assert!(error.to_string().contains(way_out), "{error}");
    }
    // One text that the writing rules would cut [W8].
    let error = state.save(&mut session, &vec!["x".repeat(500_001)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert_eq!(session.text(), before);
    state.save(&mut session, &chunks(99)).unwrap();
    session.reload();
    assert_eq!(state.load(&session).unwrap(), Some(chunks(99)));
}

#[test]
fn a_blob_in_a_state() {
    use plugin_sdk::{BlobRef, get_blob, put_blob};
    let state = Extension::new("album").unwrap().state::<BTreeMap<String, BlobRef>>(Version(1));
    let mut session = FakeSession::new();
    let picture = vec![7_u8; 2_000_000];
    let reference = put_blob(&session, &picture).unwrap();
    state.save(&mut session, &BTreeMap::from([("cover".into(), reference)])).unwrap();
    session.reload();
    // A reference in a state is text like any other: it is not put in the place of an image [W9].
    assert!(session.text().contains(&format!(r#""data":{{"cover":"{reference}"}}"#)));
    let loaded = state.load(&session).unwrap().unwrap();
    assert_eq!(get_blob(&session, &loaded["cover"]).unwrap().unwrap(), picture);
    assert!(serde_json::from_str::<BlobRef>(r#""blob:sha256:../../x""#).is_err());
}

#[test]
fn lone_surrogates_of_others_load_and_stay() {
    // K8
    let mut session = FakeSession::new();
    let state = Extension::new("todo").unwrap().state::<Vec<String>>(Version(0));
    state.save(&mut session, &vec!["x".into()]).unwrap();
    session.rewrite(|text| text.replace(r#""data":["x"]"#, r#""data":["\ud83d"]"#));
    let loaded = state.load(&session).unwrap().unwrap();
    assert_eq!(loaded, ["\u{fffd}"]);
    assert_eq!(state.save(&mut session, &loaded).unwrap(), Saved::Unchanged);
    assert!(session.text().contains(r#"["\ud83d"]"#));
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        any::<f64>().prop_filter("finite", |n| n.is_finite()).prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::Array),
            prop::collection::btree_map("[a-z]{0,3}", inner, 0..4)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn property_what_is_saved_is_loaded_after_a_reload(states in prop::collection::vec(json(), 1..6)) {
        let state = Extension::new("any").unwrap().state::<serde_json::Value>(Version(1));
        let mut session = FakeSession::new();
        let mut entries = 0;
        let mut last = None;
        for value in &states {
            let saved = state.save(&mut session, value).unwrap();
            prop_assert_eq!(saved == Saved::Unchanged, last == Some(value));
            entries += usize::from(saved != Saved::Unchanged);
            last = Some(value);
            prop_assert_eq!(state.save(&mut session, value).unwrap(), Saved::Unchanged);
        }
        session.reload();
        let loaded = state.load(&session).unwrap();
        prop_assert_eq!(loaded.as_ref(), last);
        prop_assert_eq!(state.history(&session).unwrap().len(), entries);
        prop_assert_eq!(session.wrote("any").len(), entries);
    }
}
