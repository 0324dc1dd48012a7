//! `watcher plugin install|uninstall`: puts our plugins into harnesses and takes them out again.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;

use super::Context;
use super::output::Tone;
use crate::exit::{Exit, Refusal};
use crate::plugin::{self, Host, Step};

/// Set up a harness so that it tells `watcher hook` what is typed
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  watcher plugin install xcsh --dry-run
  watcher plugin uninstall claude-code")]
pub(crate) enum Plugin {
    Install(Install),
    Uninstall(Uninstall),
}

/// Put the plugin of a harness in place
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher plugin install pi --dry-run          what would be written where
  watcher plugin install claude-code

For xcsh, omp and pi one file goes into the agent directory's `extensions`; for Claude Code a plugin into `skills/watcher` of
its directory, which it loads from there (older versions: `claude --plugin-dir ~/.claude/skills/watcher`). A file that is not
ours is never overwritten. The harness reads its plugins when it starts.")]
pub(crate) struct Install {
    #[command(flatten)]
    which: Which,
}

/// Take the plugin of a harness out again
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher plugin uninstall pi

A file that somebody changed is kept and named.")]
pub(crate) struct Uninstall {
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, Args)]
struct Which {
    /// The harness
    #[arg(value_name = "HARNESS")]
    host: Host,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    path: String,
    step: Step,
    /// What a dry run would write.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'static str>,
}

impl Plugin {
    pub(crate) fn run(self, context: &mut Context) -> Result<Exit> {
        match self {
            Self::Install(Install { which }) => {
                let plugin = which.plugin(context)?;
                let steps = if which.dry_run { plugin.plan()? } else { plugin.install()? };
                let written = |path: &Path| if which.dry_run { plugin.content(path) } else { None };
                let exit = show(context, "plugin.install", steps, written)?;
                if matches!(which.host, Host::ClaudeCode) {
                    context.remark(
                        "its prompts get a history of their own: `watcher history search --harness claude-code WORD`",
                    );
                }
                Ok(exit)
            }
            Self::Uninstall(Uninstall { which }) => {
                let plugin = which.plugin(context)?;
                let steps = if which.dry_run { plugin.removal()? } else { plugin.uninstall()? };
                show(context, "plugin.uninstall", steps, |_| None)
            }
        }
    }
}

impl Which {
    fn plugin(&self, context: &Context) -> Result<plugin::Plugin> {
        let dir = match context.common.agent_dir.as_slice() {
            [] => None,
            [dir] => Some(context.environment.cwd()?.join(dir)),
            several => {
                let message = format!("{} directories are named; a plugin goes into one at a time", several.len());
                return Err(Refusal::new(Exit::Usage, message).into());
            }
        };
        if let Some(other) = context.common.harness.filter(|harness| value_name(harness) != value_name(&self.host)) {
            let (host, other) = (value_name(&self.host), value_name(&other));
            let message = format!("two harnesses are named, {host} and --harness {other}; say which one");
            return Err(Refusal::new(Exit::Usage, message).into());
        }
        plugin::Plugin::of(self.host, dir.as_deref(), &context.environment)
    }
}

/// Says what is done with each file; `written` gives what is to be shown of one.
/// What a person types for it.
fn value_name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

fn show(
    context: &mut Context,
    kind: &str,
    steps: Vec<(PathBuf, Step)>,
    written: impl Fn(&Path) -> Option<&'static str>,
) -> Result<Exit> {
    let environment = context.environment.clone();
    if steps.iter().any(|(path, _)| written(path).is_some()) {
        context.out.page(&environment);
    }
    let mut all = Vec::new();
    for (path, step) in steps {
        let word = match step {
            Step::Write => "write",
            Step::Update => "update",
            Step::Unchanged => "unchanged",
            Step::Remove => "remove",
            Step::Kept => "kept, not ours or changed",
        };
        context.out.line(&format!("{word:<10} {}", context.homely(&path)))?;
        let text = written(&path).filter(|_| matches!(step, Step::Write | Step::Update));
        for line in text.into_iter().flat_map(str::lines) {
            context.out.toned(Tone::Faint, format!("    {line}").trim_end())?;
        }
        all.push(Shown { path: path.display().to_string(), step, content: text });
    }
    if all.is_empty() {
        context.out.line("there is nothing of ours")?;
    }
    context.out.json(kind, all)?;
    Ok(Exit::Done)
}
