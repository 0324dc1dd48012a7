//! What is done with new lines.

pub(crate) mod history;
pub(crate) mod pointers;
