//! Making, opening and continuing sessions `[W1, L3, L4, R5]`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Host, Notice, SessionManager, State, WhatIsThere};
use crate::catalog::Catalog;
use crate::disk::ForeignWriters;
use crate::error::{Error, ErrorKind, Result};
use crate::header::Header;
use crate::layout::session_file_name;
use crate::session::Session;
use crate::storage::MemorySessionStorage;

/// A new session's id, time and header.
pub(super) struct NewHeader {
    pub(super) header: Header,
    pub(super) file_name: String,
    pub(super) cwd: PathBuf,
}

impl NewHeader {
    /// `extra`: further header fields in order, texts `[F8b]`.
    pub(super) fn make(host: &Host, cwd: &Path, extra: &[(&str, &str)]) -> Result<Self> {
        let now = host.clock.now();
        let id = host.ids.session_id(now);
        let Some(text) = cwd.to_str() else {
            let message = "a working directory whose name is no UTF-8 can't be written into a session";
            return Err(Error::new(ErrorKind::InvalidInput, message).at(cwd));
        };
        let line = Header::compose(&id, now, text, extra);
        let file_name = session_file_name(now, &id)?;
        let Some(header) = Header::parse(&line) else { unreachable!("a composed header is one") };
        Ok(Self { header, file_name, cwd: cwd.to_owned() })
    }
}

impl SessionManager {
    /// A new session for a working directory, in `dir` or in the directory of its sessions `[D3, D3a]`. Nothing is written
    /// before the first assistant message `[W2]`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for a relative working directory or one with a NUL; [`ErrorKind::NotAFile`] when `dir` is
    /// a file.
    pub fn create(host: &Host, cwd: &Path, dir: Option<&Path>) -> Result<Self> {
        let manager = Self::new_in(host, cwd, dir, &[])?;
        Ok(manager.pointing())
    }

    /// A new session, not yet this terminal's.
    pub(super) fn new_in(host: &Host, cwd: &Path, dir: Option<&Path>, extra: &[(&str, &str)]) -> Result<Self> {
        // Also checks the working directory.
        let default = host.agent.session_dir(cwd, &host.environment, host.storage.as_ref())?;
        let dir = dir.map_or(default, Path::to_owned);
        if let Some(stat) = host.storage.stat(&dir)?
            && stat.kind != crate::storage::FileKind::Directory
        {
            return Err(Error::new(ErrorKind::NotAFile, "the session directory is a file").at(dir));
        }
        let new = NewHeader::make(host, cwd, extra)?;
        let file = dir.join(&new.file_name);
        Ok(Self::around(host, Session::unwritten(new.header), file, dir, State::NotYet(WhatIsThere::Nothing)))
    }

    /// A session that is never written. Locks, recovery and pointers do nothing; what reads and writes works in memory.
    pub fn in_memory(host: &Host, cwd: &Path) -> Result<Self> {
        let host = host.clone().with_storage(Arc::new(MemorySessionStorage::new())).with_terminal(None);
        let mut manager = Self::new_in(&host, cwd, None, &[])?;
        manager.state = State::InMemory;
        Ok(manager)
    }

    /// Opens a session file: load, migrate, index `[L4]`. A path that does not exist, or holds nothing valid, becomes a new
    /// session at exactly that path; what stands there is kept `[L3]`. A relative path is one from the environment's working
    /// directory. `dir`: where forks and branches go; the file's own
    /// directory unless given.
    ///
    /// # Errors
    /// Only input and output fail ([`ErrorKind::NotAFile`] for a directory or device); what is there is left as it is.
    /// What did not make opening fail is told by [`take_notices`](Self::take_notices).
    pub fn open(host: &Host, file: &Path, dir: Option<&Path>) -> Result<Self> {
        Self::open_at(host, file, dir, None).map(Self::pointing)
    }

    /// Opens a session file that is there; makes none, whatever becomes of it meanwhile. For programs that change a session and
    /// begin none: who deletes it just before them means it.
    ///
    /// # Errors
    /// Those of [`open`](Self::open), and [`ErrorKind::NotFound`] for a missing file, [`ErrorKind::InvalidInput`] for one that
    /// holds no session.
    pub fn open_existing(host: &Host, file: &Path, dir: Option<&Path>) -> Result<Self> {
        let file = host.environment.absolute(file)?;
        let session = Session::read_from(Arc::clone(&host.storage), &file)?;
        if session.header().is_none() {
            return Err(Error::new(ErrorKind::InvalidInput, "this file holds no session").at(&*file));
        }
        let dir = dir.or(file.parent()).map(Path::to_owned).unwrap_or_default();
        Self::open_valid(host, session, &file, dir).map(Self::pointing)
    }

