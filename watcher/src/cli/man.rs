//! `watcher man`: the manual pages, one for each command, from the same definitions as the help.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Args, Command};

use super::Context;
use crate::exit::Exit;

/// Write the manual pages into a directory
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher man ~/.local/share/man/man1

`make install` does this.")]
pub(crate) struct Man {
    /// The directory; made when it does not exist
    dir: PathBuf,
}

impl Man {
    pub(crate) fn run(self, context: &mut Context) -> Result<Exit> {
        let dir = context.environment.cwd()?.join(&self.dir);
        std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        let mut command = super::definition().disable_help_subcommand(true);
        command.build();
        let mut written = Vec::new();
        pages(&command, "watcher", &dir, &mut written)?;
        context.out.line(&format!("{} pages in {}", written.len(), context.homely(&dir)))?;
        context.out.json("man", written)?;
        Ok(Exit::Done)
    }
}

fn pages(command: &Command, name: &str, dir: &Path, written: &mut Vec<String>) -> Result<()> {
    let file = dir.join(format!("{name}.1"));
    std::fs::write(&file, page(command, name)?).with_context(|| file.display().to_string())?;
    written.push(file.display().to_string());
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        pages(sub, &format!("{name}-{}", sub.get_name()), dir, written)?;
    }
    Ok(())
}

fn page(command: &Command, name: &str) -> Result<Vec<u8>> {
    let man = clap_mangen::Man::new(command.clone()).title(name);
    let mut page = Vec::new();
    // A short middle: the names of commands, left and right of it, are long.
    let version = env!("CARGO_PKG_VERSION");
    writeln!(page, ".TH \"{}\" 1 \"\" \"watcher {version}\" \"watcher\"", escaped(name))?;
    man.render_name_section(&mut page)?;
    writeln!(page, ".SH SYNOPSIS\n.nf\n{}\n.fi", escaped(&usage(command)))?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.get_subcommands().any(|sub| !sub.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(help) = command.get_after_long_help().or(command.get_after_help()) {
        page.extend_from_slice(sections(&help.to_string()).as_bytes());
    }
    Ok(page)
}

/// How the command is called, as its help says.
fn usage(command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    let lines: Vec<&str> = usage.trim_start_matches("Usage:").lines().map(str::trim).collect();
    lines.join("\n")
}

/// The parts of a help text. One that has a title becomes a section; examples and tables keep their lines.
fn sections(help: &str) -> String {
    let mut roff = String::new();
    let mut has_notes = false;
    for part in help.split("\n\n") {
        let titled = part.split_once('\n').and_then(|(title, rest)| Some((title.strip_suffix(':')?, rest)));
        if let Some((title, rest)) = titled.filter(|(_, rest)| rest.starts_with("  ")) {
            let is_table = title == "Examples" || title == "Exit codes";
            let (begin, end) = if is_table { (".nf\n", "\n.fi") } else { ("", "") };
            let lines: Vec<&str> = rest.lines().map(|line| line.strip_prefix("  ").unwrap_or(line)).collect();
            let (title, lines) = (title.to_uppercase(), escaped(&lines.join("\n")));
            roff.extend([".SH ", &title, "\n", begin, &lines, end, "\n"]);
            has_notes = false;
        } else {
            let begin = if has_notes { ".PP\n" } else { ".SH NOTES\n" };
            roff.extend([begin, &escaped(part), "\n"]);
            has_notes = true;
        }
    }
    roff
}

/// Text that roff sets as it is: no line of it is a command, and no sign becomes one that is set more nicely.
fn escaped(text: &str) -> String {
    const SIGNS: [(char, &str); 6] =
        [('\\', "\\e"), ('-', "\\-"), ('\'', "\\(aq"), ('`', "\\(ga"), ('~', "\\(ti"), ('^', "\\(ha")];
    let line = |line: &str| {
        let line = SIGNS.iter().fold(line.to_owned(), |line, (sign, name)| line.replace(*sign, name));
        if line.starts_with('.') { format!("\\&{line}") } else { line }
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_help_become_sections() {
        let roff = sections(
            "Examples:\n  watcher x --all\n  ./y 'a\\b'\n\nSome text.\n\nMore: text\nof it.\n\nJSON:\n  filled",
        );
        assert_eq!(
            roff,
            ".SH EXAMPLES\n.nf\nwatcher x \\-\\-all\n\\&./y \\(aqa\\eb\\(aq\n.fi\n.SH NOTES\nSome text.\n.PP\nMore: text\nof it.\n\
             .SH JSON\nfilled\n"
        );
    }
}
