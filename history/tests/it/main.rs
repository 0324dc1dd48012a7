//! Integration tests of the prompt store: one binary, a module for each promise.

#![allow(clippy::unwrap_used, reason = "a failing test should panic")]

mod adding;
mod child;
mod damage;
mod files;
mod forgetting;
mod guest;
mod importing;
mod processes;
mod searching;
mod vectors;
