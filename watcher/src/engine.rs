//! The loop's work for one agent directory: hints in; prompts, positions and pointers out. It waits for nothing and tells no
//! time by itself; `supervise` drives it.
//!
//! A hint means "look": lost events, rescans, renames and polling take the same way.

mod reading;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use history::HistoryStorage;
use session_core::AgentDir;
use session_core::follow::Position;
use session_core::storage::{DirItem, FileKind, SessionStorage, Stat};

use crate::discover::Filter;
use crate::intake::Attention;
use crate::ledger::Change;
use crate::sinks::history::{self as sink, Tally};
use crate::sinks::pointers::{Knowledge, PointerSink};
use crate::source::{Hint, Source, poll};
use crate::state::Board;
use crate::tails::Tails;
use crate::terminals::Processes;
use crate::watches::{Listing, Standing, Watches};

/// The terminal of a session is looked for at most so often.
const DISCOVERY: Duration = Duration::from_secs(5);

/// A moment: for what is due, and for what is old.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// Time since some fixed moment.
    pub(crate) tick: Duration,
    /// What the clock says.
    pub(crate) clock: SystemTime,
}

/// What is followed, and how.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Directories of session directories.
    pub(crate) roots: Vec<PathBuf>,
    pub(crate) filter: Filter,
    /// How often everything is looked at, whatever events said.
    pub(crate) reconcile: Duration,
}

impl Plan {
    /// A path as seen from the root that it is below.
    fn relative<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        self.roots.iter().find_map(|root| path.strip_prefix(root).ok())
    }

    /// Whether a file is followed.
    fn follows(&self, path: &Path) -> bool {
        self.relative(path).is_some_and(|relative| self.filter.admits(relative))
    }

    /// The session files and the directories that may have some.
    fn sift(&self, items: &[DirItem]) -> Listing {
        let mut listing = Listing::default();
        for DirItem { path, kind } in items {
            let Some(relative) = self.relative(path) else { continue };
            match kind {
                Some(FileKind::File) if self.filter.admits(relative) => listing.files.push(path.as_path().into()),
                Some(FileKind::Directory) if self.filter.enters(relative) => listing.dirs.push(path.as_path().into()),
                None => listing.is_partial |= self.filter.enters(relative),
                _ => {}
            }
        }
        listing
    }
}

/// What one agent directory needs to be followed.
pub(crate) struct Engine {
    plan: Plan,
    attention: Attention,
    storage: Arc<dyn SessionStorage>,
    store: Arc<HistoryStorage>,
    watches: Watches,
    tails: Tails,
    /// Those of them that other settings followed and these do not.
    outside: BTreeSet<Arc<Path>>,
    pointers: PointerSink,
    /// None: terminals of sessions can't be found, or are not to be.
    processes: Option<Processes>,
    /// When a session's terminal was looked for last.
    announced: BTreeMap<PathBuf, Duration>,
    board: Board,
    stop: Arc<AtomicBool>,
    /// Files whose trouble was told, so that each is told once.
    told: BTreeSet<PathBuf>,
    /// Positions that passed no prompt; they wait for a transaction that is needed anyway.
    unsaved: BTreeMap<Arc<Path>, Position>,
    /// Files that can't be read; each reconcile tries again.
    unread: BTreeSet<PathBuf>,
    /// Files whose transaction failed; tried again at the next poll.
    retry: BTreeSet<Arc<Path>>,
    next_reconcile: Duration,
    next_poll: Duration,
}

/// What a step did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) tally: Tally,
    /// Files with news.
    pub(crate) files_read: u64,
    /// What is wrong in files, or could not be done.
    pub(crate) problems: Vec<String>,
    /// Whether everything was looked at.
    pub(crate) reconciled: bool,
    /// What the history said when it did not take something.
    pub(crate) failed: Option<history::Error>,
}

impl Report {
    /// The history did not take something.
    fn fail(&mut self, error: &history::Error) {
        self.problems.push(error.to_string());
        if !self.is_corrupt() {
            self.failed = Some(error.clone());
        }
    }

    /// Whether the history said that it is corrupt; the engine can do no more then.
    pub(crate) fn is_corrupt(&self) -> bool {
        self.failed.as_ref().is_some_and(|error| error.kind() == history::ErrorKind::Corrupt)
    }
}

/// What a pass over directories found.
#[derive(Default)]
struct Found {
    /// In any order; some may be there twice.
    files: Vec<Arc<Path>>,
    is_partial: bool,
}

impl Engine {
    /// Takes up what is known of the agent directory.
    ///
    /// # Errors
    /// What the history said.
    pub(crate) fn new(
        agent: &AgentDir,
        plan: Plan,
        storage: Arc<dyn SessionStorage>,
        store: Arc<HistoryStorage>,
        source: Box<dyn Source>,
        board: Board,
        stop: Arc<AtomicBool>,
    ) -> history::Result<Self> {
        let memory = sink::load(&store)?;
        let tails = Tails::resume(memory.files);
        let outside = tails.paths().filter(|path| !plan.follows(path)).cloned().collect();
        let pointers = PointerSink::new(Arc::clone(&storage), agent.terminal_sessions(), memory.pointers);
        Ok(Self {
            plan,
            attention: Attention::Lasting,
            storage,
            store,
            watches: Watches::new(source),
            tails,
            outside,
            pointers,
            processes: None,
            announced: BTreeMap::new(),
            board,
            stop,
            told: BTreeSet::new(),
            unsaved: BTreeMap::new(),
            unread: BTreeSet::new(),
            retry: BTreeSet::new(),
            next_reconcile: Duration::ZERO,
            next_poll: Duration::ZERO,
        })
    }

