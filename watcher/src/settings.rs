//! The settings file `watcher.toml`: what is followed and how, for all agent directories and for each by itself.
//!
//! Every key is also a flag of `run` and `sync`, and the flag wins. A key that is not known is an error: a misspelt one would
//! otherwise do nothing, silently.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use history::{OpenOptions, Redaction};
use serde::Deserialize;
use session_core::storage::{FileSessionStorage, SessionStorage};
use session_core::{AgentDir, Environment};

use crate::discover::Filter;
use crate::engine::Plan;
use crate::exit::{Exit, Refusal};
use crate::setting::{DirectoryPattern, FilePattern, SettledPath};

/// A file to begin with: all keys with their defaults.
pub(crate) const EXAMPLE: &str = r#"
log_level = "info"        # off, error, warn, info, debug or trace

[default]                 # for every agent directory
reconcile_interval = 60   # seconds between looks at everything, whatever events said
polling = "auto"          # auto: where there are no events; always
include = ["*/*.jsonl"]   # files below a root; "**/*.jsonl" takes the sessions of sub-agents too
exclude = []              # patterns of the same kind
roots = []                # more directories of session directories
redact = false            # replace what looks like a secret before a prompt is recorded
redaction_rules = []      # files with patterns of your own, `kind = pattern` a line; with one redact is true unless said
never_record = []         # e.g. ["~/private"]: prompts typed there or below are not recorded; * and **/ are understood

# [agent."~/.omp/agent"]  # any of these keys, for one agent directory
# redact = true
"#;

/// The file as it is written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    log_level: Option<Level>,
    default: Keys,
    agent: BTreeMap<SettledPath, Keys>,
}

/// What can be set for an agent directory.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Keys {
    pub(crate) reconcile_interval: Option<std::num::NonZeroU32>,
    pub(crate) polling: Option<Polling>,
    pub(crate) include: Option<Vec<FilePattern>>,
    pub(crate) exclude: Option<Vec<FilePattern>>,
    pub(crate) roots: Option<Vec<SettledPath>>,
    pub(crate) redact: Option<bool>,
    pub(crate) redaction_rules: Option<Vec<SettledPath>>,
    pub(crate) never_record: Option<Vec<DirectoryPattern>>,
}

/// When directories are polled.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Polling {
    /// Where the system gives no events.
    #[default]
    Auto,
    /// Everywhere.
    Always,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// Where settings come from: the command line, and a file that may change while we run.
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    /// The file of the command line, which must be there; else the user's, which may be.
    pub(crate) file: Option<PathBuf>,
    pub(crate) flags: Keys,
    pub(crate) level: Option<Level>,
    /// The level when nobody names one.
    pub(crate) default: Level,
    pub(crate) environment: Environment,
}

/// The settings in force.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    file: File,
    flags: Keys,
    level: Level,
    environment: Environment,
}

/// The settings of one agent directory.
#[derive(Clone, Debug)]
pub(crate) struct AgentSettings {
    pub(crate) plan: Plan,
    pub(crate) polling: Polling,
    redact: bool,
    redaction_rules: Vec<PathBuf>,
    never_record: Vec<String>,
}

impl Sources {
    /// Reads the file.
    ///
    /// # Errors
    /// [`Exit::Usage`] with line and column when it is not understood; else what kept it from being read.
    pub(crate) fn read(&self) -> Result<Settings> {
        let file = match &self.file {
            Some(path) => parse(path, &read(path)?)?,
            // One that is there and can't be read says what must not be recorded, maybe.
            None => match user_file(&self.environment) {
                Some(path) if !is_missing(&path) => parse(&path, &read(&path)?)?,
                _ => File::default(),
            },
        };
        let level = self.level.or(file.log_level).unwrap_or(self.default);
        Ok(Settings { file, flags: self.flags.clone(), level, environment: self.environment.clone() })
    }
}

impl Settings {
    pub(crate) fn level(&self) -> Level {
        self.level
    }

    /// What is in force for an agent directory: flags before its section before the defaults.
    ///
    /// # Errors
    /// [`Exit::Usage`] for a file of redaction rules that can't be read or has a line that is no rule, and for two sections of
    /// the directory.
    pub(crate) fn of(&self, agent: &AgentDir) -> Result<AgentSettings> {
        let storage = FileSessionStorage::new();
        let layers = [Some(&self.flags), self.section(agent)?, Some(&self.file.default)];
        let layers = || layers.into_iter().flatten();
        macro_rules! first {
            ($key:ident) => {
                layers().find_map(|keys| keys.$key.clone())
            };
        }
        let patterns = |found: Option<Vec<FilePattern>>| -> Vec<String> {
            found.unwrap_or_default().iter().map(FilePattern::text).collect()
        };
        let filter = Filter::new(&patterns(first!(include)), &patterns(first!(exclude)));
        let filter = filter.map_err(|error| Refusal::new(Exit::Usage, format!("include, exclude: {error}")))?;
        let mut roots = vec![agent.sessions()];
        for root in first!(roots).unwrap_or_default() {
            let root = root.expanded(&self.environment);
            if roots.iter().all(|known| storage.resolve(known) != storage.resolve(&root)) {
                roots.push(root);
            }
        }
        let rules: Vec<PathBuf> =
            first!(redaction_rules).unwrap_or_default().iter().map(|file| file.expanded(&self.environment)).collect();
        let never_record = first!(never_record).unwrap_or_default();
        let seconds = first!(reconcile_interval).map_or(60, |seconds| u64::from(seconds.get()));
        let settings = AgentSettings {
            plan: Plan { roots, filter, reconcile: Duration::from_secs(seconds) },
            polling: first!(polling).unwrap_or_default(),
            // Who writes rules means them.
            redact: first!(redact).unwrap_or(!rules.is_empty()),
            redaction_rules: rules,
            never_record: never_record.iter().map(|pattern| pattern.expanded(&self.environment)).collect(),
        };
        settings.history()?;
        Ok(settings)
    }

