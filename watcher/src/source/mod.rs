//! Where hints come from that a file may have changed. A hint means "look"; lost ones are found by the reconcile.

pub(crate) mod notify;
pub(crate) mod poll;

use std::path::{Path, PathBuf};

/// A hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hint {
    /// Something happened to this path.
    Changed(PathBuf),
    /// Hints were lost: look everywhere.
    Everything,
}

/// Whether events will come for a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Coverage {
    /// Yes.
    Events,
    /// No, for this reason: it must be polled.
    Polling(String),
}

/// A source for those who look once and leave.
pub(crate) struct NoSource;

impl Source for NoSource {
    fn watch(&mut self, _: &Path) -> Coverage {
        Coverage::Events
    }

    fn forget(&mut self, _: &Path) {}
}

/// Something that gives hints about directories.
pub(crate) trait Source: Send {
    /// Asks for hints about what is directly in `dir`; once, until it is forgotten.
    fn watch(&mut self, dir: &Path) -> Coverage;
    /// No more hints about `dir`.
    fn forget(&mut self, dir: &Path);
}
