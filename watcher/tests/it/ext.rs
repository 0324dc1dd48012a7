//! `watcher ext`: what scripts save is what the SDK and TypeScript extensions read, on this branch and no other, and never
//! behind the back of a process that has the session.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use plugin_sdk::{Extension, Version};
use serde_json::{Value, json};
use session_core::storage::{FileSessionStorage, SessionStorage};
use session_core::{AgentDir, Environment, Host, SessionManager};

use crate::support::{Session, World, user_line};

impl World {
    pub(crate) fn feed(&self, words: &[&str], input: &str) -> Output {
        let mut command = self.command(words);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // One that refuses its arguments reads nothing.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    }

    /// What `watcher ext` prints when it succeeds.
    pub(crate) fn ext(&self, file: &Path, words: &[&str], input: &str) -> String {
        let words = [&["ext"], words, &["--session", file.to_str().unwrap()]].concat();
        let output = self.feed(&words, input);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn ext_code(&self, file: &Path, words: &[&str], input: &str) -> (Option<i32>, String) {
        let output = self.feed(&[&["ext"], words, &["--session", file.to_str().unwrap()]].concat(), input);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }

    pub(crate) fn host(&self) -> Host {
        Host::new(AgentDir::at(self.agent()).unwrap(), Environment::new(self.home())).with_terminal(None)
    }

    /// A session that nobody has touched for an hour.
    pub(crate) fn resting_session(&self) -> PathBuf {
        let mut session = Session::begin(self, "--w--", "0000000000000e01", "/w");
        session.write((user_line(1, 1_767_605_401_000, "hi") + "\n").as_bytes());
        let path = session.path().to_owned();
        drop(session);
        rest(&path);
        path
    }
}

/// As if the last write was an hour ago.
pub(crate) fn rest(path: &Path) {
    let hour = SystemTime::now() - Duration::from_secs(3600);
    File::options().append(true).open(path).unwrap().set_modified(hour).unwrap();
}

pub(crate) fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_script_s_state_follows_the_branch_and_is_saved_once() {
    let world = World::new();
    let file = world.resting_session();
    assert_eq!(world.ext_code(&file, &["get", "--type", "todo"], "").0, Some(3));
    let first = world.ext(&file, &["save", "--type", "todo", "--schema", "1"], r#"{"items":["milk"]}"#);
    let first = first.trim();
    assert_eq!(parsed(&world.ext(&file, &["get", "--type", "todo"], "")), json!({"items": ["milk"]}));
    // The same in another spelling is no change.
    assert_eq!(world.ext(&file, &["save", "--type", "todo", "--schema", "1"], r#"{ "items" : ["milk"] }"#), "");
    world.ext(&file, &["save", "--type", "todo", "--schema", "1"], r#"{"items":[]}"#);
    assert_eq!(parsed(&world.ext(&file, &["get", "--type", "todo", "--at", first], "")), json!({"items": ["milk"]}));

    // Another branch: the state that this one saved is not there.
    let mut session = SessionManager::open(&world.host(), &file, None).unwrap();
    session.branch("00000001").unwrap();
    let counter = Extension::new("counter").unwrap().state::<u32>(Version(1));
    counter.save(&mut session, &1).unwrap();
    drop(session);
    assert_eq!(world.ext_code(&file, &["get", "--type", "todo"], "").0, Some(3));
    let all = world.ext(&file, &["list", "--type", "todo"], "");
    let all: Vec<Value> = all.lines().map(parsed).collect();
    assert_eq!(all.len(), 2);
    assert!(all.iter().all(|state| state["onPath"] == false && state["version"] == 1));
    assert_eq!(all[0]["entry"], first);

    rest(&file);
    world.ext(&file, &["save", "--type", "counter", "--schema", "1", "--clear"], "");
}

#[test]
fn the_checks_of_the_sdk_hold() {
    let world = World::new();
    let file = world.resting_session();
    let before = fs::read(&file).unwrap();
    let save = ["save", "--type", "todo", "--schema", "1"];
    let code = |words: &[&str], input: &str| world.ext_code(&file, words, input);
    let (exit, says) = code(&save, r#"{"n":9007199254740993}"#);
    assert!(exit == Some(1) && says.contains("/n: an integer beyond"), "{says}");
    assert!(code(&save, r#"{"partialJson":1}"#).1.contains("/partialJson"));
    assert!(code(&save, &format!("\"{}\"", "x".repeat(500_001))).1.contains("would be cut"));
    assert_eq!(code(&save, "{no json").0, Some(2));
    assert_eq!(code(&["save", "--type", "a\nb"], "1").0, Some(1));
    assert!(code(&["message", "--type", "ci"], "").1.contains("says nothing"));
    assert_eq!(fs::read(&file).unwrap(), before, "nothing was written");
    world.ext(&file, &["save", "--type", "todo", "--schema", "2"], "[1]");
    let (exit, says) = code(&save, "[2]");
    assert!(exit == Some(1) && says.contains("is of version 2"), "{says}");
    assert_eq!(code(&["get", "--type", "todo", "--schema", "1"], "").0, Some(1));
    assert_eq!(world.ext_code(&world.home().join("none"), &save, "1").0, Some(3));
}

#[test]
fn what_a_terminal_would_obey_is_escaped_and_the_state_stays_what_it_is() {
    let world = World::new();
    let file = world.resting_session();
    let data = json!({"a": "\u{202e}x\u{9b}31m\u{7f}\u{fffd}"});
    world.ext(&file, &["save", "--type", "odd"], &data.to_string());
    let harmless = |text: &str| !text.contains(|c: char| c.is_control() && c != '\n' || c == '\u{202e}');
    let state = world.ext(&file, &["get", "--type", "odd"], "");
    assert!(parsed(&state) == data && harmless(&state), "{state:?}");
    let all = world.ext(&file, &["list", "--type", "odd"], "");
    assert!(parsed(&all)["data"] == data && harmless(&all), "{all:?}");
    let enveloped = world.ext(&file, &["get", "--type", "odd", "--json"], "");
    assert!(parsed(&enveloped)["data"] == data && harmless(&enveloped), "{enveloped:?}");
}

#[test]
fn a_session_is_named_as_everywhere_else() {
    let world = World::new();
    let file = world.resting_session();
    world.ext(&file, &["save", "--type", "todo"], "1");
    for name in ["0000000000000e01", "00000000000", "hi", file.file_stem().unwrap().to_str().unwrap()] {
        let output = world.output(&["ext", "get", "--type", "todo", "--session", name]);
        assert_eq!(output.stdout, b"1\n", "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let output = world.output(&["ext", "get", "--type", "todo", "--session", "0000000000000e02"]);
    assert_eq!(output.status.code(), Some(3));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("did you mean \"0000000000000e01\""), "{said}");
    let mut asked = world.command(&["--", "watcher", "ext", "get", "--type", "todo", "--session", "0000"]);
    let proposed = asked.env("COMPLETE", "bash").output().unwrap().stdout;
    assert!(String::from_utf8(proposed).unwrap().contains("0000000000000e01"));
}

#[test]
fn a_session_that_somebody_takes_meanwhile_is_refused_with_the_same_code() {
    // [W6]
    let world = World::new();
    let file = world.resting_session();
    let lock = world.host().agent().session_lock(&"0000000000000e01".into());
    let storage = FileSessionStorage::new();
    storage.ensure_dir(lock.parent().unwrap()).unwrap();
    let held = storage.lock(&lock, "process 4711 (another)", Duration::ZERO).unwrap();
    for words in [&["save", "--type", "todo"][..], &["message", "--type", "ci"]] {
        let (exit, says) = world.ext_code(&file, words, "1");
        assert!(exit == Some(6) && says.contains("process 4711 (another)"), "{exit:?}: {says}");
    }
    drop(held);
    world.ext(&file, &["save", "--type", "todo"], "1");
}

#[test]
fn a_message_reaches_the_model() {
    let world = World::new();
    let file = world.resting_session();
    world.ext(&file, &["message", "--type", "ci", "--hidden", "--from", "agent"], "The build is green.\n");
    let context = world.json(&["sessions", "context", file.to_str().unwrap()]);
    assert!(context.to_string().contains("The build is green."), "{context}");
}

#[test]
fn a_session_that_somebody_has_is_refused_and_named() {
    let world = World::new();
    let file = world.resting_session();
    let save = ["save", "--type", "todo"];
    let before = fs::read(&file).unwrap();
    // This test's process has it open for writing.
    let held = OpenOptions::new().append(true).open(&file).unwrap();
    if cfg!(target_os = "linux") {
        let (exit, says) = world.ext_code(&file, &save, "[1]");
        assert_eq!(exit, Some(6), "{says}");
        assert!(says.contains(&format!("process {}", std::process::id())) && says.contains("dead branch"), "{says}");
    }
    drop(held);
    // Nobody has it open, and it was written just now.
    File::options().append(true).open(&file).unwrap().set_modified(SystemTime::now()).unwrap();
    let (exit, says) = world.ext_code(&file, &save, "[1]");
    assert!(exit == Some(6) && says.contains("another process wrote"), "{says}");
    assert_eq!(world.ext_code(&file, &["message", "--type", "ci"], "x").0, Some(6));
    assert_eq!(fs::read(&file).unwrap(), before);
    world.ext(&file, &["save", "--type", "todo", "--force"], "[1]");
    // What a script wrote last is nobody else's.
    world.ext(&file, &save, "[2]");
    world.ext(&file, &save, "[3]");
    assert_eq!(parsed(&world.ext(&file, &["get", "--type", "todo"], "")), json!([3]));
}

/// Not through the printing macros: the test harness would swallow it.
pub(crate) fn skipped(what: &str, program: &str, error: &std::io::Error) {
    let line = format!("\nSKIPPED: the test of {what} needs `{program}`, which did not start: {error}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

/// Runs an example of `examples/scripts`; none without its interpreter.
fn script(world: &World, interpreter: &str, name: &str, words: &[&str]) -> Option<Output> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/scripts").join(name);
    let mut command = Command::new(interpreter);
    command.arg(script).args(words).env("HOME", world.home()).env("WATCHER_BIN", env!("CARGO_BIN_EXE_watcher"));
    command.env_remove("PI_CODING_AGENT_DIR").env_remove("PI_CONFIG_DIR").stdin(Stdio::null());
    match command.output() {
        Ok(output) => Some(output),
        Err(error) => {
            skipped(name, interpreter, &error);
            None
        }
    }
}

#[test]
fn the_example_in_python_keeps_its_state() {
    let world = World::new();
    let file = world.resting_session();
    let path = file.to_str().unwrap();
    let Some(first) = script(&world, "python3", "bookmarks.py", &[path, "add", "the ü place"]) else { return };
    assert!(first.status.success(), "{first:?}");
    script(&world, "python3", "bookmarks.py", &[path, "add", "another"]).unwrap();
    let list = script(&world, "python3", "bookmarks.py", &[path, "list"]).unwrap();
    assert_eq!(String::from_utf8(list.stdout).unwrap(), "1. the ü place\n2. another\n");
    let held = OpenOptions::new().append(true).open(&file).unwrap();
    File::options().append(true).open(&file).unwrap().set_modified(SystemTime::now()).unwrap();
    let refused = script(&world, "python3", "bookmarks.py", &[path, "add", "x"]).unwrap();
    assert!(String::from_utf8(refused.stderr).unwrap().starts_with("not now: "));
    drop(held);
}

#[test]
fn the_example_in_shell_keeps_its_state() {
    let world = World::new();
    let file = world.resting_session();
    let path = file.to_str().unwrap();
    for expected in ["1\n", "2\n"] {
        let Some(output) = script(&world, "sh", "counter.sh", &[path]) else { return };
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected, "{}", String::from_utf8_lossy(&output.stderr));
    }
    let other = script(&world, "sh", "counter.sh", &["/nowhere.jsonl"]).unwrap();
    assert!(!other.status.success() && other.stdout.is_empty());
}
