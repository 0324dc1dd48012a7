//! From the bytes of a session file to its header, its entries' envelopes and what is wrong with it `[L1, L2, L5, L8, L9]`.
//!
//! The file is read once, front to back, in pieces; nothing of it is kept but envelopes. Only a damaged line is looked at a
//! second time, for what is still whole in it.

use std::collections::HashMap;

use crate::clock::Timestamp;
use crate::defect::{DefectKind, Defects};
use crate::error::Result;
use crate::header::{Header, LONGEST_HEADER, TITLE_SLOT_LEN, TitleSlot, is_header_kind, is_title_line};
use crate::lines;
use crate::log::{Envelope, Log, Place};
use crate::migrate::{Migration, TreeMigration};
use crate::salvage::Salvage;
use crate::scan::{Field, OwnKeys, Shape};
use crate::source::WINDOW;
use crate::storage::{StorageReader, read_range};

/// What to do with a last line that has no line feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnendedLine {
    /// It counts when it is whole `[L1]`.
    Judge,
    /// It may be cut: leave it alone.
    Skip,
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
    /// Whether it ends in a line feed.
    ended: bool,
}

/// What was read of a session file, and where reading goes on when the file grows.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) header: Option<Header>,
    /// The physical line and the offset of the header.
    pub(crate) header_line: Option<(u64, u64)>,
    pub(crate) slot: Option<TitleSlot>,
    /// Where the title slot begins: behind a byte order mark, if there is one.
    pub(crate) slot_offset: u64,
    pub(crate) log: Log,
    pub(crate) migration: Migration,
    pub(crate) defects: Defects,
    /// Offsets of damaged lines that gave up entries, by line.
    pub(crate) damaged: HashMap<u64, u64>,
    /// Bytes up to the end of the last line that ended in a line feed.
    pub(crate) complete: u64,
    /// Bytes that were read in all.
    pub(crate) len: u64,
    /// Physical lines that ended in a line feed.
    pub(crate) complete_lines: u64,
    /// An object that is no header came first: nothing in the file is valid `[L2]`.
    pub(crate) invalid: bool,
    /// Something is in the file that entries do not account for: damaged lines, lines without an id, further headers.
    pub(crate) has_extra: bool,
}

impl Loaded {
    /// Reads on from where reading ended, to the end of the file as it is now. A last line that had no line feed is read
    /// again by the caller, who loads anew.
    pub(crate) fn read_on(&mut self, file: &dyn StorageReader) -> Result<()> {
        self.read_lines(file, UnendedLine::Judge)
    }

    /// Reads on like [`read_on`](Self::read_on); who looks at the beginning of a file alone must not take a cut line for a
    /// torn one, and skips what stands behind the last line feed.
    pub(crate) fn read_lines(&mut self, file: &dyn StorageReader, unended: UnendedLine) -> Result<()> {
        let mut number = self.complete_lines;
        let mut end = self.complete;
        lines::read(file, self.complete, |scanned| {
            number += 1;
            end = scanned.offset + scanned.len + u64::from(scanned.ended);
            if scanned.ended {
                (self.complete, self.complete_lines) = (end, number);
            } else if unended == UnendedLine::Skip {
                return Ok(());
            }
            let line = Line { number, offset: scanned.offset, len: scanned.len, ended: scanned.ended };
            self.line(line, scanned.shape, file)
        })?;
        self.len = end;
        Ok(())
    }

    fn line(&mut self, line: Line, shape: Shape, file: &dyn StorageReader) -> Result<()> {
        match shape {
            Shape::Blank => Ok(()),
            Shape::Object(keys) => self.object(&keys, line, line.offset, line.len, file),
            Shape::OtherValue => {
                self.report_line(DefectKind::NotAnObject, line);
                Ok(())
            }
            Shape::Damaged => {
                self.report_line(DefectKind::DamagedLine, line);
                // In version 1 an entry is known by its position, so a damaged line gives up nothing `[L1a]`.
                let v1 = self.header.as_ref().is_some_and(|header| header.version().lacks_tree());
                if v1 || self.invalid { Ok(()) } else { self.salvage(line, file) }
            }
        }
    }

