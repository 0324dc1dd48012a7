//! `watcher sessions rename`: gives a session a name of the user's.

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;
use session_core::NameSource;

use crate::cli::Context;
use crate::cli::busy::Force;
use crate::cli::named::Named;
use crate::exit::Exit;

/// Give a session a name
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher sessions rename 15c0 fix the login page

The file keeps its place and its time. Harnesses take the name for one that a person gave and do not replace it.")]
pub(crate) struct Rename {
    #[command(flatten)]
    session: Named,
    /// The name
    #[arg(required = true, value_name = "NAME")]
    name: Vec<String>,
    #[command(flatten)]
    force: Force,
}

#[derive(Serialize)]
struct Shown {
    path: String,
    name: String,
}

impl Rename {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit> {
        let path = self.session.file(context)?;
        self.session.read(context)?;
        self.force.check(&path)?;
        let mut session = context.open(&path)?;
        session.set_foreign_writers(self.force.foreign_writers());
        if !session.set_session_name(&self.name.join(" "), NameSource::User)? {
            bail!("a name has at least one character that can be seen");
        }
        session.flush()?;
        let name = session.name()?.unwrap_or_default();
        session.close()?;
        context.out.line(&format!("{}: {name}", context.homely(&path)))?;
        context.out.json("sessions.rename", Shown { path: path.display().to_string(), name })?;
        Ok(Exit::Done)
    }
}
