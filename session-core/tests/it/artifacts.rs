//! Artifacts of a session [D9, D9a].

use std::path::Path;
use std::sync::Arc;

use session_core::storage::{FileSessionStorage, MemorySessionStorage, SessionStorage};
use session_core::{ArtifactId, Artifacts, ErrorKind};

use crate::dying::DyingStorage;

fn of(disk: &Arc<MemorySessionStorage>, session: &str) -> Artifacts {
    Artifacts::of_session(disk.clone(), Path::new(session)).unwrap()
}

fn names(disk: &MemorySessionStorage, dir: &str) -> Vec<String> {
    let items = disk.read_dir(Path::new(dir)).unwrap().unwrap_or_default();
    items.iter().map(|item| item.path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn numbers_count_past_what_is_there() {
    // [D9a]
    let disk = Arc::new(MemorySessionStorage::new());
    disk.ensure_dir(Path::new("/s/x/6.dir.log")).unwrap();
    for name in ["7.bash.log", "003.read.log", "notes.txt", "12.jsonl", "9x.read.log", "99999999999999999999.x.log"] {
        disk.write_text(&Path::new("/s/x").join(name), "old").unwrap();
    }
    let artifacts = of(&disk, "/s/x.jsonl");
    assert_eq!(artifacts.save("new", "read").unwrap().to_string(), "8");
    assert_eq!(artifacts.save("newer", "read").unwrap().number(), 9);
    let path = artifacts.path(ArtifactId::parse("8").unwrap()).unwrap().unwrap();
    assert_eq!(disk.read_text(&path).unwrap(), "new");
    assert_eq!(artifacts.path(ArtifactId::parse("10").unwrap()).unwrap(), None);
    let listed: Vec<_> = artifacts.list().unwrap().into_iter().map(|a| (a.id.number(), a.tool)).collect();
    let want = [(3, "read"), (7, "bash"), (8, "read"), (9, "read")];
    assert_eq!(listed, want.map(|(id, tool)| (id, tool.to_owned())));
    disk.ensure_dir(Path::new("/s/x/20.read.log")).unwrap();
    assert_eq!(artifacts.save("past a directory", "read").unwrap().number(), 21);
    for text in ["", "-1", "+1", "1.0", "x", "99999999999999999999"] {
        assert_eq!(ArtifactId::parse(text), None, "{text}");
    }
}

#[test]
fn no_tool_name_leaves_the_directory() {
    let disk = Arc::new(MemorySessionStorage::new());
    let artifacts = of(&disk, "/s/x.jsonl");
    for tool in ["../../etc/passwd", "..", "a/b", "a\\b", "C:\\x", "a\0b", "%2F", "mcp__a.b", "読む", "a b\n"] {
        let id = artifacts.save("t", tool).unwrap();
        let path = artifacts.path(id).unwrap().unwrap();
        assert_eq!(path.parent(), Some(artifacts.dir()), "{tool}");
    }
    assert_eq!(
        names(&disk, "/s/x"),
        [
            "0...%2F..%2Fetc%2Fpasswd.log",
            "1....log",
            "2.a%2Fb.log",
            "3.a%5Cb.log",
            "4.C%3A%5Cx.log",
            "5.a%00b.log",
            "6.%252F.log",
            "7.mcp__a.b.log",
            "8.読む.log",
            "9.a%20b%0A.log",
        ]
    );
    for tool in ["", &"x".repeat(201), &"/".repeat(100)] {
        assert_eq!(artifacts.save("t", tool).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    for file in ["/s/x", "/s/x.JSONL", "/s/.jsonl", "/"] {
        let error = Artifacts::of_session(disk.clone(), Path::new(file)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{file}");
    }
}

#[test]
fn they_go_where_the_session_goes() {
    // [D9] sub-agents' sessions and other files too
    let disk = Arc::new(MemorySessionStorage::new());
    let (x, y, z) = (of(&disk, "/s/x.jsonl"), of(&disk, "/s/y.jsonl"), of(&disk, "/s/z.jsonl"));
    for nothing in [x.copy_to(&y), x.move_to(&y), x.remove()] {
        nothing.unwrap();
    }
    x.save("one", "bash").unwrap();
    disk.write_text(Path::new("/s/x/0-Task.jsonl"), "{}").unwrap();
    x.copy_to(&y).unwrap();
    assert_eq!(names(&disk, "/s/y"), ["0-Task.jsonl", "0.bash.log"]);
    assert_eq!(x.move_to(&y).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(x.list().unwrap().len(), 1);
    y.save("two", "read").unwrap();
    y.move_to(&z).unwrap();
    assert_eq!(names(&disk, "/s/z"), ["0-Task.jsonl", "0.bash.log", "1.read.log"]);
    assert!(!disk.exists(y.dir()).unwrap());
    z.remove().unwrap();
    assert!(!disk.exists(z.dir()).unwrap());
}

#[test]
fn many_writers_never_share_a_number() {
    // [D9a] different tools give different file names, and still no number is given twice
    let root = tempfile::tempdir().unwrap();
    let session = root.path().join("x.jsonl");
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let session = session.clone();
            std::thread::spawn(move || {
                let artifacts = Artifacts::of_session(Arc::new(FileSessionStorage::new()), &session).unwrap();
                (0..20)
                    .map(|n| artifacts.save(&format!("{writer}-{n}"), &format!("tool{writer}")).unwrap())
                    .collect::<Vec<_>>()
            })
        })
        .collect();
    let artifacts = Artifacts::of_session(Arc::new(FileSessionStorage::new()), &session).unwrap();
    let mut all = Vec::new();
    for (writer, ids) in writers.into_iter().map(|handle| handle.join().unwrap()).enumerate() {
        for (n, id) in ids.into_iter().enumerate() {
            let text = std::fs::read_to_string(artifacts.path(id).unwrap().unwrap()).unwrap();
            assert_eq!(text, format!("{writer}-{n}"));
            all.push(id);
        }
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 80);
    assert_eq!(std::fs::read_dir(artifacts.dir()).unwrap().count(), 80, "no reservation is left");
}

#[test]
fn a_number_taken_in_the_last_moment_is_passed_over() {
    // [D9a] by a process of ours between the look and the reservation, and by a program that knows no reservations
    let disk = Arc::new(MemorySessionStorage::new());
    let (ours, theirs) = (of(&disk, "/s/x.jsonl"), disk.clone());
    let beside = DyingStorage::beside(disk.clone(), move |path| {
        if path.ends_with(".0.claim") {
            ours.save("another process", "bash").unwrap();
        }
        if path.ends_with("1.read.log") && !theirs.exists(path).unwrap() {
            theirs.write_text(path, "another program").unwrap();
        }
    });
    let artifacts = Artifacts::of_session(Arc::new(beside), Path::new("/s/x.jsonl")).unwrap();
    assert_eq!(artifacts.save("ours", "read").unwrap().number(), 2);
    assert_eq!(names(&disk, "/s/x"), ["0.bash.log", "1.read.log", "2.read.log"]);
    assert_eq!(disk.read_text(Path::new("/s/x/0.bash.log")).unwrap(), "another process");
    assert_eq!(disk.read_text(Path::new("/s/x/1.read.log")).unwrap(), "another program");
}

#[test]
fn death_at_any_call_overwrites_nothing() {
    for calls in 0.. {
        let disk = Arc::new(MemorySessionStorage::new());
        let before = of(&disk, "/s/x.jsonl").save("before", "read").unwrap();
        let dying = Arc::new(DyingStorage::new(disk.clone(), calls));
        let artifacts = Artifacts::of_session(dying.clone(), Path::new("/s/x.jsonl")).unwrap();
        let saved = artifacts.save("half or whole", "read");
        let next = of(&disk, "/s/x.jsonl");
        let after = next.save("after", "bash").unwrap();
        assert!(after > before);
        let text = |id| disk.read_text(&next.path(id).unwrap().unwrap()).unwrap();
        assert_eq!((text(before), text(after)), ("before".to_owned(), "after".to_owned()));
        if let Ok(id) = saved {
            assert_eq!(text(id), "half or whole");
            assert_ne!(id, after);
            if dying.calls_left() > 0 {
                break;
            }
        }
    }
}
