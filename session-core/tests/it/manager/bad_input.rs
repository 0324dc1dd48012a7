//! Bad input: each a typed error that names what and where, and nothing changes.

use std::fs;
use std::path::Path;

use session_core::{EntryEdit, ErrorKind, JsonText, NameSource, SessionManager};

use super::{host, json, user, written};

type Try<'a> = Box<dyn FnMut(&mut SessionManager) -> session_core::Result<()> + 'a>;

#[test]
fn arguments_that_cannot_be_used_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let host = host(dir.path());
    let mut session = written(&host, dir.path());
    let mut other = written(&host, dir.path());
    let foreign_leaf = other.append_message(&user("other")).unwrap();
    let file = session.file().unwrap().to_owned();
    let before = fs::read(&file).unwrap();
    let leaf = session.leaf_id().unwrap().to_owned();

    let edit = |id: &str, payload: &str| [EntryEdit { id: id.into(), payload: json(payload) }];
    let unknown = ErrorKind::UnknownEntry;
    let invalid = ErrorKind::InvalidInput;
    let tries: Vec<(&str, ErrorKind, Try<'_>)> = vec![
        ("unknown id", unknown, Box::new(|s| s.branch("nope"))),
        (
            "a leaf of another session",
            unknown,
            Box::new(|s| s.create_branched_session(foreign_leaf.as_str()).map(drop)),
        ),
        (
            "a summary from nowhere",
            unknown,
            Box::new(|s| s.branch_with_summary(Some("nope"), "x", None, None).map(drop)),
        ),
        ("a label on nothing", unknown, Box::new(|s| s.append_label_change("nope", Some("x")).map(drop))),
        ("an edit of nothing", unknown, Box::new(|s| s.rewrite_entries(&edit("nope", "{}")))),
        ("an edit that is no object", invalid, Box::new(|s| s.rewrite_entries(&edit(&leaf, "[]")))),
        ("an edit of the id", invalid, Box::new(|s| s.rewrite_entries(&edit(&leaf, r#"{"id":"x"}"#)))),
        ("a message that is no object", invalid, Box::new(|s| s.append_message(&json("\"hi\"")).map(drop))),
        ("an unknown tool call", unknown, Box::new(|s| s.rewrite_tool_call_arguments("nope", &json("{}")))),
        (
            "a name of 10,000 characters",
            ErrorKind::TooLarge,
            Box::new(|s| s.set_session_name(&"n".repeat(10_000), NameSource::User).map(drop)),
        ),
        ("a relative target", invalid, Box::new(|s| s.move_to(Path::new("../up")))),
        ("a target with a NUL", invalid, Box::new(|s| s.move_to(Path::new("/a\0b")))),
        ("a relative working directory", invalid, Box::new(|s| s.set_cwd(Path::new("up")))),
    ];
    for (what, kind, mut attempt) in tries {
        let error = attempt(&mut session).expect_err(what);
        assert_eq!(error.kind(), kind, "{what}: {error}");
        assert!(!error.to_string().is_empty());
        assert_eq!(fs::read(&file).unwrap(), before, "{what}");
        assert_eq!(session.leaf_id(), Some(leaf.as_str()), "{what}");
    }
    assert_eq!(JsonText::parse("{\"a\":").unwrap_err().kind(), ErrorKind::NotJson, "text that is no JSON");
    session.append_message(&user("still works")).unwrap();
}

#[test]
fn a_tool_names_no_path_and_a_session_directory_is_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let host = host(dir.path());
    fs::write(dir.path().join("s"), "a file").unwrap();
    let error = SessionManager::create(&host, dir.path(), Some(&dir.path().join("s"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotAFile, "{error}");
    assert_eq!(error.path(), Some(dir.path().join("s").as_path()));

    let session = SessionManager::create(&host, dir.path(), Some(&dir.path().join("t"))).unwrap();
    session.save_artifact("x", "../../escape").unwrap();
    assert!(!dir.path().join("escape.log").exists());
    for item in session.artifacts().unwrap().list().unwrap() {
        assert_eq!(item.path.parent(), Some(session.artifacts().unwrap().dir()));
    }
}

#[test]
fn l3_a_bare_name_is_a_file_in_the_working_directory() {
    let dir = tempfile::tempdir().unwrap();
    let host = host(dir.path());
    let cwd = host.environment().cwd().unwrap().to_owned();
    fs::create_dir_all(&cwd).unwrap();
    let mut session = SessionManager::open(&host, Path::new("new.jsonl"), None).unwrap();
    session.append_message(&user("hello")).unwrap();
    assert_eq!(session.file(), Some(cwd.join("new.jsonl").as_path()));
    session.close().unwrap();
    let again = SessionManager::open(&host, Path::new("new.jsonl"), None).unwrap();
    assert_eq!(again.session().entries().len(), 1);
}

#[test]
fn a_header_without_a_working_directory_opens_and_says_what_it_cannot_do() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.jsonl");
    fs::write(
        &file,
        "{\"type\":\"session\",\"version\":3,\"id\":\"aaaaaaaaaaaaaaaa\",\"timestamp\":\"2026-01-01T00:00:00.000Z\"}\n",
    )
    .unwrap();
    let mut session = SessionManager::open(&host(dir.path()), &file, None).unwrap();
    assert_eq!(session.cwd(), None);
    session.append_message(&user("works")).unwrap();
    assert_eq!(session.fork().unwrap_err().kind(), ErrorKind::InvalidInput);
    session.set_cwd(Path::new("/v")).unwrap();
    assert_eq!((session.file(), session.cwd()), (Some(file.as_path()), Some(Path::new("/v"))));
    assert_eq!(session_core::Session::read(&file).unwrap().header().unwrap().cwd().as_deref(), Some("/v"));
    session.move_to(Path::new("/w")).unwrap();
    assert_eq!(session.cwd(), Some(Path::new("/w")));
}

#[test]
fn k7_what_cannot_be_opened_is_left_alone() {
    // [L1] A directory, a device, a missing source.
    let dir = tempfile::tempdir().unwrap();
    let host = host(dir.path());
    assert_eq!(SessionManager::open(&host, dir.path(), None).unwrap_err().kind(), ErrorKind::NotAFile);
    assert_eq!(SessionManager::open(&host, Path::new("/dev/null"), None).unwrap_err().kind(), ErrorKind::NotAFile);
    let missing = dir.path().join("missing.jsonl");
    let error = SessionManager::fork_from(&host, &missing, Path::new("/w"), None).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::NotFound, Some(missing.as_path())));
    assert!(!missing.exists());
    let mut closed = written(&host, dir.path());
    closed.close().unwrap();
    assert_eq!(closed.append_message(&user("x")).unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn a_session_of_a_newer_version_becomes_no_session_of_ours() {
    // [F9]
    let dir = tempfile::tempdir().unwrap();
    let host = host(dir.path());
    let source = dir.path().join("newer.jsonl");
    let header =
        r#"{"type":"session","version":4,"id":"15c0000000000004","timestamp":"2026-01-05T09:30:00.000Z","cwd":"/w"}"#;
    let entry =
        r#"{"type":"message","id":"00000001","parentId":null,"timestamp":"2026-01-05T09:30:01.000Z","message":{}}"#;
    let text = format!("{header}\n{entry}\n");
    fs::write(&source, &text).unwrap();
    let forks = dir.path().join("forks");
    let errors = [
        SessionManager::fork_from(&host, &source, Path::new("/w"), Some(&forks)).unwrap_err(),
        SessionManager::branch_from(&host, &source, "00000001", Path::new("/w")).unwrap_err(),
    ];
    for error in errors {
        assert_eq!((error.kind(), error.path()), (ErrorKind::ReadOnly, Some(source.as_path())), "{error}");
    }
    assert!(!forks.exists());
    assert_eq!(fs::read_to_string(&source).unwrap(), text);
}

#[test]
fn who_opens_a_session_that_is_there_makes_none() {
    let dir = tempfile::tempdir().unwrap();
    let host = host(dir.path());
    let missing = dir.path().join("missing.jsonl");
    let error = SessionManager::open_existing(&host, &missing, None).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::NotFound, Some(missing.as_path())));
    assert!(!missing.exists());
    for text in ["", "no session\n"] {
        let file = dir.path().join("file.jsonl");
        fs::write(&file, text).unwrap();
        let error = SessionManager::open_existing(&host, &file, None).unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::InvalidInput, Some(file.as_path())));
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
    let file = written(&host, dir.path()).file().unwrap().to_owned();
    let mut there = SessionManager::open_existing(&host, &file, None).unwrap();
    there.append_message(&user("more")).unwrap();
    assert!(fs::read_to_string(&file).unwrap().contains("more"));
}

