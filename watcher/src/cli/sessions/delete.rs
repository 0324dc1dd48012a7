//! `watcher sessions delete`: sessions go to a trash in the agent directory, artifacts and all, and can come back.

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use session_core::Session;

use crate::cli::busy::Force;
use crate::cli::confirm::Confirm;
use crate::cli::text::plural;
use crate::cli::{Context, completions, named};
use crate::exit::{Exit, Refusal};

/// Move sessions to the trash, with their artifacts
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher sessions delete 15c0
  watcher sessions delete 15c0 15c1 --yes
  watcher sessions restore 15c0         takes it back
  watcher sessions empty                deletes what is in the trash for good

The prompts of a deleted session stay in the history; `watcher history delete --session ID` takes those away.")]
pub(crate) struct Delete {
    /// The sessions: ids or beginnings of them, files, or names
    #[arg(required = true, value_name = "SESSION", add = completions::sessions())]
    sessions: Vec<String>,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    force: Force,
}

#[derive(Serialize)]
struct Shown {
    path: String,
    name: String,
    /// Its name in the trash; none in a dry run.
    trash: Option<String>,
}

impl Delete {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit> {
        let mut files = Vec::new();
        for wanted in &self.sessions {
            let file = named::find(context, wanted)?;
            let session = Session::read(&file)?;
            // `delete` is no `rm`: only a session goes, or what lies among sessions.
            if session.header().is_none() && !file.starts_with(context.agent()?.sessions()) {
                return Err(Refusal::new(Exit::Refused, format!("{}: this is no session", file.display())).into());
            }
            let name = named::called(&session)?;
            self.force.check(&file)?;
            if !files.iter().any(|(other, _)| *other == file) {
                files.push((file, name));
            }
        }
        for (file, name) in &files {
            context.out.line(&format!("{name}  {}", context.homely(file)))?;
        }
        let what = format!("Move {} to the trash", plural(files.len(), "session"));
        let trash = if self.confirm.ask(context, &what)? { Some(context.trash()?) } else { None };
        let mut shown = Vec::new();
        for (file, name) in files {
            let item = trash.as_ref().map(|trash| trash.put(&file)).transpose()?;
            shown.push(Shown { path: file.display().to_string(), name, trash: item.map(|item| item.name()) });
        }
        if trash.is_some() {
            context.out.line(&format!("{} in the trash", plural(shown.len(), "session")))?;
        }
        context.out.json("sessions.delete", shown)?;
        Ok(Exit::Done)
    }
}
