//! JSON that the judge looks at: all nodes of a document in one list, so that a tree of any depth is only long.
//!
//! Numbers keep their spelling and texts that no `String` can hold (lone surrogates) their escapes: nothing that could tell
//! two answers apart is lost. It reads well-formed JSON only; whether an answer is JSON at all is decided before.

use session_core::JsonText;

/// The place of a node in its document.
pub type Node = usize;

/// One JSON value; those inside it are named by their place.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number as it is spelled.
    Number(String),
    /// A text, decoded.
    Text(String),
    /// The items of an array.
    Array(Vec<Node>),
    /// The members of an object in order; of repeated keys the last.
    Object(Vec<(String, Node)>),
}

/// One JSON document. The root is node 0, and what is inside a node stands behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct Document(Vec<Value>);

impl Document {
    /// The root.
    pub const ROOT: Node = 0;

    /// Reads one JSON value.
    ///
    /// # Errors
    /// When the text is no JSON.
    pub fn parse(text: &str) -> Result<Self, String> {
        let json = JsonText::parse(text).map_err(|error| error.to_string())?;
        Ok(Self(read(json.as_str())))
    }

    /// The value at a place.
    pub fn at(&self, node: Node) -> &Value {
        &self.0[node]
    }

    /// All values, for changing them one by one. What is inside a value stands behind it.
    pub fn values_mut(&mut self) -> &mut [Value] {
        &mut self.0
    }

    /// The member `key` of an object; none when it is not there or this is no object.
    pub fn get(&self, node: Node, key: &str) -> Option<Node> {
        let Value::Object(members) = self.at(node) else { return None };
        members.iter().find(|(name, _)| name == key).map(|(_, value)| *value)
    }

    /// The text at a place.
    pub fn text(&self, node: Node) -> Option<&str> {
        if let Value::Text(text) = self.at(node) { Some(text) } else { None }
    }

    /// The whole number at a place.
    pub fn integer(&self, node: Node) -> Option<u64> {
        if let Value::Number(number) = self.at(node) { number.parse().ok() } else { None }
    }

    /// The items of an array; none for other values.
    pub fn items(&self, node: Node) -> &[Node] {
        if let Value::Array(items) = self.at(node) { items } else { &[] }
    }

    /// The members of an object; none for other values.
    pub fn members(&self, node: Node) -> &[(String, Node)] {
        if let Value::Object(members) = self.at(node) { members } else { &[] }
    }

    /// A value as JSON, cut when it is long: for people.
    pub fn shown(&self, node: Node) -> String {
        /// More than this is cut.
        const ROOM: usize = 160;
        let mut out = String::new();
        let mut rest = vec![Part::Value(node)];
        while let Some(part) = rest.pop() {
            if out.len() > ROOM {
                let cut = out.char_indices().nth(ROOM).map_or(out.len(), |(at, _)| at);
                out.truncate(cut);
                out.push('…');
                break;
            }
            match part {
                Part::Text(text) => out.push_str(&text),
                Part::Value(node) => self.show_one(node, &mut out, &mut rest),
            }
        }
        out
    }

    fn show_one(&self, node: Node, out: &mut String, rest: &mut Vec<Part>) {
        match self.at(node) {
            Value::Null => out.push_str("null"),
            Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Value::Number(number) => out.push_str(number),
            Value::Text(text) => out.push_str(&session_core::quote(text)),
            Value::Array(items) => {
                out.push('[');
                rest.push(Part::Text("]".into()));
                for (n, item) in items.iter().enumerate().rev() {
                    rest.push(Part::Value(*item));
                    rest.extend((n > 0).then(|| Part::Text(",".into())));
                }
            }
            Value::Object(members) => {
                out.push('{');
                rest.push(Part::Text("}".into()));
                for (n, (key, value)) in members.iter().enumerate().rev() {
                    rest.push(Part::Value(*value));
                    let comma = if n > 0 { "," } else { "" };
                    rest.push(Part::Text(format!("{comma}{}:", session_core::quote(key))));
                }
            }
        }
    }
}

/// What is still to be shown.
enum Part {
    Text(String),
    Value(Node),
}

/// Reads JSON that was checked: whatever is in the way of the next value is a comma, a colon or white space.
fn read(json: &str) -> Vec<Value> {
    let bytes = json.as_bytes();
    let mut values = Vec::new();
    let mut open: Vec<Node> = Vec::new();
    let mut key: Option<String> = None;
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'}' | b']' => {
                open.pop();
                at += 1;
                continue;
            }
            b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' => {
                at += 1;
                continue;
            }
            b'{' | b'[' => at + 1,
            b'"' => end_of_text(bytes, at + 1),
            _ => at + bytes[at..].iter().position(|b| b",:]} \t\r\n".contains(b)).unwrap_or(bytes.len() - at),
        };
        let literal = &json[at..end];
        at = end;
        let parent = open.last().copied();
        let in_object = parent.is_some_and(|parent| matches!(values[parent], Value::Object(_)));
        if in_object && key.is_none() {
            key = Some(decode(literal));
            continue;
        }
        let node = values.len();
        values.push(match literal {
            "{" => Value::Object(Vec::new()),
            "[" => Value::Array(Vec::new()),
            "null" => Value::Null,
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            text if text.starts_with('"') => Value::Text(decode(text)),
            number => Value::Number(number.to_owned()),
        });
        match parent.map(|parent| &mut values[parent]) {
            Some(Value::Object(members)) => {
                let key = key.take().unwrap_or_default();
                members.retain(|(name, _)| *name != key);
                members.push((key, node));
            }
            Some(Value::Array(items)) => items.push(node),
            _ => {}
        }
        if matches!(literal, "{" | "[") {
            open.push(node);
        }
    }
    values
}

fn end_of_text(bytes: &[u8], mut at: usize) -> usize {
    while bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

fn decode(literal: &str) -> String {
    serde_json::from_str(literal).unwrap_or_else(|_| literal.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_shows() {
        let text = r#" {"a":[1.0,true,null,{"b":"x\"]","c":{}}],"a":-2e3,"s":"\ud83d"} "#;
        let document = Document::parse(text).unwrap();
        assert_eq!(document.shown(Document::ROOT), r#"{"a":-2e3,"s":"\"\\ud83d\""}"#);
        let array = Document::parse(&text.replacen("\"a\":-2e3,", "", 1)).unwrap();
        assert_eq!(array.shown(1), r#"[1.0,true,null,{"b":"x\"]","c":{}}]"#);
        assert!(Document::parse("[1").is_err());
    }

    #[test]
    fn depth_is_only_length() {
        let depth = 300_000;
        let document = Document::parse(&format!("{}{}", "[".repeat(depth), "]".repeat(depth))).unwrap();
        assert!(document.shown(Document::ROOT).ends_with('…'));
    }
}
