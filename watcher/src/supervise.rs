//! What surrounds the engines: a thread for each agent directory, signals, settings that change, and an end within a second.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, bail};
use history::HistoryStorage;
use session_core::storage::{FileSessionStorage, SessionStorage};
use session_core::{AgentDir, Timestamp};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::cause;
use crate::engine::{Engine, Moment, Report};
use crate::exit::{Exit, Refusal};
use crate::logging::Logging;
use crate::mending;
use crate::place::{Place, Running};
use crate::readiness::Readiness;
use crate::settings::{AgentSettings, Polling, Sources};
use crate::source::notify::NotifySource;
use crate::source::poll::{self, PollSource};
use crate::source::{Hint, NoSource, Source};
use crate::state::{self, Board};
use crate::terminals::Processes;

/// Whoever was told to go has this long to finish a transaction.
const FAREWELL: Duration = Duration::from_millis(900);

/// What an engine's thread is told.
enum Order {
    Look(Hint),
    /// New settings; everything is looked at under them.
    Follow(Box<AgentSettings>),
    Stop,
}

/// An agent directory that is locked and whose history is open.
pub(crate) struct Prepared {
    pub(crate) agent: AgentDir,
    pub(crate) store: Arc<HistoryStorage>,
    /// What became of a history that was corrupt.
    pub(crate) mended: Option<String>,
    settings: AgentSettings,
    place: Place,
    running: Running,
}

/// Makes the agent directory where missing, takes the lock and opens the history; a corrupt one is moved aside first.
///
/// # Errors
/// Another watcher runs here; what the file system or the history said.
pub(crate) fn prepare(agent: AgentDir, settings: AgentSettings) -> Result<Prepared> {
    FileSessionStorage::new().ensure_dir(agent.root())?;
    let place = Place::of(&agent);
    let running = place.lock(Timestamp::from_system(SystemTime::now()))?;
    let (store, mended) = mending::open(settings.history()?, &agent.history_db())?;
    Ok(Prepared { agent, store: Arc::new(store), mended, settings, place, running })
}

/// Reads what is there once. A history that turns out to be corrupt on the way is mended, and all is read again.
///
/// # Errors
/// What the history said; that a signal came before all was read. What is in the history by then stays.
pub(crate) fn sync(prepared: Prepared, stop: &Arc<AtomicBool>, board: &Board) -> Result<(Prepared, Report)> {
    match look_once(&prepared, stop, board) {
        Err(error) if mending::is_corrupt(&error) => {
            let Prepared { running, agent, place, settings, store, .. } = prepared;
            // Nobody may have it open, and that includes us.
            drop(store);
            let (store, mended) = mending::mend(settings.history()?, &agent.history_db())?;
            let mended = Prepared { agent, store: Arc::new(store), mended, settings, place, running };
            let report = look_once(&mended, stop, board)?;
            Ok((mended, report))
        }
        looked => looked.map(|report| (prepared, report)),
    }
}

fn look_once(prepared: &Prepared, stop: &Arc<AtomicBool>, board: &Board) -> Result<Report> {
    let Prepared { agent, store, settings, place, .. } = prepared;
    let spooled = match take_spooled(place, store) {
        Err(error) if mending::is_corrupt(&error) => return Err(error),
        spooled => spooled,
    };
    let mut engine = engine(agent, store, settings.clone(), Box::new(NoSource), board.clone(), Arc::clone(stop))?;
    engine.look_once();
    let mut report = engine.reconcile(Moment { tick: Duration::ZERO, clock: SystemTime::now() });
    report.problems.extend(spooled.err().map(|error| cause::told(&error)));
    match &report.failed {
        Some(error) => Err(error.clone().into()),
        None if stop.load(Ordering::Relaxed) => bail!("stopped before all was read; run it again for the rest"),
        None => Ok(report),
    }
}

