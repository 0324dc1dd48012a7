//! `watcher hook`: it keeps nobody waiting and loses nothing, and a prompt is one submission however often it is told.

use std::fs;
use std::io::Write as _;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use history::rusqlite::Connection;
use serde_json::json;

use crate::support::{Session, World, until, user_line};

impl World {
    /// Tells an event as a harness does; how long that took.
    pub(crate) fn hook(&self, event: &serde_json::Value) -> Duration {
        let (output, took) = self.hook_text(&event.to_string(), &[]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout.is_empty() && output.stderr.is_empty(), "a hook says nothing: {output:?}");
        took
    }

    fn hook_text(&self, event: &str, words: &[&str]) -> (Output, Duration) {
        let begun = Instant::now();
        let mut command = self.command(&[&["hook"], words].concat());
        command.env("TMUX_PANE", "%9").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // One that has left already reads nothing.
        let _ = child.stdin.take().unwrap().write_all(event.as_bytes());
        let output = child.wait_with_output().unwrap();
        (output, begun.elapsed())
    }

    fn pointer(&self) -> Option<String> {
        fs::read_to_string(self.agent().join("terminal-sessions/tmux-%9")).ok()
    }
}

fn now() -> i64 {
    session_core::Timestamp::from_system(std::time::SystemTime::now()).millis()
}

fn prompt(text: &str) -> serde_json::Value {
    json!({"event": "prompt", "harness": "xcsh", "cwd": "/w", "sessionId": "0000000000000c01", "prompt": text})
}

