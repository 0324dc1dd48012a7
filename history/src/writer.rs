//! The one thread that writes. Prompts that queued up while it was busy go into one transaction; nothing waits for a
//! timer. It holds the write lock for less than a tenth of a second at a time
//! `[H5]`.

use std::{
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread::{JoinHandle, current},
};

use rusqlite::{Connection, Transaction};

use crate::{
    bulk::Bulk,
    database::Database,
    error::{Error, ErrorKind, Result},
    guard::Guard,
    ledger::Ledger,
    meta,
    options::{Clock, OpenOptions},
    order,
    pending::{Pending, Promise, pending},
    prepare::prepare,
    schema::{self, Shape},
    slice::Slice,
    storage::Notice,
    submission::{Outcome, Submission},
    tombstone::Tombstones,
    turn::Turn,
    unclaimed::Unclaimed,
};

/// What a store has to say apart from its answers; the writer's thread adds to it.
pub(crate) type Notices = Arc<Mutex<Vec<Notice>>>;

enum Job {
    Add(Submission, Promise<Outcome>),
    Run(Box<dyn FnOnce(&mut Writer) + Send>),
}

/// The queue's end in the store.
pub(crate) struct Queue {
    jobs: Option<Sender<Job>>,
    sent: AtomicU64,
    done: Arc<Done>,
    thread: Option<JoinHandle<Result<()>>>,
    path: PathBuf,
}

#[derive(Default)]
struct Done {
    count: Mutex<u64>,
    changed: Condvar,
}

impl Done {
    fn add(&self, jobs: u64) {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        *count = count.saturating_add(jobs);
        drop(count);
        self.changed.notify_all();
    }
}

/// Nothing more will be done, however the thread ended: nobody should wait for it.
struct Ended<'a>(&'a Done);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.add(u64::MAX);
    }
}

/// The thread's own state.
pub(crate) struct Writer {
    pub(crate) database: Database,
    clock: Clock,
    pub(crate) guard: Guard,
    pub(crate) turn: Turn,
    notices: Notices,
    unclaimed: Unclaimed,
    /// The form that everything was last made ready for.
    prepared: Option<Shape>,
    /// The first failure that nobody was waiting for; `close` tells it.
    unheard: Option<Error>,
}

impl Queue {
    pub(crate) fn start(mut database: Database, options: &OpenOptions, notices: Notices) -> Result<Self> {
        let path = database.path.clone();
        let (jobs, receiver) = channel();
        let done = Arc::new(Done::default());
        let guard = Guard {
            redaction: options.redaction.clone(),
            exclusions: options.exclusions.clone(),
            tombstones: Tombstones::of(&path),
        };
        let clock = Arc::clone(&options.clock);
        let turn = Turn::of(&mut database.conn).map_err(|error| database.error(error))?;
        let unclaimed = Unclaimed::default();
        let writer = Writer { database, clock, guard, turn, notices, unclaimed, prepared: None, unheard: None };
        let counter = Arc::clone(&done);
        let thread = std::thread::Builder::new()
            .name("history-writer".to_owned())
            .spawn(move || writer.run(&receiver, &counter))
            .map_err(|error| Error::io(&path, "its writer thread can't be started", error))?;
        Ok(Self { jobs: Some(jobs), sent: AtomicU64::new(0), done, thread: Some(thread), path })
    }

    pub(crate) fn add(&self, submission: Submission) -> Pending<Outcome> {
        let (promise, pending) = pending(self.closed());
        self.send(Job::Add(submission, promise));
        pending
    }

    pub(crate) fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer) -> Result<T> + Send + 'static,
    ) -> Pending<T> {
        let (promise, pending) = pending(self.closed());
        self.send(Job::Run(Box::new(move |writer| {
            let result = work(writer);
            writer.answer(promise, result);
        })));
        pending
    }

    fn send(&self, job: Job) {
        self.sent.fetch_add(1, Ordering::SeqCst);
        if let Some(jobs) = &self.jobs
            && jobs.send(job).is_err()
        {
            self.done.add(1);
        }
    }

    /// Waits until everything that was queued before this call is committed or has failed.
    pub(crate) fn catch_up(&self) {
        if self.is_its_thread() {
            // The caller's work asks: it would wait for itself.
            return;
        }
        let sent = self.sent.load(Ordering::SeqCst);
        let mut done = self.done.count.lock().unwrap_or_else(PoisonError::into_inner);
        while *done < sent {
            done = self.done.changed.wait(done).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets the thread finish what is queued and end.
    pub(crate) fn finish(&mut self) -> Result<()> {
        drop(self.jobs.take());
        let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != current().id()) else {
            // The caller's work was the last to hold the store: the thread ends by itself after what is queued.
            return Ok(());
        };
        thread.join().unwrap_or_else(|_| Err(Error::new(ErrorKind::Closed, &self.path, "the writer thread panicked")))
    }

    fn is_its_thread(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| thread.thread().id() == current().id())
    }

    fn closed(&self) -> Error {
        Error::new(ErrorKind::Closed, &self.path, "the store was closed before this was written")
    }
}

impl Writer {
    fn run(mut self, jobs: &Receiver<Job>, done: &Done) -> Result<()> {
        let _ended = Ended(done);
        let mut next = jobs.recv().ok();
        while let Some(job) = next.take() {
            match job {
                Job::Run(work) => {
                    work(&mut self);
                    done.add(1);
                }
                Job::Add(submission, promise) => {
                    let mut group = vec![(submission, promise)];
                    while next.is_none() {
                        match jobs.try_recv() {
                            Ok(Job::Add(submission, promise)) => group.push((submission, promise)),
                            Ok(other) => next = Some(other),
                            Err(_) => break,
                        }
                    }
                    let count = group.len() as u64;
                    self.add_all(group);
                    done.add(count);
                }
            }
            next = next.or_else(|| jobs.recv().ok());
        }
        let Self { database: Database { conn, path, .. }, unheard, .. } = self;
        conn.close().map_err(|(_, error)| Error::sqlite(&path, error))?;
        unheard.map_or(Ok(()), Err)
    }

