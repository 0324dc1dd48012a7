//! What a session manager works with: storage, agent directory, time, ids, environment and terminal, all handed in.

use std::sync::Arc;

use crate::blob::BlobStore;
use crate::clock::{Clock, SystemClock};
use crate::id::{IdSource, RandomIds};
use crate::layout::{AgentDir, Environment, Harness};
use crate::storage::{FileSessionStorage, SessionStorage};
use crate::terminal::{TerminalId, stdin_terminal};

/// The surroundings of session managers. Cheap to clone.
///
/// ```
/// use session_core::{AgentDir, Environment, Host};
/// let host = Host::new(AgentDir::at("/home/u/.xcsh/agent")?, Environment::new("/w"));
/// assert!(host.terminal().is_none());
/// # Ok::<(), session_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Host {
    pub(super) storage: Arc<dyn SessionStorage>,
    pub(super) agent: AgentDir,
    pub(super) environment: Environment,
    pub(super) terminal: Option<TerminalId>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ids: Arc<dyn IdSource>,
}

impl Host {
    /// Real files, real time, random ids, and no terminal.
    pub fn new(agent: AgentDir, environment: Environment) -> Self {
        Self {
            storage: Arc::new(FileSessionStorage::new()),
            agent,
            environment,
            terminal: None,
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds::new()),
        }
    }

    /// This process's own surroundings: its environment, the agent directory of `[D1]`, and its terminal `[P1]`.
    ///
    /// # Errors
    /// As [`AgentDir::resolve`].
    pub fn of_process() -> crate::Result<Self> {
        let environment = Environment::from_process();
        let storage = FileSessionStorage::new();
        let agent = AgentDir::resolve(Harness::default(), None, &environment, &storage)?;
        let terminal = TerminalId::detect(stdin_terminal().as_deref(), &environment);
        Ok(Self::new(agent, environment).with_terminal(terminal))
    }

    /// The same with another storage.
    #[must_use]
    pub fn with_storage(mut self, storage: Arc<dyn SessionStorage>) -> Self {
        self.storage = storage;
        self
    }

    /// The same with another source of time.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The same with another source of ids.
    #[must_use]
    pub fn with_ids(mut self, ids: Arc<dyn IdSource>) -> Self {
        self.ids = ids;
        self
    }

    /// The same with a terminal, whose pointer follows the session `[P3]`.
    #[must_use]
    pub fn with_terminal(mut self, terminal: Option<TerminalId>) -> Self {
        self.terminal = terminal;
        self
    }

    /// The storage.
    pub fn storage(&self) -> &Arc<dyn SessionStorage> {
        &self.storage
    }

    /// The agent directory.
    pub fn agent(&self) -> &AgentDir {
        &self.agent
    }

    /// The environment.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// The terminal.
    pub fn terminal(&self) -> Option<&TerminalId> {
        self.terminal.as_ref()
    }

    /// The time.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The blobs of the agent directory.
    pub fn blobs(&self) -> BlobStore {
        BlobStore::new(Arc::clone(&self.storage), self.agent.blobs(), Arc::clone(&self.clock))
    }
}
