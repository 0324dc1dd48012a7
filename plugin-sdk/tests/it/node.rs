//! State written by us is read by a ten-line script for node, and back. Needs `node`; without it, says so on standard error.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use plugin_sdk::{Extension, Numbers, Saved, State, Version};
use serde::{Deserialize, Serialize};
use session_core::{AgentDir, Environment, Host, SessionManager};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Todos {
    items: Vec<String>,
    weight: f64,
    size: f64,
}

/// Takes what JavaScript writes, which has no version, as what it is.
fn todos() -> State<Todos> {
    let state = Extension::new("todo").unwrap().state::<Todos>(Version(1)).numbers(Numbers::JavaScript);
    state.upgrade(Version(0), |data: Todos| Ok(data)).unwrap()
}

fn list() -> Todos {
    Todos { items: vec!["milk ü 🥛 \u{2028}\"".into()], weight: 3.0, size: 1e21 }
}

/// What a script printed; none without node.
fn node(script: &str, file: &Path) -> Option<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(script);
    match Command::new("node").arg(script).arg(file).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(error) => {
            // Not through the printing macros: the test harness would swallow it.
            let line = format!(
                "\nSKIPPED: the test of state shared with JavaScript needs `node`, which did not start: {error}\n"
            );
            std::io::stderr().write_all(line.as_bytes()).unwrap();
            None
        }
    }
}

/// A session on real files with a state in it.
fn session(dir: &Path) -> SessionManager {
    let host = Host::new(AgentDir::at(dir.join("agent")).unwrap(), Environment::new(dir));
    let mut session = SessionManager::create(&host, dir, None).unwrap();
    session.ensure_on_disk().unwrap();
    todos().save(&mut session, &list()).unwrap();
    session
}

#[test]
fn state_goes_to_node_and_back() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(dir.path());
    let (host, file) = (session.host().clone(), session.file().unwrap().to_owned());
    drop(session);
    let Some(printed) = node("todo.js", &file) else { return };
    assert_eq!(serde_json::from_str::<Todos>(&printed).unwrap(), list());

    let mut session = SessionManager::open(&host, &file, None).unwrap();
    assert_eq!(session.leaf_id(), Some("0a0de0de"));
    let mut with_one_more = list();
    with_one_more.items.push("from node".into());
    assert_eq!(todos().load(&session).unwrap(), Some(with_one_more.clone()));
    // Saved by us it gets its version; then it is the same state, and one entry.
    assert!(todos().save(&mut session, &with_one_more).unwrap().entry().is_some());
    assert_eq!(todos().save(&mut session, &with_one_more).unwrap(), Saved::Unchanged);
    let printed = node("todo.js", &file).unwrap();
    assert_eq!(serde_json::from_str::<Todos>(&printed).unwrap(), with_one_more);
}

#[test]
fn a_rewrite_by_javascript_is_no_change_of_state() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(dir.path());
    let (host, file) = (session.host().clone(), session.file().unwrap().to_owned());
    drop(session);
    let before = std::fs::read_to_string(&file).unwrap();
    if node("rewrite.js", &file).is_none() {
        return;
    }
    let rewritten = std::fs::read_to_string(&file).unwrap();
    assert_ne!(rewritten, before, "JavaScript spells 3.0 as 3 and 1e21 as 1e+21");
    let mut session = SessionManager::open(&host, &file, None).unwrap();
    assert_eq!(todos().load(&session).unwrap(), Some(list()));
    assert_eq!(todos().save(&mut session, &list()).unwrap(), Saved::Unchanged);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), rewritten);
}
