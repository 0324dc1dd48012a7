//! Integration tests of the prompt store: one binary, a module for each promise.

#![allow(clippy::unwrap_used, reason = "a failing test should panic")]

mod adding;
mod vectors;
