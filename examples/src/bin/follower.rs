//! Prints what another process appends to a session, as it is appended.
//!
//! `follower SESSION [COUNT]` begins with what is there and ends after COUNT entries; without a count it goes on until it is
//! stopped. The session need not exist yet.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use std::error::Error;
use std::path::Path;
use std::process::{ExitCode, exit};
use std::sync::Arc;
use std::time::Duration;

use plugin_sdk::Subscription;
use session_core::storage::FileSessionStorage;

fn usage() -> ! {
    eprintln!("usage: follower SESSION [COUNT]");
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
    let [file, count @ ..] = arguments.as_slice() else { usage() };
    let mut left: usize = count.first().map_or(Ok(usize::MAX), |count| count.parse())?;

    let mut others = Subscription::to_file(Arc::new(FileSessionStorage::new()), Path::new(file));
    while left > 0 {
        let update = others.look()?;
        for entry in update.entries().take(left) {
            println!(
                "{} {} after {}",
                entry.kind_name(),
                entry.id(),
                entry.parent_id().map_or("nothing", |id| id.as_str())
            );
        }
        left = left.saturating_sub(update.entries().count());
        for defect in update.defects().list() {
            println!("{defect}");
        }
        if left > 0 && !update.has_more() {
            // A look that was one too many costs one `stat`; the watcher looks when the system says that a file changed.
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    Ok(())
}
