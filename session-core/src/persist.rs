//! What becomes of a payload before it is written `[W8]`: long texts are cut, images move to blobs, what nobody reads again is
//! left out.
//!
//! Works on the JSON text in one pass, without recursion and without decoding: what is not cut, left out or moved stays byte
//! for byte `[F6]`, and a payload with nothing to do is not copied. It writes nothing itself; blobs go through the caller's
//! function. The way back is [`resolve_blobs`](crate::resolve_blobs). What was cut or left out has no way back: memory keeps
//! the entry as it was given.

use std::borrow::Cow;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use memchr::memchr;

use crate::blob::BlobHash;
use crate::error::{ErrorKind, Result};
use crate::json::{JsonText, TokenKind, Tokens, decode, decode_lossless};
use crate::splice::Edits;

/// The longest text that is written, in UTF-16 units: as many as JavaScript counts in `text.length`.
pub const MAX_TEXT_UNITS: usize = 500_000;

/// Image data from this many characters on becomes a blob.
const MIN_BLOB_CHARS: usize = 1024;

/// How a cut text ends, as it stands between the quotes of a JSON text.
const NOTICE: &str = r"\n\n[Session persistence truncated large content]";
/// UTF-16 units of [`NOTICE`]: each of its two line feeds is two bytes here.
const NOTICE_UNITS: usize = NOTICE.len() - 2;
const NOTICE_LINE_FEEDS: usize = 2;

/// The payload in the form that is written to a session file `[W8]`.
///
/// * A text over [`MAX_TEXT_UNITS`] is cut so that with the notice it is at most that long, never inside a surrogate pair.
/// * Keys `partialJson` and `jsonlEvents` are left out at any depth.
/// * In an object with text `content` and numeric `lineCount` in which anything changed, the lines are counted anew.
/// * Image blocks (`type: "image"` in an array under the key `content`) with at least 1024 characters of base64 become
///   references to blobs, and so does every `image_url` that is a base64 `data:image/…` URL. Only the one spelling of base64
///   that decoding and encoding give back counts; any other data stays inline, as a text like any other.
/// * Signed blocks (a non-empty `thinkingSignature`, `textSignature` or `thoughtSignature`), redacted thinking and whatever
///   has `encrypted_content` stay as they are, with all that is in them.
///
/// `put` stores a blob, and must have it in place when it returns `[W10]`; [`BlobStore::put`](crate::BlobStore::put) does.
/// When it finds damage at the blob's place ([`ErrorKind::Corrupt`]) the image stays inline, uncut, so that it is not lost.
///
/// ```
/// use session_core::{BlobHash, JsonText, persist};
/// let payload = JsonText::parse(r#"{"n": 1.0, "partialJson": "{", "image_url": "data:image/png;base64,iVBORw0KGgo="}"#)?;
/// let written = persist(&payload, |bytes| Ok(BlobHash::of(bytes)))?;
/// assert_eq!(
///     written.as_str(),
///     r#"{"n": 1.0, "image_url": "blob:sha256:e1e10747c2374f621aa59fefede6ef99dc6acdb41b267ab4af408d5529f89ea8"}"#
/// );
/// # Ok::<(), session_core::Error>(())
/// ```
///
/// # Errors
/// Those of `put`, other than [`ErrorKind::Corrupt`].
pub fn persist(json: &JsonText, mut put: impl FnMut(&[u8]) -> Result<BlobHash>) -> Result<Cow<'_, JsonText>> {
    let bytes = json.as_str().as_bytes();
    let mut edits = Edits::default();
    for Change { range, to } in Scan::new(bytes).run() {
        match to {
            Replacement::Nothing => edits.replace(range, Vec::new()),
            Replacement::Notice => edits.replace(range, NOTICE),
            Replacement::Number(count) => edits.replace(range, count.to_string()),
            Replacement::Blob(content) => match put(&content) {
                Ok(hash) => edits.replace(range, hash.reference()),
                Err(error) if error.kind() == ErrorKind::Corrupt => {
                    tracing::warn!(%error, "the image stays in the session file, since its blob is damaged");
                }
                Err(error) => return Err(error),
            },
        }
    }
    if edits.is_empty() {
        return Ok(Cow::Borrowed(json));
    }
    Ok(Cow::Owned(JsonText::from_valid(&edits.apply(bytes))))
}

/// One thing to do. Found in one pass and done afterwards, because a signature may follow what it signs.
#[derive(Debug)]
struct Change<'a> {
    range: Range<usize>,
    to: Replacement<'a>,
}

