//! New sessions from old ones `[T6, T7, T8]`: a fork, a fork of another file, a branch as a session of its own.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::open::NewHeader;
use super::{Host, SessionManager, State, known, lines_to_write, new_id, writable};
use crate::artifacts::Artifacts;
use crate::compose::Draft;
use crate::disk::write_whole;
use crate::entry::EntryKind;
use crate::error::{Error, ErrorKind, Result};
use crate::json::{Json, quote};
use crate::log::Index;
use crate::session::{Leaf, Session};
use crate::splice::{Change, change_keys};

/// The files of a fork.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forked {
    /// The session that was forked; unwritten sessions have no file there yet.
    pub old: PathBuf,
    /// The fork, which the manager works on now. Exists.
    pub new: PathBuf,
}

impl SessionManager {
    /// Forks the session: a new id, file and time, the same entries, `parentSession` = the old id, name and artifacts copied
    /// `[T7]`. Written at once; the manager then works on the fork, its leaf where it was. In memory it does nothing and
    /// returns none.
    ///
    /// # Errors
    /// What is owed to the old file and can't be written, and whatever prevents the new one: then the manager stays on the
    /// old session.
    pub fn fork(&mut self) -> Result<Option<Forked>> {
        self.check_writable()?;
        if matches!(self.state, State::InMemory) {
            return Ok(None);
        }
        self.settle()?;
        let cwd = self.needs_cwd()?;
        let old = self.file.clone();
        let (host, dir) = (self.host.clone(), self.dir.clone());
        let parent = self.id().as_str().to_owned();
        let fork = Self::copy_of(&host, &self.session, &cwd, &dir, &parent)?;
        let artifacts = |file: &Path| Artifacts::of_session(Arc::clone(&host.storage), file);
        if let Ok(own) = artifacts(&old) {
            own.copy_to(&artifacts(&fork.file)?)?;
        }
        let new = fork.file.clone();
        let leaf = self.leaf_id().map(str::to_owned);
        self.switch_to(fork);
        self.session.leaf = leaf.and_then(|leaf| self.session.log().find(&leaf));
        self.set_pointer();
        Ok(Some(Forked { old, new }))
    }

    /// A new session of `cwd` with the entries of `source`, older versions migrated, its name kept `[T8]`. Written at once;
    /// the source is only read.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for a missing source, [`ErrorKind::NotAFile`] for one that is no file,
    /// [`ErrorKind::InvalidInput`] for one that holds no session, [`ErrorKind::ReadOnly`] for one of a newer version `[F9]`.
    pub fn fork_from(host: &Host, source: &Path, cwd: &Path, dir: Option<&Path>) -> Result<Self> {
        let session = Session::read_from(Arc::clone(&host.storage), source)?;
        let Some(header) = session.header() else {
            return Err(Error::new(ErrorKind::InvalidInput, "this file holds no session to fork").at(source));
        };
        // What its entries mean, and whether they are so in a session of ours, nobody knows.
        writable(header, source)?;
        let parent = header.id().as_str().to_owned();
        let default = host.agent.session_dir(cwd, &host.environment, host.storage.as_ref())?;
        let dir = dir.map_or(default, Path::to_owned);
        Ok(Self::copy_of(host, &session, cwd, &dir, &parent)?.pointing())
    }

    /// A new session in `dir` with all entries of another, written.
    fn copy_of(host: &Host, source: &Session, cwd: &Path, dir: &Path, parent: &str) -> Result<Self> {
        let new = header_for(host, source, cwd, parent)?;
        let entries: Vec<Index> = source.log().indices().collect();
        let lines = lines_to_write(source, &entries, &host.blobs())?;
        Self::write_new(host, &new, dir, lines)
    }

    /// Writes a new session whole and opens it.
    fn write_new(host: &Host, new: &NewHeader, dir: &Path, mut lines: Vec<Vec<u8>>) -> Result<Self> {
        let file = dir.join(&new.file_name);
        lines.insert(0, new.header.raw().to_vec());
        write_whole(host.storage.as_ref(), &file, None, &lines)?;
        Self::open_at(host, &file, Some(dir), Some(&new.cwd))
    }

    /// A new session file with the path to `leaf` only `[T6]`: without its label entries, then fresh ones for the labels in
    /// force on what is kept. What hung on a label hangs on the nearest kept ancestor, and a compaction that kept from a label
    /// on keeps from the next kept entry on: the context of the leaf is the same before and after. Written at once; the
    /// manager then works on it. What is owed to the old file reaches the old file first; an old session that was never
    /// written stays so.
    ///
    /// Returns the new file; none in memory, where the session itself becomes that path.
    ///
    /// # Errors
    /// [`ErrorKind::UnknownEntry`], and whatever prevents the writes: then the manager stays on the old session.
    pub fn create_branched_session(&mut self, leaf: &str) -> Result<Option<PathBuf>> {
        self.check_writable()?;
        self.known_entry(leaf)?;
        self.settle()?;
        let cwd = self.needs_cwd()?;
        let parent = self.file.to_string_lossy().into_owned();
        let in_memory = matches!(self.state, State::InMemory);
        let new = header_for(&self.host, &self.session, &cwd, &parent)?;
        let lines = branch_lines(&self.host, &self.session, leaf, |kept| {
            if in_memory {
                let mut payloads = self.session.payloads();
                kept.iter().map(|entry| payloads.line(*entry)).collect()
            } else {
                lines_to_write(&self.session, kept, &self.host.blobs())
            }
        })?;
        let mut branch = Self::write_new(&self.host, &new, &self.dir, lines)?;
        if in_memory {
            branch.state = State::InMemory;
            self.switch_to(branch);
            return Ok(None);
        }
        let file = branch.file.clone();
        self.switch_to(branch);
        self.set_pointer();
        Ok(Some(file))
    }

