//! One session file that others write to as well: locking, noticing, appending, rewriting `[W3, W4, W6, L7]`.
//!
//! Every operation goes the same way: take the lock, look whether the file is still what we know (size, time and identity;
//! when it grew, also its beginning and the end of what we know), take over what others did, write, remember. This module
//! writes lines that it is given; what they mean and which entries they are is the manager's.
//!
//! Invariant: bytes of the file are only ever added at the end, or replaced by a whole new file, or are the title slot.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::error::{Error, ErrorKind, Result};
use crate::session::Session;
use crate::storage::{
    FileIdentity, Holder, OpenMode, Replacement, SessionStorage, StorageLock, StorageReader, StorageWriter, read_range,
};

/// How long an operation waits for another process of ours.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often, and how far apart, a process must be seen with the file open before a rewrite is refused for it.
const LOOKS: usize = 4;
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);
/// How much of the beginning and of the end of what we know is compared when a file has grown.
const HEAD: u64 = 512;
const TAIL: usize = 256;
/// How many replaced files are kept open for what late writers add to them.
const REPLACED: usize = 4;
const COPY: u64 = 256 * 1024;

/// Whether a rewrite may go ahead while a process that is not ours has the file open for writing `[W6]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForeignWriters {
    /// Refuse, naming the process.
    #[default]
    Refuse,
    /// Go ahead: what it writes later through its open file may be lost.
    Override,
}

/// What looking at the file found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Noticed {
    /// The file is what it was.
    Nothing,
    /// Others changed it; their entries are in the session now.
    Changed,
    /// It has another path now, and may have been changed.
    Moved,
}

/// Finds a session file that has gone from its path: by identity while it has a name, else by session id.
pub(crate) type Find<'f> = &'f dyn Fn(Option<FileIdentity>) -> Result<Option<PathBuf>>;

/// A change of bytes: a range of the file and what stands there instead.
pub(crate) type Edit = (Range<u64>, Vec<u8>);

#[derive(Debug)]
pub(crate) struct Disk {
    storage: Arc<dyn SessionStorage>,
    path: PathBuf,
    lock_path: PathBuf,
    lock: Box<dyn StorageLock>,
    writer: Option<Box<dyn StorageWriter>>,
    known: Known,
    replaced: Vec<Replaced>,
}

/// What we know the file to be.
#[derive(Debug)]
struct Known {
    identity: FileIdentity,
    len: u64,
    modified: SystemTime,
    head: Vec<u8>,
    tail: Vec<u8>,
    /// Something went wrong or came between: the next look loads the file anew.
    doubtful: bool,
}

/// A file that a rewrite of ours replaced, still open: a process that had it open may go on writing to it.
#[derive(Debug)]
struct Replaced {
    file: Arc<dyn StorageReader>,
    merged: u64,
}

