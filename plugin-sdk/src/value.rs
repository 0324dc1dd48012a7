//! From a value of the author's to the JSON that is written: whatever would not come back as it was is refused first.
//!
//! Refused are numbers that JSON or JavaScript can't hold, what the session's own limits would cut or leave out on the way to
//! the disk `[W8]`, and nesting that no reader of ours takes.

use serde::Serialize;
use session_core::{BlobHash, Json, JsonKind, JsonText, MAX_TEXT_UNITS};

use crate::error::{Error, ErrorKind, Result};
use crate::finite;
use crate::place::Place;

/// The most bytes of JSON that one state or the details of one message may have: 1 MB.
pub const MAX_STATE_BYTES: usize = 1_000_000;

/// The deepest nesting that `serde_json` reads.
const MAX_DEPTH: usize = 127;

/// `Number.MAX_SAFE_INTEGER`: beyond it JavaScript reads some integers as their neighbours.
const MAX_SAFE_INTEGER: i64 = (1 << 53) - 1;

/// Keys that every program of the family leaves out when it writes a session `[W8]`.
const NEVER_WRITTEN: [&str; 2] = ["partialJson", "jsonlEvents"];

/// Which numbers may be saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Numbers {
    /// Whatever JSON can hold: all integers, finite floats.
    #[default]
    Json,
    /// Integers up to 2^53 − 1 only: what JavaScript reads without rounding. For state that a TypeScript extension shares.
    JavaScript,
}

