//! Keeping hands off a session that another process writes. It looks, and refuses by name; nothing is locked here.

use std::path::Path;

use anyhow::Result;
use clap::Args;
use session_core::ForeignWriters;
use session_core::storage::{Holder, SessionStorage};

use super::surroundings::storage;
use super::terminals;
use crate::exit::{Exit, Refusal};

/// For commands that change a session or take it elsewhere.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Force {
    /// Go ahead although another process writes the session; what it writes later may be lost
    #[arg(long)]
    force: bool,
}

impl Force {
    /// Returns when nobody else writes the session in `file`, or it does not matter.
    ///
    /// # Errors
    /// [`Exit::Refused`], naming who writes it.
    pub(super) fn check(self, file: &Path) -> Result<()> {
        if self.force {
            return Ok(());
        }
        let writers = session_core::session_writers(&*storage(), file)?;
        let Some((path, _)) = writers.first() else { return Ok(()) };
        let who: Vec<String> = writers.iter().map(|(_, holder)| name(holder)).collect();
        let message =
            format!("{}: {} is writing this session; end it first, or say --force", path.display(), who.join(" and "));
        Err(Refusal::new(Exit::Refused, message).into())
    }

    pub(super) fn foreign_writers(self) -> ForeignWriters {
        if self.force { ForeignWriters::Override } else { ForeignWriters::Refuse }
    }
}

/// Who has exactly this file open for writing.
pub(super) fn writers(storage: &dyn SessionStorage, file: &Path) -> Result<Vec<Holder>> {
    Ok(storage.writers_of(file, file)?)
}

/// `process 4711 (omp) on pts-3`.
pub(super) fn name(holder: &Holder) -> String {
    match terminals::of_process(holder.pid) {
        Some(terminal) => format!("{holder} on {terminal}"),
        None => holder.to_string(),
    }
}
