//! Second processes: the test binary runs one of its own tests again, in a role.
//!
//! A test asks [`role`] first; when it has one it is the child, plays it, and returns. So nothing is built for the tests
//! alone, and nobody has to ignore a test that is only half of one.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Stdio};

const ROLE: &str = "SESSION_CORE_TEST_ROLE";
const DIR: &str = "SESSION_CORE_TEST_DIR";

/// The role of this process and the directory to play it in; none in the parent.
pub(crate) fn role() -> Option<(String, PathBuf)> {
    Some((std::env::var(ROLE).ok()?, std::env::var_os(DIR)?.into()))
}

/// In a child: says a line to the parent.
pub(crate) fn say(line: &str) {
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// In a child: waits until the parent lets it go.
pub(crate) fn wait_for_parent() {
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// A running child; killed when dropped.
pub(crate) struct Child {
    process: std::process::Child,
    lines: BufReader<ChildStderr>,
}

impl Child {
    /// Runs `test` (its path in the binary) again as `role`.
    pub(crate) fn run(test: &str, role: &str, dir: &Path) -> Self {
        Self::run_on(Stdio::piped(), test, role, dir)
    }

    /// The same with another standard input.
    pub(crate) fn run_on(stdin: impl Into<Stdio>, test: &str, role: &str, dir: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(DIR, dir)
            .stdin(stdin)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stderr.take().unwrap());
        Self { process, lines }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The next line that it says, or that it dies with.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end_matches('\n').to_owned()
    }

    /// Waits until it says `line`.
    pub(crate) fn says(&mut self, line: &str) {
        let said = self.line();
        if said != line {
            let mut rest = String::new();
            self.lines.read_to_string(&mut rest).unwrap();
            panic!("the child was to say {line:?}: {said}\n{rest}");
        }
    }

    /// `kill -9`, and gone when this returns.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Lets it go and waits for its end, which must be a good one.
    pub(crate) fn finish(mut self) {
        drop(self.process.stdin.take());
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        assert!(self.process.wait().unwrap().success(), "the child failed: {rest}");
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
