//! Integration tests of `session-core`, one module a subject.

#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect fails")]

mod artifacts;
mod blobs;
mod catalog;
mod child;
mod collect;
mod dying;
mod follow;
mod follow_model;
mod follow_reads;
mod manager;
mod persist;
mod reader;
mod reading;
mod storage;
mod terminal;
mod trash;
