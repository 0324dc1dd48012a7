//! `watcher sessions restore`: what is in the trash, and taking it back.

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use session_core::{Session, Trashed, time_ago};

use crate::cli::grid::{Column, Grid};
use crate::cli::{Context, completions, named};
use crate::exit::Exit;

/// Take sessions back from the trash, to where they were; without a name: show what is there
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher sessions restore              what is in the trash
  watcher sessions restore 15c0         the session whose id begins so, as it was deleted last")]
pub(crate) struct Restore {
    /// Sessions in the trash: ids or beginnings of them, or names
    #[arg(value_name = "SESSION", add = completions::trashed())]
    sessions: Vec<String>,
}

/// A session in the trash, and what it is called.
pub(super) struct Deleted {
    pub(super) item: Trashed,
    id: String,
    name: String,
}

#[derive(Serialize)]
struct Shown {
    path: String,
    id: String,
    name: String,
    deleted: String,
    trash: String,
}

impl Restore {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit> {
        let deleted = deleted(context)?;
        if self.sessions.is_empty() {
            return show(context, &deleted);
        }
        context.agent_there()?;
        let mut chosen: Vec<&Deleted> = Vec::new();
        for wanted in &self.sessions {
            let found = find(&deleted, wanted)?;
            if !chosen.iter().any(|one| one.item.name() == found.item.name()) {
                chosen.push(found);
            }
        }
        let trash = context.trash()?;
        let mut shown = Vec::new();
        for one in chosen {
            trash.restore(&one.item)?;
            context.out.line(&one.item.origin().display().to_string())?;
            shown.push(one.shown());
        }
        context.out.json("sessions.restore", shown)?;
        Ok(Exit::Done)
    }
}

/// What a person named: its name in the trash, the only id that begins so, or the name of only one session. The latest, where
/// one was deleted from its place more than once.
fn find<'a>(deleted: &'a [Deleted], wanted: &str) -> Result<&'a Deleted> {
    if let Some(found) = deleted.iter().find(|one| one.item.name() == wanted) {
        return Ok(found);
    }
    let lower = wanted.to_lowercase();
    let fits = |one: &&Deleted| one.id.to_lowercase().starts_with(&lower) || one.name.to_lowercase() == lower;
    let fitting: Vec<&Deleted> = deleted.iter().filter(fits).filter(|_| !wanted.is_empty()).collect();
    let Some(latest) = fitting.first() else {
        let near = named::nearest(wanted, deleted.iter().flat_map(|one| [one.id.clone(), one.name.clone()]));
        return Err(named::missing(format!("nothing in the trash is called {wanted:?}"), &near));
    };
    if fitting.iter().all(|one| one.item.origin() == latest.item.origin()) {
        return Ok(latest);
    }
    let which: Vec<String> = fitting.iter().map(|one| format!("\n  {}", one.item.name())).collect();
    Err(named::missing(format!("{} deleted sessions fit {wanted:?}; say which:{}", which.len(), which.concat()), &[]))
}

impl Deleted {
    fn shown(&self) -> Shown {
        Shown {
            path: self.item.origin().display().to_string(),
            id: self.id.clone(),
            name: self.name.clone(),
            deleted: self.item.deleted().to_string(),
            trash: self.item.name(),
        }
    }
}

/// What is in the trash, latest deletion first; what can't be told there is said.
pub(super) fn deleted(context: &Context) -> Result<Vec<Deleted>> {
    let mut deleted = Vec::new();
    for item in context.trash()?.list()? {
        match item {
            Ok(item) => {
                let session = Session::read(item.file())?;
                let id = session.header().map(|header| header.id().to_string()).unwrap_or_default();
                deleted.push(Deleted { name: named::called(&session)?, id, item });
            }
            Err(error) => context.remark(&error.to_string()),
        }
    }
    Ok(deleted)
}

fn show(context: &mut Context, deleted: &[Deleted]) -> Result<Exit> {
    if deleted.is_empty() && !context.tell_absence(&context.agent()?) && !context.out.is_json() {
        context.remark("the trash is empty");
    }
    let now = context.now()?;
    let mut grid =
        Grid::new([Column::left("DELETED"), Column::left("ID"), Column::left("FROM").from(100), Column::left("TITLE")]);
    for one in deleted {
        let from = one.item.origin().parent().map(|dir| context.homely(dir)).unwrap_or_default();
        grid.row([time_ago(one.item.deleted(), now), one.id.clone(), from, one.name.clone()]);
    }
    context.out.grid(&grid)?;
    context.out.json("sessions.trash", deleted.iter().map(Deleted::shown).collect::<Vec<_>>())?;
    Ok(Exit::Done)
}
