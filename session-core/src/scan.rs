//! Whether a line is one whole JSON object, and what its own keys say, without decoding the rest.
//!
//! A scanner is fed a line in pieces of any size and keeps only a few words of state, so a line of gigabytes costs what a
//! short one does. *Lenient* scanning is that of `[L9]`: quotes and brackets close and nothing but white space follows; what
//! stands inside is not judged. *Strict* scanning also wants commas and colons where JSON has them: it is for looking into
//! damaged lines, where a torn record must not swallow the one behind it `[L1a]`.
//!
//! This is the hot loop of opening a session: texts are crossed by `memchr`, and only what stands outside of texts is looked
//! at byte by byte.

use memchr::memchr2;

use crate::block::{Carry, block_at, brackets_outside};
use crate::brackets::Brackets;
use crate::json::{decode, validate};

/// What a line's own keys say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnKeys {
    pub(crate) kind: Field,
    pub(crate) id: Field,
    pub(crate) parent_id: Field,
    pub(crate) timestamp: Field,
}

/// The value of one own key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Field {
    /// The object has no such key.
    #[default]
    Missing,
    /// Text, decoded.
    Text(Box<str>),
    /// A JSON value that is no text.
    Other,
    /// No JSON value, or one longer than [`LONGEST_VALUE`].
    Unreadable,
}

impl Field {
    /// The text, unless it is empty.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) if !text.is_empty() => Some(text),
            _ => None,
        }
    }
}

/// What a line turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Nothing but white space.
    Blank,
    /// One whole object.
    Object(OwnKeys),
    /// One whole JSON value that is no object.
    OtherValue,
    /// None of these.
    Damaged,
}

/// The longest value of an own key that is kept, in bytes as spelled. Ids are 8 bytes; nobody writes a longer one.
const LONGEST_VALUE: usize = 64 * 1024;
/// The longest spelling of an own key: `parentId` and `timestamp` with every character escaped.
const LONGEST_KEY: usize = 6 * "timestamp".len();

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before the first byte that counts.
    Start,
    /// Between tokens of an object or array.
    Between,
    /// Inside a text.
    Text,
    /// Inside a text, behind a backslash.
    Escape,
    /// Inside a number or word that is the whole line.
    BareWord,
    /// Behind the value: only white space may follow.
    After,
    Failed,
}

/// What JSON wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Want {
    Key,
    Colon,
    Value,
    Comma,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnKey {
    Kind,
    Id,
    ParentId,
    Timestamp,
}

/// What the text or word at hand is kept for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Capture {
    Nothing,
    Key,
    Value(OwnKey),
}

/// Lenient or strict, decided at compile time so that the hot loop pays nothing for the other.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about the line, each asked alone")]
pub(crate) struct Scanner<const STRICT: bool> {
    place: Place,
    want: Want,
    open: Brackets,
    capture: Capture,
    /// The bytes of the captured text or word so far.
    captured: Vec<u8>,
    /// The own key whose value comes next.
    pending: Option<OwnKey>,
    keys: OwnKeys,
    is_object: bool,
    /// Whether a key and its colon were seen: the object is a record, not a stray bracket.
    is_record: bool,
    /// Inside a word or number (strict only).
    in_word: bool,
    /// The line holds what blocks can't tell.
    byte_by_byte: bool,
}

/// Where a scanner stands after a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The value is not closed yet.
    Open,
    /// The value closed behind this many bytes of the piece (strict scanning stops there).
    Closed(usize),
    /// It can't become whole any more.
    Failed,
}

impl<const STRICT: bool> Scanner<STRICT> {
    pub(crate) fn new() -> Self {
        Self {
            place: Place::Start,
            want: Want::Value,
            open: Brackets::default(),
            capture: Capture::Nothing,
            captured: Vec::new(),
            pending: None,
            keys: OwnKeys::default(),
            is_object: false,
            is_record: false,
            in_word: false,
            byte_by_byte: false,
        }
    }

    /// Makes the scanner new for the next line, keeping its buffers.
    pub(crate) fn reset(&mut self) {
        self.place = Place::Start;
        self.want = Want::Value;
        self.open.clear();
        self.capture = Capture::Nothing;
        self.captured.clear();
        self.pending = None;
        self.keys = OwnKeys::default();
        self.is_object = false;
        self.is_record = false;
        self.in_word = false;
        self.byte_by_byte = false;
    }

    /// What a line at hand is.
    pub(crate) fn shape_of(line: &[u8]) -> Shape {
        let mut scanner = Self::new();
        scanner.feed(line);
        scanner.finish()
    }

    /// Whether a key with its colon was seen.
    pub(crate) fn is_record(&self) -> bool {
        self.is_record
    }

