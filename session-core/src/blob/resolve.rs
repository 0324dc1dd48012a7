//! References in a payload turn back into what was taken out of it `[W9]`.
//!
//! The way back of [`persist`](crate::persist). A reference that cannot be followed stays as it is and is reported: no content
//! makes loading fail, and nothing that is not the image is ever returned as one.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use memchr::memmem;

use super::{BlobHash, BlobStore, REFERENCE_PREFIX};
use crate::error::{Error, ErrorKind};
use crate::json::{JsonText, TokenKind, Tokens, decode, decode_lossless, quote};
use crate::splice::Edits;

/// A reference that stayed, and why.
#[derive(Clone, Debug)]
pub struct BlobProblem {
    kind: BlobProblemKind,
    reference: String,
    error: Option<Error>,
}

/// Why a reference stayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BlobProblemKind {
    /// There is no such blob.
    Missing,
    /// The blob's content is not what its name says.
    Corrupt,
    /// What follows `blob:sha256:` is not 64 hex digits.
    BadReference,
    /// The blob could not be read.
    Unreadable,
    /// An `image_url` names a blob that is no text.
    NotAUrl,
}

impl BlobProblem {
    fn new(kind: BlobProblemKind, reference: &str) -> Self {
        // What claims to be a reference may be any text of any length.
        const SHOWN: usize = 120;
        let mut shown: String = reference.chars().take(SHOWN).collect();
        if shown.len() < reference.len() {
            shown.push('…');
        }
        Self { kind, reference: shown, error: None }
    }

    /// Why the reference stayed.
    pub fn kind(&self) -> BlobProblemKind {
        self.kind
    }

    /// The reference, cut when it is no real one and long.
    pub fn reference(&self) -> &str {
        &self.reference
    }

    /// What the storage said.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }
}

impl fmt::Display for BlobProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reference = self.reference.escape_debug();
        match self.kind {
            BlobProblemKind::Missing => write!(f, "there is no blob for {reference}; restore it from a copy"),
            BlobProblemKind::BadReference => {
                write!(f, "{reference} is no reference to a blob: 64 hex digits belong there")
            }
            BlobProblemKind::NotAUrl => write!(f, "the blob of {reference} is no URL"),
            BlobProblemKind::Corrupt | BlobProblemKind::Unreadable => match &self.error {
                Some(error) => write!(f, "{reference}: {error}"),
                None => write!(f, "{reference} cannot be read"),
            },
        }
    }
}

/// The payload with its images in place `[W9]`.
///
/// References count in `data` of image blocks (`type: "image"` in an array under the key `content`, at any depth) and in
/// `image_url`; elsewhere they are text. A payload without any is not copied. Every other byte stays.
///
/// ```
/// # use std::sync::Arc;
/// # use session_core::{BlobStore, SystemClock, storage::MemorySessionStorage};
/// # let blobs = BlobStore::new(Arc::new(MemorySessionStorage::new()), "/agent/blobs", Arc::new(SystemClock));
/// use session_core::{BlobProblemKind, JsonText, resolve_blobs};
/// let hash = blobs.put(b"data:image/png;base64,iVBORw0KGgo=")?;
/// let written = JsonText::parse(&format!(r#"{{"image_url":"{}"}}"#, hash.reference()))?;
/// let (payload, problems) = resolve_blobs(&written, &blobs);
/// assert_eq!(payload.as_str(), r#"{"image_url":"data:image/png;base64,iVBORw0KGgo="}"#);
/// assert!(problems.is_empty());
///
/// let written = JsonText::parse(r#"{"image_url":"blob:sha256:../secret"}"#)?;
/// let (payload, problems) = resolve_blobs(&written, &blobs);
/// assert_eq!(*payload, written);
/// assert_eq!(problems[0].kind(), BlobProblemKind::BadReference);
/// # Ok::<(), session_core::Error>(())
/// ```
pub fn resolve_blobs<'a>(json: &'a JsonText, store: &BlobStore) -> (Cow<'a, JsonText>, Vec<BlobProblem>) {
    let bytes = json.as_str().as_bytes();
    let mut edits = Edits::default();
    let mut problems = Vec::new();
    for Found { range, form } in find(bytes) {
        let Some(reference) = reference(&bytes[range.clone()]) else { continue };
        match fetch(&reference, form, store) {
            Ok(text) => edits.replace(range, text),
            Err(problem) => problems.push(problem),
        }
    }
    if edits.is_empty() {
        return (Cow::Borrowed(json), problems);
    }
    (Cow::Owned(JsonText::from_valid(&edits.apply(bytes))), problems)
}