#[derive(Debug)]
enum Replacement<'a> {
    Nothing,
    Notice,
    Number(usize),
    /// The reference to a blob of these bytes.
    Blob(Cow<'a, [u8]>),
}

/// The keys that decide something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Other,
    LeftOut,
    Content,
    LineCount,
    Type,
    Data,
    ImageUrl,
    Redacted,
    /// Seals its object when not empty; the number tells them apart.
    Signature(u8),
    /// Seals its object whatever its value.
    Encrypted,
}

impl Key {
    fn of(raw: &[u8]) -> Self {
        match raw {
            b"partialJson" | b"jsonlEvents" => Self::LeftOut,
            b"content" => Self::Content,
            b"lineCount" => Self::LineCount,
            b"type" => Self::Type,
            b"data" => Self::Data,
            b"image_url" => Self::ImageUrl,
            b"redacted" => Self::Redacted,
            b"thinkingSignature" => Self::Signature(1),
            b"textSignature" => Self::Signature(2),
            b"thoughtSignature" => Self::Signature(4),
            b"encrypted_content" => Self::Encrypted,
            _ if memchr(b'\\', raw).is_some() => match decode(raw) {
                Cow::Owned(key) if !key.contains('\\') => Self::of(key.as_bytes()),
                _ => Self::Other,
            },
            _ => Self::Other,
        }
    }
}

/// What an object's `type` makes of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum BlockType {
    #[default]
    Other,
    Image,
    Thinking,
    RedactedThinking,
}

/// What is known of an object that has a key of [`Key`]. Of repeated keys the last counts.
#[derive(Debug, Default)]
struct Block {
    of_type: BlockType,
    redacted: bool,
    /// One bit for each [`Key::Signature`] that is not empty.
    signatures: u8,
    encrypted: bool,
    data: Option<Range<usize>>,
    content: Option<Range<usize>>,
    line_count: Option<Range<usize>>,
}

impl Block {
    fn is_sealed(&self) -> bool {
        self.signatures != 0
            || self.encrypted
            || self.of_type == BlockType::RedactedThinking
            || (self.redacted && self.of_type == BlockType::Thinking)
    }
}

/// Where an open object or array stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Array,
    /// The array under a key `content`.
    ContentArray,
    Object,
    /// An object directly in such an array.
    ContentItem,
}

/// An open object or array. Small, since nesting may be as deep as the payload is long.
#[derive(Debug)]
struct Frame {
    place: Place,
    /// How many changes there were when it was opened: those behind are inside it.
    changes: usize,
    /// Whether a member stays so far.
    kept: bool,
    /// Whether the last of `blocks` is this object's.
    block: bool,
}

/// A member's value.
enum Value<'v> {
    Text(&'v Range<usize>),
    Scalar(&'v Range<usize>),
    Nested,
}

struct Scan<'a> {
    bytes: &'a [u8],
    tokens: Tokens<'a>,
    /// The key before the value that comes next, when that is a member.
    key: Key,
    frames: Vec<Frame>,
    blocks: Vec<Block>,
    changes: Vec<Change<'a>>,
}