    /// What the line is, now that it has ended.
    pub(crate) fn finish(&mut self) -> Shape {
        match self.place {
            Place::Start => Shape::Blank,
            Place::After if self.is_object => {
                let keys = std::mem::take(&mut self.keys);
                let unreadable = [&keys.kind, &keys.id, &keys.parent_id].contains(&&Field::Unreadable);
                if unreadable { Shape::Damaged } else { Shape::Object(keys) }
            }
            Place::After => Shape::OtherValue,
            Place::BareWord if validate(&self.captured).is_ok() => Shape::OtherValue,
            _ => Shape::Damaged,
        }
    }

    /// Looks at the next piece of the line.
    pub(crate) fn feed(&mut self, piece: &[u8]) -> Progress {
        let mut at = 0;
        while let Some(&byte) = piece.get(at) {
            if !STRICT && self.is_deep() {
                match self.cross_nested(piece, at) {
                    Some(next) => at = next,
                    None => return Progress::Failed,
                }
                continue;
            }
            match self.place {
                Place::Text => {
                    let rest = &piece[at..];
                    let len = end_of_run(rest);
                    self.keep(&rest[..len]);
                    at += len;
                    match piece.get(at) {
                        Some(b'"') => {
                            at += 1;
                            self.end_text();
                            if self.place == Place::After && STRICT {
                                return Progress::Closed(at);
                            }
                        }
                        Some(_) => {
                            self.keep(b"\\");
                            at += 1;
                            self.place = Place::Escape;
                        }
                        None => {}
                    }
                }
                Place::Between => {
                    at += 1;
                    self.between(byte);
                    match self.place {
                        Place::After if STRICT => return Progress::Closed(at),
                        Place::Failed => return Progress::Failed,
                        _ => {}
                    }
                }
                Place::Escape => {
                    self.keep(&[byte]);
                    at += 1;
                    self.place = Place::Text;
                }
                Place::Start => {
                    at += 1;
                    self.start(byte);
                }
                Place::BareWord => {
                    self.keep_bounded(&piece[at..], LONGEST_VALUE);
                    at = piece.len();
                }
                Place::After => {
                    let Some(other) = piece[at..].iter().position(|b| !is_blank(*b)) else { break };
                    at += other;
                    self.place = Place::Failed;
                }
                Place::Failed => return Progress::Failed,
            }
        }
        if self.place == Place::Failed { Progress::Failed } else { Progress::Open }
    }

    /// Inside a value of the object, where nothing but brackets matters.
    fn is_deep(&self) -> bool {
        self.open.depth() > 1 && !self.byte_by_byte
    }

    /// Crosses nested values from `at` on, a block at a time: to where the nesting ends, or to the end of the piece. None
    /// when a bracket closes another one.
    fn cross_nested(&mut self, piece: &[u8], mut at: usize) -> Option<usize> {
        let mut carry =
            Carry { in_text: matches!(self.place, Place::Text | Place::Escape), escaped: self.place == Place::Escape };
        while at < piece.len() {
            let (block, len) = block_at(piece, at);
            let Some(mut brackets) = brackets_outside(&block, len, &mut carry) else {
                self.byte_by_byte = true;
                break;
            };
            while brackets != 0 {
                let n = brackets.trailing_zeros() as usize;
                brackets &= brackets - 1;
                let bracket = block[n];
                if matches!(bracket, b'{' | b'[') {
                    self.open.push(bracket);
                } else if !self.open.pop(bracket) {
                    self.place = Place::Failed;
                    return None;
                } else if self.open.depth() == 1 {
                    self.place = Place::Between;
                    self.want = Want::Comma;
                    return Some(at + n + 1);
                }
            }
            at += len;
        }
        self.place = match carry {
            Carry { escaped: true, in_text: true } => Place::Escape,
            Carry { in_text: true, .. } => Place::Text,
            Carry { .. } => Place::Between,
        };
        Some(at)
    }

    fn start(&mut self, byte: u8) {
        match byte {
            _ if is_blank(byte) => {}
            b'{' | b'[' => {
                self.is_object = byte == b'{';
                self.push(byte);
                self.place = Place::Between;
            }
            b'"' => self.place = Place::Text,
            b't' | b'f' | b'n' | b'-' | b'0'..=b'9' => {
                self.captured.push(byte);
                self.place = Place::BareWord;
            }
            _ => self.place = Place::Failed,
        }
    }

    fn push(&mut self, bracket: u8) {
        self.open.push(bracket);
        self.want = if bracket == b'{' { Want::Key } else { Want::Value };
    }

