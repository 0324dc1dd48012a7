//! `watcher plugin`: what is installed can be taken out without a trace, and nobody else's file is touched.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::support::World;

fn all_files(world: &World) -> Vec<String> {
    let mut files = Vec::new();
    let mut dirs = vec![world.home().to_owned()];
    while let Some(dir) = dirs.pop() {
        for item in fs::read_dir(&dir).unwrap().map(Result::unwrap) {
            if item.file_type().unwrap().is_dir() {
                dirs.push(item.path());
            } else {
                files.push(item.path().strip_prefix(world.home()).unwrap().display().to_string());
            }
        }
    }
    files.sort();
    files
}

#[test]
fn each_harness_gets_its_plugin_and_loses_it_without_a_trace() {
    for (harness, dir, files) in [
        ("xcsh", ".xcsh/agent", &[".xcsh/agent/extensions/watcher.ts"][..]),
        ("omp", ".omp/agent", &[".omp/agent/extensions/watcher.ts"]),
        ("pi", ".pi/agent", &[".pi/agent/extensions/watcher.ts"]),
        (
            "claude-code",
            ".claude",
            &[".claude/skills/watcher/.claude-plugin/plugin.json", ".claude/skills/watcher/hooks/hooks.json"],
        ),
    ] {
        let world = World::new();
        assert_eq!(world.output(&["plugin", "install", harness]).status.code(), Some(3), "{harness} is not set up");
        fs::create_dir_all(world.home().join(dir)).unwrap();
        let dry = world.json(&["plugin", "install", harness, "--dry-run"]);
        assert!(dry.as_array().unwrap().iter().all(|file| file["step"] == "write"), "{dry}");
        assert!(all_files(&world).is_empty(), "{harness}");
        let said = String::from_utf8(world.output(&["plugin", "install", harness, "--dry-run"]).stdout).unwrap();
        world.json(&["plugin", "install", harness]);
        for file in dry.as_array().unwrap() {
            let written = fs::read_to_string(file["path"].as_str().unwrap()).unwrap();
            assert_eq!(file["content"], written, "a dry run shows what it would write");
            let mut lines = said.lines();
            let is_shown = |line: &str| lines.any(|said| said.trim() == line.trim());
            assert!(written.lines().all(is_shown), "{said}");
        }
        let there = all_files(&world);
        assert!(files.iter().all(|file| there.iter().any(|there| there == file)), "{harness}: {there:?}");
        assert_eq!(there.len(), files.len() + 1, "the files and the record: {there:?}");
        let again = world.json(&["plugin", "install", harness]);
        assert!(again.as_array().unwrap().iter().all(|file| file["step"] == "unchanged"), "{again}");
        world.json(&["plugin", "uninstall", harness]);
        assert!(all_files(&world).is_empty(), "{harness}");
        assert!(!world.home().join(".local/state/watcher").exists(), "{harness}: the place of the record");
        assert_eq!(fs::read_dir(world.home().join(dir)).unwrap().count(), 0, "directories that we made go too");
    }
}

#[test]
fn nobody_else_s_file_is_overwritten_or_removed() {
    let world = World::new();
    let dir = world.home().join(".pi/agent/extensions");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("watcher.ts"), "somebody's").unwrap();
    fs::write(dir.join("other.ts"), "somebody's").unwrap();
    let output = world.output(&["plugin", "install", "pi"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("not ours"));
    assert_eq!(world.json(&["plugin", "uninstall", "pi"])[0]["step"], "kept");
    assert_eq!(fs::read_to_string(dir.join("watcher.ts")).unwrap(), "somebody's");

    fs::remove_file(dir.join("watcher.ts")).unwrap();
    world.json(&["plugin", "install", "pi"]);
    // An older one of ours, as its record says, is updated.
    let record = world.home().join(".local/state/watcher/plugins");
    let record = fs::read_dir(record).unwrap().next().unwrap().unwrap().path();
    let sum = Command::new("sh").args(["-c", "printf older | sha256sum"]).output().unwrap();
    let sum = String::from_utf8(sum.stdout).unwrap()[..64].to_owned();
    fs::write(dir.join("watcher.ts"), "older").unwrap();
    fs::write(&record, json!({dir.join("watcher.ts").to_str().unwrap(): sum}).to_string()).unwrap();
    assert_eq!(world.json(&["plugin", "install", "pi"])[0]["step"], "update");
    // One that somebody changed stays.
    fs::write(dir.join("watcher.ts"), "changed").unwrap();
    assert_eq!(world.output(&["plugin", "install", "pi"]).status.code(), Some(1));
    assert_eq!(world.json(&["plugin", "uninstall", "pi"])[0]["step"], "kept");
    assert_eq!(all_files(&world), [".pi/agent/extensions/other.ts", ".pi/agent/extensions/watcher.ts"]);
}

#[test]
fn the_command_of_the_claude_code_plugin_reaches_the_hook_and_fails_nobody_without_it() {
    let world = World::new();
    let hooks = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugin-sdk/harness/claude-code/hooks/hooks.json");
    let hooks: serde_json::Value = serde_json::from_str(&fs::read_to_string(hooks).unwrap()).unwrap();
    let command = hooks["hooks"]["UserPromptSubmit"][0]["hooks"][0]["command"].as_str().unwrap();
    let bin = PathBuf::from(env!("CARGO_BIN_EXE_watcher")).parent().unwrap().to_owned();
    let run = |path: &str| {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", command]).env_clear().env("HOME", world.home()).env("PATH", path);
        let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let event =
            json!({"hook_event_name": "UserPromptSubmit", "session_id": "c", "cwd": "/w", "prompt": "by plugin"});
        // Without the binary nobody reads it.
        let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), event.to_string().as_bytes());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
    };
    run("/usr/bin:/bin");
    assert!(all_files(&world).is_empty());
    run(&format!("{}:/usr/bin:/bin", bin.display()));
    let own = world.home().join(".local/state/watcher/claude-code");
    let recent = world.json(&["history", "recent", "--agent-dir", own.to_str().unwrap()]);
    assert_eq!(recent[0]["prompt"], "by plugin");
}
