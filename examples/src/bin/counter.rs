//! A counter with two schema versions: what version 1 of this extension saved is read by version 2.
//!
//! ```text
//! counter SESSION                count one step further
//! counter SESSION step NUMBER    … and further from now on
//! counter SESSION v1             as version 1 of this program did
//! ```

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use std::error::Error;
use std::path::Path;
use std::process::{ExitCode, exit};

use plugin_sdk::{ErrorKind, Extension, State, Version};
use serde::{Deserialize, Serialize};
use session_core::{Host, SessionManager};

/// The shape of version 2.
#[derive(Serialize, Deserialize)]
struct Counter {
    count: u64,
    step: u64,
}

/// The shape of version 1, which knew no steps.
#[derive(Serialize, Deserialize)]
struct CounterV1 {
    count: u64,
}

fn counter() -> plugin_sdk::Result<State<Counter>> {
    Extension::new("counter")?
        .state(Version(2))
        .upgrade(Version(1), |old: CounterV1| Ok(Counter { count: old.count, step: 1 }))?
        // What a JavaScript extension saves has no version: it may be either.
        .upgrade(Version(0), |count: u64| Ok(CounterV1 { count }))
}

fn usage() -> ! {
    eprintln!("usage: counter SESSION [step NUMBER|v1]");
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

    if *command == ["v1"] {
        let old = Extension::new("counter")?.state::<CounterV1>(Version(1));
        return match old.load(&session) {
            Ok(counter) => {
                let count = counter.map_or(0, |counter| counter.count) + 1;
                old.save(&mut session, &CounterV1 { count })?;
                println!("{count}");
                Ok(())
            }
            // The older program does not guess, and does not write over what it can't read.
            Err(error) if error.kind() == ErrorKind::NewerVersion => {
                println!("{error}");
                println!("the data: {}", error.data().map(ToString::to_string).unwrap_or_default());
                Ok(())
            }
            Err(error) => Err(error.into()),
        };
    }

    let state = counter()?;
    let mut counter = state.load(&session)?.unwrap_or(Counter { count: 0, step: 1 });
    if let ["step", step] = command {
        counter.step = step.parse()?;
    }
    counter.count += counter.step;
    state.save(&mut session, &counter)?;
    println!("{}", counter.count);
    Ok(())
}
