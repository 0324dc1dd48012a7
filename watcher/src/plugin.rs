//! The plugins that we bring for harnesses: which files, where they go, and which of those that are there are ours.
//!
//! A file is ours when it is what we would write, or still is what a record says that we wrote. Any other is somebody's: it is
//! neither overwritten nor removed.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use session_core::storage::FileSessionStorage;
use session_core::{AgentDir, Environment, Harness};
use sha2::{Digest as _, Sha256};

use crate::exit::{Exit, Refusal};
use crate::spool::unique_name;

const EXTENSION: [(&str, &str); 1] =
    [("extensions/watcher.ts", include_str!("../../plugin-sdk/harness/extension/watcher.ts"))];
const CLAUDE_CODE: [(&str, &str); 2] = [
    (
        "skills/watcher/.claude-plugin/plugin.json",
        include_str!("../../plugin-sdk/harness/claude-code/.claude-plugin/plugin.json"),
    ),
    ("skills/watcher/hooks/hooks.json", include_str!("../../plugin-sdk/harness/claude-code/hooks/hooks.json")),
];

/// Who can have a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Host {
    Xcsh,
    Omp,
    Pi,
    ClaudeCode,
}

/// A plugin and its place.
#[derive(Debug)]
pub(crate) struct Plugin {
    root: PathBuf,
    files: &'static [(&'static str, &'static str)],
    record: PathBuf,
}

/// What is, or was, done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Step {
    Write,
    Update,
    Unchanged,
    Remove,
    /// Somebody else's, or ours with changes of somebody's.
    Kept,
}

/// The files that we wrote, with their digests.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Record(BTreeMap<PathBuf, String>);