/// Raises a flag at SIGINT or SIGTERM; a second one ends the process at once.
///
/// # Errors
/// What the system said.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Follows the agent directories until a signal says to stop. SIGHUP reads the settings again; bad ones change nothing.
///
/// # Errors
/// An engine could not begin or go on.
pub(crate) fn run(prepared: Vec<Prepared>, sources: &Sources, logging: &Logging, readiness: &Readiness) -> Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let stop = Arc::new(AtomicBool::new(false));
    let (ending, ended) = mpsc::channel();
    let (ready, readied) = mpsc::channel();
    let mut orders = Vec::new();
    let count = prepared.len();
    for prepared in prepared {
        let (order, ordered) = mpsc::channel();
        orders.push((prepared.agent.clone(), order.clone()));
        let (stop, ending, ready) = (Arc::clone(&stop), ending.clone(), ready.clone());
        std::thread::Builder::new().name("engine".to_owned()).spawn(move || {
            let result = follow(prepared, &order, &ordered, &stop, &ready);
            // Nobody listens any more when the process is about to end.
            let _ = ending.send(result);
        })?;
    }
    drop(ready);
    let told = readiness.clone();
    std::thread::spawn(move || {
        if readied.iter().take(count).count() == count {
            told.ready();
        }
    });
    let (all_ended, result) = mpsc::channel();
    let handle = signals.handle();
    std::thread::spawn(move || {
        // One that fails ends them all; else all end when they are told to.
        let mut results = ended.iter().take(count);
        let _ = all_ended.send(results.find(Result::is_err).unwrap_or(Ok(())));
        handle.close();
    });
    for signal in signals.forever() {
        if signal != SIGHUP {
            break;
        }
        reload(&orders, sources, logging);
    }
    readiness.stopping();
    stop.store(true, Ordering::Relaxed);
    for (_, order) in &orders {
        let _ = order.send(Order::Stop);
    }
    // A transaction that can't be finished in time is rolled back by whoever opens the history next; nothing is lost.
    result.recv_timeout(FAREWELL).unwrap_or(Ok(()))
}

fn reload(orders: &[(AgentDir, Sender<Order>)], sources: &Sources, logging: &Logging) {
    let settings = sources.read().and_then(|settings| {
        let each = orders.iter().map(|(agent, _)| settings.of(agent)).collect::<Result<Vec<_>>>()?;
        Ok((settings.level(), each))
    });
    match settings {
        Ok((level, each)) => {
            logging.set(level);
            for ((_, order), settings) in orders.iter().zip(each) {
                let _ = order.send(Order::Follow(Box::new(settings)));
            }
        }
        Err(error) => {
            tracing::error!("the settings stay as they were: {}", cause::told(&error));
            for (_, order) in orders {
                let _ = order.send(Order::Look(Hint::Everything));
            }
        }
    }
}

fn engine(
    agent: &AgentDir,
    store: &Arc<HistoryStorage>,
    settings: AgentSettings,
    source: Box<dyn Source>,
    board: Board,
    stop: Arc<AtomicBool>,
) -> Result<Engine> {
    let storage: Arc<dyn SessionStorage> = Arc::new(FileSessionStorage::new());
    Ok(Engine::new(agent, settings.plan, storage, Arc::clone(store), source, board, stop)?)
}

fn source(settings: &AgentSettings, order: &Sender<Order>) -> Box<dyn Source> {
    if settings.polling == Polling::Always {
        return Box::new(PollSource::new("the settings say so"));
    }
    let order = order.clone();
    match NotifySource::start(move |hint| drop(order.send(Order::Look(hint)))) {
        Ok(source) => Box::new(source),
        Err(reason) => Box::new(PollSource::new(reason)),
    }
}