    /// The section of an agent directory. Of two that name it, one would do nothing, silently.
    fn section(&self, agent: &AgentDir) -> Result<Option<&Keys>> {
        let storage = FileSessionStorage::new();
        let root = storage.resolve(agent.root());
        let is_own = |(dir, _): &(&SettledPath, &Keys)| storage.resolve(&dir.expanded(&self.environment)) == root;
        let mut own = self.file.agent.iter().filter(is_own);
        let section = own.next();
        if own.next().is_some() {
            let message = format!("the settings have two sections [agent.…] of one directory, {}", root.display());
            return Err(Refusal::new(Exit::Usage, message).into());
        }
        Ok(section.map(|(_, keys)| keys))
    }
}

impl AgentSettings {
    /// How the history is opened.
    ///
    /// # Errors
    /// [`Exit::Usage`] for a pattern that is none, and for a file of rules that can't be read or has a line that is no rule.
    pub(crate) fn history(&self) -> Result<OpenOptions> {
        let options = OpenOptions::new().never_record(self.never_record.iter().map(String::as_str));
        let options = options.map_err(|error| Refusal::new(Exit::Usage, format!("never_record: {error}")))?;
        if !self.redact {
            return Ok(options);
        }
        let mut redaction = Redaction::known();
        for file in &self.redaction_rules {
            let with = redaction.with_rules_of(file);
            redaction = with.map_err(|error| Refusal::new(Exit::Usage, format!("redaction_rules: {error}")))?;
        }
        Ok(options.redact(redaction))
    }

    /// Whether the history must be opened anew to go from these settings to others.
    pub(crate) fn records_otherwise(&self, other: &Self) -> bool {
        // A file of rules may hold others by now.
        let reads_rules = self.redact && !self.redaction_rules.is_empty();
        reads_rules || (self.redact, &self.never_record) != (other.redact, &other.never_record)
    }
}

impl Level {
    /// As tracing's filter spells it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// `watcher.toml` in the user's configuration directory.
pub(crate) fn user_file(environment: &Environment) -> Option<PathBuf> {
    let base = environment.variable("XDG_CONFIG_HOME").map(PathBuf::from).filter(|base| base.is_absolute());
    Some(base.or_else(|| Some(environment.home()?.join(".config")))?.join("watcher.toml"))
}

fn is_missing(path: &Path) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    std::fs::metadata(path).is_err_and(|error| matches!(error.kind(), NotFound | NotADirectory))
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path)
        .map_err(|error| Refusal::new(Exit::Usage, format!("{}: {error}", path.display())).into())
}

