//! The loop's work for one agent directory: hints in, prompts and positions out. It waits for nothing and tells no time
//! by itself; `supervise` drives it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use history::HistoryStorage;
use session_core::AgentDir;
use session_core::storage::SessionStorage;

use crate::discover;
use crate::intake::{self, Look};
use crate::ledger::Known;
use crate::sinks::history::{self as sink, Tally};
use crate::source::{Coverage, Hint, Source};
use crate::state::Board;

/// How often everything is looked at, whatever events said.
pub(crate) const RECONCILE: Duration = Duration::from_secs(60);
/// How often directories without events are looked at.
pub(crate) const POLL: Duration = Duration::from_secs(2);

/// Time since some fixed moment; handed in.
pub(crate) type Tick = Duration;

/// What one agent directory needs to be followed.
pub(crate) struct Engine {
    agent: AgentDir,
    storage: Arc<dyn SessionStorage>,
    store: Arc<HistoryStorage>,
    source: Box<dyn Source>,
    board: Board,
    stop: Arc<AtomicBool>,
    /// Session directories that were seen, and whether events come for them.
    dirs: BTreeMap<PathBuf, Coverage>,
    /// How far each file was read, as committed.
    files: BTreeMap<PathBuf, Known>,
    /// Files with problems that were told, so that each is told once.
    told: BTreeSet<PathBuf>,
    next_reconcile: Tick,
    next_poll: Tick,
    /// Files whose look or transaction failed; tried again at the next poll.
    retry: BTreeSet<PathBuf>,
}

/// What a step did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) tally: Tally,
    pub(crate) files_read: u64,
    /// What is wrong in files, or could not be done.
    pub(crate) problems: Vec<String>,
}

impl Engine {
    /// Opens what is known of the agent directory.
    ///
    /// # Errors
    /// What the history said.
    pub(crate) fn new(
        agent: AgentDir,
        storage: Arc<dyn SessionStorage>,
        store: Arc<HistoryStorage>,
        source: Box<dyn Source>,
        board: Board,
        stop: Arc<AtomicBool>,
    ) -> history::Result<Self> {
        let files = sink::load(&store)?;
        Ok(Self {
            agent,
            storage,
            store,
            source,
            board,
            stop,
            dirs: BTreeMap::new(),
            files,
            told: BTreeSet::new(),
            next_reconcile: Duration::ZERO,
            next_poll: Duration::ZERO,
            retry: BTreeSet::new(),
        })
    }

    /// Looks everywhere: what is new, what went.
    pub(crate) fn reconcile(&mut self, now: Tick) -> Report {
        self.next_reconcile = now + RECONCILE;
        let mut report = Report::default();
        let sessions = self.agent.sessions();
        let mut paths = Vec::new();
        match self.storage.stat(&sessions) {
            Ok(Some(_)) => {
                self.watch(&sessions);
                if let Some(parent) = sessions.parent() {
                    self.source.forget(parent);
                    self.dirs.remove(parent);
                }
            }
            Ok(None) => {
                // It may appear: until then its parent is watched.
                if let Some(parent) = sessions.parent().map(Path::to_owned) {
                    self.watch(&parent);
                }
                self.source.forget(&sessions);
            }
            Err(error) => report.problems.push(error.to_string()),
        }
        match discover::dirs(self.storage.as_ref(), &sessions) {
            Ok(dirs) => {
                let gone: Vec<PathBuf> = self
                    .dirs
                    .keys()
                    .filter(|dir| dir.starts_with(&sessions) && **dir != sessions && !dirs.contains(dir))
                    .cloned()
                    .collect();
                for dir in gone {
                    self.source.forget(&dir);
                    self.dirs.remove(&dir);
                }
                for dir in dirs {
                    self.scan(&dir, &mut paths, &mut report);
                }
            }
            Err(error) => report.problems.push(error.to_string()),
        }
        paths.extend(std::mem::take(&mut self.retry));
        self.read(paths, &mut report);
        self.tell(&report);
        report
    }

    /// Looks where hints point.
    pub(crate) fn handle(&mut self, hints: impl IntoIterator<Item = Hint>, now: Tick) -> Report {
        let mut changed = BTreeSet::new();
        for hint in hints {
            match hint {
                Hint::Everything => return self.reconcile(now),
                Hint::Changed(path) => {
                    changed.insert(path);
                }
            }
        }
        let mut report = Report::default();
        let sessions = self.agent.sessions();
        let mut paths = Vec::new();
        for path in changed {
            if path == sessions {
                return self.reconcile(now);
            }
            let Ok(below) = path.strip_prefix(&sessions) else { continue };
            match below.components().count() {
                1 => self.scan(&path, &mut paths, &mut report),
                2 if discover::is_session_name(&path) => paths.push(path),
                _ => {}
            }
        }
        self.read(paths, &mut report);
        self.tell(&report);
        report
    }

