//! What each command says, word for word: `tests/data/transcripts`. `UPDATE_TRANSCRIPTS=1` writes them anew; then read them.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use unicode_width::UnicodeWidthStr;

use crate::fixture::{Fixture, Sessions};

/// Of a longer answer the beginning stands in the transcript.
const LINES: usize = 60;

/// Runs commands at 100 and at 60 columns and compares.
fn compare(name: &str, fixture: &Fixture, commands: &[&[&str]]) {
    compare_beginnings(name, fixture, LINES, commands);
}

/// The same, with so many lines of each answer.
fn compare_beginnings(name: &str, fixture: &Fixture, most: usize, commands: &[&[&str]]) {
    let mut text = String::new();
    for columns in [100, 60] {
        writeln!(text, "── {columns} columns ──\n").unwrap();
        for words in commands {
            let said = fixture.transcript(columns, words);
            let lines: Vec<&str> = said.lines().collect();
            for line in lines.iter().take(most) {
                text += line;
                text.push('\n');
            }
            if lines.len() > most {
                writeln!(text, "… {} more lines, then\n{}", lines.len() - most - 1, lines[lines.len() - 1]).unwrap();
            }
            text.push('\n');
        }
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/transcripts").join(format!("{name}.txt"));
    if std::env::var_os("UPDATE_TRANSCRIPTS").is_some() {
        fs::write(&file, &text).unwrap();
    }
    let kept = fs::read_to_string(&file).unwrap_or_default();
    let differs = text.lines().zip(kept.lines()).position(|(a, b)| a != b);
    let line = differs.unwrap_or(text.lines().count().min(kept.lines().count()));
    assert!(
        text == kept,
        "{}:{}:\nkept: {:?}\nnow:  {:?}\nUPDATE_TRANSCRIPTS=1 writes it anew",
        file.display(),
        line + 1,
        kept.lines().nth(line),
        text.lines().nth(line)
    );
}

const HERE: &[&str] = &["--cwd", "/home/u/project"];

fn with<'a>(words: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [words, more].concat()
}

#[test]
fn looking_at_sessions() {
    let fixture = Fixture::new(&[Sessions::Project]);
    let before = fixture.picture();
    let (list, recent, stats, likely) = (
        with(&["sessions", "list"], HERE),
        with(&["sessions", "recent"], HERE),
        with(&["sessions", "stats"], HERE),
        with(&["continue"], HERE),
    );
    compare("list", &fixture, &[&list, &["sessions", "list", "--all"], &["sessions", "list"], &recent]);
    compare(
        "show",
        &fixture,
        &[
            &["sessions", "show", "15c0"],
            &["sessions", "show", "15c0", "--thinking", "--tools", "--leaf", "00000007"],
            &["sessions", "show", "Write the release notes"],
            &["sessions", "show", "log in page"],
            &["sessions", "show", "15c"],
        ],
    );
    compare("tree", &fixture, &[&["sessions", "tree", "15c0"], &["sessions", "tree", "15c0", "--every"]]);
    compare(
        "context",
        &fixture,
        &[
            &["sessions", "context", "15c0"],
            &["sessions", "context", "15c0", "--leaf", "00000004"],
            &["sessions", "context", "15c0", "--leaf", "0000000z"],
        ],
    );
    compare(
        "stats",
        &fixture,
        &[&stats, &["sessions", "stats", "--all", "--since", "2d"], &["sessions", "stats", "--since", "soon"]],
    );
    compare("continue", &fixture, &[&likely, &["continue", "--terminal", "pts-9"]]);
    compare(
        "export",
        &fixture,
        &[&["sessions", "export", "15c0"], &["sessions", "export", "15c0", "--format", "jsonl", "--leaf", "00000007"]],
    );
    assert!(fixture.picture() == before, "a command that only shows wrote something [L4a]");
}

