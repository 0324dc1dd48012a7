//! `watcher man`: the manual pages, one for each command, from the same definitions as the help.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Args, Command};

use super::Context;
use crate::exit::Exit;

/// Write the manual pages into a directory
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher man ~/.local/share/man/man1

`make install` does this.")]
pub(crate) struct Man {
    /// The directory; made when it does not exist
    dir: PathBuf,
}

impl Man {
    pub(crate) fn run(self, context: &mut Context) -> Result<Exit> {
        let dir = context.environment.cwd()?.join(&self.dir);
        std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        let mut command = super::definition().disable_help_subcommand(true);
        command.build();
        let mut written = Vec::new();
        pages(&command, "watcher", &dir, &mut written)?;
        context.out.line(&format!("{} pages in {}", written.len(), dir.display()))?;
        context.out.json("man", written)?;
        Ok(Exit::Done)
    }
}

fn pages(command: &Command, name: &str, dir: &Path, written: &mut Vec<String>) -> Result<()> {
    let file = dir.join(format!("{name}.1"));
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).title(name).render(&mut page)?;
    std::fs::write(&file, page).with_context(|| file.display().to_string())?;
    written.push(file.display().to_string());
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        pages(sub, &format!("{name}-{}", sub.get_name()), dir, written)?;
    }
    Ok(())
}
