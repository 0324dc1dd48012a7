//! A session manager whose listeners hear what happens to it.
//!
//! Every method does what the manager's method of the same name does, and then lets the listeners run. It decides nothing
//! about sessions itself; what it adds to an append is a note of the entry's id. What no listener needs to hear of has no
//! method here: [`manager`](LiveSession::manager) reads, [`manager_mut`](LiveSession::manager_mut) does the rest.

use std::path::{Path, PathBuf};

use session_core::{
    CompactionEntry, CustomMessageEntry, EntryId, Forked, Host, JsonText, NameSource, Session, SessionInitEntry,
    SessionManager,
};

use crate::error::{BoxError, Result as OwnResult};
use crate::listener::{Event, Handle, ListenerFailure, Listeners, Opening};
use crate::writer::SessionWriter;

/// A session with listeners.
///
/// Listeners run before a call returns to its caller and after the append itself has returned: what they are told of is
/// stored, and the call gives what the manager gave, whatever becomes of them.
///
/// ```
/// use plugin_sdk::{Event, Extension, LiveSession, Opening, Version};
/// use session_core::{EntryKind, JsonText};
/// # use std::sync::Arc;
/// # use session_core::{AgentDir, Environment, Host, SessionManager, storage::MemorySessionStorage};
/// # let host = Host::new(AgentDir::at("/agent")?, Environment::new("/w")).with_storage(Arc::new(MemorySessionStorage::new()));
/// # let manager = SessionManager::create(&host, "/w".as_ref(), None)?;
/// let turns = Extension::new("turns")?.state::<u64>(Version(1));
/// let counted = turns.clone();
/// let mut session = LiveSession::new(manager, Opening::New);
/// session.listen("turns", move |event, session| {
///     if matches!(event, Event::EntryAppended { kind: EntryKind::Message, .. }) {
///         let turns = counted.load(session)?.unwrap_or(0);
///         counted.save(session, &(turns + 1))?;
///     }
///     Ok(())
/// });
/// session.append_message(&JsonText::parse(r#"{"role":"user","content":"hi"}"#)?)?;
/// assert_eq!(turns.load(&session)?, Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LiveSession {
    manager: SessionManager,
    opened: Opening,
    listeners: Listeners,
}

