//! Prompts that were heard of and are not in the history yet: lines in a private file, whoever comes next takes them over.
//!
//! Three steps, each safe to be cut short. *Append*: one line in one write, under a shared lock. *Claim*: the file is renamed,
//! so that what is appended meanwhile goes to a new one. *Record*: once nobody appends to the claim any more, its prompts and
//! their ids go into the history in one transaction, then the claim is removed. A claim that is met again, or by two at once,
//! is gone through again, and ids that the history knows are passed over: each prompt is recorded once. So nobody waits for
//! somebody else who takes over: whoever gets the history first records all there is.
//!
//! Nothing is forced to the medium: an appended prompt survives the death of every process, and not the loss of power. It
//! judges no prompts; that is the history's.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, bail};
use history::{ErrorKind, HistoryStorage, Recorded, Submission};
use serde::{Deserialize, Serialize};

/// Prompts in one transaction.
const AT_ONCE: usize = 100;
/// Ids are remembered for so long (seconds): a file system that lost its last renames may show a claim again.
const REMEMBERED: i64 = 30 * 24 * 3600;
/// A file may be claimed so often under a writer's hands, and a batch be recorded in part by others meanwhile.
const MOST_TRIES: usize = 100;
/// A line takes an instant; who takes longer was stopped in the middle of it, and is not waited for.
const INSTANT: Duration = Duration::from_millis(100);

const TABLE: &str = "CREATE TABLE IF NOT EXISTS watcher_heard(id TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID";

/// The directory of the file and its claims.
#[derive(Clone, Debug)]
pub(crate) struct Spool {
    dir: PathBuf,
}

/// A prompt that was heard of: a line of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Heard {
    /// What makes it the same when it is met again.
    pub(crate) id: String,
    /// Seconds since 1970.
    pub(crate) at: i64,
    pub(crate) prompt: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cwd: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<String>,
}

/// The turn of the one process that takes over for hooks; the kernel ends it with the process.
#[derive(Debug)]
pub(crate) struct Turn {
    _lock: File,
}

/// What became of what was there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Drained {
    /// New in the history.
    pub(crate) added: usize,
    /// There already, under any name, or not to be recorded.
    pub(crate) known: usize,
    /// Lines that are none, kept in `unreadable`.
    pub(crate) unreadable: usize,
}

impl Drained {
    /// Whether nothing was there to take over.
    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

impl Spool {
    pub(crate) fn at(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    fn file(&self) -> PathBuf {
        self.dir.join("prompts")
    }

    /// Whether any hook was ever here.
    pub(crate) fn is_there(&self) -> bool {
        self.dir.is_dir()
    }

    /// Whether something waits.
    pub(crate) fn waits(&self) -> bool {
        let size = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
        size(&self.file()) > 0 || !self.claims().is_empty()
    }

    /// Adds a prompt. It is with the kernel when this returns.
    ///
    /// # Errors
    /// What the file system said. A line that was cut short harms no other.
    pub(crate) fn append(&self, heard: &Heard) -> Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir).with_context(|| self.shown())?;
        // The line end before it closes a line that somebody could not finish.
        let line = format!("\n{}\n", serde_json::to_string(heard)?);
        let path = self.file();
        for _ in 0..MOST_TRIES {
            let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
            match file.try_lock_shared() {
                // Claimed in this moment: the next look finds a new file.
                Err(TryLockError::WouldBlock) => continue,
                Err(TryLockError::Error(error)) => return Err(error).with_context(|| self.shown()),
                Ok(()) => {}
            }
            if is_at(&file, &path)? {
                let written = file.write(line.as_bytes()).with_context(|| self.shown())?;
                if written < line.len() {
                    bail!("{}: only {written} of {} bytes could be written", self.shown(), line.len());
                }
                return Ok(());
            }
        }
        bail!("{}: the file is claimed again and again", self.shown())
    }

