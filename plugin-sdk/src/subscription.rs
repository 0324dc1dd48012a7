//! What other processes append to a session, through the same follower that the watcher uses.
//!
//! It has no thread and no clock: whoever knows that something may have happened (a file event, a timer, a prompt) looks. A
//! look that was one too many costs one `stat`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use session_core::follow::{Changes, FollowedEntry, Follower, Slice, Transition};
use session_core::storage::SessionStorage;
use session_core::{Defects, EntryId, SessionManager};

use crate::error::Result;
use crate::live::LiveSession;

/// Follows a session file. Each entry comes once, also when the file is rewritten, truncated or replaced; half a line never.
///
/// It keeps the ids of the session's entries in memory, and nothing else of them.
///
/// ```
/// use std::sync::Arc;
/// use plugin_sdk::Subscription;
/// # use session_core::{AgentDir, Environment, Host, JsonText, SessionManager, storage::MemorySessionStorage};
/// # let host = Host::new(AgentDir::at("/agent")?, Environment::new("/w")).with_storage(Arc::new(MemorySessionStorage::new()));
/// # let mut theirs = SessionManager::create(&host, "/w".as_ref(), None)?;
/// # theirs.ensure_on_disk()?;
/// # let file = theirs.file().unwrap().to_owned();
/// let mut ours = SessionManager::open(&host, &file, None)?;
/// let mut others = Subscription::to(&ours);
/// let id = theirs.append_message(&JsonText::parse(r#"{"role":"user","content":"from elsewhere"}"#)?)?;
/// let update = others.look()?;
/// assert_eq!(update.entries().map(|entry| entry.id().clone()).collect::<Vec<_>>(), [id]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Subscription {
    storage: Arc<dyn SessionStorage>,
    path: PathBuf,
    follower: Follower,
    seen: HashSet<EntryId>,
}

/// What one look found.
#[derive(Debug)]
pub struct Update {
    changes: Changes,
    /// Which of the entries are new, by their number.
    new: Vec<usize>,
}

impl Update {
    /// The new entries, in the order of the file. They need not be on the branch at work: their parents tell.
    pub fn entries(&self) -> impl Iterator<Item = FollowedEntry<'_>> {
        let mut new = self.new.iter().copied().peekable();
        self.changes.entries().enumerate().filter_map(move |(n, entry)| new.next_if_eq(&n).map(|_| entry))
    }

    /// What became of the file.
    pub fn transition(&self) -> Transition {
        self.changes.transition()
    }

    /// What is wrong with the lines that were read.
    pub fn defects(&self) -> &Defects {
        self.changes.defects()
    }

    /// Whether there is more: look again at once.
    pub fn has_more(&self) -> bool {
        self.changes.has_more()
    }
}

impl Subscription {
    /// Everything that is appended to the session of `manager` and that it does not know yet.
    pub fn to(manager: &SessionManager) -> Self {
        // A session in memory has no file, and none will appear at no path.
        let file = manager.file().unwrap_or(Path::new(""));
        let mut subscription = Self::to_file(Arc::clone(manager.host().storage()), file);
        subscription.seen = manager.session().entries().map(|entry| EntryId::from(entry.id())).collect();
        subscription
    }

    /// All entries of a session file, those that are there first. The file need not exist yet.
    pub fn to_file(storage: Arc<dyn SessionStorage>, file: &Path) -> Self {
        Self { storage, path: file.to_owned(), follower: Follower::new(), seen: HashSet::new() }
    }

    /// The file that is looked at.
    pub fn file(&self) -> &Path {
        &self.path
    }

    /// Goes on with the session at another path, to which it was moved.
    pub fn follow_to(&mut self, file: &Path) {
        file.clone_into(&mut self.path);
    }

    /// What was appended since the last look, by whomever.
    ///
    /// # Errors
    /// [`ErrorKind::Session`](crate::ErrorKind::Session) when the file can't be read; the next look begins where this one did.
    /// A missing file is a [`Transition`].
    pub fn look(&mut self) -> Result<Update> {
        self.look_for(|_| true)
    }

    /// What others appended since the last look: entries that `session` appended are left out.
    ///
    /// # Errors
    /// As [`look`](Self::look).
    pub fn look_beside(&mut self, session: &LiveSession) -> Result<Update> {
        self.look_for(|id| !session.appended(id))
    }

    fn look_for(&mut self, is_wanted: impl Fn(&EntryId) -> bool) -> Result<Update> {
        let changes = self.follower.look(self.storage.as_ref(), &self.path, Slice::default())?;
        let seen = &mut self.seen;
        let new =
            changes.entries().enumerate().filter(|(_, entry)| seen.insert(entry.id().clone()) && is_wanted(entry.id()));
        let new = new.map(|(n, _)| n).collect();
        Ok(Update { changes, new })
    }
}
