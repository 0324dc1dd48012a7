//! What the tests share: a temporary agent directory, a harness that writes sessions, the binary, and waiting for
//! something with a deadline.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Nothing here takes so long unless it never happens.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// A home with an agent directory, removed at the end.
pub(crate) struct World {
    home: tempfile::TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn agent(&self) -> PathBuf {
        self.home().join(".xcsh/agent")
    }

    pub(crate) fn sessions(&self) -> PathBuf {
        self.agent().join("sessions")
    }

    pub(crate) fn history(&self) -> PathBuf {
        self.agent().join("history.db")
    }

    /// The binary with these words, in an environment that holds nothing but this home.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_watcher"));
        command.args(words).env_clear().env("HOME", self.home()).current_dir(self.home());
        command
    }

    pub(crate) fn output(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// The data of a command's JSON envelope.
    pub(crate) fn json(&self, words: &[&str]) -> Value {
        let output = self.command(words).arg("--json").output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        let mut envelope: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(envelope["schema"], "watcher/1");
        envelope["data"].take()
    }

    /// Starts `watcher run` with more words and waits until it follows changes.
    pub(crate) fn run(&self, words: &[&str]) -> Running {
        let child =
            self.command(&[&["run"], words].concat()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let running = Running(child);
        let pid = running.0.id();
        until("the watcher follows changes", || {
            let status = self.output(&["status", "--json"]);
            let envelope: Value = serde_json::from_slice(&status.stdout).unwrap();
            let state = &envelope["data"][0]["state"];
            state["pid"] == pid && state["following"] == true
        });
        running
    }

    /// The prompts of the history, oldest row first.
    pub(crate) fn prompts(&self) -> Vec<String> {
        let conn = history::rusqlite::Connection::open(self.history()).unwrap();
        let mut statement = conn.prepare("SELECT prompt FROM history ORDER BY id").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    /// Whether search finds a prompt with exactly this text.
    pub(crate) fn finds(&self, prompt: &str) -> bool {
        let page = self.json(&["history", "search", prompt]);
        page.as_array().unwrap().iter().any(|entry| entry["prompt"] == prompt)
    }
}

/// A watcher that ends with its test.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").arg(format!("-{signal}")).arg(self.0.id().to_string()).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for its end; how long that took, and with what code.
    pub(crate) fn end(mut self) -> (Duration, Option<i32>) {
        let start = Instant::now();
        let status = self.0.wait().unwrap();
        (start.elapsed(), status.code())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A session file that a harness writes.
pub(crate) struct Session {
    path: PathBuf,
    file: File,
    count: u32,
}

impl Session {
    /// Begins a session in the directory `dir` below the sessions, with a header.
    pub(crate) fn begin(world: &World, dir: &str, id: &str, cwd: &str) -> Self {
        let dir = world.sessions().join(dir);
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join(format!("2026-01-05T09-30-00-000Z_{id}.jsonl"));
        let mut file = OpenOptions::new().create_new(true).append(true).open(&path).unwrap();
        let header = format!(
            r#"{{"type":"session","version":3,"id":"{id}","timestamp":"2026-01-05T09:30:00.000Z","cwd":"{cwd}"}}"#
        );
        writeln!(file, "{header}").unwrap();
        Self { path, file, count: 0 }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The line of the next user message; entry ids and times count up.
    pub(crate) fn user_line(&mut self, prompt: &str) -> String {
        self.count += 1;
        user_line(self.count, 1_767_605_400_000 + i64::from(self.count) * 1000, prompt)
    }

    /// Appends a user message in one write.
    pub(crate) fn user(&mut self, prompt: &str) {
        let line = self.user_line(prompt);
        self.write(format!("{line}\n").as_bytes());
    }

    /// Appends bytes in one write.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.file.write_all(bytes).unwrap();
    }
}

/// A user message as a harness writes it.
pub(crate) fn user_line(number: u32, millis: i64, prompt: &str) -> String {
    let parent = if number == 1 { "null".to_owned() } else { format!("\"{:08x}\"", number - 1) };
    let time = session_core::Timestamp::from_millis(millis).unwrap();
    let content = serde_json::to_string(prompt).unwrap();
    format!(
        r#"{{"type":"message","id":"{number:08x}","parentId":{parent},"timestamp":"{time}","message":{{"role":"user","content":{content},"timestamp":{millis}}}}}"#
    )
}

/// Asks again and again until something is true.
pub(crate) fn until(what: &str, mut is_true: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !is_true() {
        assert!(start.elapsed() < DEADLINE, "{what}: not within {DEADLINE:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
    start.elapsed()
}
