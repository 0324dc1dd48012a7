//! `watcher sessions repair`: takes the damage out of a session file. The file as it was stays beside it.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;
use session_core::{Defect, Session, SessionManager};

use super::show::Flaw;
use crate::cli::busy;
use crate::cli::confirm::Confirm;
use crate::cli::named::Named;
use crate::cli::output::Tone;
use crate::cli::text::entries;
use crate::cli::{Context, surroundings};
use crate::exit::{Exit, Refusal};

/// So many damaged lines are shown; `--json` lists all that were kept.
const SHOWN: usize = 10;

/// Take the damage out of a session file; the file as it was is kept
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher sessions repair 15d0 --dry-run
  watcher sessions repair 15d0
  watcher sessions repair path/to/x.jsonl --cwd ~/project     its header is gone, too

The header and every whole entry stay, byte for byte; what else is in the file leaves it. A lost header is made anew from the
file's name; which directory the session is of nobody knows then but you. Nothing has to be repaired for a session to be read,
continued or listed, but for a lost header. A session that another process writes is left alone.")]
pub(crate) struct Repair {
    #[command(flatten)]
    session: Named,
    /// The session's working directory, where its header does not say
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    #[command(flatten)]
    confirm: Confirm,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    path: String,
    /// Whether it was done.
    repaired: bool,
    entries: usize,
    header_rebuilt: bool,
    /// The file as it was.
    original: Option<String>,
    /// The lines that leave the file, as far as they are listed.
    damage: Vec<Flaw>,
}

impl Repair {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit> {
        let file = self.session.file(context)?;
        let cwd = self.cwd.as_deref().map(|cwd| context.directory(Some(cwd))).transpose()?;
        let host = context.host()?;
        let examined = Session::read(&file)?.defects();
        let damage: Vec<&Defect> = examined.list().iter().filter(|defect| defect.kind().leaves_with_repair()).collect();
        let mut shown = Shown {
            path: file.display().to_string(),
            repaired: false,
            entries: 0,
            header_rebuilt: false,
            original: None,
            damage: damage.iter().map(|defect| Flaw::of(defect)).collect(),
        };
        let Some(plan) = SessionManager::plan_repair(&host, &file, cwd.as_deref())? else {
            context.out.line(&format!("{}: nothing to repair", context.homely(&file)))?;
            context.out.json("sessions.repair", shown)?;
            return Ok(Exit::Done);
        };
        (shown.entries, shown.header_rebuilt) = (plan.entries, plan.header_rebuilt);
        let writers = busy::writers(&*surroundings::storage(), &file)?;
        if let Some(writer) = writers.first() {
            let message = format!("{}: {} is writing this session; end it first", file.display(), busy::name(writer));
            return Err(Refusal::new(Exit::Refused, message).into());
        }
        if plan.header_rebuilt {
            context.out.toned(Tone::Bad, "the header is lost; one is made from the file's name")?;
            if cwd.is_none() {
                context.remark("which directory the session is of is not known; --cwd DIR says it");
            }
        }
        for defect in damage.iter().take(SHOWN) {
            // What stays as it is without a repair is not said here.
            let what = defect.kind().meaning().split(';').next().unwrap_or_default();
            context.out.paragraph(
                Tone::Bad,
                0,
                &format!("line {} (byte {}): {what}", defect.line(), defect.offset()),
            )?;
        }
        if damage.len() > SHOWN {
            context.out.toned(Tone::Bad, &format!("and {} more", damage.len() - SHOWN))?;
        }
        let what = format!("Keep {} and take the damage out of {}", entries(plan.entries), file.display());
        if self.confirm.ask(context, &what)? {
            let Some(done) = SessionManager::repair(&host, &file, cwd.as_deref())? else {
                bail!("{}: somebody else has just repaired it", file.display());
            };
            context.out.line(&format!(
                "{} kept; the file as it was: {}",
                entries(done.entries),
                context.homely(&done.original)
            ))?;
            shown.repaired = true;
            shown.entries = done.entries;
            shown.original = Some(done.original.display().to_string());
        }
        context.out.json("sessions.repair", shown)?;
        Ok(Exit::Done)
    }
}