    /// Continues where this terminal, or else this working directory, left off `[R5]`: the session of the terminal's pointer,
    /// else the most recent one, else a new one in `dir` or in the directory of its sessions. The terminal's pointer is then
    /// set to it. [`Catalog::most_likely`] decides the same without side effects.
    ///
    /// # Errors
    /// As [`open`](Self::open) and [`create`](Self::create).
    pub fn continue_recent(host: &Host, cwd: &Path, dir: Option<&Path>) -> Result<Self> {
        let catalog =
            Catalog::new(host.agent.clone(), host.environment.clone()).with_storage(Arc::clone(&host.storage));
        let likely = catalog.most_likely(cwd, dir, host.terminal.as_ref())?;
        match likely.session() {
            Some(file) => Self::open_at(host, file, dir, Some(cwd)).map(Self::pointing),
            None => Self::create(host, cwd, dir),
        }
    }

    /// Opens; a new session there is of the working directory `cwd`, else of the process's.
    pub(super) fn open_at(host: &Host, file: &Path, dir: Option<&Path>, cwd: Option<&Path>) -> Result<Self> {
        // As it is meant now: whoever opens a session may change its own directory later.
        let absolute = host.environment.absolute(file)?;
        let file = absolute.as_ref();
        let own_dir = file.parent().map(Path::to_owned).unwrap_or_default();
        let dir = dir.map_or(own_dir, Path::to_owned);
        let read = match Session::read_from(Arc::clone(&host.storage), file) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            read => Some(read?),
        };
        match read {
            Some(session) if session.header().is_some() => Self::open_valid(host, session, file, dir),
            read => {
                let there = match read {
                    Some(session) if session.loaded.len > 0 => WhatIsThere::Invalid,
                    _ => WhatIsThere::Nothing,
                };
                Self::new_at(host, file, dir, cwd, there)
            }
        }
    }

    fn open_valid(host: &Host, session: Session, file: &Path, dir: PathBuf) -> Result<Self> {
        let mut manager = Self::around(host, session, file.to_owned(), dir, State::Closed);
        manager.migration_owed = manager.session.loaded.migration.is_needed();
        let disk = crate::disk::Disk::attach(Arc::clone(&host.storage), manager.lock_path(), &manager.session);
        manager.state = State::OnDisk(Box::new(disk?));
        manager.has_assistant = true;
        if manager.migration_owed
            && let Err(error) = manager.on_disk(|_, _| Ok(()))
        {
            tracing::warn!(%error, "the session's older format was not rewritten yet");
            manager.notices.push(Notice::MigrationPostponed(error));
        }
        Ok(manager)
    }

    /// A new session at exactly this path `[L3]`.
    fn new_at(host: &Host, file: &Path, dir: PathBuf, cwd: Option<&Path>, there: WhatIsThere) -> Result<Self> {
        let cwd = match cwd {
            Some(cwd) => cwd.to_owned(),
            None => host.environment.cwd()?.to_owned(),
        };
        let new = NewHeader::make(host, &cwd, &[])?;
        let mut manager =
            Self::around(host, Session::unwritten(new.header), file.to_owned(), dir, State::NotYet(there));
        match there {
            WhatIsThere::Nothing => manager.write_first()?,
            WhatIsThere::Invalid => manager.notices.push(Notice::InvalidWillBeKept(file.to_owned())),
        }
        Ok(manager)
    }

    pub(super) fn around(host: &Host, session: Session, file: PathBuf, dir: PathBuf, state: State) -> Self {
        let cwd = session.header().and_then(Header::cwd).filter(|cwd| !cwd.is_empty());
        Self {
            host: host.clone(),
            session: session.with_blobs(host.blobs()),
            file,
            dir,
            cwd: cwd.map(PathBuf::from),
            state,
            trouble: None,
            migration_owed: false,
            foreign: ForeignWriters::default(),
            has_assistant: false,
            notices: Vec::new(),
        }
    }

    /// The same, being this terminal's session now `[P3]`.
    pub(super) fn pointing(mut self) -> Self {
        self.set_pointer();
        self
    }
}
