//! Integration tests of the prompt store: one binary, a module for each promise.

#![allow(clippy::unwrap_used, reason = "a failing test should panic")]

mod adding;
mod bulk;
mod callers;
mod child;
mod damage;
mod files;
mod forgetting;
mod guest;
mod heard;
mod importing;
mod odd_forms;
mod processes;
mod searching;
mod vectors;

/// So many cases of a property, or as many as `PROPTEST_CASES` asks for (`make fuzz`).
fn cases(default: u32) -> proptest::test_runner::Config {
    let cases = std::env::var("PROPTEST_CASES").map_or(default, |cases| cases.parse().unwrap());
    proptest::test_runner::Config::with_cases(cases)
}
