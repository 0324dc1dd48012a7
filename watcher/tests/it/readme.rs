//! Every command that README.md shows works.
//!
//! In a `console` block each line that begins with `$ ` is a command. It is run by `sh`, all of them one after the other in
//! one new home directory with the built binary on the path, and must succeed; the lines that follow it must stand in what it
//! prints, in that order, where `…` stands for anything. A `sh` block holds commands for a person at the repository's root that
//! cannot be run from inside a test (they build, or never end): only `make TARGET`, and the Makefile must have that target.
//! A block that shows commands in any other form fails.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::Command;

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// A fenced block: what stands behind the fence, and its lines with their numbers.
struct Block<'t> {
    language: &'t str,
    lines: Vec<(usize, &'t str)>,
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut open: Option<Block<'_>> = None;
    for (n, line) in text.lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), open.take()) {
            (Some(language), None) => open = Some(Block { language: language.trim(), lines: Vec::new() }),
            (Some(_), Some(block)) => blocks.push(block),
            (None, Some(mut block)) => {
                block.lines.push((n + 1, line));
                open = Some(block);
            }
            (None, None) => {
                let indented = line.strip_prefix("    ").map(str::trim_start).unwrap_or_default();
                assert!(!is_command(indented), "line {}: commands stand in fenced blocks: {line}", n + 1);
            }
        }
    }
    assert!(open.is_none(), "a fence is not closed");
    blocks
}

fn is_command(line: &str) -> bool {
    ["$ ", "make ", "cargo ", "watcher "].iter().any(|start| line.starts_with(start))
}

/// A command, the line where it stands, and the lines that it prints.
type Shown<'t> = (usize, &'t str, Vec<&'t str>);

/// What is wrong with the commands of a README; `run` gives what a command prints, or why it failed.
fn problems(text: &str, makefile: &str, mut run: impl FnMut(&str) -> Result<String, String>) -> Vec<String> {
    let targets: HashSet<&str> =
        makefile.lines().filter_map(|line| line.split_once(':').map(|(name, _)| name)).collect();
    let mut problems = Vec::new();
    for block in blocks(text) {
        match block.language {
            "console" => {
                for (line, command, printed) in commands(&block, &mut problems) {
                    match run(command) {
                        Ok(output) => problems.extend(missing(&printed, &output).map(|missing| {
                            format!("line {line}: `{command}` does not print `{missing}` there, but:\n{output}")
                        })),
                        Err(error) => problems.push(format!("line {line}: `{command}` fails: {error}")),
                    }
                }
            }
            "sh" => {
                for (line, command) in block.lines {
                    let command = command.split('#').next().unwrap_or_default().trim();
                    let mut words = command.split_whitespace();
                    let is_known = match (words.next(), words.next()) {
                        (None, _) => true,
                        (Some("make"), Some(target)) => targets.contains(target),
                        _ => false,
                    };
                    if !is_known {
                        problems.push(format!("line {line}: `{command}` is not `make` with a target of the Makefile"));
                    }
                }
            }
            language => {
                for (line, text) in block.lines.iter().filter(|(_, text)| is_command(text.trim_start())) {
                    problems.push(format!("line {line}: a command in a block of `{language}`: {text}"));
                }
            }
        }
    }
    problems
}

fn commands<'t>(block: &Block<'t>, problems: &mut Vec<String>) -> Vec<Shown<'t>> {
    let mut shown: Vec<Shown<'t>> = Vec::new();
    for (line, text) in &block.lines {
        match (text.strip_prefix("$ "), shown.last_mut()) {
            (Some(command), _) => shown.push((*line, command, Vec::new())),
            (None, Some((_, _, printed))) => printed.push(text.trim_end()),
            (None, None) => problems.push(format!("line {line}: a console block begins with a command: {text}")),
        }
    }
    shown
}

/// The first of `printed` that the lines of `output` do not hold after the ones before it.
fn missing<'t>(printed: &[&'t str], output: &str) -> Option<&'t str> {
    let mut lines = output.lines();
    let mut shown = printed.iter().copied().filter(|line| !line.is_empty() && *line != "…");
    shown.find(|shown| !lines.any(|line| fits(shown, line.trim_end())))
}

/// Whether a line is the one that is shown, where `…` stands for anything.
fn fits(shown: &str, line: &str) -> bool {
    let Some((start, rest)) = shown.split_once('…') else { return shown == line };
    let Some(mut line) = line.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = rest.split('…').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        let Some((_, behind)) = line.split_once(part) else { return false };
        line = behind;
    }
    line.ends_with(end)
}

#[test]
fn every_command_works() {
    let read = |name| fs::read_to_string(repository().join(name)).unwrap();
    let (text, makefile) = (read("README.md"), read("Makefile"));
    let home = tempfile::tempdir().unwrap();
    let binaries = Path::new(env!("CARGO_BIN_EXE_watcher")).parent().unwrap();
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap_or_default());
    let found = problems(&text, &makefile, |command| {
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", command]).current_dir(home.path()).env_clear();
        shell.env("HOME", home.path()).env("PATH", &path).env("LANG", "C.UTF-8").env("TZ", "UTC");
        let output = shell.output().map_err(|error| error.to_string())?;
        let printed = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        if output.status.success() { Ok(printed) } else { Err(format!("{}\n{printed}", output.status)) }
    });
    assert!(found.is_empty(), "README.md:\n{}", found.join("\n"));
    assert!(blocks(&text).iter().any(|block| block.language == "console"), "the README shows the watcher's commands");
    assert!(blocks(&text).iter().any(|block| block.language == "sh"), "the README says how to run and test");
}

#[test]
fn what_does_not_work_is_found() {
    let run = |command: &str| if command == "false" { Err("1".to_owned()) } else { Ok("one\ntwo 2\nthree".to_owned()) };
    let found = |text: &str| problems(text, "run: ## Run\n\t@true\n", run).len();
    let block = |language: &str, text: &str| format!("text\n\n```{language}\n{text}\n```\n");
    for (language, text, problems) in [
        ("console", "$ true", 0),
        ("console", "$ true\none\n…\nthree\n$ true\ntwo …", 0),
        ("console", "$ false\n$ true\n$ false", 2),
        ("console", "$ true\nthree\none", 1),
        ("console", "$ true\no…e\n…w…2…", 0),
        ("console", "$ true\nt…x…2", 1),
        ("console", "one", 1),
        ("sh", "make run   # runs\n\n# nothing", 0),
        ("sh", "make sun", 1),
        ("sh", "true", 1),
        ("", "$ true", 1),
        ("rust", "let a = 1;", 0),
        ("text", "make run", 1),
    ] {
        assert_eq!(found(&block(language, text)), problems, "{language}: {text}");
    }
}
