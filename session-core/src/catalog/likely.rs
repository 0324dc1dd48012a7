//! Which session to continue with, decided without side effects `[R5]`.

use std::path::{Path, PathBuf};

use super::cwd::SameCwd;
use super::files::{Files, Level};
use super::{Catalog, ListDepth, Scan};
use crate::catalog::cache::Cache;
use crate::catalog::files::SessionFile;
use crate::error::Result;
use crate::pointer::Pointers;
use crate::storage::FileKind;
use crate::terminal::TerminalId;

/// The session to continue with, and why that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Likely {
    session: Option<PathBuf>,
    reason: LikelyReason,
}

/// Why this session and no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LikelyReason {
    /// The terminal's pointer names it.
    Pointer,
    /// The terminal's pointer says that a new session was begun here and is not on disk yet: a new one `[P2]`.
    FreshPointer,
    /// No pointer is to be followed; it is the most recent session of the working directory.
    MostRecent,
    /// The working directory has no session: a new one.
    Nothing,
}

impl Likely {
    /// The session file, which existed a moment ago; none when a new session is to be made.
    pub fn session(&self) -> Option<&Path> {
        self.session.as_deref()
    }

    /// Why.
    pub fn reason(&self) -> LikelyReason {
        self.reason
    }
}

impl Catalog {
    /// The session that continuing in `cwd` at `terminal` means `[R5]`: the one that the terminal's pointer names, if its
    /// working directory is this one and the file begins with a valid header; a new one if the pointer is `fresh` and its
    /// file does not exist yet; else the most recent one of the working directory, in `dir` or else in all its places
    /// `[D4]`; else a new one.
    ///
    /// Writes nothing: continuing decides by this, then sets the pointer. A pointer that can't be read counts as none.
    ///
    /// # Errors
    /// When a session directory can't be read, or `cwd` is no absolute path.
    pub fn most_likely(&self, cwd: &Path, dir: Option<&Path>, terminal: Option<&TerminalId>) -> Result<Likely> {
        let same = SameCwd::of(&*self.storage, cwd)?;
        if let Some(likely) = terminal.and_then(|terminal| self.pointed_to(&same, terminal)) {
            return Ok(likely);
        }
        let dirs = match dir {
            Some(dir) => vec![dir.to_path_buf()],
            None => self.dirs_of(cwd, &same)?,
        };
        let files = Files::of(&*self.storage, dirs, Level::In)?;
        let session = self.newest(&files.found, Some(&same));
        let reason = if session.is_some() { LikelyReason::MostRecent } else { LikelyReason::Nothing };
        Ok(Likely { session, reason })
    }

    fn pointed_to(&self, same: &SameCwd<'_>, terminal: &TerminalId) -> Option<Likely> {
        let pointers = Pointers::new(&*self.storage, self.agent.terminal_sessions());
        let pointer = match pointers.get(terminal) {
            Ok(pointer) => pointer?,
            Err(error) => {
                tracing::warn!(%error, "the terminal's pointer could not be read; continuing without it");
                return None;
            }
        };
        let path = pointer.session_file();
        if !path.is_absolute() || !same.is(pointer.cwd().to_str()) {
            return None;
        }
        match self.storage.stat(path) {
            Ok(Some(stat)) if stat.kind == FileKind::File => {
                let scan =
                    Scan { storage: &self.storage, cache: &Cache::default(), cwd: None, depth: ListDepth::Header };
                let scanned = scan.file(&SessionFile { path: path.into(), stat });
                let session = scanned.found.is_ok().then(|| path.to_path_buf())?;
                Some(Likely { session: Some(session), reason: LikelyReason::Pointer })
            }
            Ok(None) if pointer.is_fresh() => Some(Likely { session: None, reason: LikelyReason::FreshPointer }),
            _ => None,
        }
    }
}
