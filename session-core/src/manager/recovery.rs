//! Getting to the disk: the first write, flushing, recovering, closing `[W2, W3, W5, W5a]`.

use std::sync::Arc;

use super::{Notice, SessionManager, State, WhatIsThere, lines_to_write, range_in_file};
use crate::disk::{Disk, held_elsewhere, write_whole};
use crate::error::{Error, ErrorKind, Result};
use crate::log::Index;
use crate::payload::Payloads;
use crate::session::Session;

impl SessionManager {
    /// Makes sure that the session's file exists and holds everything: writes a session that was not written yet, and one
    /// that was deleted, whole `[W2, W6]`. When this returns it survives a power cut.
    pub fn ensure_on_disk(&mut self) -> Result<()> {
        self.check_writable()?;
        match self.state {
            State::NotYet(_) => self.write_first().map_err(|error| self.keep(error)),
            State::OnDisk(_) if self.trouble.is_some() => self.recover(),
            _ => Ok(()),
        }
    }

    /// Writes a session that is not on disk, if it is time to `[W2]`.
    pub(super) fn write_if_due(&mut self) -> Result<()> {
        match self.state {
            State::NotYet(_) if self.has_assistant => self.write_first(),
            _ => Ok(()),
        }
    }

    /// Writes the whole session for the first time.
    pub(super) fn write_first(&mut self) -> Result<()> {
        if self.state_is(WhatIsThere::Invalid) {
            self.keep_invalid()?;
        }
        let mut lines = vec![self.header().raw().to_vec()];
        let entries: Vec<Index> = self.session.log().indices().collect();
        lines.extend(lines_to_write(&self.session, &entries, &self.host.blobs())?);
        match write_whole(self.host.storage.as_ref(), &self.file, None, &lines) {
            // An earlier try put the file in place and failed afterwards.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && self.is_own_file() => {
                self.attach()?;
                self.on_disk(|manager, disk| {
                    manager.write_unwritten(disk)?;
                    disk.sync_name()
                })
            }
            written => written.and_then(|()| self.attach()),
        }
    }

    /// Whether this session's file stands at its path already: nobody else knows its id.
    fn is_own_file(&self) -> bool {
        let read = Session::read_from(Arc::clone(&self.host.storage), &self.file);
        read.is_ok_and(|session| session.header().is_some_and(|header| header.id() == self.id()))
    }

    fn state_is(&self, what: WhatIsThere) -> bool {
        matches!(self.state, State::NotYet(there) if there == what)
    }

    /// Renames what stands in the session's place, so that nothing is destroyed `[L3]`.
    ///
    /// # Errors
    /// [`ErrorKind::HeldElsewhere`] while any other process has it open for writing.
    fn keep_invalid(&mut self) -> Result<()> {
        let storage = self.host.storage.as_ref();
        let held = storage.writers_of(&self.file, &self.lock_path())?;
        if let Some(holder) = held.first() {
            return Err(held_elsewhere(holder, &self.file));
        }
        let stamp = self.host.clock.now().file_name_form();
        let name = self.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut kept = self.file.with_file_name(format!("{name}.invalid-{stamp}"));
        let mut n = 1;
        while storage.exists(&kept)? {
            kept = self.file.with_file_name(format!("{name}.invalid-{stamp}-{n}"));
            n += 1;
        }
        storage.rename(&self.file, &kept)?;
        if let Some(dir) = self.file.parent() {
            storage.sync_dir(dir)?;
        }
        self.state = State::NotYet(WhatIsThere::Nothing);
        self.notices.push(Notice::InvalidKept(kept));
        Ok(())
    }

    /// Returns when everything appended so far is on the medium: a power cut after it loses nothing `[W3]`. A session that is
    /// not on disk yet has nothing to flush.
    pub fn flush(&mut self) -> Result<()> {
        self.hand_over()?;
        let synced = match &mut self.state {
            State::OnDisk(disk) => disk.sync(),
            _ => Ok(()),
        };
        synced.map_err(|error| self.keep(error))
    }

    /// Hands what is only in memory to the kernel, if the session is on disk.
    pub(super) fn hand_over(&mut self) -> Result<()> {
        if let Some(trouble) = &self.trouble {
            return Err(trouble.clone());
        }
        if self.is_on_disk() && !self.session.unwritten_entries().is_empty() {
            self.on_disk(Self::write_unwritten).map_err(|error| self.keep(error))?;
        }
        Ok(())
    }

    /// Writes what is only in memory, in order and once, and clears the error `[W5a]`: after a failed write on a new line
    /// (nothing is truncated), after a failed sync or a deletion as a new file, whole.
    ///
    /// # Errors
    /// What still stands in the way; then nothing is lost and it can be called again.
    pub fn recover(&mut self) -> Result<()> {
        if matches!(self.state, State::Closed) {
            return self.check_writable();
        }
        let Some(trouble) = self.trouble.take() else { return self.flush() };
        let recovered = match (trouble.kind(), &self.state) {
            (_, State::NotYet(_)) => self.write_if_due(),
            (ErrorKind::Deleted, State::OnDisk(_)) => self.write_again(WhatIsThere::Nothing),
            (ErrorKind::Changed, State::OnDisk(_)) => self.write_again(WhatIsThere::Invalid),
            (_, State::OnDisk(_)) => self.write_missing(),
            _ => Ok(()),
        };
        if recovered.is_err() {
            self.trouble = Some(trouble);
        }
        recovered
    }

    /// Loads what arrived, rewrites it as a new file when the medium is in doubt, and appends what is missing.
    fn write_missing(&mut self) -> Result<()> {
        let State::OnDisk(mut disk) = std::mem::replace(&mut self.state, State::Closed) else { return Ok(()) };
        let done = disk.locked(|disk| {
            disk.load_anew(&mut self.session)?;
            // After a failed sync the kernel may have dropped pages of the old file: only a new one is sure.
            disk.rewrite(&self.session, &mut std::iter::empty(), self.foreign)?;
            disk.load_anew(&mut self.session)?;
            self.write_unwritten(disk)?;
            disk.sync()
        });
        self.state = State::OnDisk(disk);
        done
    }

    /// Writes the session whole where its file was: what the old file held, then what is only in memory.
    fn write_again(&mut self, there: WhatIsThere) -> Result<()> {
        if there == WhatIsThere::Invalid {
            let state = std::mem::replace(&mut self.state, State::NotYet(there));
            if let Err(error) = self.keep_invalid() {
                self.state = state;
                return Err(error);
            }
            self.state = state;
        }
        let lines = lines_to_write(&self.session, &self.session.unwritten_entries(), &self.host.blobs())?;
        let origin = self.session.origin.clone();
        let old = origin.as_ref().map(|origin| (origin.file.as_ref(), self.session.loaded.len));
        write_whole(self.host.storage.as_ref(), &self.file, old, &lines)?;
        self.attach()?;
        self.set_pointer();
        Ok(())
    }

    /// Rewrites a file of an older version as what it reads as `[L4–L6]`. With the lock held.
    pub(super) fn rewrite_migrated(&mut self, disk: &mut Disk) -> Result<()> {
        self.rewrite_with(disk, self.header().migrated(), |entry, payloads, _| payloads.line(entry).map(Some))?;
        disk.load_anew(&mut self.session)?;
        self.migration_owed = false;
        Ok(())
    }

    /// Replaces the file by one with another header line, and other lines for those entries for which `line` gives one.
    /// Every other byte stays `[F6, L1b]`. With the lock held; the session still reads the old file afterwards.
    pub(super) fn rewrite_with(
        &self,
        disk: &mut Disk,
        header: Vec<u8>,
        mut line: impl FnMut(Index, &mut Payloads<'_>, &Session) -> Result<Option<Vec<u8>>>,
    ) -> Result<()> {
        let session = &self.session;
        let Some((_, at)) = session.loaded.header_line else { return Err(only_on_disk().at(&self.file)) };
        let header_edit = (at..at + self.header().raw().len() as u64, header);
        let mut payloads = session.payloads();
        // Entries that were read from the file stand in the log in the order of the file.
        let entry_edits = session.log().indices().filter_map(|entry| {
            let range = range_in_file(session, entry)?;
            match line(entry, &mut payloads, session) {
                Ok(line) => line.map(|line| Ok((range, line))),
                Err(error) => Some(Err(error)),
            }
        });
        disk.rewrite(session, &mut std::iter::once(Ok(header_edit)).chain(entry_edits), self.foreign)
    }

    /// Writes and syncs what is left, gives the file up and reports the first real error `[W5]`. Appending is no longer
    /// possible; reading is. A session that is not on disk yet stays unwritten.
    pub fn close(&mut self) -> Result<()> {
        if matches!(self.state, State::Closed) {
            return Ok(());
        }
        let mut first = self.trouble.clone().map_or(Ok(()), Err);
        if let State::OnDisk(_) = self.state
            && self.header().version().is_writable()
            && self.has_business()
        {
            let written = self.on_disk(Self::write_unwritten).and_then(|()| match &mut self.state {
                State::OnDisk(disk) => disk.sync(),
                _ => Ok(()),
            });
            first = first.and(written);
        }
        self.state = State::Closed;
        first
    }

    /// Whether closing has anything to do at the file: only a session that was written to has.
    fn has_business(&self) -> bool {
        match &self.state {
            State::OnDisk(disk) => disk.was_written() || !self.session.unwritten_entries().is_empty(),
            _ => false,
        }
    }
}

impl Drop for SessionManager {
    fn drop(&mut self) {
        let owed = matches!(self.state, State::OnDisk(_)) && !self.session.unwritten_entries().is_empty();
        if owed && let Err(error) = self.close() {
            tracing::error!(file = %self.file.display(), %error, "entries of a dropped session are not on disk");
        }
    }
}

/// An error for what only a session on disk can do.
pub(super) fn only_on_disk() -> Error {
    Error::new(ErrorKind::Unsupported, "only a session on disk can do this")
}
