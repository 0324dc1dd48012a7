//! `make install`: what lies where afterwards, that bash completes with it, and that manual pages can be set.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::ext::skipped;
use crate::fixture::{Fixture, Sessions};

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Installs the binary of the tests below a directory; where it lies then.
fn install(to: &Path) -> PathBuf {
    make("install-built", to);
    to.join("usr")
}

fn make(target: &str, to: &Path) {
    let mut make = Command::new("make");
    make.arg("--silent").arg(target).arg(format!("BINARY={}", env!("CARGO_BIN_EXE_watcher")));
    make.arg(format!("DESTDIR={}", to.display())).arg("PREFIX=/usr").current_dir(repository()).stdin(Stdio::null());
    let output = make.env_remove("MAKEFLAGS").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What a shell on this machine says, with the installed binary on its path; none without the shell.
fn shell(fixture: &Fixture, installed: &Path, name: &str, words: &[&str]) -> Option<Output> {
    let mut command = Command::new(name);
    command.args(words).env_clear().env("HOME", fixture.home()).current_dir(fixture.home()).stdin(Stdio::null());
    command.env("PATH", format!("{}:/usr/bin:/bin", installed.join("bin").display()));
    match command.output() {
        Ok(output) => Some(output),
        Err(error) => {
            skipped("what `make install` installs", name, &error);
            None
        }
    }
}

#[test]
fn everything_is_in_its_place_and_nothing_else() {
    let fixture = Fixture::new(&[]);
    let installed = install(&fixture.home().join("dest"));
    let mut files: Vec<String> = fixture.picture().into_keys().map(|path| path.display().to_string()).collect();
    files.retain(|file| !file.contains("/share/man/man1/"));
    let there = |name: &str| installed.join(name).display().to_string();
    assert_eq!(
        files,
        [
            "bin/watcher",
            "share/bash-completion/completions/watcher",
            "share/fish/vendor_completions.d/watcher.fish",
            "share/zsh/site-functions/_watcher"
        ]
        .map(there)
    );
    let output = shell(&fixture, &installed, "sh", &["-c", "watcher --version"]).unwrap();
    assert!(output.stdout.starts_with(b"watcher "));
    make("uninstall", &fixture.home().join("dest"));
    assert_eq!(fixture.picture().into_keys().collect::<Vec<_>>(), Vec::<PathBuf>::new());
}

#[test]
fn bash_completes_what_was_typed_so_far() {
    let fixture = Fixture::new(&[Sessions::Project]);
    let installed = install(&fixture.home().join("dest"));
    let script = installed.join("share/bash-completion/completions/watcher");
    let agent = fixture.agent();
    let agent = agent.to_str().unwrap();
    // The words as bash takes them apart: at equals signs, and with their quotes.
    for (words, expected) in [
        (&["sess"][..], &["sessions"][..]),
        (&["sessions", "ren"], &["rename"]),
        (&["--harness", "=", "o"], &["omp"]),
        (&["--harness", "="], &["xcsh", "omp", "pi", "claude-code", "all"]),
        (&["sessions", "show", "15c0"], &["15c0ffee00000001"]),
        (&["sessions", "show", "15c"], &["15c1ffee00000002", "15c0ffee00000001"]),
        (&["sessions", "show", "Log"], &["Login\\ page"]),
        (&["sessions", "show", "Login\\ p"], &["Login\\ page"]),
        (&["sessions", "show", "'Login p"], &["Login page"]),
        (&["sessions", "show", "nothing"], &[]),
        (&["--agent-dir", "=", agent, "sessions", "show", "Wri"], &["Write\\ the\\ release\\ notes"]),
        (&["--agent-dir", "=", "/nowhere", "sessions", "show", "15c"], &[]),
        (&["sessions", "--harness", "=", "omp", "show", "15c"], &[]),
    ] {
        let completes = r#"source "$1"; shift; COMP_WORDS=(watcher "$@"); COMP_CWORD=$#
            complete -p watcher > /dev/null || exit 9; _watcher; printf '%s\n' "${COMPREPLY[@]}""#;
        let words = [&["--norc", "-c", completes, "bash", script.to_str().unwrap()], words].concat();
        let Some(output) = shell(&fixture, &installed, "bash", &words) else { return };
        let said = String::from_utf8(output.stdout).unwrap();
        let mut proposed: Vec<&str> = said.lines().filter(|line| !line.is_empty()).collect();
        let mut expected = expected.to_vec();
        proposed.sort_unstable();
        expected.sort_unstable();
        assert_eq!(proposed, expected, "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && output.stderr.is_empty(), "{words:?}");
    }
}

#[test]
fn manual_pages_can_be_set_and_fit_narrow_terminals() {
    let fixture = Fixture::new(&[]);
    let installed = install(&fixture.home().join("dest"));
    let pages: Vec<PathBuf> =
        fs::read_dir(installed.join("share/man/man1")).unwrap().map(|page| page.unwrap().path()).collect();
    let names: Vec<&str> = pages.iter().map(|page| page.file_name().unwrap().to_str().unwrap()).collect();
    for name in ["watcher.1", "watcher-sessions.1", "watcher-sessions-move.1", "watcher-blobs-collect.1"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(!names.contains(&"watcher-errand.1"), "what is not for people has no page");
    for page in &pages {
        let page = page.to_str().unwrap();
        let Some(checked) = shell(&fixture, &installed, "groff", &["-Kutf8", "-man", "-Tutf8", "-ww", "-z", page])
        else {
            return;
        };
        assert!(checked.stderr.is_empty(), "{page}: {}", String::from_utf8_lossy(&checked.stderr));
        let words = ["-Kutf8", "-man", "-Tutf8", "-P-cbou", "-rLL=60n", page];
        let text = String::from_utf8(shell(&fixture, &installed, "groff", &words).unwrap().stdout).unwrap();
        for section in ["NAME", "SYNOPSIS", "EXAMPLES"] {
            assert!(text.lines().any(|line| line == section), "{page}: no {section}");
        }
        // Examples and tables keep their lines.
        let mut section = "";
        for line in text.lines() {
            if line.starts_with(|c: char| c.is_ascii_uppercase()) {
                section = line;
            }
            let keeps = ["SYNOPSIS", "EXAMPLES", "EXIT CODES"].contains(&section);
            assert!(keeps || line.chars().count() <= 60, "{page}: {section}: {line}");
        }
    }
}
