//! Several processes and terminals: the follower, and continuing the recent session.

use std::process::Stdio;

use crate::program::{Place, saved, text};

const TODO: &str = env!("CARGO_BIN_EXE_todo");
const FOLLOWER: &str = env!("CARGO_BIN_EXE_follower");
const RESUME: &str = env!("CARGO_BIN_EXE_resume");

#[test]
fn the_follower_prints_what_another_process_appends() {
    let place = Place::new();
    let file = place.session();
    let follower = place.command(FOLLOWER, &[text(&file), "2"]).stdout(Stdio::piped()).spawn().unwrap();
    let milk = saved(&place.run(TODO, &[text(&file), "add", "milk"]));
    let tea = saved(&place.run(TODO, &[text(&file), "add", "tea"]));
    // It ends by itself once it has seen both.
    let output = follower.wait_with_output().unwrap();
    assert!(output.status.success());
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(printed, format!("custom {milk} after nothing\ncustom {tea} after {milk}\n"));
}

#[test]
fn a_demonstration_that_nobody_reads_ends_without_a_panic() {
    let place = Place::new();
    let (nobody, output) = std::io::pipe().unwrap();
    drop(nobody);
    let ended = place.command(env!("CARGO_BIN_EXE_demo"), &[]).stdout(output).output().unwrap();
    assert!(ended.status.success() && ended.stderr.is_empty(), "{}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn each_terminal_continues_its_own_session() {
    // K28, K29 [R5]
    let place = Place::new();
    let resume = |terminal: &str, words: &[&str]| {
        let output = place.command(RESUME, words).env("TMUX_PANE", terminal).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(resume("%1", &[]), "(a new session)\n");
    let first = resume("%1", &["one"]);
    let first = first.trim().trim_matches(['(', ')']).to_owned();
    assert!(std::path::Path::new(&first).exists());
    assert_eq!(resume("%1", &["two"]), format!("user: one\n({first})\n"));

    // A terminal that is not known yet takes the most recent session of the directory.
    assert_eq!(resume("%2", &[]), format!("user: one\nuser: two\n({first})\n"));
    for _ in 0..10 {
        resume("%1", &["more"]);
    }
    assert_eq!(std::fs::read_dir(std::path::Path::new(&first).parent().unwrap()).unwrap().count(), 1);
}
