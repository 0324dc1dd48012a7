//! Integration tests of `plugin-sdk`, one module a subject.

#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect fails")]

mod branches;
mod fold;
mod killed;
mod listeners;
mod messages;
mod node;
mod numbers;
mod side_by_side;
mod states;
mod subscription;
mod upgrades;
mod writing;
