//! Which session continuing means `[R5]`.

use std::fs;
use std::path::Path;

use session_core::storage::FileSessionStorage;
use session_core::{LikelyReason, Pointers, TerminalId};

use super::{Place, write};

fn point(place: &Place, terminal: &str, text: &str) -> TerminalId {
    write(&place.agent().terminal_sessions().join(terminal), text, 1);
    TerminalId::new(terminal).unwrap()
}

#[test]
fn k29_the_terminal_decides_then_the_time() {
    // [K29, R5]
    let place = Place::new();
    let first = place.session("--w--/1.jsonl", "s1", "/w", 1);
    let second = place.session("--w--/2.jsonl", "s2", "/w", 2);
    place.session("--w--/3.jsonl", "s3", "/elsewhere", 3);
    write(&place.sessions("--w--/4.jsonl"), "broken\n", 4);
    let storage = FileSessionStorage::new();
    let pointers = Pointers::new(&storage, place.agent().terminal_sessions());
    let (one, two) = (TerminalId::new("pts-1").unwrap(), TerminalId::new("pts-2").unwrap());
    pointers.set(&one, Path::new("/w"), &first).unwrap();
    pointers.set(&two, Path::new("/w"), &second).unwrap();

    let catalog = place.catalog();
    let likely = |cwd: &str, terminal: Option<&TerminalId>| {
        let likely = catalog.most_likely(Path::new(cwd), None, terminal).unwrap();
        (likely.session().map(Path::to_path_buf), likely.reason())
    };
    assert_eq!(likely("/w", Some(&one)), (Some(first), LikelyReason::Pointer));
    assert_eq!(likely("/w", Some(&two)), (Some(second.clone()), LikelyReason::Pointer));
    let unknown = TerminalId::new("pts-9").unwrap();
    assert_eq!(likely("/w", Some(&unknown)), (Some(second.clone()), LikelyReason::MostRecent));
    assert_eq!(likely("/w", None), (Some(second.clone()), LikelyReason::MostRecent), "[K30] not of another cwd");
    assert_eq!(likely("/v", Some(&one)), (None, LikelyReason::Nothing));
    assert!(catalog.most_likely(Path::new("w"), None, None).is_err());
    let in_dir = catalog.most_likely(Path::new("/w"), Some(&place.sessions("--w--")), None).unwrap();
    assert_eq!(in_dir.session(), Some(second.as_path()));
}

#[test]
fn k31_a_fresh_pointer_means_a_new_session() {
    // [K31, P2]
    let place = Place::new();
    let old = place.session("--w--/1.jsonl", "s1", "/w", 1);
    let missing = place.sessions("--w--/new.jsonl");
    let reason = |text: String| {
        let terminal = point(&place, "pts-1", &text);
        let likely = place.catalog().most_likely(Path::new("/w"), None, Some(&terminal)).unwrap();
        assert!(likely.session().is_none_or(Path::exists), "[K27] never a path that is not there");
        likely.reason()
    };
    let missing = missing.display();
    assert_eq!(reason(format!("/w\n{missing}\nfresh\n")), LikelyReason::FreshPointer);
    assert_eq!(reason(format!("/w\n{missing}\n")), LikelyReason::MostRecent);
    assert_eq!(reason(format!("/v\n{missing}\nfresh\n")), LikelyReason::MostRecent, "of another directory");
    assert_eq!(reason(format!("/w\n{}\nfresh", old.display())), LikelyReason::Pointer, "it was written since");
    assert_eq!(reason("/w\nsessions/1.jsonl\n".into()), LikelyReason::MostRecent, "relative to nobody knows what");
    assert_eq!(reason("garbage".into()), LikelyReason::MostRecent);
    write(&place.sessions("--w--/bad.jsonl"), "no header\n", 9);
    assert_eq!(reason(format!("/w\n{}\n", place.sessions("--w--/bad.jsonl").display())), LikelyReason::MostRecent);
    assert_eq!(reason(format!("/w\n{}\n", place.sessions("--w--").display())), LikelyReason::MostRecent, "a directory");
}

#[test]
fn a_pointer_through_a_link_is_of_the_same_directory() {
    // [D5]
    let place = Place::new();
    fs::create_dir_all(place.path("real")).unwrap();
    place.link(&place.path("real"), "link");
    let path = place.session("--x--/1.jsonl", "s1", place.path("real").to_str().unwrap(), 1);
    let terminal = point(&place, "pts-1", &format!("{}\n{}\n", place.path("link").display(), path.display()));
    let likely = place.catalog().most_likely(&place.path("real"), None, Some(&terminal)).unwrap();
    assert_eq!((likely.session(), likely.reason()), (Some(path.as_path()), LikelyReason::Pointer));
}
