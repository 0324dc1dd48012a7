//! The store: a façade over the queue of the writer thread and one connection for questions.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use rusqlite::{Connection, Transaction};

use crate::{
    bulk::Bulk,
    database::{Database, Mode},
    detach::{self, Detached},
    entry::{Entry, Page},
    error::{Error, ErrorKind, Result},
    export::Exported,
    forget::{self, Deleted},
    health::{self, Health},
    import::{Import, Imported, import_batch},
    known::Known,
    limit::Limit,
    options::{Access, OpenOptions},
    pending::{Pending, pending},
    place,
    query::Query,
    read_only,
    schema::Shape,
    scope::Scope,
    search::{Search, SearchOptions},
    selection::Selection,
    stats::{Counted, Stats},
    submission::{Outcome, Submission},
    writer::{Notices, Queue, Writer},
};

/// A prompt store on one database file.
///
/// Adding never waits for the disk: a thread of the store writes. Questions see everything that this store added before
/// them, and what other processes have committed. The store is `Send` and `Sync`.
pub struct HistoryStorage {
    path: PathBuf,
    /// The path as it was given: a link may lead elsewhere later.
    named: PathBuf,
    identity: Option<place::Identity>,
    queue: Option<Queue>,
    reader: Mutex<Database>,
    counted: Mutex<Counted>,
    notices: Notices,
}

/// Something that the user should hear once, and that kept nothing from being done.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A history that we did not create was met for the first time; this is a copy of it from before `[H5a]`.
    Copied(PathBuf),
    /// The history is read as a file that can't change; rows in this unread write-ahead log are missing `[H5]`.
    UnreadLog(PathBuf),
}

