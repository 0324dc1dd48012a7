//! `watcher sessions context`: what the model would see next. Writes nothing.

use anyhow::Result;
use clap::Args;
use serde_json::value::RawValue;

use super::show::{call, heading, output};
use crate::cli::Context;
use crate::cli::named::{self, Named};
use crate::cli::output::Tone;
use crate::cli::text;
use crate::cli::transcript::{Part, of_message};
use crate::exit::Exit;

/// What the model would see next in a session: the messages and the settings in force
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher sessions context 15c0
  watcher sessions context 15c0 --leaf 0000002a      as if that entry were the last
  watcher sessions context 15c0 --json | jq '.data.messages | length'

What a compaction replaced, other branches and what extensions keep for themselves are not in it.")]
pub(crate) struct ContextOf {
    #[command(flatten)]
    session: Named,
    /// The entry to end at [default: the last one]
    #[arg(long, value_name = "ID")]
    leaf: Option<String>,
}

impl ContextOf {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit> {
        let session = self.session.read(context)?;
        let leaf = named::leaf(&session, self.leaf.as_deref())?;
        let built = session.context(&leaf)?;
        if context.out.is_json() {
            context.out.json("sessions.context", RawValue::from_string(built.to_json())?)?;
            return Ok(Exit::Done);
        }
        let environment = context.environment.clone();
        let out = &mut context.out;
        out.page(&environment);
        let bytes: usize = built.messages().iter().map(|message| message.json().as_str().len()).sum();
        let messages = text::plural(built.messages().len(), "message");
        out.toned(Tone::Strong, &format!("{messages}, {} of JSON", text::size(bytes as u64)))?;
        for (role, model) in built.models() {
            out.toned(Tone::Faint, &format!("model     {model} ({role})"))?;
        }
        let tools = built.mcp_tools().map(|tools| tools.join(", "));
        let rules = Some(built.injected_rules().join(", ")).filter(|rules| !rules.is_empty());
        for (what, value) in [
            ("thinking", Some(built.thinking_level().to_owned())),
            ("mode", Some(built.mode().to_owned()).filter(|mode| mode != "none")),
            ("tier", built.service_tier().map(str::to_owned)),
            ("tools", tools),
            ("rules", rules),
        ] {
            if let Some(value) = value {
                out.paragraph(Tone::Faint, 0, &format!("{what:<10}{value}"))?;
            }
        }
        for message in built.messages() {
            let mut turn = of_message(message.view());
            message.entry().as_str().clone_into(&mut turn.entry);
            let time = || session.entry(&turn.entry)?.timestamp().map(|time| time.to_string());
            turn.time = turn.time.clone().or_else(time);
            out.line("")?;
            heading(out, &turn)?;
            for part in &turn.parts {
                match part {
                    Part::Text { text } => out.paragraph(Tone::Plain, 2, text)?,
                    Part::Thinking { text } => out.paragraph(Tone::Faint, 4, text)?,
                    Part::Call { name, arguments } => call(out, name, arguments.as_deref(), true)?,
                    Part::Output { name, text, failed } => output(out, name, text, *failed)?,
                    Part::Image { kind, size } => {
                        out.paragraph(Tone::Faint, 2, &format!("[{kind}, {}]", text::size(*size as u64)))?;
                    }
                    Part::Note { text } => out.paragraph(Tone::Faint, 2, text)?,
                    Part::Stopped { reason } => out.paragraph(Tone::Bad, 2, &format!("stopped: {reason}"))?,
                }
            }
        }
        Ok(Exit::Done)
    }
}
