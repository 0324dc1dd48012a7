//! Opening the history that a command is about. Looking never makes one.

use anyhow::Result;
use history::{Access, HistoryStorage, Notice, OpenOptions};

use crate::cli::Context;
use crate::cli::output::remark;
use crate::cli::surroundings::storage;

/// For reading; none when there is none yet, which is said.
pub(super) fn for_reading(context: &Context) -> Result<Option<HistoryStorage>> {
    let path = context.agent()?.history_db();
    if !path.exists() {
        remark(&format!("{}: there is no history yet; `watcher sync` fills it", path.display()));
        return Ok(None);
    }
    let store = OpenOptions::new().access(Access::ReadOnly).open(&path)?;
    tell(&store);
    Ok(Some(store))
}

/// For writing; made when there is none.
pub(super) fn for_writing(context: &Context) -> Result<HistoryStorage> {
    let agent = context.agent()?;
    let path = agent.history_db();
    if let Some(dir) = path.parent() {
        storage().ensure_dir(dir)?;
    }
    let now = context.now()?.seconds();
    let options = OpenOptions::new();
    let options = if context.time_is_pinned() { options.clock(move || now) } else { options };
    Ok(options.open(&path)?)
}

/// Says what the user should hear once.
pub(super) fn tell(store: &HistoryStorage) {
    for notice in store.notices() {
        match notice {
            Notice::Copied(copy) => remark(&format!("the history from before is kept as {}", copy.display())),
            Notice::UnreadLog(log) => {
                remark(&format!("{}: this log could not be read; its latest prompts are missing here", log.display()));
            }
            _ => {}
        }
    }
}
