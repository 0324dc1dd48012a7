//! JSON as it stands: values are ranges of bytes, nothing is decoded until it is asked for, nothing is lost.
//!
//! A document model (`serde_json::Value` and the like) drops what this crate must keep: number spelling, repeated keys, lone
//! surrogates. Here a value is a slice; walking it never recurses, so nesting a million deep is only long. Callers that want
//! a typed value decode one from the text.

mod text;
mod tokens;
mod validate;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use crate::block::{Carry, block_at, brackets_outside};

pub use text::quote;
pub(crate) use text::{decode, decode_lossless};
pub(crate) use tokens::{TokenKind, Tokens};
pub(crate) use validate::validate;

/// One JSON value, owned: valid JSON, valid UTF-8, spelled as it was found.
///
/// ```
/// use session_core::JsonText;
/// let value = JsonText::parse(r#"{"n": 1.0, "s": "\ud83d"}"#)?;
/// assert_eq!(value.view().get("n").unwrap().raw(), b"1.0");
/// assert_eq!(value.view().get("s").unwrap().text().unwrap(), "\u{fffd}");
/// assert!(JsonText::parse("{").is_err());
/// # Ok::<(), session_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct JsonText(Box<str>);

impl JsonText {
    /// Checks that `text` is one JSON value, and keeps it without the white space around it.
    ///
    /// # Errors
    /// [`ErrorKind::NotJson`](crate::ErrorKind::NotJson) with the byte offset of the first fault.
    pub fn parse(text: &str) -> crate::Result<Self> {
        let text = text.trim_matches([' ', '\t', '\r', '\n']);
        validate(text.as_bytes())
            .map_err(|fault| crate::Error::new(crate::ErrorKind::NotJson, format!("this is no JSON: {fault}")))?;
        Ok(Self(text.into()))
    }

    /// The JSON of a value that serde can write.
    ///
    /// # Errors
    /// [`ErrorKind::NotJson`](crate::ErrorKind::NotJson) for what JSON can't hold: keys that are no text, failing serializers.
    pub fn from_serialize<T: serde::Serialize + ?Sized>(value: &T) -> crate::Result<Self> {
        let text = serde_json::to_string(value).map_err(|error| {
            crate::Error::new(crate::ErrorKind::NotJson, format!("cannot be written as JSON: {error}"))
        })?;
        Ok(Self(text.into()))
    }

    /// A JSON text for `text`.
    pub fn from_text(text: &str) -> Self {
        Self(quote(text).into())
    }

    /// From bytes that [`validate`] accepted; invalid UTF-8 inside text becomes U+FFFD `[L1]`.
    pub(crate) fn from_valid(bytes: &[u8]) -> Self {
        let bytes = bytes.trim_ascii();
        match std::str::from_utf8(bytes) {
            Ok(text) => Self(text.into()),
            Err(_) => Self(String::from_utf8_lossy(bytes).into()),
        }
    }

    /// A copy of a value inside this one.
    pub(crate) fn part(&self, value: Json<'_>) -> Self {
        Self(self.0[value.range_in(self.0.as_bytes())].into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text with the line feeds and carriage returns between its tokens left out; inside texts JSON has none.
    pub(crate) fn on_one_line(&self) -> Cow<'_, str> {
        if self.0.contains(['\n', '\r']) {
            Cow::Owned(self.0.replace(['\n', '\r'], ""))
        } else {
            Cow::Borrowed(&self.0)
        }
    }

    /// The value, for looking into.
    pub fn view(&self) -> Json<'_> {
        Json(self.0.as_bytes())
    }

    /// Decodes into a type of the caller's. Lone surrogates decode to U+FFFD.
    ///
    /// # Errors
    /// [`ErrorKind::NotJson`](crate::ErrorKind::NotJson) when the value has not that shape.
    pub fn to<T: serde::de::DeserializeOwned>(&self) -> crate::Result<T> {
        let text = text::without_lone_surrogates(&self.0);
        serde_json::from_str(&text).map_err(|error| {
            crate::Error::new(crate::ErrorKind::NotJson, format!("not of the expected shape: {error}"))
        })
    }
}

