//! The `watcher` binary: it reads the command line, runs one command and leaves with the code that [`exit`] lists.
//!
//! Nothing is decided here. Commands are thin files in `cli` over the engine and the libraries.

mod agents;
mod cause;
mod cli;
mod discover;
mod engine;
mod exit;
mod hook;
mod intake;
mod ledger;
mod logging;
mod mending;
mod place;
mod plugin;
mod prompt;
mod readiness;
mod service;
mod setting;
mod settings;
mod sinks;
mod source;
mod spool;
mod state;
mod supervise;
mod tails;
mod terminals;
mod watches;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
