//! Whether a session belongs to a working directory: its header says, compared on resolved paths `[D5]`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, ErrorKind, Result};
use crate::storage::SessionStorage;

/// One working directory, to compare headers with.
#[derive(Debug)]
pub(super) struct SameCwd<'a> {
    storage: &'a dyn SessionStorage,
    resolved: PathBuf,
    /// Sessions of one directory mostly name the same one: resolving it once is enough.
    known: Mutex<HashMap<String, bool>>,
}

impl<'a> SameCwd<'a> {
    pub(super) fn of(storage: &'a dyn SessionStorage, cwd: &Path) -> Result<Self> {
        if !cwd.is_absolute() {
            let message = "a working directory is given as an absolute path";
            return Err(Error::new(ErrorKind::InvalidInput, message).at(cwd));
        }
        Ok(Self { storage, resolved: storage.resolve(cwd), known: Mutex::default() })
    }

    /// Whether a header's `cwd` is this one. A relative one means nothing to anybody else, and is none.
    pub(super) fn is(&self, cwd: Option<&str>) -> bool {
        let Some(cwd) = cwd.filter(|cwd| Path::new(cwd).is_absolute()) else { return false };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = known.get(cwd) {
            return *same;
        }
        let same = self.storage.resolve(Path::new(cwd)) == self.resolved;
        known.insert(cwd.to_owned(), same);
        same
    }
}
