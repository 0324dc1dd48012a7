//! The session manager on real files: several processes, deaths, bad input, and the laws of its operations.

mod appends;
mod bad_input;
mod death;
mod model;
mod sharing;

use std::path::Path;
use std::sync::Arc;

use session_core::{AgentDir, CountingIds, Environment, Host, JsonText, Session, SessionManager};

pub(crate) fn json(text: &str) -> JsonText {
    JsonText::parse(text).unwrap()
}

pub(crate) fn user(text: &str) -> JsonText {
    json(&format!(r#"{{"role":"user","content":"{text}","timestamp":1}}"#))
}

pub(crate) fn assistant(text: &str) -> JsonText {
    json(&format!(r#"{{"role":"assistant","content":[{{"type":"text","text":"{text}"}}],"timestamp":2}}"#))
}

/// Surroundings below a directory of the test's own.
pub(crate) fn host(root: &Path) -> Host {
    let environment = Environment::new(root).with_variable("HOME", root.join("home"));
    Host::new(AgentDir::at(root.join("agent")).unwrap(), environment)
}

/// The same with ids that count: what a test sees is the same in each run.
pub(crate) fn counting_host(root: &Path) -> Host {
    host(root).with_ids(Arc::new(CountingIds::new()))
}

/// A session that is on disk.
pub(crate) fn written(host: &Host, root: &Path) -> SessionManager {
    let mut session = SessionManager::create(host, root, Some(&root.join("s"))).unwrap();
    session.append_message(&assistant("first")).unwrap();
    session
}

pub(crate) fn ids(session: &Session) -> Vec<String> {
    session.entries().map(|entry| entry.id().to_owned()).collect()
}
