//! `watcher status`: whether a watcher runs and how it is. Reads two small files and writes nothing.

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use session_core::Timestamp;

use super::Context;
use super::times::{ago, iso_millis, local_text};
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

Exits with code 3 when no watcher runs on some of the agent directories.")]
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
            let root = context.homely(agent.root());
            let out = &mut context.out;
            out.line(&format!("{root}: {}", condition.name()))?;
            let mut rows: Vec<(&str, String)> =
                holder.iter().map(|holder| ("running", in_local_time(holder))).collect();
            rows.extend(told.iter().flat_map(|state| rows_of(state, now)));
            for (what, value) in rows {
                out.line(&format!("  {what:<12}{value}"))?;
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

/// Who holds the lock, `process PID since TIME`, with the time as people read it.
fn in_local_time(holder: &str) -> String {
    match holder.rsplit_once(" since ") {
        Some((who, since)) => format!("{who} since {}", local_text(since)),
        None => holder.to_owned(),
    }
}

fn directories(count: u64) -> String {
    if count == 1 { "1 directory".to_owned() } else { format!("{count} directories") }
}

/// What a watcher told, as rows.
fn rows_of(state: &State, now: i64) -> Vec<(&'static str, String)> {
    let ago = |then| format!("{} ago", ago(now, then));
    let mut rows = vec![("heartbeat", ago(state.heartbeat)), ("progress", ago(state.progress))];
    rows.extend(state.working_since.map(|since| ("working", format!("since {}", ago(since)))));
    rows.push(("files", format!("{} in {}", state.files, directories(state.directories))));
    let added = format!("{} added by this process", state.added);
    rows.push(("prompts", state.rows.map_or(added.clone(), |rows| format!("{rows}, {added}"))));
    rows.extend(state.lag_millis.map(|lag| ("lag", format!("{lag} ms from notice to commit"))));
    let reason = state.polling_reason.as_ref().filter(|_| state.polled > 0);
    rows.extend(reason.map(|reason| ("polling", format!("{}: {reason}", directories(state.polled)))));
    rows.extend(state.pointer_discovery.as_ref().map(|discovery| ("pointers", format!("discovery {discovery}"))));
    rows.extend(state.last_problem.as_ref().map(|last| ("problem", format!("{}: {}", ago(last.at), last.message))));
    rows
}
