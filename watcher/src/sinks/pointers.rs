//! Terminal pointers follow their sessions: moved ones, deleted ones, and terminals whose harness writes none.
//!
//! A pointer is read again right before it is replaced, and left alone when somebody changed it meanwhile. `fresh` pointers,
//! and pointers to sessions that were never seen, belong to whoever wrote them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use session_core::storage::{FileKind, SessionStorage};
use session_core::{Pointer, PointerChange, Pointers, Result, StoredPointer, TerminalId, same_path};

use crate::intake::Tail;
use crate::ledger::{Change, Ours};
use crate::tails::{Gone, Tails};

/// A pointer to a session that was never seen is left for so long.
const UNSEEN: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Whether everything was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Knowledge {
    /// All roots are there and all of them was read: what was not found is nowhere.
    Full,
    /// Something may be that was not looked at.
    Partial,
}

/// The pointers of an agent directory.
#[derive(Debug)]
pub(crate) struct PointerSink {
    storage: Arc<dyn SessionStorage>,
    dir: PathBuf,
    /// Pointers that we wrote.
    ours: BTreeMap<String, Ours>,
}

impl PointerSink {
    pub(crate) fn new(storage: Arc<dyn SessionStorage>, dir: PathBuf, ours: BTreeMap<String, Ours>) -> Self {
        Self { storage, dir, ours }
    }

    /// Every pointer whose session is not where it says follows it, or goes. Returns problems.
    pub(crate) fn follow(&self, tails: &Tails, knowledge: Knowledge, now: SystemTime) -> Vec<String> {
        let pointers = Pointers::new(self.storage.as_ref(), &self.dir);
        let list = match pointers.list() {
            Ok(list) => list,
            Err(error) => return vec![error.to_string()],
        };
        let judged = list.into_iter().map(|stored| match stored {
            Ok(stored) => self.judge(&pointers, &stored, tails, knowledge, now),
            // Too long or badly named: none of this family's.
            Err(error) => {
                tracing::debug!(%error, "a pointer is left alone");
                Ok(())
            }
        });
        judged.filter_map(Result::err).map(|error| error.to_string()).collect()
    }

    fn judge(
        &self,
        pointers: &Pointers<'_>,
        stored: &StoredPointer,
        tails: &Tails,
        knowledge: Knowledge,
        now: SystemTime,
    ) -> Result<()> {
        let Some(pointer) = stored.pointer() else { return Ok(()) };
        let target = pointer.session_file();
        let is_there = self.is_file(target).unwrap_or_else(|error| {
            tracing::debug!(%error, "a pointer is left alone");
            true
        });
        if pointer.is_fresh() || is_there {
            return Ok(());
        }
        let Some(gone) = self.gone(target, tails) else {
            // The machine may have been without the disk: the root of the session must be there.
            let root = target.parent().and_then(Path::parent);
            let has_root = root.is_some_and(|root| self.storage.exists(root).unwrap_or(false));
            let is_old = now.duration_since(stored.modified()).is_ok_and(|age| age >= UNSEEN);
            if has_root && is_old && knowledge == Knowledge::Full {
                report(pointers.remove(stored)?, stored, "is removed: its session was never seen");
            }
            return Ok(());
        };
        let Some(session) = &gone.session else { return Ok(()) };
        match only_place(tails, session, gone) {
            Place::At(path, tail) => {
                let cwd = tail.cwd().map_or(pointer.cwd(), Path::new);
                let moved = pointer.moved_to(cwd, path)?;
                report(pointers.replace(stored, &moved)?, stored, "follows its session");
            }
            Place::Nowhere if knowledge == Knowledge::Full => {
                report(pointers.remove(stored)?, stored, "is removed: its session was deleted");
            }
            Place::Nowhere | Place::Several => {}
        }
        Ok(())
    }

