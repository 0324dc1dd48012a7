//! `watcher detach`: takes everything of ours out of an agent directory.

use std::path::Path;

use anyhow::{Result, bail};
use clap::Args;
use history::{Access, Detached, HistoryStorage, OpenOptions};
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
  watcher detach --dry-run              what would go, and what stays
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
    /// Whether it was done.
    detached: bool,
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
            if let Some(absence) = context.absence(&agent) {
                return Err(Refusal::new(Exit::NotFound, absence).into());
            }
            let plan = Shown::planned(&agent, context)?;
            if plan.is_nothing() {
                plan.show(context)?;
                all.push(plan);
                continue;
            }
            if !self.confirm.is_given() {
                plan.show(context)?;
            }
            let what = format!("Take everything of the watcher's out of {}", context.homely(agent.root()));
            if !self.confirm.ask(context, &what)? {
                all.push(plan);
                continue;
            }
            let done = detach(&agent, context, plan)?;
            done.show(context)?;
            all.push(done);
        }
        context.out.json("detach", all)?;
        Ok(Exit::Done)
    }
}

/// Does what was planned.
fn detach(agent: &AgentDir, context: &Context, plan: Shown) -> Result<Shown> {
    let place = Place::of(agent);
    // Before the lock, which makes the place where it was not there.
    let there = place.removable(agent)?;
    let running = place.lock(Timestamp::from_system(std::time::SystemTime::now()))?;
    let spool = place.spool();
    let turn = if spool.is_there() { Some(turn(&spool)?) } else { None };
    let mut done = Shown { detached: true, files: Vec::new(), ..plan };
    // One in which nothing is ours stays as it is: opening it for writing makes our tables.
    if spool.waits() || history_of(agent)?.is_some_and(|ours| !ours.tables().is_empty() || ours.forgotten().is_some()) {
        let store = HistoryStorage::open(agent.history_db())?;
        // Prompts that wait there are nowhere else.
        spool.drain(&store)?;
        if spool.waits() {
            bail!("a hook is just telling a prompt; try again");
        }
        done.history(&store.detach()?);
    }
    place.remove(agent)?;
    done.files.extend(there.iter().map(|path| path.display().to_string()));
    done.left = left(agent, context);
    drop((turn, running));
    Ok(done)
}

/// What of ours is in the history, and beside it; none when there is no history.
fn history_of(agent: &AgentDir) -> Result<Option<Detached>> {
    if !agent.history_db().exists() {
        return Ok(None);
    }
    Ok(Some(OpenOptions::new().access(Access::ReadOnly).open(agent.history_db())?.detachable()?))
}

impl Shown {
    /// What would go and what would stay. Changes nothing.
    fn planned(agent: &AgentDir, context: &Context) -> Result<Self> {
        let mut plan = Self {
            agent_dir: agent.root().display().to_string(),
            detached: false,
            tables: Vec::new(),
            files: Vec::new(),
            kept: Vec::new(),
            left: left(agent, context),
        };
        if let Some(ours) = history_of(agent)? {
            plan.history(&ours);
        }
        plan.files.extend(Place::of(agent).removable(agent)?.iter().map(|path| path.display().to_string()));
        Ok(plan)
    }

    fn history(&mut self, ours: &Detached) {
        self.tables = ours.tables().to_vec();
        self.files.extend(ours.forgotten().map(|path| path.display().to_string()));
        self.kept = ours.kept().iter().map(|path| path.display().to_string()).collect();
    }

    fn is_nothing(&self) -> bool {
        self.tables.is_empty() && self.files.is_empty()
    }

    fn show(&self, context: &mut Context) -> Result<()> {
        let root = context.homely(self.agent_dir.as_ref());
        let (state, words) = if self.detached {
            (": detached", ["table", "removed", "kept", "left"])
        } else if self.is_nothing() {
            (": nothing of the watcher's is to be taken out", ["table", "remove", "keep", "leave"])
        } else {
            ("", ["table", "remove", "keep", "leave"])
        };
        context.out.line(&format!("{root}{state}"))?;
        let homely = |path: &String| context.homely(path.as_ref());
        let left = self.left.iter().map(|Left { path, reason }| format!("{}: {reason}", homely(path)));
        let lists = [
            self.tables.clone(),
            self.files.iter().map(homely).collect(),
            self.kept.iter().map(homely).collect(),
            left.collect(),
        ];
        for (word, list) in words.into_iter().zip(lists) {
            for item in list {
                context.out.line(&format!("  {word:<8} {item}"))?;
            }
        }
        Ok(())
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
