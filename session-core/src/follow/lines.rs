//! From the bytes behind a position to entries: one pass over what is new, a line at a time `[L1, L2, L5, L8]`.
//!
//! It judges lines as loading a session does, and the tests hold the two against each other; but it keeps no envelopes of
//! earlier lines, so a file of any size is followed in the memory of a slice.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr;

use super::buffer::Buffer;
use super::changes::{Record, Text};
use super::position::{Position, SessionFacts, Start};
use super::{LONGEST_KEPT, LastLine, Slice};
use crate::clock::Timestamp;
use crate::defect::{DefectKind, Defects};
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::header::{FormatVersion, Header, LONGEST_HEADER, TITLE_SLOT_LEN, TitleSlot, is_header_kind, is_title_line};
use crate::lines::BOM;
use crate::migrate::DerivedIds;
use crate::salvage::Salvage;
use crate::scan::{Field, OwnKeys, Scanner, Shape};
use crate::source::WINDOW;
use crate::storage::{StorageReader, read_range};

/// How much of the first object tells a file from others: enough for `type`, `version` and most of a UUID.
const HEAD_LEN: usize = 64;
/// How much before the position is looked at again: the end of an entry, its message's time in most.
const TAIL_LEN: usize = 32;
/// How much of the beginning of a piece of a line is looked at again: type and id of an entry.
const BEGINNING_LEN: usize = 64;
/// What is compared when a line in pieces ends, at most: what stands before it, what it began with, and its last piece's end.
const AT_THE_END: usize = HEAD_LEN + TAIL_LEN + BEGINNING_LEN + TAIL_LEN;

/// A line whose end has not been read yet.
#[derive(Debug)]
pub(super) struct OpenLine {
    scanner: Scanner<false>,
    len: u64,
    /// Its bytes; none once they are too many to keep.
    bytes: Option<Vec<u8>>,
    /// What it begins and ends with.
    samples: [Fingerprint; 2],
    /// Bytes of it that were compared while it grew.
    compared: usize,
}

impl OpenLine {
    /// The bytes of it that were read.
    pub(super) fn len(&self) -> u64 {
        self.len
    }
}

/// A physical line.
#[derive(Clone, Copy, Debug)]
struct Line {
    /// From 1.
    number: u64,
    /// Where it begins in the file.
    offset: u64,
    /// Its length without the line feed.
    len: u64,
    /// Where it begins in the bytes at hand; none when it was too long to keep.
    kept: Option<usize>,
    ended: bool,
}

impl Line {
    /// Where a range of the line is in the bytes at hand; none when it was too long to keep.
    #[allow(clippy::cast_possible_truncation, reason = "the line is in memory")]
    fn kept_range(&self, offset: u64, len: u64) -> Option<Range<usize>> {
        let start = self.kept? + (offset - self.offset) as usize;
        Some(start..start + len as usize)
    }
}

/// A pass over a file, from a position on.
#[derive(Debug)]
pub(super) struct Reading<'f> {
    file: &'f dyn StorageReader,
    /// The length that the file had when the look began; nothing behind it is read.
    len: u64,
    slice: Slice,
    pub(super) position: Position,
    pub(super) derived: Option<DerivedIds>,
    pub(super) records: Vec<Record>,
    pub(super) defects: Defects,
    /// What was read, the open line last.
    pub(super) bytes: Buffer,
    /// Where in `bytes` the open line begins.
    line_start: usize,
    /// From where on `bytes` follow each other in the file without a gap.
    unbroken: usize,
    /// Where in `bytes` scanning goes on.
    scanned: usize,
    scanner: Scanner<false>,
    open_len: u64,
    /// What the open line begins and ends with: those of an earlier look, or of one that is too long to keep.
    samples: Option<[Fingerprint; 2]>,
    /// Bytes of the open line that were compared while it grew.
    compared: usize,
    too_long: bool,
    has_slot: bool,
    /// What was found in a last line without a line feed.
    unended: Vec<Fingerprint>,
    lines_before: u64,
    /// Bytes read in this pass.
    read: u64,
}

impl<'f> Reading<'f> {
    pub(super) fn new(
        file: &'f dyn StorageReader,
        len: u64,
        slice: Slice,
        position: Position,
        mut bytes: Buffer,
    ) -> Self {
        let lines_before = position.lines;
        bytes.truncate(0);
        Self {
            file,
            len,
            slice,
            position,
            derived: None,
            records: Vec::new(),
            defects: Defects::default(),
            bytes,
            line_start: 0,
            unbroken: 0,
            scanned: 0,
            scanner: Scanner::new(),
            open_len: 0,
            samples: None,
            compared: 0,
            too_long: false,
            has_slot: false,
            unended: Vec::new(),
            lines_before,
            read: 0,
        }
    }

