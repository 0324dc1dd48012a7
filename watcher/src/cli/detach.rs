//! `watcher detach`: takes everything of ours out of an agent directory.

use std::path::Path;

use anyhow::{Result, bail};
use clap::Args;
use history::HistoryStorage;
use serde::Serialize;
use session_core::{AgentDir, Timestamp};

use super::Context;
use super::confirm::Confirm;
use crate::agents;
use crate::exit::{Exit, Refusal};
use crate::place::Place;
use crate::service::{MARK, Manager};
use crate::spool::{Spool, Turn};

/// Remove every table and file of the watcher's; sessions, pointers and prompts stay
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher detach
  watcher detach --agent-dir /srv/agent --yes --json

No watcher may run on the agent directory. Copies of the history from before the first contact are kept and named. The
list of deleted prompts goes, too: `watcher sync` would read them from the session files again.")]
pub(crate) struct Detach {
    #[command(flatten)]
    confirm: Confirm,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    agent_dir: String,
    tables: Vec<String>,
    files: Vec<String>,
    kept: Vec<String>,
    left: Vec<Left>,
}

/// Something of ours that stays, and what would take it away.
#[derive(Serialize)]
struct Left {
    path: String,
    reason: &'static str,
}

impl Detach {
    pub(crate) fn run(&self, context: &mut Context) -> Result<Exit> {
        let mut all = Vec::new();
        for agent in agents::resolve(&context.common.selection(), &context.environment)? {
            let place = Place::of(&agent);
            let mut shown = Shown {
                agent_dir: agent.root().display().to_string(),
                tables: Vec::new(),
                files: Vec::new(),
                kept: Vec::new(),
                left: Vec::new(),
            };
            if let Some(absence) = context.absence(&agent) {
                return Err(Refusal::new(Exit::NotFound, absence).into());
            }
            let what = format!("Take everything of the watcher's out of {}", context.homely(agent.root()));
            if !self.confirm.ask(context, &what)? {
                continue;
            }
            let running = place.lock(Timestamp::from_system(std::time::SystemTime::now()))?;
            let spool = place.spool();
            let turn = if spool.is_there() { Some(turn(&spool)?) } else { None };
            if agent.history_db().exists() || spool.waits() {
                let store = HistoryStorage::open(agent.history_db())?;
                // Prompts that wait there are nowhere else.
                spool.drain(&store)?;
                if spool.waits() {
                    bail!("a hook is just telling a prompt; try again");
                }
                let detached = store.detach()?;
                shown.tables = detached.tables().to_vec();
                shown.files.extend(detached.forgotten().map(|path| path.display().to_string()));
                shown.kept = detached.kept().iter().map(|path| path.display().to_string()).collect();
            }
            shown.files.extend(place.remove(&agent)?.iter().map(|path| path.display().to_string()));
            shown.left = left(&agent, context);
            drop((turn, running));
            let out = &mut context.out;
            out.line(&format!("{}: detached", shown.agent_dir))?;
            for (what, list) in [("table", &shown.tables), ("removed", &shown.files), ("kept", &shown.kept)] {
                for item in list {
                    out.line(&format!("  {what:<8} {item}"))?;
                }
            }
            for Left { path, reason } in &shown.left {
                out.line(&format!("  left     {path}: {reason}"))?;
            }
            all.push(shown);
        }
        context.out.json("detach", all)?;
        Ok(Exit::Done)
    }
}

/// What of ours stays on purpose.
fn left(agent: &AgentDir, context: &Context) -> Vec<Left> {
    let mut left = Vec::new();
    let mut note = |path: &Path, reason| left.push(Left { path: path.display().to_string(), reason });
    let locks = agent.session_lock(&"any".into());
    if let Some(locks) = locks.parent().filter(|locks| locks.exists()) {
        note(locks, "a lock that goes while a program waits for it locks nothing; remove it when none runs");
    }
    if agent.trash().exists() {
        note(&agent.trash(), "deleted sessions that `watcher sessions restore` brings back");
    }
    // Without a home directory there is none.
    if let Ok(service) = Manager::of_system().file(&context.environment)
        && std::fs::read_to_string(&service).is_ok_and(|text| text.contains(MARK))
    {
        note(&service, "`watcher service uninstall` removes it");
    }
    left
}

/// Nobody may take over for hooks meanwhile: it would make our tables anew.
fn turn(spool: &Spool) -> Result<Turn> {
    let message = "prompts that hooks told are just going into the history; try again when it is not locked any more";
    spool.turn()?.ok_or_else(|| Refusal::new(Exit::Refused, message).into())
}
