//! `watcher sessions export`: a session for people (Markdown) or programs (JSON, JSON lines). The session is only read; a
//! file that exists is never written over.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::value::RawValue;
use session_core::{Leaf, Session};

use crate::cli::Context;
use crate::cli::file_out;
use crate::cli::named::{self, Named};
use crate::cli::output::{clean, envelope};
use crate::cli::times;
use crate::cli::transcript::{Part, Speaker, Turn, payload, turns};
use crate::exit::Exit;

/// A session as Markdown, JSON, or JSON lines of one branch
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher sessions export 15c0 > talk.md
  watcher sessions export 15c0 --format json -o talk.json
  watcher sessions export 15c0 --format jsonl --leaf 0000002a -o branch.jsonl

`md` is what was said on one branch; `json` the header and every entry; `jsonl` one branch as a session file that agents
can open. With --json it is `json`.")]
pub(crate) struct Export {
    #[command(flatten)]
    session: Named,
    /// In what form
    #[arg(short, long, value_enum, default_value = "md")]
    format: Format,
    /// What led to this entry [default: the last one]
    #[arg(long, value_name = "ID")]
    leaf: Option<String>,
    /// Into a new file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Md,
    Json,
    Jsonl,
}

#[derive(Serialize)]
struct Whole {
    path: Option<String>,
    header: Box<RawValue>,
    leaf: Option<String>,
    entries: Vec<Box<RawValue>>,
    /// Entries whose content is no JSON and is left out.
    unreadable: usize,
}

impl Export {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit> {
        let session = self.session.read(context)?;
        let leaf = named::leaf(&session, self.leaf.as_deref())?;
        let format = if context.out.is_json() { Format::Json } else { self.format };
        let bytes = match format {
            Format::Md => markdown(&session, &leaf)?.into_bytes(),
            Format::Json => json(&session)?,
            Format::Jsonl => lines(&session, &leaf)?,
        };
        match &self.output {
            Some(file) => {
                file_out::create(&context.environment.cwd()?.join(file), &bytes)?;
                context.out.json("sessions.export", file_out::Written::to(file))?;
            }
            None => context.out.raw(&bytes)?,
        }
        Ok(Exit::Done)
    }
}

fn json(session: &Session) -> Result<Vec<u8>> {
    let header = session.header().context("the session has no header")?.migrated();
    let mut whole = Whole {
        path: session.path().map(|path| path.display().to_string()),
        header: RawValue::from_string(String::from_utf8_lossy(&header).into_owned())?,
        leaf: session.leaf_id().map(str::to_owned),
        entries: Vec::with_capacity(session.entries().len()),
        unreadable: 0,
    };
    for entry in session.entries() {
        match payload(entry)? {
            Some(json) => whole.entries.push(RawValue::from_string(json.as_str().to_owned())?),
            None => whole.unreadable += 1,
        }
    }
    envelope("sessions.export", whole)
}

/// One branch as a session file. Entries keep their bytes; only the branches that were not taken are missing.
fn lines(session: &Session, leaf: &Leaf) -> Result<Vec<u8>> {
    let mut lines = session.header().context("the session has no header")?.migrated();
    lines.push(b'\n');
    for entry in session.branch_path(leaf) {
        if let Some(json) = payload(entry)? {
            lines.extend_from_slice(json.as_str().as_bytes());
            lines.push(b'\n');
        }
    }
    Ok(lines)
}

fn markdown(session: &Session, leaf: &Leaf) -> Result<String> {
    let mut text = format!("# {}\n\n", clean(&named::called(session)?));
    if let Some(header) = session.header() {
        let _ = writeln!(text, "- session `{}`", clean(header.id().as_str()));
        if let Some(cwd) = header.cwd() {
            let _ = writeln!(text, "- directory `{}`", clean(&cwd));
        }
        if let Some(time) = header.timestamp() {
            let _ = writeln!(text, "- begun {}", times::local(time.seconds()));
        }
    }
    for turn in turns(session, leaf)? {
        turn_markdown(&mut text, &turn);
    }
    Ok(text)
}

fn turn_markdown(text: &mut String, turn: &Turn) {
    if let ([Part::Note { text: note }], None) = (turn.parts.as_slice(), &turn.label) {
        let _ = write!(text, "\n*{}*\n", clean(note));
        return;
    }
    if turn.speaker != Speaker::Tool {
        let label = turn.label.as_ref().map(|label| format!(" [{}]", clean(label))).unwrap_or_default();
        let model = turn.model.as_ref().map(|model| format!(" ({})", clean(model))).unwrap_or_default();
        let _ = write!(text, "\n## {}{model}{label}\n", clean(&turn.role));
    }
    for part in &turn.parts {
        text.push('\n');
        match part {
            Part::Text { text: said } => paragraph(text, said),
            Part::Thinking { text: thought } => details(text, "thinking", thought),
            Part::Call { name, arguments } => {
                details(text, &format!("→ {name}"), arguments.as_deref().unwrap_or_default());
            }
            Part::Output { name, text: output, failed } => {
                let what = if *failed { "failed" } else { "gave" };
                details(text, &format!("← {name} {what}"), output);
            }
            Part::Image { kind, .. } => paragraph(text, &format!("*[{kind}]*")),
            Part::Note { text: note } => paragraph(text, &format!("*{note}*")),
            Part::Stopped { reason } => paragraph(text, &format!("**stopped: {reason}**")),
        }
    }
}

fn paragraph(to: &mut String, text: &str) {
    for line in text.lines() {
        to.push_str(&clean(line));
        to.push('\n');
    }
}

/// A block that folds, fenced so that nothing in it is Markdown.
fn details(to: &mut String, title: &str, text: &str) {
    let longest = text.lines().map(|line| line.trim_start().chars().take_while(|c| *c == '`').count()).max();
    let fence = "`".repeat(longest.unwrap_or(0).max(2) + 1);
    let title = clean(title).replace('&', "&amp;").replace('<', "&lt;");
    let _ = write!(to, "<details><summary>{title}</summary>\n\n{fence}text\n");
    paragraph(to, text);
    let _ = write!(to, "{fence}\n\n</details>\n");
}
