//! What surrounds the engines: a thread for each agent directory, signals, and an end within a second.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Result;
use history::HistoryStorage;
use session_core::storage::{FileSessionStorage, SessionStorage};
use session_core::{AgentDir, Timestamp};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::engine::{Engine, Report};
use crate::place::{Place, Running};
use crate::source::notify::NotifySource;
use crate::source::{Coverage, Hint, Source};
use crate::state::Board;

/// Whoever was told to go has this long to finish a transaction.
const FAREWELL: Duration = Duration::from_millis(900);

/// What an engine's thread is told.
enum Order {
    Look(Hint),
    Stop,
}

/// An agent directory that is opened, locked and ready to be followed.
pub(crate) struct Prepared {
    pub(crate) agent: AgentDir,
    pub(crate) store: Arc<HistoryStorage>,
    place: Place,
    running: Running,
}

/// A source of no hints: for a single sync, and where the system gives none.
pub(crate) struct NoSource(pub(crate) String);

impl Source for NoSource {
    fn watch(&mut self, _: &std::path::Path) -> Coverage {
        if self.0.is_empty() { Coverage::Events } else { Coverage::Polling(self.0.clone()) }
    }

    fn forget(&mut self, _: &std::path::Path) {}
}

/// Makes the agent directory where missing, takes the lock and opens the history.
///
/// # Errors
/// Another watcher runs here; what the file system or the history said.
pub(crate) fn prepare(agent: AgentDir) -> Result<Prepared> {
    let storage = FileSessionStorage::new();
    storage.ensure_dir(agent.root())?;
    let place = Place::of(&agent);
    let running = place.lock(Timestamp::from_system(SystemTime::now()))?;
    let store = Arc::new(HistoryStorage::open(agent.history_db())?);
    Ok(Prepared { agent, store, place, running })
}

/// Reads what is there once.
///
/// # Errors
/// What the history said.
pub(crate) fn sync(prepared: &Prepared, stop: &Arc<AtomicBool>, board: Board) -> Result<Report> {
    let storage: Arc<dyn SessionStorage> = Arc::new(FileSessionStorage::new());
    let source = Box::new(NoSource(String::new()));
    let (agent, store) = (prepared.agent.clone(), Arc::clone(&prepared.store));
    let mut engine = Engine::new(agent, storage, store, source, board, Arc::clone(stop))?;
    Ok(engine.reconcile(Duration::ZERO))
}

/// Raises the flag at SIGINT or SIGTERM; a second one ends the process at once.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Follows the agent directories until a signal says to stop.
///
/// # Errors
/// An engine could not begin.
pub(crate) fn run(prepared: Vec<Prepared>) -> Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let stop = Arc::new(AtomicBool::new(false));
    let (left, leaving) = mpsc::channel();
    let mut orders = Vec::new();
    let count = prepared.len();
    for prepared in prepared {
        let (order, ordered) = mpsc::channel();
        orders.push(order.clone());
        let (stop, left) = (Arc::clone(&stop), left.clone());
        std::thread::Builder::new().name("engine".to_owned()).spawn(move || {
            let result = follow(prepared, order, &ordered, stop);
            // Nobody listens any more when the process is about to end.
            let _ = left.send(result);
        })?;
    }
    let (failed, failure) = mpsc::channel();
    let handle = signals.handle();
    std::thread::spawn(move || {
        // An engine that ends by itself ends the process; the others are told to stop.
        let mut result = Ok(());
        for _ in 0..count {
            if let Ok(Err(error)) = leaving.recv() {
                result = Err(error);
                break;
            }
        }
        let _ = failed.send(result);
        handle.close();
    });
    for signal in signals.forever() {
        if signal == SIGHUP {
            for order in &orders {
                // An engine that has ended needs no hint.
                let _ = order.send(Order::Look(Hint::Everything));
            }
            continue;
        }
        break;
    }
    stop.store(true, Ordering::Relaxed);
    for order in &orders {
        let _ = order.send(Order::Stop);
    }
    // A transaction that can't be finished in time is rolled back by whoever opens the history next; nothing is lost.
    failure.recv_timeout(FAREWELL).unwrap_or(Ok(()))
}

fn follow(prepared: Prepared, order: Sender<Order>, ordered: &Receiver<Order>, stop: Arc<AtomicBool>) -> Result<()> {
    let Prepared { agent, store, place, running, .. } = prepared;
    let board = Board::new();
    let publisher = board.publish(place);
    let source: Box<dyn Source> = match NotifySource::start(move |hint| drop(order.send(Order::Look(hint)))) {
        Ok(source) => Box::new(source),
        Err(reason) => Box::new(NoSource(reason)),
    };
    let storage: Arc<dyn SessionStorage> = Arc::new(FileSessionStorage::new());
    let mut engine = Engine::new(agent.clone(), storage, store, source, board.clone(), stop)?;
    let start = Instant::now();
    let report = engine.reconcile(start.elapsed());
    tracing::info!(agent = %agent.root().display(), added = report.tally.added, files = report.files_read, "synced");
    board.change(|state| state.following = true);
    'following: loop {
        let pause = engine.next().saturating_sub(start.elapsed());
        let mut hints = Vec::new();
        let mut next = match ordered.recv_timeout(pause) {
            Ok(order) => Some(order),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        while let Some(order) = next {
            match order {
                Order::Look(hint) => hints.push(hint),
                Order::Stop => break 'following,
            }
            next = ordered.try_recv().ok();
        }
        if !hints.is_empty() {
            engine.handle(hints, start.elapsed());
        }
        engine.tick(start.elapsed());
    }
    drop(engine);
    board.close();
    let _ = publisher.join();
    drop(running);
    Ok(())
}
