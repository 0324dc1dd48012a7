//! `watcher history export`: prompts as JSON lines that `import` reads. The history is only read.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use history::Selection;
use serde_json::value::RawValue;

use super::choice::Where;
use super::open;
use crate::cli::output::with_progress;
use crate::cli::{Context, file_out};
use crate::exit::Exit;

/// Prompts as JSON lines, oldest first
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher history export > prompts.jsonl
  watcher history export --below ~/work --since 30d -o work.jsonl
  watcher history export --matching TODO

Each line has `prompt` and `created_at` (seconds since 1970), and where known `cwd`, `session`, `use_count`. With --json they
are one array.")]
pub(crate) struct Export {
    /// Only prompts in which this regular expression is found
    #[arg(long, value_name = "REGEX")]
    matching: Option<String>,
    #[command(flatten)]
    place: Where,
    /// Into a new file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Export {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit> {
        let selection = Selection::all().scope(self.place.scope(context)?);
        let selection = match &self.matching {
            Some(pattern) => super::choice::matching(selection, pattern)?,
            None => selection,
        };
        let mut bytes = Vec::new();
        if let Some(store) = open::for_reading(context)? {
            let exporting = || "exporting the history…".to_owned();
            with_progress(exporting, || store.export(&selection, &mut bytes))?;
        }
        match &self.output {
            Some(file) => {
                file_out::create(&context.environment.cwd()?.join(file), &bytes)?;
                context.out.json("history.export", file_out::Written::to(file))?;
            }
            None if context.out.is_json() => {
                let lines: Vec<&RawValue> =
                    serde_json::Deserializer::from_slice(&bytes).into_iter().collect::<Result<_, _>>()?;
                context.out.json("history.export", lines)?;
            }
            None => String::from_utf8_lossy(&bytes).lines().try_for_each(|line| context.out.json_line(line))?,
        }
        Ok(Exit::Done)
    }
}
