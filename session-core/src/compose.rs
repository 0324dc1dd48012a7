//! Lines that we create `[F8b]`: `type`, `id`, `parentId`, `timestamp`, then the type's own fields, no space between tokens.

use crate::clock::Timestamp;
use crate::json::{JsonText, quote};

/// An entry that is about to be appended: its type and own fields, in the order of `[F4]`.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) kind: String,
    fields: Vec<(&'static str, JsonText)>,
}

impl Draft {
    pub(crate) fn new(kind: &str) -> Self {
        Self { kind: kind.to_owned(), fields: Vec::new() }
    }

    /// Adds a field of any JSON.
    pub(crate) fn json(mut self, key: &'static str, value: JsonText) -> Self {
        self.fields.push((key, value));
        self
    }

    /// Adds a text.
    pub(crate) fn text(self, key: &'static str, text: &str) -> Self {
        self.json(key, JsonText::from_text(text))
    }

    /// Adds a field that may be absent; an absent one is left out.
    pub(crate) fn optional(self, key: &'static str, value: Option<JsonText>) -> Self {
        match value {
            Some(value) => self.json(key, value),
            None => self,
        }
    }

    /// The whole line, without its line feed. JSON that callers hand in may hold line feeds between its tokens; a line holds
    /// none.
    pub(crate) fn line(&self, id: &str, parent: Option<&str>, timestamp: Timestamp) -> JsonText {
        let parent = parent.map_or_else(|| "null".to_owned(), quote);
        let mut line = format!(
            r#"{{"type":{},"id":{},"parentId":{parent},"timestamp":"{timestamp}""#,
            quote(&self.kind),
            quote(id)
        );
        for (key, value) in &self.fields {
            line.push(',');
            line.push_str(&quote(key));
            line.push(':');
            line.push_str(&value.on_one_line());
        }
        line.push('}');
        JsonText::from_valid(line.as_bytes())
    }
}