    fn salvage(&mut self, line: Line, file: &dyn StorageReader) -> Result<()> {
        let mut salvage = Salvage::default();
        let mut piece = vec![0; WINDOW];
        let mut done = 0;
        while done < line.len {
            let wanted = usize::try_from(line.len - done).unwrap_or(WINDOW).min(WINDOW);
            let n = file.read_at(line.offset + done, &mut piece[..wanted])?;
            if n == 0 {
                break;
            }
            salvage.feed(&piece[..n]);
            done += n as u64;
        }
        for record in salvage.finish() {
            self.damaged.insert(line.number, line.offset);
            let len = record.range.end - record.range.start;
            self.object(&record.keys, line, line.offset + record.range.start, len, file)?;
            // The header itself may have been in it, and said that what follows gives up nothing.
            if self.header.as_ref().is_some_and(|header| header.version().lacks_tree()) {
                break;
            }
        }
        Ok(())
    }

    /// One whole object at `offset`, which is a line of its own or stands inside a damaged one.
    fn object(&mut self, keys: &OwnKeys, line: Line, offset: u64, len: u64, file: &dyn StorageReader) -> Result<()> {
        if self.invalid {
            return Ok(());
        }
        let kind = keys.kind.text();
        let Some(header) = &self.header else {
            if line.number == 1 && is_title_line(kind) && self.title_line(line, file)? {
                return Ok(());
            }
            return self.first_object(line, offset, len, file);
        };
        let has_tree = !header.version().lacks_tree();
        if is_header_kind(kind) {
            self.report_line(DefectKind::SecondHeader, line);
            if let Migration::Tree(tree) = &mut self.migration {
                tree.skip_object();
            }
            return Ok(());
        }
        let index = self.log.next_index();
        let derived;
        let (id, parent) = if let Migration::Tree(tree) = &mut self.migration {
            derived = tree.next_id(index, keys.id.text());
            let parent = index.checked_sub(1).map(|parent| self.log.id(parent).to_owned());
            (Some(&*derived), parent)
        } else {
            (keys.id.text(), keys.parent_id.text().map(str::to_owned))
        };
        let Some(id) = id else {
            self.report_line(DefectKind::NoId, line);
            return Ok(());
        };
        if self.log.find(id).is_some() {
            self.defects.report(DefectKind::RepeatedId, line.number, line.offset);
        }
        let timestamp = match &keys.timestamp {
            Field::Text(text) => Timestamp::parse(text),
            _ => None,
        };
        let envelope =
            Envelope { kind: kind.unwrap_or_default(), id, parent: parent.as_deref(), timestamp, line: line.number };
        let whole_line = offset == line.offset && len == line.len;
        let place = if whole_line { Place::Line { offset, len } } else { Place::Inside { offset, len } };
        debug_assert!(has_tree || whole_line, "version 1 gives up nothing from damaged lines");
        self.log.push(&envelope, place);
        Ok(())
    }

    /// A first line of type `title`; true when it is dealt with.
    fn title_line(&mut self, line: Line, file: &dyn StorageReader) -> Result<bool> {
        if line.ended && line.len + 1 == TITLE_SLOT_LEN as u64 {
            let bytes = read_range(file, line.offset, line.len + 1)?;
            self.slot = TitleSlot::parse(&bytes);
            self.slot_offset = line.offset;
        }
        if self.slot.is_none() {
            self.report_line(DefectKind::NotATitleSlot, line);
        }
        Ok(true)
    }

    fn first_object(&mut self, line: Line, offset: u64, len: u64, file: &dyn StorageReader) -> Result<()> {
        let header = if len <= LONGEST_HEADER { Header::parse(&read_range(file, offset, len)?) } else { None };
        let Some(header) = header else {
            self.invalid = true;
            return Ok(());
        };
        if header.version() == crate::header::FormatVersion::Odd {
            self.defects.report(DefectKind::OddVersion, line.number, line.offset);
        }
        self.assume_header(header);
        self.header_line = Some((line.number, offset));
        Ok(())
    }

    /// What is read from now on stands below this header.
    pub(crate) fn assume_header(&mut self, header: Header) {
        self.migration = match header.version() {
            version if version.lacks_tree() => Migration::Tree(Box::new(TreeMigration::new(header.id()))),
            version if version.is_old() => Migration::Roles,
            _ => Migration::None,
        };
        self.header = Some(header);
    }

    fn report_line(&mut self, kind: DefectKind, line: Line) {
        self.has_extra = true;
        self.defects.report(kind, line.number, line.offset);
    }
}