    /// There will be one look and no other.
    pub(crate) fn look_once(&mut self) {
        self.attention = Attention::Once;
    }

    /// Sessions' terminals are looked for among these processes.
    pub(crate) fn discover_terminals(&mut self, processes: Processes) {
        self.processes = Some(processes);
    }

    /// Looks everywhere: what is new, what moved, what went.
    pub(crate) fn reconcile(&mut self, now: Moment) -> Report {
        self.next_reconcile = now.tick + self.plan.reconcile;
        let mut report = Report { reconciled: true, ..Report::default() };
        let mut found = Found::default();
        self.watches.begin_pass();
        for root in self.plan.roots.clone() {
            self.scan_root(&root, now, &mut found, &mut report);
        }
        found.files.extend(self.known());
        found.files.extend(self.unread.iter().map(|path| path.as_path().into()));
        found.files.extend(std::mem::take(&mut self.retry));
        self.read(found.files, now, &mut report);
        let is_full = !found.is_partial && self.unread.is_empty() && self.retry.is_empty();
        let is_full = is_full && !self.stop.load(Ordering::Relaxed);
        let knowledge = if is_full { Knowledge::Full } else { Knowledge::Partial };
        report.problems.extend(self.pointers.follow(&self.tails, knowledge, now.clock));
        if knowledge == Knowledge::Full {
            let buried = self.tails.bury();
            self.unsaved.retain(|path, _| !buried.contains(path));
            // There is no trouble left that could be told again.
            self.told.clear();
            let changes: Vec<Change> = buried.into_iter().map(Change::Gone).collect();
            self.record(&changes, &mut report);
        }
        self.save_positions(&mut report);
        self.announced.retain(|_, last| now.tick.saturating_sub(*last) < self.plan.reconcile);
        self.tell(&report);
        report
    }

    /// Looks where hints point.
    pub(crate) fn handle(&mut self, hints: impl IntoIterator<Item = Hint>, now: Moment) -> Report {
        let mut changed = BTreeSet::new();
        for hint in hints {
            match hint {
                Hint::Everything => {
                    self.watches.forget_all();
                    return self.reconcile(now);
                }
                Hint::Changed(path) => {
                    // A directory of that name may have been deleted and made again with the same number: its watch went.
                    self.watches.forget(&path);
                    changed.insert(path);
                }
            }
        }
        let mut report = Report::default();
        let mut found = Found::default();
        for path in changed {
            if self.plan.roots.contains(&path) {
                return self.reconcile(now);
            }
            let Some(relative) = self.plan.relative(&path) else { continue };
            if self.plan.filter.admits(relative) {
                found.files.push(path.into());
            } else if self.plan.filter.enters(relative) {
                self.scan(&path, now, &mut found, &mut report);
                // What was in it has gone with it, or moved.
                found.files.extend(self.known().filter(|file| file.starts_with(&path)));
            }
        }
        self.step(found.files, now, &mut report);
        report
    }

    /// Does what is due by now.
    pub(crate) fn tick(&mut self, now: Moment) -> Report {
        if now.tick >= self.next_reconcile {
            return self.reconcile(now);
        }
        let mut report = Report::default();
        if now.tick >= self.next_poll && self.needs_polling() {
            self.next_poll = now.tick + poll::INTERVAL;
            let mut found = Found { files: std::mem::take(&mut self.retry).into_iter().collect(), ..Found::default() };
            self.watches.begin_pass();
            for dir in self.watches.polled() {
                if self.plan.roots.iter().any(|root| **root == *dir) {
                    self.scan_root(&dir, now, &mut found, &mut report);
                } else if !self.watches.is_looked_into(&dir) {
                    self.scan(&dir, now, &mut found, &mut report);
                }
            }
            self.step(found.files, now, &mut report);
        }
        report
    }

    /// When [`tick`](Self::tick) has something to do next.
    pub(crate) fn next(&self) -> Duration {
        if self.needs_polling() { self.next_reconcile.min(self.next_poll) } else { self.next_reconcile }
    }

    /// Before the end: what waits for a transaction gets one.
    pub(crate) fn finish(&mut self) {
        let mut report = Report::default();
        self.save_positions(&mut report);
        self.tell(&report);
    }

    /// Files that are known and may have news, or be gone. Those that are not to be followed any more are not read on.
    fn known(&self) -> impl Iterator<Item = Arc<Path>> {
        let is_there = |path: &Path| self.storage.exists(path).unwrap_or(true);
        self.tails.paths().filter(move |path| !self.outside.contains(*path) || !is_there(path)).cloned()
    }

