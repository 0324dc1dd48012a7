//! From files that may have changed to rows and positions: which of them have news, looks at those on as many threads as the
//! machine has cores, and one commit of all that they brought.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use session_core::Result;
use session_core::follow::{Buffer, Position, Transition};
use session_core::storage::{FileIdentity, Stat};

use super::{Engine, Moment, Report};
use crate::intake::{Look, Tail};
use crate::sinks::history as sink;

/// Prompts that are held before they are written; a first sync sorts at least so much by time.
const GATHERED_BYTES: usize = 256 * 1024 * 1024;
/// What is looked at together: so many bytes that were not read yet, and so many files.
const TOGETHER_BYTES: u64 = 256 * 1024 * 1024;
const TOGETHER_FILES: usize = 1024;
/// Looking at less than this on several threads would cost more than it saves.
const WORTH_THREADS: u64 = 4 * 1024 * 1024;
const MOST_THREADS: usize = 4;

impl Engine {
    /// Looks at files and writes what they brought. Returns whether files appeared, moved or went.
    pub(super) fn read(&mut self, mut files: Vec<Arc<Path>>, now: Moment, report: &mut Report) -> bool {
        // Of a full look they come as two sorted runs of the same files, which costs little more than a comparison each.
        files.sort();
        files.dedup();
        let mut has_moves = false;
        let mut looked = Vec::new();
        for path in files {
            let stat = self.storage.stat(&path).ok().flatten();
            if self.is_unchanged(&path, stat.as_ref(), now) {
                continue;
            }
            if let Some(stat) = &stat {
                has_moves |= self.take_over(&path, stat.identity);
            }
            looked.push((path, stat));
        }
        let mut gathered = Gathered::default();
        let mut due = Due::default();
        for (path, stat) in looked {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            // It may have taken over another file's position.
            if self.is_unchanged(&path, stat.as_ref(), now) {
                continue;
            }
            let (path, tail) = self.tails.take(&path).unwrap_or_else(|| (path, Tail::default()));
            let before = tail.identity().map(|_| Box::new(tail.position().clone()));
            due.add(DueFile { path, tail, before }, stat.as_ref());
            if due.is_enough() {
                has_moves |= self.look(std::mem::take(&mut due), now, &mut gathered, report);
                if gathered.bytes > GATHERED_BYTES {
                    self.commit(std::mem::take(&mut gathered), now, report);
                }
            }
        }
        has_moves |= self.look(due, now, &mut gathered, report);
        self.commit(gathered, now, report);
        has_moves
    }

    /// Whether this is the file that is followed under this name, and nothing in it is new: then there is no doubt about it.
    fn is_unchanged(&mut self, path: &Path, stat: Option<&Stat>, now: Moment) -> bool {
        let (Some(tail), Some(stat)) = (self.tails.get(path), stat) else { return false };
        let is_unchanged = !tail.has_news(stat, now.clock, self.attention);
        if is_unchanged {
            self.unread.remove(path);
            self.tails.appear(path);
        }
        is_unchanged
    }

    /// When a file that is followed has this name now, reading goes on under it. Returns whether that is so.
    fn take_over(&mut self, path: &Path, identity: FileIdentity) -> bool {
        let is = |tail: Option<&Tail>| tail.is_some_and(|tail| tail.identity() == Some(identity));
        if is(self.tails.get(path)) {
            return false;
        }
        let Some(old) = self.tails.path_of(identity).map(Path::to_owned).filter(|old| old != path) else {
            return false;
        };
        let is_there = self.storage.identity(&old).is_ok_and(|at_old| at_old == Some(identity));
        // Of files that change places, the first to be looked at takes the other's name: that one is read again.
        if is_there || !is(self.tails.get(&old)) {
            return false;
        }
        let path: Arc<Path> = path.into();
        self.tails.rename(&old, &path);
        if let Some(position) = self.tails.get(&path).map(|tail| tail.position().clone()) {
            self.unsaved.insert(path, position);
        }
        true
    }

    /// Looks at files and gathers what they bring. Returns whether files appeared, moved or went.
    fn look(&mut self, due: Due, now: Moment, gathered: &mut Gathered, report: &mut Report) -> bool {
        let mut has_moves = false;
        for Looked { file: DueFile { path, tail, before }, look } in self.look_together(due, now) {
            match look {
                Ok(look) => {
                    self.unread.remove(path.as_ref());
                    self.tails.put(&path, tail);
                    match look {
                        Some(look) if look.transition == Some(Transition::Deleted) => {
                            self.tails.vanish(&path);
                            self.told.remove(path.as_ref());
                            has_moves = true;
                        }
                        Some(look) => {
                            self.tails.appear(&path);
                            has_moves |= look.transition.is_some_and(Transition::is_from_the_beginning);
                            report.files_read += 1;
                            report.problems.extend(look.problem());
                            gathered.add(path, before, look);
                        }
                        None if before.is_none() => self.tails.roll_back(&path, None),
                        None => self.tails.appear(&path),
                    }
                }
                Err(error) => {
                    self.tails.roll_back(&path, before);
                    self.unread.insert(path.to_path_buf());
                    if self.told.insert(path.to_path_buf()) {
                        report.problems.push(error.to_string());
                    }
                }
            }
        }
        has_moves
    }

