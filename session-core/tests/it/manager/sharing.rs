//! Several writers on one session `[W6]`: processes of ours, and programs that know nothing of us.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use session_core::{ErrorKind, ForeignWriters, NameSource, Session, SessionManager};

use super::{host, ids, user, written};
use crate::child::{Child, role, say, wait_for_parent};

const EACH: usize = 1_000;

fn append_and_rename(root: &Path, who: &str) {
    let file = fs::read_to_string(root.join("file")).unwrap();
    let mut session = SessionManager::open(&host(root), Path::new(&file), None).unwrap();
    say("ready");
    wait_for_parent();
    for n in 0..EACH {
        session.append_message(&user(&format!("{who} {n}"))).unwrap();
        if n % 100 == 50 {
            session.set_session_name(&format!("{who} {n}"), NameSource::User).unwrap();
        }
    }
    session.close().unwrap();
}

#[test]
fn k18_k19_two_processes_append_and_rename_at_once() {
    if let Some((who, root)) = role() {
        return append_and_rename(&root, &who);
    }
    let dir = tempfile::tempdir().unwrap();
    let session = written(&host(dir.path()), dir.path());
    let file = session.file().unwrap().to_owned();
    fs::write(dir.path().join("file"), file.to_str().unwrap()).unwrap();
    drop(session);
    let test = "manager::sharing::k18_k19_two_processes_append_and_rename_at_once";
    let mut children = ["a", "b"].map(|who| Child::run(test, who, dir.path()));
    for child in &mut children {
        child.says("ready");
    }
    children.into_iter().for_each(Child::finish);

    let read = Session::read(&file).unwrap();
    assert_eq!(read.defects().total(), 0, "{:?}", read.defects().list());
    let distinct: BTreeSet<String> = ids(&read).into_iter().collect();
    assert_eq!(distinct.len(), 2 * EACH + 1);
    assert_eq!(read.entries().len(), 2 * EACH + 1);
    assert!(read.name().unwrap().is_some());
}

fn foreign_line(n: usize) -> String {
    format!(
        "{{\"type\":\"custom\",\"id\":\"f{n:07}\",\"parentId\":null,\"timestamp\":\"2026-01-01T00:00:00.000Z\",\"customType\":\"foreign\"}}\n"
    )
}

/// Appends like a program that knows nothing of us: opens, writes a line, closes.
fn append_foreign(file: &Path, n: usize) {
    let mut open = OpenOptions::new().append(true).open(file).unwrap();
    open.write_all(foreign_line(n).as_bytes()).unwrap();
}