    /// The same `[T6]` of a session that is only read: a new session of `cwd` beside `source`, older versions migrated.
    ///
    /// # Errors
    /// As [`fork_from`](Self::fork_from); [`ErrorKind::UnknownEntry`].
    pub fn branch_from(host: &Host, source: &Path, leaf: &str, cwd: &Path) -> Result<Self> {
        let session = Session::read_from(Arc::clone(&host.storage), source)?;
        let Some(header) = session.header() else {
            return Err(Error::new(ErrorKind::InvalidInput, "this file holds no session to branch from").at(source));
        };
        writable(header, source)?;
        known(&session, leaf, source)?;
        let new = header_for(host, &session, cwd, &source.to_string_lossy())?;
        let lines = branch_lines(host, &session, leaf, |kept| lines_to_write(&session, kept, &host.blobs()))?;
        let dir = source.parent().map(Path::to_owned).unwrap_or_default();
        Ok(Self::write_new(host, &new, &dir, lines)?.pointing())
    }

    /// What is owed to the file is written before something is made from it.
    pub(super) fn settle(&mut self) -> Result<()> {
        if let Some(trouble) = &self.trouble {
            return Err(trouble.clone());
        }
        match self.state {
            State::OnDisk(_) => self.on_disk(Self::write_unwritten).map_err(|error| self.keep(error)),
            _ => Ok(()),
        }
    }
}

/// The header of a session made from another: the name in force and its source go into it `[F8]`.
fn header_for(host: &Host, source: &Session, cwd: &Path, parent: &str) -> Result<NewHeader> {
    let named = source.named()?;
    let mut extra = vec![("parentSession", parent)];
    if let Some((name, name_source)) = &named {
        extra.push(("title", name));
        // A title whose source nobody stated stays so.
        if source.states_name_source()? {
            extra.push(("titleSource", name_source.as_str()));
        }
    }
    NewHeader::make(host, cwd, &extra)
}

/// The lines of the path to `leaf` without its label entries, as `lines` has them, then fresh ones for the labels in force on
/// what is kept.
fn branch_lines(
    host: &Host,
    session: &Session,
    leaf: &str,
    lines: impl FnOnce(&[Index]) -> Result<Vec<Vec<u8>>>,
) -> Result<Vec<Vec<u8>>> {
    let path = session.path_to(&Leaf::Entry(leaf.into()));
    let labels = session.labels()?;
    let log = session.log();
    let kept: Vec<Index> = path.iter().copied().filter(|entry| log.kind(*entry) != EntryKind::Label).collect();
    let rehung = Rehung::of(session, &path);
    let mut lines = lines(&kept)?;
    for (entry, line) in kept.iter().zip(&mut lines) {
        *line = rehung.line(session, *entry, std::mem::take(line));
    }
    let mut parent = kept.last().map(|last| log.id(*last).to_owned());
    for id in kept.iter().map(|entry| log.id(*entry)) {
        if let Some(label) = labels.get(id) {
            let label_id = new_id(host, session);
            let draft = Draft::new("label").text("targetId", id).text("label", label);
            lines.push(draft.line(&label_id, parent.as_deref(), host.clock.now()).as_str().as_bytes().to_vec());
            parent = Some(label_id);
        }
    }
    Ok(lines)
}

/// What the removal of label entries changes for those that referred to them.
struct Rehung {
    /// By removed label: the nearest kept ancestor.
    parents: HashMap<String, Option<String>>,
    /// By removed label: the next kept entry on the path.
    next: HashMap<String, String>,
}

impl Rehung {
    fn of(session: &Session, path: &[Index]) -> Self {
        let log = session.log();
        let (mut parents, mut next) = (HashMap::new(), HashMap::new());
        let mut kept: Option<&str> = None;
        let mut waiting: Vec<&str> = Vec::new();
        for &entry in path {
            let id = log.id(entry);
            if log.kind(entry) == EntryKind::Label {
                parents.insert(id.to_owned(), kept.map(str::to_owned));
                waiting.push(id);
            } else {
                next.extend(waiting.drain(..).map(|label| (label.to_owned(), id.to_owned())));
                kept = Some(id);
            }
        }
        Self { parents, next }
    }

    fn line(&self, session: &Session, entry: Index, line: Vec<u8>) -> Vec<u8> {
        let log = session.log();
        let parent = log.parent_id(entry).and_then(|parent| self.parents.get(parent));
        let parent = parent.map(|parent| parent.as_deref().map_or_else(|| "null".to_owned(), quote));
        let first_kept = (log.kind(entry) == EntryKind::Compaction)
            .then(|| Json::new(&line).get("firstKeptEntryId").and_then(Json::text).map(std::borrow::Cow::into_owned))
            .flatten()
            .and_then(|id| self.next.get(&id))
            .map(|id| quote(id));
        let mut changes = Vec::new();
        if let Some(parent) = &parent {
            changes.push(("parentId", Change::Set(parent.as_bytes())));
        }
        if let Some(first_kept) = &first_kept {
            changes.push(("firstKeptEntryId", Change::Set(first_kept.as_bytes())));
        }
        if changes.is_empty() { line } else { change_keys(&line, &changes) }
    }
}
