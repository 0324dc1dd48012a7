//! Tests that need the shared support or more than one crate, one module a subject.

#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect fails")]

mod blob_crash;
mod catalog;
mod corpus;
mod extensions;
mod manager_faults;
mod pointers;
mod trash;
mod vectors;
