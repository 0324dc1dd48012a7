//! `watcher status`: whether a watcher runs and how it is. Reads two small files and writes nothing.

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use session_core::Timestamp;

use super::Context;
use super::times::{ago, iso_millis};
use crate::agents;
use crate::exit::Exit;
use crate::place::Place;
use crate::state::{self, Condition, State};

/// Say whether a watcher runs, how far it is and what went wrong last
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher status
  watcher status --json

Leaves with code 3 when no watcher runs on some of the agent directories.")]
pub(crate) struct Status {}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    agent_dir: String,
    condition: Condition,
    holder: Option<String>,
    started: Option<String>,
    heartbeat: Option<String>,
    progress: Option<String>,
    state: Option<State>,
}

impl Status {
    pub(crate) fn run(context: &mut Context) -> Result<Exit> {
        let mut exit = Exit::Done;
        let mut all = Vec::new();
        for agent in agents::resolve(&context.common.selection(), &context.environment)? {
            let place = Place::of(&agent);
            let holder = place.holder()?;
            let told = state::read(&place).filter(|state| holder.as_ref().is_none_or(|holder| is_of(state, holder)));
            let now = state::now();
            let condition = match &told {
                Some(state) => Condition::of(state, holder.is_some(), now),
                None if holder.is_some() => Condition::Syncing,
                None => Condition::Stopped,
            };
            if condition == Condition::Stopped {
                exit = Exit::NotFound;
            }
            context.tell_absence(&agent);
            let out = &mut context.out;
            out.line(&format!("{}: {}", agent.root().display(), condition.name()))?;
            if let Some(holder) = &holder {
                out.line(&format!("  running     {holder}"))?;
            }
            if let Some(state) = &told {
                show(context, state, condition, now)?;
            }
            let time = |pick: fn(&State) -> i64| told.as_ref().map(|state| iso_millis(pick(state)));
            all.push(Shown {
                agent_dir: agent.root().display().to_string(),
                condition,
                holder,
                started: time(|state| state.started),
                heartbeat: time(|state| state.heartbeat),
                progress: time(|state| state.progress),
                state: told,
            });
        }
        context.out.json("status", all)?;
        Ok(exit)
    }
}

/// Whether a state was told by whoever holds the lock: after a watcher that ended, a sync holds it and tells nothing.
fn is_of(state: &State, holder: &str) -> bool {
    let holder = holder.strip_prefix("process ").and_then(|holder| holder.split_once(" since "));
    holder.is_none_or(|(pid, since)| {
        let is_later = Timestamp::parse(since).is_none_or(|since| state.started >= since.millis());
        pid == state.pid.to_string() && is_later
    })
}

fn show(context: &mut Context, state: &State, condition: Condition, now: i64) -> Result<()> {
    let out = &mut context.out;
    let last = if condition == Condition::Stopped { "last " } else { "" };
    out.line(&format!(
        "  {last}heartbeat {} ago, progress {} ago",
        ago(now, state.heartbeat),
        ago(now, state.progress)
    ))?;
    if let Some(since) = state.working_since {
        out.line(&format!("  working     for {}", ago(now, since)))?;
    }
    out.line(&format!("  files       {} in {} directories", state.files, state.directories))?;
    out.line(&match state.rows {
        Some(rows) => format!("  prompts     {rows}, {} added by this process", state.added),
        None => format!("  prompts     {} added by this process", state.added),
    })?;
    if let Some(lag) = state.lag_millis {
        out.line(&format!("  lag         {lag} ms from notice to commit"))?;
    }
    if let Some(reason) = state.polling_reason.as_ref().filter(|_| state.polled > 0) {
        out.line(&format!("  polling     {} directories: {reason}", state.polled))?;
    }
    if let Some(discovery) = &state.pointer_discovery {
        out.line(&format!("  pointer discovery: {discovery}"))?;
    }
    if let Some(problem) = &state.last_problem {
        out.line(&format!("  last problem, {} ago: {}", ago(now, problem.at), problem.message))?;
    }
    Ok(())
}