#[test]
fn a_broken_directory() {
    let fixture = Fixture::new(&[Sessions::Broken]);
    let before = fixture.picture();
    let garbage = fixture.session("garbage");
    let garbage = garbage.strip_prefix(fixture.home()).unwrap().to_str().unwrap();
    compare(
        "broken",
        &fixture,
        &[
            &["sessions", "list", "--all"],
            &["sessions", "recent", "--all"],
            &["sessions", "show", "15d0"],
            &["sessions", "tree", "15d0"],
            &["sessions", "context", "15d0"],
            &["sessions", "stats", "--all"],
            &["sessions", "export", "15d0"],
            &["sessions", "show", garbage],
            &["sessions", "tree", garbage],
            &["sessions", "rename", "15d9", "from here"],
            &["sessions", "delete", "/etc/hostname", "--yes"],
            &["sessions", "delete", "15d0", "--dry-run"],
            &["sessions", "repair", "15d0", "--dry-run"],
            &["sessions", "repair", garbage, "--dry-run"],
            &["continue", "--cwd", "/home/u/broken"],
        ],
    );
    // The refused rename took the session's lock, and left its file, as every change does.
    let mut after = fixture.picture();
    after.retain(|path, _| !path.to_str().unwrap().contains("/.session-locks/"));
    assert!(after == before, "nothing was to be written");
    // Nothing that a terminal would obey comes through, however it is printed.
    for words in [
        vec!["sessions", "list", "--all"],
        vec!["sessions", "show", "15d0", "--tools"],
        vec!["sessions", "export", "15d0"],
    ] {
        let output = fixture.output(&words);
        for text in [output.stdout, output.stderr] {
            let text = String::from_utf8(text).unwrap();
            let harmful = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
            assert!(!text.contains(harmful), "{words:?}: {text:?}");
        }
    }
}

#[test]
fn a_recorded_session_of_a_megabyte() {
    let fixture = Fixture::new(&[Sessions::Corpus]);
    let id = "d703";
    compare("corpus", &fixture, &[&["sessions", "list", "--all"], &["sessions", "stats", id]]);
    let texts: [&[&str]; 4] = [
        &["sessions", "show", id],
        &["sessions", "tree", id],
        &["sessions", "context", id],
        &["sessions", "export", id],
    ];
    compare_beginnings("corpus-texts", &fixture, 8, &texts);
}

#[test]
fn prompts() {
    let fixture = Fixture::new(&[Sessions::Project]);
    compare("history-none", &fixture, &[&["history", "search", "login"], &["history", "stats"], &["history", "check"]]);
    fixture.prints(&["sync"]);
    let before = fixture.picture();
    compare(
        "history",
        &fixture,
        &[
            &["history", "search", "login"],
            &["history", "recent"],
            &["history", "recent", "-n", "2", "--since", "2026-01-05T09:31"],
            &["history", "recent", "--session", "15c1"],
            &["history", "search", "mail", "address"],
            &["history", "search", "nowhere"],
            &["history", "show", "5", "2"],
            &["history", "show", "4711"],
            &["history", "stats"],
            &["history", "check"],
            &["history", "export", "--matching", "notes"],
            &["history", "delete"],
            &["history", "delete", "--matching", "login"],
            &["history", "delete", "--matching", "login", "--dry-run"],
            &["history", "delete", "--matching", "(", "--dry-run"],
        ],
    );
    let after = fixture.picture();
    let changed: Vec<_> =
        before.iter().filter(|(path, was)| after.get(*path).map(|now| &now.0) != Some(&was.0)).collect();
    assert!(changed.iter().all(|(path, _)| path.to_str().unwrap().contains("history.db-")), "{changed:?}");
}

