//! Reading whatever lies there: any bytes, any size, files that change under the reader `[L1, L8, L9]`.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use session_core::storage::{MemorySessionStorage, SessionStorage};
use session_core::{DefectKind, ErrorKind, Leaf, Session};

use crate::child::{Child, role, say};

const HEADER: &str = "{\"type\":\"session\",\"version\":3,\"id\":\"15c0000000000001\",\"timestamp\":\"2026-01-05T09:30:00.000Z\",\"cwd\":\"/w\"}\n";

fn message(id: &str, parent: Option<&str>, content: &str) -> String {
    let parent = parent.map_or_else(|| "null".to_owned(), |parent| format!("\"{parent}\""));
    format!(
        "{{\"type\":\"message\",\"id\":\"{id}\",\"parentId\":{parent},\"timestamp\":\"2026-01-05T09:30:01.000Z\",\"message\":{{\"role\":\"user\",\"content\":{content}}}}}\n"
    )
}

fn read_bytes(bytes: &[u8]) -> Session {
    let storage: Arc<dyn SessionStorage> = Arc::new(MemorySessionStorage::new());
    storage.create_new(Path::new("/x.jsonl")).unwrap().write(bytes).unwrap();
    Session::read_from(storage, Path::new("/x.jsonl")).unwrap()
}

