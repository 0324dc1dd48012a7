//! `watcher sync`: reads every session once and puts new prompts into the history.

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use session_core::{AgentDir, Harness};

use super::Context;
use super::following::{Following, followed, prepare};
use super::output::with_progress;
use super::text::plural;
use crate::agents::{self, Selection};
use crate::exit::{Exit, Refusal};
use crate::logging;
use crate::settings::{Level, Settings};
use crate::state::Board;
use crate::supervise;

/// Read all sessions once and add the prompts that the history lacks, oldest first
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher sync
  watcher sync --agent-dir /srv/agent --json

Run twice, the second adds nothing. An agent directory that does not exist is not made. Damaged files are reported, and what is whole in them counts.")]
pub(crate) struct Sync {
    #[command(flatten)]
    following: Following,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Synced {
    agent_dir: String,
    files_read: u64,
    added: u64,
    known: u64,
    refused: u64,
    redacted: u64,
    problems: Vec<String>,
}

impl Sync {
    pub(crate) fn run(&self, context: &mut Context) -> Result<Exit> {
        // What goes wrong is part of the answer.
        let settings = self.following.sources(context, Level::Off).read()?;
        logging::start(settings.level(), None)?;
        let stop = supervise::stop_flag()?;
        let mut all = Vec::new();
        for prepared in prepare(there(context, &settings)?, &settings)? {
            let (prepared, report) = {
                let board = Board::new();
                let how_far = || {
                    let state = board.state();
                    format!("{} read, {} added", many(state.read, "file"), many(state.added, "prompt"))
                };
                with_progress(how_far, || supervise::sync(prepared, &stop, &board))?
            };
            let synced = Synced {
                agent_dir: prepared.agent.root().display().to_string(),
                files_read: report.files_read,
                added: report.tally.added,
                known: report.tally.known,
                refused: report.tally.refused,
                redacted: report.tally.redacted,
                problems: report.problems,
            };
            let root = context.homely(prepared.agent.root());
            let Synced { added, known, files_read, .. } = synced;
            context.out.line(&match files_read {
                0 => format!("{root}: nothing new"),
                _ => format!("{root}: {added} added, {known} known, {} read", many(files_read, "file")),
            })?;
            if synced.redacted > 0 {
                context.remark(&format!("secrets were replaced in {} of them", synced.redacted));
            }
            if let Some(mended) = &prepared.mended {
                context.remark(mended);
            }
            for notice in prepared.store.notices() {
                context.remark(&super::run::describe(&notice));
            }
            for problem in &synced.problems {
                context.remark(problem);
            }
            all.push(synced);
        }
        context.out.json("sync", all)?;
        Ok(Exit::Done)
    }
}

fn many(count: u64, one: &str) -> String {
    plural(usize::try_from(count).unwrap_or(usize::MAX), one)
}

/// Those of the agent directories that are meant which exist, or have sessions elsewhere. Of the others it is said.
fn there(context: &Context, settings: &Settings) -> Result<Vec<AgentDir>> {
    let mut there = Vec::new();
    let mut missing = Vec::new();
    for agent in followed(context)? {
        let exists = agent.root().exists() || settings.of(&agent)?.plan.roots.iter().any(|root| root.exists());
        if exists { there.push(agent) } else { missing.push(agent) }
    }
    for agent in &missing {
        context.remark(&format!(
            "{}: there is no such directory, so there is nothing to read",
            context.homely(agent.root())
        ));
    }
    if there.is_empty() {
        for harness in Harness::ALL {
            let others = Selection { harnesses: vec![harness], ..Selection::default() };
            let other = agents::resolve_one(&others, &context.environment)?;
            if other.sessions().exists() {
                context
                    .remark(&format!("there are sessions in {}: `--harness {harness}`", context.homely(other.root())));
            }
        }
        if !context.common.agent_dir.is_empty() {
            return Err(Refusal::new(Exit::NotFound, "none of the agent directories exists").into());
        }
    }
    Ok(there)
}