/// One agent directory, until it is told to stop.
fn follow(
    prepared: Prepared,
    order: &Sender<Order>,
    ordered: &Receiver<Order>,
    stop: &Arc<AtomicBool>,
    ready: &Sender<()>,
) -> Result<()> {
    // Last comes what goes first: the history is closed before others are let in.
    let Prepared { mut running, agent, mended, place, mut settings, mut store } = prepared;
    let board = Board::new();
    let publisher = board.publish(place.clone());
    if let Some(mended) = mended {
        board.problem(&mended);
    }
    let processes = Processes::of_system();
    let discovery = processes.available();
    board.change(|state| {
        state.pointer_discovery = Some(match &discovery {
            Ok(()) => "available".to_owned(),
            Err(reason) => format!("unavailable ({reason})"),
        });
    });
    let start = Instant::now();
    let moment = || Moment { tick: start.elapsed(), clock: SystemTime::now() };
    let mut is_ready = false;
    // The history said that it is corrupt, nothing was found, and nothing has worked since.
    let mut is_in_doubt = false;
    let result = loop {
        let source = source(&settings, order);
        let made = engine(&agent, &store, settings.clone(), source, board.clone(), Arc::clone(stop));
        let told = match made {
            Err(_) if !store.is_in_place() => Told::Lost,
            Err(error) if mending::is_corrupt(&error) => Told::Corrupt,
            Err(error) => break Err(error),
            Ok(mut engine) => {
                if discovery.is_ok() {
                    engine.discover_terminals(processes.clone());
                }
                let report = engine.reconcile(moment());
                let is_corrupt = report.is_corrupt() || tend(&place, &store, &board, Count::Rows);
                tracing::info!(
                    agent = %agent.root().display(), added = report.tally.added, files = report.files_read, "synced"
                );
                board.change(|state| state.following = true);
                if !std::mem::replace(&mut is_ready, true) {
                    let _ = ready.send(());
                }
                if is_corrupt {
                    Told::Corrupt
                } else {
                    is_in_doubt = false;
                    until_told(&mut engine, ordered, (&agent, &place), &store, &board, &moment)
                }
            }
        };
        match told {
            Told::Stop => break Ok(()),
            Told::Follow(new) => {
                if new.records_otherwise(&settings) {
                    match new.history().and_then(|options| mending::open(options, &agent.history_db())) {
                        Ok((opened, _)) => store = Arc::new(opened),
                        Err(error) => {
                            board.problem(&format!("the settings stay as they were: {}", cause::told(&error)));
                            continue;
                        }
                    }
                }
                settings = *new;
                tracing::info!("the settings were read again");
            }
            Told::Corrupt => {
                // Nobody may have it open, and that includes us.
                drop(store);
                match settings.history().and_then(|options| mending::mend(options, &agent.history_db())) {
                    Ok((opened, Some(mended))) => {
                        store = Arc::new(opened);
                        board.problem(&mended);
                    }
                    Ok((opened, None)) if !std::mem::replace(&mut is_in_doubt, true) => {
                        store = Arc::new(opened);
                        board.problem("the history could not be read for a moment");
                    }
                    Ok((_, None)) => break Err(mending::beyond_us(&agent.history_db())),
                    Err(error) => break Err(error),
                }
            }
            Told::Lost => {
                // With the agent directory our lock goes, too.
                drop((store, running));
                match prepare_anew(&agent, &mut settings, ordered, &board) {
                    Ok(Some(anew)) => {
                        (store, running) = (anew.store, anew.running);
                        board.change(|state| state.started = state::now());
                        board.problem("the history was deleted or another took its place; it was opened anew");
                    }
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error),
                }
            }
        }
    };
    if let Err(error) = &result {
        board.problem(&cause::told(error));
    }
    board.close();
    let _ = publisher.join();
    result
}

