//! Answers as JSON text: what failed, and objects and arrays put together from texts that are JSON already.

use std::fmt::{self, Display, Write};
use std::io;

use session_core::quote;

/// What a command gives: JSON, or why there is none.
pub type Outcome = Result<String, Failure>;

/// An error as the driver tells it.
#[derive(Debug)]
pub struct Failure {
    kind: String,
    message: String,
}

impl Failure {
    /// A failure of a kind.
    pub fn new(kind: &str, message: impl Into<String>) -> Self {
        Self { kind: kind.to_owned(), message: message.into() }
    }

    /// A command that cannot be understood.
    pub fn input(message: impl Into<String>) -> Self {
        Self::new("InvalidInput", message)
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, r#"{{"kind":{},"message":{}}}"#, quote(&self.kind), quote(&self.message))
    }
}

impl From<session_core::Error> for Failure {
    fn from(error: session_core::Error) -> Self {
        Self { kind: format!("{:?}", error.kind()), message: error.to_string() }
    }
}

impl From<history::Error> for Failure {
    fn from(error: history::Error) -> Self {
        Self { kind: format!("{:?}", error.kind()), message: error.to_string() }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self { kind: format!("{:?}", error.kind()), message: error.to_string() }
    }
}

/// An object, put together member by member.
#[derive(Debug, Default)]
pub struct Object(String);

impl Object {
    /// An empty object.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a member whose value is JSON.
    #[must_use]
    pub fn with(mut self, key: &str, json: impl Display) -> Self {
        self.add(key, json);
        self
    }

    /// Adds a text, or null.
    #[must_use]
    pub fn with_text<T: AsRef<str>>(self, key: &str, text: Option<T>) -> Self {
        self.with(key, text_or_null(text))
    }

    /// Adds a member whose value is JSON.
    pub fn add(&mut self, key: &str, json: impl Display) {
        let comma = if self.0.is_empty() { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = write!(self.0, "{comma}{}:{json}", quote(key));
    }
}

impl Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{}}}", self.0)
    }
}

/// An array of what is JSON already.
pub(super) fn array<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    format!("[{}]", items.join(","))
}

/// A JSON text, or null.
pub(super) fn text_or_null<T: AsRef<str>>(text: Option<T>) -> String {
    text.map_or_else(|| "null".to_owned(), |text| quote(text.as_ref()))
}
