//! `watcher sessions move`: sessions follow their project to its new place. Says what it would do before it does it.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use session_core::{ListDepth, Pointers, SessionManager, same_path};

use crate::cli::busy::Force;
use crate::cli::confirm::Confirm;
use crate::cli::output::remark;
use crate::cli::surroundings::storage;
use crate::cli::text::plural;
use crate::cli::{Context, completions, named};
use crate::exit::{Exit, Refusal};

/// Move sessions to another directory: one, or all of a project that was renamed
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher sessions move --from ~/old-name --to ~/new-name --dry-run
  watcher sessions move --from ~/old-name --to ~/new-name
  watcher sessions move 15c0 --to ~/project      one session

With --from, sessions of directories below it go along. Files, artifacts and terminal pointers move, and each session's
header names the new directory. Files keep their times. What is moved can be moved back the same way.")]
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
    /// Only say what would move
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    force: Force,
}

/// One session's way.
struct Way {
    file: PathBuf,
    old_cwd: String,
    cwd: PathBuf,
    name: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Moved {
    from: String,
    to: Option<String>,
    cwd: String,
    pointers: Vec<String>,
    error: Option<String>,
}

impl Move {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit> {
        let to = context.directory(Some(&self.to))?;
        let ways = self.ways(context, &to)?;
        if ways.is_empty() {
            let from = self.from.as_deref().unwrap_or(Path::new("")).display().to_string();
            return Err(Refusal::new(Exit::NotFound, format!("{from}: no session is of this directory")).into());
        }
        for way in &ways {
            self.force.check(&way.file)?;
        }
        if !context.out.is_json() && (self.dry_run || ways.len() > 1) {
            for way in &ways {
                context.out.line(&format!("{}  {} → {}", way.name, way.old_cwd, way.cwd.display()))?;
            }
            context.out.finish()?;
        }
        if self.dry_run {
            remark(&format!("{} would move; nothing was done", plural(ways.len(), "session")));
            let planned = ways.iter().map(|way| Moved {
                from: way.file.display().to_string(),
                to: None,
                cwd: way.cwd.display().to_string(),
                pointers: Vec::new(),
                error: None,
            });
            context.out.json("sessions.move", planned.collect::<Vec<_>>())?;
            return Ok(Exit::Done);
        }
        if self.from.is_some() {
            self.confirm.ask(&format!("Move {} to {}", plural(ways.len(), "session"), to.display()))?;
        }
        // Each by itself: one that can't move keeps no other from moving, and stays whole where it is.
        let moved: Vec<Moved> = ways.iter().map(|way| self.go(context, way)).collect();
        let failed = moved.iter().filter(|moved| moved.error.is_some()).count();
        for one in &moved {
            match (&one.to, &one.error) {
                (Some(to), _) => context.out.line(to)?,
                (None, Some(error)) => remark(error),
                (None, None) => {}
            }
        }
        context.out.json("sessions.move", moved)?;
        if failed > 0 {
            remark(&format!("{} could not be moved and stayed where they are", plural(failed, "session")));
        }
        Ok(if failed > 0 { Exit::Failed } else { Exit::Done })
    }

    fn ways(&self, context: &Context, to: &Path) -> Result<Vec<Way>> {
        if let Some(session) = &self.session {
            let file = named::find(context, session)?;
            let read = session_core::Session::read(&file)?;
            let old_cwd = read.header().and_then(session_core::Header::cwd).unwrap_or_default();
            return Ok(vec![Way { name: named::called(&read)?, file, old_cwd, cwd: to.to_owned() }]);
        }
        let from = context.directory(self.from.as_deref())?;
        let storage = storage();
        let listing = context.catalog()?.with_depth(ListDepth::Name).list_all()?;
        for problem in &listing.problems {
            remark(&problem.to_string());
        }
        let ways = listing.sessions.iter().filter_map(|session| {
            let cwd = Path::new(session.cwd());
            let below = match cwd.strip_prefix(&from) {
                Ok(below) => below,
                Err(_) if !session.cwd().is_empty() && same_path(&*storage, cwd, &from) => Path::new(""),
                Err(_) => return None,
            };
            let cwd = if below.as_os_str().is_empty() { to.to_owned() } else { to.join(below) };
            let old_cwd = session.cwd().to_owned();
            Some(Way { file: session.path().to_owned(), name: session.name(), old_cwd, cwd })
        });
        Ok(ways.collect())
    }

    fn go(&self, context: &Context, way: &Way) -> Moved {
        let mut moved = Moved {
            from: way.file.display().to_string(),
            to: None,
            cwd: way.cwd.display().to_string(),
            pointers: Vec::new(),
            error: None,
        };
        let work = || -> Result<(PathBuf, Vec<String>)> {
            let host = context.host()?;
            let mut session = SessionManager::open(&host, &way.file, None)?;
            session.set_foreign_writers(self.force.foreign_writers());
            session.move_to(&way.cwd)?;
            session.flush()?;
            let file = session.file().unwrap_or(&way.file).to_owned();
            session.close()?;
            let pointers = Pointers::new(host.storage().as_ref(), host.agent().terminal_sessions());
            let followed = pointers.follow(&way.file, &way.cwd, &file)?;
            Ok((file, followed.iter().map(|terminal| terminal.as_str().to_owned()).collect()))
        };
        match work() {
            Ok((file, pointers)) => {
                moved.to = Some(file.display().to_string());
                moved.pointers = pointers;
            }
            Err(error) => moved.error = Some(format!("{error:#}")),
        }
        moved
    }
}
