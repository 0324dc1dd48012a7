//! `watcher sessions recent`: the latest sessions by their beginnings alone, so that it is quick. Writes nothing.

use std::cmp::Reverse;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use session_core::ListDepth;

use super::list::{say_none, unique_length};
use crate::cli::Context;
use crate::cli::grid::{Column, Grid};
use crate::cli::output::with_progress;
use crate::exit::Exit;

/// The sessions of this directory that were written last; quick, since only their beginnings are read
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher sessions recent
  watcher sessions recent --all -n 20")]
pub(crate) struct Recent {
    /// Sessions of every directory
    #[arg(short, long, conflicts_with = "cwd")]
    all: bool,
    /// Sessions of this directory [default: the working directory]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// At most so many
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    limit: usize,
}

#[derive(Serialize)]
struct Shown {
    path: String,
    id: String,
    name: String,
    cwd: String,
    modified: String,
}

impl Recent {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit> {
        let catalog = context.catalog()?.with_depth(ListDepth::Name);
        let cwd = context.directory(self.cwd.as_deref())?;
        let reading = || "reading sessions…".to_owned();
        let mut listing =
            with_progress(reading, || if self.all { catalog.list_all() } else { catalog.list(Some(&cwd), None) })?;
        for problem in &listing.problems {
            context.remark(&problem.to_string());
        }
        listing.sessions.sort_by_key(|session| Reverse(session.modified()));
        let ids = unique_length(&listing.sessions);
        listing.sessions.truncate(self.limit);
        let now = context.now()?;
        let mut grid = Grid::new([Column::left("WRITTEN"), Column::left("ID"), Column::left("TITLE")]);
        for session in &listing.sessions {
            let id = session.id().as_str().chars().take(ids).collect();
            grid.row([session_core::time_ago(session.modified(), now), id, session.name()]);
        }
        context.out.grid(&grid)?;
        if listing.sessions.is_empty() {
            say_none(context, (!self.all).then_some(cwd.as_path()))?;
        }
        let shown = listing.sessions.iter().map(|session| Shown {
            path: session.path().display().to_string(),
            id: session.id().to_string(),
            name: session.name(),
            cwd: session.cwd().to_owned(),
            modified: session.modified().to_string(),
        });
        context.out.json("sessions.recent", shown.collect::<Vec<_>>())?;
        Ok(Exit::Done)
    }
}