    /// The pass goes on behind the piece of a line that an earlier one read.
    pub(super) fn behind(mut self, open: OpenLine) -> Self {
        self.scanner = open.scanner;
        self.open_len = open.len;
        self.samples = Some(open.samples);
        self.compared = open.compared;
        self.too_long = open.bytes.is_none();
        self.bytes.push(&open.bytes.unwrap_or_default());
        self.scanned = self.bytes.len();
        self
    }

    /// Reads on, and says whether what is new is only more of a line whose end is not there: then nothing is delivered, and
    /// of what was read before only what the piece ended with is compared: later that stands in the middle of the line, where
    /// nobody looks any more. A line that is short for the pieces in which it comes is not compared as often, so that never
    /// more is read than twice what was appended.
    pub(super) fn goes_on_without_end(&mut self) -> Result<bool> {
        if self.position.start == Start::Invalid || self.slice.last_line == LastLine::Take {
            return Ok(false);
        }
        let fresh = self.scanned;
        self.fill()?;
        let fresh = &self.bytes[fresh..];
        if fresh.is_empty() || self.at() < self.len || memchr(b'\n', fresh).is_some() {
            return Ok(false);
        }
        let compared = self.compared + TAIL_LEN;
        let is_affordable = self.open_len + fresh.len() as u64 >= (AT_THE_END + compared) as u64;
        match self.samples {
            Some([_, end]) if is_affordable => {
                self.compared = compared;
                end.matches(self.file)
            }
            _ => Ok(true),
        }
    }

    /// Whether the piece of a line that an earlier pass read still stands in the file.
    pub(super) fn piece_stands(&self) -> Result<bool> {
        let Some([beginning, end]) = self.samples else { return Ok(true) };
        Ok(beginning.matches(self.file)? && end.matches(self.file)?)
    }

    /// Reads until the slice is full or the file ends. Returns whether there is more.
    pub(super) fn run(&mut self) -> Result<bool> {
        if self.position.start == Start::Invalid {
            return Ok(false);
        }
        loop {
            if self.scanned == self.bytes.len() && !self.fill()? {
                break;
            }
            self.scan()?;
            if self.position.start == Start::Invalid {
                break;
            }
            let has_lines = self.position.lines > self.lines_before;
            if has_lines && !self.is_before_header() && self.read >= self.slice.bytes && self.at() < self.len {
                return Ok(true);
            }
        }
        if self.slice.last_line == LastLine::Take && self.at() == self.len {
            self.take_last_line()?;
        }
        Ok(false)
    }

    /// Where in the file reading goes on.
    fn at(&self) -> u64 {
        self.position.offset + self.open_len + (self.bytes.len() - self.scanned) as u64
    }

    /// Reads the next piece; false at the end.
    fn fill(&mut self) -> Result<bool> {
        let at = self.at();
        let piece = usize::try_from(self.slice.bytes).unwrap_or(WINDOW).clamp(BOM.len(), WINDOW);
        let wanted = usize::try_from(self.len.saturating_sub(at)).map_or(piece, |rest| rest.min(piece));
        let n = if wanted == 0 { 0 } else { self.file.read_at(at, self.bytes.room(wanted))? };
        self.bytes.extend(n);
        self.read += n as u64;
        if at == 0 && BOM.starts_with(&self.bytes[..self.bytes.len().min(BOM.len())]) {
            if n < BOM.len() {
                // Too little to tell whether it is one.
                self.bytes.truncate(0);
                return Ok(false);
            }
            self.bytes.skip(BOM.len());
            self.position.offset = BOM.len() as u64;
        }
        Ok(n > 0)
    }

    /// Looks at what was read and not scanned yet.
    fn scan(&mut self) -> Result<()> {
        while let Some(n) = memchr(b'\n', &self.bytes[self.scanned..]) {
            let end = self.scanned + n;
            self.scanner.feed(&self.bytes[self.scanned..end]);
            let line = Line {
                number: self.position.lines + 1,
                offset: self.position.offset,
                len: self.open_len + n as u64,
                kept: (!self.too_long).then_some(self.line_start),
                ended: true,
            };
            let shape = self.scanner.finish();
            self.scanner.reset();
            self.line(shape, line)?;
            self.position.unended.clear();
            self.position.offset += line.len + 1;
            self.position.lines += 1;
            self.scanned = end + 1;
            self.line_start = end + 1;
            self.open_len = 0;
            self.samples = None;
            self.compared = 0;
            self.too_long = false;
            if self.position.start == Start::Invalid {
                return Ok(());
            }
        }
        self.scanner.feed(&self.bytes[self.scanned..]);
        self.open_len += (self.bytes.len() - self.scanned) as u64;
        self.scanned = self.bytes.len();
        if self.too_long || self.open_len > LONGEST_KEPT {
            self.samples = Some(self.samples_of_open_line());
            self.too_long = true;
            self.bytes.truncate(self.line_start);
            self.unbroken = self.line_start;
            self.scanned = self.line_start;
        }
        Ok(())
    }