impl fmt::Display for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What kind of value a [`Json`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonKind {
    /// `{…}`
    Object,
    /// `[…]`
    Array,
    /// `"…"`
    Text,
    /// A number.
    Number,
    /// `true` or `false`.
    Bool,
    /// `null`.
    Null,
}

/// A borrowed JSON value.
///
/// Looking into it costs a walk over its bytes; [`members`](Json::members) gives all keys in one walk. On bytes that are no
/// valid JSON the walk stops early and finds less; it never panics.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Json<'a>(&'a [u8]);

impl<'a> Json<'a> {
    /// A view on bytes that begin with a value; white space around it is skipped.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes.trim_ascii())
    }

    /// The bytes as they stand in the file.
    pub fn raw(self) -> &'a [u8] {
        self.0
    }

    /// An owned copy; none when the bytes are no valid JSON.
    pub fn to_owned(self) -> Option<JsonText> {
        validate(self.0).is_ok().then(|| JsonText::from_valid(self.0))
    }

    /// Where this value stands in the bytes that it was found in. Both must be views on the same bytes.
    pub(crate) fn range_in(self, whole: &[u8]) -> Range<usize> {
        let start = (self.0.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
        debug_assert!(start + self.0.len() <= whole.len(), "a view on other bytes");
        start..start + self.0.len()
    }

    /// What it is, by its first byte.
    pub fn kind(self) -> JsonKind {
        match self.0.first() {
            Some(b'{') => JsonKind::Object,
            Some(b'[') => JsonKind::Array,
            Some(b'"') => JsonKind::Text,
            Some(b't' | b'f') => JsonKind::Bool,
            Some(b'n') | None => JsonKind::Null,
            Some(_) => JsonKind::Number,
        }
    }

    /// Whether it is `null`.
    pub fn is_null(self) -> bool {
        self.0 == b"null"
    }

    /// The text of a JSON text; invalid UTF-8 and lone surrogates decode to U+FFFD. None for other kinds.
    pub fn text(self) -> Option<Cow<'a, str>> {
        let inner = self.0.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        Some(decode(inner))
    }

    /// The value of a number, as near as 64 bits come. None for other kinds.
    pub fn number(self) -> Option<f64> {
        (self.kind() == JsonKind::Number).then(|| std::str::from_utf8(self.0).ok()?.parse().ok()).flatten()
    }

    /// The value of a whole number that fits. None for other kinds and for spellings like `1.0`.
    pub fn integer(self) -> Option<i64> {
        std::str::from_utf8(self.0).ok()?.parse().ok()
    }

    /// The value of `true` or `false`.
    pub fn bool(self) -> Option<bool> {
        match self.0 {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => None,
        }
    }

    /// The value of `key` in an object; of repeated keys the last `[L8]`.
    pub fn get(self, key: &str) -> Option<Json<'a>> {
        self.members().filter(|member| member.is(key)).last().map(|member| member.value)
    }

    /// The members of an object in order; empty for other kinds.
    pub fn members(self) -> Members<'a> {
        Members { walk: Walk::into(self.0, b'{') }
    }

    /// The items of an array in order; empty for other kinds.
    pub fn items(self) -> Items<'a> {
        Items { walk: Walk::into(self.0, b'[') }
    }
}

impl fmt::Debug for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.0))
    }
}

/// A key and its value.
#[derive(Clone, Debug)]
pub struct Member<'a> {
    /// The key between its quotes, as it stands in the file.
    raw_key: &'a [u8],
    /// The value.
    pub value: Json<'a>,
    /// From the key's opening quote to the value's end, counted from the object's first byte.
    pub(crate) range: Range<usize>,
}

impl<'a> Member<'a> {
    /// The key, decoded.
    pub fn key(&self) -> Cow<'a, str> {
        decode(self.raw_key)
    }

    /// Whether this is the member named `key`, however it is spelled (`"\u0069d"` is `id`).
    pub fn is(&self, key: &str) -> bool {
        if self.raw_key.contains(&b'\\') { self.key() == key } else { self.raw_key == key.as_bytes() }
    }

    /// Where the value stands, counted from the object's first byte.
    pub(crate) fn value_range(&self) -> Range<usize> {
        self.range.end - self.value.0.len()..self.range.end
    }
}

/// Iterator over the members of an object.
#[derive(Clone, Debug)]
pub struct Members<'a> {
    walk: Walk<'a>,
}

impl<'a> Iterator for Members<'a> {
    type Item = Member<'a>;

