//! Bookmarks: labels on entries, from which a conversation can go on another way.
//!
//! ```text
//! bookmarks SESSION set NAME [ENTRY]     on an entry, or on the last one
//! bookmarks SESSION remove NAME
//! bookmarks SESSION list
//! bookmarks SESSION say NAME TEXT        the user goes on from there
//! ```

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use std::error::Error;
use std::path::Path;
use std::process::{ExitCode, exit};

use session_core::{EntryId, Host, JsonText, Leaf, Session, SessionManager, quote};

/// The entry that has the label.
fn find(session: &Session, name: &str) -> Result<EntryId, Box<dyn Error>> {
    let found = session.labels()?.into_iter().find(|(_, label)| label == name);
    found.map(|(entry, _)| entry).ok_or_else(|| format!("no bookmark is named {name}").into())
}

fn usage() -> ! {
    eprintln!("usage: bookmarks SESSION (set NAME [ENTRY]|remove NAME|list|say NAME TEXT)");
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
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [file, command @ ..] = arguments.as_slice() else {
        usage();
    };
    let mut session = SessionManager::open(&Host::of_process()?, Path::new(file), None)?;
    match command {
        ["set", name, entry @ ..] => {
            let last = session.leaf_id().ok_or("nothing has been said yet")?.to_owned();
            session.append_label_change(entry.first().unwrap_or(&last.as_str()), Some(name))?;
        }
        ["remove", name] => {
            let entry = find(session.session(), name)?;
            session.append_label_change(entry.as_str(), None)?;
        }
        ["list"] => {
            // In the order of the conversation, wherever their labels stand.
            let labels = session.session().labels()?;
            for entry in session.session().entries() {
                if let Some(label) = labels.get(entry.id()) {
                    println!("{label}: {} {}", entry.kind_name(), entry.id());
                }
            }
        }
        ["say", name, text] => {
            let entry = find(session.session(), name)?;
            session.branch(entry.as_str())?;
            let said = format!(r#"{{"role":"user","content":{},"timestamp":0}}"#, quote(text));
            let said = session.append_message(&JsonText::parse(&said)?)?;
            println!("{said}, after {} messages", session.context(&Leaf::Entry(entry))?.messages().len());
        }
        _ => usage(),
    }
    Ok(())
}
