//! `watcher history search`: the prompts that hold some words. Writes nothing.

use anyhow::Result;
use clap::Args;
use history::{Order, Page, SearchOptions};

use super::choice::Which;
use super::{open, rows};
use crate::cli::Context;
use crate::exit::Exit;

/// The prompts that hold every word, newest first
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher history search login fix     both words, in any order; their beginnings do
  watcher history search Form.tsx      words joined by punctuation stand next to each other
  watcher history search --cwd . test  only what was typed in this directory
  watcher history search --best migrate database

A prompt is found by the beginnings of its words first; when none has them, by what stands inside of words. Whatever the
query holds is text: quotes, stars and dashes mean themselves. Put `--` before words that begin with a dash. A terminal gets
what it has room for; into a pipe or a file prompts go whole, each in one line.")]
pub(crate) struct Search {
    /// Words to look for
    #[arg(required = true, value_name = "WORDS")]
    words: Vec<String>,
    /// What fits best first, not what is newest
    #[arg(long)]
    best: bool,
    #[command(flatten)]
    which: Which,
}

impl Search {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit> {
        let options = SearchOptions::new(self.which.limit).scope(self.which.place.scope(context)?);
        let options = if self.best { options.order(Order::Relevance) } else { options };
        let page = match open::for_reading(context)? {
            Some(store) => Some(store.search(&self.words.join(" "), &options)?),
            None => None,
        };
        if page.as_ref().is_some_and(Page::stopped_early) {
            context.remark("older prompts were not looked through for words inside words");
        }
        if page.as_ref().is_some_and(|page| page.entries().is_empty()) {
            context.remark("no prompt holds all of that");
        }
        rows::table_around(context, page.as_ref().map_or(&[], |page| page.entries()), &self.words)?;
        rows::json(context, "history.search", page.as_ref().map_or(&[], |page| page.entries()))
    }
}