    fn add_all(&mut self, group: Vec<(Submission, Promise<Outcome>)>) {
        let mut waiting = group.into_iter();
        loop {
            let mut taken = Vec::new();
            let result = self.write(|ledger, slice| {
                let bulk = Bulk::begin(*ledger, waiting.len())?;
                let mut outcomes = Vec::new();
                for (submission, promise) in waiting.by_ref() {
                    taken.push(promise);
                    outcomes.push(bulk.ledger().record(&submission)?);
                    if slice.is_over() {
                        break;
                    }
                }
                bulk.end()?;
                Ok(outcomes)
            });
            match result {
                Ok(outcomes) => {
                    for (promise, outcome) in taken.into_iter().zip(outcomes) {
                        self.answer(promise, Ok(outcome));
                    }
                }
                Err(error) => {
                    // What was still waiting has waited as long for the same database.
                    for promise in taken.into_iter().chain(waiting.by_ref().map(|(_, promise)| promise)) {
                        self.answer(promise, Err(error.clone()));
                    }
                }
            }
            if waiting.len() == 0 {
                return;
            }
            self.database.rest();
        }
    }

    /// Does work that can be done again from what it came from: nothing waits for the medium, see [`Database::relax`].
    pub(crate) fn redoable<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let before = self.database.relax().map_err(|error| self.database.error(error))?;
        let result = work(self);
        self.database.restore(before).map_err(|error| self.database.error(error))?;
        result
    }

    /// One transaction of ours, see [`transact`](Self::transact).
    pub(crate) fn write<T>(&mut self, work: impl FnOnce(&Ledger<'_>, &Slice) -> rusqlite::Result<T>) -> Result<T> {
        self.transact(|ledger, _, slice| work(ledger, slice).map_err(Failure::Sqlite))
    }

    /// One transaction of ours: everything is made ready, what the owner wrote meanwhile is taken in, the work is done,
    /// the stored order is brought up to date.
    pub(crate) fn transact<T>(
        &mut self,
        work: impl FnOnce(&Ledger<'_>, &Transaction<'_>, &Slice) -> std::result::Result<T, Failure>,
    ) -> Result<T> {
        let now = self.now();
        let path = self.database.path.clone();
        let sqlite = |error| Error::sqlite(&path, error);
        // What it learns in a transaction that is rolled back is not so.
        let unclaimed = std::mem::take(&mut self.unclaimed);
        loop {
            self.make_ready(now)?;
            let slice;
            {
                let (transaction, shape, begun) = self.database.begin().map_err(sqlite)?;
                slice = begun;
                if self.prepared.as_ref() != Some(&shape) {
                    // While we waited for the lock, somebody changed the schema.
                    continue;
                }
                check_writable(&shape, &path)?;
                let ledger = Ledger::new(&transaction, &shape, &self.guard, &unclaimed, now);
                let Some(reached) = ledger.yield_to_owner(&slice).map_err(sqlite)? else {
                    let result = work(&ledger, &transaction, &slice).map_err(|failure| match failure {
                        Failure::Sqlite(error) => sqlite(error),
                        Failure::Caller(error) => Error::rejected(&path, error),
                    })?;
                    order::advance(&transaction, &shape).map_err(sqlite)?;
                    note_own_change(&transaction, &shape).map_err(sqlite)?;
                    transaction.commit().map_err(sqlite)?;
                    self.unclaimed = unclaimed;
                    self.database.learn(&slice);
                    return Ok(result);
                };
                order::advance_to(&transaction, &shape, reached).map_err(sqlite)?;
                transaction.commit().map_err(sqlite)?;
            }
            self.database.learn(&slice);
            self.database.rest();
        }
    }

    /// What has to be so before a write, see `prepare`.
    pub(crate) fn make_ready(&mut self, now: i64) -> Result<()> {
        self.guard.tombstones.refresh()?;
        let shape = self.database.shape().map_err(|error| self.database.error(error))?;
        if self.prepared.as_ref() != Some(&shape) {
            let (shape, notices) = prepare(&mut self.database, now)?;
            self.notices.lock().unwrap_or_else(PoisonError::into_inner).extend(notices);
            self.prepared = Some(shape);
        }
        Ok(())
    }

    /// The time by the store's clock, in seconds since 1970.
    pub(crate) fn now(&self) -> i64 {
        (self.clock)()
    }

    fn answer<T>(&mut self, promise: Promise<T>, result: Result<T>) {
        if let Err(error) = &result
            && !promise.is_awaited()
        {
            tracing::error!(%error, "a prompt was not recorded");
            self.unheard.get_or_insert_with(|| error.clone());
        }
        promise.fulfil(result);
    }
}

/// Why the work inside a transaction stopped.
pub(crate) enum Failure {
    Sqlite(rusqlite::Error),
    Caller(Box<dyn std::error::Error + Send + Sync>),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

fn check_writable(shape: &Shape, path: &std::path::Path) -> Result<()> {
    if shape.is_known() {
        return Ok(());
    }
    let message = "its `history` table has a form that this program does not know, so nothing is written to it; \
                   update the program, or name another database";
    Err(Error::new(ErrorKind::UnknownSchema, path, message))
}

/// A table that the caller has made changes the schema and no row of the history.
fn note_own_change(conn: &Connection, shape: &Shape) -> rusqlite::Result<()> {
    let version = schema::version(conn)?;
    if version == shape.version { Ok(()) } else { meta::set(conn, meta::FITS, version) }
}
