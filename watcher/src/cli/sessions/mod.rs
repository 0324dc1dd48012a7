//! `watcher sessions`: looking into one's sessions, and keeping them in order. One file a command.

mod context;
mod copy;
mod delete;
mod empty;
mod export;
mod fork;
mod label;
mod list;
mod moving;
mod recent;
mod rename;
mod repair;
mod restore;
mod show;
mod stats;
mod sums;
mod tree;
mod ways;

use anyhow::Result;
use clap::Subcommand;

use super::Context;
use crate::exit::Exit;

/// Look into sessions, and keep them in order
///
/// A session is named by its id or the beginning of one, by its file, or by its name.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  watcher sessions list --all           every session there is
  watcher sessions show 15c0            what was said in one
  watcher sessions tree 15c0            where it branches
  watcher sessions stats --since 7d     what this week cost here
  watcher sessions move --from ~/old --to ~/new")]
pub(crate) enum Sessions {
    List(list::List),
    Recent(recent::Recent),
    Show(show::Show),
    Tree(tree::Tree),
    Context(context::ContextOf),
    Stats(stats::Stats),
    Export(export::Export),
    Rename(rename::Rename),
    Label(label::Label),
    Fork(fork::Fork),
    Copy(copy::Copy),
    Move(moving::Move),
    Delete(delete::Delete),
    Restore(restore::Restore),
    Empty(empty::Empty),
    Repair(repair::Repair),
}

impl Sessions {
    pub(crate) fn run(self, context: &mut Context) -> Result<Exit> {
        match self {
            Self::List(command) => command.run(context),
            Self::Recent(command) => command.run(context),
            Self::Show(command) => command.run(context),
            Self::Tree(command) => command.run(context),
            Self::Context(command) => command.run(context),
            Self::Stats(command) => command.run(context),
            Self::Export(command) => command.run(context),
            Self::Rename(command) => command.run(context),
            Self::Label(command) => command.run(context),
            Self::Fork(command) => command.run(context),
            Self::Copy(command) => command.run(context),
            Self::Move(command) => command.run(context),
            Self::Delete(command) => command.run(context),
            Self::Restore(command) => command.run(context),
            Self::Empty(command) => command.run(context),
            Self::Repair(command) => command.run(context),
        }
    }
}
