//! `watcher history stats`: what is in the history. Writes nothing.

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::open;
use crate::cli::Context;
use crate::cli::times::{iso, local};
use crate::exit::Exit;

/// What is in the history
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher history stats
  watcher history stats --json")]
pub(crate) struct Stats {}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    path: String,
    prompts: u64,
    submissions: u64,
    oldest: Option<String>,
    latest: Option<String>,
    form: &'static str,
    created_by_us: bool,
    indexed: bool,
    journal: String,
}

impl Stats {
    pub(super) fn run(context: &mut Context) -> Result<Exit> {
        let Some(store) = open::for_reading(context)? else {
            context.out.json("history.stats", None::<Shown>)?;
            return Ok(Exit::NotFound);
        };
        let stats = store.stats()?;
        let file = context.homely(store.path());
        let out = &mut context.out;
        out.line(&format!("{:<12}{file}", "file"))?;
        out.line(&format!("{:<12}{}", "prompts", stats.prompts))?;
        out.line(&format!("{:<12}{}", "submissions", stats.submissions))?;
        if let Some((oldest, latest)) = stats.span {
            out.line(&format!("{:<12}{} to {}", "typed", local(oldest), local(latest)))?;
        }
        let owner = if stats.created_by_us { "made by watcher" } else { "made by the agent" };
        out.line(&format!("{:<12}{} form, {owner}, journal {}", "database", stats.form, stats.journal))?;
        out.line(&format!("{:<12}{}", "index", if stats.indexed { "full text" } else { "none" }))?;
        let shown = Shown {
            path: store.path().display().to_string(),
            prompts: stats.prompts,
            submissions: stats.submissions,
            oldest: stats.span.map(|(oldest, _)| iso(oldest)),
            latest: stats.span.map(|(_, latest)| iso(latest)),
            form: stats.form,
            created_by_us: stats.created_by_us,
            indexed: stats.indexed,
            journal: stats.journal,
        };
        context.out.json("history.stats", shown)?;
        Ok(Exit::Done)
    }
}
