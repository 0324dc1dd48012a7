//! Another place or another file `[T9, T9a, L3]`: moving to a new working directory, a new session, another file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{SessionManager, State};
use crate::artifacts::{ArtifactId, Artifacts};
use crate::disk::Disk;
use crate::error::{Error, ErrorKind, Result};
use crate::header::Header;
use crate::json::quote;
use crate::layout::check_cwd;
use crate::splice::Change;

impl SessionManager {
    /// Moves the session to the directory of another working directory's sessions: file, artifacts, header `cwd`, terminal
    /// pointer `[T9]`. Also from a directory that was given explicitly.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`] when a file of this name is there, [`ErrorKind::HeldElsewhere`] when a process that is not
    /// ours writes to the session. A failure half-way puts back what was there.
    pub fn move_to(&mut self, cwd: &Path) -> Result<()> {
        self.check_writable()?;
        let storage = Arc::clone(&self.host.storage);
        let dir = self.host.agent.session_dir(cwd, &self.host.environment, storage.as_ref())?;
        let header = Self::header_with_cwd(cwd)?;
        let name = self.file.file_name().unwrap_or_default();
        let target = dir.join(name);
        if self.is_on_disk() {
            if target == self.file {
                self.on_disk(|manager, disk| manager.rewrite_header(disk, &header(manager)))?;
            } else {
                storage.ensure_dir(&dir)?;
                self.on_disk(|manager, disk| {
                    let line = header(manager).raw().to_vec();
                    manager.move_file(disk, &target, line)
                })?;
            }
        } else {
            self.session.loaded.header = Some(header(self));
        }
        self.file = target;
        self.dir = dir;
        self.cwd = Some(cwd.to_owned());
        self.set_pointer();
        Ok(())
    }

    /// Names another working directory in the header; the file stays where it is. For a session whose place does not come from
    /// its working directory: a sub-agent's, which lies among the artifacts of another `[D9]`, when its project was renamed.
    ///
    /// # Errors
    /// As [`move_to`](Self::move_to).
    pub fn set_cwd(&mut self, cwd: &Path) -> Result<()> {
        self.check_writable()?;
        check_cwd(cwd)?;
        let header = Self::header_with_cwd(cwd)?;
        if self.is_on_disk() {
            self.on_disk(|manager, disk| manager.rewrite_header(disk, &header(manager)))?;
        } else {
            self.session.loaded.header = Some(header(self));
        }
        self.cwd = Some(cwd.to_owned());
        self.set_pointer();
        Ok(())
    }

    fn rewrite_header(&mut self, disk: &mut Disk, header: &Header) -> Result<()> {
        self.rewrite_with(disk, header.raw().to_vec(), |_, _, _| Ok(None))?;
        disk.load_anew(&mut self.session)
    }

    /// What makes the header name this working directory, whatever others wrote into it meanwhile.
    fn header_with_cwd(cwd: &Path) -> Result<impl Fn(&Self) -> Header + use<>> {
        let Some(text) = cwd.to_str() else {
            let message = "a working directory whose name is no UTF-8 can't be written";
            return Err(Error::new(ErrorKind::InvalidInput, message).at(cwd));
        };
        let json = quote(text);
        Ok(move |manager: &Self| manager.header().changed(&[("cwd", Change::Set(json.as_bytes()))]))
    }

    /// Moves file and artifacts, then rewrites the header; undoes what was done when a step fails.
    fn move_file(&mut self, disk: &mut Disk, target: &Path, header: Vec<u8>) -> Result<()> {
        let from = disk.path().to_owned();
        let artifacts = |file: &Path| Artifacts::of_session(Arc::clone(&self.host.storage), file).ok();
        let (own, new) = (artifacts(&from), artifacts(target));
        if let Some(new) = &new
            && self.host.storage.exists(new.dir())?
        {
            let message = "artifacts of another session are there already";
            return Err(Error::new(ErrorKind::AlreadyExists, message).at(new.dir()));
        }
        disk.rename(&mut self.session, target)?;
        let moved = match (&own, &new) {
            (Some(own), Some(new)) => own.move_to(new),
            _ => Ok(()),
        };
        let done = moved.and_then(|()| self.rewrite_with(disk, header, |_, _, _| Ok(None)));
        if let Err(error) = done {
            if let (Some(own), Some(new)) = (&own, &new)
                && let Err(undo) = new.move_to(own)
            {
                tracing::error!(%undo, "a session's artifacts could not be moved back");
            }
            if let Err(undo) = disk.rename(&mut self.session, &from) {
                tracing::error!(%undo, "a session could not be moved back");
            }
            return Err(error);
        }
        disk.load_anew(&mut self.session)
    }

    /// Starts a new session of the same working directory: closes the current file, a new id, an empty tree, nothing on disk
    /// before the first assistant message `[T9a, W2]`. Returns its file, which does not exist yet.
    ///
    /// # Errors
    /// The first real error of closing the old session; then the manager stays on it.
    pub fn new_session(&mut self, parent_session: Option<&str>) -> Result<PathBuf> {
        let cwd = self.needs_cwd()?;
        let extra: Vec<(&str, &str)> = parent_session.map(|parent| ("parentSession", parent)).into_iter().collect();
        let in_memory = matches!(self.state, State::InMemory);
        let mut new = Self::new_in(&self.host, &cwd, Some(&self.dir), &extra)?;
        if in_memory {
            new.state = State::InMemory;
        }
        self.leave(new)?;
        self.set_pointer();
        Ok(self.file.clone())
    }

    /// Works on another file from now on: an existing session, or a new one at exactly that path `[L3]`. Clears a write error
    /// of the old file.
    ///
    /// # Errors
    /// Those of [`open`](Self::open), and of closing the old session; then the manager stays on it.
    pub fn set_session_file(&mut self, file: &Path) -> Result<()> {
        let cwd = self.cwd.clone();
        let new = Self::open_at(&self.host, file, Some(&self.dir.clone()), cwd.as_deref())?;
        self.leave(new)?;
        self.set_pointer();
        Ok(())
    }

    /// Closes this session and becomes another. A write error that is known already does not hold anybody back: what it left
    /// in memory was reported.
    fn leave(&mut self, new: Self) -> Result<()> {
        if self.trouble.is_none() {
            let state = matches!(self.state, State::InMemory | State::NotYet(_));
            if !state {
                self.settle()?;
            }
        }
        let _ = self.close();
        self.switch_to(new);
        Ok(())
    }

    /// Saves a text that a tool made beside the session `[D9, D9a]`; returns its id. Works before the session is written.
    pub fn save_artifact(&self, text: &str, tool: &str) -> Result<ArtifactId> {
        self.artifacts()?.save(text, tool)
    }

    /// The file of an artifact; none when there is none of this id.
    pub fn artifact_path(&self, id: ArtifactId) -> Result<Option<PathBuf>> {
        self.artifacts()?.path(id)
    }

    /// The session's artifacts.
    pub fn artifacts(&self) -> Result<Artifacts> {
        Artifacts::of_session(Arc::clone(&self.host.storage), &self.file)
    }
}
