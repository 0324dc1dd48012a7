//! What listings keep `[R3]`: never wrong, never in the way, ours alone.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use proptest::prelude::*;
use session_core::{CacheMode, Catalog, ListDepth, Listing, SessionInfo};

use super::{Place, assistant, header, ids, touch, user, write};

/// All that a listing says, as text.
fn dump(listing: &Listing<SessionInfo>) -> String {
    format!("{:?}", (&listing.sessions, &listing.problems))
}

fn cached(place: &Place) -> Catalog {
    place.catalog().with_cache(CacheMode::ReadWrite)
}

#[test]
fn a_listing_from_the_cache_says_the_same() {
    // [R3, K15] Titles, texts of any kind, missing facts, broken files, sub-agents.
    let place = Place::new();
    place.session("--w--/a.jsonl", "a1", "/w", 1);
    place.session("--w--/a/sub.jsonl", "sub", "/w", 2);
    write(&place.sessions("--w--/b.jsonl"), "no header\n", 3);
    write(&place.sessions("--w--/c.jsonl"), &header("c\\n\\u0000\\\"", "").replace("2026-01-05", "when?"), 4);
    let odd = header("d", "/w").replace("}\n", ",\"title\":\"t\\ud83d\\n\",\"parentSession\":\"\"}\n");
    write(&place.sessions("--v--/d.jsonl"), &(odd + &user("00000001", "é\\t\\\\") + &assistant("00000002", "x")), 5);
    let plain = place.catalog().with_cache(CacheMode::Off);
    for listing in [Catalog::list_all, Catalog::all_subagents] {
        let want = dump(&listing(&plain).unwrap());
        assert_eq!(dump(&listing(&cached(&place)).unwrap()), want, "nothing known");
        assert_eq!(dump(&listing(&cached(&place)).unwrap()), want, "all known");
        assert_eq!(dump(&listing(&place.catalog()).unwrap()), want, "read only");
    }
    let file = place.agent().catalog_cache();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "[D10]");
    let left: Vec<_> = fs::read_dir(place.path("agent")).unwrap().map(|item| item.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "no temporary file is left: {left:?}");
}

#[test]
fn every_change_of_a_file_is_seen() {
    // [R3, F6a] An append; a rewrite of the same length that keeps the time; the same in place; a deletion.
    let place = Place::new();
    let path = place.session("--w--/a.jsonl", "a1", "/w", 1);
    let first = || {
        let listing = cached(&place).list_all().unwrap();
        listing.sessions.first().map(|info| (info.first_message().to_owned(), info.message_count()))
    };
    assert_eq!(first(), Some(("hi".into(), Some(1))));
    let text = fs::read_to_string(&path).unwrap() + &assistant("00000002", "y");
    write(&path, &text, 1);
    assert_eq!(first(), Some(("hi".into(), Some(2))));
    for word in ["ho", "hu"] {
        let new = place.path("new");
        write(&new, &text.replace("\"hi\"", &format!("\"{word}\"")), 1);
        fs::rename(&new, &path).unwrap();
        assert_eq!(first().unwrap().0, word);
    }
    // The change time has a tick: without another one in between the kernel would call both the same.
    let changed = |path: &Path| std::os::unix::fs::MetadataExt::ctime_nsec(&fs::metadata(path).unwrap());
    let before = changed(&path);
    while changed(&path) == before {
        write(&path, &text.replace("\"hi\"", "\"ha\""), 1);
    }
    assert_eq!(first().unwrap().0, "ha");
    fs::remove_file(&path).unwrap();
    assert_eq!(first(), None);
    assert!(!fs::read_to_string(place.agent().catalog_cache()).unwrap().contains("a.jsonl"), "nothing is kept of it");
}

#[test]
fn what_is_asked_for_is_read_even_when_less_is_known() {
    let place = Place::new();
    place.session("--w--/a.jsonl", "a1", "/w", 1);
    let list = |depth| cached(&place).with_depth(depth).list_all().unwrap();
    assert_eq!(list(ListDepth::Header).sessions[0].first_prompt(), None);
    assert_eq!(list(ListDepth::Prefix).sessions[0].first_prompt(), Some("hi"));
    assert_eq!(list(ListDepth::Bounded).sessions[0].message_count(), Some(1));
    let listing = list(ListDepth::Header);
    assert_eq!(listing.sessions[0].message_count(), Some(1), "what is known is shown, and not forgotten");
    let other = cached(&place).list(Some(Path::new("/v")), Some(&place.sessions("--w--"))).unwrap();
    assert!(other.sessions.is_empty());
    assert_eq!(list(ListDepth::Header).sessions[0].message_count(), Some(1));
}

#[test]
fn listings_of_different_directories_share_the_cache() {
    let place = Place::new();
    place.session("--w--/a.jsonl", "a1", "/w", 1);
    place.session("--v--/b.jsonl", "b1", "/v", 2);
    let cache = || fs::read_to_string(place.agent().catalog_cache()).unwrap();
    for cwd in ["/w", "/v"] {
        cached(&place).list(Some(Path::new(cwd)), None).unwrap();
    }
    assert!(cache().contains("a.jsonl") && cache().contains("b.jsonl"));
    let modified = || fs::metadata(place.agent().catalog_cache()).unwrap().modified().unwrap();
    let before = modified();
    cached(&place).list_all().unwrap();
    assert_eq!(modified(), before, "nothing new, nothing written");
    fs::remove_dir_all(place.sessions("--w--")).unwrap();
    place.session("--v--/c.jsonl", "c1", "/v", 3);
    cached(&place).list(Some(Path::new("/v")), None).unwrap();
    assert!(!cache().contains("a.jsonl") && cache().contains("c.jsonl"), "a lost directory is forgotten");
}

#[test]
fn a_cache_that_cannot_be_written_or_is_no_file_changes_nothing() {
    let place = Place::new();
    place.session("--w--/a.jsonl", "a1", "/w", 1);
    fs::create_dir(place.agent().catalog_cache()).unwrap();
    assert_eq!(ids(&cached(&place).list_all().unwrap()), ["a1"]);
    assert!(place.agent().catalog_cache().is_dir());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn property_a_damaged_cache_is_ignored_and_rebuilt(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()) {
        // [R3]
        let place = Place::new();
        for name in ["a", "b"] {
            let path = place.session(&format!("--w--/{name}.jsonl"), name, "/w", 1);
            touch(&path, 2);
        }
        let want = dump(&cached(&place).list_all().unwrap());
        let file = place.agent().catalog_cache();
        let good = fs::read(&file).unwrap();
        let mut bad = good.clone();
        let at = at.index(good.len());
        if cut {
            bad.truncate(at);
        } else {
            bad[at] = byte;
        }
        fs::write(&file, &bad).unwrap();
        prop_assert_eq!(dump(&place.catalog().list_all().unwrap()), want.clone());
        prop_assert_eq!(fs::read(&file).unwrap(), bad, "reading writes nothing");
        prop_assert_eq!(dump(&cached(&place).list_all().unwrap()), want);
        prop_assert_eq!(fs::read(&file).unwrap(), good);
    }
}
