//! The only place that prints. Text of others is cleaned of control sequences, tables fit the terminal, JSON comes in one
//! versioned envelope, and a closed pipe is no failure.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is the place that prints")]

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::Child;
use std::sync::mpsc;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter};
use session_core::Environment;

use super::grid::Grid;
use super::pager;
use super::text;
use crate::exit::Exit;

/// The envelope's version; see the long help.
pub(crate) const SCHEMA: &str = "watcher/1";
/// The width of a table that goes to no terminal.
pub(super) const UNBOUNDED: usize = usize::MAX;

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
    /// What a person said, or what is theirs.
    Person,
    /// What should catch the eye: labels, the leaf.
    Mark,
    /// What went wrong.
    Bad,
}

/// Where a command's answer goes.
pub(crate) struct Output {
    form: Form,
    out: BufWriter<Box<dyn Write>>,
    pager: Option<Child>,
    is_terminal: bool,
    colors: bool,
    width: usize,
}

#[derive(Serialize)]
struct Envelope<'a, T: Serialize> {
    schema: &'static str,
    kind: &'a str,
    data: T,
}

/// Standard output, whose failures say what it is that failed.
struct Stdout(io::Stdout);

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(|error| of_stdout(&error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(|error| of_stdout(&error))
    }
}

fn of_stdout(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("standard output: {error}"))
}

impl Output {
    pub(crate) fn new(form: Form, environment: &Environment) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let colors = is_terminal
            && environment.variable("NO_COLOR").is_none()
            && environment.variable("TERM") != Some("dumb".as_ref());
        let width = columns(environment).unwrap_or(UNBOUNDED);
        Self { form, out: BufWriter::new(Box::new(Stdout(io::stdout()))), pager: None, is_terminal, colors, width }
    }

    /// Sends what follows through a pager, when a person reads text at a terminal. Without a pager that starts it is printed
    /// as it is.
    pub(crate) fn page(&mut self, environment: &Environment) {
        if self.is_terminal
            && !self.is_json()
            && let Some((child, input)) = pager::start(environment)
        {
            self.out = BufWriter::new(Box::new(input));
            self.pager = Some(child);
        }
    }

    /// Columns that text may take; none when it goes to no terminal.
    pub(crate) fn columns(&self) -> Option<usize> {
        (self.width != UNBOUNDED).then_some(self.width)
    }

    pub(crate) fn is_json(&self) -> bool {
        self.form == Form::Json
    }

    /// One JSON object in its envelope. Does nothing when text is wanted.
    pub(crate) fn json(&mut self, kind: &str, data: impl Serialize) -> Result<()> {
        if self.is_json() {
            self.out.write_all(&envelope(kind, data)?)?;
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

    /// A line of pieces, each in its tone.
    pub(crate) fn pieces(&mut self, pieces: &[(Tone, &str)]) -> Result<()> {
        if !self.is_json() {
            writeln!(self.out, "{}", joined(self.colors, pieces))?;
        }
        Ok(())
    }

    /// Text of several lines, indented and wrapped to the terminal.
    pub(crate) fn paragraph(&mut self, tone: Tone, indent: usize, text: &str) -> Result<()> {
        let room = self.columns().map_or(UNBOUNDED, |width| width.saturating_sub(indent).max(20));
        for line in text.lines() {
            // Tabs stand for an indentation here, not for a control character.
            let line = clean(line.trim_end_matches('\r')).into_owned();
            for part in text::wrap(&line, room) {
                self.pieces(&[(Tone::Plain, &" ".repeat(indent)), (tone, part)])?;
            }
        }
        Ok(())
    }

    /// Rows in columns under their titles, as many of them as the terminal is wide for.
    pub(crate) fn grid(&mut self, grid: &Grid) -> Result<()> {
        if self.is_json() {
            return Ok(());
        }
        for (n, line) in grid.lines(self.columns()).into_iter().enumerate() {
            let last = line.len().saturating_sub(1);
            let tone = |column: usize| match (n, column) {
                (0, _) => Tone::Faint,
                (_, column) if column == last => Tone::Plain,
                _ => Tone::Faint,
            };
            let pieces: Vec<(Tone, &str)> =
                line.iter().enumerate().map(|(column, cell)| (tone(column), cell.as_str())).collect();
            self.pieces(&pieces)?;
        }
        Ok(())
    }

    /// A line of JSON as the answer itself: what a terminal would obey is escaped, so the value stays what it is. Does nothing
    /// when the envelope is wanted.
    pub(crate) fn json_line(&mut self, json: &str) -> Result<()> {
        if !self.is_json() {
            writeln!(self.out, "{}", escaped(json))?;
        }
        Ok(())
    }

    /// Bytes as they are: what another program is to read. Not cleaned, so never for a person.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.out.write_all(bytes)?)
    }

    /// Text of several lines, its line ends kept.
    pub(crate) fn text(&mut self, text: &str) -> Result<()> {
        text.lines().try_for_each(|line| self.line(line))
    }

    /// Hands everything to whoever reads.
    pub(crate) fn finish(&mut self) -> Result<()> {
        let flushed = self.out.flush();
        if let Some(mut pager) = self.pager.take() {
            // The pager sees the end only when its input is closed.
            self.out = BufWriter::new(Box::new(Stdout(io::stdout())));
            // How a pager ended is between it and its reader.
            let _ = pager.wait();
        }
        Ok(flushed?)
    }

    /// Why the command failed, for programs alone.
    pub(crate) fn failed(&mut self, message: &str, exit: Exit) {
        #[derive(Serialize)]
        struct Failure<'m> {
            message: &'m str,
            exit: u8,
        }
        let _ = self.json("error", Failure { message, exit: exit.code() }).and_then(|()| self.finish());
    }
}

