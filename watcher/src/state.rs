//! What a watcher tells about itself: a small file that it replaces when there are news and touches at each beat, and that
//! `status` reads.
//!
//! Heartbeat and progress are two things: a watcher whose history is stuck still beats.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};
use serde::{Deserialize, Serialize};
use session_core::Timestamp;

use crate::place::Place;

/// A beat without news.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(10);
/// News are collected for so long before they are written.
const COLLECT: Duration = Duration::from_millis(300);
/// Work that takes longer than this is stuck.
const STALLED: Duration = Duration::from_secs(15);
/// A watcher that did not beat for so long hangs, or the machine slept.
const SILENT: Duration = Duration::from_secs(35);

/// Milliseconds since 1970.
type Millis = i64;

/// What is told. Times are milliseconds since 1970.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct State {
    pub(crate) pid: u32,
    pub(crate) version: String,
    pub(crate) started: Millis,
    /// The process was alive then.
    pub(crate) heartbeat: Millis,
    /// Work was finished then: a look, a transaction.
    pub(crate) progress: Millis,
    /// Work that is under way began then; none when there is nothing to do.
    pub(crate) working_since: Option<Millis>,
    /// The first sync is done and changes are followed.
    pub(crate) following: bool,
    pub(crate) directories: u64,
    pub(crate) files: u64,
    /// Files with news that this process read.
    pub(crate) read: u64,
    /// Prompts that this process added.
    pub(crate) added: u64,
    /// Rows of the history when it was last counted.
    pub(crate) rows: Option<u64>,
    /// How long the latest prompt took from being noticed to being committed.
    pub(crate) lag_millis: Option<u64>,
    /// Directories that are polled, and why.
    pub(crate) polled: u64,
    pub(crate) polling_reason: Option<String>,
    /// Whether sessions' terminals can be found, else why not.
    pub(crate) pointer_discovery: Option<String>,
    pub(crate) last_problem: Option<Problem>,
}

/// Something that went wrong and was survived.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub(crate) struct Problem {
    pub(crate) at: Millis,
    pub(crate) message: String,
}

/// How a watcher is, judged from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Condition {
    /// Nothing runs.
    Stopped,
    /// It reads what is there.
    Syncing,
    /// All is read; changes are followed.
    Watching,
    /// It is alive and its work does not go on.
    Stalled,
    /// It runs and gives no sign of life.
    Silent,
}

impl Condition {
    /// Judges a state; `is_running` says whether its process holds the lock.
    pub(crate) fn of(state: &State, is_running: bool, now: Millis) -> Self {
        let past = |since: Millis, limit: Duration| {
            u128::try_from(now.saturating_sub(since)).is_ok_and(|ms| ms > limit.as_millis())
        };
        match () {
            () if !is_running => Self::Stopped,
            () if past(state.heartbeat, SILENT) => Self::Silent,
            // What goes on in steps makes progress between them.
            () if state.working_since.is_some_and(|since| past(since.max(state.progress), STALLED)) => Self::Stalled,
            () if state.following => Self::Watching,
            () => Self::Syncing,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Syncing => "syncing",
            Self::Watching => "watching",
            Self::Stalled => "stalled",
            Self::Silent => "silent",
        }
    }
}

/// Reads what the last watcher told; none when there was none, or what it left can't be read.
pub(crate) fn read(place: &Place) -> Option<State> {
    let mut file = File::open(place.state_file()).ok()?;
    let mut text = Vec::new();
    file.read_to_end(&mut text).ok()?;
    let mut state: State = serde_json::from_slice(&text).ok()?;
    if let Ok(beat) = file.metadata().and_then(|metadata| metadata.modified()) {
        state.heartbeat = state.heartbeat.max(Timestamp::from_system(beat).millis());
    }
    Some(state)
}

pub(crate) fn now() -> Millis {
    Timestamp::from_system(SystemTime::now()).millis()
}

/// The state of this process, shared by those who change it and the thread that writes it.
#[derive(Clone, Debug)]
pub(crate) struct Board(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    inner: Mutex<Inner>,
    news: Condvar,
}

#[derive(Debug)]
struct Inner {
    state: State,
    is_new: bool,
    closing: bool,
}