/// Methods of the manager that append one entry.
macro_rules! appends {
    ($($(#[$doc:meta])* $method:ident($($argument:ident: $type:ty),*);)*) => {
        $($(#[$doc])*
        ///
        /// # Errors
        /// Those of the manager's method of this name.
        pub fn $method(&mut self, $($argument: $type),*) -> session_core::Result<EntryId> {
            self.append(|manager| manager.$method($($argument),*))
        })*
    };
}

impl LiveSession {
    /// A live session around a manager, and how that came to its session.
    pub fn new(manager: SessionManager, opened: Opening) -> Self {
        Self { manager, opened, listeners: Listeners::default() }
    }

    /// Registers a listener. It is told at once how the session was opened, and from then on whatever happens, in order.
    /// `name` is for reports only.
    pub fn listen<F>(&mut self, name: &str, listener: F)
    where
        F: FnMut(&Event, &mut Handle<'_>) -> OwnResult<(), BoxError> + Send + 'static,
    {
        self.listeners.register(name.to_owned(), Event::Opened(self.opened), Box::new(listener));
        self.listeners.run(&mut self.manager);
    }

    /// The listeners' failures since the last call, oldest first; the latest hundred when nobody asks.
    pub fn take_failures(&mut self) -> Vec<ListenerFailure> {
        self.listeners.take_failures()
    }

    /// The manager, for reading.
    pub fn manager(&self) -> &SessionManager {
        &self.manager
    }

    /// The manager, for what has no method here. What is appended through it, no listener hears of.
    pub fn manager_mut(&mut self) -> &mut SessionManager {
        &mut self.manager
    }

    /// The manager, without the listeners.
    pub fn into_manager(self) -> SessionManager {
        self.manager
    }

    /// Whether this live session appended the entry.
    pub(crate) fn appended(&self, id: &EntryId) -> bool {
        self.listeners.ours.holds(id)
    }

    appends! {
        /// Appends an agent message.
        append_message(message: &JsonText);
        /// Appends another thinking level.
        append_thinking_level_change(level: Option<&str>);
        /// Appends another model.
        append_model_change(model: &str, role: Option<&str>);
        /// Appends another mode.
        append_mode_change(mode: &str, data: Option<&JsonText>);
        /// Appends how a sub-agent was started.
        append_session_init(init: &SessionInitEntry);
        /// Appends rules that were injected.
        append_ttsr_injection(rules: &[String]);
        /// Appends a compaction.
        append_compaction(compaction: &CompactionEntry);
        /// Appends state of an extension.
        append_custom_entry(custom_type: &str, data: Option<&JsonText>, schema_version: Option<u32>);
        /// Appends a message of an extension.
        append_custom_message_entry(message: &CustomMessageEntry);
        /// Appends a label.
        append_label_change(target: &str, label: Option<&str>);
        /// Appends another service tier.
        append_service_tier_change(tier: Option<&str>);
        /// Appends which MCP tools are selected.
        append_mcp_tool_selection(names: &[String]);
    }

    /// Moves the leaf to an entry: [`Event::LeafMoved`].
    ///
    /// # Errors
    /// As [`SessionManager::branch`].
    pub fn branch(&mut self, id: &str) -> session_core::Result<()> {
        let from = self.leaf();
        self.manager.branch(id)?;
        self.leaf_moved(from);
        Ok(())
    }

    /// Moves the leaf before the first entry: [`Event::LeafMoved`].
    pub fn reset_leaf(&mut self) {
        let from = self.leaf();
        self.manager.reset_leaf();
        self.leaf_moved(from);
    }

    /// Moves the leaf and appends a summary there: [`Event::LeafMoved`], then [`Event::EntryAppended`].
    ///
    /// # Errors
    /// As [`SessionManager::branch_with_summary`].
    pub fn branch_with_summary(
        &mut self,
        from: Option<&str>,
        summary: &str,
        details: Option<&JsonText>,
        from_extension: Option<bool>,
    ) -> session_core::Result<EntryId> {
        let old = self.leaf();
        let appended = self.manager.branch_with_summary(from, summary, details, from_extension);
        // After a failed write the entry is in memory and the leaf has moved all the same; when it was refused it has not.
        if self.leaf() != old {
            let to = from.map(EntryId::from);
            if to != old {
                self.listeners.tell(Event::LeafMoved { from: old, to });
            }
        }
        self.listeners.note(self.manager.session(), &appended);
        self.listeners.run(&mut self.manager);
        appended
    }

    /// Forks: [`Opening::Forked`], unless the session is in memory.
    ///
    /// # Errors
    /// As [`SessionManager::fork`].
    pub fn fork(&mut self) -> session_core::Result<Option<Forked>> {
        let forked = self.manager.fork()?;
        if forked.is_some() {
            self.opened(Opening::Forked);
        }
        Ok(forked)
    }

    /// Makes a session of the path to an entry: [`Opening::Forked`].
    ///
    /// # Errors
    /// As [`SessionManager::create_branched_session`].
    pub fn create_branched_session(&mut self, leaf: &str) -> session_core::Result<Option<PathBuf>> {
        let file = self.manager.create_branched_session(leaf)?;
        self.opened(Opening::Forked);
        Ok(file)
    }

    /// Starts a new session: [`Opening::New`].
    ///
    /// # Errors
    /// As [`SessionManager::new_session`].
    pub fn new_session(&mut self, parent_session: Option<&str>) -> session_core::Result<PathBuf> {
        let file = self.manager.new_session(parent_session)?;
        self.opened(Opening::New);
        Ok(file)
    }

    /// Takes up another file: [`Opening::Switched`].
    ///
    /// # Errors
    /// As [`SessionManager::set_session_file`].
    pub fn set_session_file(&mut self, file: &Path) -> session_core::Result<()> {
        self.manager.set_session_file(file)?;
        self.opened(Opening::Switched);
        Ok(())
    }

    /// Names the session. In files that keep names as entries that is an [`Event::EntryAppended`].
    ///
    /// # Errors
    /// As [`SessionManager::set_session_name`].
    pub fn set_session_name(&mut self, name: &str, source: NameSource) -> session_core::Result<bool> {
        let before = self.leaf();
        let named = self.manager.set_session_name(name, source);
        match (&named, self.leaf().filter(|leaf| Some(leaf) != before.as_ref())) {
            (Ok(_), Some(entry)) => self.listeners.note(self.manager.session(), &Ok(entry)),
            (Err(error), _) => self.listeners.note(self.manager.session(), &Err(error.clone())),
            _ => self.listeners.note_written(self.manager.session()),
        }
        self.listeners.run(&mut self.manager);
        named
    }

    /// Moves the session to another working directory. It stays the same session: no event.
    ///
    /// # Errors
    /// As [`SessionManager::move_to`].
    pub fn move_to(&mut self, cwd: &Path) -> session_core::Result<()> {
        self.manager.move_to(cwd)
    }

    /// Writes what a failed write left in memory; its entries are announced now.
    ///
    /// # Errors
    /// As [`SessionManager::recover`].
    pub fn recover(&mut self) -> session_core::Result<()> {
        let recovered = self.manager.recover();
        self.written();
        recovered
    }

    /// Returns when everything appended so far is on the medium.
    ///
    /// # Errors
    /// As [`SessionManager::flush`].
    pub fn flush(&mut self) -> session_core::Result<()> {
        let flushed = self.manager.flush();
        self.written();
        flushed
    }

    fn append(
        &mut self,
        append: impl FnOnce(&mut SessionManager) -> session_core::Result<EntryId>,
    ) -> session_core::Result<EntryId> {
        let appended = append(&mut self.manager);
        self.listeners.note(self.manager.session(), &appended);
        self.listeners.run(&mut self.manager);
        appended
    }

    fn written(&mut self) {
        self.listeners.note_written(self.manager.session());
        self.listeners.run(&mut self.manager);
    }

    fn opened(&mut self, opening: Opening) {
        self.opened = opening;
        self.listeners.tell(Event::Opened(opening));
        self.listeners.run(&mut self.manager);
    }

    fn leaf(&self) -> Option<EntryId> {
        self.manager.leaf_id().map(EntryId::from)
    }

    fn leaf_moved(&mut self, from: Option<EntryId>) {
        let to = self.leaf();
        if from != to {
            self.listeners.tell(Event::LeafMoved { from, to });
            self.listeners.run(&mut self.manager);
        }
    }
}

impl AsRef<Session> for LiveSession {
    fn as_ref(&self) -> &Session {
        self.manager.session()
    }
}

impl SessionWriter for LiveSession {
    fn host(&self) -> &Host {
        self.manager.host()
    }

    fn append_custom(
        &mut self,
        custom_type: &str,
        data: Option<&JsonText>,
        version: Option<u32>,
    ) -> OwnResult<EntryId> {
        Ok(self.append_custom_entry(custom_type, data, version)?)
    }

    fn append_custom_message(&mut self, message: &CustomMessageEntry) -> OwnResult<EntryId> {
        Ok(self.append_custom_message_entry(message)?)
    }

    fn append_label(&mut self, target: &str, label: Option<&str>) -> OwnResult<EntryId> {
        Ok(self.append_label_change(target, label)?)
    }

    fn flush(&mut self) -> OwnResult<()> {
        Ok(Self::flush(self)?)
    }
}
