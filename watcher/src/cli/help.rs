//! Help texts for terminals of any width. In the source a paragraph stands in lines of its own width; clap breaks lines and
//! joins none, so that both together would leave ragged ends.

use clap::Command;

/// The command with its closing texts, and those of everything below it, in lines that can be broken anywhere.
pub(super) fn flowing(command: Command) -> Command {
    let short = command.get_after_help().map(|text| joined(&text.to_string()));
    let long = command.get_after_long_help().map(|text| joined(&text.to_string()));
    let command = match short {
        Some(text) => command.after_help(text),
        None => command,
    };
    let command = match long {
        Some(text) => command.after_long_help(text),
        None => command,
    };
    command.mut_subcommands(flowing)
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
    fn paragraphs_flow_and_examples_stand() {
        let text = "Examples:\n  a b\n  c\n\nOne\ntwo\n\nThree:\n  four\nfive\nsix";
        assert_eq!(joined(text), "Examples:\n  a b\n  c\n\nOne two\n\nThree:\n  four\nfive six");
    }
}
