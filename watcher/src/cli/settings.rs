//! `watcher settings`: what can stand in the settings file.

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::Context;
use crate::exit::Exit;
use crate::settings;

/// Show a settings file with every key and its default
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher settings
  watcher settings > ~/.config/watcher.toml

The file is optional. A running watcher reads it again at SIGHUP; one that is not understood changes nothing.")]
pub(crate) struct ShowSettings {}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    file: Option<String>,
    example: &'static str,
}

impl ShowSettings {
    pub(crate) fn run(context: &mut Context) -> Result<Exit> {
        let file = settings::user_file(&context.environment).map(|file| file.display().to_string());
        if let Some(file) = &file {
            context.out.line(&format!("# {}", context.homely(file.as_ref())))?;
        }
        context.out.text(settings::EXAMPLE.trim_start())?;
        context.out.json("settings", Shown { file, example: settings::EXAMPLE.trim_start() })?;
        Ok(Exit::Done)
    }
}
