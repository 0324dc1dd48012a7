//! `watcher sessions fork`: a new session beside an old one, with all of it or one branch.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use session_core::{Artifacts, Host, SessionManager};

use crate::cli::Context;
use crate::cli::busy::Force;
use crate::cli::named::{self, Named};
use crate::exit::Exit;

/// Begin a new session with what is in another
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher sessions fork 15c0
  watcher sessions fork 15c0 --at 0000002a       only what led to that entry

The first line of the answer is the new session's file. The old one stays as it is; the new one names it as its parent.")]
pub(crate) struct Fork {
    #[command(flatten)]
    session: Named,
    /// Only what led to this entry
    #[arg(long, value_name = "ID")]
    at: Option<String>,
    #[command(flatten)]
    force: Force,
}

#[derive(Serialize)]
pub(super) struct Made {
    pub(super) from: String,
    pub(super) path: String,
    pub(super) id: String,
}

impl Fork {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit> {
        let path = self.session.file(context)?;
        let read = self.session.read(context)?;
        self.force.check(&path)?;
        let host = context.host()?;
        let cwd = read.header().and_then(session_core::Header::cwd).unwrap_or_default();
        let cwd = if cwd.is_empty() { context.directory(None)? } else { cwd.into() };
        let new = if let Some(at) = &self.at {
            let entry = named::entry(&read, at)?;
            let branch = SessionManager::branch_from(&host, &path, entry.as_str(), &cwd)?;
            copy_artifacts(&host, &path, &branch)?;
            branch
        } else {
            fork_whole(&host, &path, &cwd, path.parent())?
        };
        finish(context, "sessions.fork", &path, new)
    }
}

/// A session with all entries of another, and copies of its artifacts. The source is only read.
pub(super) fn fork_whole(host: &Host, source: &Path, cwd: &Path, dir: Option<&Path>) -> Result<SessionManager> {
    let new = SessionManager::fork_from(host, source, cwd, dir)?;
    copy_artifacts(host, source, &new)?;
    Ok(new)
}

/// What is said in a session may point to its artifacts `[D9]`. One whose file has another name than sessions have has none.
fn copy_artifacts(host: &Host, source: &Path, new: &SessionManager) -> Result<()> {
    if let Ok(artifacts) = Artifacts::of_session(Arc::clone(host.storage()), source) {
        artifacts.copy_to(&new.artifacts()?)?;
    }
    Ok(())
}

/// Makes a new session durable and says where it is.
pub(super) fn finish(context: &mut Context, kind: &str, from: &Path, mut new: SessionManager) -> Result<Exit> {
    new.flush()?;
    let path = new.file().unwrap_or(from).to_owned();
    let id = new.id().to_string();
    new.close()?;
    if !context.out.is_json() {
        context.out.raw(path.as_os_str().as_encoded_bytes())?;
        context.out.raw(b"\n")?;
    }
    let made = Made { from: from.display().to_string(), path: path.display().to_string(), id };
    context.out.json(kind, made)?;
    Ok(Exit::Done)
}
