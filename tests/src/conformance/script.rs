//! `script`: operations on session managers and files in a fresh directory.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use session_core::{AgentDir, Environment, Host, Json, JsonText, SessionManager, TerminalId};

use super::answer::{Object, Outcome, array};
use super::arguments::{Arguments, Names};
use super::{Failure, files, manager, member, text};

/// The name of each script's directory begins so; letters and digits follow.
pub const ROOT_PREFIX: &str = "script";

/// Where the directories of scripts are made, by its real path.
pub fn temporary_root() -> PathBuf {
    let root = std::env::temp_dir();
    fs::canonicalize(&root).unwrap_or(root)
}

/// Runs a script and gives one item an operation: `{"result": …}` or `{"error": …}`.
pub(super) fn run(script: Json<'_>) -> Outcome {
    let root = tempfile::Builder::new().prefix(ROOT_PREFIX).tempdir_in(temporary_root())?;
    let mut machine = Machine::new(script, root.path())?;
    let mut results = Vec::new();
    for op in member(script, "ops")?.items() {
        results.push(machine.step(op)?);
    }
    Ok(array(results))
}

/// The state of a script.
struct Machine {
    names: Names,
    host: Host,
    managers: HashMap<String, SessionManager>,
}

impl Machine {
    fn new(script: Json<'_>, root: &Path) -> Result<Self, Failure> {
        let names = Names { root: root.to_string_lossy().into_owned(), saved: HashMap::new() };
        let mut environment = Environment::new(root);
        for variable in script.get("env").into_iter().flat_map(Json::members) {
            let value = variable.value.text().unwrap_or_default().replace("$ROOT", &names.root);
            environment = environment.with_variable(variable.key().as_ref(), value);
        }
        for file in script.get("setup").and_then(|setup| setup.get("files")).into_iter().flat_map(Json::members) {
            let content = JsonText::parse(&names.expand(file.value)?)?;
            files::write(&root.join(&*file.key()), &content.view().text().unwrap_or_default())?;
        }
        let terminal = TerminalId::detect(None, &environment);
        let host = Host::new(AgentDir::at(root.join("agent"))?, environment).with_terminal(terminal);
        Ok(Self { names, host, managers: HashMap::new() })
    }

    /// One operation. That it fails is its result; only a script that cannot be read is an error.
    fn step(&mut self, op: Json<'_>) -> Result<Object, Failure> {
        let name = text(op, "op")?;
        let args = Arguments::read(op.get("args"), &self.names)?;
        let manager = op.get("m").and_then(Json::text).unwrap_or("main".into());
        Ok(match self.run(&name, &args, &manager) {
            Ok(value) => {
                if let Some(name) = op.get("as").and_then(Json::text) {
                    self.names.saved.insert(name.into_owned(), value.clone());
                }
                Object::new().with("result", value)
            }
            Err(failure) => Object::new().with("error", failure),
        })
    }

    fn run(&mut self, op: &str, args: &Arguments, name: &str) -> Outcome {
        if let Some(outcome) = files::run(op, args, self.host.agent()) {
            return outcome;
        }
        if let Some(made) = manager::make(op, args, &self.host) {
            let made = made?;
            let file = manager::file(&made);
            self.managers.insert(name.to_owned(), made);
            return Ok(file);
        }
        let manager = self.managers.get_mut(name);
        manager::call(op, args, manager.ok_or_else(|| Failure::input(format!("there is no manager {name}")))?)
    }
}
