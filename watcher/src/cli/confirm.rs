//! Asking before something is taken away or overwritten. Without a person to ask, only `--yes` will do.

use std::io::{BufRead, IsTerminal, stdin};

use anyhow::Result;
use clap::Args;

use super::output;
use crate::exit::{Exit, Refusal};

/// For commands that take something away.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Confirm {
    /// Do it without asking
    #[arg(short, long)]
    yes: bool,
}

impl Confirm {
    /// Returns when `what` (a whole sentence, without a question mark) may be done.
    ///
    /// # Errors
    /// [`Exit::Refused`] when the answer is no, and when there is nobody to ask.
    pub(crate) fn ask(self, what: &str) -> Result<()> {
        if self.yes {
            return Ok(());
        }
        if !stdin().is_terminal() {
            let message = format!("{what}? Nothing was done; say --yes to do it without being asked");
            return Err(Refusal::new(Exit::Refused, message).into());
        }
        output::question(&format!("{what}? [y/N] "));
        let mut answer = String::new();
        stdin().lock().read_line(&mut answer)?;
        match answer.trim().to_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(Refusal::new(Exit::Refused, "nothing was done").into()),
        }
    }
}