#[test]
fn k6_a_repair_rebuilds_the_header_and_keeps_the_original() {
    // [L1b, L3]
    let dir = tempfile::tempdir().unwrap();
    let host = host(dir.path());
    let file = dir.path().join("2026-01-05T09-30-00-250Z_15c0000000000001.jsonl");
    let entry = |n: usize| {
        let parent = n.checked_sub(1).map_or_else(|| "null".to_owned(), |parent| format!("\"{parent:08x}\""));
        let message = format!("{{\"role\":\"user\",\"content\":\"{n}\"}}");
        let time = "2026-01-05T09:30:01.000Z";
        format!(
            "{{\"type\":\"message\",\"id\":\"{n:08x}\",\"parentId\":{parent},\"timestamp\":\"{time}\",\"message\":{message}}}\n"
        )
    };
    let torn = "{\"type\":\"session\",\"version\":3,\"id\":\"15c00000\n".to_owned();
    let text = torn + &(0..200).map(entry).collect::<Vec<_>>().concat();
    fs::write(&file, &text).unwrap();
    let plan = SessionManager::plan_repair(&host, &file, None).unwrap().unwrap();
    assert_eq!((plan.entries, plan.header_rebuilt), (200, true));
    assert_eq!(fs::read_to_string(&file).unwrap(), text, "a plan writes nothing");
    let repair = SessionManager::repair(&host, &file, Some(Path::new("/w"))).unwrap().unwrap();
    assert_eq!((repair.entries, repair.header_rebuilt), (200, true));
    assert_eq!(fs::read_to_string(&repair.original).unwrap(), text, "the original, byte for byte");
    let session = session_core::Session::read(&file).unwrap();
    assert_eq!(session.defects().total(), 0);
    let header = session.header().unwrap();
    assert_eq!((header.id().as_str(), header.cwd().as_deref()), ("15c0000000000001", Some("/w")));
    assert_eq!(header.timestamp().unwrap().to_string(), "2026-01-05T09:30:00.250Z");
    // Whole files are left alone, and what holds no entry is no session.
    assert_eq!(SessionManager::plan_repair(&host, &file, None).unwrap(), None);
    assert_eq!(SessionManager::repair(&host, &file, None).unwrap(), None);
    let notes = dir.path().join("notes.jsonl");
    fs::write(&notes, "my notes\n").unwrap();
    assert_eq!(SessionManager::repair(&host, &notes, None).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(fs::read_to_string(&notes).unwrap(), "my notes\n");
}

#[test]
fn a_repair_moves_damage_out_and_saves_what_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let host = host(dir.path());
    let mut session = written(&host, dir.path());
    let id = session.append_message(&user("kept")).unwrap();
    let file = session.file().unwrap().to_owned();
    session.close().unwrap();
    let whole = fs::read_to_string(&file).unwrap();
    let glued =
        "{\"type\":\"custom\",\"id\":\"a\",\"parentId\":null}{\"type\":\"custom\",\"id\":\"b\",\"parentId\":\"a\"}";
    fs::write(&file, format!("{whole}garbage\n{glued}\n[1]\n")).unwrap();
    let repair = SessionManager::repair(&host, &file, None).unwrap().unwrap();
    assert_eq!((repair.entries, repair.header_rebuilt), (4, false));
    let after = fs::read_to_string(&file).unwrap();
    assert!(after.starts_with(&whole), "what was whole stays byte for byte");
    assert_eq!(after.lines().count(), 5);
    let read = session_core::Session::read(&file).unwrap();
    assert_eq!(read.defects().total(), 0);
    assert!(read.entry(id.as_str()).is_some() && read.entry("b").is_some());
}