    /// One byte outside of texts.
    fn between(&mut self, byte: u8) {
        match byte {
            b'"' => self.begin_text(),
            b'{' | b'[' => {
                self.end_word();
                if STRICT && self.want != Want::Value {
                    self.place = Place::Failed;
                    return;
                }
                if self.open.depth() == 1 {
                    self.set_pending(Field::Other);
                }
                self.push(byte);
            }
            b'}' | b']' => {
                self.end_word();
                self.end_captured_word();
                // An empty array still wants a value, an empty object a key; a comma before the bracket is a fault of
                // grammar that only a decoder minds.
                if STRICT && self.want == Want::Colon || !self.open.pop(byte) {
                    self.place = Place::Failed;
                    return;
                }
                self.want = Want::Comma;
                if self.open.depth() == 0 {
                    self.place = Place::After;
                }
            }
            b',' => {
                self.end_word();
                self.end_captured_word();
                if STRICT && self.want != Want::Comma {
                    self.place = Place::Failed;
                    return;
                }
                self.pending = None;
                self.want = if self.open.top_is_object() { Want::Key } else { Want::Value };
            }
            b':' => {
                if STRICT && self.want != Want::Colon {
                    self.place = Place::Failed;
                    return;
                }
                self.is_record = true;
                self.want = Want::Value;
            }
            _ if is_blank(byte) => {
                self.end_word();
                self.end_captured_word();
            }
            _ => self.word(byte),
        }
    }

    /// A byte of a number or word.
    fn word(&mut self, byte: u8) {
        if STRICT {
            let plain = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.' | b'_');
            if !plain || !self.in_word && self.want != Want::Value {
                self.place = Place::Failed;
                return;
            }
            self.in_word = true;
        }
        if self.open.depth() == 1
            && let Some(key) = self.pending
        {
            self.capture = Capture::Value(key);
            self.keep_bounded(&[byte], LONGEST_VALUE);
        }
    }

    fn end_word(&mut self) {
        if STRICT && self.in_word {
            self.in_word = false;
            self.want = Want::Comma;
        }
    }

    fn end_captured_word(&mut self) {
        if let Capture::Value(_) = self.capture {
            let valid = self.captured.len() < LONGEST_VALUE && validate(&self.captured).is_ok();
            self.captured.clear();
            self.capture = Capture::Nothing;
            self.set_pending(if valid { Field::Other } else { Field::Unreadable });
        }
    }

    fn begin_text(&mut self) {
        if STRICT && (self.in_word || !matches!(self.want, Want::Key | Want::Value)) {
            self.place = Place::Failed;
            return;
        }
        self.place = Place::Text;
        if self.open.depth() == 1 && self.is_object {
            self.capture = match (self.want, self.pending) {
                (Want::Key, _) => Capture::Key,
                (Want::Value, Some(key)) => Capture::Value(key),
                _ => Capture::Nothing,
            };
        }
    }

    fn end_text(&mut self) {
        let text_was_key = self.want == Want::Key;
        match self.capture {
            Capture::Nothing => {}
            Capture::Key => self.pending = own_key(&self.captured),
            Capture::Value(_) => {
                let field = if self.captured.len() < LONGEST_VALUE {
                    Field::Text(decode(&self.captured).into())
                } else {
                    Field::Unreadable
                };
                self.set_pending(field);
            }
        }
        self.captured.clear();
        self.capture = Capture::Nothing;
        self.place = if self.open.depth() == 0 { Place::After } else { Place::Between };
        self.want = if text_was_key { Want::Colon } else { Want::Comma };
    }

    /// Gives the own key at hand its value; of repeated keys the last counts `[L8]`.
    fn set_pending(&mut self, value: Field) {
        let field = match self.pending.take() {
            Some(OwnKey::Kind) => &mut self.keys.kind,
            Some(OwnKey::Id) => &mut self.keys.id,
            Some(OwnKey::ParentId) => &mut self.keys.parent_id,
            Some(OwnKey::Timestamp) => &mut self.keys.timestamp,
            None => return,
        };
        *field = value;
    }

    fn keep(&mut self, bytes: &[u8]) {
        match self.capture {
            Capture::Nothing => {}
            // One byte over the limit is kept, which makes it no own key.
            Capture::Key => self.keep_bounded(bytes, LONGEST_KEY + 1),
            Capture::Value(_) => self.keep_bounded(bytes, LONGEST_VALUE),
        }
    }

