//! Schema versions: older data is upgraded, newer and foreign data is an error with the data in hand.

use plugin_sdk::testing::FakeSession;
use plugin_sdk::{BoxError, ErrorKind, Extension, Saved, State, Version};
use serde::{Deserialize, Serialize};
use session_core::JsonText;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Counter {
    count: u32,
    step: u32,
}

#[derive(Deserialize, Serialize)]
struct CounterV1 {
    count: u32,
}

fn v2() -> State<Counter> {
    let state = Extension::new("counter").unwrap().state(Version(2));
    state.upgrade(Version(1), |old: CounterV1| Ok(Counter { count: old.count, step: 1 })).unwrap()
}

/// A session that holds one `custom` entry with this data and version.
fn holding(data: &str, version: Option<u32>) -> FakeSession {
    let mut session = FakeSession::new();
    session.append_custom_entry("counter", Some(&JsonText::parse(data).unwrap()), version).unwrap();
    session.reload();
    session
}

#[test]
fn older_data_is_upgraded_and_saved_as_new_once() {
    let mut session = holding(r#"{"count":5}"#, Some(1));
    let loaded = v2().load(&session).unwrap().unwrap();
    assert_eq!(loaded, Counter { count: 5, step: 1 });
    session.assert_wrote("counter", r#"[{"count":5}]"#);
    assert!(v2().save(&mut session, &loaded).unwrap().entry().is_some());
    assert_eq!(v2().save(&mut session, &loaded).unwrap(), Saved::Unchanged);
    session.assert_wrote("counter", r#"[{"count":5},{"count":5,"step":1}]"#);
}

#[test]
fn data_passes_all_steps_from_its_own_version() {
    let state = v2().upgrade(Version(0), |count: u32| Ok(CounterV1 { count })).unwrap();
    assert_eq!(state.load(&holding("3", None)).unwrap(), Some(Counter { count: 3, step: 1 }));
    assert_eq!(state.load(&holding(r#"{"count":4}"#, Some(1))).unwrap(), Some(Counter { count: 4, step: 1 }));
}

#[test]
fn data_without_a_version_is_version_0() {
    // As a TypeScript extension writes it, or a program that rewrote the entry without our field.
    let session = holding(r#"{"count": 5.0}"#, None);
    let error = v2().load(&session).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoUpgrade);
    assert_eq!(error.data().unwrap().as_str(), r#"{"count": 5.0}"#);
    assert_eq!(error.version(), Some(Version(0)));
    assert_eq!(error.entry().unwrap().as_str(), session.manager().leaf_id().unwrap());
    assert!(error.to_string().contains("upgrade"), "{error}");
    // Saving needs no upgrade, and heals it.
    let mut session = session;
    v2().save(&mut session, &Counter { count: 6, step: 1 }).unwrap();
    assert_eq!(v2().load(&session).unwrap().unwrap().count, 6);
}

#[test]
fn newer_data_is_an_error_with_the_data_and_not_overwritten() {
    let mut session = holding(r#"{"count":1,"by":"v3"}"#, Some(3));
    let before = session.text();
    let mine = Counter { count: 2, step: 1 };
    let refused = [
        v2().load(&session).unwrap_err(),
        v2().save(&mut session, &mine).unwrap_err(),
        v2().clear(&mut session).unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.kind(), ErrorKind::NewerVersion);
        assert_eq!(error.version(), Some(Version(3)));
        assert_eq!(error.data().unwrap().view().get("by").unwrap().text().unwrap(), "v3");
    }
    assert_eq!(session.text(), before);
    v2().save_over(&mut session, &mine).unwrap();
    assert_eq!(v2().load(&session).unwrap(), Some(mine));
    // The newer one is still in the history, as an error of its own.
    let history = v2().history(&session).unwrap();
    assert_eq!(history[0].value().unwrap_err().kind(), ErrorKind::NewerVersion);
    assert!(history[1].value().is_ok());
}

#[test]
fn what_is_no_state_is_an_error_with_the_data() {
    let error = v2().load(&holding(r#"{"count":"many"}"#, Some(2))).unwrap_err();
    assert_eq!((error.kind(), error.version()), (ErrorKind::Malformed, Some(Version(2))));
    assert_eq!(error.data().unwrap().as_str(), r#"{"count":"many"}"#);

    let error = v2().load(&holding("[]", Some(1))).unwrap_err();
    assert_eq!((error.kind(), error.version()), (ErrorKind::UpgradeFailed, Some(Version(1))));
    assert_eq!(error.data().unwrap().as_str(), "[]");
}

#[test]
fn an_upgrade_that_fails_says_why() {
    let state = v2().upgrade(Version(0), |text: String| text.parse::<u32>().map_err(BoxError::from)).unwrap();
    let error = state.load(&holding(r#""none""#, None)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UpgradeFailed);
    let source = std::error::Error::source(&error).unwrap();
    assert!(source.downcast_ref::<std::num::ParseIntError>().is_some());
    // NaN of an upgrade is no null either.
    let state = v2().upgrade(Version(0), |_: u32| Ok(f64::NAN)).unwrap();
    assert_eq!(state.load(&holding("1", None)).unwrap_err().kind(), ErrorKind::UpgradeFailed);
}

#[test]
fn a_version_is_a_whole_number_in_any_spelling() {
    let rewritten = |version: &str| {
        let mut session = holding(r#"{"count":1,"step":2}"#, Some(2));
        session.rewrite(|text| text.replace(r#""schemaVersion":2"#, &format!(r#""schemaVersion":{version}"#)));
        v2().load(&session).map_err(|error| (error.kind(), error.data().is_some()))
    };
    for version in ["2.0", "2e0", " 2"] {
        assert_eq!(rewritten(version), Ok(Some(Counter { count: 1, step: 2 })), "{version}");
    }
    assert_eq!(rewritten("null"), Err((ErrorKind::NoUpgrade, true)));
    for version in ["\"2\"", "1.5", "-1", "true", "{}", "1e300"] {
        assert_eq!(rewritten(version), Err((ErrorKind::Malformed, true)), "{version}");
    }
}

#[test]
fn a_version_that_could_not_stand_beside_the_data_stands_in_it() {
    let load = |data: &str, beside| v2().load(&holding(data, beside)).map_err(|error| error.kind());
    let current = r#"{"count":1,"step":2}"#;
    let envelope = |version: &str| format!(r#"{{"data":{current},"schemaVersion":{version}}}"#);
    for version in ["2", "2.0"] {
        assert_eq!(load(&envelope(version), None), Ok(Some(Counter { count: 1, step: 2 })), "{version}");
    }
    assert_eq!(load(r#"{"schemaVersion":1,"data":{"count":1}}"#, None), Ok(Some(Counter { count: 1, step: 1 })));
    let newer = v2().load(&holding(&envelope("3"), None)).unwrap_err();
    assert_eq!((newer.kind(), newer.version()), (ErrorKind::NewerVersion, Some(Version(3))));
    assert_eq!(newer.data().unwrap().as_str(), current, "the data, without what it came in");
    // Anything else is data: with a third key, with no version, or with a version beside it.
    for other in [r#"{"schemaVersion":2,"data":1,"more":2}"#, &envelope("1.5"), &envelope("\"2\"")] {
        assert_eq!(load(other, None), Err(ErrorKind::NoUpgrade), "{other}");
    }
    assert_eq!(load(&envelope("2"), Some(2)), Err(ErrorKind::Malformed));

    // What we save and what looks so gets its version beside it, even version 0.
    let plain = Extension::new("counter").unwrap().state::<serde_json::Value>(Version(0));
    let looks_so: serde_json::Value = serde_json::from_str(&envelope("2")).unwrap();
    let mut session = FakeSession::new();
    plain.save(&mut session, &looks_so).unwrap();
    assert_eq!(plain.load(&session).unwrap(), Some(looks_so));
}

#[test]
fn upgrades_that_lead_nowhere_are_refused() {
    for from in [Version(2), Version(3), Version(1)] {
        let error = v2().upgrade(from, |old: CounterV1| Ok(old)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}