/// Prepares an agent directory whose history is lost, as soon as that works: whoever takes the directory away may still be at
/// it. None when it is told to stop first.
///
/// # Errors
/// Another watcher was faster.
fn prepare_anew(
    agent: &AgentDir,
    settings: &mut AgentSettings,
    ordered: &Receiver<Order>,
    board: &Board,
) -> Result<Option<Prepared>> {
    loop {
        // Nothing is made in the place of a directory that is away.
        if agent.root().is_dir() {
            match prepare(agent.clone(), settings.clone()) {
                Ok(prepared) => return Ok(Some(prepared)),
                Err(error) if runs_elsewhere(&error) => return Err(error),
                Err(error) => board.problem(&format!("the history can't be opened anew yet: {}", cause::told(&error))),
            }
        }
        let again = Instant::now() + poll::INTERVAL;
        loop {
            match ordered.recv_timeout(again.saturating_duration_since(Instant::now())) {
                // Everything is looked at once it is open.
                Ok(Order::Look(_)) => {}
                Ok(Order::Follow(new)) => *settings = *new,
                Err(RecvTimeoutError::Timeout) => break,
                Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }
}

fn runs_elsewhere(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Refusal>().is_some_and(|refusal| refusal.exit == Exit::AlreadyRunning)
}

/// Why an engine's time is over.
enum Told {
    Stop,
    /// New settings.
    Follow(Box<AgentSettings>),
    /// The history said that it is corrupt.
    Corrupt,
    /// What we write to is no longer what others read.
    Lost,
}

/// The loop, until there is something to do that is not the engine's. It has finished then, but for a corrupt history.
fn until_told(
    engine: &mut Engine,
    ordered: &Receiver<Order>,
    (agent, place): (&AgentDir, &Place),
    store: &HistoryStorage,
    board: &Board,
    moment: &impl Fn() -> Moment,
) -> Told {
    loop {
        let pause = engine.next().saturating_sub(moment().tick);
        let mut next = match ordered.recv_timeout(pause) {
            Ok(order) => Some(order),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Order::Stop),
        };
        let noticed = Instant::now();
        let mut hints = Vec::new();
        while let Some(order) = next {
            let told = match order {
                Order::Look(hint) => {
                    hints.push(hint);
                    next = ordered.try_recv().ok();
                    continue;
                }
                Order::Follow(settings) => Told::Follow(settings),
                Order::Stop => Told::Stop,
            };
            engine.finish();
            return told;
        }
        // Before anything is written: prompts of hooks are nowhere else.
        if is_lost(agent, store) {
            return Told::Lost;
        }
        let mut is_corrupt = false;
        if !hints.is_empty() {
            let report = engine.handle(hints, moment());
            is_corrupt |= report.is_corrupt();
            if report.tally.added > 0 {
                let lag = u64::try_from(noticed.elapsed().as_millis()).unwrap_or(u64::MAX);
                board.change(|state| state.lag_millis = Some(lag));
            }
        }
        let report = engine.tick(moment());
        is_corrupt |= report.is_corrupt();
        let count = if report.reconciled { Count::Rows } else { Count::Nothing };
        if is_corrupt || tend(place, store, board, count) {
            return Told::Corrupt;
        }
    }
}

/// Whether the history is no longer where others look for it. While its directory is away nothing is made in its place.
fn is_lost(agent: &AgentDir, store: &HistoryStorage) -> bool {
    !store.is_in_place() && agent.root().is_dir() && agent.history_db().parent().is_some_and(Path::is_dir)
}

/// What is to be counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Count {
    Nothing,
    Rows,
}

/// What is to be done with a history beside the engine's work. Returns whether the history said that it is corrupt.
fn tend(place: &Place, store: &HistoryStorage, board: &Board, count: Count) -> bool {
    let taken = take_spooled(place, store);
    let counted = if count == Count::Rows { count_rows(store, board) } else { Ok(()) };
    let mut is_corrupt = false;
    for error in [taken, counted].into_iter().filter_map(Result::err) {
        is_corrupt |= mending::is_corrupt(&error);
        board.problem(&cause::told(&error));
    }
    is_corrupt
}

/// Prompts that hooks told and could not record.
fn take_spooled(place: &Place, store: &HistoryStorage) -> Result<()> {
    let spool = place.spool();
    if spool.waits() {
        spool.drain(store)?;
    }
    Ok(())
}

fn count_rows(store: &HistoryStorage, board: &Board) -> Result<()> {
    let prompts = store.stats()?.prompts;
    board.change(|state| state.rows = Some(prompts));
    Ok(())
}
