//! The only place that prints. Text of others is cleaned of control sequences, tables fit the terminal, JSON comes in one
//! versioned envelope, and a closed pipe is no failure.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is the place that prints")]

use std::borrow::Cow;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use session_core::Environment;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::exit::Exit;

/// The envelope's version; see the long help.
pub(crate) const SCHEMA: &str = "watcher/1";
/// The width of a table that goes to no terminal.
const UNBOUNDED: usize = usize::MAX;

/// Who reads what is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    Json,
}

/// Emphasis, where the terminal and the user want it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Strong,
    Faint,
}

/// Where a command's answer goes.
pub(crate) struct Output {
    form: Form,
    out: BufWriter<Stdout>,
    colors: bool,
    width: usize,
}

#[derive(Serialize)]
struct Envelope<'a, T: Serialize> {
    schema: &'static str,
    kind: &'a str,
    data: T,
}

impl Output {
    pub(crate) fn new(form: Form, environment: &Environment) -> Self {
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        let colors = terminal
            && environment.variable("NO_COLOR").is_none()
            && environment.variable("TERM") != Some("dumb".as_ref());
        let width = if terminal {
            rustix::termios::tcgetwinsize(&stdout).map_or(80, |size| usize::from(size.ws_col).max(20))
        } else {
            UNBOUNDED
        };
        Self { form, out: BufWriter::new(stdout), colors, width }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.form == Form::Json
    }

    /// One JSON object in its envelope. Does nothing when text is wanted.
    pub(crate) fn json(&mut self, kind: &str, data: impl Serialize) -> Result<()> {
        if self.is_json() {
            serde_json::to_writer(&mut self.out, &Envelope { schema: SCHEMA, kind, data }).map_err(io::Error::from)?;
            self.out.write_all(b"\n")?;
        }
        Ok(())
    }

    /// A line of text, cleaned. Does nothing when JSON is wanted.
    pub(crate) fn line(&mut self, text: &str) -> Result<()> {
        self.toned(Tone::Plain, text)
    }

    /// A line in a tone.
    pub(crate) fn toned(&mut self, tone: Tone, text: &str) -> Result<()> {
        if !self.is_json() {
            let text = paint(self.colors, tone, &clean(text));
            writeln!(self.out, "{text}")?;
        }
        Ok(())
    }

    /// Text of several lines, its line ends kept.
    pub(crate) fn text(&mut self, text: &str) -> Result<()> {
        text.lines().try_for_each(|line| self.line(line))
    }

    /// Rows in columns; the last column takes what room is left. Does nothing when JSON is wanted.
    pub(crate) fn table(&mut self, rows: &[Vec<String>]) -> Result<()> {
        if self.is_json() {
            return Ok(());
        }
        let (colors, width) = (self.colors, self.width);
        for line in layout(rows, width) {
            let mut text = String::new();
            for (column, cell) in line.iter().enumerate() {
                let tone = if column + 1 == line.len() { Tone::Plain } else { Tone::Faint };
                text.push_str(&paint(colors, tone, cell));
            }
            writeln!(self.out, "{}", text.trim_end())?;
        }
        Ok(())
    }

    /// Hands everything to whoever reads.
    pub(crate) fn finish(&mut self) -> Result<()> {
        Ok(self.out.flush()?)
    }

    /// Why the command failed.
    pub(crate) fn failure(&mut self, error: &anyhow::Error, exit: Exit) {
        #[derive(Serialize)]
        struct Failure {
            message: String,
            exit: u8,
        }
        let message = format!("{error:#}");
        let failure = Failure { message: message.clone(), exit: exit.code() };
        let _ = self.json("error", failure).and_then(|()| self.finish());
        let _ = writeln!(io::stderr(), "watcher: {}", clean(&message));
    }
}

/// A remark beside the answer, on standard error.
pub(crate) fn remark(text: &str) {
    let _ = writeln!(io::stderr(), "{}", clean(text));
}

/// Does `work`; when it takes longer than a second and standard error is a terminal, a line there says how far it is.
pub(crate) fn with_progress<T>(how_far: impl Fn() -> String + Send, work: impl FnOnce() -> T) -> T {
    if !io::stderr().is_terminal() {
        return work();
    }
    std::thread::scope(|scope| {
        let (done, waits) = mpsc::channel::<()>();
        scope.spawn(move || {
            let mut pause = Duration::from_secs(1);
            while waits.recv_timeout(pause) == Err(mpsc::RecvTimeoutError::Timeout) {
                pause = Duration::from_millis(200);
                let _ = write!(io::stderr(), "\r\x1b[K{}", clean(&how_far()));
            }
            if pause < Duration::from_secs(1) {
                let _ = write!(io::stderr(), "\r\x1b[K");
            }
        });
        let result = work();
        drop(done);
        result
    })
}

/// Whether an error is that nobody reads any more.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Text without anything that a terminal would obey: control characters, and marks that turn the direction of text.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    let harmful = |c: char| {
        c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if text.contains(harmful) {
        let seen = |c: char| match c {
            '\t' | '\n' | '\r' => ' ',
            c if harmful(c) => '\u{fffd}',
            c => c,
        };
        Cow::Owned(text.chars().map(seen).collect())
    } else {
        Cow::Borrowed(text)
    }
}

/// The beginning of a text that fits `width` columns, with an ellipsis when something is missing.
fn fit(text: &str, width: usize) -> Cow<'_, str> {
    if text.width() <= width {
        return Cow::Borrowed(text);
    }
    let mut used = 0;
    let mut fitting = String::new();
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used >= width {
            break;
        }
        fitting.push(c);
    }
    fitting.push('…');
    Cow::Owned(fitting)
}

fn layout(rows: &[Vec<String>], width: usize) -> Vec<Vec<String>> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let rows: Vec<Vec<Cow<'_, str>>> = rows.iter().map(|row| row.iter().map(|cell| clean(cell)).collect()).collect();
    let widest =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.saturating_sub(1)).map(widest).collect();
    let before: usize = widths.iter().map(|width| width + 2).sum();
    let room = width.saturating_sub(before).max(10);
    let cell = |column: usize, cell: &str| match widths.get(column) {
        Some(width) => format!("{cell}{}  ", " ".repeat(width - cell.width())),
        None => fit(cell, room).into_owned(),
    };
    rows.iter().map(|row| row.iter().enumerate().map(|(column, text)| cell(column, text)).collect()).collect()
}

fn paint(colors: bool, tone: Tone, text: &str) -> String {
    match tone {
        Tone::Strong if colors => format!("\x1b[1m{text}\x1b[0m"),
        Tone::Faint if colors => format!("\x1b[2m{text}\x1b[0m"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_nobody_s_text() {
        assert_eq!(clean("plain é 漢"), "plain é 漢");
        assert_eq!(clean("a\x1b[31mb\u{9b}c\u{202e}d\ne\tf\0"), "a\u{fffd}[31mb\u{fffd}c\u{fffd}d e f\u{fffd}");
    }

    #[test]
    fn tables_fit_the_terminal() {
        let rows = vec![vec!["1".to_owned(), "漢漢漢漢漢漢漢漢".to_owned()], vec!["22".to_owned(), "x".to_owned()]];
        let lines: Vec<String> = layout(&rows, 14).iter().map(|line| line.concat()).collect();
        assert_eq!(lines, ["1   漢漢漢漢…", "22  x"]);
        assert!(lines.iter().all(|line| line.width() <= 14));
        assert_eq!(layout(&rows, UNBOUNDED)[0].concat(), "1   漢漢漢漢漢漢漢漢");
    }
}
