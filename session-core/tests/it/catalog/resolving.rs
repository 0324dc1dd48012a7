//! From an argument to a session `[R4]`.

use std::path::Path;

use session_core::{ErrorKind, ResolvedBy};

use super::Place;

#[test]
fn k35_an_unknown_id_is_none_and_an_ambiguous_one_lists_its_candidates() {
    // [K35, R4]
    let place = Place::new();
    place.session("--w--/2026-01-01T00-00-00-000Z_cafe0001.jsonl", "cafe0001", "/w", 1);
    let two = place.session("--v--/2026-01-02T00-00-00-000Z_cafe0002.jsonl", "cafe0002", "/v", 2);
    let three = place.session("--v--/2026-01-03T00-00-00-000Z_cafe0003.jsonl", "cafe0003", "/v", 3);
    let catalog = place.catalog();
    let resolve = |argument: &str, cwd: &str| catalog.resolve(argument, Path::new(cwd), None);
    assert_eq!(resolve("beef", "/w").unwrap(), None);
    assert_eq!(resolve("cafe", "/w").unwrap().unwrap().id().unwrap().as_str(), "cafe0001", "this directory first");
    for cwd in ["/v", "/elsewhere"] {
        let error = resolve("CAFE", cwd).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Ambiguous);
        let message = error.to_string();
        for path in [&two, &three] {
            assert!(message.contains(path.to_str().unwrap()), "{message}");
        }
        let fitting = catalog.matching("CAFE", Path::new(cwd), None).unwrap();
        assert_eq!(fitting.len(), if cwd == "/v" { 2 } else { 3 });
    }
    let exact = resolve("cafe0003", "/w").unwrap().unwrap();
    assert_eq!((exact.path(), exact.by()), (three.as_path(), ResolvedBy::Id));
    let named = resolve("2026-01-02", "/w").unwrap().unwrap();
    assert_eq!((named.path(), named.by()), (two.as_path(), ResolvedBy::Prefix));
    for empty in ["", " "] {
        assert_eq!(resolve(empty, "/w").unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}

#[test]
fn a_long_list_of_candidates_is_cut_with_a_count() {
    let place = Place::new();
    for n in 0..50 {
        place.session(&format!("--w--/{n}.jsonl"), &format!("aa{n:02}"), "/w", n);
    }
    let error = place.catalog().resolve("aa", Path::new("/w"), None).unwrap_err().to_string();
    assert!(error.contains("fits 50 sessions") && error.ends_with("and 30 more"), "{error}");
}

#[test]
fn a_path_is_taken_as_it_is() {
    // [R4]
    let place = Place::new();
    let path = place.session("--w--/a.jsonl", "a1", "/w", 1);
    let catalog = place.catalog();
    let resolve = |argument: &str| catalog.resolve(argument, Path::new("/w"), None).unwrap().unwrap();
    let known = resolve(path.to_str().unwrap());
    assert_eq!((known.path(), known.id().map(session_core::SessionId::as_str)), (path.as_path(), Some("a1")));
    for unknown in ["x.jsonl", "./x", "/nowhere/a1", r"a\b"] {
        let resolved = resolve(unknown);
        assert_eq!((resolved.path(), resolved.id(), resolved.by()), (Path::new(unknown), None, ResolvedBy::Path));
    }
}

#[test]
fn k33_a_session_is_found_by_id_after_its_project_or_directory_was_renamed() {
    // [K33, K34, W6] Of two files with the id the newest; a name that lies is seen through.
    let place = Place::new();
    place.session("--gone--/2026-01-01T00-00-00-000Z_feed.jsonl", "feed", "/gone", 1);
    place.session("-w-new/2026-01-01T00-00-00-000Z_beef.jsonl", "other", "/w", 9);
    let new = place.session("-w-new/copy.jsonl", "beef", "/w", 5);
    place.session("--w--/old.jsonl", "beef", "/w", 4);
    let catalog = place.catalog();
    let find = |id: &str| catalog.find_by_id(&id.into()).unwrap();
    assert_eq!(find("feed"), Some(place.sessions("--gone--/2026-01-01T00-00-00-000Z_feed.jsonl")));
    assert_eq!(find("beef"), Some(new));
    assert_eq!(find("BEEF"), None, "an id is exact");
    assert_eq!(find("fee"), None);
    assert_eq!(catalog.find_by_id(&"".into()).unwrap_err().kind(), ErrorKind::InvalidInput);
}
