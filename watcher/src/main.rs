//! The `watcher` binary.

fn main() {}