fn median(mut times: Vec<Duration>) -> String {
    times.sort();
    format!("median {:.1} ms, longest {:.1} ms", ms(times[times.len() / 2]), ms(times[times.len() - 1]))
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[test]
fn k61_a_locked_database_delays_nobody_and_the_prompt_is_there_afterwards_once() {
    let world = World::new();
    let floor: Vec<Duration> = (0..10)
        .map(|_| {
            let begun = Instant::now();
            world.output(&["--version"]);
            begun.elapsed()
        })
        .collect();
    let missing = world.hook(&prompt("missing"));
    // The first history may have taken too long to make; a question takes over what waits.
    assert!(world.finds("missing"));
    let free: Vec<Duration> = (0..10).map(|n| world.hook(&prompt(&format!("free {n}")))).collect();

    let lock = Connection::open(world.history()).unwrap();
    lock.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let locked: Vec<Duration> = (0..10).map(|n| world.hook(&prompt(&format!("locked {n}")))).collect();
    println!("the process alone: {}", median(floor));
    println!("hook, history missing: {:.1} ms", ms(missing));
    println!("hook, history free: {}", median(free));
    println!("hook, history locked: {}", median(locked.clone()));
    // Under any load far less than the minute for which the lock is held.
    assert!(locked.iter().all(|time| *time < Duration::from_secs(10)), "{locked:?}");
    lock.execute_batch("ROLLBACK").unwrap();
    drop(lock);

    // The next hook or, where it has no time for all of it, a question takes over what waits.
    world.hook(&prompt("after"));
    let recent = world.json(&["history", "recent", "--limit", "100"]);
    let mut prompts: Vec<&str> = recent.as_array().unwrap().iter().map(|row| row["prompt"].as_str().unwrap()).collect();
    prompts.sort_unstable();
    let mut expected: Vec<String> = ["after", "missing"].map(str::to_owned).to_vec();
    expected.extend((0..10).flat_map(|n| [format!("free {n}"), format!("locked {n}")]));
    expected.sort();
    assert_eq!(prompts, expected);
}

#[test]
fn a_prompt_by_hook_and_then_in_a_session_file_counts_once() {
    let world = World::new();
    world.hook(&prompt("fix it"));
    let told = now();
    assert!(world.finds("fix it"), "before its session file exists");
    let mut session = Session::begin(&world, "--w--", "0000000000000c01", "/w");
    session.write((user_line(1, told, "fix it") + "\n").as_bytes());
    let synced = world.json(&["sync"]);
    assert_eq!((&synced[0]["added"], &synced[0]["known"]), (&json!(0), &json!(1)));
    assert_eq!(world.prompts(), ["fix it"]);

    // The other way round: the session was read while the hook's prompt was waiting behind another.
    session.write((user_line(2, now(), "second") + "\n" + &user_line(3, now() + 1, "third") + "\n").as_bytes());
    assert_eq!(world.json(&["sync"])[0]["added"], 2);
    world.hook(&prompt("second"));
    world.hook(&prompt("third"));
    world.json(&["history", "recent"]);
    assert_eq!(world.prompts(), ["fix it", "second", "third"]);
}

#[test]
fn a_running_watcher_takes_over_what_waits() {
    let world = World::new();
    let watcher = world.run(&["--reconcile-interval", "1"]);
    let lock = Connection::open(world.history()).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    world.hook(&prompt("waits"));
    lock.execute_batch("ROLLBACK").unwrap();
    let found = || {
        let conn = Connection::open(world.history()).unwrap();
        let sql = "SELECT count(*) FROM history WHERE prompt = 'waits'";
        conn.query_row(sql, [], |row| row.get::<_, i64>(0)).is_ok_and(|count| count == 1)
    };
    until("the watcher takes it over", found);
    watcher.signal("TERM");
    assert_eq!(watcher.end().1, Some(0));
    assert_eq!(world.prompts(), ["waits"]);
}

#[test]
fn a_session_that_begins_becomes_the_terminal_s_if_it_is_one() {
    let world = World::new();
    let session = Session::begin(&world, "--w--", "0000000000000c01", "/w");
    let event = |event: &str, file: &std::path::Path| json!({"event": event, "harness": "xcsh", "cwd": "/w", "sessionFile": file});
    let foreign = world.home().join("claude.jsonl");
    fs::write(&foreign, "{\"type\":\"user\",\"sessionId\":\"x\"}\n").unwrap();
    world.hook(&event("session_start", &foreign));
    world.hook(&event("session_start", &world.home().join("missing.jsonl")));
    world.hook(&json!({"event": "session_start", "harness": "gemini", "cwd": "/w", "sessionFile": session.path()}));
    assert_eq!(world.pointer(), None);
    world.hook(&event("session_start", session.path()));
    let pointer = format!("/w\n{}\n", session.path().display());
    until("the pointer is written", || {
        // The process has 20 ms for it; where that was too little the next event does it.
        if world.pointer().is_none() {
            world.hook(&event("session_end", session.path()));
        }
        world.pointer().as_ref() == Some(&pointer)
    });
    // A line of the harness's own stays.
    let fresh = pointer + "fresh\n";
    fs::write(world.agent().join("terminal-sessions/tmux-%9"), &fresh).unwrap();
    world.hook(&event("session_end", session.path()));
    assert_eq!(world.pointer(), Some(fresh));
}

#[test]
fn claude_code_s_prompts_go_to_a_history_of_our_own() {
    let world = World::new();
    let session = Session::begin(&world, "--w--", "0000000000000c01", "/w");
    let event = |name: &str| {
        json!({"session_id": "c1", "transcript_path": session.path(), "cwd": "/w", "hook_event_name": name,
               "permission_mode": "default", "prompt": "from claude"})
    };
    for name in ["SessionStart", "UserPromptSubmit", "SessionEnd"] {
        world.hook(&event(name));
    }
    assert_eq!(world.pointer(), None);
    assert!(!world.history().exists());
    let own = world.home().join(".local/state/watcher/claude-code");
    let recent = world.json(&["history", "recent", "--agent-dir", own.to_str().unwrap()]);
    assert_eq!(
        (&recent[0]["prompt"], &recent[0]["session"], recent.as_array().unwrap().len()),
        (&json!("from claude"), &json!("c1"), 1)
    );
}

#[test]
fn whatever_it_is_told_it_leaves_with_code_0_and_says_nothing_to_the_model() {
    let world = World::new();
    let unknown = r#"{"hook_event_name":"PreToolUse","tool_name":"Bash"}"#;
    for (event, words, says) in [
        (unknown, &["-v"][..], "PreToolUse is no event"),
        (unknown, &[], ""),
        ("", &[], "no event"),
        ("{not json", &[], ""),
        (r#"{"event":"prompt"}"#, &[], "without a `prompt`"),
        (unknown, &["--misspelt"], "--misspelt"),
    ] {
        let (output, _) = world.hook_text(event, words);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{event}");
        assert!(output.stdout.is_empty() && errors.contains(says), "{event}: {errors}");
    }
    assert!(fs::read_dir(world.home()).unwrap().next().is_none(), "nothing is written for nothing");
}
