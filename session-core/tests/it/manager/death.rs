//! A writing process is killed, again and again: what it acknowledged is there `[W3, W4]`.

use std::path::Path;

use session_core::{NameSource, Session, SessionManager};

use super::{host, user, written};
use crate::child::{Child, role, say};

const KILLS: usize = 200;

/// Appends and renames without end, saying each id once its append has returned.
fn write_without_end(root: &Path, file: &Path) {
    let mut session = SessionManager::open(&host(root), file, None).unwrap();
    for n in 0.. {
        let id = session.append_message(&user(&format!("{n}"))).unwrap();
        say(id.as_str());
        if n % 7 == 3 {
            session.set_session_name(&format!("name {n}"), NameSource::User).unwrap();
        }
    }
}

#[test]
fn k21_a_killed_writer_loses_nothing_that_it_acknowledged() {
    if let Some((_, root)) = role() {
        let file = std::fs::read_to_string(root.join("file")).unwrap();
        return write_without_end(&root, Path::new(&file));
    }
    let dir = tempfile::tempdir().unwrap();
    let session = written(&host(dir.path()), dir.path());
    let file = session.file().unwrap().to_owned();
    std::fs::write(dir.path().join("file"), file.to_str().unwrap()).unwrap();
    drop(session);

    let mut acknowledged = Vec::new();
    for round in 0..KILLS {
        let mut child =
            Child::run("manager::death::k21_a_killed_writer_loses_nothing_that_it_acknowledged", "writer", dir.path());
        // Some die at once, some in the middle of a rename, some after a while.
        for _ in 0..round * 7 % 12 {
            acknowledged.push(child.line());
        }
        child.kill();
    }
    let read = Session::read(&file).unwrap();
    for id in &acknowledged {
        assert!(read.entry(id).is_some(), "{id} was acknowledged and is lost");
    }
    // A kill inside a write may tear the last line of a round; nothing else is ever damaged.
    for defect in read.defects().list() {
        assert_eq!(defect.kind(), session_core::DefectKind::DamagedLine, "{defect}");
    }
    let leftovers = std::fs::read_dir(file.parent().unwrap()).unwrap().count();
    assert!(leftovers <= 1 + KILLS, "{leftovers} files");
}
