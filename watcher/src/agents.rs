//! Which agent directories a command is about `[D1]`. Paths only; nothing is created.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use session_core::storage::{FileSessionStorage, SessionStorage};
use session_core::{AgentDir, Environment, Harness};

use crate::exit::{Exit, Refusal};

/// What the command line or the settings file asks for; all lists empty means the default directory alone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    /// Agent directories by path; relative ones belong to the working directory.
    pub(crate) dirs: Vec<PathBuf>,
    /// Agent directories by the harness that owns them.
    pub(crate) harnesses: Vec<Harness>,
    /// Harnesses of other families, by name: places of ours, since nothing of theirs is ours to write.
    pub(crate) strangers: Vec<String>,
}

/// The place of a harness of another family: a history, no sessions.
///
/// # Errors
/// The name is no plain name, or there is no home.
pub(crate) fn of_stranger(name: &str, environment: &Environment) -> Result<AgentDir> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.is_empty() || name.len() > 64 || name.starts_with('-') || !name.bytes().all(is_plain) {
        bail!("{name:?} is no name of a harness: lower case letters, digits and dashes make one");
    }
    let base = environment.variable("XDG_STATE_HOME").map(PathBuf::from).filter(|base| base.is_absolute());
    let base = base.or_else(|| Some(environment.home()?.join(".local/state")));
    let base = base.context("there is no home to keep a history in")?;
    Ok(AgentDir::at(base.join("watcher").join(name))?)
}

/// The agent directories that are meant, each once: two names of one directory are one.
///
/// The environment's override belongs to the default harness only.
pub(crate) fn resolve(selection: &Selection, environment: &Environment) -> Result<Vec<AgentDir>> {
    let storage = FileSessionStorage::new();
    let mut found = Vec::new();
    for dir in &selection.dirs {
        let dir = if dir.is_absolute() { dir.clone() } else { environment.cwd()?.join(dir) };
        found.push(AgentDir::resolve(owner(&dir, environment), Some(&dir), environment, &storage)?);
    }
    for harness in &selection.harnesses {
        found.push(AgentDir::resolve(*harness, None, environment, &storage)?);
    }
    for name in &selection.strangers {
        found.push(of_stranger(name, environment)?);
    }
    if found.is_empty() {
        found.push(AgentDir::resolve(Harness::default(), None, environment, &storage)?);
    }
    let mut seen = BTreeSet::new();
    found.retain(|agent| seen.insert((storage.resolve(agent.root()), storage.resolve(&agent.sessions()))));
    Ok(found)
}

/// The one agent directory that a question is about: histories are never mixed.
pub(crate) fn resolve_one(selection: &Selection, environment: &Environment) -> Result<AgentDir> {
    let mut agents = resolve(selection, environment)?;
    match agents.len() {
        1 => Ok(agents.remove(0)),
        n => {
            let message = format!("{n} agent directories are named; ask about one at a time");
            Err(Refusal::new(Exit::Usage, message).into())
        }
    }
}

/// The harness whose own directory in the home this is: with it come its places below the XDG directories `[D2]`.
fn owner(dir: &Path, environment: &Environment) -> Harness {
    let Some(home) = environment.home() else { return Harness::default() };
    let is_own = |harness: &Harness| home.join(format!(".{harness}")).join("agent") == dir.components().as_path();
    Harness::ALL.into_iter().find(is_own).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roots(selection: &Selection, environment: &Environment) -> Vec<String> {
        let agents = resolve(selection, environment).unwrap();
        agents.iter().map(|agent| agent.root().display().to_string()).collect()
    }

    #[test]
    fn directories_are_resolved_and_deduplicated_and_the_override_is_the_default_harness_s() {
        // [D1]
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("real/agent")).unwrap();
        std::os::unix::fs::symlink(root.join("real"), root.join("linked")).unwrap();
        let environment = Environment::new(&root).with_variable("HOME", &root);
        let at = |path: &str| root.join(path).display().to_string();

        assert_eq!(roots(&Selection::default(), &environment), [at(".xcsh/agent")]);
        let twice = Selection {
            dirs: vec!["real/agent".into(), "linked/agent/".into(), root.join("real/./agent")],
            harnesses: vec![Harness::Omp],
            strangers: vec!["claude-code".to_owned()],
        };
        let stranger = at(".local/state/watcher/claude-code");
        assert_eq!(roots(&twice, &environment), [at("real/agent"), at(".omp/agent"), stranger]);
        assert!(of_stranger("../omp", &environment).is_err() && of_stranger("", &environment).is_err());

        let overridden = environment.with_variable("PI_CODING_AGENT_DIR", root.join("else"));
        let all = Selection { harnesses: Harness::ALL.to_vec(), ..Selection::default() };
        assert_eq!(roots(&all, &overridden), [at("else"), at(".omp/agent"), at(".pi/agent")]);
        assert!(resolve_one(&all, &overridden).is_err());
    }

    #[test]
    fn a_harness_s_own_directory_brings_its_xdg_places() {
        // [D2]
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(home.path().join("share/omp")).unwrap();
        let environment = Environment::new("/w")
            .with_variable("HOME", home.path())
            .with_variable("XDG_DATA_HOME", home.path().join("share"));
        let selection = Selection { dirs: vec![home.path().join(".omp/agent")], ..Selection::default() };
        let agent = resolve_one(&selection, &environment).unwrap();
        assert_eq!(agent.history_db(), home.path().join("share/omp/history.db"));
    }
}
