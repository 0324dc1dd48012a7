//! Sessions that were deleted and can come back: a private directory of ours in the agent directory, [`AgentDir::trash`].
//!
//! Each deletion is a directory of its own with the session file under its own name, its artifacts beside it, and a file
//! `origin` that says where they were. A session is where its file is: that moves here before the artifacts, and back after
//! them, so that whatever is cut short can be restored, or erased, by another call. Nothing is copied, rewritten or thrown away
//! before [`empty`](Trash::empty) or [`erase`](Trash::erase) says so. Listings and watchers don't look here; a collection of blobs has to
//! ([`CollectionScope::with_directory`](crate::CollectionScope::with_directory)), or what comes back lacks its images.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::artifacts::Artifacts;
use crate::clock::{Clock, Timestamp};
use crate::deletion::check_file;
use crate::error::{Error, ErrorKind, Result};
use crate::layout::AgentDir;
use crate::storage::{FileKind, SessionStorage};

/// The file in each item that says where it came from.
const ORIGIN: &str = "origin";
/// More than an origin ever holds.
const LONGEST: u64 = 64 * 1024;

/// The deleted sessions of one agent directory.
///
/// ```
/// use std::{path::Path, sync::Arc};
/// use session_core::storage::{MemorySessionStorage, SessionStorage};
/// use session_core::{AgentDir, SystemClock, Trash};
/// let storage: Arc<dyn SessionStorage> = Arc::new(MemorySessionStorage::new());
/// let (agent, file) = (AgentDir::at("/agent")?, Path::new("/agent/sessions/--w--/x.jsonl"));
/// storage.ensure_dir(file.parent().unwrap())?;
/// storage.write_text(file, "{}\n")?;
/// let trash = Trash::of(Arc::clone(&storage), &agent, Arc::new(SystemClock));
/// let deleted = trash.put(file)?;
/// assert!(!storage.exists(file)?);
/// trash.restore(&deleted)?;
/// assert_eq!(storage.read_text(file)?, "{}\n");
/// # Ok::<(), session_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Trash {
    storage: Arc<dyn SessionStorage>,
    dir: PathBuf,
    clock: Arc<dyn Clock>,
}

/// A session in the trash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trashed {
    dir: PathBuf,
    file: PathBuf,
    origin: PathBuf,
    deleted: Timestamp,
}

#[derive(Serialize, Deserialize)]
struct Origin {
    path: String,
    deleted: String,
}

impl Trashed {
    /// The session file as it lies in the trash: readable like any other.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Where it was, and where [`Trash::restore`] puts it.
    pub fn origin(&self) -> &Path {
        &self.origin
    }

    /// When it was deleted.
    pub fn deleted(&self) -> Timestamp {
        self.deleted
    }

