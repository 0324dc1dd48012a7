//! A context injector: before the model answers it gets the notes of a file, once per branch and again when they change.
//!
//! `injector SESSION NOTES TEXT` lets the user say TEXT and prints what the model reads.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, exit};

use plugin_sdk::{Attribution, Event, Extension, Handle, LiveSession, Opening, State, Version};
use session_core::{EntryKind, Host, JsonText, Leaf, Message, Role, SessionManager};

/// Injects the notes when the user spoke and the model has not these notes yet on this branch.
struct Injector {
    extension: Extension,
    /// What was injected last.
    injected: State<String>,
    notes: PathBuf,
}

impl Injector {
    fn hear(&self, event: &Event, session: &mut Handle<'_>) -> Result<(), plugin_sdk::BoxError> {
        if !matches!(event, Event::EntryAppended { kind: EntryKind::Message, .. }) || !user_spoke_last(session)? {
            return Ok(());
        }
        let notes = std::fs::read_to_string(&self.notes)?;
        if self.injected.load(session)?.as_ref() != Some(&notes) {
            self.extension.message(notes.as_str()).hidden().attribution(Attribution::Agent).append(session)?;
            self.injected.save(session, &notes)?;
        }
        Ok(())
    }
}

fn user_spoke_last(session: &Handle<'_>) -> session_core::Result<bool> {
    let Some(entry) = session.manager().session().leaf_entry() else { return Ok(false) };
    let json = entry.json()?;
    Ok(json.view().get("message").is_some_and(|message| Message::new(message).role() == Role::User))
}

fn usage() -> ! {
    eprintln!("usage: injector SESSION NOTES TEXT");
    exit(2)
}

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
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, notes, text] = arguments.as_slice() else { usage() };
    let manager = SessionManager::open(&Host::of_process()?, Path::new(file), None)?;

    let extension = Extension::new("notes")?;
    let injected = extension.named_state("injected", Version(1))?;
    let injector = Injector { extension, injected, notes: notes.into() };
    let mut session = LiveSession::new(manager, Opening::Resumed);
    session.listen("notes", move |event, session| injector.hear(event, session));

    let said = format!(r#"{{"role":"user","content":{},"timestamp":0}}"#, session_core::quote(text));
    session.append_message(&JsonText::parse(&said)?)?;
    // What the user said is stored, whatever became of the listener.
    for failure in session.take_failures() {
        println!("({failure})");
    }
    for message in session.manager().context(&Leaf::Current)?.messages() {
        let role = message.view().role_name().unwrap_or_default().into_owned();
        println!("{role}: {}", message.view().text("\n").trim_end());
    }
    Ok(())
}