impl Disk {
    /// Takes charge of the file that `session` was read from.
    pub(crate) fn attach(storage: Arc<dyn SessionStorage>, lock_path: PathBuf, session: &Session) -> Result<Self> {
        let (path, known) = Known::of(session)?;
        if let Some(dir) = lock_path.parent() {
            storage.ensure_dir(dir)?;
        }
        let holder = format!("process {}", std::process::id());
        let lock = storage.open_lock(&lock_path, &holder)?;
        Ok(Self { storage, path, lock_path, lock, writer: None, known, replaced: Vec::new() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether anything was written through this, so that closing has something to do.
    pub(crate) fn was_written(&self) -> bool {
        self.writer.is_some() || !self.replaced.is_empty()
    }

    /// Does something while holding the session's lock.
    ///
    /// # Errors
    /// [`ErrorKind::Locked`], naming the holder, when another process of ours keeps it longer than two seconds.
    pub(crate) fn locked<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.lock.acquire(PATIENCE).map_err(|error| error.at(&self.path))?;
        let done = work(self);
        self.lock.release();
        done
    }

    /// Looks at the file and takes over what others did. With the lock held.
    ///
    /// # Errors
    /// [`ErrorKind::Deleted`] when the file is gone; [`ErrorKind::Changed`] when the path holds something else now. The
    /// session stays as it is.
    pub(crate) fn refresh(&mut self, session: &mut Session, find: Find<'_>) -> Result<Noticed> {
        let noticed = self.look(session, find)?;
        let merged = self.merge_replaced()?;
        if merged {
            self.load_anew(session)?;
        }
        Ok(if merged && noticed == Noticed::Nothing { Noticed::Changed } else { noticed })
    }

    fn look(&mut self, session: &mut Session, find: Find<'_>) -> Result<Noticed> {
        let mut moved = false;
        let mut found = self.storage.stat(&self.path)?;
        if found.is_none() {
            self.follow(session, find)?;
            moved = true;
            found = self.storage.stat(&self.path)?;
        }
        let stat = found.ok_or_else(|| self.deleted())?;
        let changed = if moved { Noticed::Moved } else { Noticed::Changed };
        let same_file = stat.identity == self.known.identity && !self.known.doubtful;
        if same_file && stat.len == self.known.len && stat.modified == self.known.modified {
            return Ok(if moved { changed } else { Noticed::Nothing });
        }
        if same_file && stat.len >= self.known.len && self.is_continued(session)? {
            if stat.len == self.known.len {
                self.known.modified = stat.modified;
                return Ok(if moved { changed } else { Noticed::Nothing });
            }
            // A last line that had no line feed may have grown: then it is no longer the line that was read.
            if session.loaded.complete == session.loaded.len {
                self.read_on(session)?;
                return Ok(changed);
            }
        }
        self.load_anew(session)?;
        Ok(changed)
    }

    /// Whether the file still begins and goes on as we know it.
    fn is_continued(&self, session: &Session) -> Result<bool> {
        let Some(origin) = &session.origin else { return Ok(false) };
        let head = read_range(origin.file.as_ref(), 0, self.known.head.len() as u64)?;
        let tail_start = self.known.len - self.known.tail.len() as u64;
        Ok(head == self.known.head
            && read_range(origin.file.as_ref(), tail_start, self.known.tail.len() as u64)? == self.known.tail)
    }

    fn read_on(&mut self, session: &mut Session) -> Result<()> {
        if let Some(origin) = session.origin.clone() {
            session.loaded.read_on(origin.file.as_ref())?;
            session.loaded.defects.name_file(&self.path);
        }
        self.known = Known::of(session)?.1;
        Ok(())
    }

    /// Loads the file as it is now, and puts what this manager appended over it.
    pub(crate) fn load_anew(&mut self, session: &mut Session) -> Result<()> {
        let fresh = Session::read_from(Arc::clone(&self.storage), &self.path)?;
        let id = |session: &Session| session.header().map(|header| header.id().clone());
        if fresh.header().is_none() || id(&fresh) != id(session) {
            let message = "another program put something else in place of this session; recover() keeps that beside it";
            return Err(Error::new(ErrorKind::Changed, message).at(&self.path));
        }
        session.take_over(fresh);
        self.writer = None;
        self.known = Known::of(session)?.1;
        Ok(())
    }

    /// The path is gone: where is the file?
    fn follow(&mut self, session: &mut Session, find: Find<'_>) -> Result<()> {
        let still_named = match &session.origin {
            Some(origin) => origin.file.stat()?.links > 0,
            None => false,
        };
        let found = find(still_named.then_some(self.known.identity))?.ok_or_else(|| self.deleted())?;
        tracing::info!(from = %self.path.display(), to = %found.display(), "followed a session that was moved");
        self.path.clone_from(&found);
        if let Some(origin) = &mut session.origin {
            origin.path = found;
        }
        Ok(())
    }

    fn deleted(&self) -> Error {
        let message = "the session file was deleted; ensure_on_disk() writes it again from what is in memory";
        Error::new(ErrorKind::Deleted, message).at(&self.path)
    }

    /// Writes lines at the end, in one call to the kernel `[W3]`, each on a line of its own `[L7]`. With the lock held, after
    /// [`refresh`](Self::refresh). When this returns, killing the process loses nothing of them.
    pub(crate) fn append(&mut self, session: &mut Session, lines: &[Vec<u8>]) -> Result<()> {
        let mut bytes = Vec::with_capacity(lines.iter().map(|line| line.len() + 1).sum::<usize>() + 1);
        let ends_mid_line = self.known.tail.last().is_some_and(|last| *last != b'\n');
        if ends_mid_line {
            bytes.push(b'\n');
        }
        for line in lines {
            bytes.extend_from_slice(line);
            bytes.push(b'\n');
        }
        let written = self.write(&bytes);
        if let Err(error) = written {
            // Nothing is known of how much arrived. The writer is done for.
            self.known.doubtful = true;
            self.writer = None;
            return Err(error);
        }
        if !self.known.doubtful {
            session.loaded.complete = self.known.len;
            session.loaded.len = self.known.len;
            session.loaded.complete_lines += lines.len() as u64 + u64::from(ends_mid_line);
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => none.insert(self.storage.open_writer(&self.path, OpenMode::Append)?),
        };
        writer.write(bytes)?;
        let stat = writer.stat()?;
        self.known.len += bytes.len() as u64;
        self.known.modified = stat.modified;
        self.known.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(TAIL)..]);
        self.known.tail.drain(..self.known.tail.len().saturating_sub(TAIL));
        // Somebody who does not lock wrote in the same moment, or replaced the file: look closely next time.
        self.known.doubtful |= stat.len != self.known.len || stat.identity != self.known.identity;
        Ok(())
    }

