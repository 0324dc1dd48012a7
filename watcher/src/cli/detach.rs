//! `watcher detach`: takes everything of ours out of an agent directory.

use anyhow::{Result, bail};
use clap::Args;
use history::HistoryStorage;
use serde::Serialize;
use session_core::Timestamp;

use super::Context;
use crate::agents;
use crate::exit::Exit;
use crate::place::Place;

/// Remove every table and file of the watcher's; sessions, pointers and prompts stay
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher detach
  watcher detach --agent-dir /srv/agent --json

No watcher may run on the agent directory. Copies of the history from before the first contact are kept and named.")]
pub(crate) struct Detach {}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    agent_dir: String,
    tables: Vec<String>,
    files: Vec<String>,
    kept: Vec<String>,
}

impl Detach {
    pub(crate) fn run(context: &mut Context) -> Result<Exit> {
        let mut all = Vec::new();
        for agent in agents::resolve(&context.common.selection(), &context.environment)? {
            let place = Place::of(&agent);
            let mut shown = Shown {
                agent_dir: agent.root().display().to_string(),
                tables: Vec::new(),
                files: Vec::new(),
                kept: Vec::new(),
            };
            if !agent.root().exists() {
                bail!("{}: there is no such agent directory", agent.root().display());
            }
            let running = place.lock(Timestamp::from_system(std::time::SystemTime::now()))?;
            if agent.history_db().exists() {
                let store = HistoryStorage::open(agent.history_db())?;
                // Prompts that wait there are nowhere else.
                place.spool().drain(&store)?;
                let detached = store.detach()?;
                shown.tables = detached.tables().to_vec();
                shown.kept = detached.kept().iter().map(|path| path.display().to_string()).collect();
            }
            shown.files = place.remove(&agent)?.iter().map(|path| path.display().to_string()).collect();
            drop(running);
            let out = &mut context.out;
            out.line(&format!("{}: detached", shown.agent_dir))?;
            for (what, list) in [("table", &shown.tables), ("removed", &shown.files), ("kept", &shown.kept)] {
                for item in list {
                    out.line(&format!("  {what:<8} {item}"))?;
                }
            }
            all.push(shown);
        }
        context.out.json("detach", all)?;
        Ok(Exit::Done)
    }
}
