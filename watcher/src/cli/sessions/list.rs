//! `watcher sessions list`: the sessions of a directory, by last activity. Writes nothing.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, anyhow};
use clap::Args;
use serde::Serialize;
use session_core::{Listing, Session, SessionInfo, Status, Timestamp, time_ago};

use super::sums::Sums;
use crate::cli::Context;
use crate::cli::grid::{Column, Grid};
use crate::cli::output::with_progress;
use crate::cli::text::{money, plural, size};
use crate::exit::Exit;

/// Ids are shown as short as they stay apart, but not shorter.
const SHORTEST_ID: usize = 8;
/// The narrowest terminal that has room for what sessions cost.
const COST_FROM: usize = 80;
/// A larger session is not decoded for its cost and branches, as it is not for its status.
const LARGE: u64 = 64 * 1024 * 1024;

/// The sessions of this directory, by last activity
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher sessions list
  watcher sessions list --all -n 10        the ten latest, wherever they are
  watcher sessions list --cwd ~/project
  watcher sessions list --subagents        those that sub-agents had
  watcher sessions list --json | jq -r '.data.sessions[].path'

STATUS is how the last message left it: complete, waiting (a prompt without an answer), interrupted, aborted, error.
A narrow terminal shows fewer columns.")]
pub(crate) struct List {
    /// Sessions of every directory
    #[arg(short, long, conflicts_with = "cwd")]
    all: bool,
    /// Sessions of this directory [default: the working directory]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Sub-agents' sessions instead
    #[arg(long)]
    subagents: bool,
    /// At most so many
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    path: String,
    id: String,
    cwd: String,
    name: String,
    title: Option<String>,
    parent: Option<String>,
    owner: Option<String>,
    created: Option<String>,
    modified: String,
    message_count: Option<u64>,
    first_message: String,
    last_activity: Option<String>,
    status: Option<&'static str>,
    size: u64,
    cost: Option<f64>,
    branches: Option<usize>,
}

#[derive(Serialize)]
struct Answer {
    sessions: Vec<Listed>,
    /// Files that are no sessions, or could not be read.
    problems: Vec<Problem>,
}

#[derive(Serialize)]
struct Problem {
    path: String,
    kind: &'static str,
    message: String,
}

impl List {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit> {
        let catalog = context.catalog()?;
        let cwd = context.directory(self.cwd.as_deref())?;
        let mut listing: Listing<SessionInfo> = with_progress(
            || "reading sessions…".to_owned(),
            || match (self.all, self.subagents) {
                (true, false) => catalog.list_all(),
                (true, true) => catalog.all_subagents(),
                (false, false) => catalog.list(Some(&cwd), None),
                (false, true) => catalog.subagents(Some(&cwd), None),
            },
        )?;
        for problem in &listing.problems {
            context.remark(&problem.to_string());
        }
        listing.sessions.sort_by_key(|session| Reverse(activity(session)));
        let ids = unique_length(&listing.sessions);
        let left_out = self.limit.map_or(0, |limit| listing.sessions.len().saturating_sub(limit));
        listing.sessions.truncate(listing.sessions.len() - left_out);
        // What is not shown is not worth reading every file for.
        let wants_sums = context.out.is_json() || context.out.columns().is_none_or(|width| width >= COST_FROM);
        let sums = if wants_sums { sums(&listing.sessions)? } else { vec![None; listing.sessions.len()] };