impl<'a> Scan<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let tokens = Tokens::new(bytes);
        Self { bytes, tokens, key: Key::Other, frames: Vec::new(), blocks: Vec::new(), changes: Vec::new() }
    }

    fn run(mut self) -> Vec<Change<'a>> {
        while let Some(token) = self.tokens.next() {
            match token.kind {
                TokenKind::Key => self.enter_member(&token.range),
                TokenKind::Text => self.text(&token.range),
                TokenKind::Scalar => self.note(&Value::Scalar(&token.range)),
                TokenKind::Object => {
                    self.note(&Value::Nested);
                    let item = self.frames.last().is_some_and(|frame| frame.place == Place::ContentArray);
                    self.open(if item { Place::ContentItem } else { Place::Object });
                }
                TokenKind::Array => {
                    self.note(&Value::Nested);
                    let content = self.member_key() == Some(Key::Content);
                    self.open(if content { Place::ContentArray } else { Place::Array });
                }
                TokenKind::End => self.close(),
            }
        }
        self.changes
    }

    fn open(&mut self, place: Place) {
        self.frames.push(Frame { place, changes: self.changes.len(), kept: false, block: false });
    }

    fn enter_member(&mut self, key: &Range<usize>) {
        self.key = Key::of(&self.bytes[key.clone()]);
        if self.key == Key::LeftOut {
            self.leave_out(key.start - 1);
        } else if let Some(frame) = self.frames.last_mut() {
            frame.kept = true;
        }
    }

    /// Takes out the member that begins at `start`, with the comma that is needed no more: the one before it, or while no
    /// member stays the one behind.
    fn leave_out(&mut self, start: usize) {
        self.tokens.skip_value();
        let end = self.tokens.position();
        let range = if self.frames.last().is_some_and(|frame| frame.kept) {
            self.bytes[..start].trim_ascii_end().len() - 1..end
        } else {
            match self.bytes[end..].trim_ascii_start().strip_prefix(b",") {
                Some(rest) => start..self.bytes.len() - rest.trim_ascii_start().len(),
                None => start..end,
            }
        };
        self.changes.push(Change { range, to: Replacement::Nothing });
    }

    /// The key of the value that comes next; none in arrays and for the payload itself.
    fn member_key(&self) -> Option<Key> {
        let place = self.frames.last()?.place;
        matches!(place, Place::Object | Place::ContentItem).then_some(self.key)
    }

    fn text(&mut self, range: &Range<usize>) {
        match self.member_key() {
            // Decided when all of its object is known.
            Some(Key::Data) => {}
            Some(Key::ImageUrl) => match image_data_url(&self.bytes[range.clone()]) {
                Some(url) => self.changes.push(Change { range: range.clone(), to: Replacement::Blob(url) }),
                None => self.cut_if_long(range),
            },
            _ => self.cut_if_long(range),
        }
        self.note(&Value::Text(range));
    }

    fn cut_if_long(&mut self, range: &Range<usize>) {
        if let Some(kept) = cut(&self.bytes[range.clone()]) {
            self.changes.push(Change { range: range.start + kept..range.end, to: Replacement::Notice });
        }
    }

    /// Remembers what a member's value says of its object.
    fn note(&mut self, value: &Value<'_>) {
        let Some(key) = self.member_key() else { return };
        if matches!(key, Key::Other | Key::LeftOut | Key::ImageUrl) {
            return;
        }
        let Some(frame) = self.frames.last_mut() else { return };
        if !frame.block {
            frame.block = true;
            self.blocks.push(Block::default());
        }
        let Some(block) = self.blocks.last_mut() else { return };
        let text = match value {
            Value::Text(range) => Some((*range).clone()),
            _ => None,
        };
        let raw = match value {
            Value::Text(range) | Value::Scalar(range) => &self.bytes[(*range).clone()],
            Value::Nested => b"",
        };
        match key {
            Key::Type => block.of_type = text.map_or(BlockType::Other, |_| block_type(raw)),
            Key::Redacted => block.redacted = text.is_none() && raw == b"true",
            Key::Content => block.content = text,
            Key::LineCount => {
                block.line_count = match value {
                    Value::Scalar(range) if !matches!(raw, b"true" | b"false" | b"null") => Some((*range).clone()),
                    _ => None,
                }
            }
            Key::Signature(bit) => {
                let empty = match value {
                    Value::Text(_) => raw.is_empty(),
                    Value::Scalar(_) => raw == b"null",
                    Value::Nested => false,
                };
                block.signatures = block.signatures & !bit | if empty { 0 } else { bit };
            }
            Key::Encrypted => block.encrypted = true,
            Key::Data => {
                // An earlier `data` of the same object is never an image.
                if let Some(earlier) = std::mem::replace(&mut block.data, text) {
                    self.cut_if_long(&earlier);
                }
            }
            Key::Other | Key::LeftOut | Key::ImageUrl => {}
        }
    }

    fn close(&mut self) {
        let Some(frame) = self.frames.pop() else { return };
        if !frame.block {
            return;
        }
        let Some(block) = self.blocks.pop() else { return };
        if block.is_sealed() {
            self.changes.truncate(frame.changes);
            return;
        }
        if let Some(data) = &block.data {
            let is_image = frame.place == Place::ContentItem && block.of_type == BlockType::Image;
            match is_image.then(|| image_content(&self.bytes[data.clone()])).flatten() {
                Some(content) => {
                    self.changes.push(Change { range: data.clone(), to: Replacement::Blob(content.into()) });
                }
                None => self.cut_if_long(data),
            }
        }
        if self.changes.len() > frame.changes
            && let (Some(content), Some(line_count)) = (block.content, block.line_count)
        {
            let lines = Replacement::Number(lines(&self.bytes[content]));
            self.changes.push(Change { range: line_count, to: lines });
        }
    }
}