    /// The turn to take over for hooks; none while another process has it. Whoever gives it back looks again whether something
    /// waits, so a hook that finds it taken after its append can rely on that.
    ///
    /// # Errors
    /// What the file system said.
    pub(crate) fn turn(&self) -> Result<Option<Turn>> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir).with_context(|| self.shown())?;
        let path = self.dir.join("turn");
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
        let file = file.with_context(|| path.display().to_string())?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Turn { _lock: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error).with_context(|| path.display().to_string()),
        }
    }

    /// Takes everything over into the history, whoever else is about to. Only what is just being appended is left.
    ///
    /// # Errors
    /// What the file system or the history said. What was not recorded stays.
    pub(crate) fn drain(&self, store: &HistoryStorage) -> Result<Drained> {
        let mut drained = Drained::default();
        let file = self.file();
        if fs::metadata(&file).is_ok_and(|file| file.len() > 0) {
            // Two that claim at once rename the file once; the second finds none.
            not_missing(fs::rename(&file, self.dir.join(format!("claim-{}", unique_name()))))?;
        }
        for claim in self.claims() {
            self.take(&claim, store, &mut drained).with_context(|| claim.display().to_string())?;
        }
        Ok(drained)
    }

    fn claims(&self) -> Vec<PathBuf> {
        let Ok(items) = fs::read_dir(&self.dir) else { return Vec::new() };
        let is_claim =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"claim-"));
        let mut claims: Vec<PathBuf> = items.flatten().map(|item| item.path()).filter(is_claim).collect();
        claims.sort();
        claims
    }

    fn take(&self, claim: &Path, store: &HistoryStorage, drained: &mut Drained) -> Result<()> {
        let Some(file) = not_missing(File::open(claim))? else { return Ok(()) };
        if !is_finished(&file)? {
            return Ok(());
        }
        let mut bytes = Vec::new();
        (&file).read_to_end(&mut bytes)?;
        // Others may read it too from here on; what was recorded meanwhile is known.
        drop(file);
        let mut heard = Vec::new();
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice::<Heard>(line) {
                Ok(prompt) => heard.push(prompt),
                Err(error) => {
                    tracing::warn!(%error, "a line of the spool is no prompt; it is kept in {}", self.unreadable().display());
                    self.keep(line)?;
                    drained.unreadable += 1;
                }
            }
        }
        for batch in heard.chunks(AT_ONCE) {
            let (added, known) = record(batch, store)?;
            drained.added += added;
            drained.known += known;
        }
        not_missing(fs::remove_file(claim))?;
        Ok(())
    }

    fn unreadable(&self) -> PathBuf {
        self.dir.join("unreadable")
    }

    fn keep(&self, line: &[u8]) -> Result<()> {
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(self.unreadable())?;
        Ok(file.write_all(&[line, b"\n"].concat())?)
    }

    fn shown(&self) -> String {
        self.file().display().to_string()
    }
}

/// A name that no other process and no other moment gives: the time, then the process.
pub(crate) fn unique_name() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{:020}-{}", since.as_nanos(), std::process::id())
}

/// Whether nobody appends to a claim any more: appenders hold a shared lock, and none begins once it is renamed.
fn is_finished(file: &File) -> io::Result<bool> {
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if begun.elapsed() > INSTANT => return Ok(false),
            Err(TryLockError::WouldBlock) => std::thread::sleep(INSTANT / 100),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Prompts and their ids in one transaction; how many were new and how many known.
fn record(batch: &[Heard], store: &HistoryStorage) -> history::Result<(usize, usize)> {
    let mut seen = BTreeSet::new();
    let mut fresh: Vec<&Heard> = batch.iter().filter(|heard| seen.insert(heard.id.as_str())).collect();
    let mut tries = 0;
    loop {
        if fresh.is_empty() {
            return Ok((0, batch.len()));
        }
        tries += 1;
        match add(&fresh, store) {
            // One of them is there already, maybe since this moment: somebody else records these very prompts.
            Err(error) if error.kind() == ErrorKind::Rejected && tries < MOST_TRIES => {
                let known = known(&fresh, store)?;
                fresh.retain(|heard| !known.contains(&heard.id));
            }
            added => return added.map(|added| (added, batch.len() - added)),
        }
    }
}

/// The ids that the history has.
fn known(batch: &[&Heard], store: &HistoryStorage) -> history::Result<BTreeSet<String>> {
    let ids: Vec<String> = batch.iter().map(|heard| heard.id.clone()).collect();
    let known = store.apply(Vec::new(), move |transaction, _| {
        transaction.execute_batch(TABLE)?;
        let mut find = transaction.prepare("SELECT EXISTS(SELECT 1 FROM watcher_heard WHERE id = ?)")?;
        let mut known = BTreeSet::new();
        for id in ids {
            if find.query_row([&id], |row| row.get(0))? {
                known.insert(id);
            }
        }
        Ok(known)
    });
    known.wait()
}

/// All of them or none; how many were new.
fn add(fresh: &[&Heard], store: &HistoryStorage) -> history::Result<usize> {
    let submissions = fresh.iter().map(|heard| heard.submission()).collect();
    let ids: Vec<String> = fresh.iter().map(|heard| heard.id.clone()).collect();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    let added = store.apply(submissions, move |transaction, outcomes| {
        transaction.execute_batch(TABLE)?;
        let mut insert = transaction.prepare("INSERT INTO watcher_heard(id, at) VALUES (?, ?)")?;
        for id in &ids {
            insert.execute(history::rusqlite::params![id, now])?;
        }
        transaction.execute("DELETE FROM watcher_heard WHERE at < ?", [now - REMEMBERED])?;
        let is_new = |recorded| matches!(recorded, Recorded::Inserted | Recorded::Bumped);
        Ok(outcomes.iter().filter(|outcome| is_new(outcome.recorded())).count())
    });
    added.wait()
}

impl Heard {
    fn submission(&self) -> Submission {
        let mut submission = Submission::new(&self.prompt).at(self.at).heard();
        if let Some(cwd) = &self.cwd {
            submission = submission.cwd(cwd);
        }
        if let Some(session) = &self.session {
            submission = submission.session(session);
        }
        submission
    }
}

/// Whether this very file is at the path.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let opened = file.metadata()?;
    let there = not_missing(fs::symlink_metadata(path))?;
    Ok(there.is_some_and(|there| (there.dev(), there.ino()) == (opened.dev(), opened.ino())))
}

