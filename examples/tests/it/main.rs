//! Runs the examples as a person would, and looks at what they print and write.

#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect fails")]

mod extensions;
mod processes;
mod program;
