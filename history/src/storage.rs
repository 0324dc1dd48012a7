//! The store: a façade over the queue of the writer thread and one connection for questions.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use rusqlite::Transaction;

use crate::{
    database::{Database, Mode},
    entry::{Entry, Page},
    error::{Error, ErrorKind, Result},
    limit::Limit,
    options::{Access, OpenOptions},
    pending::{Pending, pending},
    place,
    query::Query,
    schema::Shape,
    scope::Scope,
    search::{Search, SearchOptions},
    submission::{Outcome, Submission},
    writer::{Queue, guarded},
};

/// A prompt store on one database file.
///
/// Adding never waits for the disk: a thread of the store writes. Questions see everything that this store added before
/// them, and what other processes have committed. The store is `Send` and `Sync`.
pub struct HistoryStorage {
    path: PathBuf,
    queue: Option<Queue>,
    reader: Mutex<Database>,
}

impl HistoryStorage {
    /// Opens the history at `path` for reading and writing; a missing one is created, private to the user.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when the file can't be opened or made, [`ErrorKind::Corrupt`] when it is no database,
    /// [`ErrorKind::Locked`] when another process keeps it locked.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        OpenOptions::new().open(path)
    }

    pub(crate) fn open_with(path: &Path, options: OpenOptions) -> Result<Self> {
        let patience = options.patience;
        if options.access == Access::ReadOnly {
            let reader = Self::reader(path, Mode::Read, &options)?;
            return Ok(Self { path: path.into(), queue: None, reader });
        }
        place::create_if_missing(path)?;
        let reader = Self::reader(path, Mode::Write, &options)?;
        let writer = Database::open(path, Mode::Write, patience)?;
        let queue = Queue::start(writer, options)?;
        Ok(Self { path: path.into(), queue: Some(queue), reader })
    }

    fn reader(path: &Path, mode: Mode, options: &OpenOptions) -> Result<Mutex<Database>> {
        let mut database = Database::open(path, mode, options.patience)?;
        let ready = database.conn.pragma_update(None, "query_only", true).and_then(|()| database.shape());
        ready.map_err(|error| database.error(error))?;
        Ok(Mutex::new(database))
    }

    /// Adds a prompt that was typed just now and returns at once.
    ///
    /// The text is trimmed; an empty one, and one that equals the latest addition, makes no row [H2]. Once
    /// [`Pending::wait`] (or awaiting it) has returned `Ok`, the prompt survives `kill -9` and the loss of power.
    /// Dropping the answer leaves the prompt queued; [`close`](Self::close) and dropping the store commit all that is.
    pub fn add(&self, prompt: impl Into<String>, cwd: Option<&str>) -> Pending<Outcome> {
        let submission = Submission::new(prompt);
        self.submit(match cwd {
            Some(cwd) => submission.cwd(cwd),
            None => submission,
        })
    }

    /// Adds a prompt with all that is known of it; otherwise as [`add`](Self::add).
    pub fn submit(&self, submission: Submission) -> Pending<Outcome> {
        match &self.queue {
            Some(queue) => queue.add(submission),
            None => pending(self.read_only()).1,
        }
    }

    /// Records submissions and runs the caller's statements in the same transaction: all of it is committed or none.
    ///
    /// `work` gets the transaction and what became of each submission, in order. It runs on the writer's thread with
    /// the write lock held, so it should take well under a tenth of a second; hand in at most a few hundred submissions
    /// at once. Tables of the caller's own have names that begin with [`TABLE_PREFIX`](crate::TABLE_PREFIX) and hold no
    /// foreign key, view or trigger that names `history`. A later call sees what an earlier one wrote.
    ///
    /// # Errors
    /// Through the answer: [`ErrorKind::Rejected`] with the error (or panic) of `work`, or what the database said.
    /// Nothing of the call is written then.
    pub fn apply<T, F>(&self, submissions: Vec<Submission>, work: F) -> Pending<T>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>, &[Outcome]) -> Result<T, Box<dyn std::error::Error + Send + Sync>> + Send + 'static,
    {
        let Some(queue) = &self.queue else { return pending(self.read_only()).1 };
        queue.run(move |writer| {
            writer.transact(|ledger, transaction| {
                let outcomes =
                    submissions.iter().map(|submission| ledger.record(submission)).collect::<Result<Vec<_>, _>>()?;
                guarded(|| work(transaction, &outcomes))
            })
        })
    }

    /// The latest prompts of a scope, newest first. The limit is clamped to `0..=1000` [H3].
    ///
    /// # Errors
    /// What the database said.
    pub fn recent(&self, limit: impl Into<Limit>, scope: &Scope) -> Result<Vec<Entry>> {
        let limit = limit.into();
        self.read(|conn, shape| Search::new(conn, shape, scope, limit).recent())
    }

    /// The prompts that hold every token of `query`, as words that begin so, else inside words [H3, H6].
    ///
    /// Tokens are what white space separates, in any order; words that punctuation joins stand next to each other. Case
    /// and accents don't count. Whatever the query holds is text; an empty one finds nothing.
    ///
    /// # Errors
    /// What the database said; never a syntax error.
    pub fn search(&self, query: &str, options: &SearchOptions) -> Result<Page> {
        let query = Query::parse(query);
        self.read(|conn, shape| Search::new(conn, shape, &options.scope, options.limit).find(&query, options.order))
    }

    fn read<T>(&self, question: impl FnOnce(&Transaction<'_>, &Shape) -> rusqlite::Result<T>) -> Result<T> {
        if let Some(queue) = &self.queue {
            queue.catch_up();
        }
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = reader.snapshot().and_then(|(transaction, shape)| question(&transaction, &shape));
        answer.map_err(|error| reader.error(error))
    }

    /// Commits everything that is queued and closes the database.
    ///
    /// # Errors
    /// The first failure of a queued prompt whose answer nobody waits for, else what closing said.
    pub fn close(mut self) -> Result<()> {
        self.queue.as_mut().map_or(Ok(()), Queue::finish)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn read_only(&self) -> Error {
        Error::new(ErrorKind::ReadOnly, &self.path, "the history was opened for reading only; nothing can be added")
    }
}

impl Drop for HistoryStorage {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.queue.as_mut().map(Queue::finish) {
            tracing::error!(%error, "the history was not closed cleanly");
        }
    }
}

impl std::fmt::Debug for HistoryStorage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HistoryStorage").field("path", &self.path).finish_non_exhaustive()
    }
}