#[test]
fn keeping_sessions_in_order() {
    let there = ["sessions", "move", "--from", "/home/u/project", "--to", "/home/u/renamed"];
    let back = ["sessions", "move", "--from", "/home/u/renamed", "--to", "/home/u/project", "--yes"];
    let fixture = Fixture::new(&[Sessions::Project, Sessions::Broken]);
    compare(
        "keeping",
        &fixture,
        &[
            &["sessions", "rename", "15c1", "notes of the release"],
            &["sessions", "label", "15c1", "00000002", "first try"],
            &["sessions", "label", "15c1", "00000002", "--remove"],
            &["sessions", "label", "15c1", "0000000f", "first try"],
            &with(&there, &["--dry-run"]),
            &there,
            &with(&there, &["--yes"]),
            &back,
            &back,
            &["sessions", "move", "--from", "/home/u/broken", "--to", "/home/u/mended", "--dry-run"],
            &["sessions", "fork", "15c9"],
            &["sessions", "delete", "15c0", "15c1", "--dry-run"],
            &["sessions", "delete", "15c0"],
            &["sessions", "delete", "15c0", "15c1", "--yes"],
            &["sessions", "restore"],
            &["sessions", "restore", "15c"],
            &["sessions", "restore", "15c0", "15c1"],
            &["sessions", "restore", "15c0"],
            &["sessions", "restore"],
            &["sessions", "empty", "--dry-run"],
            &["sessions", "empty", "--yes"],
            &["sessions", "empty", "--dry-run"],
        ],
    );
}

#[test]
fn coming_and_going() {
    let fixture = Fixture::new(&[Sessions::Project, Sessions::Broken]);
    fs::create_dir(fixture.home().join(".claude")).unwrap();
    fs::write(fixture.home().join("prompts.jsonl"), "\"from elsewhere\"\n{\"no\":1}\n").unwrap();
    compare(
        "coming-and-going",
        &fixture,
        &[
            &["status"],
            &["sync"],
            &["sync", "--harness", "omp"],
            &["history", "add", "typed by hand"],
            &["history", "add", "typed by hand"],
            &["history", "import", "prompts.jsonl"],
            &["pointers", "set", "15c0", "--terminal", "pts-1"],
            &["pointers", "set", "15c0"],
            &["blobs", "collect"],
            &["plugin", "install", "claude-code", "--dry-run"],
            &["plugin", "install", "xcsh"],
            &["plugin", "install", "xcsh"],
            &["plugin", "uninstall", "xcsh"],
            &["plugin", "uninstall", "xcsh"],
            &["plugin", "install", "pi"],
            &["service", "status"],
            &["service", "uninstall"],
            &["ext", "list", "--type", "todo", "--session", "15c0"],
            &["ext", "get", "--type", "todo", "--session", "15c0"],
            &["settings"],
            &["detach", "--dry-run"],
            &["detach"],
        ],
    );
}

#[test]
fn pointers() {
    let fixture = Fixture::new(&[Sessions::Project]);
    let dir = fixture.agent().join("terminal-sessions");
    fs::create_dir_all(&dir).unwrap();
    for (terminal, text) in [
        ("pts-1", format!("/home/u/project\n{}\n", fixture.session("15c0").display())),
        ("tmux-%3", "/home/u/project\n/home/u/gone_0000.jsonl\n".to_owned()),
        ("kitty-5", "/home/u/project\n/home/u/new.jsonl\nfresh\n".to_owned()),
        ("pts-2", "garbage".to_owned()),
    ] {
        fs::write(dir.join(terminal), text).unwrap();
        crate::fixture::pin(&dir.join(terminal));
    }
    compare(
        "pointers",
        &fixture,
        &[
            &["pointers", "list"],
            &["pointers", "show", "pts-1"],
            &["pointers", "show", "pts-7"],
            &["pointers", "show"],
            &["pointers", "prune", "--dry-run"],
            &["pointers", "prune", "--dry-run", "--json"],
            &["pointers", "prune"],
            &["continue", "--terminal", "pts-1", "--cwd", "/home/u/project"],
            &["continue", "--terminal", "kitty-5", "--cwd", "/home/u/project"],
            &["continue", "--terminal", "tmux-%3", "--cwd", "/home/u/project"],
        ],
    );
    fixture.prints(&["pointers", "prune", "--yes"]);
    let left: Vec<_> = fs::read_dir(&dir).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(left.len() == 3 && !left.contains(&"tmux-%3".into()), "{left:?}");
    fixture.prints(&["pointers", "set", "15c1", "--terminal", "pts-8"]);
    let set = fs::read_to_string(dir.join("pts-8")).unwrap();
    assert_eq!(set, format!("/home/u/project\n{}\n", fixture.session("15c1").display()));
}