    /// The name of its directory in the trash, which tells it from others.
    pub fn name(&self) -> String {
        self.dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

impl Trash {
    /// The trash of an agent directory. It is made when the first session goes there.
    pub fn of(storage: Arc<dyn SessionStorage>, agent: &AgentDir, clock: Arc<dyn Clock>) -> Self {
        Self { storage, dir: agent.trash(), clock }
    }

    /// Moves a session file and its artifacts here. On the medium when this returns. A crash in between leaves each of the
    /// two in one place or the other, whole: a session that is here comes back to artifacts that are still there.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] and [`ErrorKind::NotAFile`] when `path` is no file, [`ErrorKind::InvalidInput`] for a relative
    /// path or one that is no UTF-8; what the storage says. When only the artifacts did not move, the session is put back.
    pub fn put(&self, path: &Path) -> Result<Trashed> {
        check_file(&*self.storage, path)?;
        let (Some(origin), Some(name), true) = (path.to_str(), path.file_name(), path.is_absolute()) else {
            let message = "only a session with an absolute path in UTF-8 can come back from the trash";
            return Err(Error::new(ErrorKind::InvalidInput, message).at(path));
        };
        let deleted = self.clock.now();
        let dir = self.new_dir(path, deleted)?;
        let origin = Origin { path: origin.to_owned(), deleted: deleted.to_string() };
        let text =
            serde_json::to_string(&origin).map_err(|error| Error::new(ErrorKind::InvalidInput, error.to_string()))?;
        self.storage.write_text(&dir.join(ORIGIN), &(text + "\n"))?;
        let item = Trashed { file: dir.join(name), origin: path.to_path_buf(), deleted, dir };
        let moved = self.move_file(path, &item.file).and_then(|()| {
            self.move_artifacts(path, &item.file).inspect_err(|_| {
                // What moved before the failure goes back, the file last: where it is, the session is.
                let undone = self.move_artifacts(&item.file, path).and_then(|()| self.move_file(&item.file, path));
                if let Err(undo) = undone {
                    tracing::error!(%undo, "a session could not be put back; it is in the trash");
                }
            })
        });
        if let Err(error) = moved {
            self.forget(&item);
            return Err(error);
        }
        Ok(item)
    }

    /// A directory that no other item has.
    fn new_dir(&self, path: &Path, deleted: Timestamp) -> Result<PathBuf> {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        // The session's own name begins with a time too; its id is what tells it.
        let id: String = stem.rsplit('_').next().unwrap_or_default().chars().take(80).collect();
        let base = format!("{}_{id}", deleted.file_name_form());
        let mut dir = self.dir.join(&base);
        let mut more = 0_u32;
        while self.storage.exists(&dir)? {
            more += 1;
            dir = self.dir.join(format!("{base}-{more}"));
        }
        self.storage.ensure_dir(&dir)?;
        Ok(dir)
    }

    fn move_file(&self, from: &Path, to: &Path) -> Result<()> {
        self.storage.rename(from, to)?;
        [to.parent(), from.parent()].into_iter().flatten().try_for_each(|dir| self.storage.sync_dir(dir))
    }

    /// Moves the artifacts of a session that was, or will be, moved so; those that are there already are left.
    fn move_artifacts(&self, from: &Path, to: &Path) -> Result<()> {
        let artifacts = |path: &Path| Artifacts::of_session(Arc::clone(&self.storage), path);
        match (artifacts(from), artifacts(to)) {
            (Ok(old), Ok(new)) => old.move_to(&new),
            _ => Ok(()),
        }
    }

    /// What is here, latest deletion first. A directory in which no session can be told is an error in its place and hides
    /// no other.
    ///
    /// # Errors
    /// When the trash itself can't be read; one that does not exist is empty.
    pub fn list(&self) -> Result<Vec<Result<Trashed>>> {
        let items = self.storage.read_dir(&self.dir)?.unwrap_or_default();
        let dirs = items.into_iter().filter(|item| item.kind == Some(FileKind::Directory));
        let mut found: Vec<Result<Trashed>> = dirs.map(|item| self.read(item.path)).collect();
        found.sort_by_key(|item| std::cmp::Reverse(item.as_ref().ok().map(|item| (item.deleted, item.dir.clone()))));
        Ok(found)
    }

    fn read(&self, dir: PathBuf) -> Result<Trashed> {
        let broken = |why: &str| {
            let message = format!("{why}; what lies here can be moved away by hand");
            Error::new(ErrorKind::InvalidInput, message).at(&dir)
        };
        let bytes = self.storage.read_bytes(&dir.join(ORIGIN), LONGEST)?;
        let origin: Origin = serde_json::from_slice(&bytes).map_err(|_| broken("`origin` is not readable"))?;
        let deleted = Timestamp::parse(&origin.deleted).ok_or_else(|| broken("`origin` names no time"))?;
        let origin = PathBuf::from(origin.path);
        // The path comes from a file: it is used to put something there, so it has to be a whole plain path.
        let plain = origin.is_absolute() && !origin.components().any(|part| part == std::path::Component::ParentDir);
        let file = origin.file_name().map(|name| dir.join(name)).filter(|_| plain);
        let file = file.ok_or_else(|| broken("`origin` names no absolute path"))?;
        check_file(&*self.storage, &file)?;
        Ok(Trashed { dir, file, origin, deleted })
    }

    /// Puts a session and its artifacts back where they were. On the medium when this returns.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`] when something is in their place; nothing has moved then.
    pub fn restore(&self, item: &Trashed) -> Result<()> {
        if self.storage.exists(&item.origin)? {
            let message = "something is in the place of the deleted session; move it away first";
            return Err(Error::new(ErrorKind::AlreadyExists, message).at(&item.origin));
        }
        if let Some(dir) = item.origin.parent() {
            self.storage.ensure_dir(dir)?;
        }
        // The file last: until then the session is in the trash, and can be restored by another call.
        self.move_artifacts(&item.file, &item.origin)?;
        self.move_file(&item.file, &item.origin)?;
        self.forget(item);
        Ok(())
    }

    /// Takes an item's directory away when it holds nothing any more but where it came from.
    fn forget(&self, item: &Trashed) {
        let left = self.storage.read_dir(&item.dir).ok().flatten().unwrap_or_default();
        if left.iter().all(|left| left.path == item.dir.join(ORIGIN))
            && let Err(error) = self.storage.remove_tree(&item.dir)
        {
            tracing::warn!(%error, "an empty directory is left in the trash; it is safe to delete");
        }
    }

    /// Brings in the artifacts of a session whose way here was cut short, so that they go when it goes. While its file is not
    /// there nobody else's can be of that name.
    fn finish(&self, item: &Trashed) -> Result<()> {
        let has_its_own = match Artifacts::of_session(Arc::clone(&self.storage), &item.file) {
            Ok(artifacts) => self.storage.exists(artifacts.dir())?,
            Err(_) => true,
        };
        if has_its_own || self.storage.exists(&item.origin)? {
            return Ok(());
        }
        self.move_artifacts(&item.origin, &item.file)
    }

    /// Deletes one session of the trash for good.
    ///
    /// # Errors
    /// What the storage says; what is left can be erased again.
    pub fn erase(&self, item: &Trashed) -> Result<()> {
        self.finish(item)?;
        self.storage.remove_tree(&item.dir)?;
        self.storage.sync_dir(&self.dir)
    }

    /// Deletes everything in the trash for good, also what is not readable there.
    ///
    /// # Errors
    /// What the storage says; what is left can be emptied again.
    pub fn empty(&self) -> Result<()> {
        for item in self.list()?.into_iter().flatten() {
            self.finish(&item)?;
        }
        if self.storage.exists(&self.dir)? { self.storage.remove_tree(&self.dir) } else { Ok(()) }
    }
}
