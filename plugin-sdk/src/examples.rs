//! The sources of runnable examples, each a program on a session file: `cargo run -p examples --bin todo`.

macro_rules! sources {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        $($(#[$doc])*
        ///
        /// ```no_run
        #[doc = include_str!(concat!("../../examples/src/bin/", stringify!($name), ".rs"))]
        /// ```
        pub mod $name {})*
    };
}

sources! {
    /// A todo list that survives branches.
    todo,
    /// A counter with two schema versions.
    counter,
    /// A context injector: a listener that appends messages to the model.
    injector,
    /// Bookmarks with labels.
    bookmarks,
    /// A follower that prints what another process appends.
    follower,
    /// Continuing the recent session of a terminal.
    resume,
}
