//! Commands at their edges: deep trees, files that are no sessions, names that fit several, outputs that take nothing.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::process::Stdio;

use crate::fixture::{Fixture, Sessions};

#[test]
fn k14_an_outline_of_any_depth_is_no_wider_than_can_be_followed() {
    let fixture = Fixture::new(&[Sessions::Project]);
    let mut text = String::from(
        "{\"type\":\"session\",\"version\":3,\"id\":\"17a0ffee00000001\",\"timestamp\":\"2026-01-05T09:30:00.000Z\",\
         \"cwd\":\"/home/u/project\"}\n",
    );
    // Every second entry has two children, one of which goes on.
    for number in 0..4000_u32 {
        let parent = if number == 0 { "null".to_owned() } else { format!("\"{:08x}\"", (number - 1) / 2 * 2) };
        writeln!(
            text,
            "{{\"type\":\"message\",\"id\":\"{number:08x}\",\"parentId\":{parent},\"timestamp\":\
             \"2026-01-05T09:30:01.000Z\",\"message\":{{\"role\":\"user\",\"content\":\"hello\"}}}}"
        )
        .unwrap();
    }
    fs::write(fixture.session("15c0").with_file_name("2026-01-05T09-30-00-000Z_17a0ffee00000001.jsonl"), text).unwrap();
    let tree = fixture.prints(&["sessions", "tree", "17a0"]);
    assert_eq!(tree.lines().count(), 4000);
    assert!(tree.lines().all(|line| line.chars().count() < 200), "{}", tree.len());
    assert!(tree.contains("└─● 00000002") && tree.contains("…"), "the outermost are drawn");
}

#[test]
fn a_file_that_is_no_session_any_more_is_found_by_the_id_in_its_name() {
    // R4, K6
    let fixture = Fixture::new(&[Sessions::Project]);
    let file = fixture.session("15c0");
    let text = fs::read_to_string(&file).unwrap();
    let (_, entries) = text.split_once('\n').unwrap();
    fs::write(&file, format!("broken\n{entries}")).unwrap();
    let (code, said) = fixture.fails(&["sessions", "show", "15c0"]);
    assert!(code == 1 && said.contains("15c0ffee00000001.jsonl: no session header"), "{said}");
    fixture.prints(&["sessions", "repair", "15c0", "--cwd", "/home/u/project", "--yes"]);
    assert!(fixture.prints(&["sessions", "show", "15c0"]).contains("Fix the login page"));
}

#[test]
fn prompts_of_a_session_are_asked_for_by_whatever_names_it() {
    // R4
    let fixture = Fixture::new(&[Sessions::Project]);
    fixture.prints(&["sync"]);
    let prompts = |session: &str| {
        let rows = fixture.json("history.recent", &["history", "recent", "--session", session]);
        rows.as_array().unwrap().len()
    };
    let all = prompts("15c0ffee00000001");
    let file = fixture.session("15c0");
    assert!(all > 0);
    for session in ["15c0", "Login page", file.to_str().unwrap()] {
        assert_eq!(prompts(session), all, "{session}");
    }
    for words in [&["recent"][..], &["delete", "--yes"], &["export"], &["search", "login"]] {
        let (code, said) = fixture.fails(&[&["history"], words, &["--session", "15c"]].concat());
        assert!(code == 3 && said.contains("15c0ffee00000001") && said.contains("15c1ffee00000002"), "{said}");
    }
    // What was typed there outlives the session.
    fs::remove_file(&file).unwrap();
    assert_eq!(prompts("15c0ffee00000001"), all);
}