    /// Does what is due by now.
    pub(crate) fn tick(&mut self, now: Tick) -> Report {
        if now >= self.next_reconcile {
            return self.reconcile(now);
        }
        let mut report = Report::default();
        if now >= self.next_poll && self.needs_polling() {
            self.next_poll = now + POLL;
            let mut paths: Vec<PathBuf> = std::mem::take(&mut self.retry).into_iter().collect();
            let polled: Vec<PathBuf> = self
                .dirs
                .iter()
                .filter(|(_, coverage)| **coverage != Coverage::Events)
                .map(|(dir, _)| dir.clone())
                .collect();
            for dir in polled {
                self.scan(&dir, &mut paths, &mut report);
            }
            self.read(paths, &mut report);
            self.tell(&report);
        }
        report
    }

    /// When [`tick`](Self::tick) has something to do next.
    pub(crate) fn next(&self) -> Tick {
        if self.needs_polling() { self.next_reconcile.min(self.next_poll) } else { self.next_reconcile }
    }

    fn needs_polling(&self) -> bool {
        !self.retry.is_empty() || self.dirs.values().any(|coverage| *coverage != Coverage::Events)
    }

    /// Watches a directory and adds its session files. The watch comes first: what appears in between is seen by one.
    fn scan(&mut self, dir: &Path, paths: &mut Vec<PathBuf>, report: &mut Report) {
        match self.storage.stat(dir) {
            Ok(Some(_)) => self.watch(dir),
            Ok(None) => {
                self.source.forget(dir);
                self.dirs.remove(dir);
                return;
            }
            Err(error) => report.problems.push(error.to_string()),
        }
        match discover::files(self.storage.as_ref(), dir) {
            Ok(files) => paths.extend(files),
            Err(error) => report.problems.push(error.to_string()),
        }
    }

    fn watch(&mut self, dir: &Path) {
        if self.dirs.get(dir) == Some(&Coverage::Events) {
            return;
        }
        let coverage = self.source.watch(dir);
        if let Coverage::Polling(reason) = &coverage {
            let state = self.board.state();
            if state.polling_reason.as_ref() != Some(reason) {
                tracing::warn!("{reason}: polling instead, {} first", dir.display());
                self.board.change(|state| state.polling_reason = Some(reason.clone()));
            }
        }
        self.dirs.insert(dir.to_owned(), coverage);
    }

    fn read(&mut self, paths: Vec<PathBuf>, report: &mut Report) {
        let mut looks: Vec<(PathBuf, Look)> = Vec::new();
        for path in paths {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let position = self.files.get(&path).map(|known| known.position.as_str());
            match intake::look(&self.storage, &path, position) {
                Ok(Some(look)) => {
                    self.board.working(|state| state.read += 1);
                    report.files_read += 1;
                    if let Some((count, first)) = &look.defects
                        && self.told.insert(path.clone())
                    {
                        let more = if *count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
                        report.problems.push(format!("{first}{more}"));
                    }
                    looks.push((path, look));
                }
                Ok(None) => {}
                Err(error) => {
                    if self.told.insert(path.clone()) {
                        report.problems.push(error.to_string());
                    }
                }
            }
        }
        if looks.is_empty() {
            return;
        }
        let left: Vec<PathBuf> = looks.iter().map(|(path, _)| path.clone()).collect();
        let (files, board) = (&mut self.files, &self.board);
        let committed = sink::commit(&self.store, looks, &self.stop, |finished, tally| {
            files.extend(finished);
            report.tally.add(tally);
            board.working(|state| state.added += tally.added);
        });
        if let Err(error) = committed {
            report.problems.push(error.to_string());
            self.retry.extend(left);
        }
        self.board.idle();
    }

    fn tell(&self, report: &Report) {
        for problem in &report.problems {
            self.board.problem(problem);
        }
        let polled = self.dirs.values().filter(|coverage| **coverage != Coverage::Events).count() as u64;
        let (directories, files) = (self.dirs.len() as u64, self.files.len() as u64);
        self.board.change(|state| {
            state.directories = directories;
            state.files = files;
            state.polled = polled;
        });
    }
}
