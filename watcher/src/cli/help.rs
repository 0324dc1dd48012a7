//! Help texts for terminals of any width. In the source a paragraph stands in lines of its own width; clap breaks lines and
//! joins none, so that both together would leave ragged ends.

use clap::Command;

use super::text::{width, wrap};

/// What an example or a line of a table goes on with below.
const HANGING: usize = 6;

/// The command with its closing texts, and those of everything below it, in lines that can be broken anywhere.
pub(super) fn flowing(command: Command) -> Command {
    closing(command, &joined)
}

/// A flowing command for so many columns.
pub(super) fn fitted(command: Command, columns: usize) -> Command {
    // Prose is broken by clap; an indented line that is too long would go on where the next one begins.
    closing(command.term_width(columns), &|text| {
        text.lines().map(|line| hung(line, columns)).collect::<Vec<_>>().join("\n")
    })
}

/// The command with its closing texts changed, and those of everything below it.
fn closing(command: Command, change: &dyn Fn(&str) -> String) -> Command {
    let short = command.get_after_help().map(|text| change(&text.to_string()));
    let long = command.get_after_long_help().map(|text| change(&text.to_string()));
    let command = match short {
        Some(text) => command.after_help(text),
        None => command,
    };
    let command = match long {
        Some(text) => command.after_long_help(text),
        None => command,
    };
    command.mut_subcommands(|command| closing(command, change))
}

/// An indented line in so many columns: what does not fit goes on below the text of a table, else further in than the
/// beginning, what an example shows on lines of its own.
fn hung(line: &str, columns: usize) -> String {
    let begin = line.trim_start();
    let indent = line.len() - begin.len();
    if indent == 0 || width(line) <= columns {
        return line.to_owned();
    }
    let (first, rest) = begin.split_once("  ").unwrap_or((begin, ""));
    let text = rest.trim_start();
    let column = width(line) - width(text);
    let lines = |text: &str, room: usize, hanging: usize| wrap(text, room).join(&format!("\n{}", " ".repeat(hanging)));
    if !text.is_empty() && column * 4 <= columns {
        return format!("{}{}", &line[..line.len() - text.len()], lines(text, columns - column, column));
    }
    let room = columns.saturating_sub(HANGING);
    let first = format!("{}{}", &line[..indent], lines(first, room, HANGING));
    if text.is_empty() {
        return first;
    }
    format!("{first}\n{}{}", " ".repeat(HANGING), lines(text, room, HANGING))
}

/// The lines of each paragraph joined to one; indented lines, which are examples and tables, stay as they are.
fn joined(text: &str) -> String {
    let mut flowing = String::new();
    let mut was_prose = false;
    for line in text.lines() {
        let is_prose = !line.is_empty() && !line.starts_with(' ');
        if !flowing.is_empty() {
            flowing.push(if was_prose && is_prose { ' ' } else { '\n' });
        }
        flowing.push_str(line);
        was_prose = is_prose;
    }
    flowing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_hangs() {
        let example = "  watcher sessions list --all   the sessions of every directory there is";
        assert_eq!(hung(example, 80), example);
        assert_eq!(
            hung(example, 40),
            "  watcher sessions list --all\n      the sessions of every directory\n      there is"
        );
        assert_eq!(hung("  echo a b c d e f g h | watcher hook", 24), "  echo a b c d e f g\n      h | watcher hook");
        assert_eq!(hung("  3  what was asked for is not there", 24), "  3  what was asked for\n     is not there");
        let prose = "prose is broken by clap, which joins no lines";
        assert_eq!(hung(prose, 10), prose);
    }

    #[test]
    fn paragraphs_flow_and_examples_stand() {
        let text = "Examples:\n  a b\n  c\n\nOne\ntwo\n\nThree:\n  four\nfive\nsix";
        assert_eq!(joined(text), "Examples:\n  a b\n  c\n\nOne two\n\nThree:\n  four\nfive six");
    }
}
