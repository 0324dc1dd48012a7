//! `watcher errand`: the part of a hook that may take its time, in a process that no harness waits for: the spool into the
//! history. Not for people; whatever becomes of it, what it did not finish is still in the spool.

use std::time::Duration;

use anyhow::Result;
use clap::Args;

use super::Context;
use crate::exit::Exit;
use crate::hook::Target;

/// The command's name.
pub(super) const NAME: &str = "errand";
/// A history may be locked so long: longer than anybody locks one while a person works.
const PATIENCE: Duration = Duration::from_secs(120);

/// Take over what hooks left in the spool
#[derive(Debug, Args)]
#[command(
    hide = true,
    after_help = "\
Examples:
  watcher errand --for claude-code"
)]
pub(crate) struct Errand {
    /// The harness that the hook's event named
    #[arg(long = "for", value_name = "HARNESS")]
    of: Option<String>,
}

impl Errand {
    pub(crate) fn run(self, context: &Context) -> Result<Exit> {
        rustix::process::umask(rustix::fs::Mode::from_bits_truncate(0o077));
        let target = Target::of(self.of.as_deref(), &context.common.selection(), &context.environment)?;
        let spool = target.place().spool();
        while spool.waits() {
            // One at a time: while a history is locked, a single process waits for it, however many hooks fire.
            let Some(turn) = spool.turn()? else { break };
            let options = context.settings(&target.agent)?.history()?;
            let store = options.patience(PATIENCE).open(target.agent.history_db())?;
            let drained = spool.drain(&store)?;
            store.close()?;
            drop(turn);
            if drained.is_empty() {
                // What waits is just being written, by a hook that will send for it.
                break;
            }
        }
        Ok(Exit::Done)
    }
}
