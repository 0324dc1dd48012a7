//! Sub-agents' sessions: they lie among the artifacts of the session that they worked for, are listed apart, and go where it
//! goes.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::fixture::{Fixture, Sessions, pin};

const INNER: &str = "15e0ffee00000001";
const DEEPER: &str = "15e0ffee00000002";
const ELSEWHERE: &str = "15e0ffee00000003";

/// A sub-agent's session below a directory.
fn begin(dir: &Path, id: &str, cwd: &str, prompt: &str) -> PathBuf {
    fs::create_dir_all(dir).unwrap();
    let file = dir.join(format!("2026-01-05T09-31-00-000Z_{id}.jsonl"));
    let time = "2026-01-05T09:31:00.000Z";
    let message = format!(r#"{{"role":"user","content":"{prompt}","attribution":"agent"}}"#);
    let lines = [
        format!(r#"{{"type":"session","version":3,"id":"{id}","timestamp":"{time}","cwd":"{cwd}"}}"#),
        format!(r#"{{"type":"message","id":"00000001","parentId":null,"timestamp":"{time}","message":{message}}}"#),
    ];
    fs::write(&file, lines.join("\n") + "\n").unwrap();
    pin(&file);
    file
}

/// The project's sessions, of which one had three sub-agents.
fn fixture() -> (Fixture, PathBuf) {
    let fixture = Fixture::new(&[Sessions::Project]);
    let owner = fixture.session("15c0");
    let artifacts = owner.with_extension("");
    let inner = begin(&artifacts.join("agents"), INNER, "/home/u/project", "look for the form");
    begin(&inner.with_extension(""), DEEPER, "/home/u/project/below", "count the lines");
    begin(&artifacts, ELSEWHERE, "/srv/other", "look elsewhere");
    (fixture, owner)
}

fn ids(listed: &Value) -> Vec<&str> {
    let mut ids: Vec<&str> =
        listed["sessions"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn they_are_listed_apart_with_whom_they_worked_for() {
    // [R3, D9] K36
    let (fixture, owner) = fixture();
    let list = |words: &[&str]| fixture.json("sessions.list", &[&["sessions", "list"], words].concat());
    let before = fixture.picture();
    assert!(!ids(&list(&["--all"])).iter().any(|id| id.starts_with("15e0")), "not among the sessions");
    let here = list(&["--subagents", "--cwd", "/home/u/project"]);
    assert_eq!(ids(&here), [INNER], "those of this directory");
    let all = list(&["--subagents", "--all"]);
    assert_eq!(ids(&all), [INNER, DEEPER, ELSEWHERE]);
    for one in all["sessions"].as_array().unwrap() {
        let path = Path::new(one["path"].as_str().unwrap());
        let of = Path::new(one["owner"].as_str().unwrap());
        assert!(path.starts_with(of.with_extension("")), "{one}");
        assert_eq!(of == owner, one["id"] != DEEPER, "{one}");
    }
    let shown = fixture.prints(&["sessions", "list", "--subagents", "--all"]);
    assert!(shown.contains("look for the form") && shown.contains("count the lines"), "{shown}");
    assert!(fixture.prints(&["sessions", "show", INNER]).contains("look for the form"), "reachable by id");
    assert!(fixture.picture() == before, "a command that only shows wrote something [L4a]");
}

fn cwd(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    let header: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    header["cwd"].as_str().unwrap().to_owned()
}

/// The session files below the sessions, by id, with the working directory that each names.
fn cwds(fixture: &Fixture) -> Vec<(String, String)> {
    let files = fixture.picture().into_keys().filter(|path| path.extension().is_some_and(|it| it == "jsonl"));
    let id = |path: &PathBuf| path.file_stem().unwrap().to_str().unwrap().rsplit('_').next().unwrap().to_owned();
    let mut cwds: Vec<_> = files.map(|path| (id(&path), cwd(&path))).collect();
    cwds.sort();
    cwds
}

#[test]
fn they_follow_a_renamed_project_and_back() {
    // [T9, D9, F6a]
    let (fixture, owner) = fixture();
    let bytes = |fixture: &Fixture| {
        // The locks of sessions stay, as after every change.
        let files = fixture.picture().into_iter().filter(|(path, _)| path.starts_with(fixture.sessions()));
        let mut bytes: Vec<_> = files.map(|(_, file)| file).collect();
        bytes.sort();
        bytes
    };
    let before = bytes(&fixture);
    let there = ["sessions", "move", "--from", "/home/u/project", "--to", "/home/u/renamed"];
    let planned = fixture.prints(&[&there[..], &["--dry-run"]].concat());
    assert!(planned.contains("sub-agent: count the lines  /home/u/project/below → /home/u/renamed/below"), "{planned}");
    assert!(bytes(&fixture) == before, "a dry run writes nothing");
    let moved = fixture.json("sessions.move", &[&there[..], &["--yes"]].concat());
    let moved = moved.as_array().unwrap();
    assert_eq!(moved.iter().filter(|one| one["subagent"] == true).count(), 2);
    for one in moved {
        assert_eq!(cwd(Path::new(one["to"].as_str().unwrap())), one["cwd"].as_str().unwrap(), "{one}");
    }
    assert!(!owner.with_extension("").exists());
    let now = cwds(&fixture);
    let of = |id: &str| now.iter().find(|(found, _)| found == id).unwrap().1.as_str();
    assert_eq!(
        (of(INNER), of(DEEPER), of(ELSEWHERE)),
        ("/home/u/renamed", "/home/u/renamed/below", "/srv/other"),
        "the one that worked elsewhere still did"
    );
    fixture.prints(&["sessions", "move", "--from", "/home/u/renamed", "--to", "/home/u/project", "--yes"]);
    assert!(bytes(&fixture) == before, "bytes or times changed on the way there and back");

    // One session takes along its own, and nobody else's.
    fixture.prints(&["sessions", "move", "15c0", "--to", "/home/u/single"]);
    let now = cwds(&fixture);
    let single: Vec<&str> =
        now.iter().filter(|(_, cwd)| cwd.starts_with("/home/u/single")).map(|(id, _)| id.as_str()).collect();
    assert_eq!(single, ["15c0ffee00000001", INNER, DEEPER]);
}

#[test]
fn those_of_a_session_elsewhere_follow_their_own_project() {
    // The session that they worked for is of another project, and stays.
    let (fixture, owner) = fixture();
    fixture.prints(&["sessions", "move", "--from", "/srv/other", "--to", "/srv/new", "--yes"]);
    assert!(owner.exists());
    let now = cwds(&fixture);
    let changed: Vec<&(String, String)> = now.iter().filter(|(_, cwd)| cwd.starts_with("/srv")).collect();
    assert_eq!(changed, [&(ELSEWHERE.to_owned(), "/srv/new".to_owned())]);
}

#[test]
fn they_go_to_the_trash_and_come_back() {
    // [D9]
    let (fixture, _) = fixture();
    let before = fixture.picture();
    fixture.prints(&["sessions", "delete", "15c0", "--yes"]);
    let all = fixture.json("sessions.list", &["sessions", "list", "--subagents", "--all"]);
    assert_eq!(ids(&all), [""; 0]);
    fixture.prints(&["sessions", "restore", "15c0"]);
    assert!(fixture.picture() == before);
}
