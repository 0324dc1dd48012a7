//! The recording itself: what it forwards, counts, fails and loses.

use session_core::storage::{FileSessionStorage, MemorySessionStorage, contract};

use super::*;

fn memory() -> RecordingStorage<MemorySessionStorage> {
    RecordingStorage::new(MemorySessionStorage::new(), Path::new("/")).unwrap()
}

fn file<'a>(remains: &'a Remains, path: &str) -> Option<&'a [u8]> {
    remains.files.get(Path::new(path)).map(Vec::as_slice)
}

#[test]
fn a_recorded_storage_keeps_the_contract_and_the_model_agrees_with_it() {
    // [S1]
    let dir = tempfile::tempdir().unwrap();
    let files = RecordingStorage::new(FileSessionStorage::new(), dir.path()).unwrap();
    contract::check(&files, dir.path());
    let memory = memory();
    contract::check(&memory, Path::new("/"));
    for (seen, mut modelled) in [
        (Disk::of(files.inner(), &files.root).unwrap().remains(Loss::Nothing), files.crash(usize::MAX, Loss::Nothing)),
        (
            Disk::of(memory.inner(), Path::new("/")).unwrap().remains(Loss::Nothing),
            memory.crash(usize::MAX, Loss::Nothing),
        ),
    ] {
        // Lock files are not part of the model.
        let (mut files, mut dirs) = (seen.files, seen.dirs);
        files.retain(|path, _| !path.starts_with("locks"));
        dirs.retain(|path| !path.starts_with("locks"));
        modelled.dirs.retain(|path| !path.starts_with("locks"));
        assert_eq!((files, dirs), (modelled.files, modelled.dirs));
    }
}

#[test]
fn calls_are_counted_with_what_they_are_built_from() {
    let storage = memory();
    storage.write_text(Path::new("/x"), "twelve bytes").unwrap();
    assert_eq!(storage.read_text_prefix(Path::new("/x"), 6).unwrap(), "twelve");
    assert!(storage.read_text(Path::new("/y")).is_err());
    let kinds: Vec<_> = storage.records().iter().map(|record| record.call.kind()).collect();
    assert_eq!(
        kinds,
        [
            CallKind::CreateNew,
            CallKind::Write,
            CallKind::Flush,
            CallKind::Fsync,
            CallKind::Close,
            CallKind::Rename,
            CallKind::SyncDir,
            CallKind::OpenReader,
            CallKind::Stat,
            CallKind::ReadAt,
            CallKind::OpenReader
        ]
    );
    assert_eq!((storage.count(CallKind::OpenReader), storage.count(CallKind::ReadAt)), (2, 1));
    assert_eq!((storage.bytes_written(), storage.bytes_read()), (12, 6));
    assert_eq!(storage.records()[10].outcome, Outcome::Failed(ErrorKind::NotFound));
    storage.restart().unwrap();
    assert!(storage.is_empty() && storage.count(CallKind::OpenReader) == 0);
    assert_eq!(file(&storage.crash(0, Loss::Unsynced), "x"), Some(&b"twelve bytes"[..]));
}

#[test]
fn a_crash_keeps_what_was_synced_and_may_lose_the_rest() {
    let storage = memory();
    storage.ensure_dir(Path::new("/d")).unwrap();
    let mut writer = storage.create_new(Path::new("/d/x")).unwrap();
    writer.write(b"safe ").unwrap();
    writer.fsync().unwrap();
    assert_eq!(storage.crash(usize::MAX, Loss::Unsynced).files.len(), 0, "the name was not synced");
    storage.sync_dir(Path::new("/d")).unwrap();
    let synced = storage.len();
    writer.write(b"lost").unwrap();
    assert_eq!(file(&storage.crash(synced, Loss::Nothing), "d/x"), Some(&b"safe "[..]));
    assert_eq!(
        file(&storage.crash(usize::MAX, Loss::Nothing), "d/x"),
        Some(&b"safe lost"[..]),
        "kill -9 loses nothing"
    );
    assert_eq!(file(&storage.crash(usize::MAX, Loss::Unsynced), "d/x"), Some(&b"safe "[..]));
    let seen: std::collections::BTreeSet<Vec<u8>> =
        (0..64).map(|seed| file(&storage.crash(usize::MAX, Loss::Some(seed)), "d/x").unwrap().to_vec()).collect();
    for part in [&b"safe "[..], b"safe l", b"safe lost", b"safe \0\0\0\0"] {
        assert!(seen.contains(part), "{seen:?}");
    }
    assert!(seen.iter().all(|bytes| bytes.starts_with(b"safe ") && bytes.len() <= 9));
}

#[test]
fn an_unsynced_name_is_the_old_or_the_new() {
    let storage = memory();
    for (name, text) in [("/a", "A"), ("/b", "B"), ("/gone", "G")] {
        storage.write_text(Path::new(name), text).unwrap();
    }
    storage.restart().unwrap();
    storage.rename(Path::new("/a"), Path::new("/b")).unwrap();
    storage.unlink(Path::new("/gone")).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..64 {
        let remains = storage.crash(usize::MAX, Loss::Some(seed));
        let names: Vec<_> = ["a", "b", "gone"].map(|name| file(&remains, name).map(<[u8]>::to_vec)).to_vec();
        seen.insert(names);
    }
    let some = |text: &str| Some(text.as_bytes().to_vec());
    let (old, new) = ((some("A"), some("B")), (None, some("A")));
    let expected = [(&old, some("G")), (&old, None), (&new, some("G")), (&new, None)];
    let expected = expected.map(|(ab, gone)| vec![ab.0.clone(), ab.1.clone(), gone]);
    assert_eq!(seen, expected.into_iter().collect());
    storage.sync_dir(Path::new("/")).unwrap();
    let remains = storage.crash(usize::MAX, Loss::Unsynced);
    assert_eq!((file(&remains, "a"), file(&remains, "b"), file(&remains, "gone")), (None, Some(&b"A"[..]), None));
}

