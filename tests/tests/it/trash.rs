//! The trash and the explicit repair through kills, power cuts and failing calls: wherever it stops, nothing is lost.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use session_core::storage::{MemorySessionStorage, SessionStorage, is_temporary};
use session_core::{AgentDir, Environment, Host, ManualClock, Session, SessionManager, Timestamp, Trash, Trashed};
use tests::recording::{Failure, Loss, RecordingStorage, Target, Times};

const FILE: &str = "/agent/sessions/--w--/2026-01-05T09-30-00-000Z_15c0000000000001.jsonl";
const TEXT: &str = "{\"type\":\"session\",\"version\":3,\"id\":\"15c0000000000001\"}\ntorn \u{fffd}";
const ARTIFACTS: [(&str, &str); 2] = [("0.bash.log", "a log"), ("agent/sub.jsonl", "{\"type\":\"session\"}\n")];

type Recording = RecordingStorage<MemorySessionStorage>;

fn artifact(name: &str) -> PathBuf {
    Path::new(FILE).with_extension("").join(name)
}

/// A session with artifacts on the medium.
fn recording() -> Recording {
    let disk = MemorySessionStorage::new();
    for (path, text) in
        [(PathBuf::from(FILE), TEXT)].into_iter().chain(ARTIFACTS.map(|(name, text)| (artifact(name), text)))
    {
        disk.ensure_dir(path.parent().unwrap()).unwrap();
        disk.write_text(&path, text).unwrap();
    }
    RecordingStorage::new(disk, Path::new("/")).unwrap()
}

fn trash(storage: Arc<dyn SessionStorage>) -> Trash {
    let clock = ManualClock::at(Timestamp::parse("2026-02-01T00:00:00Z").unwrap());
    Trash::of(storage, &AgentDir::at("/agent").unwrap(), Arc::new(clock))
}

fn in_trash(trash: &Trash) -> Vec<Trashed> {
    trash.list().unwrap().into_iter().flatten().collect()
}

fn text(storage: &dyn SessionStorage, path: &Path) -> Option<String> {
    storage.exists(path).unwrap().then(|| storage.read_text(path).unwrap())
}

/// The session is whole, in its place or in the trash; brought back it is what it was, and erased it is gone without a trace.
fn assert_nothing_is_lost(after: &MemorySessionStorage, when: &str) {
    let storage: Arc<dyn SessionStorage> = Arc::new(after.clone());
    let trash = trash(Arc::clone(&storage));
    let items = in_trash(&trash);
    assert!(items.len() <= 1, "{when}");
    let here = text(&*storage, Path::new(FILE));
    match (&here, items.first()) {
        // A power cut may leave both names of a file that was renamed.
        (Some(here), item) => {
            assert_eq!(here, TEXT, "{when}");
            assert!(item.is_none_or(|item| text(&*storage, item.file()).as_deref() == Some(TEXT)), "{when}");
        }
        (None, Some(item)) => trash.restore(item).unwrap_or_else(|error| panic!("{when}: {error}")),
        (None, None) => panic!("{when}: the session is nowhere"),
    }
    assert_eq!(text(&*storage, Path::new(FILE)).as_deref(), Some(TEXT), "{when}");
    if here.is_none() || items.is_empty() {
        for (name, kept) in ARTIFACTS {
            assert_eq!(text(&*storage, &artifact(name)).as_deref(), Some(kept), "{when}: {name}");
        }
    }
}

/// Erased from the trash wherever its way there was cut short, nothing of the session is left.
fn assert_erased_without_a_trace(after: &MemorySessionStorage, when: &str) {
    let storage: Arc<dyn SessionStorage> = Arc::new(after.clone());
    let trash = trash(Arc::clone(&storage));
    if storage.exists(Path::new(FILE)).unwrap() || in_trash(&trash).is_empty() {
        return;
    }
    trash.empty().unwrap();
    assert!(in_trash(&trash).is_empty(), "{when}");
    for (name, _) in ARTIFACTS {
        assert_eq!(text(&*storage, &artifact(name)), None, "{when}: {name} is left");
    }
}

fn restored(crash: &tests::recording::Crash) -> MemorySessionStorage {
    let after = MemorySessionStorage::new();
    crash.remains.restore(&after, Path::new("/")).unwrap();
    after
}

