//! The flags of `run` and `sync` that are keys of the settings file too.

use std::num::NonZeroU32;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use session_core::AgentDir;

use super::Context;
use crate::agents;
use crate::exit::{Exit, Refusal};
use crate::setting::{DirectoryPattern, FilePattern, SettledPath};
use crate::settings::{Keys, Level, Polling, Settings, Sources};
use crate::supervise::{self, Prepared};

/// Each wins over the settings file.
#[derive(Clone, Debug, Args)]
pub(crate) struct Following {
    /// The settings file [default: watcher.toml in the configuration directory]
    #[arg(long, value_name = "FILE", help_heading = "Settings")]
    config: Option<PathBuf>,
    /// Another directory of session directories; may be given more than once
    #[arg(long, value_name = "DIR", help_heading = "Settings")]
    root: Option<Vec<PathBuf>>,
    /// Only session files that match, relative to their root
    #[arg(long, value_name = "GLOB", help_heading = "Settings")]
    include: Option<Vec<FilePattern>>,
    /// No session files that match
    #[arg(long, value_name = "GLOB", help_heading = "Settings")]
    exclude: Option<Vec<FilePattern>>,
    /// Where to look without waiting for events
    #[arg(long, value_name = "WHEN", help_heading = "Settings")]
    polling: Option<Polling>,
    /// Seconds between looks at everything
    #[arg(long, value_name = "SECONDS", help_heading = "Settings")]
    reconcile_interval: Option<NonZeroU32>,
    /// Replace what looks like a secret before it is recorded
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help_heading = "Settings"
    )]
    redact: Option<bool>,
    /// A file with patterns of your own, `kind = pattern` a line; redacts, unless --redact=false
    #[arg(long, value_name = "FILE", help_heading = "Settings")]
    redaction_rules: Option<Vec<PathBuf>>,
    /// Do not record what is typed in working directories that match
    #[arg(long, value_name = "GLOB", help_heading = "Settings")]
    never_record: Option<Vec<DirectoryPattern>>,
    /// How much to log
    #[arg(long, value_name = "LEVEL", help_heading = "Settings")]
    log_level: Option<Level>,
}

impl Following {
    pub(crate) fn sources(&self, context: &Context, default: Level) -> Sources {
        let absolute = |path: &PathBuf| context.environment.cwd().map_or(path.clone(), |cwd| cwd.join(path));
        let settled = |paths: &Option<Vec<PathBuf>>| {
            let settle = |path| SettledPath::absolute(absolute(path));
            paths.as_ref().map(|paths| paths.iter().map(settle).collect())
        };
        let flags = Keys {
            reconcile_interval: self.reconcile_interval,
            polling: self.polling,
            include: self.include.clone(),
            exclude: self.exclude.clone(),
            roots: settled(&self.root),
            redact: self.redact,
            redaction_rules: settled(&self.redaction_rules),
            never_record: self.never_record.clone(),
        };
        let verbose = match context.common.verbose {
            0 => None,
            1 => Some(Level::Debug),
            _ => Some(Level::Trace),
        };
        let file = self.config.as_ref().map(absolute);
        let level = self.log_level.or(verbose);
        Sources { file, flags, level, default, environment: context.environment.clone() }
    }
}

/// The agent directories that the command line names, if their sessions can be followed.
pub(crate) fn followed(context: &Context) -> Result<Vec<AgentDir>> {
    let selection = context.common.selection();
    if let Some(name) = selection.strangers.first() {
        let message = format!(
            "{name} has sessions of another format, which are not followed; its hooks tell its prompts: see `watcher plugin`"
        );
        return Err(Refusal::new(Exit::Usage, message).into());
    }
    agents::resolve(&selection, &context.environment)
}

/// Opens agent directories under the settings in force for them; makes what is missing.
pub(crate) fn prepare(agents: Vec<AgentDir>, settings: &Settings) -> Result<Vec<Prepared>> {
    // All settings are judged before anything is touched.
    let each = agents.into_iter().map(|agent| settings.of(&agent).map(|settings| (agent, settings)));
    let each = each.collect::<Result<Vec<_>>>()?;
    each.into_iter().map(|(agent, settings)| supervise::prepare(agent, settings)).collect()
}
