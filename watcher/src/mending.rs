//! The history that a watcher writes to, opened. A corrupt one is moved aside and begun anew from what is readable in it
//! `[H5]`; what session files hold comes with the look that follows, since the reading positions went with the old file.
//!
//! Nothing is moved while another process has it open, and never because it is locked.

use std::path::Path;

use anyhow::Result;
use history::{ErrorKind, HistoryStorage, OpenOptions, Rebuilt};

use crate::exit::{Exit, Refusal};

/// A watcher lives for months and does nothing but count rows now and then: so much of them stays in memory, in kibibytes.
const CACHE: u32 = 1_000;
/// What to run when it could not be done now.
const LATER: &str = "`watcher history check --repair` mends it when nobody has it open";

/// Opens the history. When it was corrupt, what became of it comes along, in words.
///
/// # Errors
/// What the history said; when it is corrupt and can't be moved now, [`Exit::Refused`] with what to run later.
pub(crate) fn open(options: OpenOptions, path: &Path) -> Result<(HistoryStorage, Option<String>)> {
    let options = options.cache(CACHE);
    let error = match read_through(&options, path) {
        Ok(store) => return Ok((store, None)),
        Err(error) if error.kind() != ErrorKind::Corrupt => return Err(error.into()),
        Err(error) => error,
    };
    match options.rebuild_if_corrupt(path, |_| Ok(())) {
        Ok(Some(rebuilt)) => Ok((options.open(path)?, Some(describe(&rebuilt)))),
        // The file is whole, so what is broken is inside: the index.
        Ok(None) => Err(Refusal::new(Exit::Failed, format!("{error}; {LATER}")).into()),
        Err(error) if error.kind() == ErrorKind::InUse => {
            Err(Refusal::new(Exit::Refused, format!("{error}; {LATER}")).into())
        }
        Err(error) => Err(error.into()),
    }
}

/// A damaged page shows when it is read: counting reads them all.
fn read_through(options: &OpenOptions, path: &Path) -> history::Result<HistoryStorage> {
    let store = options.open(path)?;
    store.stats()?;
    Ok(store)
}

fn describe(rebuilt: &Rebuilt) -> String {
    format!(
        "the history was corrupt; it is kept as {}, {} prompts of it were saved, and those of sessions are added again",
        rebuilt.aside().display(),
        rebuilt.salvaged()
    )
}

/// Whether an error is that the history is corrupt.
pub(crate) fn is_corrupt(error: &anyhow::Error) -> bool {
    error.downcast_ref::<history::Error>().is_some_and(|error| error.kind() == ErrorKind::Corrupt)
}
