//! Writing an answer into a file of the user's: private, whole or not at all, and never over one that exists.

use std::path::Path;

use anyhow::Result;
use serde::Serialize;
use session_core::ErrorKind;
use session_core::storage::{FileSessionStorage, SessionStorage};

use crate::exit::{Exit, Refusal};

/// What a command says for programs when its answer went into a file.
#[derive(Serialize)]
pub(super) struct Written {
    file: String,
}

impl Written {
    pub(super) fn to(file: &Path) -> Self {
        Self { file: file.display().to_string() }
    }
}

/// Makes the file. On the medium when this returns; after an error it does not exist.
///
/// # Errors
/// [`Exit::Refused`] when something of this name exists.
pub(super) fn create(path: &Path, bytes: &[u8]) -> Result<()> {
    let storage = FileSessionStorage::new();
    let mut writer = match storage.create_new(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let message = format!("{}: this exists already; name a new file", path.display());
            return Err(Refusal::new(Exit::Refused, message).into());
        }
        writer => writer?,
    };
    let written = writer.write(bytes).and_then(|()| writer.flush()).and_then(|()| writer.fsync());
    let written = written.and(writer.close());
    if let Err(error) = written {
        // Half an export is worse than none; the first error is the one to hear.
        let _ = storage.unlink(path);
        return Err(error.into());
    }
    Ok(path.parent().map_or(Ok(()), |dir| storage.sync_dir(dir))?)
}