/// What stood in the reference's place, as it stands between the quotes of a JSON text.
fn fetch(reference: &str, form: Form, store: &BlobStore) -> Result<String, BlobProblem> {
    let problem = |kind| BlobProblem::new(kind, reference);
    let hash = BlobHash::parse_reference(reference).ok_or_else(|| problem(BlobProblemKind::BadReference))?;
    let content = match store.get(&hash) {
        Ok(Some(content)) => content,
        Ok(None) => return Err(problem(BlobProblemKind::Missing)),
        Err(error) => {
            let corrupt = error.kind() == ErrorKind::Corrupt;
            let kind = if corrupt { BlobProblemKind::Corrupt } else { BlobProblemKind::Unreadable };
            return Err(BlobProblem { error: Some(error), ..problem(kind) });
        }
    };
    match form {
        Form::Base64 => Ok(STANDARD.encode(content)),
        Form::Url => {
            let url = String::from_utf8(content).map_err(|_| problem(BlobProblemKind::NotAUrl))?;
            let quoted = quote(&url);
            Ok(quoted[1..quoted.len() - 1].to_owned())
        }
    }
}

/// The text, when it begins as a reference does.
fn reference(raw: &[u8]) -> Option<Cow<'_, str>> {
    if !raw.starts_with(REFERENCE_PREFIX.as_bytes()) && !raw.contains(&b'\\') {
        return None;
    }
    decode_lossless(raw).filter(|text| text.starts_with(REFERENCE_PREFIX))
}

#[derive(Clone, Copy, Debug)]
enum Form {
    Base64,
    Url,
}

/// A text that may be a reference, between its quotes.
struct Found {
    range: Range<usize>,
    form: Form,
}

#[derive(Default)]
struct Frame {
    is_object: bool,
    /// An array under the key `content`, or an object directly in one.
    is_content: bool,
    is_image: bool,
    data: Option<Range<usize>>,
}

/// The texts that count as references if they begin as one.
fn find(bytes: &[u8]) -> Vec<Found> {
    // A letter of the prefix may be spelled `\u00…`; without any such escape the plain prefix must be there.
    let plausible = |part: &[u8]| memmem::find(bytes, part).is_some();
    if !plausible(REFERENCE_PREFIX.as_bytes()) && !plausible(b"\\u00") {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut frames: Vec<Frame> = Vec::new();
    let mut key = 0..0;
    for token in Tokens::new(bytes) {
        let top = frames.last_mut().filter(|frame| frame.is_object);
        let is = |name: &str| is_key(&bytes[key.clone()], name);
        match token.kind {
            TokenKind::Key => key = token.range,
            TokenKind::Array => {
                let is_content = top.is_some() && is("content");
                if let Some(object) = top {
                    object.forget(&bytes[key.clone()]);
                }
                frames.push(Frame { is_content, ..Frame::default() });
            }
            TokenKind::Object => {
                if let Some(object) = top {
                    object.forget(&bytes[key.clone()]);
                }
                let is_content = frames.last().is_some_and(|frame| !frame.is_object && frame.is_content);
                frames.push(Frame { is_object: true, is_content, ..Frame::default() });
            }
            TokenKind::Text => {
                let Some(object) = top else { continue };
                if is("image_url") {
                    found.push(Found { range: token.range, form: Form::Url });
                } else if object.is_content && is("type") {
                    object.is_image = decode(&bytes[token.range]) == "image";
                } else if object.is_content && is("data") {
                    object.data = Some(token.range);
                }
            }
            TokenKind::Scalar => {
                if let Some(object) = top {
                    object.forget(&bytes[key.clone()]);
                }
            }
            TokenKind::End => {
                if let Some(Frame { is_image: true, data: Some(range), .. }) = frames.pop() {
                    found.push(Found { range, form: Form::Base64 });
                }
            }
        }
    }
    found
}

impl Frame {
    /// The key stands here again, with a value that is no text; of repeated keys the last counts.
    fn forget(&mut self, key: &[u8]) {
        if is_key(key, "type") {
            self.is_image = false;
        } else if is_key(key, "data") {
            self.data = None;
        }
    }
}

fn is_key(raw: &[u8], name: &str) -> bool {
    if raw.contains(&b'\\') { decode(raw) == name } else { raw == name.as_bytes() }
}