    /// Looks at files, each by one thread. Once the engine is to stop, nothing is found in the rest of them.
    fn look_together(&self, due: Due, now: Moment) -> Vec<Looked> {
        let (storage, board, stop, attention) = (self.storage.as_ref(), &self.board, &self.stop, self.attention);
        let look_at = |mut file: DueFile, buffer: &mut Buffer| {
            let is_stopping = stop.load(Ordering::Relaxed);
            let mut look = || file.tail.look(storage, &file.path, now.clock, attention, buffer);
            let look = if is_stopping { Ok(None) } else { look() };
            if matches!(&look, Ok(Some(look)) if look.transition != Some(Transition::Deleted)) {
                board.working(|state| state.read += 1);
            }
            Looked { file, look }
        };
        let cores = || thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let threads = if due.bytes < WORTH_THREADS { 1 } else { cores().min(MOST_THREADS).min(due.files.len()) };
        if threads <= 1 {
            let mut buffer = Buffer::default();
            return due.files.into_iter().map(|file| look_at(file, &mut buffer)).collect();
        }
        let queue = Mutex::new(due.files.into_iter().enumerate());
        let look_at_some = || {
            let mut buffer = Buffer::default();
            let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            std::iter::from_fn(next).map(|(n, file)| (n, look_at(file, &mut buffer))).collect::<Vec<_>>()
        };
        let mut looked = thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(look_at_some)).collect();
            let mut looked = look_at_some();
            for other in others {
                match other.join() {
                    Ok(some) => looked.extend(some),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            looked
        });
        looked.sort_unstable_by_key(|(n, _)| *n);
        looked.into_iter().map(|(_, looked)| looked).collect()
    }

    fn commit(&mut self, gathered: Gathered, now: Moment, report: &mut Report) {
        let Gathered { looks, mut before, written, .. } = gathered;
        if looks.is_empty() {
            return;
        }
        if looks.iter().all(|(_, look)| look.prompts.is_empty()) {
            self.unsaved.extend(looks.into_iter().map(|(path, look)| (path, look.position)));
        } else {
            let waiting = std::mem::take(&mut self.unsaved).into_iter();
            let waiting = waiting.filter(|(path, _)| !before.contains_key(path));
            let looks = waiting.map(|(path, position)| (path, Look { position, ..Look::default() })).chain(looks);
            let (board, tally) = (&self.board, &mut report.tally);
            let committed = sink::commit(&self.store, looks.collect(), &self.stop, |finished, done| {
                for path in &finished {
                    before.remove(path);
                }
                tally.add(done);
                board.working(|state| state.added += done.added);
            });
            if let Err(error) = committed {
                report.fail(&error);
                for (path, position) in before {
                    self.tails.roll_back(&path, position);
                    self.retry.insert(path);
                }
            }
        }
        for path in written {
            self.announce(&path, now, report);
        }
        self.board.idle();
    }
}

/// Files that are to be looked at together.
#[derive(Default)]
struct Due {
    files: Vec<DueFile>,
    /// What was not read of them yet.
    bytes: u64,
}

struct DueFile {
    path: Arc<Path>,
    tail: Tail,
    /// Where reading begins: what to go back to when reading or writing fails. None: the file was never seen.
    before: Option<Box<Position>>,
}

struct Looked {
    file: DueFile,
    look: Result<Option<Look>>,
}

impl Due {
    fn add(&mut self, file: DueFile, stat: Option<&Stat>) {
        let read = file.before.as_ref().map_or(0, |position| position.offset());
        self.bytes += stat.map_or(0, |stat| stat.len.saturating_sub(read));
        self.files.push(file);
    }

    fn is_enough(&self) -> bool {
        self.bytes > TOGETHER_BYTES || self.files.len() >= TOGETHER_FILES
    }
}

/// What looks brought, before it is written.
#[derive(Default)]
struct Gathered {
    looks: Vec<(Arc<Path>, Look)>,
    /// Where reading began: what to go back to when writing fails.
    before: BTreeMap<Arc<Path>, Option<Box<Position>>>,
    /// Files that are being written.
    written: Vec<Arc<Path>>,
    bytes: usize,
}

impl Gathered {
    fn add(&mut self, path: Arc<Path>, before: Option<Box<Position>>, look: Look) {
        self.bytes += look.prompts.iter().map(|prompt| prompt.text.len()).sum::<usize>();
        self.before.insert(Arc::clone(&path), before);
        if look.has_news && look.is_fresh {
            self.written.push(Arc::clone(&path));
        }
        self.looks.push((path, look));
    }
}
