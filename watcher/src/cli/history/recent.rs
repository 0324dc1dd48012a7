//! `watcher history recent`: the latest prompts. Writes nothing.

use anyhow::Result;
use clap::Args;

use super::choice::Which;
use super::{open, rows};
use crate::cli::Context;
use crate::exit::Exit;

/// The latest prompts, newest first
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher history recent
  watcher history recent --limit 100 --cwd .
  watcher history recent --below ~/work --since 7d")]
pub(crate) struct Recent {
    #[command(flatten)]
    which: Which,
}

impl Recent {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit> {
        let scope = self.which.place.scope(context)?;
        let entries = match open::for_reading(context)? {
            Some(store) => store.recent(self.which.limit, &scope)?,
            None => Vec::new(),
        };
        rows::answer(context, "history.recent", &entries)
    }
}
