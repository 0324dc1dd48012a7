//! A directory of its own for a test, and programs that run in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// A place with an agent directory and a project, and nothing of the machine's.
pub(crate) struct Place {
    dir: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("project")).unwrap();
        Self { dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A session file that does not exist yet.
    pub(crate) fn session(&self) -> PathBuf {
        self.path("session.jsonl")
    }

    pub(crate) fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.path("project")).stdin(Stdio::null()).env_clear();
        command.env("PI_CODING_AGENT_DIR", self.path("agent")).env("HOME", self.dir.path());
        command
    }

    fn output(&self, program: &str, arguments: &[&str]) -> Output {
        self.command(program, arguments).output().unwrap()
    }

    /// What a program prints; it has to succeed.
    #[track_caller]
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.output(program, arguments);
        assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// What a program that fails says.
    #[track_caller]
    pub(crate) fn fail(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.output(program, arguments);
        assert_eq!(output.status.code(), Some(1), "{program} {arguments:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.starts_with("error: ") && said.lines().count() == 1, "as a person reads it: {said}");
        said
    }
}

/// The entry that a program says it saved.
pub(crate) fn saved(printed: &str) -> String {
    printed.lines().last().unwrap().strip_prefix("saved as ").unwrap().to_owned()
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
