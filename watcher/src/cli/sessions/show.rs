//! `watcher sessions show`: a session as a transcript that a person can read. Writes nothing.

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use session_core::{Defect, Header, Session, Usage};

use super::sums::branches;
use crate::cli::Context;
use crate::cli::named::{self, Named};
use crate::cli::output::{Output, Tone, clean};
use crate::cli::text::{self, count, money};
use crate::cli::times;
use crate::cli::transcript::{Part, Speaker, Turn, gist, turns};
use crate::exit::Exit;

/// So many defects are listed; `--json` lists all that were kept.
const DEFECTS: usize = 10;
/// So many lines of a tool's output are shown.
const OUTPUT_LINES: usize = 40;

/// What was said in a session, as a transcript
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher sessions show 15c0                the session whose id begins so
  watcher sessions show 'fix the login'     the one with this name
  watcher sessions show path/to/x.jsonl --thinking --tools
  watcher sessions show 15c0 --leaf 0000002a   another branch: what led to that entry

At a terminal it goes through $PAGER (less); PAGER=cat turns that off. Defects of the file are listed first.")]
pub(crate) struct Show {
    #[command(flatten)]
    session: Named,
    /// What led to this entry [default: the last one]
    #[arg(long, value_name = "ID")]
    leaf: Option<String>,
    /// What the model thought, too
    #[arg(long)]
    thinking: bool,
    /// Tool calls with their arguments and what they gave, too
    #[arg(long)]
    tools: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Detail {
    path: String,
    id: String,
    version: Option<f64>,
    cwd: Option<String>,
    name: Option<String>,
    created: Option<String>,
    parent: Option<String>,
    entries: usize,
    branches: usize,
    leaf: Option<String>,
    cost: f64,
    defects: Vec<Flaw>,
    defect_count: u64,
    turns: Vec<Turn>,
}

/// A defect of the file.
#[derive(Serialize)]
pub(super) struct Flaw {
    line: u64,
    offset: u64,
    kind: &'static str,
    meaning: &'static str,
}

impl Flaw {
    pub(super) fn of(defect: &Defect) -> Self {
        let kind = defect.kind();
        Self { line: defect.line(), offset: defect.offset(), kind: kind.name(), meaning: kind.meaning() }
    }
}

impl Show {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit> {
        let session = self.session.read(context)?;
        let leaf = named::leaf(&session, self.leaf.as_deref())?;
        let defects = session.examine()?;
        let turns = turns(&session, &leaf)?;
        let usage = session.usage()?;
        let header = session.header();
        let path = session.path().unwrap_or("".as_ref()).to_owned();
        let name = named::called(&session)?;

        let environment = context.environment.clone();
        let cwd = header.and_then(Header::cwd);
        let place = cwd.as_ref().map(|cwd| context.homely(cwd.as_ref()));
        let file = context.homely(&path);
        let out = &mut context.out;
        out.page(&environment);
        out.toned(Tone::Strong, &name)?;
        out.paragraph(Tone::Faint, 0, &summary(&session, &usage))?;
        for (what, value) in [("directory", place), ("file", Some(file))] {
            if let Some(value) = value {
                out.toned(Tone::Faint, &format!("{what:<10}{value}"))?;
            }
        }
        for defect in defects.list().iter().take(DEFECTS) {
            let (line, offset) = (defect.line(), defect.offset());
            out.paragraph(Tone::Bad, 0, &format!("line {line} (byte {offset}): {}", defect.kind().meaning()))?;
        }
        let more = defects.total().saturating_sub(DEFECTS as u64);
        if more > 0 {
            out.toned(Tone::Bad, &format!("and {more} more defects"))?;
        }
        for turn in &turns {
            self.turn(out, turn)?;
        }
        let detail = Detail {
            path: path.display().to_string(),
            id: header.map(|header| header.id().to_string()).unwrap_or_default(),
            version: header.and_then(|header| match header.version() {
                session_core::FormatVersion::Number(number) => Some(number),
                _ => None,
            }),
            cwd,
            name: session.name()?,
            created: header.and_then(Header::timestamp).map(|time| time.to_string()),
            parent: header.and_then(Header::parent_session),
            entries: session.entries().len(),
            branches: branches(&session),
            leaf: session.leaf_id().map(str::to_owned),
            cost: usage.cost,
            defects: defects.list().iter().map(Flaw::of).collect(),
            defect_count: defects.total(),
            turns,
        };
        context.out.json("sessions.show", detail)?;
        Ok(Exit::Done)
    }

