//! Finding a session file that has gone from its path `[W6]`: in the places where its working directory's sessions may be
//! `[D4]`, then in all session directories.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Host;
use crate::error::Result;
use crate::id::SessionId;
use crate::session::Session;
use crate::storage::{FileIdentity, FileKind};

pub(super) struct Locator<'m> {
    host: Host,
    file: &'m Path,
    cwd: Option<&'m Path>,
    id: SessionId,
}

impl<'m> Locator<'m> {
    pub(super) fn new(host: &Host, file: &'m Path, cwd: Option<&'m Path>, id: SessionId) -> Self {
        Self { host: host.clone(), file, cwd, id }
    }

    /// The file of this identity, while it has a name; else the file with this session's id and a name like its own.
    pub(super) fn find(&self, identity: Option<FileIdentity>) -> Result<Option<PathBuf>> {
        let storage = self.host.storage.as_ref();
        let mut of_this_session = None;
        for dir in self.places()? {
            for path in storage.list_files(&dir, "*.jsonl").unwrap_or_default() {
                if identity.is_some() {
                    if storage.identity(&path)? == identity {
                        return Ok(Some(path));
                    }
                } else if of_this_session.is_none() && self.is_this_session(&path) {
                    of_this_session = Some(path);
                }
            }
        }
        Ok(of_this_session)
    }

    fn is_this_session(&self, path: &Path) -> bool {
        // Reading headers of a whole directory costs; the name tells nearly always.
        let named_alike = path.file_name() == self.file.file_name()
            || path.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with(self.id.as_str()));
        named_alike
            && Session::read_from(Arc::clone(&self.host.storage), path)
                .is_ok_and(|session| session.header().is_some_and(|header| *header.id() == self.id))
    }

    fn places(&self) -> Result<Vec<PathBuf>> {
        let storage = self.host.storage.as_ref();
        let mut dirs = match self.cwd {
            Some(cwd) => self.host.agent.session_dirs(cwd, &self.host.environment, storage)?,
            None => Vec::new(),
        };
        dirs.extend(self.file.parent().map(Path::to_owned));
        let all = storage.read_dir(&self.host.agent.sessions())?.unwrap_or_default();
        dirs.extend(all.into_iter().filter(|item| item.kind == Some(FileKind::Directory)).map(|item| item.path));
        Ok(dirs)
    }
}