#[test]
fn help_teaches_by_examples() {
    let fixture = Fixture::new(&[]);
    let help = fixture.prints(&["--help"]);
    assert!(help.contains("Exit codes:") && help.contains("\"schema\":\"watcher/1\""), "{help}");
    // The README has the same table.
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md")).unwrap();
    let table = help.split("Exit codes:\n").nth(1).unwrap().lines().take_while(|line| line.starts_with("  "));
    for line in table {
        let (code, meaning) = line.trim().split_once("  ").unwrap();
        assert!(readme.contains(&format!("| {code} | {meaning} |")), "README.md lacks: {line}");
    }
    let json = fixture.json("man", &["man", "man"]);
    let pages: Vec<&str> = json.as_array().unwrap().iter().map(|page| page.as_str().unwrap()).collect();
    assert!(pages.len() > 30, "{pages:?}");
    for page in pages {
        let name = Path::new(page).file_stem().unwrap().to_str().unwrap();
        let words: Vec<&str> = name.split('-').skip(1).collect();
        let help = fixture.prints(&with(&words, &["--help"]));
        // What is read from standard input comes from somewhere: then `watcher` stands behind a pipe.
        let taught = |help: &str| {
            let mut lines = help.lines().skip_while(|line| *line != "Examples:").skip(1);
            lines.next().is_some_and(|example| example.starts_with("  ") && example.contains("watcher "))
        };
        assert!(taught(&help), "{name} has no examples:\n{help}");
        assert!(!help.contains("Leaves with") && !help.contains(&u32::MAX.to_string()), "{help}");
        // In few columns an example goes on further in than the next begins.
        let narrow = fixture.command(&with(&words, &["--help"])).env("COLUMNS", "60").output().unwrap();
        let narrow = String::from_utf8(narrow.stdout).unwrap();
        let examples = |help: &str| {
            let lines =
                help.lines().skip_while(|line| *line != "Examples:").skip(1).take_while(|line| !line.is_empty());
            lines.filter(|line| line.starts_with("  ") && !line.starts_with("   ")).count()
        };
        assert_eq!(examples(&narrow), examples(&help), "{narrow}");
        assert!(narrow.lines().all(|line| line.width() <= 60 || line.starts_with("Usage: ")), "{narrow}");
        // One letter means one thing.
        assert!(!help.contains("-n, --dry-run"), "{help}");
        let page = fs::read_to_string(page).unwrap();
        assert!(page.starts_with(".ie") || page.contains(".TH"), "{page}");
    }
}

#[test]
fn every_key_of_the_settings_file_is_a_flag() {
    let fixture = Fixture::new(&[]);
    let example = fixture.prints(&["settings"]);
    let keys = example.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(" = "));
    let keys: Vec<&str> = keys.map(|(key, _)| key.trim()).collect();
    assert!(keys.len() > 7, "{example}");
    for command in ["run", "sync"] {
        let help = fixture.prints(&[command, "--help"]);
        for key in &keys {
            let flag = if *key == "roots" { "--root ".to_owned() } else { format!("--{}", key.replace('_', "-")) };
            assert!(help.contains(&flag), "{command} lacks {flag}:\n{help}");
        }
    }
}

#[test]
fn lines_fit_the_terminal() {
    let fixture = Fixture::new(&[Sessions::Project, Sessions::Broken, Sessions::Corpus]);
    fixture.prints(&["sync"]);
    fixture.prints(&["pointers", "set", "15c0", "--terminal", "apple-w0t0p0:8C1B1D2E-0F2A-4C5B-9B6D-6A7E8F901234"]);
    for columns in [40, 60, 100] {
        for words in [
            &["sessions", "list", "--all"][..],
            &["sessions", "recent", "--all"],
            &["sessions", "tree", "15c0"],
            &["sessions", "tree", "d703", "--every"],
            &["sessions", "stats", "--all"],
            &["history", "recent"],
            &["history", "search", "login"],
            &["pointers", "list"],
        ] {
            let output = fixture.command(words).env("COLUMNS", columns.to_string()).output().unwrap();
            for line in String::from_utf8(output.stdout).unwrap().lines() {
                assert!(line.width() <= columns, "{words:?} at {columns}: {line}");
            }
        }
    }
}