impl Plugin {
    /// The plugin of a harness, in its own directory or in `dir`.
    ///
    /// # Errors
    /// There is no home; the harness's directory is not there.
    pub(crate) fn of(host: Host, dir: Option<&Path>, environment: &Environment) -> Result<Self> {
        let home = environment.home().context("there is no home directory")?;
        let family = |harness| -> Result<PathBuf> {
            let agent = AgentDir::resolve(harness, dir, environment, &FileSessionStorage::new())?;
            Ok(agent.root().to_owned())
        };
        let (name, root) = match host {
            Host::Xcsh => ("xcsh", family(Harness::Xcsh)?),
            Host::Omp => ("omp", family(Harness::Omp)?),
            Host::Pi => ("pi", family(Harness::Pi)?),
            Host::ClaudeCode => {
                let own = environment.variable("CLAUDE_CONFIG_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute());
                ("claude-code", dir.map(Path::to_owned).or(own).unwrap_or_else(|| home.join(".claude")))
            }
        };
        if !root.is_dir() {
            let message = format!("{}: there is no such directory, so {name} is not set up here", root.display());
            return Err(Refusal::new(Exit::NotFound, message).into());
        }
        let state = environment.variable("XDG_STATE_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute());
        let state = state.unwrap_or_else(|| home.join(".local/state"));
        let digest = digest(root.as_os_str().as_encoded_bytes());
        let record = state.join("watcher/plugins").join(format!("{name}-{}.json", &digest[..8]));
        let files: &'static [_] = if host == Host::ClaudeCode { &CLAUDE_CODE } else { &EXTENSION };
        Ok(Self { root, files, record })
    }

    /// What installing does with each file.
    ///
    /// # Errors
    /// What the file system said.
    pub(crate) fn plan(&self) -> Result<Vec<(PathBuf, Step)>> {
        let record = self.record()?;
        let step = |(name, content): &(&str, &str)| {
            let path = self.root.join(name);
            let step = match look(&path)? {
                There::Nothing => Step::Write,
                There::File(found) if found == content.as_bytes() => Step::Unchanged,
                There::File(found) if record.0.get(&path) == Some(&digest(&found)) => Step::Update,
                There::File(_) | There::Other => Step::Kept,
            };
            Ok((path, step))
        };
        self.files.iter().map(step).collect()
    }

    /// What a file of the plugin holds.
    pub(crate) fn content(&self, path: &Path) -> Option<&'static str> {
        self.files.iter().find(|(name, _)| self.root.join(name) == path).map(|(_, content)| *content)
    }

    /// Puts the files in place.
    ///
    /// # Errors
    /// Somebody else's file is in the way: nothing is written then. What the file system said: what was written is recorded,
    /// and can be undone.
    pub(crate) fn install(&self) -> Result<Vec<(PathBuf, Step)>> {
        let plan = self.plan()?;
        if let Some((path, _)) = plan.iter().find(|(_, step)| *step == Step::Kept) {
            bail!("{}: this file is not ours, or was changed; move it away first. Nothing was written", path.display());
        }
        // Before the files: whatever dies in between, `uninstall` knows what may be there.
        let mut record = self.record()?;
        for ((_, content), (path, _)) in self.files.iter().zip(&plan) {
            record.0.insert(path.clone(), digest(content.as_bytes()));
        }
        self.save(&record)?;
        for ((_, content), (path, step)) in self.files.iter().zip(&plan) {
            let over = match step {
                Step::Write => Over::Nothing,
                Step::Update => Over::Ours,
                _ => continue,
            };
            write(path, content.as_bytes(), over).with_context(|| path.display().to_string())?;
        }
        Ok(plan)
    }

    /// What uninstalling does with each file.
    ///
    /// # Errors
    /// What the file system said.
    pub(crate) fn removal(&self) -> Result<Vec<(PathBuf, Step)>> {
        let mut record = self.record()?;
        for (name, content) in self.files {
            record.0.entry(self.root.join(name)).or_insert_with(|| digest(content.as_bytes()));
        }
        let mut steps = Vec::new();
        for (path, written) in record.0 {
            match look(&path)? {
                There::Nothing => {}
                There::File(found) if digest(&found) == written => steps.push((path, Step::Remove)),
                There::File(_) | There::Other => steps.push((path, Step::Kept)),
            }
        }
        Ok(steps)
    }

    /// Takes the files away, the directories that are empty then, and the record.
    ///
    /// # Errors
    /// What the file system said; the rest can be removed by another call.
    pub(crate) fn uninstall(&self) -> Result<Vec<(PathBuf, Step)>> {
        let steps = self.removal()?;
        for (path, step) in &steps {
            if *step != Step::Remove {
                continue;
            }
            fs::remove_file(path).with_context(|| path.display().to_string())?;
            let below = |dir: &&Path| dir.starts_with(&self.root) && *dir != self.root;
            // One that is not empty is somebody's, and so is all above it.
            let _ = path.ancestors().skip(1).take_while(below).try_for_each(fs::remove_dir);
        }
        match fs::remove_file(&self.record) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error)?,
            _ => {}
        }
        // Our own directories for records, while there is nothing else in them.
        let _ = self.record.ancestors().skip(1).take(2).try_for_each(fs::remove_dir);
        Ok(steps)
    }

    fn record(&self) -> Result<Record> {
        match fs::read(&self.record) {
            Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| self.record.display().to_string()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Record::default()),
            Err(error) => Err(error).with_context(|| self.record.display().to_string()),
        }
    }

    fn save(&self, record: &Record) -> Result<()> {
        let over = if self.record.exists() { Over::Ours } else { Over::Nothing };
        write(&self.record, serde_json::to_string_pretty(record)?.as_bytes(), over)
            .with_context(|| self.record.display().to_string())
    }
}

/// What may be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    Nothing,
    Ours,
}

enum There {
    Nothing,
    File(Vec<u8>),
    /// A link, a directory: nothing that we make.
    Other,
}

fn look(path: &Path) -> Result<There> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => Ok(There::File(fs::read(path).with_context(|| path.display().to_string())?)),
        Ok(_) => Ok(There::Other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(There::Nothing),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

/// Whole or not at all; a new one never over another that came in between.
fn write(path: &Path, content: &[u8], over: Over) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let temporary = dir.join(format!(".watcher-{}", unique_name()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    let written = file.write_all(content).and_then(|()| file.sync_all()).and_then(|()| match over {
        Over::Nothing => fs::hard_link(&temporary, path),
        Over::Ours => fs::rename(&temporary, path),
    });
    if over == Over::Nothing || written.is_err() {
        fs::remove_file(&temporary)?;
    }
    written
}

/// SHA-256 in lower case hexadecimal digits.
pub(crate) fn digest(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        let digit = |half: u8| char::from_digit(half.into(), 16).unwrap_or_default();
        text.extend([digit(byte >> 4), digit(byte & 0xf)]);
    }
    text
}
