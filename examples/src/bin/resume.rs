//! Continues where this terminal left off: its own session, else the most recent one of this directory, else a new one.
//!
//! `resume [TEXT]` prints what was said, and lets the user say TEXT.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use std::error::Error;
use std::process::ExitCode;

use session_core::{Host, JsonText, Leaf, SessionManager, quote};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let host = Host::of_process()?;
    let mut session = SessionManager::continue_recent(&host, &std::env::current_dir()?, None)?;
    for message in session.context(&Leaf::Current)?.messages() {
        println!("{}: {}", message.view().role_name().unwrap_or_default(), message.view().text("\n"));
    }
    if let Some(text) = std::env::args().nth(1) {
        let said = format!(r#"{{"role":"user","content":{},"timestamp":0}}"#, quote(&text));
        session.append_message(&JsonText::parse(&said)?)?;
        // A harness waits for the model's answer; this program has none, and keeps what was said all the same.
        session.ensure_on_disk()?;
        session.flush()?;
    }
    // A hint only for a file that exists.
    match session.file().filter(|_| session.is_on_disk()) {
        Some(file) => println!("({})", file.display()),
        None => println!("(a new session)"),
    }
    Ok(())
}
