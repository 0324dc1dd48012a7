//! Prompts as rows and as JSON, the same for every command that lists some.

use std::borrow::Cow;
use std::collections::HashSet;

use anyhow::Result;
use history::Entry;
use serde::Serialize;

use crate::cli::Context;
use crate::cli::grid::{Column, Grid};
use crate::cli::text::{fit, width};
use crate::cli::times::{iso, local};
use crate::exit::{Exit, Refusal};

/// Enough of a session's id to name it.
const SESSION: usize = 16;
/// What stands so many characters behind the beginning of a prompt may not be seen any more,
const FAR: usize = 24;
/// and is shown with so many before it.
const BEFORE: usize = 12;

/// The number of a prompt, as a person says it.
///
/// # Errors
/// In words: what is no number.
pub(super) fn number(text: &str) -> std::result::Result<i64, &'static str> {
    text.parse().map_err(|_| "a prompt is named by its number; `history search --json` and wide tables show it")
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shown {
    id: i64,
    prompt: String,
    created_at: String,
    cwd: Option<String>,
    session: Option<String>,
    use_count: u64,
}

impl Shown {
    pub(super) fn of(entry: &Entry) -> Self {
        Self {
            id: entry.id().get(),
            prompt: entry.prompt().to_owned(),
            created_at: iso(entry.created_at()),
            cwd: entry.cwd().map(str::to_owned),
            session: entry.session().map(str::to_owned),
            use_count: entry.use_count(),
        }
    }
}

/// Returns when each of these rows is among the prompts.
///
/// # Errors
/// [`Exit::NotFound`], naming the first that is not.
pub(super) fn are_there(rows: &[i64], entries: &[Entry]) -> Result<()> {
    let there: HashSet<i64> = entries.iter().map(|entry| entry.id().get()).collect();
    match rows.iter().find(|row| !there.contains(row)) {
        Some(row) => Err(Refusal::new(Exit::NotFound, format!("there is no row {row}")).into()),
        None => Ok(()),
    }
}

/// The rows alone.
pub(super) fn table(context: &mut Context, entries: &[Entry]) -> Result<()> {
    table_around(context, entries, &[])
}

/// The rows; where a prompt is cut, so that the first of the words that were looked for can be seen.
pub(super) fn table_around(context: &mut Context, entries: &[Entry], words: &[String]) -> Result<()> {
    let mut grid = Grid::new([
        Column::left("TYPED"),
        Column::right("ROW").from(60),
        Column::left("SESSION").from(120),
        Column::left("DIRECTORY").from(100),
        Column::left("PROMPT"),
    ]);
    for entry in entries {
        let cwd = entry.cwd().map(|cwd| context.homely(cwd.as_ref())).unwrap_or_default();
        let session = entry.session().map(|session| fit(session, SESSION).into_owned()).unwrap_or_default();
        // Half a terminal is about what the other columns leave.
        let is_cut = context.out.columns().is_some_and(|columns| width(entry.prompt()) > columns / 2);
        let prompt = if is_cut { around(entry.prompt(), words) } else { entry.prompt().into() };
        grid.row([local(entry.created_at()), entry.id().get().to_string(), session, cwd, prompt.into_owned()]);
    }
    context.out.grid(&grid)
}

/// The prompt from a little before the first of the words on, when it stands far behind.
fn around<'p>(prompt: &'p str, words: &[String]) -> Cow<'p, str> {
    let folded = prompt.to_lowercase();
    // Where lower case has another length, positions in one say nothing about the other.
    let found = words.iter().filter_map(|word| folded.find(&word.to_lowercase())).min();
    let Some(found) = found.filter(|_| folded.len() == prompt.len()) else { return Cow::Borrowed(prompt) };
    let before = prompt.get(..found).unwrap_or_default();
    if before.chars().count() <= FAR {
        return Cow::Borrowed(prompt);
    }
    let start = before.char_indices().rev().nth(BEFORE - 1).map_or(0, |(at, _)| at);
    // Better a whole word than one more.
    let start = before[start..].find(' ').map_or(start, |space| start + space + 1);
    Cow::Owned(format!("…{}", &prompt[start..]))
}

/// The whole answer.
pub(super) fn answer(context: &mut Context, kind: &str, entries: &[Entry]) -> Result<Exit> {
    table(context, entries)?;
    json(context, kind, entries)
}

/// The answer for programs.
pub(super) fn json(context: &mut Context, kind: &str, entries: &[Entry]) -> Result<Exit> {
    context.out.json(kind, entries.iter().map(Shown::of).collect::<Vec<_>>())?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_far_behind_is_shown_with_a_little_before_it() {
        let long = "please look at everything that there is and then fix the Login form, and all that follows";
        let words = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(around(long, &words("login")), "…fix the Login form, and all that follows");
        assert_eq!(around(long, &words("login look")), long);
        assert_eq!(around(long, &words("nowhere")), long);
        let wide = "漢".repeat(30) + "x";
        assert_eq!(around(&wide, &words("x")), format!("…{}x", "漢".repeat(12)));
        assert_eq!(around("İ and a long way to go until here x", &words("x")), "İ and a long way to go until here x");
    }
}