/// The JSON of a value, checked.
pub(crate) fn to_json<T: Serialize + ?Sized>(value: &T, numbers: Numbers) -> Result<JsonText> {
    let json = to_json_of_any_size(value)?;
    if json.as_str().len() > MAX_STATE_BYTES {
        let message = format!(
            "{} bytes of JSON, and the limit is {MAX_STATE_BYTES}: put the large part into a blob (put_blob, and get_blob to \
             read it) and keep the reference, or save it as an artifact of the session",
            json.as_str().len()
        );
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    check(json.view(), numbers)?;
    Ok(json)
}

/// The JSON of a value, of which only the numbers were checked.
pub(crate) fn to_json_of_any_size<T: Serialize + ?Sized>(value: &T) -> Result<JsonText> {
    finite::check(value).map_err(|error| Error::new(ErrorKind::NotRepresentable, error.to_string()))?;
    JsonText::from_serialize(value).map_err(|error| Error::new(ErrorKind::NotRepresentable, error.to_string()))
}

/// Checks that a JSON value is written as it is and can be read again.
pub(crate) fn check(json: Json<'_>, numbers: Numbers) -> Result<()> {
    Checker { numbers, place: Place::default() }.value(json)
}

struct Checker {
    numbers: Numbers,
    place: Place,
}

impl Checker {
    /// Recursion is bounded by the depth that is refused.
    fn value(&mut self, json: Json<'_>) -> Result<()> {
        match json.kind() {
            JsonKind::Object => {
                self.depth()?;
                for member in json.members() {
                    let key = member.key().into_owned();
                    let left_out = NEVER_WRITTEN.contains(&key.as_str());
                    self.place.enter(key);
                    if self.place.last() == Some("image_url") && is_reference(member.value) {
                        return Err(self.error(ErrorKind::NotRepresentable, COMES_BACK_AS_IMAGE));
                    }
                    if left_out {
                        let message =
                            "no program of this family writes a key of this name to a session: choose another";
                        return Err(self.error(ErrorKind::NotRepresentable, message));
                    }
                    self.value(member.value)?;
                    self.place.leave();
                }
            }
            JsonKind::Array => {
                self.depth()?;
                let is_content = self.place.last() == Some("content");
                for (index, item) in json.items().enumerate() {
                    self.place.enter(index.to_string());
                    if is_content && is_image_by_reference(item) {
                        return Err(self.error(ErrorKind::NotRepresentable, COMES_BACK_AS_IMAGE));
                    }
                    self.value(item)?;
                    self.place.leave();
                }
            }
            JsonKind::Text if json.raw().len() > MAX_TEXT_UNITS => {
                let units = json.text().map_or(0, |text| text.encode_utf16().count());
                if units > MAX_TEXT_UNITS {
                    let message = format!(
                        "a text of {units} UTF-16 units would be cut at {MAX_TEXT_UNITS}: put it into a blob (put_blob) and keep \
                         the reference, or save it as an artifact of the session"
                    );
                    return Err(self.error(ErrorKind::TooLarge, &message));
                }
            }
            JsonKind::Number if self.numbers == Numbers::JavaScript && is_unsafe_integer(json) => {
                let message = "an integer beyond 2^53 − 1 is rounded when JavaScript reads it: save it as a text";
                return Err(self.error(ErrorKind::NotRepresentable, message));
            }
            _ => {}
        }
        Ok(())
    }

    fn depth(&self) -> Result<()> {
        if self.place.depth() < MAX_DEPTH {
            return Ok(());
        }
        let message = format!("nested deeper than {MAX_DEPTH} levels, which could not be read again");
        Err(Error::new(ErrorKind::TooLarge, message))
    }

    fn error(&self, kind: ErrorKind, message: &str) -> Error {
        Error::new(kind, format!("{}: {message}", self.place))
    }
}

/// A reference where readers put the image itself in its place `[W9]`.
const COMES_BACK_AS_IMAGE: &str =
    "readers put the image itself in the place of this reference: keep the reference under another key";

fn is_reference(json: Json<'_>) -> bool {
    json.text().is_some_and(|text| BlobHash::parse_reference(&text).is_some())
}

fn is_image_by_reference(item: Json<'_>) -> bool {
    item.get("type").and_then(Json::text).as_deref() == Some("image") && item.get("data").is_some_and(is_reference)
}

fn is_unsafe_integer(json: Json<'_>) -> bool {
    let is_integer = !json.raw().iter().any(|byte| matches!(byte, b'.' | b'e' | b'E'));
    is_integer && !json.integer().is_some_and(|integer| (-MAX_SAFE_INTEGER..=MAX_SAFE_INTEGER).contains(&integer))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_of(json: &str) -> Option<ErrorKind> {
        check(JsonText::parse(json).unwrap().view(), Numbers::JavaScript).err().map(|error| error.kind())
    }

    #[test]
    fn integers_that_javascript_rounds() {
        for safe in ["9007199254740991", "-9007199254740991", "1e300", "9007199254740994.0", "0.1"] {
            assert_eq!(kind_of(safe), None, "{safe}");
        }
        for unsafe_integer in
            ["9007199254740992", "-9007199254740993", "18446744073709551615", "99999999999999999999999"]
        {
            assert_eq!(kind_of(unsafe_integer), Some(ErrorKind::NotRepresentable), "{unsafe_integer}");
        }
        let error = check(JsonText::parse(r#"{"a/b":[0,9007199254740993]}"#).unwrap().view(), Numbers::JavaScript);
        assert!(error.unwrap_err().to_string().starts_with("/a~1b/1: "));
    }

    #[test]
    fn what_would_not_come_back() {
        // [W8] left out and cut on the way to the disk
        assert_eq!(kind_of(r#"[{"partialJson":1}]"#), Some(ErrorKind::NotRepresentable));
        assert_eq!(kind_of(r#"{"jsonlEvent\u0073":[]}"#), Some(ErrorKind::NotRepresentable));
        assert_eq!(kind_of(&format!("\"{}\"", "x".repeat(MAX_TEXT_UNITS))), None);
        assert_eq!(kind_of(&format!("\"{}\"", "x".repeat(MAX_TEXT_UNITS + 1))), Some(ErrorKind::TooLarge));
        // [W9] put in the place of a reference by whoever reads it
        let reference = format!("\"blob:sha256:{}\"", "0".repeat(64));
        let image = format!(r#"{{"type":"image","data":{reference}}}"#);
        assert_eq!(kind_of(&format!(r#"{{"content":[{image}]}}"#)), Some(ErrorKind::NotRepresentable));
        assert_eq!(kind_of(&format!(r#"[{{"image_url":{reference}}}]"#)), Some(ErrorKind::NotRepresentable));
        assert_eq!(kind_of(&format!(r#"{{"cover":{reference},"images":[{image}],"data":{reference}}}"#)), None);
        // As many units as allowed, three bytes each.
        assert_eq!(kind_of(&format!("\"{}\"", "ก".repeat(MAX_TEXT_UNITS))), None);
    }

    #[test]
    fn nesting_is_refused_exactly_where_reading_ends() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        for (depth, readable) in [(MAX_DEPTH, true), (MAX_DEPTH + 1, false)] {
            assert_eq!(kind_of(&nested(depth)).is_none(), readable);
            assert_eq!(serde_json::from_str::<serde_json::Value>(&nested(depth)).is_ok(), readable);
        }
    }
}
