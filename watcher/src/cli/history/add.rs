//! `watcher history add`: records a prompt that no harness wrote down.

use std::io::Read;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use history::Recorded;
use serde::Serialize;

use super::open;
use crate::cli::Context;
use crate::exit::Exit;

/// Add a prompt, as if it had been typed now
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher history add 'write the release notes'
  git log -1 --format=%B | watcher history add -

A prompt that equals the latest one is not added twice. The settings hold here too: `never_record`, `redact`.")]
pub(crate) struct Add {
    /// The prompt; `-` reads standard input
    #[arg(required = true, value_name = "PROMPT")]
    prompt: Vec<String>,
    /// Typed in this directory [default: the working directory]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
}

#[derive(Serialize)]
struct Shown {
    recorded: &'static str,
    row: Option<i64>,
}

impl Add {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit> {
        let prompt = if self.prompt == ["-"] {
            let mut bytes = Vec::new();
            std::io::stdin().lock().read_to_end(&mut bytes)?;
            String::from_utf8_lossy(&bytes).into_owned()
        } else {
            self.prompt.join(" ")
        };
        let cwd = context.directory(self.cwd.as_deref())?;
        let store = open::for_writing(context)?;
        let outcome = store.add(prompt, cwd.to_str()).wait()?;
        open::tell(context, &store);
        store.close()?;
        let (recorded, said) = match outcome.recorded() {
            Recorded::Inserted => ("inserted", "added"),
            Recorded::Bumped => ("bumped", "counted once more"),
            Recorded::Folded => ("folded", "it is the latest prompt already; not added again"),
            Recorded::Empty => ("empty", "it is empty; not added"),
            Recorded::Forgotten => ("forgotten", "it was deleted on purpose; not added"),
            Recorded::Excluded => ("excluded", "nothing is recorded in this directory; not added"),
            Recorded::Refused => ("refused", "a trigger of the history's owner keeps it out; not added"),
            _ => ("known", "it is there already"),
        };
        context.out.line(said)?;
        if !outcome.redacted().is_empty() {
            context.remark(&format!("secrets in it were replaced: {}", outcome.redacted().join(", ")));
        }
        context.out.json("history.add", Shown { recorded, row: outcome.row().map(history::RowId::get) })?;
        Ok(Exit::Done)
    }
}