/// Asks for everything that can be asked for.
fn use_up(session: &Session) {
    let tree = session.tree();
    assert_eq!(tree.len(), session.entries().len(), "each entry once");
    session.context(&Leaf::Current).unwrap();
    session.context(&Leaf::Entry("nope".into())).unwrap();
    session.usage().unwrap();
    session.labels().unwrap();
    session.name().unwrap();
    session.examine().unwrap();
    for entry in session.entries() {
        assert!(entry.json().is_ok_and(|json| json.view().get("id").is_some()) || entry.json().is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn property_any_bytes_load(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        use_up(&read_bytes(&bytes));
    }

    #[test]
    fn property_any_damage_to_a_session_loads(
        version in proptest::sample::select(vec!["1", "2", "3", "4", "null", "\"x\""]),
        cuts in proptest::collection::vec((0_usize..1_000, 0_usize..40, "[{}\\[\\]\":,\\\\a\\n\u{0}é]{0,4}"), 0..6),
    ) {
        let mut text = HEADER.replace("\"version\":3", &format!("\"version\":{version}"));
        for (n, kind) in ["message", "label", "compaction", "model_change", "custom", "session_info"].iter().enumerate() {
            text.push_str(&message(&format!("{n}"), n.checked_sub(1).map(|p| p.to_string()).as_deref(), "\"x\"").replace("\"message\",\"id\"", &format!("\"{kind}\",\"id\"")));
        }
        let mut bytes = text.into_bytes();
        for (at, len, with) in cuts {
            let start = at.min(bytes.len());
            let end = (start + len).min(bytes.len());
            bytes.splice(start..end, with.bytes());
        }
        use_up(&read_bytes(&bytes));
    }
}

#[test]
fn k12_k13_huge_files_take_bounded_memory() {
    if let Some((_, root)) = role() {
        let session = Session::read(&root.join("sparse.jsonl")).unwrap();
        say(&format!("{} {:?}", session.entries().len(), session.defects().list()[0].kind()));
        let session = Session::read(&root.join("long.jsonl")).unwrap();
        say(&format!("{} {}", session.entries().len(), session.defects().total()));
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB").trim().to_owned();
        return say(&peak);
    }
    let dir = tempfile::tempdir().unwrap();
    // 4 GB of nothing behind a header and an entry.
    let mut sparse = File::create(dir.path().join("sparse.jsonl")).unwrap();
    sparse.write_all((HEADER.to_owned() + &message("1", None, "\"x\"")).as_bytes()).unwrap();
    sparse.set_len(4 << 30).unwrap();
    // One line of 2 GB, whole, between two others.
    let mut long = File::create(dir.path().join("long.jsonl")).unwrap();
    long.write_all(HEADER.as_bytes()).unwrap();
    long.write_all(b"{\"type\":\"custom\",\"id\":\"1\",\"parentId\":null,\"customType\":\"c\",\"data\":\"").unwrap();
    long.seek(SeekFrom::Current(2 << 30)).unwrap();
    long.write_all(b"\"}\n").unwrap();
    long.write_all(message("2", Some("1"), "\"after\"").as_bytes()).unwrap();

    let mut child = Child::run("reading::k12_k13_huge_files_take_bounded_memory", "reader", dir.path());
    child.says("1 DamagedLine");
    child.says("2 0");
    let peak: u64 = child.line().trim_end_matches(" kB").trim().parse().unwrap();
    assert!(peak < 64 * 1024, "{peak} KB");
    child.finish();
}

#[test]
fn k14_long_chains_and_many_siblings() {
    const MANY: usize = 200_000;
    let mut chain = HEADER.to_owned();
    let mut siblings = HEADER.to_owned() + &message("root", None, "\"r\"");
    let mut parent = None;
    for n in 0..MANY {
        let id = format!("{n:08x}");
        chain.push_str(&message(&id, parent.as_deref(), "\"x\""));
        siblings.push_str(&message(&id, Some("root"), "\"x\""));
        parent = Some(id);
    }
    let chain = read_bytes(chain.as_bytes());
    assert_eq!(chain.tree().last().unwrap().depth, MANY - 1);
    assert_eq!(chain.branch_path(&Leaf::Current).len(), MANY);
    assert_eq!(chain.context(&Leaf::Current).unwrap().messages().len(), MANY);
    let siblings = read_bytes(siblings.as_bytes());
    assert_eq!(siblings.children("root").len(), MANY);
    assert_eq!(siblings.tree().iter().filter(|node| node.depth == 1).count(), MANY);
}

#[test]
fn nesting_a_million_deep_is_only_long() {
    let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    let session = read_bytes((HEADER.to_owned() + &message("1", None, &deep)).as_bytes());
    assert_eq!(session.context(&Leaf::Current).unwrap().messages().len(), 1);
    assert_eq!(session.examine().unwrap().total(), 0);
}

#[test]
fn k9_foreign_text_is_reported_up_to_a_limit() {
    let foreign: String = (0..50_000).map(|n| format!("line {n} of something else\n")).collect::<Vec<_>>().concat();
    let text = HEADER.to_owned() + &foreign;
    let defects = read_bytes(text.as_bytes()).defects();
    assert_eq!(defects.total(), 50_000);
    assert!(defects.list().len() < 2_000);
    assert_eq!((defects.list()[0].line(), defects.list()[0].kind()), (2, DefectKind::DamagedLine));
}

#[test]
fn k3_one_broken_line_of_a_hundred() {
    let mut text = HEADER.to_owned();
    let mut offset = 0;
    for n in 1..=100 {
        if n == 50 {
            offset = text.len();
            text.push_str("{\"type\":\"message\",\"id\":\"50\",\"par\n");
        } else {
            text.push_str(&message(&n.to_string(), None, "\"x\""));
        }
    }
    let session = read_bytes(text.as_bytes());
    assert_eq!(session.entries().len(), 99);
    let defects = session.defects();
    assert_eq!(defects.total(), 1);
    assert_eq!((defects.list()[0].line(), defects.list()[0].offset()), (51, offset as u64));
    assert!(defects.list()[0].to_string().starts_with("/x.jsonl:51: "), "{}", defects.list()[0]);
}

#[test]
fn a_file_that_changes_under_the_reader_never_gives_another_entrys_payload() {
    // [L9]
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.jsonl");
    let write = |text: &str| fs::write(&path, HEADER.to_owned() + text).unwrap();
    let first = message("1", None, "\"first\"") + &message("2", Some("1"), "\"second\"");

    // Replaced by another file: the opened one is still there.
    write(&first);
    let session = Session::read(&path).unwrap();
    fs::write(dir.path().join("new"), HEADER).unwrap();
    fs::rename(dir.path().join("new"), &path).unwrap();
    assert!(session.entry("2").unwrap().json().unwrap().as_str().contains("second"));

    // Grown: what was there is there.
    write(&first);
    let session = Session::read(&path).unwrap();
    OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap()
        .write_all(message("3", Some("2"), "\"third\"").as_bytes())
        .unwrap();
    assert!(session.entry("1").unwrap().json().unwrap().as_str().contains("first"));
    assert!(session.entry("3").is_none());

    // Written over in place: the entry is found where it is now.
    write(&first);
    let session = Session::read(&path).unwrap();
    write(&(message("0", None, "\"inserted before\"") + &first));
    assert!(session.entry("1").unwrap().json().unwrap().as_str().contains("first"));
    assert!(session.context(&Leaf::Current).unwrap().to_json().contains("second"));

    // Cut short: a typed error that names the entry and the file, never another's payload.
    write(&first);
    let session = Session::read(&path).unwrap();
    OpenOptions::new().write(true).open(&path).unwrap().set_len(HEADER.len() as u64 + 5).unwrap();
    let error = session.entry("2").unwrap().json().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Changed);
    assert_eq!((error.path(), error.entry().map(session_core::EntryId::as_str)), (Some(path.as_path()), Some("2")));
}

#[test]
fn what_cannot_be_read_is_an_error_and_never_an_empty_session() {
    // [L1]
    let dir = tempfile::tempdir().unwrap();
    for (path, kind) in [
        (dir.path().to_owned(), ErrorKind::NotAFile),
        (Path::new("/dev/null").to_owned(), ErrorKind::NotAFile),
        (dir.path().join("missing.jsonl"), ErrorKind::NotFound),
    ] {
        let error = Session::read(&path).unwrap_err();
        assert_eq!((error.kind(), error.path()), (kind, Some(path.as_path())));
    }
}
