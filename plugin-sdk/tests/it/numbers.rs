//! What JSON can't hold is an error and never `null` by accident.

use plugin_sdk::testing::FakeSession;
use plugin_sdk::{ErrorKind, Extension, Numbers, Version};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Saves a value and gives the error's kind and message; nothing may be written then.
fn refused<T: Serialize + DeserializeOwned>(value: &T, numbers: Numbers) -> (ErrorKind, String) {
    let state = Extension::new("n").unwrap().state::<T>(Version(1)).numbers(numbers);
    let mut session = FakeSession::new();
    let before = session.text();
    let error = state.save(&mut session, value).unwrap_err();
    assert_eq!(session.text(), before);
    (error.kind(), error.to_string())
}

#[test]
fn nan_and_infinities() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let (kind, message) = refused(&vec![Some(1.0), None, Some(bad)], Numbers::Json);
        assert_eq!(kind, ErrorKind::NotRepresentable);
        assert!(message.starts_with(&format!("/2 is {bad}")), "{message}");
    }
    assert_eq!(refused(&f32::NAN, Numbers::Json).0, ErrorKind::NotRepresentable);
}

#[test]
fn integers_that_javascript_rounds_when_that_matters() {
    let big = (1_u64 << 53) + 1;
    assert_eq!(refused(&vec![big], Numbers::JavaScript).0, ErrorKind::NotRepresentable);
    assert_eq!(refused(&-9_007_199_254_740_993_i64, Numbers::JavaScript).0, ErrorKind::NotRepresentable);
    assert_eq!(refused(&u128::MAX, Numbers::JavaScript).0, ErrorKind::NotRepresentable);

    let mut session = FakeSession::new();
    let state = Extension::new("n").unwrap().state::<u64>(Version(1));
    state.save(&mut session, &big).unwrap();
    state.clone().numbers(Numbers::JavaScript).save(&mut session, &((1 << 53) - 1)).unwrap();
    session.reload();
    session.assert_wrote("n", "[9007199254740993, 9007199254740991]");
}

#[test]
fn keys_that_are_no_text_and_keys_that_nobody_writes() {
    let (kind, _) = refused(&std::collections::BTreeMap::from([("partialJson".to_owned(), 1)]), Numbers::Json);
    assert_eq!(kind, ErrorKind::NotRepresentable);
    let maps = std::collections::HashMap::from([(vec![1], 1)]);
    assert_eq!(refused(&maps, Numbers::Json).0, ErrorKind::NotRepresentable);
}

#[test]
fn details_of_messages_are_checked_too() {
    let draft = Extension::new("n").unwrap().message("x");
    assert_eq!(draft.details(&f64::NAN).unwrap_err().kind(), ErrorKind::NotRepresentable);
}