    fn keep_bounded(&mut self, bytes: &[u8], limit: usize) {
        let room = limit.saturating_sub(self.captured.len());
        self.captured.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

/// How many bytes go by before a quote or backslash. Keys and short values end within a few bytes, where a loop beats the
/// start-up of a vector search.
#[inline]
fn end_of_run(bytes: &[u8]) -> usize {
    const SHORT: usize = 12;
    let head = &bytes[..bytes.len().min(SHORT)];
    if let Some(len) = head.iter().position(|b| matches!(b, b'"' | b'\\')) {
        return len;
    }
    memchr2(b'"', b'\\', &bytes[head.len()..]).map_or(bytes.len(), |len| len + head.len())
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn own_key(spelling: &[u8]) -> Option<OwnKey> {
    let named = |name: &[u8]| match name {
        b"type" => Some(OwnKey::Kind),
        b"id" => Some(OwnKey::Id),
        b"parentId" => Some(OwnKey::ParentId),
        b"timestamp" => Some(OwnKey::Timestamp),
        _ => None,
    };
    if spelling.len() <= LONGEST_KEY && spelling.contains(&b'\\') {
        return named(decode(spelling).as_bytes());
    }
    named(spelling)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shape_in_pieces(line: &[u8], piece: usize) -> Shape {
        let mut scanner = Scanner::<false>::new();
        for piece in line.chunks(piece.max(1)) {
            scanner.feed(piece);
        }
        scanner.finish()
    }

    fn keys(line: &str) -> OwnKeys {
        match shape_in_pieces(line.as_bytes(), 7) {
            Shape::Object(keys) => keys,
            other => panic!("{line} is {other:?}"),
        }
    }

    /// The plain reader: the definition of `[L9]` byte by byte, with no regard for speed.
    fn is_whole_object(line: &[u8]) -> bool {
        let line = line.trim_ascii();
        let (mut open, mut in_text, mut escaped) = (Vec::new(), false, false);
        for (n, &byte) in line.iter().enumerate() {
            if n > 0 && open.is_empty() {
                return false;
            }
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_text => escaped = true,
                b'"' => in_text = !in_text,
                _ if in_text => {}
                b'{' | b'[' => open.push(byte),
                b'}' if open.pop() != Some(b'{') => return false,
                b']' if open.pop() != Some(b'[') => return false,
                _ => {}
            }
        }
        line.first() == Some(&b'{') && open.is_empty() && !in_text
    }

    #[test]
    fn own_keys_wherever_they_stand() {
        let line = r#" {"message":{"id":"no","type":[{"id":"no"}]},"parentId":null,"\u0069d":"a\u0062","id":"x\"","type":"t","timestamp":5} "#;
        let keys = keys(line);
        assert_eq!(keys.id.text(), Some("x\""));
        assert_eq!(keys.kind.text(), Some("t"));
        assert_eq!((keys.parent_id, keys.timestamp), (Field::Other, Field::Other));
    }

    #[test]
    fn own_keys_that_are_no_json_make_a_line_damaged() {
        for line in [r#"{"type":"m","id":"1","parentId":nul}"#, r#"{"type":message,"id":"1"}"#, r#"{"id":01}"#] {
            assert_eq!(shape_in_pieces(line.as_bytes(), 3), Shape::Damaged, "{line}");
        }
        assert_eq!(keys(r#"{"id":"1","type":"m","parentId":5,"data":nul}"#).parent_id, Field::Other);
    }

    #[test]
    fn other_values() {
        for line in ["[1,{\"id\":1}]", "null", " -1.5e3 ", "\"a\\\"b\"", "true"] {
            assert_eq!(shape_in_pieces(line.as_bytes(), 2), Shape::OtherValue, "{line}");
        }
        for line in ["nul", "01", "[1}", "{]", "{} x", "{\"a", "\0", "{}{}", "[1] {\"id\":\"1\"}"] {
            assert_eq!(shape_in_pieces(line.as_bytes(), 2), Shape::Damaged, "{line}");
        }
        assert_eq!(shape_in_pieces(b" \t\r", 1), Shape::Blank);
    }

    #[test]
    fn nesting_a_million_deep() {
        let deep = format!("{{\"id\":\"1\",\"d\":{}{}}}", "[{\"a\":".repeat(500_000) + "1", "}]".repeat(500_000));
        assert!(matches!(shape_in_pieces(deep.as_bytes(), 4096), Shape::Object(_)));
    }

    proptest! {
        #[test]
        fn property_fast_and_plain_agree_on_what_is_whole(
            line in proptest::collection::vec(proptest::sample::select(b"{}[]\"\\:, a1x\0\xff".to_vec()), 0..40),
            piece in 1_usize..8,
        ) {
            let whole = matches!(shape_in_pieces(&line, piece), Shape::Object(_));
            prop_assert_eq!(whole, is_whole_object(&line));
            prop_assert_eq!(shape_in_pieces(&line, piece), shape_in_pieces(&line, usize::MAX));
        }

        #[test]
        fn property_strict_is_never_more_than_lenient(
            line in proptest::collection::vec(proptest::sample::select(b"{}[]\"\\:, a1".to_vec()), 0..40),
        ) {
            let mut strict = Scanner::<true>::new();
            if let Progress::Closed(len) = strict.feed(&line) {
                prop_assert!(!matches!(shape_in_pieces(&line[..len], 99), Shape::Damaged) || !matches!(strict.finish(), Shape::Object(_)));
            }
        }
    }
}
