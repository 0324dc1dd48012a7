//! Opening the history that a command is about. Looking never makes one.

use std::time::Duration;

use anyhow::Result;
use history::{Access, HistoryStorage, Notice, OpenOptions};
use session_core::AgentDir;

use crate::cause::told;
use crate::cli::Context;
use crate::cli::surroundings::storage;
use crate::place::Place;

/// For reading; none when there is none yet, which is said.
pub(super) fn for_reading(context: &Context) -> Result<Option<HistoryStorage>> {
    let agent = context.agent()?;
    take_spooled(&agent, context);
    let path = agent.history_db();
    if context.tell_absence(&agent) {
        return Ok(None);
    }
    if !path.exists() {
        let sync = context.common.command("sync");
        context.remark(&format!("{}: there is no history yet; `{sync}` fills it", context.homely(&path)));
        return Ok(None);
    }
    let store = OpenOptions::new().access(Access::ReadOnly).open(&path)?;
    tell(context, &store);
    Ok(Some(store))
}

/// For writing; made when there is none.
pub(super) fn for_writing(context: &Context) -> Result<HistoryStorage> {
    let agent = context.agent()?;
    take_spooled(&agent, context);
    let path = agent.history_db();
    if let Some(dir) = path.parent() {
        storage().ensure_dir(dir)?;
    }
    let now = context.now()?.seconds();
    let options = options(&agent, context)?;
    let options = if context.time_is_pinned() { options.clock(move || now) } else { options };
    Ok(options.open(&path)?)
}

/// What the settings say of secrets, and of directories that are never recorded.
fn options(agent: &AgentDir, context: &Context) -> Result<OpenOptions> {
    context.settings(agent)?.history()
}

/// Says what the user should hear once.
pub(super) fn tell(context: &Context, store: &HistoryStorage) {
    for notice in store.notices() {
        match notice {
            Notice::Copied(copy) => context.remark(&format!("the history from before is kept as {}", copy.display())),
            Notice::UnreadLog(log) => {
                context.remark(&format!(
                    "{}: this log could not be read; its latest prompts are missing here",
                    log.display()
                ));
            }
            _ => {}
        }
    }
}

/// Prompts that hooks told and could not record go into the history first. A history that is in use is asked all the same.
fn take_spooled(agent: &AgentDir, context: &Context) {
    let spool = Place::of(agent).spool();
    if !spool.waits() {
        return;
    }
    let drained = options(agent, context).and_then(|options| {
        let store = options.patience(Duration::from_secs(1)).open(agent.history_db())?;
        spool.drain(&store)
    });
    if let Err(error) = drained {
        context.remark(&format!("prompts that hooks told are still on their way: {}", told(&error)));
    }
}
