//! The history that a watcher writes to, opened. A corrupt one is moved aside and begun anew from what is readable in it
//! `[H5]`; what session files hold comes with the look that follows, since the reading positions went with the old file. Where
//! the file is well and its full-text index is not, the index is built anew in place.
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
    match read_through(&options, path) {
        Ok(store) => Ok((store, None)),
        Err(error) if error.kind() == ErrorKind::Corrupt => mend(options, path),
        Err(error) => Err(error.into()),
    }
}

/// Opens a history that said that it is corrupt, maybe where opening it does not look. What was done about it comes along, in
/// words; none when nothing is wrong with it.
///
/// # Errors
/// As [`open`], also when this process has it open still.
pub(crate) fn mend(options: OpenOptions, path: &Path) -> Result<(HistoryStorage, Option<String>)> {
    let options = options.cache(CACHE);
    match options.rebuild_if_corrupt(path, |_| Ok(())) {
        Ok(Some(rebuilt)) => Ok((options.open(path)?, Some(describe(&rebuilt)))),
        // The file is whole, so what is broken is inside: the index.
        Ok(None) => {
            let store = options.open(path)?;
            let was_broken = store.check()?.index.is_some();
            if was_broken && !store.repair().wait()?.is_well() {
                return Err(beyond_us(path));
            }
            Ok((
                store,
                was_broken.then(|| "the full-text index of the history was broken; it was built anew".to_owned()),
            ))
        }
        Err(error) if error.kind() == ErrorKind::InUse => {
            Err(Refusal::new(Exit::Refused, format!("{error}; {LATER}")).into())
        }
        Err(error) => Err(error.into()),
    }
}

/// A history says that it is corrupt although nothing is found that could be mended.
pub(crate) fn beyond_us(path: &Path) -> anyhow::Error {
    let message = format!("{}: it says that it is corrupt, and mending it did not help; {LATER}", path.display());
    Refusal::new(Exit::Failed, message).into()
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
