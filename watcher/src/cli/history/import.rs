//! `watcher history import`: takes over prompts from another history, JSON lines or plain lines.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use history::{Import, Imported};
use serde::Serialize;

use super::open;
use crate::cli::Context;
use crate::cli::output::with_progress;
use crate::exit::Exit;

/// What every SQLite file begins with.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// Take over prompts from another history database, JSON lines, or a file with one prompt a line
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher history import ~/.omp/agent/history.db
  watcher history import prompts.jsonl          what `history export` wrote
  watcher history import --format lines ~/.my_history
  ssh host cat prompts.jsonl | watcher history import --format jsonl -

The same source twice adds nothing the second time; what was deleted stays away.")]
pub(crate) struct ImportFrom {
    /// The file; `-` reads standard input
    file: PathBuf,
    /// What it is [default: as its content and name say]
    #[arg(long, value_enum)]
    format: Option<Format>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Database,
    Jsonl,
    Lines,
}

#[derive(Serialize)]
struct Shown {
    read: usize,
    added: usize,
    known: usize,
    refused: usize,
    redacted: usize,
}

impl ImportFrom {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit> {
        let is_stdin = self.file == Path::new("-");
        let path = if is_stdin { self.file.clone() } else { context.environment.cwd()?.join(&self.file) };
        let (format, input): (Format, Box<dyn BufRead + Send>) = if is_stdin {
            (self.format.unwrap_or(Format::Jsonl), Box::new(BufReader::new(std::io::stdin())))
        } else {
            let mut file = File::open(&path).with_context(|| path.display().to_string())?;
            let format = match self.format {
                Some(format) => format,
                None => guess(&mut file, &path)?,
            };
            (format, Box::new(BufReader::new(file)))
        };
        let source = match format {
            Format::Database => Import::database(&path),
            Format::Jsonl => Import::json_lines(&path, input),
            Format::Lines => Import::lines(&path, input),
        };
        let store = open::for_writing(context)?;
        let read = AtomicUsize::new(0);
        let how_far = || format!("importing, {} prompts read", read.load(Ordering::Relaxed));
        let work = || store.import(source, |sum: Imported| read.store(sum.read, Ordering::Relaxed));
        let sum = with_progress(how_far, work)?;
        open::tell(context, &store);
        store.close()?;
        let Imported { read, added, known, refused, redacted, .. } = sum;
        context.out.line(&format!("{read} read: {added} added, {known} there already, {refused} refused"))?;
        if redacted > 0 {
            context.remark(&format!("secrets were replaced in {redacted} of them"));
        }
        context.out.json("history.import", Shown { read, added, known, refused, redacted })?;
        Ok(Exit::Done)
    }
}

fn guess(file: &mut File, path: &Path) -> Result<Format> {
    let mut begin = Vec::new();
    file.take(SQLITE.len() as u64).read_to_end(&mut begin)?;
    file.rewind()?;
    Ok(if begin == SQLITE {
        Format::Database
    } else if path.extension().is_some_and(|extension| extension == "jsonl" || extension == "json") {
        Format::Jsonl
    } else {
        Format::Lines
    })
}
