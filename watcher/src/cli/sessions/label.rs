//! `watcher sessions label`: marks an entry, so that it is found again in the tree.

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use crate::cli::Context;
use crate::cli::busy::Force;
use crate::cli::named::{self, Named};
use crate::exit::Exit;

/// Put a label on an entry, or take it off
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher sessions label 15c0 0000002a before the refactoring
  watcher sessions label 15c0 0000002a --remove

`watcher sessions tree SESSION` shows the entries with their ids and labels.")]
pub(crate) struct Label {
    #[command(flatten)]
    session: Named,
    /// The entry's id or the beginning of one
    entry: String,
    /// The label
    #[arg(value_name = "LABEL", required_unless_present = "remove", conflicts_with = "remove")]
    words: Vec<String>,
    /// Take the label off
    #[arg(long)]
    remove: bool,
    #[command(flatten)]
    force: Force,
}

#[derive(Serialize)]
struct Shown {
    path: String,
    entry: String,
    label: Option<String>,
}

impl Label {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit> {
        let path = self.session.file(context)?;
        let entry = named::entry(&self.session.read(context)?, &self.entry)?;
        self.force.check(&path)?;
        let mut session = context.open(&path)?;
        session.set_foreign_writers(self.force.foreign_writers());
        let label = Some(self.words.join(" ")).filter(|label| !label.trim().is_empty());
        session.append_label_change(entry.as_str(), label.as_deref())?;
        session.flush()?;
        session.close()?;
        context.out.line(&match &label {
            Some(label) => format!("{entry}: {label}"),
            None => format!("{entry}: no label"),
        })?;
        let shown = Shown { path: path.display().to_string(), entry: entry.to_string(), label };
        context.out.json("sessions.label", shown)?;
        Ok(Exit::Done)
    }
}
