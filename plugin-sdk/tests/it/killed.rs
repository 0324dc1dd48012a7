//! `kill -9` right after a save has returned loses nothing [W3]; and another process hears of what was saved.
//!
//! The test binary runs the same test again as the process that saves. It says each state that it saved on standard error.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use plugin_sdk::{Extension, State, Subscription, Version};
use session_core::{AgentDir, Environment, Host, SessionManager};

const DIR: &str = "PLUGIN_SDK_TEST_DIR";
const TEST: &str = "killed::a_saved_state_survives_kill_9_and_is_heard_of";

fn state() -> State<u64> {
    Extension::new("n").unwrap().state(Version(1))
}

fn open(dir: &Path) -> SessionManager {
    let host = Host::new(AgentDir::at(dir.join("agent")).unwrap(), Environment::new(dir));
    SessionManager::open(&host, &dir.join("session.jsonl"), None).unwrap()
}

/// Saves one state after the other until it is killed.
fn save_for_ever(dir: &Path) {
    let mut session = open(dir);
    let from = state().load(&session).unwrap().unwrap_or(0) + 1;
    for n in from.. {
        let saved = state().save(&mut session, &n).unwrap();
        let line = format!("saved {n} {}\n", saved.entry().unwrap());
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
}

/// Runs until so many states were saved, kills, and gives the last one and its entry.
fn save_and_kill(dir: &Path, count: usize) -> (u64, String) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", TEST, "--nocapture", "--test-threads=1"])
        .env(DIR, dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut last = None;
    for _ in 0..count {
        let line = lines.next().unwrap().unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let ["saved", n, entry] = words.as_slice() else { panic!("the child was to save: {line}") };
        last = Some((n.parse().unwrap(), (*entry).to_owned()));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    last.unwrap()
}

#[test]
fn a_saved_state_survives_kill_9_and_is_heard_of() {
    if let Some(dir) = std::env::var_os(DIR) {
        return save_for_ever(Path::new(&dir));
    }
    let dir = tempfile::tempdir().unwrap();
    let ours = open(dir.path());
    let mut others = Subscription::to(&ours);
    for count in [1, 2, 17, 40] {
        let (n, entry) = save_and_kill(dir.path(), count);
        let session = open(dir.path());
        assert_eq!(state().load_at(&session, &entry).unwrap(), Some(n));
        assert!(state().load(&session).unwrap() >= Some(n));
        let update = others.look().unwrap();
        assert!(!update.has_more());
        assert!(update.entries().any(|heard| heard.id().as_str() == entry));
        let torn = session.session().defects();
        assert!(torn.list().is_empty(), "each line was one write: {:?}", torn.list());
    }
}
