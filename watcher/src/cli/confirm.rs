//! Asking before something is taken away or overwritten. Without a person to ask, only `--yes` will do; with `--dry-run` nobody
//! is asked and nothing is done.

use std::io::{BufRead, IsTerminal, stdin};

use anyhow::Result;
use clap::Args;

use super::Context;
use super::output::question;
use crate::exit::{Exit, Refusal};

/// A sentence inside of another.
fn uncapitalized(sentence: &str) -> String {
    let mut rest = sentence.chars();
    rest.next().map_or_else(String::new, |first| first.to_lowercase().chain(rest).collect())
}

/// For commands that take something away, or do much at once. They say what they would do, then ask.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Confirm {
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    /// Do it without asking
    #[arg(short, long)]
    yes: bool,
}

impl Confirm {
    /// Whether nothing is to be done.
    pub(super) fn is_dry_run(self) -> bool {
        self.dry_run
    }

    /// Whether it is done without a question, so that nobody has to hear before what it is about.
    pub(super) fn is_given(self) -> bool {
        self.yes && !self.dry_run
    }

    /// Whether `what` (a whole sentence, without a question mark) is to be done; what was said so far is said before it asks.
    ///
    /// # Errors
    /// [`Exit::Refused`] when the answer is no, and when there is nobody to ask.
    pub(super) fn ask(self, context: &mut Context, what: &str) -> Result<bool> {
        context.out.finish()?;
        let what = &context.homely_text(what);
        if self.dry_run {
            context.remark(&format!("not done, this was a dry run: it would {}", uncapitalized(what)));
            return Ok(false);
        }
        if self.yes {
            return Ok(true);
        }
        if !stdin().is_terminal() {
            let message = format!("not done: this would {}; say --yes", uncapitalized(what));
            return Err(Refusal::new(Exit::Refused, message).into());
        }
        question(&format!("{what}? [y/N] "));
        let mut answer = String::new();
        stdin().lock().read_line(&mut answer)?;
        match answer.trim().to_lowercase().as_str() {
            "y" | "yes" => Ok(true),
            _ => Err(Refusal::new(Exit::Refused, "nothing was done").into()),
        }
    }
}
