//! Finding sessions `[R1–R5]` in real directories.

mod cache;
mod choosing;
mod listing;
mod model;
mod resolving;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use session_core::{AgentDir, Catalog, Environment, Listing, SessionInfo};

/// An agent directory in a temporary one.
struct Place {
    root: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("agent/sessions")).unwrap();
        Self { root }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    fn sessions(&self, below: &str) -> PathBuf {
        self.path("agent/sessions").join(below)
    }

    fn agent(&self) -> AgentDir {
        AgentDir::at(self.path("agent")).unwrap()
    }

    fn catalog(&self) -> Catalog {
        Catalog::new(self.agent(), Environment::new(self.root.path()).with_variable("HOME", self.path("home")))
    }

    /// Writes a session file below `sessions`, modified at this second.
    fn session(&self, below: &str, id: &str, cwd: &str, second: u64) -> PathBuf {
        let path = self.sessions(below);
        write(&path, &(header(id, cwd) + &user("00000001", "hi")), second);
        path
    }

    fn link(&self, target: &Path, below: &str) {
        let link = self.path(below);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(target, link).unwrap();
    }
}

fn write(path: &Path, text: &str, second: u64) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    touch(path, second);
}

fn touch(path: &Path, second: u64) {
    fs::File::open(path).unwrap().set_modified(UNIX_EPOCH + Duration::from_secs(second)).unwrap();
}

fn header(id: &str, cwd: &str) -> String {
    format!(
        "{{\"type\":\"session\",\"version\":3,\"id\":\"{id}\",\"timestamp\":\"2026-01-05T09:30:00.000Z\",\"cwd\":\"{cwd}\"}}\n"
    )
}

fn message(id: &str, message: &str) -> String {
    format!(
        "{{\"type\":\"message\",\"id\":\"{id}\",\"parentId\":null,\"timestamp\":\"2026-01-05T09:30:01.000Z\",\"message\":{message}}}\n"
    )
}

fn user(id: &str, text: &str) -> String {
    message(id, &format!("{{\"role\":\"user\",\"content\":\"{text}\"}}"))
}

fn assistant(id: &str, text: &str) -> String {
    message(id, &format!("{{\"role\":\"assistant\",\"stopReason\":\"stop\",\"content\":\"{text}\"}}"))
}

fn ids(listing: &Listing<SessionInfo>) -> Vec<&str> {
    listing.sessions.iter().map(|info| info.id().as_str()).collect()
}
