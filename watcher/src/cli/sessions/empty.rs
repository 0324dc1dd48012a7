//! `watcher sessions empty`: deletes what is in the trash for good.

use anyhow::{Result, anyhow};
use clap::Args;
use serde::Serialize;

use super::restore::deleted;
use crate::cli::confirm::Confirm;
use crate::cli::text::plural;
use crate::cli::{Context, times};
use crate::exit::{Exit, Refusal};

/// Delete what is in the trash for good
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher sessions empty
  watcher sessions empty --before 30d --yes     only what was deleted more than a month ago")]
pub(crate) struct Empty {
    /// Only what was deleted before: 2026-01-05, 12h, 30d
    #[arg(long, value_name = "TIME")]
    before: Option<String>,
    #[command(flatten)]
    confirm: Confirm,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    erased: Vec<String>,
    dry_run: bool,
}

impl Empty {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit> {
        let now = context.now()?;
        let before = self.before.as_deref().map(|text| times::named(text, now)).transpose();
        let before = before.map_err(|message| anyhow!(Refusal::new(Exit::Usage, message)))?;
        context.agent_there()?;
        let mut items = deleted(context)?;
        let held_any = !items.is_empty();
        items.retain(|one| before.is_none_or(|before| one.item.deleted() < before));
        let what = format!("Delete {} of the trash for good", plural(items.len(), "session"));
        let trash = context.trash()?;
        if items.is_empty() {
            context.remark(if held_any {
                "nothing in the trash was deleted before then"
            } else {
                "the trash is empty"
            });
        } else if self.confirm.ask(context, &what)? {
            for one in &items {
                trash.erase(&one.item)?;
            }
            context.out.line(&format!("{} deleted for good", plural(items.len(), "session")))?;
        }
        let erased = items.iter().map(|one| one.item.origin().display().to_string()).collect();
        context.out.json("sessions.empty", Shown { erased, dry_run: self.confirm.is_dry_run() })?;
        Ok(Exit::Done)
    }
}
