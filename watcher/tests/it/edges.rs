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
        assert!(place(own) < place("--agent-dir"), "{words:?}: {help}");
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
            assert!(code == 1 && said.contains(file), "{words:?}: {code} {said}");
        }
    }
    assert!(fixture.picture() == before, "something was written");
}
