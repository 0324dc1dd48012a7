//! `watcher sessions copy`: a session of one project as a new one of another.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::fork::{finish, fork_whole};
use crate::cli::Context;
use crate::cli::busy::Force;
use crate::cli::named::Named;
use crate::exit::Exit;

/// Copy a session to another directory: a new session there with all of it
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher sessions copy 15c0 --to ~/other-project

The first line of the answer is the new session's file. The old one stays as it is.")]
pub(crate) struct Copy {
    #[command(flatten)]
    session: Named,
    /// The working directory that the new session is of
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    #[command(flatten)]
    force: Force,
}

impl Copy {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit> {
        let path = self.session.file(context)?;
        self.session.read(context)?;
        self.force.check(&path)?;
        let cwd = context.directory(Some(&self.to))?;
        let new = fork_whole(&context.host()?, &path, &cwd, None)?;
        finish(context, "sessions.copy", &path, new)
    }
}
