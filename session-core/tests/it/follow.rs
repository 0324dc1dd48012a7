//! Following a file that others write: what is delivered, and what is read for it.

use std::path::Path;
use std::sync::Arc;

use session_core::Session;
use session_core::follow::{Changes, Follower, Slice, Transition};
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
    }
}
