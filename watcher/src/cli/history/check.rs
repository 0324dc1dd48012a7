//! `watcher history check`: whether the database is well. Writes nothing, unless it is told to mend what is wrong.

use anyhow::Result;
use clap::Args;
use history::OpenOptions;
use serde::Serialize;

use super::open;
use crate::cause::told;
use crate::cli::Context;
use crate::cli::confirm::Confirm;
use crate::cli::output::{Tone, with_progress};
use crate::cli::text::plural;
use crate::exit::{Exit, Refusal};
use crate::mending;

/// Check the database and its full-text index
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher history check
  watcher history check --repair

The check runs on a private copy, so it keeps nobody from writing. Exits with code 1 when something is wrong.")]
pub(crate) struct Check {
    /// Mend what is wrong: build the full-text index anew, or move the file aside and save what is readable in it
    #[arg(long)]
    repair: bool,
    #[command(flatten)]
    confirm: Confirm,
}

#[derive(Serialize)]
struct Shown {
    well: bool,
    file: Vec<String>,
    index: Option<String>,
    repaired: bool,
}

impl Check {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit> {
        let checked = match open::for_reading(context) {
            Ok(None) => {
                context.out.json("history.check", None::<Shown>)?;
                return Ok(Exit::NotFound);
            }
            Ok(Some(store)) => {
                let checked = with_progress(|| "checking a copy of the history…".to_owned(), || store.check());
                checked.map_err(anyhow::Error::from)
            }
            Err(error) => Err(error),
        };
        let mut health = match checked {
            Ok(health) => health,
            Err(error) if self.repair && mending::is_corrupt(&error) => {
                return self.rebuild(context, vec![told(&error)], None);
            }
            Err(error) => return Err(error),
        };
        if self.repair && !health.file.is_empty() {
            return self.rebuild(context, health.file, health.index);
        }
        let mut repaired = false;
        if self.repair && health.index.is_some() && self.confirm.ask(context, "Build the full-text index anew")? {
            let store = open::for_writing(context)?;
            let building = || "building the index…".to_owned();
            health = with_progress(building, || store.repair().wait())?;
            open::tell(context, &store);
            store.close()?;
            repaired = true;
        }
        let repair = context.common.command("history check --repair");
        for problem in &health.file {
            context.out.toned(Tone::Bad, &format!("file: {problem}"))?;
        }
        if let Some(problem) = &health.index {
            context.out.toned(Tone::Bad, &format!("index: {problem}"))?;
            context.out.line(&format!("`{repair}` builds the index anew"))?;
        }
        if !health.file.is_empty() {
            let what = "moves the file aside and saves what is readable in it";
            context.out.line(&format!("`{repair}` {what}"))?;
        }
        if health.is_well() {
            context.out.line(if repaired { "the index was built anew; all is well" } else { "all is well" })?;
        }
        let well = health.is_well();
        context.out.json("history.check", Shown { well, file: health.file, index: health.index, repaired })?;
        Ok(if well { Exit::Done } else { Exit::Failed })
    }

    /// Moves a corrupt database aside and saves what is readable in it `[H5]`. The prompts of session files come with the
    /// next `sync`, which finds no record of having read them.
    fn rebuild(self, context: &mut Context, file: Vec<String>, index: Option<String>) -> Result<Exit> {
        let path = context.agent()?.history_db();
        for problem in &file {
            context.remark(problem);
        }
        if !self.confirm.ask(context, "Move the corrupt file aside and save what is readable in it")? {
            context.out.json("history.check", Shown { well: false, file, index, repaired: false })?;
            return Ok(Exit::Failed);
        }
        let saving = || "saving what is readable…".to_owned();
        let rebuilt = with_progress(saving, || OpenOptions::new().rebuild_if_corrupt(&path, |_| Ok(())))?;
        let Some(rebuilt) = rebuilt else {
            return Err(Refusal::new(Exit::Failed, "the file can be read now; nothing was done").into());
        };
        context.out.line(&format!(
            "{} saved; the corrupt file is {}",
            plural(rebuilt.salvaged(), "prompt"),
            context.homely(rebuilt.aside())
        ))?;
        let sync = context.common.command("sync");
        context.out.line(&format!("`{sync}` adds what the session files hold"))?;
        context.out.json("history.check", Shown { well: true, file: Vec::new(), index: None, repaired: true })?;
        Ok(Exit::Done)
    }
}