impl Board {
    pub(crate) fn new() -> Self {
        let now = now();
        let state = State {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: now,
            heartbeat: now,
            progress: now,
            ..State::default()
        };
        let inner = Mutex::new(Inner { state, is_new: true, closing: false });
        Self(Arc::new(Shared { inner, news: Condvar::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state; it is written soon.
    pub(crate) fn change(&self, change: impl FnOnce(&mut State)) {
        let mut inner = self.lock();
        let before = inner.state.clone();
        change(&mut inner.state);
        if inner.state == before {
            return;
        }
        // The writer wakes for the first of the news and takes the others along.
        if !std::mem::replace(&mut inner.is_new, true) {
            self.0.news.notify_all();
        }
    }

    pub(crate) fn problem(&self, message: &str) {
        tracing::warn!("{message}");
        self.change(|state| state.last_problem = Some(Problem { at: now(), message: message.to_owned() }));
    }

    /// Work begins, or goes on.
    pub(crate) fn working(&self, change: impl FnOnce(&mut State)) {
        let now = now();
        self.change(|state| {
            change(state);
            state.progress = now;
            state.working_since.get_or_insert(now);
        });
    }

    /// Nothing is left to do.
    pub(crate) fn idle(&self) {
        self.change(|state| {
            state.progress = now();
            state.working_since = None;
        });
    }

    pub(crate) fn state(&self) -> State {
        self.lock().state.clone()
    }

    /// Writes the state whenever there are news and at each beat, on a thread of its own, until [`close`](Self::close).
    pub(crate) fn publish(&self, place: Place) -> JoinHandle<()> {
        let board = self.clone();
        std::thread::spawn(move || {
            // News that could not be written: the disk may be full.
            let mut is_owed = false;
            loop {
                let mut inner = board.lock();
                if !inner.is_new && !inner.closing {
                    let beat = |inner: &mut Inner| !inner.is_new && !inner.closing;
                    let waited = board.0.news.wait_timeout_while(inner, HEARTBEAT, beat);
                    inner = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                let closing = inner.closing;
                let has_news = std::mem::take(&mut inner.is_new) || closing;
                inner.state.heartbeat = now();
                let state = inner.state.clone();
                drop(inner);
                let path = place.state_file();
                let told = tell(&path, &state, has_news || is_owed);
                is_owed = told.is_err();
                if let Err(error) = told {
                    tracing::debug!(%error, "the state file can't be written");
                }
                if closing {
                    return;
                }
                if !has_news {
                    continue;
                }
                let inner = board.lock();
                let pause = board.0.news.wait_timeout_while(inner, COLLECT, |inner| !inner.closing);
                drop(pause);
            }
        })
    }

    /// The last state is written and the thread ends.
    pub(crate) fn close(&self) {
        self.lock().closing = true;
        self.0.news.notify_all();
    }
}

/// Writes news; without any it touches the file: one that was replaced goes to the disk at once on many file systems, too much
/// for saying that we live. That is said also when the news can't be written.
fn tell(path: &Path, state: &State, has_news: bool) -> std::io::Result<()> {
    if has_news {
        write(path, state).inspect_err(|_| drop(touch(path)))
    } else {
        touch(path).or_else(|_| write(path, state))
    }
}

/// A beat without news is the file's time.
fn touch(path: &Path) -> std::io::Result<()> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    Ok(utimensat(CWD, path, &Timestamps { last_access: now, last_modification: now }, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Replaces the file at once. Not synced: after a power cut nothing runs that it could tell of.
fn write(path: &Path, state: &State) -> std::io::Result<()> {
    let fresh = path.with_extension("json.new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(&serde_json::to_vec(state)?)?;
    drop(file);
    fs::rename(&fresh, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watcher_that_beats_without_progress_is_stalled() {
        // K54
        let state = State { heartbeat: 100_000, progress: 80_000, following: true, ..State::default() };
        let judge = |state: &State| Condition::of(state, true, 101_000);
        assert_eq!(judge(&state), Condition::Watching, "nothing to do is no stall");
        let stuck = State { working_since: Some(70_000), ..state.clone() };
        assert_eq!(judge(&stuck), Condition::Stalled);
        assert_eq!(judge(&State { progress: 99_000, ..stuck.clone() }), Condition::Watching, "long work in steps");
        assert_eq!(judge(&State { following: false, ..state.clone() }), Condition::Syncing);
        assert_eq!(judge(&State { heartbeat: 50_000, ..state.clone() }), Condition::Silent);
        assert_eq!(Condition::of(&stuck, false, 101_000), Condition::Stopped);
    }

    #[test]
    fn a_beat_without_news_is_the_file_s_time() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::of(&session_core::AgentDir::at(dir.path()).unwrap());
        let _running = place.lock(Timestamp::from_millis(0).unwrap()).unwrap();
        let path = place.state_file();
        assert!(touch(&path).is_err());
        write(&path, &State { heartbeat: 5, files: 7, ..State::default() }).unwrap();
        let long_ago = std::time::UNIX_EPOCH + Duration::from_secs(60);
        File::options().append(true).open(&path).unwrap().set_modified(long_ago).unwrap();
        let told = read(&place).unwrap();
        assert_eq!((told.heartbeat, told.files), (60_000, 7));
        touch(&path).unwrap();
        assert!(read(&place).unwrap().heartbeat > 60_000);

        // News that can't be written are no reason not to beat.
        File::options().append(true).open(&path).unwrap().set_modified(long_ago).unwrap();
        fs::create_dir(path.with_extension("json.new")).unwrap();
        assert!(tell(&path, &State { files: 8, ..State::default() }, true).is_err());
        let told = read(&place).unwrap();
        assert!(told.heartbeat > 60_000 && told.files == 7);
    }

    #[test]
    fn what_is_published_is_read_back_and_private() {
        // [D10]
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let place = Place::of(&session_core::AgentDir::at(dir.path()).unwrap());
        let _running = place.lock(Timestamp::from_millis(0).unwrap()).unwrap();
        let board = Board::new();
        let thread = board.publish(place.clone());
        board.change(|state| state.files = 7);
        board.close();
        thread.join().unwrap();
        assert_eq!(read(&place).unwrap().files, 7);
        assert_eq!(fs::metadata(place.state_file()).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(place.state_file().parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
    }
}
