//! Following a file that others write: what is delivered, and what is read for it.

use std::path::Path;
use std::sync::Arc;

use session_core::Session;
use session_core::follow::{Changes, Follower, Slice, Sought, Transition};
use session_core::storage::{MemorySessionStorage, OpenMode, SessionStorage};

const PATH: &str = "/s.jsonl";

fn path() -> &'static Path {
    Path::new(PATH)
}

fn header(id: &str) -> String {
    format!(r#"{{"type":"session","version":3,"id":"{id}","timestamp":"2026-01-05T09:30:00.000Z","cwd":"/p"}}"#)
}

fn entry(id: u32) -> String {
    format!(
        r#"{{"type":"message","id":"{id:08x}","parentId":null,"timestamp":"2026-01-05T09:30:00.000Z","message":{{"role":"user","content":"é 😀","timestamp":{id}}}}}"#
    )
}

fn write(storage: &MemorySessionStorage, bytes: &[u8]) {
    storage.open_writer(path(), OpenMode::Append).unwrap().write(bytes).unwrap();
}

fn look(follower: &mut Follower, storage: &MemorySessionStorage) -> Changes {
    follower.look(storage, path(), Slice::default()).unwrap()
}

fn ids(changes: &Changes) -> Vec<String> {
    changes.entries().map(|entry| entry.id().to_string()).collect()
}

#[test]
fn k49_three_pieces_and_a_restart_in_between() {
    let storage = MemorySessionStorage::new();
    write(&storage, format!("{}\n", header("s")).as_bytes());
    let mut follower = Follower::new();
    assert_eq!(look(&mut follower, &storage).transition(), Transition::Begun);
    let line = format!("{}\n", entry(1)).into_bytes();
    for first in 0..line.len() {
        for restart in [true, false] {
            let mut follower = Follower::resume(follower.position().clone());
            let storage = {
                let own = MemorySessionStorage::new();
                own.write_text(path(), &storage.read_text(path()).unwrap()).unwrap();
                own
            };
            look(&mut follower, &storage);
            let second = usize::midpoint(first, line.len());
            let mut delivered = Vec::new();
            for piece in [&line[..first], &line[first..second], &line[second..]] {
                write(&storage, piece);
                delivered.extend(ids(&look(&mut follower, &storage)));
                if restart {
                    follower = Follower::resume(follower.position().to_string().parse().unwrap());
                }
            }
            assert_eq!(delivered, ["00000001"], "cut at {first} and {second}");
            assert_eq!(look(&mut follower, &storage).transition(), Transition::Unchanged);
        }
    }
}

#[test]
fn k50_a_piece_of_a_line_cut_and_grown_again_between_two_looks() {
    let storage = MemorySessionStorage::new();
    let begin = format!("{}\n", header("s"));
    let line = |text: &str| {
        format!(
            r#"{{"type":"message","id":"00000001","parentId":null,"message":{{"role":"user","content":"{text}"}}}}"#
        )
    };
    let (first, second) = (line(&("=".repeat(50) + &"a".repeat(200))), line(&("=".repeat(50) + &"b".repeat(300))));
    write(&storage, format!("{begin}{}", &first[..250]).as_bytes());
    let mut follower = Follower::new();
    look(&mut follower, &storage);
    // Nobody looks while the piece is short; it is longer than before when somebody does, and has no end yet.
    let mut writer = storage.open_writer(path(), OpenMode::Truncate).unwrap();
    writer.write(format!("{begin}{second}").as_bytes()).unwrap();
    assert!(ids(&look(&mut follower, &storage)).is_empty());
    write(&storage, b"\n");
    let changes = look(&mut follower, &storage);
    let delivered: Vec<String> = changes.entries().map(|entry| entry.json().unwrap().as_str().to_owned()).collect();
    assert_eq!(delivered, [second], "what stands in the file");
}

#[test]
fn k50_replaced_truncated_shorter_deleted_and_made_again() {
    let storage = MemorySessionStorage::new();
    let text = |lines: &[String]| lines.join("\n") + "\n";
    let mut follower = Follower::new();
    let mut seen = |storage: &MemorySessionStorage| {
        let changes = look(&mut follower, storage);
        (changes.transition(), ids(&changes).join(" "))
    };
    assert_eq!(seen(&storage), (Transition::NotYet, String::new()));
    storage.write_text(path(), &text(&[header("s"), entry(1), entry(2)])).unwrap();
    assert_eq!(seen(&storage), (Transition::Begun, "00000001 00000002".into()));
    assert_eq!(seen(&storage), (Transition::Unchanged, String::new()));
    write(&storage, text(&[entry(3)]).as_bytes());
    assert_eq!(seen(&storage), (Transition::Continued, "00000003".into()));

    // Replaced by rename, by a longer one and by a shorter one.
    storage.write_text(path(), &text(&[header("renamed"), entry(1), entry(2), entry(3), entry(4)])).unwrap();
    assert_eq!(seen(&storage), (Transition::Replaced, "00000001 00000002 00000003 00000004".into()));
    storage.write_text(path(), &text(&[header("s"), entry(1)])).unwrap();
    assert_eq!(seen(&storage), (Transition::Replaced, "00000001".into()));

    // The same file, emptied and written anew: shorter, longer, of the same length.
    let rewrite =
        |text: String| storage.open_writer(path(), OpenMode::Truncate).unwrap().write(text.as_bytes()).unwrap();
    rewrite(text(&[header("s")]));
    assert_eq!(seen(&storage), (Transition::Truncated, String::new()));
    rewrite(text(&[header("other"), entry(5), entry(6)]));
    assert_eq!(seen(&storage), (Transition::Rewritten, "00000005 00000006".into()));
    rewrite(text(&[header("other"), entry(7), entry(8)]));
    storage.set_modified(path(), std::time::UNIX_EPOCH).unwrap();
    assert_eq!(seen(&storage), (Transition::Rewritten, "00000007 00000008".into()));

    // A fork has the same entries at the same places; the file it is in is known by the session's id.
    rewrite(text(&[header("forkd"), entry(7), entry(8), entry(9)]));
    assert_eq!(seen(&storage), (Transition::Rewritten, "00000007 00000008 00000009".into()));

    storage.unlink(path()).unwrap();
    assert_eq!(seen(&storage), (Transition::Deleted, String::new()));
    storage.write_text(path(), &text(&[header("s"), entry(1)])).unwrap();
    assert_eq!(seen(&storage), (Transition::Replaced, "00000001".into()));

    let elsewhere = Path::new("/elsewhere.jsonl");
    storage.rename(path(), elsewhere).unwrap();
    storage.open_writer(elsewhere, OpenMode::Append).unwrap().write(text(&[entry(2)]).as_bytes()).unwrap();
    assert_eq!(seen(&storage), (Transition::Deleted, String::new()));
    let changes = follower.look(&storage, elsewhere, Slice::default()).unwrap();
    assert_eq!((changes.transition(), ids(&changes)), (Transition::Continued, vec!["00000002".to_owned()]));
    assert_eq!(follower.position().generation(), 8);
}

#[test]
fn f8_a_name_written_into_the_slot_is_no_other_file() {
    let storage = MemorySessionStorage::new();
    let slot = |title: &str| {
        let slot = format!(r#"{{"type":"title","v":1,"title":"{title}","updatedAt":"","pad":""#);
        format!("{slot}{}\"}}\n", " ".repeat(253 - slot.len()))
    };
    storage.write_text(path(), &format!("{}{}\n{}\n", slot("a"), header("s"), entry(1))).unwrap();
    let mut follower = Follower::new();
    assert_eq!(ids(&look(&mut follower, &storage)), ["00000001"]);
    storage.write_at(path(), 0, slot("another title").as_bytes()).unwrap();
    write(&storage, format!("{}\n", entry(2)).as_bytes());
    let changes = look(&mut follower, &storage);
    assert_eq!((changes.transition(), ids(&changes)), (Transition::Continued, vec!["00000002".to_owned()]));
    assert_eq!(changes.defects().total(), 0);
}

#[test]
fn l1_a_last_line_without_its_line_feed() {
    let quiet = Slice::default().taking_last_line();
    let whole = format!("  {}", entry(2));
    // What comes next, and what is delivered then.
    let cases = [
        ("\n", ""),
        ("\r\n", ""),
        (" \n{}\n", ""),
        (&*format!("\n{}\n", entry(3)), "00000003"),
        (&*format!("{}\n", entry(3)), "00000003"),
        (&*format!("torn\n{}\n", entry(3)), "00000003"),
    ];
    for (next, expected) in cases {
        let storage = MemorySessionStorage::new();
        write(&storage, format!("{}\n{}\n{whole}", header("s"), entry(1)).as_bytes());
        let mut follower = Follower::new();
        assert_eq!(ids(&look(&mut follower, &storage)), ["00000001"]);
        let position = follower.position().offset();
        for delivered in [vec!["00000002".to_owned()], vec![]] {
            follower = Follower::resume(follower.position().to_string().parse().unwrap());
            assert_eq!(ids(&follower.look(&storage, path(), quiet).unwrap()), delivered);
            assert_eq!(follower.position().offset(), position, "the position stays at the end of a complete line");
        }
        follower = Follower::resume(follower.position().to_string().parse().unwrap());
        write(&storage, next.as_bytes());
        assert_eq!(ids(&look(&mut follower, &storage)).join(" "), expected, "after {next:?}");
    }
}

#[test]
fn l5_version_1_ids_are_the_same_however_the_file_is_read() {
    let storage = MemorySessionStorage::new();
    write(&storage, b"{\"type\":\"session\",\"id\":\"s\"}\n");
    let mut follower = Follower::new();
    let mut found = Vec::new();
    for n in 0..200 {
        write(&storage, format!("{{\"type\":\"message\",\"n\":{n}}}\njunk\n").as_bytes());
        if n % 3 == 0 {
            follower = Follower::resume(follower.position().to_string().parse().unwrap());
        }
        let changes = look(&mut follower, &storage);
        for entry in changes.entries() {
            assert_eq!(entry.number(), n + 1);
            assert_eq!(&follower.position().session().unwrap().version_1_id(entry.number()), entry.id());
        }
        found.extend(
            changes.entries().map(|entry| (entry.id().to_string(), entry.parent_id().map(ToString::to_string))),
        );
    }
    let session = Session::read_from(Arc::new(storage), path()).unwrap();
    let expected: Vec<_> =
        session.entries().map(|entry| (entry.id().to_owned(), entry.parent_id().map(str::to_owned))).collect();
    assert_eq!(found, expected);
}

#[test]
fn reads_what_a_session_reads() {
    let texts = [
        String::new(),
        header("s"),
        format!("{}\n{}\n{}", header("s"), entry(1), entry(2)),
        format!("\u{feff}{}\r\n\r\n{}\r\n", header("s"), entry(1)),
        format!("junk\n{}\n[1]\n{}{}\n{{\"type\":\"x\"}}\n{}\n", header("s"), entry(1), entry(2), header("t")),
        format!("{}\n{}\n", entry(1), header("s")),
        format!("{{\"type\":\"title\"}}\n{}\n{}\n", header("s"), entry(1)),
        format!("{{\"type\":\"session\",\"id\":\"old\"}}\n{}\n{}{}\n{}\n", entry(7), entry(1), entry(2), entry(9)),
    ];
    for text in texts {
        let storage = MemorySessionStorage::new();
        storage.write_text(path(), &text).unwrap();
        let mut follower = Follower::new();
        let slice = Slice::default().taking_last_line();
        let changes = follower.look(&storage, path(), slice).unwrap();
        let session = Session::read_from(Arc::new(storage), path()).unwrap();
        let expected: Vec<_> = session.entries().map(|entry| (entry.id().to_owned(), entry.line().unwrap())).collect();
        let found: Vec<_> = changes.entries().map(|entry| (entry.id().to_string(), entry.line())).collect();
        assert_eq!(found, expected, "{text}");
        let expected: Vec<_> =
            session.defects().list().iter().map(|defect| (defect.kind(), defect.line(), defect.offset())).collect();
        let found: Vec<_> =
            changes.defects().list().iter().map(|defect| (defect.kind(), defect.line(), defect.offset())).collect();
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn what_certainly_is_not_there_is_known_without_decoding() {
    let storage = MemorySessionStorage::new();
    let line = |id: &str, role: &str| {
        format!(
            "{{\"type\":\"message\",\"id\":\"{id}\",\"parentId\":null,\"message\":{{\"role\":\"{role}\",\"content\":\"say \\\"user\\\"\"}}}}\n"
        )
    };
    let text = "{\"type\":\"session\",\"version\":3,\"id\":\"s\"}\n".to_owned()
        + &line("1", "user")
        + &line("2", "assistant")
        + &line("3", "\\u0075ser");
    storage.write_text(Path::new("/x.jsonl"), &text).unwrap();
    let changes = Follower::new().look(&storage, Path::new("/x.jsonl"), Slice::default()).unwrap();
    let may: Vec<bool> = changes.entries().map(|entry| entry.may_hold(&Sought::new("user"))).collect();
    assert_eq!(may, [true, false, true]);
}