fn not_missing<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn heard(prompt: &str) -> Heard {
        let id = format!("{prompt}-{}", unique_name());
        Heard { id, at: 1_800_000_000, prompt: prompt.to_owned(), cwd: Some("/w".to_owned()), session: None }
    }

    fn prompts(store: &HistoryStorage) -> Vec<String> {
        let recent = store.recent(1000, &history::Scope::everywhere()).unwrap();
        let mut prompts: Vec<String> = recent.iter().map(|entry| entry.prompt().to_owned()).collect();
        prompts.sort();
        prompts
    }

    #[test]
    fn whatever_step_is_cut_short_a_prompt_is_recorded_once() {
        let dir = tempfile::tempdir().unwrap();
        let spool = Spool::at(dir.path().join("spool"));
        let store = HistoryStorage::open(dir.path().join("history.db")).unwrap();
        assert_eq!(spool.drain(&store).unwrap(), Drained::default());
        spool.append(&heard("a")).unwrap();
        spool.append(&heard("b")).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&spool.dir), mode(&spool.file())), (0o700, 0o600));

        // Dead after the renaming.
        fs::rename(spool.file(), spool.dir.join("claim-0")).unwrap();
        spool.append(&heard("c")).unwrap();
        let copy = fs::read(spool.dir.join("claim-0")).unwrap();
        assert_eq!(spool.drain(&store).unwrap(), Drained { added: 3, known: 0, unreadable: 0 });
        assert!(!spool.waits());

        // Dead after the transaction, before the removal; or the file system shows it again.
        fs::write(spool.dir.join("claim-0"), &copy).unwrap();
        fs::write(spool.file(), &copy).unwrap();
        assert_eq!(spool.drain(&store).unwrap(), Drained { added: 0, known: 4, unreadable: 0 });
        assert_eq!(prompts(&store), ["a", "b", "c"]);
        assert!(!spool.waits());
    }

    #[test]
    fn a_line_cut_short_harms_no_other_and_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let spool = Spool::at(dir.path().join("spool"));
        let store = HistoryStorage::open(dir.path().join("history.db")).unwrap();
        spool.append(&heard("a")).unwrap();
        OpenOptions::new().append(true).open(spool.file()).unwrap().write_all(b"\n{\"id\":\"x\",\"pro").unwrap();
        spool.append(&heard("b")).unwrap();
        assert_eq!(spool.drain(&store).unwrap(), Drained { added: 2, known: 0, unreadable: 1 });
        assert_eq!(prompts(&store), ["a", "b"]);
        assert_eq!(fs::read(spool.unreadable()).unwrap(), b"{\"id\":\"x\",\"pro\n");
    }

    #[test]
    fn writers_and_takers_at_once_lose_and_double_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let spool = Spool::at(dir.path().join("spool"));
        let path = dir.path().join("history.db");
        HistoryStorage::open(&path).unwrap().close().unwrap();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let spool = &spool;
                scope.spawn(move || {
                    for n in 0..50 {
                        spool.append(&heard(&format!("{writer} {n}"))).unwrap();
                    }
                });
            }
            for _ in 0..2 {
                let (spool, path) = (&spool, &path);
                scope.spawn(move || {
                    let store = HistoryStorage::open(path).unwrap();
                    for _ in 0..20 {
                        spool.drain(&store).unwrap();
                    }
                });
            }
        });
        let store = HistoryStorage::open(&path).unwrap();
        spool.drain(&store).unwrap();
        assert!(!spool.waits());
        assert_eq!(store.stats().unwrap().submissions, 200);
        assert_eq!(prompts(&store).len(), 200);
    }
}