#[test]
fn k20_a_foreign_appender_beside_our_rewrites_loses_nothing() {
    if let Some((_, root)) = role() {
        let file = fs::read_to_string(root.join("file")).unwrap();
        (0..200).for_each(|n| append_foreign(Path::new(&file), n));
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut session = written(&host(dir.path()), dir.path());
    let file = session.file().unwrap().to_owned();
    fs::write(dir.path().join("file"), file.to_str().unwrap()).unwrap();
    // The appender opens and closes for each line, so now and then it is caught with the file open: that is not what is
    // looked at here.
    session.set_foreign_writers(ForeignWriters::Override);
    let child =
        Child::run("manager::sharing::k20_a_foreign_appender_beside_our_rewrites_loses_nothing", "foreign", dir.path());
    let mut own = Vec::new();
    for n in 0..40 {
        session.set_session_name(&format!("name {n}"), NameSource::User).unwrap();
        own.push(session.append_message(&user(&format!("{n}"))).unwrap().to_string());
    }
    child.finish();
    session.close().unwrap();

    let read = Session::read(&file).unwrap();
    for n in 0..200 {
        assert!(read.entry(&format!("f{n:07}")).is_some(), "line {n} of the foreign appender is lost");
    }
    assert!(own.iter().all(|id| read.entry(id).is_some()));
    assert_eq!(read.defects().total(), 0, "{:?}", read.defects().list());
    let names: Vec<_> = fs::read_dir(file.parent().unwrap()).unwrap().map(|item| item.unwrap().file_name()).collect();
    assert_eq!(names.len(), 1, "no temporary file is left: {names:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_rewrite_is_refused_while_a_foreign_process_has_the_file_open() {
    if let Some((_, root)) = role() {
        let file = fs::read_to_string(root.join("file")).unwrap();
        let _open = OpenOptions::new().append(true).open(file).unwrap();
        say("open");
        return wait_for_parent();
    }
    let dir = tempfile::tempdir().unwrap();
    let mut session = written(&host(dir.path()), dir.path());
    let file = session.file().unwrap().to_owned();
    fs::write(dir.path().join("file"), file.to_str().unwrap()).unwrap();
    let test = "manager::sharing::a_rewrite_is_refused_while_a_foreign_process_has_the_file_open";
    let mut child = Child::run(test, "holder", dir.path());
    child.says("open");
    let before = fs::read(&file).unwrap();
    let error = session.set_session_name("no", NameSource::User).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::HeldElsewhere);
    assert!(error.to_string().contains(&child.pid().to_string()), "{error}");
    assert_eq!(fs::read(&file).unwrap(), before);
    // Appending goes on: it takes nothing from anybody.
    session.append_message(&user("still")).unwrap();
    session.set_foreign_writers(ForeignWriters::Override);
    assert!(session.set_session_name("forced", NameSource::User).unwrap());
    child.finish();
}

#[test]
fn a_writer_that_still_has_the_replaced_file_open_is_merged() {
    // [W6] What arrives in the replaced inode is merged at the next operation and at close.
    let dir = tempfile::tempdir().unwrap();
    let mut session = written(&host(dir.path()), dir.path());
    let file = session.file().unwrap().to_owned();
    let mut late = OpenOptions::new().append(true).open(&file).unwrap();
    session.set_session_name("new file", NameSource::User).unwrap();
    late.write_all(foreign_line(1).as_bytes()).unwrap();
    session.append_message(&user("next")).unwrap();
    assert!(session.session().entry("f0000001").is_some());
    late.write_all(foreign_line(2).as_bytes()).unwrap();
    session.close().unwrap();
    let read = Session::read(&file).unwrap();
    assert!(read.entry("f0000001").is_some() && read.entry("f0000002").is_some());
    assert_eq!(read.defects().total(), 0);
}

#[test]
fn the_same_id_with_another_parent_is_kept_twice_and_reported() {
    // [W6] The disk wins for what we did not append; what we appended is put back.
    let dir = tempfile::tempdir().unwrap();
    let mut session = written(&host(dir.path()), dir.path());
    let file = session.file().unwrap().to_owned();
    let id = session.append_message(&user("mine")).unwrap();
    let theirs = fs::read_to_string(&file).unwrap();
    let mut lines: Vec<String> = theirs.lines().map(str::to_owned).collect();
    let last = lines.len() - 1;
    lines[last] = format!(
        "{{\"type\":\"custom\",\"id\":\"{id}\",\"parentId\":null,\"timestamp\":\"2026-01-01T00:00:00.000Z\",\"customType\":\"theirs\"}}"
    );
    fs::write(&file, lines.join("\n") + "\n").unwrap();
    session.append_message(&user("next")).unwrap();
    let read = Session::read(&file).unwrap();
    let same: Vec<_> =
        read.entries().filter(|entry| entry.id() == id.as_str()).map(session_core::Entry::kind_name).collect();
    assert_eq!(same, ["custom", "message"]);
    assert_eq!(read.defects().list()[0].kind(), session_core::DefectKind::RepeatedId);
}

#[test]
fn k28_ten_times_resume_and_append_is_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let host = host(dir.path());
    let sessions = dir.path().join("s");
    for n in 0..10 {
        let mut session = SessionManager::continue_recent(&host, dir.path(), Some(&sessions)).unwrap();
        session.append_message(&super::assistant(&format!("{n}"))).unwrap();
        session.close().unwrap();
    }
    assert_eq!(fs::read_dir(&sessions).unwrap().count(), 1);
    let mut session = SessionManager::continue_recent(&host, dir.path(), Some(&sessions)).unwrap();
    assert_eq!(session.session().entries().len(), 10);
    session.fork().unwrap().unwrap();
    assert_eq!(fs::read_dir(&sessions).unwrap().count(), 2);
}
