//! `watcher history`: the prompts that were typed. One file a command.

mod add;
mod check;
mod choice;
mod delete;
mod export;
mod import;
mod open;
mod recent;
mod rows;
mod search;
mod show;
mod stats;

use anyhow::Result;
use clap::Subcommand;

use super::Context;
use crate::exit::Exit;

/// Find the prompts that were typed, and keep them in order
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  watcher history search login fix      both words, wherever they stand
  watcher history recent --cwd .        what was typed here
  watcher history delete --matching 'sk-[a-z0-9]+'
  watcher history export -o prompts.jsonl")]
pub(crate) enum History {
    Search(search::Search),
    Recent(recent::Recent),
    Show(show::Show),
    Add(add::Add),
    Import(import::ImportFrom),
    Export(export::Export),
    Delete(delete::Delete),
    Stats(stats::Stats),
    Check(check::Check),
}

impl History {
    pub(crate) fn run(self, context: &mut Context) -> Result<Exit> {
        match self {
            Self::Search(command) => command.run(context),
            Self::Recent(command) => command.run(context),
            Self::Show(command) => command.run(context),
            Self::Add(command) => command.run(context),
            Self::Import(command) => command.run(context),
            Self::Export(command) => command.run(context),
            Self::Delete(command) => command.run(context),
            Self::Stats(_) => stats::Stats::run(context),
            Self::Check(command) => command.run(context),
        }
    }
}
