//! `watcher sessions move`: sessions follow their project to its new place. Says what it would do before it does it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;
use session_core::{Pointers, artifact_dir};

use super::ways::{self, Kind, Way};
use crate::cause::told;
use crate::cli::busy::Force;
use crate::cli::confirm::Confirm;
use crate::cli::output::with_progress;
use crate::cli::text::plural;
use crate::cli::{Context, completions};
use crate::exit::{Exit, Refusal};

/// Move sessions to another directory: one, or all of a project that was renamed
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher sessions move --from ~/old-name --to ~/new-name --dry-run
  watcher sessions move --from ~/old-name --to ~/new-name
  watcher sessions move 15c0 --to ~/project      one session

With --from, sessions of directories below it go along. Files, artifacts and terminal pointers move, and each session's
header names the new directory; so do those that sub-agents had there. Files keep their times. What is moved can be moved
back the same way.")]
pub(crate) struct Move {
    /// One session
    #[arg(required_unless_present = "from", conflicts_with = "from", add = completions::sessions())]
    session: Option<String>,
    /// The old directory; it need not exist any more
    #[arg(long, value_name = "OLD")]
    from: Option<PathBuf>,
    /// The new directory
    #[arg(long, value_name = "NEW")]
    to: PathBuf,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    force: Force,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Moved {
    from: String,
    to: Option<String>,
    cwd: String,
    /// It lies among the artifacts of another.
    subagent: bool,
    pointers: Vec<String>,
    error: Option<String>,
}

impl Move {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit> {
        let to = context.directory(Some(&self.to))?;
        let ways = match &self.session {
            Some(session) => ways::of_session(context, session, &to)?,
            None => ways::of_project(context, &context.directory(self.from.as_deref())?, &to)?,
        };
        if ways.is_empty() {
            context.agent_there()?;
            let from = self.from.as_deref().unwrap_or(Path::new("")).display().to_string();
            return Err(Refusal::new(Exit::NotFound, format!("{from}: no session is of this directory")).into());
        }
        // Who has a file open is asked of every process there is, for each file anew: with many that takes its time.
        let sessions = plural(ways.len(), "session");
        let done = AtomicUsize::new(0);
        let how_far = |what: &str| format!("{what} {sessions}, {} done", done.load(Ordering::Relaxed));
        let check = |way: &Way| self.force.check(&way.file).inspect(|()| step(&done));
        with_progress(|| how_far("looking who writes"), || ways.iter().try_for_each(check))?;
        if self.confirm.is_dry_run() || ways.len() > 1 {
            for way in &ways {
                let kind = if way.kind == Kind::Follows { "sub-agent: " } else { "" };
                context.out.line(&format!(
                    "{kind}{}  {} → {}",
                    way.name,
                    context.homely(way.old_cwd.as_ref()),
                    context.homely(&way.cwd)
                ))?;
            }
        }
        // A single session is named by the user, and nobody has to be asked.
        let asks = self.from.is_some() || self.confirm.is_dry_run();
        let what = format!("Move {sessions} to {}", to.display());
        if asks && !self.confirm.ask(context, &what)? {
            context.out.json("sessions.move", ways.iter().map(Moved::planned).collect::<Vec<_>>())?;
            return Ok(Exit::Done);
        }
        // Each by itself: one that can't move keeps no other from moving, and stays whole where it is.
        let mut artifacts = Vec::new();
        done.store(0, Ordering::Relaxed);
        let go = |way: &Way| self.go(context, way, &mut artifacts);
        let moved: Vec<Moved> =
            with_progress(|| how_far("moving"), || ways.iter().map(go).inspect(|_| step(&done)).collect());
        let failed = moved.iter().filter(|moved| moved.error.is_some()).count();
        for one in &moved {
            match (&one.to, &one.error) {
                (Some(to), _) if !one.subagent => context.out.line(to)?,
                (_, Some(error)) => context.remark(error),
                _ => {}
            }
        }
        context.out.json("sessions.move", moved)?;
        if failed > 0 {
            context.remark(&format!("{} could not be moved and stayed in place", plural(failed, "session")));
        }
        Ok(if failed > 0 { Exit::Failed } else { Exit::Done })
    }

    /// Takes the way; `artifacts` are the directories of those that came before: where they were, and where they are if they
    /// moved.
    fn go(&self, context: &Context, way: &Way, artifacts: &mut Vec<(PathBuf, Option<PathBuf>)>) -> Moved {
        let done = match way.kind {
            Kind::Moves => {
                let done = self.takes_along(context, way);
                let new = done.as_ref().ok().and_then(|(file, _)| artifact_dir(file));
                artifacts.extend(artifact_dir(&way.file).map(|old| (old, new)));
                done
            }
            Kind::Follows => self.follows(context, way, artifacts).map(|file| (file, Vec::new())),
        };
        let planned = Moved::planned(way);
        match done {
            Ok((file, pointers)) => Moved { to: Some(file.display().to_string()), pointers, ..planned },
            Err(error) => Moved { error: Some(told(&error)), ..planned },
        }
    }

    /// Moves a session; its new file, and the terminals whose pointers went with it.
    fn takes_along(&self, context: &Context, way: &Way) -> Result<(PathBuf, Vec<String>)> {
        let host = context.host()?;
        let mut session = context.open(&way.file)?;
        session.set_foreign_writers(self.force.foreign_writers());
        session.move_to(&way.cwd)?;
        session.flush()?;
        let file = session.file().unwrap_or(&way.file).to_owned();
        session.close()?;
        let pointers = Pointers::new(host.storage().as_ref(), host.agent().terminal_sessions());
        let followed = pointers.follow(&way.file, &way.cwd, &file)?;
        Ok((file, followed.iter().map(|terminal| terminal.as_str().to_owned()).collect()))
    }

    /// Changes the header of a session that lies where the one that it belongs to took it, or stays if that one stayed.
    fn follows(&self, context: &Context, way: &Way, artifacts: &[(PathBuf, Option<PathBuf>)]) -> Result<PathBuf> {
        let owner = artifacts.iter().find_map(|(old, new)| Some((way.file.strip_prefix(old).ok()?, new)));
        let file = match owner {
            Some((below, Some(new))) => new.join(below),
            Some((_, None)) => bail!("{}: the session that it belongs to did not move", way.file.display()),
            None => way.file.clone(),
        };
        let mut session = context.open(&file)?;
        session.set_foreign_writers(self.force.foreign_writers());
        session.set_cwd(&way.cwd)?;
        session.flush()?;
        session.close()?;
        Ok(file)
    }
}

fn step(done: &AtomicUsize) {
    done.fetch_add(1, Ordering::Relaxed);
}

impl Moved {
    fn planned(way: &Way) -> Self {
        Self {
            from: way.file.display().to_string(),
            to: None,
            cwd: way.cwd.display().to_string(),
            subagent: way.kind == Kind::Follows,
            pointers: Vec::new(),
            error: None,
        }
    }
}
