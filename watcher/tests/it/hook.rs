//! `watcher hook`: it keeps nobody waiting and loses nothing, and a prompt is one submission however often it is told.

use std::fs;
use std::io::Write as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use history::rusqlite::Connection;
use serde_json::json;

use crate::support::{Session, World, until, user_line};

impl World {
    /// Tells an event as a harness does.
    pub(crate) fn hook(&self, event: &serde_json::Value) {
        let output = self.hook_text(&event.to_string(), &[]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout.is_empty() && output.stderr.is_empty(), "a hook says nothing: {output:?}");
    }

    fn hook_text(&self, event: &str, words: &[&str]) -> Output {
        self.begin_hook(event, words).wait_with_output().unwrap()
    }

    fn begin_hook(&self, event: &str, words: &[&str]) -> Child {
        let mut command = self.command(&[&["hook"], words].concat());
        command.env("TMUX_PANE", "%9").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // One that has left already reads nothing.
        let _ = child.stdin.take().unwrap().write_all(event.as_bytes());
        child
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

/// The processes that hooks of this world left to take over for them.
fn errands(world: &World) -> Vec<String> {
    let home = format!("HOME={}", world.home().display());
    let has = |file: std::path::PathBuf, word: &str| {
        // One that has just ended has no such file.
        fs::read(file).unwrap_or_default().split(|byte| *byte == 0).any(|part| part == word.as_bytes())
    };
    let processes = fs::read_dir("/proc").unwrap().map(|item| item.unwrap().path());
    let of_world =
        processes.filter(|process| has(process.join("cmdline"), "errand") && has(process.join("environ"), &home));
    of_world.map(|process| process.file_name().unwrap().to_str().unwrap().to_owned()).collect()
}

/// Kills what hooks left behind, so that only what the test does takes over; waits until they are gone.
fn kill_errands(world: &World) {
    until("the errands are gone", || {
        let running = errands(world);
        for pid in &running {
            // It may have ended in this moment.
            let _ = Command::new("kill").args(["-KILL", pid]).stderr(Stdio::null()).status();
        }
        running.is_empty()
    });
}

fn lock(world: &World) -> Connection {
    let lock = Connection::open(world.history()).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    lock
}

/// Kills a process once so much time has passed; whether it had ended by itself, well.
fn kill_after(mut child: Child, moment: Duration) -> bool {
    let begun = Instant::now();
    // Waiting for the process would be the end of it, and a timer is too coarse.
    while begun.elapsed() < moment {
        std::hint::spin_loop();
    }
    let _ = child.kill();
    child.wait().unwrap().success()
}

#[cfg(target_os = "linux")]
#[test]
fn k61_hooks_return_while_the_database_is_locked_and_each_prompt_is_there_afterwards_once() {
    let world = World::new();
    world.hook(&prompt("before"));
    until("the history is there", || world.finds("before"));
    let lock = lock(&world);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let world = &world;
            scope.spawn(move || (0..5).for_each(|n| world.hook(&prompt(&format!("locked {thread} {n}")))));
        }
    });
    // All have returned, with their pipes closed, and nobody could write: one process waits for that. One that has just
    // begun finds it waiting and goes.
    until("one process waits", || errands(&world).len() == 1);
    lock.execute_batch("ROLLBACK").unwrap();
    drop(lock);
    let count = || {
        let conn = Connection::open(world.history()).unwrap();
        conn.query_row("SELECT count(*) FROM history", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    until("the prompts are there, without anybody doing anything", || count() >= 21);
    until("nobody is left behind", || errands(&world).is_empty());
    let mut prompts = world.prompts();
    prompts.sort();
    let mut expected = vec!["before".to_owned()];
    expected.extend((0..4).flat_map(|thread| (0..5).map(move |n| format!("locked {thread} {n}"))));
    assert_eq!(prompts, expected);
}

#[test]
fn what_is_never_recorded_is_put_down_nowhere() {
    let world = World::new();
    fs::create_dir_all(world.home().join(".config")).unwrap();
    let settings = world.home().join(".config/watcher.toml");
    fs::write(&settings, "[default]\nnever_record = ['/w']\n").unwrap();
    world.hook(&prompt("private"));
    assert!(!world.agent().join(".watcher").exists(), "nothing was to be written");
    // Settings that nobody understands lose no prompt: it waits, and is judged when they are mended.
    fs::write(&settings, "[default]\nnever_record = ['w']\n").unwrap();
    world.hook(&prompt("waits"));
    assert!(world.agent().join(".watcher/spool/prompts").exists());
    fs::write(&settings, "[default]\nnever_record = ['/v']\n").unwrap();
    world.json(&["history", "recent"]);
    until("it is recorded", || world.prompts() == ["waits"]);
}

#[cfg(target_os = "linux")]
#[test]
fn whoever_comes_next_takes_over_what_nobody_could_record() {
    let world = World::new();
    world.hook(&prompt("before"));
    until("the history is there", || world.finds("before"));
    for (n, next) in ["a history command", "the next hook"].into_iter().enumerate() {
        let lock = lock(&world);
        world.hook(&prompt(&format!("waits {n}")));
        kill_errands(&world);
        lock.execute_batch("ROLLBACK").unwrap();
        if n == 0 {
            world.json(&["history", "recent"]);
        } else {
            world.hook(&prompt("after"));
        }
        let waits = format!("waits {n}");
        until(next, || world.prompts().contains(&waits));
    }
    until("the last is there", || world.prompts().len() == 4);
    assert_eq!(world.prompts(), ["before", "waits 0", "waits 1", "after"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_hook_killed_at_any_moment_loses_nothing_that_it_said_it_has() {
    let world = World::new();
    world.hook(&prompt("before"));
    until("the history is there", || world.finds("before"));
    let begun = Instant::now();
    world.hook(&prompt("usual"));
    let step = begun.elapsed() / 50;
    let mut returned = Vec::new();
    let mut killed = 0;
    // Later and later, until it is too late.
    for n in 0..1_000 {
        let text = format!("prompt {n}");
        let child = world.begin_hook(&prompt(&text).to_string(), &[]);
        if kill_after(child, step * n) {
            returned.push(text);
        } else {
            killed += 1;
        }
        if returned.len() == 20 {
            break;
        }
    }
    assert!(killed > 10 && returned.len() == 20, "killed {killed}, returned {}", returned.len());
    until("nobody is left behind", || errands(&world).is_empty());
    world.json(&["history", "recent"]);
    let mut prompts = world.prompts();
    let count = prompts.len();
    prompts.sort();
    prompts.dedup();
    assert_eq!(prompts.len(), count, "a prompt is there twice");
    assert!(returned.iter().all(|text| prompts.contains(text)), "{returned:?}\n{prompts:?}");
    println!("{killed} hooks were killed, {} of their prompts were recorded", prompts.len() - returned.len() - 2);
}

#[cfg(target_os = "linux")]
#[test]
fn taking_over_killed_at_any_moment_records_each_prompt_once() {
    let world = World::new();
    world.hook(&prompt("before"));
    until("the history is there", || world.finds("before"));
    until("nobody is left behind", || errands(&world).is_empty());
    let errand = || {
        let mut command = world.command(&["errand", "--for", "xcsh"]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let fill = |what: &str| {
        let lock = lock(&world);
        (0..3).for_each(|n| world.hook(&prompt(&format!("{what} {n}"))));
        kill_errands(&world);
        lock.execute_batch("ROLLBACK").unwrap();
    };
    fill("whole");
    let begun = Instant::now();
    assert!(errand().wait().unwrap().success());
    let usual = begun.elapsed();
    let mut killed = 0;
    for n in 0..40 {
        fill(&format!("round {n}"));
        killed += u32::from(!kill_after(errand(), usual * 3 / 2 * n / 40));
    }
    assert!(killed > 10, "killed {killed}");
    world.json(&["history", "recent"]);
    let mut prompts = world.prompts();
    prompts.sort();
    let mut expected = vec!["before".to_owned()];
    expected.extend((0..3).map(|n| format!("whole {n}")));
    expected.extend((0..40).flat_map(|round| (0..3).map(move |n| format!("round {round} {n}"))));
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
    assert_eq!(world.pointer().as_ref(), Some(&pointer));
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
    for place in [["--agent-dir", own.to_str().unwrap()], ["--harness", "claude-code"]] {
        let recent = world.json(&[&["history", "recent"][..], &place].concat());
        assert_eq!(
            (&recent[0]["prompt"], &recent[0]["session"], recent.as_array().unwrap().len()),
            (&json!("from claude"), &json!("c1"), 1)
        );
    }
    // Nothing of it can be followed, and nothing is made that looks as if.
    for command in [&["sync"][..], &["service", "install"]] {
        assert_eq!(world.output(&[command, &["--harness", "claude-code"]].concat()).status.code(), Some(2));
    }
    assert!(!own.join("sessions").exists());
}

#[test]
fn whatever_it_is_told_it_leaves_with_code_0_and_says_nothing_to_the_model() {
    let world = World::new();
    let unknown = r#"{"hook_event_name":"PreToolUse","tool_name":"Bash"}"#;
    for (event, words, says) in [
        (unknown, &["-v"][..], "PreToolUse is no event"),
        (unknown, &[], ""),
        ("", &[], "no event"),
        ("{not json", &[], "ERROR hook: standard input is no JSON object: key must"),
        ("garbage", &[], "ERROR hook: standard input is no JSON object: expected value"),
        ("[1]", &[], "ERROR hook: standard input is no JSON object: "),
        (r#"{"event":"prompt"}"#, &[], "without a `prompt`"),
        (unknown, &["--misspelt"], "--misspelt"),
    ] {
        let output = world.hook_text(event, words);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{event}");
        assert!(output.stdout.is_empty() && errors.contains(says), "{event}: {errors}");
    }
    assert!(fs::read_dir(world.home()).unwrap().next().is_none(), "nothing is written for nothing");
}