fn parse(path: &Path, text: &str) -> Result<File> {
    toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let before = &text[..at.min(text.len())];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let message = format!("{}:{line}:{column}: {}", path.display(), error.message());
        Refusal::new(Exit::Usage, message).into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Result<Settings> {
        let file = parse(Path::new("watcher.toml"), text)?;
        let environment = Environment::new("/w").with_variable("HOME", "/home/u");
        Ok(Settings { file, flags: Keys::default(), level: Level::Info, environment })
    }

    #[test]
    fn a_flag_wins_over_a_section_over_the_default() {
        let mut settings =
            settings("[default]\nreconcile_interval = 5\npolling = 'always'\n[agent.'~/a']\nreconcile_interval = 7\n")
                .unwrap();
        let agent = |path: &str| AgentDir::at(path).unwrap();
        let interval = |settings: &Settings, path| settings.of(&agent(path)).unwrap().plan.reconcile.as_secs();
        assert_eq!((interval(&settings, "/home/u/a"), interval(&settings, "/home/u/b")), (7, 5));
        assert_eq!(settings.of(&agent("/home/u/a")).unwrap().polling, Polling::Always);
        settings.flags.reconcile_interval = std::num::NonZeroU32::new(9);
        assert_eq!(interval(&settings, "/home/u/a"), 9);
    }

    #[test]
    fn what_is_wrong_is_said_with_line_and_column() {
        for (text, at) in [
            ("[default]\nexclude = ['x', '[']\n", "watcher.toml:2:11: \"[\" is no file pattern"),
            ("[default]\ninclude = [\n  '{'\n]\n", "watcher.toml:2:11: \"{\" is no file pattern"),
            ("[default]\nnever_record = ['~/x', 'x']\n", "watcher.toml:2:16: x: working directories are absolute"),
            ("[default]\nnever_record = ['~/[x']\n", "watcher.toml:2:16: "),
            ("[agent.'/a']\nroots = ['x']\n", "watcher.toml:2:9: \"x\" is relative to nothing"),
            ("[default]\nredaction_rules = ['x']\n", "watcher.toml:2:19: \"x\" is relative"),
            ("\n[agent.omp]\nredact = true\n", "watcher.toml:2:8: \"omp\" is relative"),
            ("[default]\nreconcile = 5\n", "watcher.toml:2:1: unknown field `reconcile`"),
            ("log_level = 'loud'\n", "watcher.toml:1:13: unknown variant `loud`"),
            ("[default]\nreconcile_interval = 0\n", "watcher.toml:2:22:"),
            ("[agent.'x']\npolling = \n", "watcher.toml:2:"),
        ] {
            let error = settings(text).unwrap_err();
            assert!(error.to_string().starts_with(at), "{error}");
            assert_eq!(error.downcast_ref::<Refusal>().unwrap().exit, Exit::Usage);
        }
    }

    #[test]
    fn rules_of_one_s_own_are_in_force_when_their_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rules");
        let with = |more: &str| {
            let text = format!("[default]\nredaction_rules = ['{}']\n{more}", file.display());
            settings(&text).unwrap().of(&AgentDir::at("/a").unwrap())
        };
        let missing = with("").unwrap_err();
        assert!(missing.to_string().contains(file.to_str().unwrap()), "{missing}");
        std::fs::write(&file, "badge = B-[0-9]+\nno rule\n").unwrap();
        let wrong = with("").unwrap_err();
        assert!(wrong.to_string().contains("rules:2: ") && wrong.to_string().contains("kind = pattern"), "{wrong}");
        assert_eq!(wrong.downcast_ref::<Refusal>().unwrap().exit, Exit::Usage);
        std::fs::write(&file, "badge = B-[0-9]+\n").unwrap();
        assert!(with("").unwrap().redact && !with("redact = false").unwrap().redact);
        // What is in the file may have changed since it was read.
        assert!(with("").unwrap().records_otherwise(&with("").unwrap()));
    }

    #[test]
    fn a_settings_file_that_can_t_be_read_is_not_as_if_there_were_none() {
        let dir = tempfile::tempdir().unwrap();
        let environment = Environment::new("/w").with_variable("XDG_CONFIG_HOME", dir.path());
        let sources = Sources { file: None, flags: Keys::default(), level: None, default: Level::Info, environment };
        assert!(sources.read().is_ok(), "there is none");
        let file = dir.path().join("watcher.toml");
        std::os::unix::fs::symlink(&file, &file).unwrap();
        let error = sources.read().unwrap_err();
        assert!(error.to_string().starts_with(file.to_str().unwrap()), "{error}");
        assert_eq!(error.downcast_ref::<Refusal>().unwrap().exit, Exit::Usage);
    }

    #[test]
    fn a_second_section_of_a_directory_is_refused() {
        let text = "[agent.'~/a']\nredact = true\n[agent.'/home/u/x/../a/']\nnever_record = ['/x']\n";
        let error = settings(text).unwrap().of(&AgentDir::at("/home/u/a").unwrap()).unwrap_err();
        assert!(error.to_string().ends_with("two sections [agent.…] of one directory, /home/u/a"), "{error}");
        assert_eq!(error.downcast_ref::<Refusal>().unwrap().exit, Exit::Usage);
    }

    #[test]
    fn what_is_never_recorded_may_begin_with_the_home() {
        let settings = settings("[default]\nnever_record = ['~/private', '/x']\n").unwrap();
        assert_eq!(settings.of(&AgentDir::at("/a").unwrap()).unwrap().never_record, ["/home/u/private", "/x"]);
    }

    #[test]
    fn the_example_holds_every_key_with_its_default() {
        let example = settings(EXAMPLE).unwrap();
        let plain = settings("").unwrap();
        let agent = AgentDir::at("/a").unwrap();
        let (example_of, plain_of) = (example.of(&agent).unwrap(), plain.of(&agent).unwrap());
        assert!(!example_of.records_otherwise(&plain_of));
        assert_eq!(example_of.plan.reconcile, plain_of.plan.reconcile);
        assert_eq!(example.file.log_level, Some(Level::Info));
        let Keys { reconcile_interval, polling, include, exclude, roots, redact, redaction_rules, never_record } =
            example.file.default;
        assert!(reconcile_interval.is_some() && polling.is_some() && include.is_some() && exclude.is_some());
        assert!(roots.is_some() && redact.is_some() && redaction_rules.is_some() && never_record.is_some());
    }
}