    /// What is known of a path where a session was; pointers may spell it through symbolic links.
    fn gone<'a>(&self, target: &Path, tails: &'a Tails) -> Option<&'a Gone> {
        let same = |path: &&Path| same_path(self.storage.as_ref(), path, target);
        tails.gone(target).or_else(|| tails.gone(tails.gone_paths().find(same)?))
    }

    /// The terminal's foreground process writes this session: its pointer is set, unless somebody else's is there.
    /// Returns what the ledger should remember.
    pub(crate) fn announce(&mut self, terminal: &TerminalId, cwd: &str, session: &Path) -> Result<Option<Change>> {
        let pointers = Pointers::new(self.storage.as_ref(), &self.dir);
        let stored = pointers.read(terminal)?;
        if let Some(stored) = &stored {
            if stored.pointer().is_some_and(|pointer| pointer.session_file() == session) {
                return Ok(None);
            }
            let is_ours = self.ours.get(terminal.as_str()).is_some_and(|ours| *ours == of(stored));
            if !is_ours && self.stands(stored)? {
                return Ok(None);
            }
            let change = pointers.replace(stored, &Pointer::new(Path::new(cwd), session)?)?;
            if change == PointerChange::GivenUp {
                return Ok(None);
            }
        } else {
            pointers.set(terminal, Path::new(cwd), session)?;
        }
        let Some(written) = pointers.read(terminal)? else { return Ok(None) };
        tracing::info!(%terminal, session = %session.display(), "the terminal's pointer is written");
        let ours = of(&written);
        self.ours.insert(terminal.as_str().to_owned(), ours.clone());
        Ok(Some(Change::Wrote(terminal.as_str().to_owned(), ours)))
    }

    /// Whether a pointer of somebody else's still means something.
    fn stands(&self, stored: &StoredPointer) -> Result<bool> {
        let Some(pointer) = stored.pointer() else { return Ok(false) };
        if pointer.is_fresh() {
            return Ok(true);
        }
        self.is_file(pointer.session_file())
    }

    fn is_file(&self, path: &Path) -> Result<bool> {
        Ok(self.storage.stat(path)?.is_some_and(|stat| stat.kind == FileKind::File))
    }
}

enum Place<'a> {
    At(&'a Path, &'a Tail),
    Several,
    Nowhere,
}

/// Where a session is now: the same file under another name before copies of it.
fn only_place<'a>(tails: &'a Tails, session: &'a str, gone: &Gone) -> Place<'a> {
    let mut places = tails.with_session(session);
    let Some(first) = places.next() else { return Place::Nowhere };
    let others: Vec<_> = places.collect();
    if others.is_empty() {
        return Place::At(first.0, first.1);
    }
    let is_same_file = |(_, tail): &(&Path, &Tail)| gone.identity.is_some() && tail.identity() == gone.identity;
    match std::iter::once(first).chain(others).find(is_same_file) {
        Some((path, tail)) => Place::At(path, tail),
        None => Place::Several,
    }
}

fn report(change: PointerChange, stored: &StoredPointer, what: &str) {
    match change {
        PointerChange::Done => tracing::info!(terminal = %stored.terminal(), "the pointer {what}"),
        PointerChange::GivenUp => tracing::debug!(terminal = %stored.terminal(), "the pointer changed meanwhile"),
    }
}

fn of(stored: &StoredPointer) -> Ours {
    let modified = stored.modified().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ours { content: stored.bytes().to_vec(), modified: i64::try_from(modified.as_nanos()).unwrap_or(i64::MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use session_core::storage::MemorySessionStorage;

    fn sink(storage: &MemorySessionStorage) -> PointerSink {
        let storage: Arc<dyn SessionStorage> = Arc::new(storage.clone());
        PointerSink::new(storage, "/agent/terminal-sessions".into(), BTreeMap::new())
    }

    fn storage() -> MemorySessionStorage {
        let storage = MemorySessionStorage::new();
        for dir in ["/agent/sessions/--w--", "/agent/terminal-sessions"] {
            storage.ensure_dir(Path::new(dir)).unwrap();
        }
        storage
    }

    #[test]
    fn a_terminal_s_pointer_is_set_once_and_never_taken_from_somebody() {
        let storage = storage();
        let mut sink = sink(&storage);
        let terminal = TerminalId::new("pts-3").unwrap();
        let pointers = Pointers::new(&storage, "/agent/terminal-sessions");
        for name in ["a", "b", "c"] {
            storage.write_text(Path::new(&format!("/agent/sessions/--w--/{name}.jsonl")), "x").unwrap();
        }
        let path = |name: &str| PathBuf::from(format!("/agent/sessions/--w--/{name}.jsonl"));
        let target = || pointers.get(&terminal).unwrap().unwrap().session_file().to_owned();

        assert!(sink.announce(&terminal, "/w", &path("a")).unwrap().is_some());
        assert_eq!(target(), path("a"));
        assert!(sink.announce(&terminal, "/w", &path("a")).unwrap().is_none());
        assert!(sink.announce(&terminal, "/w", &path("b")).unwrap().is_some(), "one that we wrote follows");
        assert_eq!(target(), path("b"));

        pointers.set(&terminal, Path::new("/w"), &path("a")).unwrap();
        assert!(sink.announce(&terminal, "/w", &path("c")).unwrap().is_none(), "somebody else wrote it");
        assert_eq!(target(), path("a"));
        storage.unlink(&path("a")).unwrap();
        assert!(sink.announce(&terminal, "/w", &path("c")).unwrap().is_some(), "its session is gone");

        storage.write_text(&pointers.path(&terminal), "/w\n/agent/sessions/--w--/new.jsonl\nfresh\n").unwrap();
        assert!(sink.announce(&terminal, "/w", &path("c")).unwrap().is_none(), "fresh ones are left alone");
    }
}
