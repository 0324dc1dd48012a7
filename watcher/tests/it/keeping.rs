//! Commands that change sessions: names, labels, forks, copies, moves, the trash; and whom they keep their hands off.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::fixture::{Fixture, Sessions, pin};

/// Another process that has a session open for writing.
struct Writer(Child);

impl Writer {
    fn of(file: &Path) -> Self {
        let file = fs::OpenOptions::new().append(true).open(file).unwrap();
        Self(Command::new("sleep").arg("600").stdout(Stdio::from(file)).spawn().unwrap())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn lines(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_session_that_another_process_writes_is_left_alone_and_the_process_named() {
    let fixture = Fixture::new(&[Sessions::Project]);
    let file = fixture.session("15c0");
    let writer = Writer::of(&file);
    let before = fixture.picture();
    let who = format!("process {} (sleep)", writer.0.id());
    for words in [
        &["sessions", "rename", "15c0", "x"][..],
        &["sessions", "label", "15c0", "00000002", "x"],
        &["sessions", "fork", "15c0"],
        &["sessions", "fork", "15c0", "--at", "00000002"],
        &["sessions", "copy", "15c0", "--to", "/home/u/other"],
        &["sessions", "move", "15c0", "--to", "/home/u/other"],
        &["sessions", "move", "--from", "/home/u/project", "--to", "/home/u/other", "--yes"],
        &["sessions", "delete", "15c0", "--yes"],
    ] {
        let (code, said) = fixture.fails(words);
        assert_eq!(code, 5, "{words:?}: {said}");
        assert!(said.contains(&who) && said.contains("--force"), "{words:?}: {said}");
    }
    assert!(fixture.picture() == before, "nothing was to be written");

    let shown = fixture.json("continue", &["continue", "--cwd", "/home/u/project"]);
    let in_use = |shown: &Value| shown["inUse"].as_array().unwrap().len();
    // Both sessions are as old; the one that is shown is in use when it is the one that is written.
    assert_eq!(in_use(&shown), usize::from(shown["path"] == file.to_str().unwrap()));

    let said = fixture.prints(&["sessions", "rename", "15c0", "by", "force", "--force"]);
    assert!(said.contains("by force"), "{said}");
    assert_eq!(lines(&file)[0]["title"], "by force");
}

#[test]
fn names_and_labels() {
    // F6a, W7, T5
    let fixture = Fixture::new(&[Sessions::Project]);
    let file = fixture.session("15c1");
    let before = fs::metadata(&file).unwrap().modified().unwrap();
    fixture.prints(&["sessions", "rename", "15c1", "notes", "of  the\trelease"]);
    assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), before);
    assert_eq!(lines(&file)[0]["title"], "notes of the release");
    assert_eq!(lines(&file)[0]["titleSource"], "user");
    fixture.prints(&["sessions", "label", "notes of the release", "00000002", "first", "try"]);
    let tree = fixture.json("sessions.tree", &["sessions", "tree", "15c1"]);
    assert_eq!(tree[1]["label"], "first try");
    fixture.prints(&["sessions", "label", "15c1", "00000002", "--remove"]);
    let tree = fixture.json("sessions.tree", &["sessions", "tree", "15c1"]);
    assert_eq!(tree[1]["label"], Value::Null);
    assert_eq!(fixture.fails(&["sessions", "rename", "15c1", "\u{7}"]).0, 1);
    assert_eq!(fixture.fails(&["sessions", "label", "15c1", "ffff", "x"]).0, 3);
    assert_eq!(fixture.fails(&["sessions", "rename", "15c1"]).0, 2);
}

#[test]
fn forks_and_copies_leave_the_old_session_as_it_was() {
    // T6, T8, D9
    let fixture = Fixture::new(&[Sessions::Project]);
    let old = fixture.session("15c0");
    fs::create_dir(old.with_extension("")).unwrap();
    fs::write(old.with_extension("").join("0.bash.log"), "log").unwrap();
    let before = fixture.picture();
    let made = |words: &[&str]| PathBuf::from(fixture.prints(words).trim_end());

    let fork = made(&["sessions", "fork", "15c0"]);
    assert_eq!(fork.parent(), old.parent());
    assert_eq!(lines(&fork)[0]["parentSession"], "15c0ffee00000001");
    assert_eq!(lines(&fork)[1..], lines(&old)[1..]);
    assert_eq!(fs::read_to_string(fork.with_extension("").join("0.bash.log")).unwrap(), "log");

    let branch = made(&["sessions", "fork", "15c0", "--at", "00000005"]);
    assert_eq!(fs::read_to_string(branch.with_extension("").join("0.bash.log")).unwrap(), "log");
    let ids: Vec<Value> = lines(&branch)[1..].iter().map(|line| line["id"].clone()).collect();
    assert_eq!(ids[..5], ["00000001", "00000002", "00000003", "00000004", "00000005"]);
    assert_eq!(lines(&branch)[6]["label"], "before keeping");

    let copy = made(&["sessions", "copy", "15c0", "--to", "/home/u/other"]);
    assert_eq!(copy.parent().unwrap().file_name().unwrap(), "--home-u-other--");
    assert_eq!(lines(&copy)[0]["cwd"], "/home/u/other");
    assert_eq!(fs::read_to_string(copy.with_extension("").join("0.bash.log")).unwrap(), "log");

    // A session of an old version is brought up to date in the branch, and stays old where it is.
    let old = fixture.sessions().join("--home-u-project--/2026-01-03T09-30-00-000Z_15a0ffee00000009.jsonl");
    let header = r#"{"type":"session","id":"15a0ffee00000009","timestamp":"2026-01-03T09:30:00.000Z","cwd":"/home/u"}"#;
    let entry =
        r#"{"type":"message","timestamp":"2026-01-03T09:30:01.000Z","message":{"role":"user","content":"old"}}"#;
    fs::write(&old, format!("{header}\n{entry}\n{entry}\n")).unwrap();
    let tree = fixture.json("sessions.tree", &["sessions", "tree", "15a0"]);
    let branch = made(&["sessions", "fork", "15a0", "--at", tree[0]["id"].as_str().unwrap()]);
    assert_eq!((lines(&branch).len(), &lines(&branch)[0]["version"]), (2, &3.into()));
    assert_eq!(lines(&branch)[0]["parentSession"], old.to_str().unwrap());
    assert_eq!(fs::read_to_string(&old).unwrap(), format!("{header}\n{entry}\n{entry}\n"));

    let after = fixture.picture();
    assert!(before.iter().all(|(path, was)| after.get(path) == Some(was)), "something old was changed");
    assert_eq!(fixture.fails(&["sessions", "fork", "15c0", "--at", "zz"]).0, 3);
}

#[test]
fn sessions_follow_a_renamed_project_and_can_follow_it_back() {
    // T9, D9
    let fixture = Fixture::new(&[Sessions::Project]);
    let old = fixture.session("15c0");
    fs::create_dir(old.with_extension("")).unwrap();
    fs::write(old.with_extension("").join("0.bash.log"), "log").unwrap();
    let pointers = fixture.agent().join("terminal-sessions");
    fs::create_dir(&pointers).unwrap();
    fs::write(pointers.join("pts-1"), format!("/home/u/project\n{}\nnote\n", old.display())).unwrap();
    let picture = || {
        let files = fixture.picture().into_iter();
        files.filter(|(path, _)| path.starts_with(fixture.sessions())).collect::<Vec<_>>()
    };
    let before = picture();
    let there = ["sessions", "move", "--from", "/home/u/project", "--to", "/home/u/renamed"];

    let planned = fixture.prints(&[&there[..], &["--dry-run"]].concat());
    assert!(planned.contains("/home/u/project/below → /home/u/renamed/below"), "{planned}");
    assert_eq!(fixture.fails(&there).0, 5);
    assert!(picture() == before, "nothing was confirmed");

    let moved = fixture.json("sessions.move", &[&there[..], &["--yes"]].concat());
    assert_eq!(moved.as_array().unwrap().len(), 3);
    let new = fixture.session("15c0");
    assert_eq!(new.parent().unwrap().file_name().unwrap(), "--home-u-renamed--");
    assert_eq!(lines(&new)[0]["cwd"], "/home/u/renamed");
    assert_eq!(lines(&fixture.session("15b0"))[0]["cwd"], "/home/u/renamed/below");
    assert_eq!(fs::read_to_string(new.with_extension("").join("0.bash.log")).unwrap(), "log");
    let pointer = fs::read_to_string(pointers.join("pts-1")).unwrap();
    assert_eq!(pointer, format!("/home/u/renamed\n{}\nnote\n", new.display()));
    assert_eq!(fixture.fails(&there).0, 3);

    fixture.prints(&["sessions", "move", "--from", "/home/u/renamed", "--to", "/home/u/project", "--yes"]);
    let bytes =
        |picture: Vec<(PathBuf, (Vec<u8>, _))>| -> Vec<Vec<u8>> { picture.into_iter().map(|(_, one)| one.0).collect() };
    // All were in one directory, and each is in that of its own working directory now.
    let (mut was, mut is) = (bytes(before), bytes(picture()));
    was.sort();
    is.sort();
    assert!(was == is, "bytes changed on the way there and back");
}

#[test]
fn what_was_deleted_comes_back_byte_for_byte() {
    let fixture = Fixture::new(&[Sessions::Project]);
    let file = fixture.session("15c0");
    fs::create_dir(file.with_extension("")).unwrap();
    fs::write(file.with_extension("").join("0.bash.log"), b"\xff log").unwrap();
    let before = fixture.picture();

    assert_eq!(fixture.fails(&["sessions", "delete", "15c0"]).0, 5);
    assert!(fixture.picture() == before, "nobody said yes");
    fixture.prints(&["sessions", "delete", "Login page", "15c1", "Login page", "--yes"]);
    assert!(!file.exists() && !file.with_extension("").exists());
    assert_eq!(fixture.json("sessions.list", &["sessions", "list", "--all"])["sessions"].as_array().unwrap().len(), 1);
    let trash = fixture.json("sessions.trash", &["sessions", "restore"]);
    assert_eq!(trash.as_array().unwrap().len(), 2);
    let (code, said) = fixture.fails(&["sessions", "restore", "15ca"]);
    assert!(code == 3 && said.contains("did you mean"), "{said}");

    let (code, said) = fixture.fails(&["sessions", "restore", "15c"]);
    assert!(code == 3 && said.contains("2 deleted sessions fit \"15c\"; say which:"), "{said}");

    fixture.prints(&["sessions", "restore", "15c0", "Write the release notes", "15c0"]);
    assert!(fixture.picture() == before, "the trash left something, or lost something");

    fixture.prints(&["sessions", "delete", "15c0", "--yes"]);
    fs::write(&file, "another").unwrap();
    let (code, said) = fixture.fails(&["sessions", "restore", "15c0"]);
    assert!(code == 1 && said.contains("something is in the place"), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "another");
    assert_eq!(fixture.fails(&["sessions", "empty"]).0, 5);
    fixture.prints(&["sessions", "empty", "--before", "2026-01-01", "--yes"]);
    assert_eq!(fixture.json("sessions.trash", &["sessions", "restore"]).as_array().unwrap().len(), 1);
    fixture.prints(&["sessions", "empty", "--yes"]);
    assert!(fixture.json("sessions.trash", &["sessions", "restore"]).as_array().unwrap().is_empty());
}

#[test]
fn exports_are_made_whole_and_never_over_something() {
    let fixture = Fixture::new(&[Sessions::Project]);
    let words = ["sessions", "export", "15c0", "--format", "jsonl", "--leaf", "00000007", "-o", "branch.jsonl"];
    fixture.prints(&words);
    assert_eq!(fixture.fails(&words).0, 5);
    // What is exported is a session that can be looked at like any other.
    let exported = fixture.home().join("branch.jsonl");
    let detail = fixture.json("sessions.show", &["sessions", "show", exported.to_str().unwrap()]);
    assert_eq!((&detail["entries"], &detail["branches"], &detail["defectCount"]), (&7.into(), &1.into(), &0.into()));
    let old = fs::read_to_string(fixture.session("15c0")).unwrap();
    assert!(fs::read_to_string(&exported).unwrap().lines().all(|line| old.lines().any(|old| old == line)));
    let whole = fixture.json("sessions.export", &["sessions", "export", "15c0"]);
    assert_eq!(whole["entries"].as_array().unwrap().len(), 12);
}

#[test]
fn a_repair_says_what_it_does_and_keeps_the_file_as_it_was() {
    // [L1b] K6
    let fixture = Fixture::new(&[Sessions::Broken]);
    let file = fixture.session("15d0");
    let before = fixture.picture();
    let text = fs::read(&file).unwrap();
    let planned = fixture.json("sessions.repair", &["sessions", "repair", "15d0", "--dry-run"]);
    assert_eq!((&planned["repaired"], &planned["original"]), (&false.into(), &Value::Null));
    assert_eq!(fixture.fails(&["sessions", "repair", "15d0"]).0, 5);
    assert!(fixture.picture() == before, "nobody said yes");
    if cfg!(target_os = "linux") {
        let writer = Writer::of(&file);
        let (code, said) = fixture.fails(&["sessions", "repair", "15d0", "--yes"]);
        assert!(code == 5 && said.contains(&format!("process {} (sleep)", writer.0.id())), "{said}");
        assert!(fixture.picture() == before, "somebody writes it");
    }
    let done = fixture.json("sessions.repair", &["sessions", "repair", "15d0", "--yes"]);
    assert_eq!((&done["repaired"], &done["entries"]), (&true.into(), &planned["entries"]));
    assert_eq!(fs::read(done["original"].as_str().unwrap()).unwrap(), text);
    let shown = fixture.json("sessions.show", &["sessions", "show", "15d0"]);
    let left = |kind: &str| shown["defects"].as_array().unwrap().iter().any(|defect| defect["kind"] == kind);
    assert!(!left("damagedLine") && !left("notAnObject") && !left("noId"), "{shown}");
    let again = fixture.prints(&["sessions", "repair", "15d0"]);
    assert!(again.contains("nothing to repair"), "{again}");

    // Without a header nobody lists it; with one made anew it is there, and of the directory that was said.
    let lost = fixture.sessions().join("--home-u-broken--/2026-01-07T09-30-00-000Z_15d1ffee00000001.jsonl");
    fs::write(&lost, [&text[5..], b"\n"].concat()).unwrap();
    let path = lost.to_str().unwrap();
    let (code, said) = fixture.fails(&["sessions", "show", path]);
    assert!(code == 1 && said.contains("no session header"), "{said}");
    let planned = fixture.output(&["sessions", "repair", path, "--dry-run"]);
    assert!(String::from_utf8(planned.stderr).unwrap().contains("--cwd DIR"));
    fixture.prints(&["sessions", "repair", path, "--cwd", "/home/u/lost", "--yes"]);
    let shown = fixture.json("sessions.show", &["sessions", "show", "15d1"]);
    assert_eq!((&shown["cwd"], &shown["id"]), (&"/home/u/lost".into(), &"15d1ffee00000001".into()));

    let garbage = fixture.sessions().join("--home-u-broken--/notes.jsonl");
    fs::write(&garbage, "my notes\n").unwrap();
    let (code, said) = fixture.fails(&["sessions", "repair", garbage.to_str().unwrap(), "--yes"]);
    assert!(code == 1 && said.contains("not one entry can be read"), "{said}");
}

#[test]
fn images_that_nothing_names_are_collected_and_no_others() {
    // [W11]
    let fixture = Fixture::new(&[Sessions::Project]);
    let blobs = fixture.agent().join("blobs");
    fs::create_dir(&blobs).unwrap();
    let put = |byte: u8, at: &str| {
        let file = blobs.join(format!("{byte:02x}").repeat(32));
        fs::write(&file, [byte]).unwrap();
        let time = std::time::SystemTime::UNIX_EPOCH
            + std::time::Duration::from_secs(session_core::Timestamp::parse(at).unwrap().seconds().unsigned_abs());
        fs::File::options().append(true).open(&file).unwrap().set_modified(time).unwrap();
        file
    };
    let [named, in_trash, in_root, forgotten] = [1, 2, 3, 4].map(|byte| put(byte, "2025-12-01T00:00:00Z"));
    let young = put(5, "2026-01-06T00:00:00Z");
    let name = |session: &Path, blob: &Path| {
        let image =
            format!(r#"{{"type":"image","data":"blob:sha256:{}"}}"#, blob.file_name().unwrap().to_str().unwrap());
        let message = format!(r#"{{"role":"user","content":[{image}]}}"#);
        let entry = format!(r#"{{"type":"message","id":"000000ff","parentId":null,"message":{message}}}"#);
        let text = fs::read_to_string(session).unwrap();
        fs::write(session, text + &entry + "\n").unwrap();
        pin(session);
    };
    name(&fixture.session("15c0"), &named);
    name(&fixture.session("15c1"), &in_trash);
    fixture.prints(&["sessions", "delete", "15c1", "--yes"]);
    let root = fixture.home().join("more");
    fs::create_dir_all(root.join("--x--")).unwrap();
    fs::copy(fixture.session("15b0"), root.join("--x--/copy.jsonl")).unwrap();
    name(&root.join("--x--/copy.jsonl"), &in_root);
    fs::create_dir_all(fixture.home().join(".config")).unwrap();
    fs::write(fixture.home().join(".config/watcher.toml"), "[default]\nroots = [\"~/more\"]\n").unwrap();

    let planned = fixture.json("blobs.collect", &["blobs", "collect", "--dry-run"]);
    assert_eq!(planned["unreferenced"][0]["path"], forgotten.to_str().unwrap(), "{planned}");
    assert_eq!((planned["unreferenced"].as_array().unwrap().len(), &planned["kept"]), (1, &4.into()));
    assert_eq!(fixture.fails(&["blobs", "collect"]).0, 5);
    assert!(forgotten.exists());
    let said = fixture.prints(&["blobs", "collect", "--yes"]);
    assert!(said.contains("1 image removed (1 B)"), "{said}");
    assert!([named, in_trash, in_root, young].iter().all(|blob| blob.exists()) && !forgotten.exists());
    assert!(fixture.prints(&["blobs", "collect"]).contains("nothing to remove"));
}