impl HistoryStorage {
    /// Opens the history at `path` for reading and writing; a missing one is created, private to the user.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when the file can't be opened or made, [`ErrorKind::Corrupt`] when it is no database,
    /// [`ErrorKind::Locked`] when another process keeps it locked. A database that can only be read opens all the same:
    /// searching works, adding answers with [`ErrorKind::ReadOnly`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        OpenOptions::new().open(path)
    }

    pub(crate) fn open_with(path: &Path, options: &OpenOptions) -> Result<Self> {
        let named = std::path::absolute(path).map_err(|error| Error::io(path, "it can't be reached", error))?;
        let path = &place::real(path)?;
        let notices = Notices::default();
        if options.access == Access::ReadOnly {
            let reader = read_only::open(path, options, &notices)?;
            return Ok(Self {
                path: path.into(),
                identity: place::identity(path)?,
                named,
                queue: None,
                reader: Mutex::new(reader),
                counted: Mutex::default(),
                notices,
            });
        }
        place::create_if_missing(path)?;
        // Looked at first: a file that takes its place while it is being opened is another one later.
        let identity = place::identity(path)?;
        let mut reader = match read_only::reader(path, Mode::Write, options) {
            // A database that may only be read says so, or can't make the files beside it that it needs.
            Err(error) if matches!(error.kind(), ErrorKind::ReadOnly | ErrorKind::Io) => {
                read_only::open(path, options, &notices).map_err(|_| error)?
            }
            reader => reader?,
        };
        let queue = if reader.is_writable()? {
            let writer = Database::open(path, Mode::Write, options.patience)?;
            Some(Queue::start(writer, options, Arc::clone(&notices))?)
        } else {
            None
        };
        Ok(Self {
            path: path.into(),
            named,
            identity,
            queue,
            reader: Mutex::new(reader),
            counted: Mutex::default(),
            notices,
        })
    }

    /// Adds a prompt that was typed just now and returns at once.
    ///
    /// The text is trimmed; an empty one, and one that equals the latest addition, makes no row `[H2]`. Once
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
    ///
    /// ```
    /// # fn main() -> Result<(), history::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use history::{EntryKey, HistoryStorage, Recorded, Submission};
    /// let store = HistoryStorage::open(dir.path().join("history.db"))?;
    /// let read = Submission::new("fix it").cwd("/p").session("s1").at(1_700_000_000).key(EntryKey::new("s1:a1b2c3d4"));
    /// assert_eq!(store.submit(read.clone()).wait()?.recorded(), Recorded::Inserted);
    /// assert_eq!(store.submit(read).wait()?.recorded(), Recorded::Known);
    /// # Ok(())
    /// # }
    /// ```
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
    /// Neither `COMMIT` nor `ROLLBACK` is `work`'s to say: both make the call fail (savepoints are fine). Questions that
    /// it asks this store show what was committed before. What it adds to this store comes after it, so it must never
    /// wait for such an answer: that would be waiting for itself.
    ///
    /// # Errors
    /// Through the answer: [`ErrorKind::Rejected`] with the error (or panic) of `work`, or what the database said, `work`'s
    /// own statements included.
    /// Nothing of the call is written then.
    ///
    /// ```
    /// # fn main() -> Result<(), history::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use history::{EntryKey, HistoryStorage, Submission};
    /// let store = HistoryStorage::open(dir.path().join("history.db"))?;
    /// let read = vec![Submission::new("fix it").at(1_700_000_000).key(EntryKey::new("s1:a1b2c3d4"))];
    /// let rows = store.apply(read, |transaction, outcomes| {
    ///     transaction.execute_batch(
    ///         "CREATE TABLE IF NOT EXISTS watcher_position(file TEXT PRIMARY KEY, at INTEGER);
    ///          REPLACE INTO watcher_position VALUES ('s1.jsonl', 512);",
    ///     )?;
    ///     Ok(outcomes.iter().filter(|outcome| outcome.row().is_some()).count())
    /// });
    /// assert_eq!(rows.wait()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn apply<T, F>(&self, submissions: Vec<Submission>, work: F) -> Pending<T>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>, &[Outcome]) -> Result<T, Box<dyn std::error::Error + Send + Sync>> + Send + 'static,
    {
        match &self.queue {
            Some(queue) => queue.run(move |writer| applied(writer, &submissions, work)),
            None => pending(self.read_only()).1,
        }
    }

    /// The same for what can be read again from where it came: with a write-ahead log, the commit is with the kernel when this
    /// answers and on the medium a little later. `kill -9` loses nothing; a power cut may take the latest calls, each with
    /// the caller's own statements, so that a position goes together with the rows before it.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    ///
    /// ```
    /// # fn main() -> Result<(), history::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use history::{EntryKey, HistoryStorage, Recorded, Submission};
    /// let store = HistoryStorage::open(dir.path().join("history.db"))?;
    /// let read = vec![Submission::new("fix it").at(1_700_000_000).key(EntryKey::new("s1:a1b2c3d4"))];
    /// let became = store.apply_redoable(read, |_, outcomes| Ok(outcomes[0].recorded()));
    /// assert_eq!(became.wait()?, Recorded::Inserted);
    /// # Ok(())
    /// # }
    /// ```
    pub fn apply_redoable<T, F>(&self, submissions: Vec<Submission>, work: F) -> Pending<T>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>, &[Outcome]) -> Result<T, Box<dyn std::error::Error + Send + Sync>> + Send + 'static,
    {
        match &self.queue {
            Some(queue) => queue.run(move |writer| writer.redoable(|writer| applied(writer, &submissions, work))),
            None => pending(self.read_only()).1,
        }
    }

    /// The latest prompts of a scope, newest first. The limit is clamped to `0..=1000` `[H3]`.
    ///
    /// # Errors
    /// What the database said.
    ///
    /// ```
    /// # fn main() -> Result<(), history::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use history::{HistoryStorage, Scope};
    /// let store = HistoryStorage::open(dir.path().join("history.db"))?;
    /// store.add("first", Some("/p"));
    /// store.add("second", Some("/p/q"));
    /// assert_eq!(store.recent(10, &Scope::everywhere())?[0].prompt(), "second");
    /// assert_eq!(store.recent(10, &Scope::directory("/p"))?[0].prompt(), "first");
    /// # Ok(())
    /// # }
    /// ```
    pub fn recent(&self, limit: impl Into<Limit>, scope: &Scope) -> Result<Vec<Entry>> {
        let limit = limit.into();
        self.read(|conn, shape| Search::new(conn, shape, scope, limit).recent())
    }

    /// The prompts that hold every token of `query`, as words that begin so, else inside words `[H3, H6]`.
    ///
    /// Tokens are what white space separates, in any order; words that punctuation joins stand next to each other. Case
    /// and accents don't count. Whatever the query holds is text; an empty one finds nothing.
    ///
    /// # Errors
    /// What the database said; never a syntax error.
    ///
    /// ```
    /// # fn main() -> Result<(), history::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use history::{HistoryStorage, SearchOptions};
    /// let store = HistoryStorage::open(dir.path().join("history.db"))?;
    /// store.add("open LoginForm.tsx, please", None);
    /// for query in ["ple log", "Form.tsx", "ogin", "(please"] {
    ///     assert_eq!(store.search(query, &SearchOptions::new(10))?.entries().len(), 1);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn search(&self, query: &str, options: &SearchOptions) -> Result<Page> {
        let query = Query::parse(query);
        self.read(|conn, shape| Search::new(conn, shape, &options.scope, options.limit).find(&query, options.order))
    }

    /// Adds what another history, lines or JSON lines hold. Blocks; `progress` is told how far it is now and then, on
    /// this thread. Other adds of this store go on between the slices.
    ///
    /// The same source twice adds nothing the second time; what was deleted stays away. Each batch that was reported is
    /// committed, so an import that is cut short can be run again.
    ///
    /// # Errors
    /// A line that is no prompt, with its number; what the database said. What was reported before it stays.
    ///
    /// ```
    /// # fn main() -> Result<(), history::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use history::{HistoryStorage, Import};
    /// let store = HistoryStorage::open(dir.path().join("history.db"))?;
    /// let lines = "\"first\"\n{\"prompt\":\"second\",\"created_at\":1700000000,\"cwd\":\"/p\"}\n";
    /// let sum = store.import(Import::json_lines("old.jsonl", lines.as_bytes()), |so_far| drop(so_far))?;
    /// assert_eq!((sum.read, sum.added), (2, 2));
    /// let again = store.import(Import::json_lines("old.jsonl", lines.as_bytes()), |_| ())?;
    /// assert_eq!((again.added, again.known), (0, 2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn import(&self, source: Import<'_>, mut progress: impl FnMut(Imported)) -> Result<Imported> {
        let Some(queue) = &self.queue else { return Err(self.read_only()) };
        let mut known = Known::default();
        queue.catch_up();
        {
            let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
            known.renew(&mut reader).map_err(|error| reader.error(error))?;
        }
        let mut sum = Imported::default();
        source.read(&self.path, |batch| {
            let mut there_already = std::mem::take(&mut known);
            let job = queue.run(move |writer| {
                let done = import_batch(writer, &batch, &mut there_already)?;
                Ok((done, there_already))
            });
            let (done, known_now) = job.wait()?;
            known = known_now;
            sum.add(done);
            progress(sum);
            Ok(())
        })?;
        Ok(sum)
    }

    /// Writes the chosen prompts as JSON lines, oldest first: `prompt`, `created_at`, and where known `cwd`, `session`,
    /// `use_count`. Returns how many.
    ///
    /// # Errors
    /// What the database or the writer said.
    ///
    /// ```
    /// # fn main() -> Result<(), history::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use history::{HistoryStorage, Scope, Selection, Submission};
    /// let store = HistoryStorage::open(dir.path().join("history.db"))?;
    /// store.submit(Submission::new("hello").cwd("/p").at(1_700_000_000));
    /// let mut lines = Vec::new();
    /// store.export(&Selection::all().scope(Scope::below("/p")), &mut lines)?;
    /// assert_eq!(lines, b"{\"prompt\":\"hello\",\"created_at\":1700000000,\"cwd\":\"/p\",\"use_count\":1}\n");
    /// # Ok(())
    /// # }
    /// ```
    pub fn export(&self, selection: &Selection, mut to: impl Write) -> Result<usize> {
        let entries = self.select(selection)?;
        for entry in &entries {
            let written = serde_json::to_writer(&mut to, &Exported::of(entry)).map_err(io::Error::from);
            let written = written.and_then(|()| to.write_all(b"\n"));
            written.map_err(|error| Error::io(&self.path, "the export can't be written", error))?;
        }
        to.flush().map_err(|error| Error::io(&self.path, "the export can't be written", error))?;
        Ok(entries.len())
    }

    /// The chosen prompts, oldest row first; what [`delete`](Self::delete) would take.
    ///
    /// # Errors
    /// What the database said.
    ///
    /// ```
    /// # fn main() -> Result<(), history::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use history::{HistoryStorage, Selection};
    /// let store = HistoryStorage::open(dir.path().join("history.db"))?;
    /// store.add("deploy to staging", None);
    /// store.add("deploy to production", None);
    /// let doomed = Selection::all().matching("production$")?;
    /// assert_eq!(store.select(&doomed)?[0].prompt(), "deploy to production");
    /// # Ok(())
    /// # }
    /// ```
    pub fn select(&self, selection: &Selection) -> Result<Vec<Entry>> {
        self.read(|conn, shape| if shape.is_readable() { selection.entries(conn, shape) } else { Ok(Vec::new()) })
    }

    /// Deletes the chosen prompts, in slices, and remembers that they were, so that nothing that reads session files or
    /// other histories brings them back `[H5b]`. A prompt typed anew is a new one.
    ///
    /// What is remembered is on the medium before the first row goes, so a crash in between leaves prompts that come
    /// back to nobody. Session files still hold the text: [`Deleted::sessions`] says which.
    ///
    /// # Errors
    /// Through the answer.
    ///
    /// ```
    /// # fn main() -> Result<(), history::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use history::{HistoryStorage, Selection};
    /// let store = HistoryStorage::open(dir.path().join("history.db"))?;
    /// store.add("a secret", None);
    /// store.add("keep this", None);
    /// let deleted = store.delete(Selection::all().matching("(?i)secret")?).wait()?;
    /// assert_eq!(deleted.rows(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete(&self, selection: Selection) -> Pending<Deleted> {
        match &self.queue {
            Some(queue) => queue.run(move |writer| forget::delete(writer, &selection)),
            None => pending(self.read_only()).1,
        }
    }

    /// Runs SQLite's and FTS5's integrity checks on a copy of the database, which needs room for it on the disk.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] when it can't even be copied; then
    /// [`rebuild_if_corrupt`](OpenOptions::rebuild_if_corrupt) is the way, once the store is closed.
    ///
    /// ```
    /// # fn main() -> Result<(), history::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use history::HistoryStorage;
    /// let health = HistoryStorage::open(dir.path().join("history.db"))?.check()?;
    /// assert!(health.file.is_empty() && health.index.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn check(&self) -> Result<Health> {
        if let Some(queue) = &self.queue {
            queue.catch_up();
        }
        health::check(&self.reader.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Checks, and builds the full-text index anew when it is what is broken. Answers with the state after it.
    ///
    /// # Errors
    /// Through the answer.
    ///
    /// ```
    /// # fn main() -> Result<(), history::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use history::HistoryStorage;
    /// let store = HistoryStorage::open(dir.path().join("history.db"))?;
    /// if !store.check()?.is_well() {
    ///     assert!(store.repair().wait()?.is_well());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn repair(&self) -> Pending<Health> {
        match &self.queue {
            Some(queue) => queue.run(health::repair),
            None => pending(self.read_only()).1,
        }
    }

    /// Removes every table of ours (all whose names begin with [`TABLE_PREFIX`](crate::TABLE_PREFIX)) and the list of
    /// deleted prompts, and closes the store. Rows and the full-text index stay: they are the history's own form.
    ///
    /// # Errors
    /// What the database or the file system said; what was not removed can be by another call.
    ///
    /// ```
    /// # fn main() -> Result<(), history::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use history::HistoryStorage;
    /// let store = HistoryStorage::open(dir.path().join("history.db"))?;
    /// store.add("stays", None).wait()?;
    /// let detached = store.detach()?;
    /// assert!(detached.tables().iter().all(|table| table.starts_with(history::TABLE_PREFIX)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn detach(self) -> Result<Detached> {
        let Some(queue) = &self.queue else { return Err(self.read_only()) };
        let detached = queue.run(detach::detach).wait()?;
        self.close()?;
        Ok(detached)
    }

    /// What [`detach`](Self::detach) would take away, and what it would leave. Changes nothing.
    ///
    /// # Errors
    /// What the database said.
    pub fn detachable(&self) -> Result<Detached> {
        self.read(|conn, _| detach::plan(conn, &self.path))
    }

    /// Leaves the write lock alone for a moment, so that whoever else waits for it gets it; at once when nobody else has the
    /// database open. For between two calls of many, as [`import`](Self::import) does it `[H5]`.
    ///
    /// # Errors
    /// Through the answer: the store can only read.
    pub fn give_way(&self) -> Pending<()> {
        match &self.queue {
            Some(queue) => queue.run(|writer| {
                writer.database.rest();
                Ok(())
            }),
            None => pending(self.read_only()).1,
        }
    }

    /// Numbers for a status line. Counted again only when the database has changed.
    ///
    /// # Errors
    /// What the database said.
    ///
    /// ```
    /// # fn main() -> Result<(), history::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use history::HistoryStorage;
    /// let store = HistoryStorage::open(dir.path().join("history.db"))?;
    /// store.add("hello", Some("/p"));
    /// assert_eq!(store.stats()?.prompts, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn stats(&self) -> Result<Stats> {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        self.read(|conn, shape| counted.read(conn, shape))
    }

    fn read<T>(&self, question: impl FnOnce(&Connection, &Shape) -> rusqlite::Result<T>) -> Result<T> {
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

    /// Whether the file that this store has open is still the one at its path. When it was deleted, or another took its place,
    /// nobody sees what is added to this store: close it and open the path again.
    pub fn is_in_place(&self) -> bool {
        match place::identity(&self.named) {
            Ok(identity) => identity == self.identity,
            // It can't be told now.
            Err(_) => true,
        }
    }

    /// What the user should hear once. It grows while the store works.
    pub fn notices(&self) -> Vec<Notice> {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn read_only(&self) -> Error {
        Error::new(ErrorKind::ReadOnly, &self.path, "the history can only be read here; nothing can be added")
    }
}

/// One transaction with the submissions and the caller's part.
fn applied<T>(
    writer: &mut Writer,
    submissions: &[Submission],
    work: impl FnOnce(&Transaction<'_>, &[Outcome]) -> Result<T, Box<dyn std::error::Error + Send + Sync>>,
) -> Result<T> {
    let turn = writer.turn.clone();
    writer.transact(|ledger, transaction, _| {
        let bulk = Bulk::begin(*ledger, submissions.len())?;
        let outcomes = submissions.iter().map(|submission| bulk.ledger().record(submission));
        let outcomes = outcomes.collect::<Result<Vec<_>, _>>()?;
        bulk.end()?;
        turn.run(|| work(transaction, &outcomes))
    })
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