fn block_type(raw: &[u8]) -> BlockType {
    match decode(raw).as_ref() {
        "image" => BlockType::Image,
        "thinking" => BlockType::Thinking,
        "redacted_thinking" | "redactedThinking" => BlockType::RedactedThinking,
        _ => BlockType::Other,
    }
}

/// The bytes of an image, when `raw` is base64 of at least [`MIN_BLOB_CHARS`] in the one spelling that encoding gives back.
fn image_content(raw: &[u8]) -> Option<Vec<u8>> {
    if raw.len() < MIN_BLOB_CHARS {
        return None;
    }
    let data = decode_lossless(raw)?;
    if data.len() < MIN_BLOB_CHARS { None } else { STANDARD.decode(data.as_bytes()).ok() }
}

/// The URL in full, when `raw` is a base64 `data:image/…` URL.
fn image_data_url(raw: &[u8]) -> Option<Cow<'_, [u8]>> {
    // Most image URLs are no data: this saves looking at the whole of them.
    if !matches!(raw.first(), Some(b'd' | b'D' | b'\\')) {
        return None;
    }
    let url = decode_lossless(raw)?;
    let (head, _) = url.split_once(',')?;
    let starts = head.get(..11)?.eq_ignore_ascii_case("data:image/");
    let ends = head.get(head.len().checked_sub(7)?..)?.eq_ignore_ascii_case(";base64");
    (starts && ends).then(|| match url {
        Cow::Borrowed(url) => Cow::Borrowed(url.as_bytes()),
        Cow::Owned(url) => Cow::Owned(url.into_bytes()),
    })
}

/// How many bytes of a text stay before the notice; none when it is not too long. `raw` is what stands between the quotes.
fn cut(raw: &[u8]) -> Option<usize> {
    const KEPT_UNITS: usize = MAX_TEXT_UNITS - NOTICE_UNITS;
    // No spelling of a text has fewer bytes than units.
    if raw.len() <= MAX_TEXT_UNITS {
        return None;
    }
    let (mut at, mut units) = (0, 0);
    let mut last_kept = 0..0;
    while units <= MAX_TEXT_UNITS {
        let (bytes, more) = character(raw.get(at..).filter(|rest| !rest.is_empty())?);
        units += more;
        if units <= KEPT_UNITS {
            last_kept = at..at + bytes;
        }
        at += bytes;
    }
    // Both halves of a pair may be escapes of their own.
    let splits_pair = surrogate(&raw[last_kept.clone()]).is_some_and(|half| half < 0xdc00)
        && surrogate(&raw[last_kept.end..]).is_some_and(|half| half >= 0xdc00);
    Some(if splits_pair { last_kept.start } else { last_kept.end })
}

/// Bytes and UTF-16 units of the first character of a valid text.
fn character(raw: &[u8]) -> (usize, usize) {
    match raw[0] {
        b'\\' if raw.get(1) == Some(&b'u') => (6, 1),
        b'\\' | 0x80..0xe0 => (2, 1),
        0..0x80 => (1, 1),
        0xe0..0xf0 => (3, 1),
        0xf0.. => (4, 2),
    }
}

/// The surrogate that `raw` begins with as an escape.
fn surrogate(raw: &[u8]) -> Option<u16> {
    let digits = std::str::from_utf8(raw.strip_prefix(b"\\u")?.get(..4)?).ok()?;
    u16::from_str_radix(digits, 16).ok().filter(|unit| (0xd800..0xe000).contains(unit))
}

/// The lines of a text as it is written: cut when it is too long.
fn lines(raw: &[u8]) -> usize {
    match cut(raw) {
        Some(kept) => line_feeds(&raw[..kept]) + NOTICE_LINE_FEEDS + 1,
        None => line_feeds(raw) + 1,
    }
}

fn line_feeds(mut raw: &[u8]) -> usize {
    let mut count = 0;
    while let Some(at) = memchr(b'\\', raw) {
        let escape = &raw[at..];
        let long = escape.get(1) == Some(&b'u');
        if escape.get(1) == Some(&b'n') || (long && escape.get(2..6).is_some_and(|d| d.eq_ignore_ascii_case(b"000a"))) {
            count += 1;
        }
        raw = escape.get(if long { 6 } else { 2 }..).unwrap_or_default();
    }
    count
}
