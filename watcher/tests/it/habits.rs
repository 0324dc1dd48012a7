//! Habits of a command line: closed pipes, colours, exit codes, errors, completions, becoming another command.

use std::fs;
use std::io::Read;
use std::process::Stdio;

use crate::fixture::{Fixture, Sessions};

#[test]
fn a_pipe_that_is_closed_early_is_no_failure() {
    let fixture = Fixture::new(&[Sessions::Corpus]);
    for words in [
        &["sessions", "show", "d703", "--tools", "--thinking"][..],
        &["sessions", "export", "d703"],
        &["sessions", "context", "d703", "--json"],
        &["sessions", "tree", "d703", "--every"],
    ] {
        let mut child = fixture.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = [0; 10];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{words:?}");
        assert!(output.stderr.is_empty(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn answers_that_are_no_terminals_have_no_colours_and_no_pager() {
    let fixture = Fixture::new(&[Sessions::Project]);
    let output =
        fixture.command(&["sessions", "show", "15c0"]).env("PAGER", "false").env("TERM", "xterm").output().unwrap();
    assert!(output.status.success() && !output.stdout.contains(&0x1b));
}

#[cfg(target_os = "linux")]
#[test]
fn a_terminal_gets_colours_unless_it_is_told_not_to() {
    let fixture = Fixture::new(&[Sessions::Project]);
    let on_terminal_said = |variables: &str, words: &str| {
        let binary = env!("CARGO_BIN_EXE_watcher");
        let command = format!("{variables} PAGER=cat {binary} {words}");
        let mut script = std::process::Command::new("script");
        script.args(["-qec", &command, "/dev/null"]).env_clear().env("HOME", fixture.home()).env("TERM", "xterm");
        let output = script.env("PATH", "/usr/bin:/bin").env("SHELL", "/bin/sh").stdin(Stdio::null()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let on_terminal = |variables: &str| on_terminal_said(variables, "sessions show 15c0");
    let colored = on_terminal("");
    assert!(colored.contains("\u{1b}[1mLogin page\u{1b}[0m"), "{colored}");
    assert!(on_terminal("NO_COLOR=").contains('\u{1b}'), "an empty NO_COLOR says nothing");
    for plain in [on_terminal("NO_COLOR=1"), on_terminal("TERM=dumb")] {
        assert!(plain.contains("Login page") && !plain.contains('\u{1b}'), "{plain}");
    }
    // Of this terminal nobody knows how wide it is; others are taken at their word.
    let list = |set: &str| on_terminal_said(&format!("{set} NO_COLOR=1"), "sessions list --all");
    assert!(list("stty columns 0 &&").contains("STATUS"));
    assert!(!list("stty columns 40 &&").contains("STATUS"));
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupt_while_a_pager_runs_is_the_pager_s() {
    let fixture = Fixture::new(&[Sessions::Project]);
    // Ctrl-C goes to all in the foreground; this pager does with it what `less` does.
    let pager = r#"trap "" INT; kill -INT 0; cat"#;
    let command = format!("exec env PAGER='{pager}' {} sessions show 15c0", env!("CARGO_BIN_EXE_watcher"));
    let mut script = std::process::Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).env_clear().env("HOME", fixture.home()).env("NO_COLOR", "1");
    script.env("TERM", "xterm").env("PATH", "/usr/bin:/bin").env("SHELL", "/bin/sh").stdin(Stdio::null());
    let output = script.output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("now the tests"), "the end of the session: {shown}");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn failures_are_said_once_on_standard_error_with_their_code() {
    let fixture = Fixture::new(&[Sessions::Project]);
    for (words, code, said) in [
        (&["sesions", "list"][..], 2, "sessions"),
        (&["sessions", "lst"], 2, "list"),
        (&["sessions", "show", "15c9"], 3, "did you mean"),
        (&["sessions", "show", "15c"], 3, "15c0ffee00000001"),
        (&["sessions", "show", "no/such/file.jsonl"], 3, "there is no such file"),
        (&["sessions", "list", "--agent-dir", "/dev/null/x"], 1, "/dev/null/x"),
        (&["continue", "--cwd", "/home/u/none"], 3, ""),
        (&["history", "delete"], 2, "--matching"),
        (&["history", "delete", "all"], 2, "named by its number"),
        (&["history", "show", "#7"], 2, "named by its number"),
        (&["history", "import", "/no/such/file"], 1, "/no/such/file"),
        (&["history", "recent", "--harness", "all"], 2, "one at a time"),
    ] {
        let output = fixture.output(words);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {stderr}");
        assert!(stderr.contains(said), "{words:?}: {stderr}");
    }
    let error = fixture.json("error", &["sessions", "show", "15c9"]);
    assert_eq!(error["exit"], 3);
    let error = fixture.json("error", &["sessions", "lst"]);
    assert!(error["exit"] == 2 && error["message"].as_str().unwrap().contains("'list'"), "{error}");
    // What there is nothing to say of is said in the envelope, too.
    for kind in ["history.check", "history.stats"] {
        let output = fixture.output(&[&kind.split('.').collect::<Vec<_>>()[..], &["--json"]].concat());
        assert_eq!(output.status.code(), Some(3), "{kind}");
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&said["kind"], &said["data"]), (&kind.into(), &serde_json::Value::Null));
    }
    // Who named a place that is not there is told so, and not that nothing is in it.
    let nowhere = fixture.output(&["sessions", "list", "--agent-dir", "/nowhere"]);
    assert!(String::from_utf8(nowhere.stderr).unwrap().contains("there is no such agent directory"));
}

#[test]
fn an_agent_directory_that_is_not_there_is_named_once() {
    let fixture = Fixture::new(&[Sessions::Project]);
    let before = fixture.picture();
    // Questions that list things are answered: there is nothing. What is about one thing does not find it.
    for (code, commands) in [
        (
            0,
            &[
                &["sessions", "list"][..],
                &["sessions", "list", "--all"],
                &["sessions", "recent"],
                &["sessions", "stats"],
                &["sessions", "restore"],
                &["history", "recent"],
                &["history", "search", "login"],
                &["history", "export"],
                &["pointers", "list"],
                &["sync"],
            ][..],
        ),
        (
            3,
            &[
                &["history", "stats"],
                &["history", "check"],
                &["status"],
                &["continue"],
                &["detach", "--dry-run"],
                &["detach", "--yes"],
                &["blobs", "collect"],
                &["plugin", "install", "omp"],
                &["pointers", "show", "pts-1"],
                &["pointers", "prune", "--yes"],
                &["sessions", "show", "15c0"],
                &["sessions", "stats", "15c0"],
                &["sessions", "delete", "15c0", "--yes"],
                &["sessions", "restore", "15c0"],
                &["sessions", "empty", "--yes"],
                &["sessions", "move", "--from", "/a", "--to", "/b"],
                &["ext", "get", "--type", "todo"],
            ],
        ),
    ] {
        for words in commands {
            for form in [&[][..], &["--json"]] {
                let output = fixture.output(&[*words, &["--harness", "omp"], form].concat());
                let said = String::from_utf8(output.stderr).unwrap();
                assert_eq!(output.status.code(), Some(code), "{words:?} {form:?}: {said}");
                assert_eq!(said.matches(".omp/agent: ").count(), 1, "{words:?} {form:?}: {said}");
                assert_eq!(said.matches("there is no such ").count(), 1, "{words:?} {form:?}: {said}");
            }
        }
    }
    assert!(fixture.picture() == before, "looking made something");
    // A harness of another family has no directory until it told something.
    let told = fixture.output(&["history", "search", "x", "--harness", "claude-code"]);
    let told = String::from_utf8(told.stderr).unwrap();
    assert!(told.contains("`watcher plugin install claude-code`"), "{told}");
    // A hint means the directory that was asked about.
    fs::create_dir_all(fixture.home().join("it's/agent")).unwrap();
    let hint = fixture.output(&["history", "recent", "--agent-dir", "it's/agent"]);
    let hint = String::from_utf8(hint.stderr).unwrap();
    assert!(hint.contains(r"`watcher sync --agent-dir 'it'\''s/agent'`"), "{hint}");
}

#[test]
fn people_read_the_home_as_a_tilde_and_scripts_get_whole_paths() {
    let fixture = Fixture::new(&[Sessions::Project, Sessions::Broken]);
    fixture.prints(&["sync"]);
    let home = fixture.home().to_str().unwrap().to_owned();
    let file = fixture.session("15c0").to_str().unwrap().to_owned();
    for words in [
        &["sync"][..],
        &["status"],
        &["sessions", "list", "--all"],
        &["sessions", "show", "15c0"],
        &["sessions", "show", "garbage.jsonl"],
        &["sessions", "rename", "15c0", "Login page"],
        &["sessions", "delete", "15c0", "--dry-run"],
        &["sessions", "repair", "15d0", "--dry-run"],
        &["history", "stats"],
        &["pointers", "set", "15c0", "--terminal", "pts-1"],
        &["pointers", "show", "pts-1"],
        &["blobs", "collect"],
        &["plugin", "install", "xcsh"],
        &["service", "install"],
        &["settings"],
        &["detach", "--dry-run"],
    ] {
        let output = fixture.output(words);
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(!said.contains(&home), "{words:?}: {said}");
    }
    let likely = fixture.prints(&["continue", "--terminal", "pts-1", "--cwd", "/home/u/project"]);
    assert_eq!(likely.lines().next(), Some(file.as_str()), "a line that is a path");
    let forked = fixture.prints(&["sessions", "fork", "15c0"]);
    assert!(forked.lines().any(|line| line.starts_with(&home)), "{forked}");
    assert_eq!(fixture.json("sessions.show", &["sessions", "show", "15c0ffee00000001"])["path"], file.as_str());
}

#[test]
fn a_pointer_that_cannot_be_read_is_told() {
    let fixture = Fixture::new(&[Sessions::Project]);
    fs::create_dir_all(fixture.agent().join("terminal-sessions/pts-1")).unwrap();
    let output = fixture.output(&["continue", "--terminal", "pts-1", "--cwd", "/home/u/project"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("which session this terminal had is not known"), "{said}");
    let other = fixture.output(&["continue", "--terminal", "pts-2", "--cwd", "/home/u/project"]);
    assert_eq!((String::from_utf8(other.stderr).unwrap().as_str(), other.stdout), ("", output.stdout));
}

#[test]
fn whole_numbers_have_no_fraction_in_json() {
    let fixture = Fixture::new(&[Sessions::Project]);
    for words in [&["sessions", "show", "15c0"][..], &["sessions", "stats", "--all"], &["sessions", "list", "--all"]] {
        let output = fixture.output(&[words, &["--json"]].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(!text.contains(".0,") && !text.contains(".0}"), "{words:?}: {text}");
    }
    let shown = String::from_utf8(fixture.output(&["sessions", "show", "15c0", "--json"]).stdout).unwrap();
    assert!(shown.contains("\"version\":3,"), "{shown}");
}

#[test]
fn input_of_any_kind_makes_no_command_panic() {
    let fixture = Fixture::new(&[Sessions::Project, Sessions::Broken]);
    let long = "x".repeat(5000);
    for garbage in ["", " ", "\u{202e}", "../../..", "--", "é漢", "%s%n", "'; DROP TABLE history; --", "*", "(", &long]
    {
        for words in [
            &["sessions", "show", "--", garbage][..],
            &["sessions", "tree", "--", garbage],
            &["sessions", "label", "15c0", "--", garbage, garbage],
            &["sessions", "context", "15c0", "--leaf", garbage],
            &["sessions", "stats", "--since", garbage],
            &["sessions", "restore", "--", garbage],
            &["history", "search", "--", garbage],
            &["history", "export", "--matching", garbage],
            &["pointers", "show", "--", garbage],
            &["continue", "--terminal", garbage],
            &["sessions", "list", "--cwd", garbage],
        ] {
            let output = fixture.output(words);
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(matches!(output.status.code(), Some(0..=5)) && !stderr.contains("panicked"), "{words:?}: {stderr}");
        }
    }
}

#[test]
fn continuing_becomes_the_command_and_writes_nothing_before() {
    // R5
    let fixture = Fixture::new(&[Sessions::Project]);
    let before = fixture.picture();
    let here = ["continue", "--cwd", "/home/u/project"];
    let path = fixture.prints(&here).lines().next().unwrap().to_owned();
    assert!(fs::metadata(&path).unwrap().is_file());
    assert_eq!(
        fixture.prints(&[&here[..], &["--exec", "echo", "-n", "a={}b", "--flag"]].concat()),
        format!("a={path}b --flag")
    );
    assert_eq!(fixture.output(&[&here[..], &["--exec", "sh", "-c", "exit 9"]].concat()).status.code(), Some(9));
    let (code, said) = fixture.fails(&[&here[..], &["--exec", "/no/such/program", "{}"]].concat());
    assert!(code == 1 && said.contains("/no/such/program"), "{said}");
    // Without a session the command is not begun.
    let none = fixture.output(&["continue", "--cwd", "/home/u/none", "--exec", "echo", "begun"]);
    assert_eq!((none.status.code(), none.stdout.as_slice()), (Some(3), &b""[..]));
    let none = fixture.output(&["continue", "--json", "--cwd", "/home/u/none", "--exec", "echo", "begun"]);
    assert!(String::from_utf8(none.stdout).unwrap().contains(r#""kind":"error""#));
    assert!(fixture.picture() == before, "continue wrote something");

    let writer = fs::OpenOptions::new().append(true).open(&path).unwrap();
    let mut child = std::process::Command::new("sleep").arg("600").stdout(Stdio::from(writer)).spawn().unwrap();
    let said = fixture.prints(&here);
    let (code, refused) = fixture.fails(&[&here[..], &["--exec", "echo", "{}"]].concat());
    let forced = fixture.prints(&[&here[..], &["--force", "--exec", "echo", "{}"]].concat());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(said.contains(&format!("in use by process {} (sleep)", child.id())), "{said}");
    assert!(code == 5 && refused.contains("--force"), "{refused}");
    assert_eq!(forced.trim_end(), path);
}

#[cfg(target_os = "linux")]
#[test]
fn a_session_in_use_is_said_to_be_with_the_terminal() {
    let fixture = Fixture::new(&[Sessions::Project]);
    let (binary, file) = (env!("CARGO_BIN_EXE_watcher"), fixture.session("15c1"));
    // The shell of a terminal has the session; what it runs does not.
    let command = format!(
        "exec 9>>{}; for words in '' --json; do {binary} continue --cwd /home/u/project $words 9>&-; done",
        file.display()
    );
    let mut script = std::process::Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).env_clear().env("HOME", fixture.home()).env("NO_COLOR", "1");
    script.env("PATH", "/usr/bin:/bin").env("SHELL", "/bin/sh").stdin(Stdio::null());
    let output = script.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let line = said.lines().find(|line| line.starts_with("in use by process ")).expect(&said);
    let (_, terminal) = line.trim_end().split_once(" (sh) on ").expect(line);
    assert!(terminal.strip_prefix("pts-").is_some_and(|number| number.parse::<u32>().is_ok()), "{line}");
    let json = said.lines().find(|line| line.starts_with('{')).expect(&said);
    let answer: serde_json::Value = serde_json::from_str(json).unwrap();
    let user = &answer["data"]["inUse"][0];
    assert!(user["terminal"] == terminal && user["command"] == "sh" && user["pid"].is_u64(), "{answer}");
}

#[test]
fn shells_complete_ids_and_names_as_they_are_now() {
    let fixture = Fixture::new(&[Sessions::Project]);
    for shell in ["bash", "zsh", "fish"] {
        let script = fixture.prints(&["completions", shell]);
        assert!(script.contains("COMPLETE") && script.contains("watcher"), "{script}");
    }
    let before = fixture.picture();
    let complete = |words: &[&str]| completed(fixture.command(&[&["--", "watcher"], words].concat()));
    assert!(complete(&["sessions", "show", "15c"]).contains("15c0ffee00000001"));
    assert!(complete(&["sessions", "show", "Log"]).contains("Login page"));
    assert!(complete(&["sessions", "re"]).contains("rename"));
    assert!(!complete(&["sessions", "show", "zz"]).contains("15c0"));
    assert!(fixture.picture() == before, "completing wrote something");
}

/// What is proposed for the last word.
fn completed(mut asked: std::process::Command) -> String {
    let output = asked.env("COMPLETE", "bash").output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn shells_complete_what_is_in_the_agent_directory_that_was_named() {
    // [D1]
    let (fixture, other) = (Fixture::new(&[]), Fixture::new(&[Sessions::Project]));
    let omp = fixture.home().join(".omp/agent");
    fs::create_dir_all(omp.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(other.agent(), &omp).unwrap();
    let named = other.agent();
    let named = named.to_str().unwrap();
    let homely = "~/.omp/agent";
    let command = |words: &[&str]| fixture.command(&[&["--", "watcher"], words].concat());
    let complete = |words: &[&str]| completed(command(words));
    assert!(!complete(&["sessions", "show", "15c"]).contains("15c0"), "this one is empty");
    let with_equals = format!("--agent-dir={named}");
    for words in [
        &["--agent-dir", named, "sessions", "show", "15c"][..],
        &["sessions", "show", "--agent-dir", named, "15c"],
        &["sessions", "--agent-dir", homely, "show", "15c"],
        &[&with_equals, "sessions", "show", "15c"],
        &["--harness", "omp", "sessions", "show", "15c"],
        &["sessions", "show", "--harness=omp", "15c"],
        &["--harness", "omp", "sessions", "delete", "15c1ffee00000002", "15c0"],
        // What is not understood keeps nobody from the rest.
        &["--agent-dir", named, "sessions", "show", "--no-such-option", "15c"],
    ] {
        assert!(complete(words).contains("15c0ffee00000001"), "{words:?}");
    }
    let words = ["sessions", "show", "15c"];
    let mut overridden = command(&words);
    overridden.env("PI_CODING_AGENT_DIR", named);
    assert!(completed(overridden).contains("15c0ffee00000001"));
}

#[test]
fn prompts_are_added_imported_exported_and_deleted() {
    // H2, H5b
    let fixture = Fixture::new(&[Sessions::Project]);
    assert_eq!(fixture.json("history.add", &["history", "add", "by", "hand"])["recorded"], "inserted");
    assert_eq!(fixture.json("history.add", &["history", "add", "by hand"])["recorded"], "folded");
    fs::write(fixture.home().join("lines.txt"), "one\n\ntwo\none\n").unwrap();
    let sum = fixture.json("history.import", &["history", "import", "lines.txt"]);
    assert_eq!((&sum["added"], &sum["known"]), (&2.into(), &1.into()), "{sum}");
    fixture.prints(&["sync"]);
    fixture.prints(&["history", "export", "-o", "all.jsonl"]);
    let deleted = fixture.json("history.delete", &["history", "delete", "--matching", "^Write the release", "--yes"]);
    assert_eq!(deleted["deleted"], 1);
    assert_eq!(deleted["stillIn"][0], fixture.session("15c1").to_str().unwrap());
    // What was deleted stays away, whoever holds it.
    let again = fixture.json("history.import", &["history", "import", "all.jsonl"]);
    assert_eq!((&again["added"], &again["refused"]), (&0.into(), &1.into()), "{again}");
    fixture.prints(&["sync"]);
    assert!(fixture.json("history.search", &["history", "search", "release"]).as_array().unwrap().is_empty());

    // What a terminal would obey comes out escaped, and comes back as it was.
    fixture.prints(&["history", "add", "odd \u{9b}31m\u{202e} thing"]);
    let exported = fixture.prints(&["history", "export", "--matching", "^odd"]);
    assert!(exported.contains(r"odd \u009b31m\u202e thing") && exported.lines().count() == 1, "{exported:?}");

    fs::write(fixture.home().join("bad.jsonl"), "{\"prompt\":\"good\"}\n{\"no\":1}\n").unwrap();
    let (code, said) = fixture.fails(&["history", "import", "bad.jsonl"]);
    assert!(code == 1 && said.contains("bad.jsonl:2"), "{said}");
}

#[test]
fn whoever_replaces_secrets_says_so() {
    let fixture = Fixture::new(&[Sessions::Project]);
    fs::create_dir_all(fixture.home().join(".config")).unwrap();
    fs::write(fixture.home().join("rules"), "annoyance = which annoys\n").unwrap();
    fs::write(fixture.home().join(".config/watcher.toml"), "[default]\nredaction_rules = ['~/rules']\n").unwrap();
    let synced = fixture.output(&["sync", "--json"]);
    let answer: serde_json::Value = serde_json::from_slice(&synced.stdout).unwrap();
    assert_eq!(answer["data"][0]["redacted"], 1, "{answer}");
    assert_eq!(String::from_utf8(synced.stderr).unwrap(), "secrets were replaced in 1 of them\n");
    assert!(fixture.prints(&["history", "search", "login"]).contains("[redacted:annoyance] whoever typed"));
    fs::write(fixture.home().join("lines"), "plain\nuse password=hunter2 there\n").unwrap();
    assert_eq!(fixture.json("history.import", &["history", "import", "lines"])["redacted"], 1);
    let again = fixture.output(&["history", "import", "lines"]);
    assert!(again.stderr.is_empty(), "what is known already is said once");
}

#[test]
fn a_corrupt_history_is_moved_aside_and_what_is_readable_is_saved() {
    // H5
    let fixture = Fixture::new(&[Sessions::Project]);
    fs::write(fixture.agent().join("history.db"), "this is no database, and long enough to be sure of it".repeat(50))
        .unwrap();
    assert_eq!(fixture.fails(&["history", "check"]).0, 1);
    assert_eq!(fixture.fails(&["history", "check", "--repair"]).0, 5);
    let said = fixture.prints(&["history", "check", "--repair", "--yes"]);
    assert!(said.contains("corrupt file is"), "{said}");
    fixture.prints(&["sync"]);
    assert!(fixture.prints(&["history", "search", "login"]).contains("Fix the login page"));
    assert!(fixture.prints(&["history", "check"]).contains("all is well"));
}

#[test]
fn an_agent_that_is_not_there_is_not_made() {
    let fixture = Fixture::new(&[]);
    let text = |output: std::process::Output| String::from_utf8(output.stderr).unwrap();
    for words in [&["sync", "--harness", "omp"][..], &["sync", "--harness", "pi", "--json"]] {
        let output = fixture.output(words);
        assert_eq!(output.status.code(), Some(0), "{words:?}");
        let said = text(output);
        assert!(said.contains("no such directory") && said.contains("~/.xcsh/agent: `--harness xcsh`"), "{said}");
    }
    let (code, said) = fixture.fails(&["sync", "--agent-dir", "typo"]);
    assert!(code == 3 && said.contains("typo: there is no such directory"), "{said}");
    let said = text(fixture.output(&["sync", "--harness", "all"]));
    assert!(said.contains("~/.pi/agent: there is no such directory") && !said.contains("xcsh"), "{said}");
    for dir in [".omp", ".pi", "typo"] {
        assert!(!fixture.home().join(dir).exists(), "{dir}");
    }
}