    fn turn(&self, out: &mut Output, turn: &Turn) -> Result<()> {
        let shown: Vec<&Part> = turn.parts.iter().filter(|part| self.is_shown(part)).collect();
        if shown.is_empty() && turn.label.is_none() {
            return Ok(());
        }
        if let ([Part::Note { text }], None) = (shown.as_slice(), &turn.label) {
            return out.paragraph(Tone::Faint, 0, &format!("· {text}"));
        }
        out.line("")?;
        heading(out, turn)?;
        shown.into_iter().try_for_each(|part| self.part(out, part))
    }

    fn is_shown(&self, part: &Part) -> bool {
        match part {
            Part::Thinking { .. } => self.thinking,
            Part::Output { .. } => self.tools,
            _ => true,
        }
    }

    fn part(&self, out: &mut Output, part: &Part) -> Result<()> {
        match part {
            Part::Text { text } => out.paragraph(Tone::Plain, 2, text),
            Part::Thinking { text } => out.paragraph(Tone::Faint, 4, text),
            Part::Call { name, arguments } => call(out, name, arguments.as_deref(), self.tools),
            Part::Output { name, text, failed } => output(out, name, text, *failed),
            Part::Image { kind, size } => {
                out.paragraph(Tone::Faint, 2, &format!("[{kind}, {}]", text::size(*size as u64)))
            }
            Part::Note { text } => out.paragraph(Tone::Faint, 2, text),
            Part::Stopped { reason } => out.paragraph(Tone::Bad, 2, &format!("stopped: {reason}")),
        }
    }
}

/// Who spoke, when, and by what id it can be named.
pub(super) fn heading(out: &mut Output, turn: &Turn) -> Result<()> {
    let tone = if turn.speaker == Speaker::Person { Tone::Person } else { Tone::Strong };
    let time = turn.time.as_deref().map(times::local_text);
    let entry = Some(turn.entry.clone()).filter(|entry| !entry.is_empty());
    let faint: Vec<String> = [time, entry, turn.model.clone()].into_iter().flatten().collect();
    let faint = faint.join("  ");
    let label = turn.label.as_ref().map(|label| format!("  [{label}]")).unwrap_or_default();
    let who = turn.role.as_str();
    let room = out.columns().unwrap_or(usize::MAX);
    if text::width(who) + text::width(&label) + 2 + text::width(&faint) <= room {
        return out.pieces(&[(tone, who), (Tone::Mark, &label), (Tone::Faint, &format!("  {faint}"))]);
    }
    let label = text::fit(&clean(&label), room.saturating_sub(text::width(who)).max(1)).into_owned();
    out.pieces(&[(tone, who), (Tone::Mark, &label)])?;
    out.paragraph(Tone::Faint, 2, &faint)
}

/// A tool call: in one line, or with its arguments.
pub(super) fn call(out: &mut Output, name: &str, arguments: Option<&str>, whole: bool) -> Result<()> {
    let arguments = arguments.unwrap_or_default();
    if !whole {
        let columns = out.columns().unwrap_or(120);
        let name = text::fit(&clean(name), columns / 2).into_owned();
        let room = columns.saturating_sub(5 + text::width(&name)).max(10);
        return out.toned(Tone::Faint, &format!("  → {name} {}", text::fit(&clean(&gist(arguments)), room)));
    }
    out.pieces(&[(Tone::Plain, "  → "), (Tone::Strong, name)])?;
    out.paragraph(Tone::Faint, 4, arguments)
}

/// What a tool gave, the end left out when it is long.
pub(super) fn output(out: &mut Output, name: &str, text: &str, failed: bool) -> Result<()> {
    let (tone, what) = if failed { (Tone::Bad, "failed") } else { (Tone::Faint, "gave") };
    out.toned(tone, &format!("  ← {name} {what}"))?;
    let shown: Vec<&str> = text.lines().take(OUTPUT_LINES).collect();
    out.paragraph(Tone::Faint, 4, &shown.join("\n"))?;
    let more = text.lines().count().saturating_sub(OUTPUT_LINES);
    if more > 0 {
        out.toned(Tone::Faint, &format!("    … {more} more lines"))?;
    }
    Ok(())
}

fn summary(session: &Session, usage: &Usage) -> String {
    let created = session.header().and_then(Header::timestamp).map(|time| times::local(time.seconds()));
    let mut parts: Vec<String> = session.header().map(|header| header.id().to_string()).into_iter().collect();
    parts.extend(created);
    parts.push(text::entries(session.entries().len()));
    let branches = branches(session);
    if branches > 1 {
        parts.push(format!("{branches} branches"));
    }
    let tokens = usage.input + usage.output + usage.cache_read + usage.cache_write;
    if tokens > 0.0 {
        parts.push(format!("{} tokens", count(tokens)));
    }
    parts.extend(Some(money(usage.cost)).filter(|cost| !cost.is_empty()));
    parts.join(" · ")
}