#[test]
fn a_repair_keeps_the_title_slot() {
    // [F8]
    let dir = tempfile::tempdir().unwrap();
    let host = host(dir.path());
    let slot = r#"{"type":"title","v":1,"title":"kept","updatedAt":"2026-01-05T09:30:00.000Z","pad":""}"#;
    let pad = format!("\"pad\":\"{}\"", " ".repeat(255 - slot.len()));
    let slot = slot.replace("\"pad\":\"\"", &pad) + "\n";
    assert_eq!(slot.len(), 256);
    let header = r#"{"type":"session","version":3,"id":"15c0000000000001","cwd":"/w","title":"old"}"#;
    let entry = r#"{"type":"custom","id":"0000000a","parentId":null,"customType":"x"}"#;
    let file = dir.path().join("2026-01-05T09-30-00-250Z_15c0000000000001.jsonl");
    for (text, rebuilt) in [(format!("{slot}{header}\ngarbage\n{entry}\n"), false), (format!("{slot}{entry}\n"), true)]
    {
        fs::write(&file, &text).unwrap();
        let repair = SessionManager::repair(&host, &file, Some(Path::new("/w"))).unwrap().unwrap();
        assert_eq!((repair.entries, repair.header_rebuilt), (1, rebuilt));
        let after = fs::read_to_string(&file).unwrap();
        assert!(after.starts_with(&slot) && after.ends_with(&format!("{entry}\n")), "{after}");
        let session = session_core::Session::read(&file).unwrap();
        assert_eq!((session.name().unwrap().as_deref(), session.defects().total()), (Some("kept"), 0));
        fs::remove_file(repair.original).unwrap();
    }
}
