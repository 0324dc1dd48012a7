//! Following a session file that others write: "this file may have changed" in, its new entries out.
//!
//! A [`Follower`] is a state machine over looks at a file. It has no clock, no thread and no opinion on when to look: events
//! are hints, and a look that was one too many costs one `stat`. Its state is a [`Position`], which can be stored and taken
//! up again. It never writes, and it never gives out half a line.
//!
//! # What is the same file
//!
//! Device and inode, the first 64 bytes of the header (which hold the session's id) and the 32 bytes before the position.
//! So a rename is a rename, an atomic rewrite is another file, an inode used again is another file, and a title slot that is
//! updated in place `[F8]` is none of these. What is another file is read from its beginning, in a new
//! [generation](Position::generation); entries that were there before come again, and whoever keeps them knows them by their
//! ids. Not noticed is who overwrites bytes in the middle of what was read and leaves the end of it alone: nobody of this
//! family does, and finding out would mean reading the file again at each event.
//!
//! # What is read
//!
//! New lines only. A look that finds new lines reads them once, and at most 96 bytes more to make sure that it is still the
//! file it was, however large that is. A line that arrives in pieces is read in pieces, once, as long as the same follower
//! sees them; when its end is there, at most 96 bytes of the pieces are compared. A look that finds nothing but more of a
//! line without its end delivers nothing and compares at most the 32 bytes that the piece ended with: what else became of the
//! file shows when the line ends, or at a look that takes the last line.
//!
//! # The last line
//!
//! Without its line feed it is not delivered: it may be a piece of a record, and a piece can look whole. Only a look that
//! [takes the last line](Slice::taking_last_line), which is for a file that has been quiet for long, delivers what is whole
//! in it `[L1, L1a]`. The position stays before it, and remembers what was delivered: when the line feed arrives, or when the
//! line turns out to go on, only what else is in it is delivered. So nothing is lost and nothing comes twice. A header, and a
//! line longer than [`LONGEST_KEPT`], wait for their line feed in any case.

mod buffer;
mod changes;
mod lines;
mod position;

use std::path::Path;

pub use buffer::Buffer;
pub use changes::{Changes, FollowedEntry, Sought, Transition};
pub use position::{Position, SessionFacts};

use crate::error::{ErrorKind, Result};
use crate::migrate::DerivedIds;
use crate::storage::{SessionStorage, Stat, StorageReader};
use lines::{OpenLine, Reading};
use position::Seen;

/// The longest line whose text is kept while it is read, in bytes. Longer ones are delivered all the same, and read again
/// when their text is asked for.
pub const LONGEST_KEPT: u64 = 8 * 1024 * 1024;

/// How much one look reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    bytes: u64,
    last_line: LastLine,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastLine {
    Wait,
    Take,
}

impl Default for Slice {
    /// A mebibyte; a last line without a line feed waits.
    fn default() -> Self {
        Self::of_bytes(1024 * 1024)
    }
}

impl Slice {
    /// The look ends when it has read this many bytes and at least one complete line. Memory stays below this, the longest
    /// line that is [kept](LONGEST_KEPT) and a quarter of a mebibyte together, whatever the size of the file.
    pub fn of_bytes(bytes: u64) -> Self {
        Self { bytes, last_line: LastLine::Wait }
    }

    /// The look also delivers what is whole in a last line that has no line feed. For files that have been quiet for long.
    #[must_use]
    pub fn taking_last_line(self) -> Self {
        Self { last_line: LastLine::Take, ..self }
    }
}

/// Follows one file.
///
/// ```
/// use std::path::Path;
/// use session_core::follow::{Follower, Slice, Transition};
/// use session_core::storage::{MemorySessionStorage, OpenMode, SessionStorage};
/// # fn main() -> session_core::Result<()> {
/// let storage = MemorySessionStorage::new();
/// let path = Path::new("/s.jsonl");
/// storage.write_text(path, "{\"type\":\"session\",\"version\":3,\"id\":\"s\",\"cwd\":\"/p\"}\n")?;
/// let mut follower = Follower::new();
/// assert_eq!(follower.look(&storage, path, Slice::default())?.transition(), Transition::Begun);
///
/// let mut other = storage.open_writer(path, OpenMode::Append)?;
/// other.write(b"{\"type\":\"label\",\"id\":\"00000001\",\"parentId\":null,")?;
/// assert_eq!(follower.look(&storage, path, Slice::default())?.entries().len(), 0);
/// other.write(b"\"targetId\":\"x\"}\n")?;
///
/// // The position was stored, and another process goes on.
/// let mut follower = Follower::resume(follower.position().to_string().parse()?);
/// let changes = follower.look(&storage, path, Slice::default())?;
/// assert_eq!(changes.entries().map(|entry| entry.id().as_str()).collect::<Vec<_>>(), ["00000001"]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Follower {
    position: Position,
    /// What was read behind the position. Boxed like the ids, since few followers of many have either.
    open: Option<Box<OpenLine>>,
    /// The ids of a version 1 file, once one was needed.
    derived: Option<Box<DerivedIds>>,
}