    fn samples_of_open_line(&self) -> [Fingerprint; 2] {
        let open = &self.bytes[self.line_start..];
        let beginning = match self.samples {
            Some([beginning, _]) if self.too_long => beginning,
            _ => Fingerprint::of(self.position.offset, &open[..open.len().min(BEGINNING_LEN)]),
        };
        let covered = if self.too_long { 0 } else { BEGINNING_LEN.min(open.len()) };
        let end = &open[covered.max(open.len().saturating_sub(TAIL_LEN))..];
        [beginning, Fingerprint::of(self.position.offset + self.open_len - end.len() as u64, end)]
    }

    fn line(&mut self, shape: Shape, line: Line) -> Result<()> {
        match shape {
            Shape::Blank => Ok(()),
            Shape::Object(keys) => self.object(&keys, line, line.offset, line.len),
            Shape::OtherValue => {
                self.report(DefectKind::NotAnObject, line);
                Ok(())
            }
            Shape::Damaged => {
                self.report(DefectKind::DamagedLine, line);
                // In version 1 an entry is known by its position, so a damaged line gives up nothing `[L1a]`.
                if self.is_v1() { Ok(()) } else { self.salvage(line) }
            }
        }
    }

    fn salvage(&mut self, line: Line) -> Result<()> {
        let mut salvage = Salvage::default();
        if let Some(kept) = line.kept_range(line.offset, line.len) {
            salvage.feed(&self.bytes[kept]);
        } else {
            let end = line.offset + line.len;
            let mut at = line.offset;
            while at < end {
                let piece = read_range(self.file, at, (end - at).min(WINDOW as u64))?;
                if piece.is_empty() {
                    break;
                }
                salvage.feed(&piece);
                at += piece.len() as u64;
            }
        }
        for record in salvage.finish() {
            self.object(&record.keys, line, line.offset + record.range.start, record.range.end - record.range.start)?;
            if self.is_v1() {
                break;
            }
        }
        Ok(())
    }

    /// One whole object at `offset`, which is a line of its own or stands inside a damaged one.
    fn object(&mut self, keys: &OwnKeys, line: Line, offset: u64, len: u64) -> Result<()> {
        let kind = keys.kind.text();
        match self.position.start {
            Start::Invalid => return Ok(()),
            Start::Unknown if line.number == 1 && is_title_line(kind) => return self.title_line(line),
            Start::Unknown => return self.first_object(line, offset, len),
            Start::Session(_) if is_header_kind(kind) => {
                self.report(DefectKind::SecondHeader, line);
                return Ok(());
            }
            Start::Session(_) => {}
        }
        let (id, parent) = if self.is_v1() {
            let ids = self.derived_ids();
            let parent = ids.last().map(Into::into);
            let id = if line.ended { ids.take() } else { ids.peek() };
            (Some(id.as_ref().into()), parent)
        } else {
            (keys.id.text().map(Into::into), keys.parent_id.text().map(Into::into))
        };
        let Some(id) = id else {
            self.report(DefectKind::NoId, line);
            return Ok(());
        };
        let number = self.position.entries + 1;
        if line.ended {
            self.position.entries = number;
        }
        if self.was_delivered(line, offset, len)? {
            return Ok(());
        }
        let timestamp = match &keys.timestamp {
            Field::Text(text) => Timestamp::parse(text),
            _ => None,
        };
        let text = if let Some(kept) = line.kept_range(offset, len) {
            Text::Kept(kept)
        } else {
            let beginning = read_range(self.file, offset, len.min(BEGINNING_LEN as u64))?;
            Text::InFile(Fingerprint::of(offset, &beginning))
        };
        let kind = kind.unwrap_or_default().into();
        self.records.push(Record { number, line: line.number, offset, len, id, parent, kind, timestamp, text });
        Ok(())
    }

    /// Whether an object was delivered before its line had a line feed.
    fn was_delivered(&mut self, line: Line, offset: u64, len: u64) -> Result<bool> {
        if line.ended && self.position.unended.is_empty() {
            return Ok(false);
        }
        let object = fingerprint_of_object(offset, &self.text(line, offset, len)?);
        if !line.ended {
            self.unended.push(object);
        }
        Ok(self.position.unended.contains(&object))
    }

    /// A first line of type `title` `[F8, F8a]`.
    fn title_line(&mut self, line: Line) -> Result<()> {
        self.has_slot = line.ended
            && line.len + 1 == TITLE_SLOT_LEN as u64
            && TitleSlot::parse(&[&*self.text(line, line.offset, line.len)?, b"\n"].concat()).is_some();
        if !self.has_slot {
            self.report(DefectKind::NotATitleSlot, line);
        }
        Ok(())
    }

