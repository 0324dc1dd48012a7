//! Terminal pointers through crashes and failing calls.

use std::io;
use std::path::Path;

use session_core::storage::{MemorySessionStorage, SessionStorage};
use session_core::{Pointer, PointerChange, Pointers, TerminalId};
use tests::recording::{Failure, Loss, RecordingStorage, Target, Times};

const DIR: &str = "/agent/terminal-sessions";
const OLD: &[u8] = b"/w\n/s/old.jsonl\n";
const NEW: &[u8] = b"/w\n/s/new.jsonl\n";

fn terminal() -> TerminalId {
    TerminalId::new("kitty-7/8").unwrap()
}

/// A storage with the old pointer on its medium.
fn storage() -> RecordingStorage<MemorySessionStorage> {
    let storage = RecordingStorage::new(MemorySessionStorage::new(), Path::new("/")).unwrap();
    Pointers::new(&storage, DIR).set(&terminal(), Path::new("/w"), Path::new("/s/old.jsonl")).unwrap();
    storage.restart().unwrap();
    storage
}

fn set(storage: &RecordingStorage<MemorySessionStorage>) {
    Pointers::new(storage, DIR).set(&terminal(), Path::new("/w"), Path::new("/s/new.jsonl")).unwrap();
}

fn replace(storage: &RecordingStorage<MemorySessionStorage>) {
    let pointers = Pointers::new(storage, DIR);
    let seen = pointers.read(&terminal()).unwrap().unwrap();
    let new = Pointer::new(Path::new("/w"), Path::new("/s/new.jsonl")).unwrap();
    assert_eq!(pointers.replace(&seen, &new).unwrap(), PointerChange::Done);
}

#[test]
fn a_crash_at_any_call_leaves_the_old_or_the_new_pointer() {
    // [P4]
    for change in [set, replace] {
        let storage = storage();
        change(&storage);
        let crashes = storage.crashes(10);
        assert!(crashes.len() > 50);
        for crash in &crashes {
            let after = MemorySessionStorage::new();
            crash.remains.restore(&after, Path::new("/")).unwrap();
            let list = Pointers::new(&after, DIR).list().unwrap();
            assert_eq!(list.len(), 1, "a temporary file is no pointer: {crash:?}");
            let stored = list[0].as_ref().unwrap();
            assert!(stored.bytes() == OLD || stored.bytes() == NEW, "{crash:?}");
        }
        let after = storage.crash(usize::MAX, Loss::Unsynced);
        assert_eq!(after.files.values().next().map(Vec::as_slice), Some(NEW), "done is on the medium");
    }
}

#[test]
fn a_failing_call_is_an_error_and_never_half_a_pointer() {
    // [P3, P4]
    for number in 1.. {
        let storage = storage();
        storage.fail(Target::Number(number), Failure::Error(io::ErrorKind::StorageFull), Times::Always);
        let done = Pointers::new(&storage, DIR).set(&terminal(), Path::new("/w"), Path::new("/s/new.jsonl"));
        let struck = storage.len() as u64 >= number;
        storage.clear_faults();
        let files = storage.inner().list_files(Path::new(DIR), "*").unwrap();
        assert_eq!(files.len(), 1, "call {number}");
        let bytes = storage.inner().read_bytes(&files[0], u64::MAX).unwrap();
        // An old pointer that cannot be read is no obstacle to a new one; neither is a temporary file that stays.
        assert!(if done.is_ok() { bytes == NEW } else { bytes == OLD || bytes == NEW }, "call {number}");
        if !struck {
            assert!(number > 8, "every call was struck once");
            return;
        }
    }
}
