//! The main job end to end: sessions on disk, prompts in the history, found again.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::support::{Session, World, until};

#[test]
fn a_real_session_is_synced_once_and_its_counts_are_right() {
    // [H1, H2] The corpus session holds 88 prompts of a person.
    let world = World::new();
    let dir = world.sessions().join("--Users-somebody--");
    fs::create_dir_all(&dir).unwrap();
    fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/large-session.jsonl"), dir.join("x.jsonl")).unwrap();
    let first = world.json(&["sync"]);
    assert_eq!((&first[0]["added"], &first[0]["filesRead"]), (&88.into(), &1.into()));
    assert_eq!(first[0]["problems"], serde_json::json!([]));
    let again = world.json(&["sync"]);
    assert_eq!((&again[0]["added"], &again[0]["filesRead"]), (&0.into(), &0.into()));
    assert_eq!(world.prompts().len(), 88);
    let listed = world.json(&["sessions", "list", "--all"]);
    assert_eq!(listed["sessions"][0]["id"], "d703a1a9-1b7b-4fb1-b512-c9738b1fe617");
    let context = world.json(&["sessions", "context", "d703"]);
    assert_eq!(context["messages"].as_array().unwrap().len(), 914);
}

#[test]
fn prompts_go_in_by_time_over_all_sessions_and_garbage_is_reported() {
    let world = World::new();
    let mut one = Session::begin(&world, "--w--", "00000000000000a1", "/w");
    one.user("first");
    let mut other = Session::begin(&world, "--v--", "00000000000000a2", "/v");
    other.write(format!("{}\n", crate::support::user_line(1, 1_767_605_400_500, "zeroth")).as_bytes());
    one.user("second");
    one.write(b"garbage\n\xff\xfe\n");
    one.user("third");
    fs::write(world.sessions().join("--w--/noise.jsonl"), [0_u8; 500]).unwrap();
    fs::write(world.sessions().join("--w--/empty.jsonl"), "").unwrap();
    fs::create_dir(world.sessions().join("--w--/dir.jsonl")).unwrap();
    let locked = world.sessions().join("--w--/locked.jsonl");
    fs::write(&locked, "x").unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();

    let synced = world.json(&["sync"]);
    assert_eq!(world.prompts(), ["zeroth", "first", "second", "third"]);
    let problems = synced[0]["problems"].as_array().unwrap();
    let mentions = |name: &str| problems.iter().any(|problem| problem.as_str().unwrap().contains(name));
    assert!(mentions("noise.jsonl") && mentions(&format!("{}:4:", one.path().display())), "{problems:?}");
}

#[test]
fn what_another_process_appends_is_found_while_the_watcher_runs() {
    let world = World::new();
    let watcher = world.run(&[]);
    // Nothing was there: the directory of sessions and all in it appear later.
    let mut session = Session::begin(&world, "--w--", "00000000000000b1", "/w");
    session.user("hello there");
    let took = until("the first prompt is found", || world.finds("hello there"));
    println!("from write to found: {} ms, process starts included", took.as_millis());
    session.user("and again");
    until("the second prompt is found", || world.finds("and again"));
    assert_eq!(world.prompts(), ["hello there", "and again"]);
    watcher.signal("TERM");
    let (took, code) = watcher.end();
    assert_eq!(code, Some(0));
    assert!(took.as_millis() < 1500, "{took:?}");
    assert_eq!(world.json(&["sync"])[0]["added"], 0);
}

#[test]
fn what_programs_say_is_no_prompt() {
    let world = World::new();
    let mut session = Session::begin(&world, "--w--", "00000000000000b2", "/w");
    session.write(b"{\"type\":\"message\",\"id\":\"1\",\"parentId\":null,\"timestamp\":\"2026-01-05T09:30:00.000Z\",\"message\":{\"role\":\"user\",\"content\":\"by a program\",\"attribution\":\"agent\"}}\n");
    session.user("by a person");
    world.json(&["sync"]);
    assert_eq!(world.prompts(), ["by a person"]);
}

#[test]
fn a_second_watcher_says_who_runs_and_leaves() {
    // K56
    let world = World::new();
    let watcher = world.run(&[]);
    let second = world.output(&["run"]);
    assert_eq!(second.status.code(), Some(4));
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(said.contains(&format!("process {} since 20", watcher.0.id())), "{said}");
    watcher.signal("KILL");
    watcher.end();
    drop(world.run(&[]));
}