#[cfg(target_os = "linux")]
#[test]
fn an_output_that_takes_nothing_is_named() {
    let fixture = Fixture::new(&[Sessions::Project]);
    for words in [&["sessions", "show", "15c0"][..], &["sessions", "list", "--json"], &["completions", "bash"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = fixture.command(words).stdout(Stdio::from(full)).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        assert!(said.contains("standard output: No space left"), "{words:?}: {said}");
    }
}

#[test]
fn with_json_completions_are_one_object_too() {
    let fixture = Fixture::new(&[]);
    for shell in ["bash", "zsh", "fish"] {
        let answer = fixture.json("completions", &["completions", shell]);
        assert_eq!(answer["shell"], shell);
        assert_eq!(answer["script"].as_str().unwrap(), fixture.prints(&["completions", shell]));
    }
}

#[test]
fn a_help_begins_with_what_is_the_command_s_own() {
    let fixture = Fixture::new(&[]);
    for (words, own) in [
        (&["history", "search", "--help"][..], "--until"),
        (&["sessions", "list", "--help"], "--limit"),
        (&["ext", "save", "-h"], "--force"),
        (&["continue", "--help"], "--exec"),
    ] {
        let help = fixture.prints(words);
        let place = |option: &str| help.find(option).unwrap();
        assert!(place(own) < place("Everywhere:"), "{words:?}: {help}");
        assert!(place("Everywhere:") < place("--agent-dir"), "{words:?}: {help}");
        assert!(place("--agent-dir") < place("--verbose"), "{help}");
    }
}

#[test]
fn what_changes_a_session_begins_none() {
    let fixture = Fixture::new(&[Sessions::Broken]);
    let empty = fixture.session("empty");
    let garbage = fixture.session("garbage");
    let before = fixture.picture();
    for file in [&empty, &garbage] {
        let file = file.to_str().unwrap();
        for words in [
            &["ext", "save", "--type", "todo", "--clear", "--session", file][..],
            &["sessions", "rename", file, "name"],
            &["sessions", "label", file, "00000001", "label"],
            &["sessions", "fork", file],
            &["sessions", "copy", file, "--to", "/w"],
            &["sessions", "move", file, "--to", "/w"],
        ] {
            let (code, said) = fixture.fails(words);
            let shown = file.replace(fixture.home().to_str().unwrap(), "~");
            assert!(code == 1 && said.contains(&shown), "{words:?}: {code} {said}");
        }
    }
    assert!(fixture.picture() == before, "something was written");
}

#[test]
fn a_row_that_is_not_there_is_said_before_others_are_deleted() {
    let fixture = Fixture::new(&[Sessions::Project]);
    fixture.prints(&["sync"]);
    let count = || fixture.json("history.stats", &["history", "stats"])["prompts"].clone();
    let before = count();
    let (code, said) = fixture.fails(&["history", "delete", "1", "4711", "--yes"]);
    assert!(code == 3 && said.contains("there is no row 4711"), "{said}");
    assert_eq!(count(), before);
    // Of these rows only those that are like this.
    fixture.prints(&["history", "delete", "1", "2", "3", "--matching", "login", "--yes"]);
    assert_ne!(count(), before);
}

#[test]
fn a_state_is_asked_for_by_the_beginning_of_an_entry_s_id() {
    let fixture = Fixture::new(&[Sessions::Project]);
    let words = ["ext", "get", "--type", "todo", "--session", "15c1", "--at"];
    for (at, said) in [("zz", "no entry has the id"), ("0000000", "entries have an id that begins")] {
        let (code, told) = fixture.fails(&[&words[..], &[at]].concat());
        assert!(code == 3 && told.contains(said), "{told}");
    }
    let id = fixture.json("sessions.tree", &["sessions", "tree", "15c1"])[0]["id"].as_str().unwrap().to_owned();
    for at in [&id[..], &id[..8]] {
        let (code, told) = fixture.fails(&[&words[..], &[at]].concat());
        assert!(code == 3 && told.contains("there is no state todo"), "{told}");
    }
}

#[test]
fn a_hook_that_is_set_up_wrongly_fails_nobody() {
    // Some harnesses take code 2 for a veto.
    let fixture = Fixture::new(&[]);
    for (words, code) in [
        (&["hook", "--bad"][..], 0),
        (&["--json", "hook", "--bad"], 0),
        (&["--harness", "nowhere", "hook"], 0),
        (&["--harness=nowhere", "hook"], 0),
        (&["--bad", "hook"], 0),
        (&["--agent-dir", "hook", "--bad"], 2),
        (&["history", "search", "--bad", "hook"], 2),
        (&["sessions", "hook"], 2),
    ] {
        let output = fixture.output(words);
        assert_eq!(output.status.code(), Some(code), "{words:?}");
        assert!(!output.stderr.is_empty(), "{words:?}");
    }
}

#[test]
fn k55_a_pointer_to_where_nothing_is_mounted_stays() {
    let fixture = Fixture::new(&[Sessions::Project]);
    let disk = fixture.home().join("disk");
    let session = disk.join("sessions/--w--/2026-01-05T09-30-00-000Z_15c9ffee00000009.jsonl");
    let pointer = fixture.agent().join("terminal-sessions/pts-9");
    fs::create_dir_all(pointer.parent().unwrap()).unwrap();
    fs::write(&pointer, format!("/w\n{}\n", session.display())).unwrap();
    fixture.prints(&["pointers", "prune", "--yes"]);
    assert!(pointer.exists(), "the disk may come back");
    fs::create_dir_all(disk.join("sessions")).unwrap();
    fixture.prints(&["pointers", "prune", "--yes"]);
    assert!(!pointer.exists(), "the disk is there, and no session of that id");
}

#[test]
fn a_plugin_goes_into_one_harness_and_one_place() {
    let fixture = Fixture::new(&[Sessions::Project]);
    for (words, said) in [
        (&["--harness", "pi"][..], "xcsh and --harness pi"),
        (&["--agent-dir", "a", "--agent-dir", "b"], "one at a time"),
    ] {
        let (code, told) = fixture.fails(&[&["plugin", "install", "xcsh", "--dry-run"], words].concat());
        assert!(code == 2 && told.contains(said), "{told}");
    }
    fixture.prints(&["plugin", "install", "xcsh", "--dry-run", "--harness", "xcsh"]);
}