    /// Returns when everything appended so far is on the medium `[W3]`.
    pub(crate) fn sync(&mut self) -> Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let synced = writer.flush().and_then(|()| writer.fsync());
        if synced.is_err() {
            self.writer = None;
            self.known.doubtful = true;
        }
        synced
    }

    /// The writer, for syncing elsewhere; [`put_back`](Self::put_back) returns it. Appending meanwhile opens another.
    #[cfg(feature = "tokio")]
    pub(crate) fn take_writer(&mut self) -> Option<Box<dyn StorageWriter>> {
        self.writer.take()
    }

    /// Takes a writer back that was synced elsewhere; one that failed is given up, as in [`sync`](Self::sync).
    #[cfg(feature = "tokio")]
    pub(crate) fn put_back(&mut self, writer: Box<dyn StorageWriter>, synced: bool) {
        if synced {
            self.writer = Some(writer);
        } else {
            self.known.doubtful = true;
        }
    }

    /// Returns when the file's name is on the medium.
    pub(crate) fn sync_name(&self) -> Result<()> {
        self.path.parent().map_or(Ok(()), |dir| self.storage.sync_dir(dir))
    }

    /// Replaces the file by one in which the given ranges are changed and every other byte is as it was `[W4, F6]`. With the
    /// lock held, after [`refresh`](Self::refresh). A crash at any instant leaves the old or the new file, whole; when this
    /// returns the new one survives a power cut. The modification time stays `[F6a]`.
    ///
    /// `edits` come in the order of their ranges. The session still reads the old file afterwards;
    /// [`load_anew`](Self::load_anew) takes it to the new one.
    ///
    /// # Errors
    /// [`ErrorKind::HeldElsewhere`], naming the process, when one that is not ours has the file open for writing.
    pub(crate) fn rewrite(
        &mut self,
        session: &Session,
        edits: &mut dyn Iterator<Item = Result<Edit>>,
        foreign: ForeignWriters,
    ) -> Result<()> {
        self.refuse_foreign_writers(foreign)?;
        let Some(origin) = session.origin.clone() else { return Err(self.deleted()) };
        let file = origin.file;
        let mut new = Replacement::of(self.storage.as_ref(), &self.path)?;
        let mut at = 0;
        for edit in edits {
            let (range, with) = edit?;
            copy_range(file.as_ref(), at..range.start, &mut new)?;
            new.write(&with)?;
            at = range.end;
        }
        // What somebody appends meanwhile comes along.
        let merged = loop {
            let stat = file.stat()?;
            if stat.len <= at {
                break at;
            }
            copy_range(file.as_ref(), at..stat.len, &mut new)?;
            at = stat.len;
        };
        new.set_modified(self.known.modified)?;
        new.commit()?;
        self.writer = None;
        self.known.doubtful = true;
        self.replaced.push(Replaced { file, merged });
        if self.replaced.len() > REPLACED {
            self.replaced.remove(0);
        }
        Ok(())
    }

    fn refuse_foreign_writers(&self, foreign: ForeignWriters) -> Result<()> {
        if foreign == ForeignWriters::Override {
            return Ok(());
        }
        // A process that starts another has, for the instant between fork and exec, a child with all its files open: whoever
        // is still there when looked at again is meant.
        let mut looks = 0;
        loop {
            let writers = self.storage.writers_of(&self.path, &self.lock_path)?;
            let Some(holder) = writers.iter().find(|holder| !holder.ours) else { return Ok(()) };
            looks += 1;
            if looks == LOOKS {
                return Err(held_elsewhere(holder, &self.path));
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }

    /// Writes the title slot in place, keeping the modification time `[F8, F6a]`. With the lock held.
    pub(crate) fn write_slot(&mut self, session: &mut Session, offset: u64, slot: &[u8]) -> Result<()> {
        let modified = self.known.modified;
        self.storage.write_at(&self.path, offset, slot)?;
        self.storage.set_modified(&self.path, modified)?;
        self.load_anew(session)
    }

    /// Renames the file, replacing nothing. With the lock held.
    pub(crate) fn rename(&mut self, session: &mut Session, to: &Path) -> Result<()> {
        if self.storage.exists(to)? {
            return Err(Error::new(ErrorKind::AlreadyExists, "a file of this name is there already").at(to));
        }
        self.storage.rename(&self.path, to)?;
        for dir in [to.parent(), self.path.parent()].into_iter().flatten() {
            self.storage.sync_dir(dir)?;
        }
        to.clone_into(&mut self.path);
        self.writer = None;
        // Across file systems it is another file now.
        self.load_anew(session)
    }

    /// What late writers added to files that we replaced, appended to the file that took their place. True when there was
    /// anything.
    fn merge_replaced(&mut self) -> Result<bool> {
        let mut late = Vec::new();
        for replaced in &mut self.replaced {
            let len = replaced.file.stat()?.len;
            if len <= replaced.merged {
                continue;
            }
            let bytes = read_range(replaced.file.as_ref(), replaced.merged, len - replaced.merged)?;
            // A line that is still being written comes later.
            let whole = memchr::memrchr(b'\n', &bytes).map_or(0, |end| end + 1);
            replaced.merged += whole as u64;
            late.extend_from_slice(&bytes[..whole]);
        }
        if late.is_empty() {
            return Ok(false);
        }
        if self.known.tail.last().is_some_and(|last| *last != b'\n') {
            late.insert(0, b'\n');
        }
        self.write(&late)?;
        self.known.doubtful = true;
        Ok(true)
    }
}

pub(crate) fn held_elsewhere(holder: &Holder, path: &Path) -> Error {
    let message = format!("{holder} has the session open for writing; end it first, or force the rewrite");
    Error::new(ErrorKind::HeldElsewhere, message).at(path)
}

impl Known {
    /// What a session that was just read tells of its file.
    fn of(session: &Session) -> Result<(PathBuf, Self)> {
        let Some(origin) = &session.origin else {
            return Err(Error::new(ErrorKind::InvalidInput, "the session has no file yet"));
        };
        let file = origin.file.as_ref();
        let (stat, len) = (file.stat()?, session.loaded.len);
        let head = read_range(file, 0, len.min(HEAD))?;
        let tail_len = len.min(TAIL as u64);
        let tail = read_range(file, len - tail_len, tail_len)?;
        // A file that grew while it was read has another length than what was read: the next look will see that.
        let known = Self { identity: stat.identity, len, modified: stat.modified, head, tail, doubtful: false };
        Ok((origin.path.clone(), known))
    }
}

/// Copies a range of the file into its replacement, a piece at a time.
fn copy_range<S: SessionStorage + ?Sized>(
    file: &dyn StorageReader,
    range: Range<u64>,
    new: &mut Replacement<'_, S>,
) -> Result<()> {
    let mut at = range.start;
    while at < range.end {
        let piece = read_range(file, at, (range.end - at).min(COPY))?;
        if piece.is_empty() {
            return Err(Error::new(
                ErrorKind::Changed,
                "the file was cut short while it was copied; nothing was replaced",
            ));
        }
        new.write(&piece)?;
        at += piece.len() as u64;
    }
    Ok(())
}

/// Writes a session file that does not exist yet, whole: the bytes of `old` (a deleted file that is still open), then lines.
/// A crash leaves no file or the whole one; when this returns it survives a power cut.
pub(crate) fn write_whole(
    storage: &dyn SessionStorage,
    path: &Path,
    old: Option<(&dyn StorageReader, u64)>,
    lines: &[Vec<u8>],
) -> Result<()> {
    if let Some(dir) = path.parent() {
        storage.ensure_dir(dir)?;
    }
    if storage.stat(path)?.is_some_and(|stat| stat.len > 0) {
        return Err(Error::new(
            ErrorKind::AlreadyExists,
            "another program wrote a file of this name; it is left alone",
        )
        .at(path));
    }
    let mut new = Replacement::of(storage, path)?;
    if let Some((file, len)) = old {
        copy_range(file, 0..len, &mut new)?;
        if len > 0 && read_range(file, len - 1, 1)? != b"\n" {
            new.write(b"\n")?;
        }
    }
    for line in lines {
        let mut bytes = line.clone();
        bytes.push(b'\n');
        new.write(&bytes)?;
    }
    new.commit()
}
