//! One session file and how far it was read: what is new in it, as prompts. It writes nothing and knows no database.

use std::path::Path;
use std::sync::Arc;

use session_core::storage::SessionStorage;
use session_core::{EntryKind, ErrorKind, Result, Session};

use crate::prompt::Prompt;

/// What a look at a session file brought.
#[derive(Clone, Debug, Default)]
pub(crate) struct Look {
    /// The session's id; none when the file has no valid header.
    pub(crate) session: Option<String>,
    /// The working directory that the header names.
    pub(crate) cwd: Option<String>,
    /// New prompts, in the order of the file.
    pub(crate) prompts: Vec<Prompt>,
    /// What is wrong in the file: how many things, and the first of them.
    pub(crate) defects: Option<(u64, String)>,
    /// How far it was read, as the ledger keeps it.
    pub(crate) position: String,
}

/// Looks at a file that may have changed since `position`. None when there is nothing new, or no file.
pub(crate) fn look(storage: &Arc<dyn SessionStorage>, path: &Path, position: Option<&str>) -> Result<Option<Look>> {
    let Some(stat) = storage.stat(path)? else { return Ok(None) };
    let now = format!("{}:{}:{}", stat.identity.device, stat.identity.inode, stat.len);
    if position == Some(now.as_str()) {
        return Ok(None);
    }
    let session = match Session::read_from(Arc::clone(storage), path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        session => session?,
    };
    let header = session.header();
    let defects = session.defects();
    let mut look = Look {
        session: header.map(|header| header.id().to_string()),
        cwd: header.and_then(session_core::Header::cwd).filter(|cwd| !cwd.is_empty()),
        prompts: Vec::new(),
        defects: defects.list().first().map(|first| (defects.total(), first.to_string())),
        position: now,
    };
    if header.is_none() && stat.len > 0 {
        let message = format!("{}: no valid session header; nothing of it is read", path.display());
        look.defects = Some((defects.total().max(1), message));
    }
    for entry in session.entries().filter(|entry| entry.kind() == EntryKind::Message) {
        match entry.json() {
            Ok(json) => look.prompts.extend(Prompt::of(entry.id(), entry.timestamp(), json.view())),
            Err(error) if error.kind() == ErrorKind::NotJson => {
                let count = look.defects.as_ref().map_or(0, |(count, _)| *count);
                let first = look.defects.take().map_or_else(|| error.to_string(), |(_, first)| first);
                look.defects = Some((count + 1, first));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Some(look))
}
