//! Runnable examples of the session store, each a program on a session file: `cargo run -p examples --bin todo`.
//!
//! `todo`, `counter`, `injector`, `bookmarks`: extensions. `follower`: what another process appends. `resume`: continuing
//! where this terminal left off. Their sources stand in the documentation of `plugin_sdk::examples`; the tests run them all.