    fn needs_polling(&self) -> bool {
        !self.retry.is_empty() || self.watches.polls()
    }

    /// One way for everything that is not a full reconcile.
    fn step(&mut self, files: Vec<Arc<Path>>, now: Moment, report: &mut Report) {
        let has_moves = self.read(files, now, report);
        if has_moves {
            report.problems.extend(self.pointers.follow(&self.tails, Knowledge::Partial, now.clock));
        }
        self.tell(report);
    }

    /// A directory of session directories. While it is not there its parent is watched: it may appear.
    fn scan_root(&mut self, root: &Path, now: Moment, found: &mut Found, report: &mut Report) {
        let parent = root.parent().map(Path::to_owned);
        if !self.follow(root, found, report) {
            found.is_partial = true;
            if let Some(parent) = parent {
                self.follow(&parent, &mut Found::default(), report);
            }
            // It may have appeared between the two looks.
            if !self.follow(root, found, report) {
                let is_else = |stat: Option<Stat>| stat.is_some_and(|stat| stat.kind != FileKind::Directory);
                if self.storage.stat(root).is_ok_and(is_else) {
                    let message =
                        format!("{}: this is no directory, and sessions are looked for in it", root.display());
                    self.trouble(root, &message, found, report);
                }
                return;
            }
        }
        if let Some(parent) = root.parent().filter(|parent| !self.plan.roots.iter().any(|root| root == parent)) {
            self.watches.forget(parent);
        }
        self.scan(root, now, found, report);
        self.watches.retain_looked_into(root);
    }

    /// Watches a directory and adds its session files, and those of directories in it where there may be some.
    fn scan(&mut self, dir: &Path, now: Moment, found: &mut Found, report: &mut Report) {
        let mut dirs: Vec<Arc<Path>> = vec![dir.into()];
        while let Some(dir) = dirs.pop() {
            if !self.follow(&dir, found, report) {
                continue;
            }
            let plan = &self.plan;
            match self.watches.list(self.storage.as_ref(), &dir, now.tick, |items| plan.sift(items)) {
                Ok(Some(listing)) => {
                    found.files.extend(listing.files.iter().cloned());
                    // In the order of their names, one after the other.
                    dirs.extend(listing.dirs.iter().rev().cloned());
                    found.is_partial |= listing.is_partial;
                }
                Ok(None) => {}
                Err(error) => self.trouble(&dir, &error.to_string(), found, report),
            }
        }
    }

    /// Whether the directory is there and looked into under this name.
    fn follow(&mut self, dir: &Path, found: &mut Found, report: &mut Report) -> bool {
        match self.watches.follow(self.storage.as_ref(), dir) {
            Ok(standing) => standing == Standing::Followed,
            Err(error) => {
                self.trouble(dir, &error.to_string(), found, report);
                false
            }
        }
    }

    fn trouble(&mut self, path: &Path, message: &str, found: &mut Found, report: &mut Report) {
        found.is_partial = true;
        if self.told.insert(path.to_owned()) {
            report.problems.push(message.to_owned());
        }
    }

    fn save_positions(&mut self, report: &mut Report) {
        let unsaved = std::mem::take(&mut self.unsaved).into_iter();
        let changes: Vec<Change> = unsaved.map(|(path, position)| Change::Read(path, Box::new(position))).collect();
        self.record(&changes, report);
    }

    fn record(&self, changes: &[Change], report: &mut Report) {
        for changes in changes.chunks(500) {
            if let Err(error) = sink::record(&self.store, changes.to_vec()) {
                // Positions that are not stored cost a second reading and nothing else.
                report.fail(&error);
            }
        }
    }

    /// A session is being written: its terminal's pointer may be ours to write.
    fn announce(&mut self, path: &Path, now: Moment, report: &mut Report) {
        let Some(processes) = &self.processes else { return };
        let is_due = self.announced.get(path).is_none_or(|last| now.tick.saturating_sub(*last) >= DISCOVERY);
        let Some(tail) = self.tails.get(path).filter(|_| is_due) else { return };
        let (Some(identity), Some(cwd)) = (tail.identity(), tail.cwd()) else { return };
        self.announced.insert(path.to_owned(), now.tick);
        let Some(terminal) = processes.terminal_of(identity, |file| self.tails.path_of(file).is_some()) else { return };
        match self.pointers.announce(&terminal, cwd, path) {
            Ok(change) => self.record(change.as_slice(), report),
            Err(error) => report.problems.push(error.to_string()),
        }
    }

    fn tell(&mut self, report: &Report) {
        for problem in &report.problems {
            self.board.problem(problem);
        }
        for reason in self.watches.news() {
            tracing::warn!("{reason}: polling instead");
            self.board.change(|state| state.polling_reason = Some(reason));
        }
        let polled = if self.watches.polls() { self.watches.polled().len() as u64 } else { 0 };
        let (directories, files) = (self.watches.len() as u64, self.tails.len() as u64);
        self.board.change(|state| {
            state.directories = directories;
            state.files = files;
            state.polled = polled;
        });
    }
}

#[cfg(test)]
mod tests;