        let cwd_column = self.all;
        let mut columns = vec![
            Column::left("AGE"),
            Column::left("ID"),
            Column::left("STATUS").from(50),
            Column::right("MSGS").from(70),
            Column::right("COST").from(COST_FROM),
            Column::right("SIZE").from(90),
            Column::right("BRANCHES").from(95),
        ];
        columns.extend(cwd_column.then(|| Column::left("DIRECTORY").from(100)));
        columns.push(Column::left("TITLE"));
        let mut grid = Grid::new(columns);
        let now = context.now()?;
        for (session, sums) in listing.sessions.iter().zip(&sums) {
            let mut cells = vec![
                time_ago(activity(session), now),
                session.id().as_str().chars().take(ids).collect(),
                session.status().map_or("", Status::name).to_owned(),
                session.message_count().map(|count| count.to_string()).unwrap_or_default(),
                sums.map(|sums| money(sums.cost)).unwrap_or_default(),
                size(session.size()),
                sums.filter(|sums| sums.branches > 1).map(|sums| sums.branches.to_string()).unwrap_or_default(),
            ];
            cells.extend(cwd_column.then(|| context.homely(Path::new(session.cwd()))));
            cells.push(session.name());
            grid.row(cells);
        }
        context.out.grid(&grid)?;
        if left_out > 0 && !context.out.is_json() {
            context.remark(&format!("and {left_out} more; see them with a larger --limit"));
        }
        if listing.sessions.is_empty() && left_out == 0 {
            say_none(context, (!self.all).then_some(cwd.as_path()))?;
        }
        let problems = listing.problems.iter().map(|problem| Problem {
            path: problem.path().display().to_string(),
            kind: problem.kind().name(),
            message: problem.to_string(),
        });
        let sessions = listing.sessions.iter().zip(sums).map(|(session, sums)| Listed::of(session, sums)).collect();
        context.out.json("sessions.list", Answer { sessions, problems: problems.collect() })?;
        Ok(Exit::Done)
    }
}

/// Says that there are no sessions, of a directory or at all, and where others may be.
pub(super) fn say_none(context: &Context, cwd: Option<&Path>) -> Result<()> {
    let agent = context.agent()?;
    if context.tell_absence(&agent) || context.out.is_json() {
        return Ok(());
    }
    context.remark(&match cwd {
        Some(cwd) => format!("{}: no sessions; --all shows those of every directory", cwd.display()),
        None => format!("{}: no sessions", agent.sessions().display()),
    });
    Ok(())
}

/// When something last happened in a session.
pub(super) fn activity(session: &SessionInfo) -> Timestamp {
    session.last_activity().unwrap_or(session.modified())
}

/// How much of each id tells the sessions apart.
pub(super) fn unique_length(sessions: &[SessionInfo]) -> usize {
    let mut ids: Vec<&str> = sessions.iter().map(|session| session.id().as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    let common = |pair: &[&str]| pair[0].chars().zip(pair[1].chars()).take_while(|(a, b)| a == b).count();
    ids.windows(2).map(|pair| common(pair) + 1).max().unwrap_or(0).max(SHORTEST_ID)
}

/// The sums of each session that is not too large; of one that changes or goes meanwhile there are none.
fn sums(sessions: &[SessionInfo]) -> Result<Vec<Option<Sums>>> {
    let done = AtomicUsize::new(0);
    let how_far = || format!("adding up {}, {} done", plural(sessions.len(), "session"), done.load(Ordering::Relaxed));
    let sum = |session: &SessionInfo| {
        done.fetch_add(1, Ordering::Relaxed);
        if session.size() > LARGE {
            return Ok(None);
        }
        match Session::read(session.path()) {
            Ok(read) => Sums::of(&read).map(Some),
            Err(_) => Ok(None),
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let share = sessions.len().div_ceil(workers).max(1);
    with_progress(how_far, || {
        std::thread::scope(|scope| {
            let parts: Vec<_> = sessions
                .chunks(share)
                .map(|part| scope.spawn(|| part.iter().map(sum).collect::<Result<Vec<_>>>()))
                .collect();
            let mut sums = Vec::with_capacity(sessions.len());
            for part in parts {
                sums.extend(part.join().map_err(|_| anyhow!("adding up a session panicked"))??);
            }
            Ok(sums)
        })
    })
}

impl Listed {
    fn of(session: &SessionInfo, sums: Option<Sums>) -> Self {
        let time = |time: Timestamp| time.to_string();
        Self {
            path: session.path().display().to_string(),
            id: session.id().to_string(),
            cwd: session.cwd().to_owned(),
            name: session.name(),
            title: session.title().map(str::to_owned),
            parent: session.parent_session().map(str::to_owned),
            owner: session.owner().map(|owner| owner.display().to_string()),
            created: session.created().map(time),
            modified: time(session.modified()),
            message_count: session.message_count(),
            first_message: session.first_message().to_owned(),
            last_activity: session.last_activity().map(time),
            status: session.status().map(Status::name),
            size: session.size(),
            cost: sums.map(|sums| sums.cost),
            branches: sums.map(|sums| sums.branches),
        }
    }
}
