//! `watcher history show`: one prompt whole, with what is known of it. Writes nothing.

use anyhow::Result;
use clap::Args;
use history::{RowId, Selection};

use super::{open, rows};
use crate::cli::Context;
use crate::cli::times::local;
use crate::exit::Exit;

/// Show prompts whole, with what is known of them
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher history show 4711
  watcher history show 4711 --json")]
pub(crate) struct Show {
    /// The prompts, as `recent` and `search` number them
    #[arg(required = true, value_name = "ROW", value_parser = rows::number)]
    rows: Vec<i64>,
}

impl Show {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit> {
        let mut entries = match open::for_reading(context)? {
            Some(store) => store.select(&Selection::rows(self.rows.iter().map(|row| RowId::from(*row))))?,
            None => Vec::new(),
        };
        rows::are_there(&self.rows, &entries)?;
        entries.sort_by_key(|entry| self.rows.iter().position(|row| *row == entry.id().get()));
        for (number, entry) in entries.iter().enumerate() {
            if number > 0 {
                context.out.line("")?;
            }
            context.out.line(&format!("row       {}", entry.id().get()))?;
            context.out.line(&format!("typed     {}", local(entry.created_at())))?;
            if let Some(cwd) = entry.cwd() {
                context.out.line(&format!("directory {}", context.homely(cwd.as_ref())))?;
            }
            if let Some(session) = entry.session() {
                context.out.line(&format!("session   {session}"))?;
            }
            if entry.use_count() > 1 {
                context.out.line(&format!("used      {} times", entry.use_count()))?;
            }
            context.out.line("")?;
            for line in entry.prompt().lines() {
                context.out.line(line)?;
            }
        }
        context.out.json("history.show", entries.iter().map(rows::Shown::of).collect::<Vec<_>>())?;
        Ok(Exit::Done)
    }
}
