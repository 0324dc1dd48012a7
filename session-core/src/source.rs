//! Reading entries' lines from the file that a session was opened on `[L9]`.
//!
//! A session keeps the file open, so a rename over the path changes nothing for it. What can change is the file itself, when
//! another program truncates it or writes into it. Each line that is read is checked against what the session knows of it;
//! never is another entry's line given out.

use std::borrow::Cow;
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind, Result};
use crate::json::{Json, Member, validate};
use crate::log::{Index, Log, Place};
use crate::migrate::Migration;
use crate::scan::{Scanner, Shape};
use crate::storage::StorageReader;

/// How much is read ahead: entries on a path mostly follow each other in the file.
pub(crate) const WINDOW: usize = 256 * 1024;

/// Reads lines through a window of the file, so that neighbours cost one read.
#[derive(Debug)]
pub(crate) struct Lines<'a> {
    log: &'a Log,
    migration: &'a Migration,
    file: Option<&'a Arc<dyn StorageReader>>,
    window: Vec<u8>,
    window_start: u64,
}

/// An entry's line, checked to be that entry's, migrated, and whether it is JSON throughout.
#[derive(Debug)]
pub(crate) struct CheckedLine<'l> {
    pub(crate) bytes: Cow<'l, [u8]>,
    pub(crate) is_json: bool,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(log: &'a Log, migration: &'a Migration, file: Option<&'a Arc<dyn StorageReader>>) -> Self {
        Self { log, migration, file, window: Vec::new(), window_start: 0 }
    }

    /// The entry's line as it reads today.
    ///
    /// # Errors
    /// [`ErrorKind::Changed`] when the file no longer holds the entry there.
    pub(crate) fn read(&mut self, index: Index) -> Result<CheckedLine<'_>> {
        let (log, migration) = (self.log, self.migration);
        let (offset, len, has_line_end) = match log.place(index) {
            Place::Memory(number) => {
                let bytes = Cow::Borrowed(log.payload(number).as_str().as_bytes());
                return Ok(CheckedLine { bytes, is_json: true });
            }
            Place::Line { offset, len } => (offset, len, true),
            Place::Inside { offset, len } => (offset, len, false),
        };
        let changed = || changed(log, index);
        let whole = self.range(offset, len + u64::from(has_line_end))?;
        let line = whole.get(..usize::try_from(len).unwrap_or(usize::MAX)).ok_or_else(changed)?;
        if whole.get(line.len()).is_some_and(|end| *end != b'\n') {
            return Err(changed());
        }
        let is_json = validate(line).is_ok();
        let quickly_told = is_json && names_id(log, index, line);
        if !quickly_told && !is_same(log, migration, index, line) {
            return Err(changed());
        }
        Ok(CheckedLine { bytes: migration.migrate(log, index, line), is_json })
    }

    /// The bytes of a range, fewer when the file ends before.
    fn range(&mut self, offset: u64, len: u64) -> Result<&[u8]> {
        let inside = offset >= self.window_start && offset + len <= self.window_start + self.window.len() as u64;
        if !inside {
            let Some(file) = self.file else { return Ok(&[]) };
            let wanted = usize::try_from(len)
                .map_err(|_| Error::new(ErrorKind::TooLarge, "the entry does not fit in memory"))?;
            // No larger than the file: clearing a long window would cost more than reading a short session.
            let size = usize::try_from(file.stat()?.len).unwrap_or(WINDOW);
            // Not cleared: what is there is overwritten, or cut off below.
            self.window.resize(wanted.max(WINDOW.min(size)), 0);
            // Whoever walks from a leaf to the root asks for what stands before: then the window ends with it.
            let room = if offset < self.window_start { self.window.len() - wanted } else { 0 };
            let before = room.min(usize::try_from(offset).unwrap_or(usize::MAX));
            self.window_start = offset - before as u64;
            let wanted = before + wanted;
            let mut filled = 0;
            while filled < wanted {
                match file.read_at(self.window_start + filled as u64, &mut self.window[filled..])? {
                    0 => break,
                    n => filled += n,
                }
            }
            self.window.truncate(filled);
        }
        let inside = |at: u64| usize::try_from(at - self.window_start).unwrap_or(usize::MAX).min(self.window.len());
        Ok(&self.window[inside(offset)..inside(offset + len)])
    }
}

/// Whether a line has the entry's id. It is among the first keys of nearly every line.
fn names_id(log: &Log, index: Index, line: &[u8]) -> bool {
    let id = |member: Member<'_>| member.is("id") && member.value.text().as_deref() == Some(log.id(index));
    Json::new(line).members().any(id)
}

/// Whether a line is that of the entry, by its own keys as they are read at open. Version 1 has no ids: type and time must do.
fn is_same(log: &Log, migration: &Migration, index: Index, line: &[u8]) -> bool {
    let Shape::Object(keys) = Scanner::<false>::shape_of(line) else { return false };
    if !matches!(migration, Migration::Tree(_)) {
        return keys.id.text() == Some(log.id(index));
    }
    let time = keys.timestamp.text().and_then(Timestamp::parse);
    keys.kind.text().unwrap_or_default() == log.kind_name(index) && time == log.timestamp(index)
}

fn changed(log: &Log, index: Index) -> Error {
    let id = log.id(index).into();
    let error = Error::new(ErrorKind::Changed, "the file was changed and no longer holds this entry; open it again")
        .on_entry(id);
    match log.line(index) {
        Some(line) => error.on_line(line),
        None => error,
    }
}