/// Columns that text on standard output may take; none when it goes to no terminal and nobody said.
pub(super) fn columns(environment: &Environment) -> Option<usize> {
    let stdout = io::stdout();
    // `COLUMNS` is how a caller says what it will show the answer in; a shell keeps its own to itself.
    let said = environment.variable("COLUMNS").and_then(|columns| columns.to_str()?.parse::<usize>().ok());
    match said {
        Some(columns) => Some(columns.max(20)),
        // A terminal that does not know how wide it is says 0.
        None if stdout.is_terminal() => match rustix::termios::tcgetwinsize(&stdout).map(|size| size.ws_col) {
            Ok(0) | Err(_) => Some(80),
            Ok(columns) => Some(usize::from(columns).max(20)),
        },
        None => None,
    }
}

/// Data in its envelope, with a line end.
pub(super) fn envelope(kind: &str, data: impl Serialize) -> Result<Vec<u8>> {
    let mut json = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut json, Numbers);
    Envelope { schema: SCHEMA, kind, data }.serialize(&mut serializer)?;
    let json = String::from_utf8(json)?;
    let mut bytes = escaped(&json).into_owned().into_bytes();
    bytes.push(b'\n');
    Ok(bytes)
}

/// Compact JSON in which a whole number is written as one: `3`, whether or not it could have had a fraction.
struct Numbers;

impl Formatter for Numbers {
    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        // Up to here each whole number is itself; larger ones keep their exponent.
        if value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_992.0 {
            // No sign before a zero.
            write!(writer, "{:.0}", value + 0.0)
        } else {
            CompactFormatter.write_f64(writer, value)
        }
    }
}

/// A remark beside the answer, on standard error; commands make theirs by `Context::remark`.
pub(super) fn remark(text: &str) {
    for line in text.lines() {
        let _ = writeln!(io::stderr(), "{}", clean(line));
    }
}

