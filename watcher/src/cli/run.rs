//! `watcher run`: syncs, then follows changes until it is told to stop.

use anyhow::Result;
use clap::Args;
use session_core::AgentDir;

use super::Context;
use crate::agents;
use crate::exit::Exit;
use crate::supervise::{self, Prepared};

/// Follow agent directories until Ctrl-C: prompts become searchable as they are typed
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher run
  watcher run --agent-dir /srv/agent
  watcher run --harness all

One watcher works on an agent directory at a time; a second one says who that is and leaves with code 4.
Session files are only read. The history is the harness's own; it is copied once before it is first written to.")]
pub(crate) struct Run {}

impl Run {
    pub(crate) fn run(context: &mut Context) -> Result<Exit> {
        let agents = agents::resolve(&context.common.selection(), &context.environment)?;
        let prepared: Vec<Prepared> = agents.into_iter().map(supervise::prepare).collect::<Result<_>>()?;
        for one in &prepared {
            greet(context, one)?;
        }
        context.out.line("Ctrl-C ends it.")?;
        context.out.finish()?;
        supervise::run(prepared)?;
        Ok(Exit::Done)
    }
}

fn greet(context: &mut Context, prepared: &Prepared) -> Result<()> {
    let out = &mut context.out;
    let agent: &AgentDir = &prepared.agent;
    out.line(&format!("watching  {}", agent.sessions().display()))?;
    out.line(&format!("history   {}", agent.history_db().display()))?;
    out.line(&format!("search    watcher history search --agent-dir {} WORDS", agent.root().display()))?;
    Ok(())
}
