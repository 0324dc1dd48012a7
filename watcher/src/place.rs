//! Our private place below an agent directory: the lock of the one watcher, and what it tells about itself.
//!
//! Everything in it can be deleted while no watcher runs; nothing of the harness's is in it.

use std::fs::{File, TryLockError};
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use session_core::storage::{FileSessionStorage, SessionStorage, StorageLock};
use session_core::{AgentDir, ErrorKind, Timestamp};

use crate::exit::{Exit, Refusal};
use crate::spool::Spool;

/// A starting watcher waits so long: whoever asks for the status holds the lock for an instant.
const PATIENCE: Duration = Duration::from_millis(100);

/// The place, by its paths.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    dir: PathBuf,
}

/// The lock of the one watcher; the kernel frees it when the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct Running {
    _lock: Box<dyn StorageLock>,
}

impl Place {
    pub(crate) fn of(agent: &AgentDir) -> Self {
        Self { dir: agent.root().join(".watcher") }
    }

    /// Removes the place and the other files of ours in the agent directory; the caller holds the lock. Locks of sessions
    /// stay: somebody may hold one.
    ///
    /// # Errors
    /// What the file system said; the rest can be removed by another call.
    pub(crate) fn remove(&self, agent: &AgentDir) -> Result<()> {
        let storage = FileSessionStorage::new();
        for path in self.removable(agent)? {
            if path == self.dir { storage.remove_tree(&path)? } else { storage.unlink(&path)? }
        }
        Ok(())
    }

    /// What [`remove`](Self::remove) would remove.
    ///
    /// # Errors
    /// What the file system said.
    pub(crate) fn removable(&self, agent: &AgentDir) -> Result<Vec<PathBuf>> {
        let storage = FileSessionStorage::new();
        let mut there = Vec::new();
        for path in [self.dir.clone(), agent.catalog_cache()] {
            if storage.exists(&path)? {
                there.push(path);
            }
        }
        Ok(there)
    }

    pub(crate) fn state_file(&self) -> PathBuf {
        self.dir.join("state.json")
    }

    /// What is remembered of sessions that scripts wrote to.
    pub(crate) fn extensions(&self) -> PathBuf {
        self.dir.join("ext")
    }

    /// Where prompts wait that hooks told.
    pub(crate) fn spool(&self) -> Spool {
        Spool::at(self.dir.join("spool"))
    }

    pub(crate) fn lock_file(&self) -> PathBuf {
        self.dir.join("lock")
    }

    /// Makes the place, private, and takes the lock.
    ///
    /// # Errors
    /// [`Exit::AlreadyRunning`] with who runs and since when; else what the file system said.
    pub(crate) fn lock(&self, started: Timestamp) -> Result<Running> {
        let storage = FileSessionStorage::new();
        storage.ensure_dir(&self.dir)?;
        let holder = format!("process {} since {started}", std::process::id());
        match storage.lock(&self.lock_file(), &holder, PATIENCE) {
            Ok(lock) => Ok(Running { _lock: lock }),
            Err(error) if error.kind() == ErrorKind::Locked => {
                let who = self.holder()?.unwrap_or_else(|| "another process".to_owned());
                let message = format!("a watcher runs here already: {who} ({})", self.dir.display());
                Err(Refusal::new(Exit::AlreadyRunning, message).into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Who holds the lock: `process PID since TIME`; none when nobody does. Writes nothing.
    pub(crate) fn holder(&self) -> Result<Option<String>> {
        let path = self.lock_file();
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        match file.try_lock_shared() {
            Ok(()) => return Ok(None),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error).with_context(|| path.display().to_string()),
        }
        let mut text = String::new();
        // A name that can't be read hides nobody: the lock is held all the same.
        let _ = file.by_ref().take(256).read_to_string(&mut text);
        let line = text.lines().next().unwrap_or_default().trim();
        Ok(Some(if line.is_empty() { "another process".to_owned() } else { line.to_owned() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_watcher_at_a_time_and_the_second_hears_who_it_is() {
        // K56
        let dir = tempfile::tempdir().unwrap();
        let place = Place::of(&AgentDir::at(dir.path()).unwrap());
        assert_eq!(place.holder().unwrap(), None);
        let running = place.lock(Timestamp::from_millis(0).unwrap()).unwrap();
        let who = format!("process {} since 1970-01-01T00:00:00.000Z", std::process::id());
        assert_eq!(place.holder().unwrap().as_ref(), Some(&who));
        let second = place.lock(Timestamp::from_millis(1).unwrap()).unwrap_err();
        assert_eq!(second.downcast_ref::<Refusal>().unwrap().exit, Exit::AlreadyRunning);
        assert!(second.to_string().contains(&who), "{second}");
        drop(running);
        assert_eq!(place.holder().unwrap(), None);
        place.lock(Timestamp::from_millis(2).unwrap()).unwrap();
    }
}