/// Asks for an answer, on standard error.
pub(super) fn question(text: &str) {
    let _ = write!(io::stderr(), "{}", clean(text));
    let _ = io::stderr().flush();
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
    if text.contains(is_harmful) {
        let seen = |c: char| match c {
            '\t' | '\n' | '\r' => ' ',
            c if is_harmful(c) => '\u{fffd}',
            c => c,
        };
        Cow::Owned(text.chars().map(seen).collect())
    } else {
        Cow::Borrowed(text)
    }
}

fn is_harmful(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// JSON in one line without anything that a terminal would obey: the same value in another spelling. Most of it can stand in
/// texts only, where an escape means the same; tabs and line ends only between tokens.
fn escaped(json: &str) -> Cow<'_, str> {
    if !json.contains(is_harmful) {
        return Cow::Borrowed(json);
    }
    let mut text = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        match c {
            '\t' | '\n' | '\r' => text.push(' '),
            c if is_harmful(c) => {
                let _ = write!(text, "\\u{:04x}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    Cow::Owned(text)
}

/// A line of pieces. Blanks at its end are left out before anything is painted: behind it they would stay.
fn joined(colors: bool, pieces: &[(Tone, &str)]) -> String {
    let mut pieces: Vec<(Tone, Cow<'_, str>)> = pieces.iter().map(|(tone, text)| (*tone, clean(text))).collect();
    while let Some((tone, text)) = pieces.pop() {
        let text = text.trim_end().to_owned();
        if !text.is_empty() {
            pieces.push((tone, text.into()));
            break;
        }
    }
    pieces.iter().map(|(tone, text)| paint(colors, *tone, text)).collect()
}

fn paint(colors: bool, tone: Tone, text: &str) -> String {
    match tone {
        Tone::Strong if colors => format!("\x1b[1m{text}\x1b[0m"),
        Tone::Faint if colors => format!("\x1b[2m{text}\x1b[0m"),
        Tone::Person if colors => format!("\x1b[1;32m{text}\x1b[0m"),
        Tone::Mark if colors => format!("\x1b[33m{text}\x1b[0m"),
        Tone::Bad if colors => format!("\x1b[31m{text}\x1b[0m"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_ends_in_blanks() {
        let line = [(Tone::Plain, "a "), (Tone::Faint, "DAY   "), (Tone::Faint, ""), (Tone::Plain, "  ")];
        assert_eq!(joined(true, &line), "a \u{1b}[2mDAY\u{1b}[0m");
        assert_eq!(joined(false, &line), "a DAY");
        assert_eq!(joined(true, &[(Tone::Faint, " ")]), "");
    }

    #[test]
    fn whole_numbers_are_written_as_whole_numbers() {
        let raw = serde_json::value::RawValue::from_string("[3.0]".to_owned()).unwrap();
        let bytes = envelope("k", ([3.0, -0.0, 0.25, -7.0, 9e15, 1e16], Some(1e300), raw)).unwrap();
        let data = "[[3,0,0.25,-7,9000000000000000,1e+16],1e+300,[3.0]]";
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text, format!("{{\"schema\":\"watcher/1\",\"kind\":\"k\",\"data\":{data}}}\n"));
    }

    #[test]
    fn json_means_the_same_without_what_a_terminal_would_obey() {
        let json = "{\t\"a\":\n\"\u{9b}31m é \u{202e}\u{7f}\\u0007\"}";
        let text = escaped(json);
        assert_eq!(text, r#"{ "a": "\u009b31m é \u202e\u007f\u0007"}"#);
        let value = |json: &str| serde_json::from_str::<serde_json::Value>(json).unwrap();
        assert_eq!(value(&text), value(json));
    }

    #[test]
    fn a_terminal_obeys_nobody_s_text() {
        assert_eq!(clean("plain é 漢"), "plain é 漢");
        assert_eq!(clean("a\x1b[31mb\u{9b}c\u{202e}d\ne\tf\0"), "a\u{fffd}[31mb\u{fffd}c\u{fffd}d e f\u{fffd}");
    }
}
