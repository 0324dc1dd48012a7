//! A todo list that survives branches: each branch of the conversation has its own.
//!
//! ```text
//! todo SESSION add TEXT        todo SESSION done NUMBER
//! todo SESSION list            todo SESSION at ENTRY (add|done|list) …   as things were there
//! ```

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use std::error::Error;
use std::path::Path;
use std::process::{ExitCode, exit};

use plugin_sdk::{Extension, Saved, Version};
use serde::{Deserialize, Serialize};
use session_core::{Host, SessionManager};

#[derive(Default, Serialize, Deserialize)]
struct Todos {
    items: Vec<Item>,
}

#[derive(Serialize, Deserialize)]
struct Item {
    text: String,
    done: bool,
}

fn usage() -> ! {
    eprintln!("usage: todo SESSION [at ENTRY] (add TEXT|done NUMBER|list)");
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
    let command = match command {
        ["at", entry, command @ ..] => {
            session.branch(entry)?; // what is saved from here on is a branch of its own
            command
        }
        command => command,
    };

    let state = Extension::new("todo")?.state::<Todos>(Version(1));
    let mut todos = state.load(&session)?.unwrap_or_default();
    match command {
        ["add", text] => todos.items.push(Item { text: (*text).to_owned(), done: false }),
        ["done", number] => {
            let number: usize = number.parse()?;
            let item = number.checked_sub(1).and_then(|index| todos.items.get_mut(index));
            item.ok_or("there is no such item")?.done = true;
        }
        ["list"] => {}
        _ => usage(),
    }
    for (item, number) in todos.items.iter().zip(1..) {
        println!("{number}. [{}] {}", if item.done { 'x' } else { ' ' }, item.text);
    }
    match state.save(&mut session, &todos)? {
        Saved::Appended(entry) => println!("saved as {entry}"),
        Saved::Unchanged => {} // listing appends nothing, and neither does `done` for what is done
    }
    Ok(())
}
