//! End-to-end tests on the built binary, each in a temporary agent directory and home.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on fails, and may say what it measured"
)]

mod corrupt;
mod daemon;
mod edges;
mod exactly_once;
mod ext;
mod first_cut;
mod fixture;
mod habits;
mod hook;
mod install;
mod keeping;
mod plugin;
mod pointers;
mod readme;
mod subagents;
mod support;
mod transcripts;
mod typescript;