#[test]
fn every_crash_of_an_atomic_replacement_leaves_the_old_or_the_new_file() {
    // [W4] The storage's own promise, at every call.
    let storage = memory();
    storage.write_text(Path::new("/x"), "old").unwrap();
    storage.restart().unwrap();
    storage.write_text(Path::new("/x"), "the new content").unwrap();
    let crashes = storage.crashes(20);
    assert_eq!(crashes.len(), 6 * 22, "before, create, write, fsync, rename, sync_dir");
    for crash in &crashes {
        let x = file(&crash.remains, "x");
        assert!(x == Some(b"old") || x == Some(b"the new content"), "{crash:?}");
    }
    let last = storage.crash(usize::MAX, Loss::Unsynced);
    assert_eq!(file(&last, "x"), Some(&b"the new content"[..]), "when it returned, a power cut loses nothing");

    // The model can tell: the same without the sync of the file is caught.
    let careless = memory();
    careless.write_text(Path::new("/x"), "old").unwrap();
    careless.restart().unwrap();
    let mut writer = careless.create_new(Path::new("/temporary")).unwrap();
    writer.write(b"the new content").unwrap();
    careless.rename(Path::new("/temporary"), Path::new("/x")).unwrap();
    let broken = |crash: &Crash| !matches!(file(&crash.remains, "x"), Some(b"old" | b"the new content"));
    assert!(careless.crashes(20).iter().any(broken));
}

#[test]
fn a_fault_at_any_call_of_a_replacement_leaves_the_old_file_and_no_other() {
    // [W4, K23] Only a directory that cannot be synced comes too late: then the new file is there, and the error says so.
    for number in 1..=7 {
        let storage = memory();
        storage.inner().write_text(Path::new("/x"), "old").unwrap();
        storage.fail(Target::Number(number), Failure::Error(io::ErrorKind::StorageFull), Times::Always);
        let error = storage.write_text(Path::new("/x"), "new").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        let text = storage.inner().read_text(Path::new("/x")).unwrap();
        assert_eq!(text, if number == 7 { "new" } else { "old" }, "call {number}");
        assert_eq!(storage.inner().list_files(Path::new("/"), "*").unwrap(), [Path::new("/x")], "call {number}");
    }
}

#[test]
fn faults_strike_as_often_as_asked() {
    let storage = memory();
    let path = Path::new("/x");
    storage.fail(Target::Kind(CallKind::Stat), Failure::Error(io::ErrorKind::PermissionDenied), Times::Next(2));
    let kinds: Vec<_> = (0..3).map(|_| storage.stat(path).map_err(|error| error.kind())).collect();
    assert_eq!(kinds, [Err(ErrorKind::PermissionDenied), Err(ErrorKind::PermissionDenied), Ok(None)]);

    storage.fill_disk();
    for _ in 0..3 {
        let error = storage.write_text(path, "x").unwrap_err();
        assert_eq!(
            (error.kind(), error.path()),
            (ErrorKind::StorageFull, storage.records().last().map(|r| &**r.call.path()))
        );
    }
    assert!(storage.stat(path).is_ok(), "reading needs no room");
    storage.clear_faults();
    storage.write_text(path, "x").unwrap();

    let mut writer = storage.open_writer(path, OpenMode::Append).unwrap();
    storage.fail(Target::Kind(CallKind::Write), Failure::Short(2), Times::Next(1));
    let error = writer.write_line(b"12345").unwrap_err().to_string();
    assert_eq!(storage.records().last().unwrap().outcome, Outcome::Short(2));
    assert_eq!(writer.write_line(b"6").unwrap_err().to_string(), error, "a writer keeps its first error");
    assert_eq!(storage.inner().read_text(path).unwrap(), "x12");
    assert_eq!(writer.close().unwrap_err().to_string(), error);
    assert_eq!(file(&storage.crash(usize::MAX, Loss::Nothing), "x"), Some(&b"x12"[..]));

    let lock = Path::new("/lock");
    storage.fail(Target::Kind(CallKind::Acquire), Failure::Error(io::ErrorKind::Unsupported), Times::Next(1));
    assert_eq!(storage.lock(lock, "x", Duration::ZERO).unwrap_err().kind(), ErrorKind::Unsupported);
    storage.lock(lock, "x", Duration::ZERO).unwrap();
}

#[test]
fn what_a_crash_leaves_can_be_opened_again() {
    let storage = memory();
    storage.ensure_dir(Path::new("/s/deep")).unwrap();
    storage.write_text(Path::new("/s/deep/x"), "text").unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    storage.set_modified(Path::new("/s/deep/x"), time).unwrap();
    storage.copy(Path::new("/s"), Path::new("/t")).unwrap();
    storage.rename(Path::new("/s/deep"), Path::new("/t/moved")).unwrap();
    storage.remove_tree(Path::new("/s")).unwrap();
    let remains = storage.crash(usize::MAX, Loss::Nothing);

    let dir = tempfile::tempdir().unwrap();
    let files = FileSessionStorage::new();
    remains.restore(&files, dir.path()).unwrap();
    assert_eq!(files.read_text(&dir.path().join("t/moved/x")).unwrap(), "text");
    assert_eq!(files.stat(&dir.path().join("t/moved/x")).unwrap().unwrap().modified, time);
    assert_eq!(files.read_text(&dir.path().join("t/deep/x")).unwrap(), "text");
    assert!(!files.exists(&dir.path().join("s")).unwrap());
}
