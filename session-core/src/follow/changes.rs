//! What a look at a file found: what became of the file, and its new entries.

use std::borrow::Cow;
use std::ops::Range;
use std::path::PathBuf;

use memchr::memmem::Finder;

use super::buffer::Buffer;
use crate::clock::Timestamp;
use crate::defect::Defects;
use crate::entry::EntryKind;
use crate::error::{Error, ErrorKind, Result};
use crate::fingerprint::Fingerprint;
use crate::id::EntryId;
use crate::json::{JsonText, validate};
use crate::storage::{StorageReader, read_range};

/// What became of the file since the look before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Transition {
    /// Nothing is there, and nothing ever was.
    NotYet,
    /// This is the first look at the file.
    Begun,
    /// The file is as it was; not a byte was read.
    Unchanged,
    /// It is the same file, whatever its name; reading went on where it ended.
    Continued,
    /// The same file is shorter than what was read of it; it is read from its beginning.
    Truncated,
    /// The same file (or another one that got its inode) holds something else; it is read from its beginning.
    Rewritten,
    /// Another file is there, as after an atomic rewrite; it is read from its beginning.
    Replaced,
    /// Nothing is there any more. The position stays: should the same file appear again, under whatever name, reading goes on.
    Deleted,
}

impl Transition {
    /// Whether reading began at the beginning of the file: entries that were delivered before come again, in a new
    /// [generation](super::Position::generation).
    pub fn is_from_the_beginning(self) -> bool {
        matches!(self, Self::Begun | Self::Truncated | Self::Rewritten | Self::Replaced)
    }
}

/// What one look found.
#[derive(Debug)]
pub struct Changes {
    pub(super) transition: Transition,
    pub(super) records: Vec<Record>,
    pub(super) bytes: Buffer,
    pub(super) defects: Defects,
    pub(super) has_more: bool,
    pub(super) path: PathBuf,
    pub(super) file: Option<Box<dyn StorageReader>>,
}

/// An entry as a follower keeps it until it is asked for.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) number: u64,
    pub(super) line: u64,
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) id: EntryId,
    pub(super) parent: Option<EntryId>,
    pub(super) kind: Box<str>,
    pub(super) timestamp: Option<Timestamp>,
    pub(super) text: Text,
}

/// Where the text of an entry is.
#[derive(Debug)]
pub(super) enum Text {
    /// In the bytes that the look kept.
    Kept(Range<usize>),
    /// In the file, too long to keep; what it begins with.
    InFile(Fingerprint),
}

impl Changes {
    pub(super) fn nothing(transition: Transition, bytes: Buffer) -> Self {
        Self {
            transition,
            records: Vec::new(),
            bytes,
            defects: Defects::default(),
            has_more: false,
            path: PathBuf::new(),
            file: None,
        }
    }

    /// What became of the file.
    pub fn transition(&self) -> Transition {
        self.transition
    }

    /// The new entries, in the order of the file.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = FollowedEntry<'_>> + ExactSizeIterator {
        self.records.iter().map(|record| FollowedEntry { changes: self, record })
    }

    /// What is wrong with the lines that were read. Whole entries inside damaged lines are among the
    /// [entries](Changes::entries). What only the whole session shows (repeated ids, missing parents) is not reported here.
    pub fn defects(&self) -> &Defects {
        &self.defects
    }

    /// The memory of this look, for the next one.
    pub fn into_buffer(self) -> Buffer {
        self.bytes
    }

    /// Whether the look ended because its slice was full: the next one goes on at once.
    pub fn has_more(&self) -> bool {
        self.has_more
    }
}

/// A JSON text (a key or a value) that is looked for in many entries, see [`may_hold`](FollowedEntry::may_hold).
#[derive(Clone, Debug)]
pub struct Sought {
    spelled: Finder<'static>,
    escaped: Finder<'static>,
}

impl Sought {
    /// The text, without its quotes.
    pub fn new(text: &str) -> Self {
        Self { spelled: Finder::new(&crate::json::quote(text)).into_owned(), escaped: Finder::new("\\u") }
    }

    /// An escape can spell any character; it is rare enough to be looked at closely.
    fn may_be_in(&self, json: &[u8]) -> bool {
        self.spelled.find(json).is_some() || self.escaped.find(json).is_some()
    }
}

/// A new entry.
#[derive(Clone, Copy, Debug)]
pub struct FollowedEntry<'c> {
    changes: &'c Changes,
    record: &'c Record,
}

impl<'c> FollowedEntry<'c> {
    /// The entry's id; in files of version 1 the derived one, as every reader derives it `[L5]`.
    pub fn id(self) -> &'c EntryId {
        &self.record.id
    }

    /// The id that it names as its parent; none for a root.
    pub fn parent_id(self) -> Option<&'c EntryId> {
        self.record.parent.as_ref()
    }

    /// Its type.
    pub fn kind(self) -> EntryKind {
        EntryKind::of(&self.record.kind)
    }

    /// Its type as the file names it; empty when it has none.
    pub fn kind_name(self) -> &'c str {
        &self.record.kind
    }

    /// When it was made; none when that can't be read.
    pub fn timestamp(self) -> Option<Timestamp> {
        self.record.timestamp
    }

    /// Which of the file's entries it is, from 1; those without an id are not counted.
    pub fn number(self) -> u64 {
        self.record.number
    }

    /// The physical line, from 1.
    pub fn line(self) -> u64 {
        self.record.line
    }

    /// Where its JSON begins, in bytes from the beginning of the file. Inside its line when that is damaged.
    pub fn offset(self) -> u64 {
        self.record.offset
    }

    /// The length of its JSON in bytes.
    pub fn byte_len(self) -> u64 {
        self.record.len
    }

    /// Whether the entry may hold a text anywhere: false only when it certainly does not. Costs a fraction of
    /// [`json`](Self::json), for those who look for few entries among many.
    pub fn may_hold(self, sought: &Sought) -> bool {
        let Text::Kept(range) = &self.record.text else { return true };
        sought.may_be_in(&self.changes.bytes[range.clone()])
    }

    /// The entry as it stands in the file: nothing is migrated, blob references stay references.
    ///
    /// Costs no reading, except for a line longer than [`LONGEST_KEPT`](super::LONGEST_KEPT), which is read again.
    ///
    /// # Errors
    /// [`ErrorKind::NotJson`] when the payload is no JSON; [`ErrorKind::Changed`] when a long line is not there any more.
    pub fn json(self) -> Result<JsonText> {
        let bytes = self.bytes()?;
        if validate(&bytes).is_err() {
            return Err(self.error(ErrorKind::NotJson, "the entry's payload is no JSON"));
        }
        Ok(JsonText::from_valid(&bytes))
    }

    fn bytes(self) -> Result<Cow<'c, [u8]>> {
        let beginning = match &self.record.text {
            Text::Kept(range) => return Ok(Cow::Borrowed(&self.changes.bytes[range.clone()])),
            Text::InFile(beginning) => beginning,
        };
        let changed =
            || self.error(ErrorKind::Changed, "the file was changed and no longer holds this entry; look again");
        let file = self.changes.file.as_ref().ok_or_else(changed)?;
        let bytes = read_range(file.as_ref(), self.record.offset, self.record.len)?;
        if bytes.len() as u64 != self.record.len || !beginning.is_of(&bytes) {
            return Err(changed());
        }
        Ok(Cow::Owned(bytes))
    }

    fn error(self, kind: ErrorKind, message: &str) -> Error {
        Error::new(kind, message).at(&self.changes.path).on_line(self.record.line).on_entry(self.record.id.clone())
    }
}
