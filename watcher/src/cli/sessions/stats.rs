//! `watcher sessions stats`: what sessions used: tokens, cost, models, tools, by day. Writes nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, anyhow};
use clap::Args;
use serde::Serialize;
use session_core::{Block, EntryKind, ListDepth, Message, Role, Session, Timestamp, Usage};

use super::list::say_none;
use crate::cli::grid::{Column, Grid};
use crate::cli::output::{Tone, UNBOUNDED, with_progress};
use crate::cli::text::{count, money, plural, wrap};
use crate::cli::transcript::payload;
use crate::cli::{Context, completions, named, times};
use crate::exit::{Exit, Refusal};

/// The longest bar.
const BAR: usize = 40;
/// So many days and tools are shown; `--json` has all.
const SHOWN: usize = 30;

/// Tokens, cost, models, tools and days
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher sessions stats                    this directory
  watcher sessions stats --all --since 7d   the last week, wherever it was
  watcher sessions stats 15c0               one session
  watcher sessions stats --since 2026-01-01 --json

Sub-agents count with the session that started them, as the harness recorded it.")]
pub(crate) struct Stats {
    /// Only this session
    #[arg(conflicts_with_all = ["all", "cwd"], add = completions::sessions())]
    session: Option<String>,
    /// Sessions of every directory
    #[arg(short, long, conflicts_with = "cwd")]
    all: bool,
    /// Sessions of this directory [default: the working directory]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Only what happened since: 2026-01-05, 12h, 7d
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Sum {
    messages: u64,
    input: f64,
    output: f64,
    cache_read: f64,
    cache_write: f64,
    premium_requests: f64,
    cost: f64,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Sums {
    sessions: usize,
    prompts: u64,
    total: Sum,
    models: BTreeMap<String, Sum>,
    /// Calls by tool.
    tools: BTreeMap<String, u64>,
    /// By day of the local time zone; messages without a time are in none.
    days: BTreeMap<String, Sum>,
    since: Option<String>,
}

impl Sum {
    fn add(&mut self, usage: Usage) {
        self.messages += 1;
        self.input += usage.input;
        self.output += usage.output;
        self.cache_read += usage.cache_read;
        self.cache_write += usage.cache_write;
        self.premium_requests += usage.premium_requests;
        self.cost += usage.cost;
    }

    fn tokens(&self) -> f64 {
        self.input + self.output + self.cache_read + self.cache_write
    }
}

impl Stats {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit> {
        let now = context.now()?;
        let since = self.since.as_deref().map(|text| times::named(text, now)).transpose();
        let since = since.map_err(|message| anyhow!(Refusal::new(Exit::Usage, message)))?;
        let files = self.files(context)?;
        let done = AtomicUsize::new(0);
        let how_far = || format!("adding up {}, {} done", plural(files.len(), "session"), done.load(Ordering::Relaxed));
        let mut sums = with_progress(how_far, || -> Result<Sums> {
            let mut sums = Sums::default();
            for file in &files {
                // One that can't be read is said and hides no other; alone it is the failure.
                match Session::read(file) {
                    Ok(session) => sums.add(&session, since)?,
                    Err(error) if files.len() > 1 => context.remark(&error.to_string()),
                    Err(error) => return Err(error.into()),
                }
                done.fetch_add(1, Ordering::Relaxed);
            }
            Ok(sums)
        })?;
        sums.since = since.map(|since| since.to_string());
        sums.show(context)?;
        context.out.json("sessions.stats", sums)?;
        Ok(Exit::Done)
    }

    fn files(&self, context: &Context) -> Result<Vec<PathBuf>> {
        if let Some(session) = &self.session {
            return Ok(named::read(context, session)?.path().map(Path::to_owned).into_iter().collect());
        }
        let catalog = context.catalog()?.with_depth(ListDepth::Header);
        let cwd = context.directory(self.cwd.as_deref())?;
        let listing = if self.all { catalog.list_all()? } else { catalog.list(Some(&cwd), None)? };
        for problem in &listing.problems {
            context.remark(&problem.to_string());
        }
        if listing.sessions.is_empty() {
            say_none(context, (!self.all).then_some(cwd.as_path()))?;
        }
        Ok(listing.sessions.iter().map(|session| session.path().to_owned()).collect())
    }
}

impl Sums {
    fn add(&mut self, session: &Session, since: Option<Timestamp>) -> Result<()> {
        let mut counts = false;
        for entry in session.entries().filter(|entry| entry.kind() == EntryKind::Message) {
            let time = entry.timestamp();
            if since.is_some_and(|since| time.is_none_or(|time| time < since)) {
                continue;
            }
            let Some(json) = payload(entry)? else { continue };
            let Some(message) = json.view().get("message").map(Message::new) else { continue };
            counts = true;
            let usage = Usage::of(message);
            match message.role() {
                Role::User if !message.is_by_program() => self.prompts += 1,
                Role::Assistant => {
                    let model = match (message.provider(), message.model()) {
                        (Some(provider), Some(model)) => format!("{provider}/{model}"),
                        (None, Some(model)) => model.into_owned(),
                        _ => "(not said)".to_owned(),
                    };
                    self.models.entry(model).or_default().add(usage);
                    for block in message.blocks() {
                        if let Block::ToolCall { name, .. } = block {
                            *self.tools.entry(name.into_owned()).or_default() += 1;
                        }
                    }
                }
                _ => {}
            }
            self.total.add(usage);
            if let Some(time) = time {
                self.days.entry(times::day(time)).or_default().add(usage);
            }
        }
        self.sessions += usize::from(counts || since.is_none());
        Ok(())
    }

    fn show(&self, context: &mut Context) -> Result<()> {
        let out = &mut context.out;
        let total = &self.total;
        let messages = usize::try_from(total.messages).unwrap_or(usize::MAX);
        let prompts = usize::try_from(self.prompts).unwrap_or(usize::MAX);
        let head =
            [plural(self.sessions, "session"), plural(prompts, "prompt"), plural(messages, "message")].join(", ");
        out.toned(Tone::Strong, &head)?;
        let parts = [
            ("in", total.input),
            ("out", total.output),
            ("cache read", total.cache_read),
            ("cache written", total.cache_write),
        ];
        // Lines break between numbers, not within what one is called.
        let parts = parts.map(|(what, number)| format!("{} {what}", count(number)).replace(' ', "\u{a0}"));
        let tokens = format!("{} tokens: {}", count(total.tokens()), parts.join(", "));
        for line in wrap(&tokens, out.columns().unwrap_or(UNBOUNDED)) {
            out.line(&line.replace('\u{a0}', " "))?;
        }
        if total.cost > 0.0 {
            out.line(&format!("{} in all", money(total.cost)))?;
        }
        if !self.models.is_empty() {
            let mut models: Vec<(&String, &Sum)> = self.models.iter().collect();
            models.sort_by(|a, b| b.1.tokens().total_cmp(&a.1.tokens()));
            let mut grid = Grid::new([
                Column::right("ANSWERS"),
                Column::right("TOKENS"),
                Column::right("OUT").from(70),
                Column::right("COST"),
                Column::left("MODEL"),
            ]);
            for (model, sum) in models {
                grid.row([
                    sum.messages.to_string(),
                    count(sum.tokens()),
                    count(sum.output),
                    money(sum.cost),
                    model.clone(),
                ]);
            }
            out.line("")?;
            out.grid(&grid)?;
        }
        if !self.tools.is_empty() {
            let mut tools: Vec<(&String, &u64)> = self.tools.iter().collect();
            tools.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
            let mut grid = Grid::new([Column::right("CALLS"), Column::left("TOOL")]);
            for (tool, calls) in tools.into_iter().take(SHOWN) {
                grid.row([calls.to_string(), tool.clone()]);
            }
            out.line("")?;
            out.grid(&grid)?;
        }
        if !self.days.is_empty() {
            // Cost is what people ask for; where none is recorded, tokens.
            let of = |sum: &Sum| if total.cost > 0.0 { sum.cost } else { sum.tokens() };
            let most = self.days.values().map(of).fold(0.0, f64::max);
            let mut grid = Grid::new([
                Column::left("DAY"),
                Column::right("MESSAGES").from(70),
                Column::right("TOKENS"),
                Column::right("COST"),
                Column::left(""),
            ]);
            let room = out.columns().map_or(BAR, |columns| columns.saturating_sub(42).clamp(10, BAR));
            for (day, sum) in self.days.iter().skip(self.days.len().saturating_sub(SHOWN)) {
                grid.row([
                    day.clone(),
                    sum.messages.to_string(),
                    count(sum.tokens()),
                    money(sum.cost),
                    bar(of(sum), most, room),
                ]);
            }
            out.line("")?;
            out.grid(&grid)?;
        }
        Ok(())
    }
}

/// A bar in eighths of a column; the greatest value is as long as there is room.
fn bar(value: f64, most: f64, room: usize) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if most <= 0.0 || value <= 0.0 {
        return String::new();
    }
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "between 1 and eight times the room"
    )]
    let eighths = ((value / most * (room * 8) as f64).round() as usize).clamp(1, room * 8);
    format!("{}{}", "█".repeat(eighths / 8), PARTS[eighths % 8])
}

#[cfg(test)]
mod tests {
    use super::bar;

    #[test]
    fn bars_are_as_long_as_their_value() {
        assert_eq!([bar(4.0, 4.0, 4), bar(2.0, 4.0, 4), bar(0.001, 4.0, 4)], ["████", "██", "▏"]);
        assert_eq!([bar(0.0, 4.0, 4), bar(1.0, 0.0, 4), bar(2.5, 4.0, 4)], ["", "", "██▌"]);
    }
}
