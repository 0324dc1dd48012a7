//! Which prompts a question is about: how many, where and when they were typed.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::Args;
use history::{Scope, Selection};

use crate::cli::{Context, completions, named, times};
use crate::exit::{Exit, Refusal};

/// Of a selection, the prompts in which a regular expression is found.
///
/// # Errors
/// [`Exit::Usage`] for one that is none.
pub(super) fn matching(selection: Selection, pattern: &str) -> Result<Selection> {
    selection.matching(pattern).map_err(|error| Refusal::new(Exit::Usage, error.to_string()).into())
}

/// Where and when.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct Where {
    /// Only what was typed in this directory
    #[arg(long, value_name = "DIR", conflicts_with = "below")]
    cwd: Option<PathBuf>,
    /// Only what was typed in this directory or below it
    #[arg(long, value_name = "DIR")]
    below: Option<PathBuf>,
    /// Only what was typed in this session: its id or the beginning of one, its file, or its name
    #[arg(long, value_name = "SESSION", add = completions::sessions())]
    session: Option<String>,
    /// Only what was typed since: 2026-01-05, 12h, 7d
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only what was typed until then; a day means its beginning
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
}

impl Where {
    pub(super) fn scope(&self, context: &Context) -> Result<Scope> {
        let resolved = |dir: &PathBuf| -> Result<String> {
            let path = context.directory(Some(dir))?;
            Ok(path.canonicalize().unwrap_or(path).display().to_string())
        };
        let now = context.now()?;
        let time = |text: &String| -> Result<i64> {
            let time = times::named(text, now).map_err(|message| anyhow!(Refusal::new(Exit::Usage, message)))?;
            Ok(time.seconds())
        };
        let mut scope = match (&self.cwd, &self.below) {
            (Some(cwd), _) => Scope::directory(resolved(cwd)?),
            (None, Some(below)) => Scope::below(resolved(below)?),
            (None, None) => Scope::everywhere(),
        };
        if let Some(session) = &self.session {
            scope = scope.session(named::id(context, session)?);
        }
        if let Some(since) = &self.since {
            scope = scope.since(time(since)?);
        }
        if let Some(until) = &self.until {
            scope = scope.until(time(until)?);
        }
        Ok(scope)
    }

    pub(super) fn is_everywhere(&self) -> bool {
        let dirs = self.cwd.is_none() && self.below.is_none();
        dirs && self.session.is_none() && self.since.is_none() && self.until.is_none()
    }
}

/// How many, where and when.
#[derive(Clone, Debug, Args)]
pub(super) struct Which {
    /// At most so many (0 to 1000)
    #[arg(short = 'n', long, default_value_t = 20, value_name = "N")]
    pub(super) limit: i64,
    #[command(flatten)]
    pub(super) place: Where,
}
