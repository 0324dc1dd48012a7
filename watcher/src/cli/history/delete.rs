//! `watcher history delete`: forgets prompts, so that nothing brings them back; says where their text still stands.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use history::{RowId, Selection};
use serde::Serialize;
use session_core::SessionId;

use super::choice::Where;
use super::{open, rows};
use crate::cli::Context;
use crate::cli::confirm::Confirm;
use crate::cli::output::with_progress;
use crate::cli::text::plural;
use crate::exit::{Exit, Refusal};

/// So many prompts are shown before asking.
const SHOWN: usize = 20;

/// Delete prompts for good
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher history delete 4711 4712
  watcher history delete --matching 'sk-[a-z0-9]+' --dry-run
  watcher history delete --session 15c0 --yes

Nothing brings a deleted prompt back but typing it again. Session files and
earlier copies of the history still hold the text; they are named at the end.")]
pub(crate) struct Delete {
    /// These prompts, as `recent` and `search` number them
    #[arg(value_name = "ROW", value_parser = rows::number)]
    rows: Vec<i64>,
    /// Prompts in which this regular expression is found
    #[arg(long, value_name = "REGEX")]
    matching: Option<String>,
    #[command(flatten)]
    place: Where,
    #[command(flatten)]
    confirm: Confirm,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    rows: Vec<rows::Shown>,
    deleted: usize,
    /// Session files that still hold the text.
    still_in: Vec<PathBuf>,
    /// Copies of the history from before, which may still hold it.
    copies: Vec<PathBuf>,
    log_truncated: Option<bool>,
}

impl Delete {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit> {
        if self.rows.is_empty() && self.matching.is_none() && self.place.is_everywhere() {
            let message = "say which prompts: rows, --matching, --cwd, --session, --since or --until";
            return Err(Refusal::new(Exit::Usage, message).into());
        }
        let mut selection = if self.rows.is_empty() {
            Selection::all()
        } else {
            Selection::rows(self.rows.iter().map(|row| RowId::from(*row)))
        };
        if let Some(pattern) = &self.matching {
            selection = super::choice::matching(selection, pattern)?;
        }
        let selection = selection.scope(self.place.scope(context)?);
        let chosen = match open::for_reading(context)? {
            Some(store) => store.select(&selection)?,
            None => Vec::new(),
        };
        if self.matching.is_none() && self.place.is_everywhere() {
            rows::are_there(&self.rows, &chosen)?;
        }
        if chosen.is_empty() {
            return Err(Refusal::new(Exit::NotFound, "no prompt is like that").into());
        }
        rows::table(context, &chosen[..chosen.len().min(SHOWN)])?;
        if chosen.len() > SHOWN {
            context.remark(&format!("and {} more", chosen.len() - SHOWN));
        }
        let mut shown = Shown {
            rows: chosen.iter().map(rows::Shown::of).collect(),
            deleted: 0,
            still_in: Vec::new(),
            copies: Vec::new(),
            log_truncated: None,
        };
        if self.confirm.ask(context, &format!("Delete {} for good", plural(chosen.len(), "prompt")))? {
            let store = open::for_writing(context)?;
            let deleting = || "deleting prompts…".to_owned();
            let deleted = with_progress(deleting, || store.delete(selection).wait())?;
            open::tell(context, &store);
            shown.deleted = deleted.rows();
            shown.log_truncated = Some(deleted.log_truncated());
            shown.copies = deleted.copies().to_vec();
            for session in deleted.sessions() {
                shown.still_in.extend(Self::file_of(context, session)?);
            }
            store.close()?;
            context.out.line(&format!("{} deleted", plural(shown.deleted, "prompt")))?;
            for file in &shown.still_in {
                context.out.line(&format!("still in {}", context.homely(file)))?;
            }
            for copy in &shown.copies {
                context.out.line(&format!("may still be in {}", context.homely(copy)))?;
            }
            if shown.log_truncated == Some(false) {
                context.remark("another process reads the history: its log keeps the text until that process is done");
            }
        }
        context.out.json("history.delete", shown)?;
        Ok(Exit::Done)
    }

    /// A session's file: sessions are on record by id or by path.
    fn file_of(context: &Context, session: &str) -> Result<Option<PathBuf>> {
        let path = PathBuf::from(session);
        if path.is_absolute() {
            return Ok(Some(path).filter(|path| path.exists()));
        }
        if session.is_empty() {
            return Ok(None);
        }
        Ok(context.catalog()?.find_by_id(&SessionId::from(session))?)
    }
}