impl Follower {
    /// A follower that has seen nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A follower that goes on where another one was.
    ///
    /// It is also the way back: when what a look found could not be stored, resume from the position that was.
    pub fn resume(position: Position) -> Self {
        Self { position, open: None, derived: None }
    }

    /// How far the file was read. To be stored in the transaction that stores what the entries became.
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// Looks at the file that `path` names now.
    ///
    /// # Errors
    /// Only input and output fail; a missing file is a [`Transition`], content never fails. After an error the position is
    /// as it was before the look.
    pub fn look(&mut self, storage: &dyn SessionStorage, path: &Path, slice: Slice) -> Result<Changes> {
        self.look_into(storage, path, slice, Buffer::default())
    }

    /// [Looks](Self::look), reading into memory that an [earlier look](Changes::into_buffer) at this or another file had.
    ///
    /// # Errors
    /// Those of [`look`](Self::look); the memory is lost then.
    pub fn look_into(
        &mut self,
        storage: &dyn SessionStorage,
        path: &Path,
        slice: Slice,
        buffer: Buffer,
    ) -> Result<Changes> {
        match storage.stat(path)? {
            None => Ok(self.missing(buffer)),
            Some(stat) if self.has_seen(&stat, slice) => Ok(Changes::nothing(Transition::Unchanged, buffer)),
            Some(_) => match storage.open_reader(path) {
                Ok(file) => self.read(file, path, slice, buffer),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(self.missing(buffer)),
                Err(error) => Err(error),
            },
        }
    }

    fn missing(&self, buffer: Buffer) -> Changes {
        let seen_before = self.position.identity.is_some();
        Changes::nothing(if seen_before { Transition::Deleted } else { Transition::NotYet }, buffer)
    }

    /// Whether a look at a file of which this is known would find nothing, so that it can be left out.
    pub fn has_seen(&self, stat: &Stat, slice: Slice) -> bool {
        let satisfied = |seen: &Seen| {
            let last_line = slice.last_line == LastLine::Wait || seen.last_line_taken;
            seen.is_still(stat) && (last_line || stat.len == self.position.offset)
        };
        self.position.identity == Some(stat.identity) && self.position.seen.as_ref().is_some_and(satisfied)
    }

    fn read(&mut self, file: Box<dyn StorageReader>, path: &Path, slice: Slice, mut buffer: Buffer) -> Result<Changes> {
        let stat = file.stat()?;
        let open = self.open.take().filter(|open| self.position.offset + open.len() <= stat.len);
        let derived = self.derived.take();
        let mut transition = self.transition(&stat);
        let from = |position, buffer| Reading::new(file.as_ref(), stat.len, slice, position, buffer);
        let mut reading = None;
        if transition == Transition::Continued {
            let mut on = from(self.position.clone(), std::mem::take(&mut buffer));
            if let Some(open) = open {
                on = on.behind(*open);
            }
            if !on.goes_on_without_end()? {
                if !self.position.stands_in(file.as_ref())? {
                    transition = Transition::Rewritten;
                } else if !on.piece_stands()? {
                    on = from(self.position.clone(), on.bytes);
                }
            }
            if transition == Transition::Continued {
                on.derived = derived.map(|ids| *ids);
                reading = Some(on);
            } else {
                buffer = on.bytes;
            }
        }
        let mut reading = reading.unwrap_or_else(|| from(self.position.anew(stat.identity), buffer));
        let has_more = reading.run()?;
        let open = reading.finish()?;
        let Reading { mut position, derived, records, bytes, mut defects, .. } = reading;
        position.seen = (!has_more).then(|| Seen::of(&stat, slice.last_line == LastLine::Take));
        (self.position, self.open, self.derived) = (position, open.map(Box::new), derived.map(Box::new));
        defects.name_file(path);
        Ok(Changes { transition, records, bytes, defects, has_more, path: path.to_owned(), file: Some(file) })
    }

    /// What the file is by what is known without reading it.
    fn transition(&self, stat: &Stat) -> Transition {
        match self.position.identity {
            None => Transition::Begun,
            Some(identity) if identity != stat.identity => Transition::Replaced,
            Some(_) if stat.len < self.position.offset => Transition::Truncated,
            Some(_) => Transition::Continued,
        }
    }
}
