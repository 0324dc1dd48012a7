//! How long a hook keeps a harness waiting, beside the floor in the same run: starting a process that does nothing. The
//! history is missing, free, or locked by somebody else. `BENCH_RUNS` scales it.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints a table")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use history::rusqlite::Connection;

/// What a hook promises `[K61]`.
const LIMIT: Duration = Duration::from_millis(50);

/// A process with this home and standard input: how long from its start until it is gone.
fn time(home: &Path, words: &[&str], input: &str) -> Duration {
    let mut command = Command::new(env!("CARGO_BIN_EXE_watcher"));
    command.args(words).env_clear().env("HOME", home).env("TMUX_PANE", "%9");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let begun = Instant::now();
    let mut child = command.spawn().unwrap();
    // One that does nothing reads nothing.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    assert!(child.wait().unwrap().success());
    begun.elapsed()
}

fn hook(home: &Path, prompt: &str) -> Duration {
    let event = format!(r#"{{"event":"prompt","harness":"xcsh","cwd":"/w","sessionId":"c01","prompt":"{prompt}"}}"#);
    time(home, &["hook"], &event)
}

fn row(what: &str, floor: Duration, mut times: Vec<Duration>) -> Duration {
    times.sort();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    let late = times.iter().filter(|time| **time > LIMIT).count();
    let floor = if floor.is_zero() { at(50) } else { floor };
    println!(
        "{what:<34} {:8.2} {:8.2} {:8.2} {:9.1} {late:12}",
        ms(at(50)),
        ms(at(99)),
        ms(at(100)),
        at(50).as_secs_f64() / floor.as_secs_f64()
    );
    at(50)
}

/// Waits until what the hook left to others is done, so that the next one is measured alone.
fn settle(home: &Path) {
    let waits = |name: &std::ffi::OsStr| name == "prompts" || name.as_encoded_bytes().starts_with(b"claim-");
    let spool = home.join(".xcsh/agent/.watcher/spool");
    while std::fs::read_dir(&spool).unwrap().any(|file| waits(&file.unwrap().file_name())) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn prompts(home: &Path) -> usize {
    let mut command = Command::new(env!("CARGO_BIN_EXE_watcher"));
    let output = command.args(["history", "export"]).env_clear().env("HOME", home).output().unwrap();
    output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count()
}

fn main() {
    let runs = std::env::var("BENCH_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(200);
    let homes: Vec<tempfile::TempDir> = (0..runs).map(|_| tempfile::tempdir().unwrap()).collect();
    let world = tempfile::tempdir().unwrap();
    let home = world.path();
    println!("{:<34} {:>8} {:>8} {:>8} {:>9} {:>12}", "ms", "p50", "p99", "max", "to floor", "over 50 ms");
    let floor = (0..runs).map(|_| time(home, &["--version"], "")).collect();
    let floor = row("a process that does nothing", Duration::ZERO, floor);

    let first = |home: &tempfile::TempDir| {
        let took = hook(home.path(), "first");
        settle(home.path());
        took
    };
    let missing = homes.iter().map(first).collect();
    row("prompt, history missing", floor, missing);

    hook(home, "first");
    assert_eq!(prompts(home), 1);
    let free = (0..runs).map(|n| hook(home, &format!("free {n}"))).collect();
    row("prompt, history free", floor, free);
    assert_eq!(prompts(home), runs + 1);

    let lock = Connection::open(home.join(".xcsh/agent/history.db")).unwrap();
    lock.busy_timeout(Duration::from_secs(10)).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let locked = (0..runs).map(|n| hook(home, &format!("locked {n}"))).collect();
    row("prompt, history locked", floor, locked);
    lock.execute_batch("ROLLBACK").unwrap();
    assert_eq!(prompts(home), 2 * runs + 1, "each is there afterwards, once");

    let sessions: Vec<PathBuf> = (0..2).map(|n| home.join(format!("{n}.jsonl"))).collect();
    for (n, session) in sessions.iter().enumerate() {
        let header = r#""timestamp":"2026-01-05T09:30:00.000Z","cwd":"/w"}"#;
        std::fs::write(
            session,
            format!("{{\"type\":\"session\",\"version\":3,\"id\":\"0000000000000c0{n}\",{header}\n"),
        )
        .unwrap();
    }
    let switch = |n: usize| {
        let file = sessions[n % 2].display();
        let event = format!(r#"{{"event":"session_switch","harness":"xcsh","cwd":"/w","sessionFile":"{file}"}}"#);
        time(home, &["hook"], &event)
    };
    row("session switched, pointer written", floor, (0..runs).map(switch).collect());
}