#[test]
fn a_deletion_or_its_undoing_that_is_cut_short_loses_nothing() {
    // [D9, S3] a kill, the worst power cut and others after each call
    for undo in [false, true] {
        let storage = recording();
        let trash = trash(Arc::new(storage.clone()));
        let item = trash.put(Path::new(FILE)).unwrap();
        if undo {
            storage.restart().unwrap();
            trash.restore(&item).unwrap();
        }
        let crashes = storage.crashes(10);
        assert!(crashes.len() > 60, "{}", crashes.len());
        let (mut here, mut there) = (0, 0);
        for crash in &crashes {
            let when = format!("undo: {undo}, after {} calls, {:?}", crash.after, crash.loss);
            let after = restored(crash);
            if after.exists(Path::new(FILE)).unwrap() {
                here += 1;
            } else {
                there += 1;
            }
            assert_nothing_is_lost(&after, &when);
            assert_erased_without_a_trace(&restored(crash), &when);
        }
        assert!(here > 10 && there > 10, "the crashes lie on both sides: {here}, {there}");
        // Done is on the medium.
        let end = storage.crash(usize::MAX, Loss::Unsynced);
        assert_eq!(end.files.contains_key(Path::new(&FILE[1..])), undo);
    }
}

#[test]
fn a_deletion_or_its_undoing_of_which_a_call_fails_loses_nothing() {
    for undo in [false, true] {
        for number in 1.. {
            let storage = recording();
            let trash = trash(Arc::new(storage.clone()));
            if undo {
                trash.put(Path::new(FILE)).unwrap();
                storage.restart().unwrap();
            }
            let item = in_trash(&trash).pop();
            storage.restart().unwrap();
            storage.fail(Target::Number(number), Failure::Error(io::ErrorKind::Other), Times::Next(1));
            let done = match item {
                Some(item) => trash.restore(&item),
                None => trash.put(Path::new(FILE)).map(drop),
            };
            let struck = storage.len() as u64 >= number;
            storage.clear_faults();
            let when = format!("undo: {undo}, call {number} failed, {done:?}");
            assert_nothing_is_lost(storage.inner(), &when);
            if !struck {
                assert!(number > 6 && done.is_ok(), "every call was struck once");
                break;
            }
        }
    }
}

const DAMAGED: &str = concat!(
    "{\"type\":\"session\",\"version\":3,\"id\":\"15c0000000000001\",\"timestamp\":\"2026-01-05T09:30:00.000Z\",\"cwd\":\"/w\"}\n",
    "{\"type\":\"label\",\"id\":\"0000000a\",\"parentId\":null,\"timestamp\":\"2026-01-05T09:30:01.000Z\",\"targetId\":\"0000000a\"}\n",
    "{\"type\":\"label\",\"id\":\"000000\n",
);

#[test]
fn a_repair_that_is_cut_short_leaves_the_damaged_file_or_the_whole_one() {
    // [L1b, W4]
    let disk = MemorySessionStorage::new();
    disk.ensure_dir(Path::new(FILE).parent().unwrap()).unwrap();
    disk.write_text(Path::new(FILE), DAMAGED).unwrap();
    let storage = RecordingStorage::new(disk, Path::new("/")).unwrap();
    let host = |storage: Arc<dyn SessionStorage>| {
        let clock = ManualClock::at(Timestamp::parse("2026-02-01T00:00:00Z").unwrap());
        let host = Host::new(AgentDir::at("/agent").unwrap(), Environment::new("/w"));
        host.with_storage(storage).with_clock(Arc::new(clock))
    };
    let repair = SessionManager::repair(&host(Arc::new(storage.clone())), Path::new(FILE), None).unwrap().unwrap();
    let whole = storage.inner().read_text(Path::new(FILE)).unwrap();
    assert_eq!((repair.entries, whole.lines().count()), (1, 2));
    let (mut old, mut new) = (0, 0);
    for crash in storage.crashes(10) {
        let after = restored(&crash);
        let file = text(&after, Path::new(FILE)).unwrap();
        if file == DAMAGED {
            old += 1;
        } else {
            assert_eq!(file, whole, "{crash:?}");
            assert_eq!(text(&after, &repair.original).as_deref(), Some(DAMAGED), "the original first: {crash:?}");
            new += 1;
        }
        // Another try ends where the first would have.
        let items = after.read_dir(Path::new(FILE).parent().unwrap()).unwrap().unwrap();
        for half in items.iter().filter(|item| is_temporary(item.path.file_name().unwrap())) {
            after.unlink(&half.path).unwrap();
        }
        let host = host(Arc::new(after.clone())).with_clock(Arc::new(session_core::SystemClock));
        SessionManager::repair(&host, Path::new(FILE), None).unwrap();
        assert_eq!(text(&after, Path::new(FILE)).unwrap(), whole);
        assert_eq!(Session::read_from(Arc::new(after), Path::new(FILE)).unwrap().defects().total(), 0);
    }
    assert!(old > 10 && new > 1, "{old}, {new}");
}