    fn next(&mut self) -> Option<Member<'a>> {
        let walk = &mut self.walk;
        let start = walk.next_item(b'}')?;
        let key = walk.value()?;
        let raw_key = walk.bytes[key].strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        walk.blanks();
        if walk.bytes.get(walk.at) != Some(&b':') {
            return None;
        }
        walk.at += 1;
        walk.blanks();
        let value = walk.value()?;
        let range = start..value.end;
        Some(Member { raw_key, value: Json(&walk.bytes[value]), range })
    }
}

/// Iterator over the items of an array.
#[derive(Clone, Debug)]
pub struct Items<'a> {
    walk: Walk<'a>,
}

impl<'a> Iterator for Items<'a> {
    type Item = Json<'a>;

    fn next(&mut self) -> Option<Json<'a>> {
        self.walk.next_item(b']')?;
        let value = self.walk.value()?;
        Some(Json(&self.walk.bytes[value]))
    }
}

/// A position inside an object or array.
#[derive(Clone, Debug)]
struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    /// Stands behind the opening bracket; at the end when the value is of another kind.
    fn into(bytes: &'a [u8], open: u8) -> Self {
        let at = if bytes.first() == Some(&open) { 1 } else { bytes.len() };
        Self { bytes, at }
    }

    fn blanks(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// Steps over a comma to the next item and gives its start; none at `close` or when there is none.
    fn next_item(&mut self, close: u8) -> Option<usize> {
        self.blanks();
        if self.bytes.get(self.at) == Some(&b',') {
            self.at += 1;
            self.blanks();
        }
        (self.at < self.bytes.len() && self.bytes[self.at] != close).then_some(self.at)
    }

    /// Steps over one value and gives its range.
    fn value(&mut self) -> Option<Range<usize>> {
        let start = self.at;
        match *self.bytes.get(start)? {
            b'"' => self.at = text::end_of_text(self.bytes, start + 1)?,
            b'{' | b'[' => self.at = end_of_nested(self.bytes, start)?,
            _ => {
                let rest = &self.bytes[start..];
                let ends = |b: &u8| matches!(b, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n' | b':' | b'"');
                self.at += rest.iter().position(ends).unwrap_or(rest.len());
            }
        }
        (self.at > start).then_some(start..self.at)
    }
}

/// The position behind the bracket that closes the one at `start`. Which bracket closes which is not judged here.
fn end_of_nested(bytes: &[u8], start: usize) -> Option<usize> {
    let mut carry = Carry::default();
    let mut depth = 0_usize;
    let mut at = start;
    while at < bytes.len() {
        let (block, len) = block_at(bytes, at);
        let mut brackets = brackets_outside(&block, len, &mut carry)?;
        while brackets != 0 {
            let n = brackets.trailing_zeros() as usize;
            brackets &= brackets - 1;
            if matches!(block[n], b'{' | b'[') {
                depth += 1;
            } else {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + n + 1);
                }
            }
        }
        at += len;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn view(text: &str) -> Json<'_> {
        Json::new(text.as_bytes())
    }

    #[test]
    fn repeated_and_escaped_keys() {
        let json = view(r#" {"a":1,"\u0061":{"b":[1,{}]} , "c" : "x"} "#);
        assert_eq!(json.get("a").unwrap().raw(), br#"{"b":[1,{}]}"#);
        assert_eq!(json.get("c").unwrap().text().unwrap(), "x");
        assert_eq!(json.get("b"), None);
        assert_eq!(json.members().count(), 3);
        assert_eq!(json.get("a").unwrap().get("b").unwrap().items().count(), 2);
    }

    #[test]
    fn nesting_is_only_long() {
        let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        assert!(JsonText::parse(&deep).is_ok());
        assert_eq!(view(&deep).items().count(), 1);
    }

    proptest! {
        #[test]
        fn property_any_bytes_walk_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let json = Json::new(&bytes);
            for member in json.members() {
                prop_assert!(member.value_range().end <= bytes.len());
                let _ = member.key();
            }
            let _ = json.items().count();
            let _ = (json.text(), json.number(), json.get("x"));
        }

        #[test]
        fn property_valid_as_serde_says(text in r#"[\[\]{},:"0-9a-z\\.eE+ \-]{0,24}"#) {
            let serde = serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok();
            prop_assert_eq!(validate(text.trim().as_bytes()).is_ok(), serde, "{}", text);
        }
    }
}