    fn first_object(&mut self, line: Line, offset: u64, len: u64) -> Result<()> {
        let object = self.text(line, offset, len.min(LONGEST_HEADER))?;
        let head = Fingerprint::of(offset, &object[..object.len().min(HEAD_LEN)]);
        let header = if len <= LONGEST_HEADER { Header::parse(&object) } else { None };
        self.position.head = Some(head);
        self.position.start = match header {
            Some(header) => {
                if header.version() == FormatVersion::Odd {
                    self.report(DefectKind::OddVersion, line);
                }
                Start::Session(SessionFacts { id: header.id().clone(), cwd: header.cwd(), version: header.version() })
            }
            None => Start::Invalid,
        };
        Ok(())
    }

    /// Delivers what is whole in a last line that has no line feed, and reports what is wrong with it.
    fn take_last_line(&mut self) -> Result<()> {
        if self.open_len == 0 || self.too_long || self.position.session().is_none() {
            return Ok(());
        }
        let line = Line {
            number: self.position.lines + 1,
            offset: self.position.offset,
            len: self.open_len,
            kept: Some(self.line_start),
            ended: false,
        };
        let shape = Scanner::<false>::shape_of(&self.bytes[self.line_start..]);
        self.line(shape, line)?;
        self.position.unended = std::mem::take(&mut self.unended);
        Ok(())
    }

    /// The bytes of a range of a line.
    fn text(&self, line: Line, offset: u64, len: u64) -> Result<Cow<'_, [u8]>> {
        match line.kept_range(offset, len) {
            Some(kept) => Ok(Cow::Borrowed(&self.bytes[kept])),
            None => Ok(Cow::Owned(read_range(self.file, offset, len)?)),
        }
    }

    fn is_v1(&self) -> bool {
        self.position.session().is_some_and(|session| session.version.lacks_tree())
    }

    fn derived_ids(&mut self) -> &mut DerivedIds {
        let position = &self.position;
        self.derived.get_or_insert_with(|| {
            let session = position.session().map_or_else(|| "".into(), |session| session.id.clone());
            DerivedIds::after(session, position.entries)
        })
    }

    fn report(&mut self, kind: DefectKind, line: Line) {
        self.defects.report(kind, line.number, line.offset);
    }

    /// Whether nothing stands before the position that could vouch for the file: a slot may change in place, and a BOM says
    /// nothing. Both are read again with the header.
    fn is_before_header(&self) -> bool {
        let only_bom = self.position.lines == 0 && self.position.offset > 0;
        only_bom || self.has_slot && self.position.start == Start::Unknown
    }

    /// Ends the pass: the position says what stands before it. Returns the piece of a line behind it, cut off the bytes.
    pub(super) fn finish(&mut self) -> Result<Option<OpenLine>> {
        if self.is_before_header() {
            let Position { identity, generation, .. } = self.position;
            self.position = Position { identity, generation, ..Position::default() };
            return Ok(None);
        }
        if self.position.lines > self.lines_before {
            self.position.tail = Some(self.tail()?);
        }
        Ok(self.cut_off_open_line())
    }

    fn cut_off_open_line(&mut self) -> Option<OpenLine> {
        if self.open_len == 0 || self.position.start == Start::Invalid {
            return None;
        }
        let samples = if self.too_long { self.samples } else { None };
        let samples = samples.unwrap_or_else(|| self.samples_of_open_line());
        let rest = self.bytes[self.line_start..].to_vec();
        // A last line that was just delivered stays with the entries, too.
        if self.records.last().is_none_or(|last| last.offset < self.position.offset) {
            self.bytes.truncate(self.line_start);
        }
        Some(OpenLine {
            scanner: std::mem::replace(&mut self.scanner, Scanner::new()),
            len: self.open_len,
            bytes: (!self.too_long).then_some(rest),
            samples,
            compared: self.compared,
        })
    }

    /// What stands right before the position, the title slot left out.
    fn tail(&self) -> Result<Fingerprint> {
        let end = self.position.offset;
        let floor = self.position.head.map_or(0, |head| head.offset());
        let len = usize::try_from(end - floor).map_or(TAIL_LEN, |len| len.min(TAIL_LEN));
        let start = end - len as u64;
        let at_hand = &self.bytes[self.unbroken..self.line_start];
        match at_hand.len().checked_sub(len) {
            Some(from) => Ok(Fingerprint::of(start, &at_hand[from..])),
            None => Ok(Fingerprint::of(start, &read_range(self.file, start, len as u64)?)),
        }
    }
}

/// The fingerprint of an object without the white space around it, which grows when a CRLF arrives in pieces.
fn fingerprint_of_object(offset: u64, text: &[u8]) -> Fingerprint {
    let blanks = text.len() - text.trim_ascii_start().len();
    Fingerprint::of(offset + blanks as u64, text.trim_ascii())
}
