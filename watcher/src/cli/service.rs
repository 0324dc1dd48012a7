//! `watcher service install|uninstall|status`: the watcher as a service of the user's session.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use serde::Serialize;
use session_core::storage::{FileSessionStorage, SessionStorage};

use super::Context;
use super::following::followed;
use crate::exit::{Exit, Refusal};
use crate::service::{MARK, Manager, Unit};

/// Let the user's service manager run the watcher
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  watcher service install
  watcher service install --agent-dir ~/work/agent
  watcher service status
  watcher service uninstall

`install` writes one file and says how to start it; the options before it are those that the service runs with.")]
pub(crate) enum Service {
    /// Write the unit (systemd) or agent (launchd)
    Install(Install),
    /// Remove what `install` wrote
    #[command(after_help = "\
Examples:
  watcher service uninstall

A file that is not ours stays.")]
    Uninstall,
    /// Say whether it is installed, and how to ask whether it runs
    #[command(after_help = "\
Examples:
  watcher service status --json

Exits with code 3 when nothing of ours is installed. `watcher status` tells how a running watcher is.")]
    Status,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher service install --print
  watcher service install --agent-dir ~/work/agent")]
pub(crate) struct Install {
    /// Print what would be written
    #[arg(long)]
    print: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    file: String,
    state: &'static str,
    next: Vec<String>,
    /// What `--print` prints.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

impl Service {
    pub(crate) fn run(&self, context: &mut Context) -> Result<Exit> {
        let manager = Manager::of_system();
        let file = manager.file(&context.environment)?;
        match self {
            Self::Install(Install { print }) => {
                let unit = unit(context)?;
                let text = manager.text(&unit);
                if *print {
                    context.remark(&format!("what {} would hold:", file.display()));
                    context.out.text(&text)?;
                    let file = file.display().to_string();
                    let shown = Shown { file, state: "printed", next: Vec::new(), text: Some(text) };
                    context.out.json("service.install", shown)?;
                    return Ok(Exit::Done);
                }
                if let Some(old) = read(&file)?.filter(|old| !old.contains(MARK)) {
                    let message = format!("{}: somebody else's file of {} bytes is here", file.display(), old.len());
                    return Err(Refusal::new(Exit::Failed, message).into());
                }
                let storage = FileSessionStorage::new();
                storage.ensure_dir(file.parent().context("a service file has a directory")?)?;
                storage.write_text(&file, &text)?;
                show(context, "service.install", &file, "installed", manager.start_commands())
            }
            Self::Uninstall => {
                match read(&file)? {
                    None => return show(context, "service.uninstall", &file, "absent", Vec::new()),
                    Some(old) if !old.contains(MARK) => {
                        let message = format!("{}: somebody else's file; it stays", file.display());
                        return Err(Refusal::new(Exit::Failed, message).into());
                    }
                    Some(_) => fs::remove_file(&file).with_context(|| file.display().to_string())?,
                }
                if let Some(link) = manager.link(&file)
                    && fs::read_link(&link).is_ok_and(|target| target == file)
                {
                    fs::remove_file(&link).with_context(|| link.display().to_string())?;
                }
                show(context, "service.uninstall", &file, "removed", manager.stop_commands())
            }
            Self::Status => match read(&file)? {
                None => show(context, "service.status", &file, "absent", Vec::new()).map(|_| Exit::NotFound),
                Some(old) if !old.contains(MARK) => {
                    show(context, "service.status", &file, "foreign", Vec::new()).map(|_| Exit::NotFound)
                }
                Some(_) => show(context, "service.status", &file, "installed", manager.state_commands()),
            },
        }
    }
}

fn unit(context: &Context) -> Result<Unit> {
    let agents = followed(context)?;
    let unit = Unit {
        program: std::env::current_exe()?,
        agents: agents.iter().map(|agent| agent.root().to_owned()).collect(),
    };
    if let Some(path) = unit.agents.iter().chain([&unit.program]).find(|path| path.to_str().is_none()) {
        let message = format!("{}: the path is no UTF-8, and a service file holds nothing else", path.display());
        return Err(Refusal::new(Exit::Failed, message).into());
    }
    Ok(unit)
}

fn read(file: &Path) -> Result<Option<String>> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| file.display().to_string()),
    }
}

fn show(context: &mut Context, kind: &str, file: &Path, state: &'static str, next: Vec<String>) -> Result<Exit> {
    let shown = Shown { file: file.display().to_string(), state, next, text: None };
    context.out.line(&format!("{}: {state}", context.homely(file)))?;
    match shown.state {
        "installed" if kind == "service.install" => context.out.line("now start it:")?,
        "removed" => context.out.line("if it is running, end it:")?,
        "foreign" => context.out.line("  somebody else wrote this; `watcher service` leaves it alone")?,
        _ => {}
    }
    for command in &shown.next {
        context.out.line(&format!("  {command}"))?;
    }
    context.out.json(kind, shown)?;
    Ok(Exit::Done)
}
