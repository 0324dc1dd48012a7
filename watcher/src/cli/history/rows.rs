//! Prompts as rows and as JSON, the same for every command that lists some.

use anyhow::Result;
use history::Entry;
use serde::Serialize;

use crate::cli::Context;
use crate::cli::grid::{Column, Grid};
use crate::cli::times::{iso, local};
use crate::exit::Exit;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shown {
    id: i64,
    prompt: String,
    created_at: String,
    cwd: Option<String>,
    session: Option<String>,
    use_count: u64,
}

impl Shown {
    pub(super) fn of(entry: &Entry) -> Self {
        Self {
            id: entry.id().get(),
            prompt: entry.prompt().to_owned(),
            created_at: iso(entry.created_at()),
            cwd: entry.cwd().map(str::to_owned),
            session: entry.session().map(str::to_owned),
            use_count: entry.use_count(),
        }
    }
}

/// The rows alone.
pub(super) fn table(context: &mut Context, entries: &[Entry]) -> Result<()> {
    let mut grid = Grid::new([
        Column::left("TYPED"),
        Column::right("ROW").from(70),
        Column::left("DIRECTORY").from(100),
        Column::left("PROMPT"),
    ]);
    for entry in entries {
        let cwd = entry.cwd().map(|cwd| context.homely(cwd.as_ref())).unwrap_or_default();
        grid.row([local(entry.created_at()), entry.id().get().to_string(), cwd, entry.prompt().to_owned()]);
    }
    context.out.grid(&grid)
}

/// The whole answer.
pub(super) fn answer(context: &mut Context, kind: &str, entries: &[Entry]) -> Result<Exit> {
    table(context, entries)?;
    context.out.json(kind, entries.iter().map(Shown::of).collect::<Vec<_>>())?;
    Ok(Exit::Done)
}
