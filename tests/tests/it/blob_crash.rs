//! Blobs and artifacts through kills, power cuts and failing calls [W10, D9a].

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use session_core::storage::{MemorySessionStorage, SessionStorage, is_temporary};
use session_core::{Artifacts, BlobHash, BlobStore, JsonText, SystemClock, persist};
use tests::recording::{CallKind, Failure, Loss, RecordingStorage, Target, Times};

const IMAGE: &[u8] = b"\x89PNG\r\n and enough of it that half of it is not all of it";
const SESSION: &str = "/s/x.jsonl";

fn recording() -> (RecordingStorage<MemorySessionStorage>, BlobStore) {
    let disk = MemorySessionStorage::new();
    disk.ensure_dir(Path::new("/s")).unwrap();
    let storage = RecordingStorage::new(disk, Path::new("/")).unwrap();
    let store = BlobStore::new(Arc::new(storage.clone()), "/blobs", Arc::new(SystemClock));
    (storage, store)
}

fn blob() -> PathBuf {
    Path::new("blobs").join(BlobHash::of(IMAGE).to_string())
}

#[test]
fn a_line_never_names_a_blob_that_a_crash_took() {
    // [W10] the blob, then the line that names it; a kill, the worst power cut and others after each call
    let (storage, store) = recording();
    let url = format!("data:image/png;base64,{}", "AAAA".repeat(20));
    let payload = JsonText::parse(&format!(r#"{{"image_url":"{url}"}}"#)).unwrap();
    let line = persist(&payload, |bytes| store.put(bytes)).unwrap();
    let mut writer = storage.create_new(Path::new(SESSION)).unwrap();
    writer.write_line(line.as_str().as_bytes()).unwrap();
    writer.fsync().unwrap();
    storage.sync_dir(Path::new("/s")).unwrap();
    let blob = Path::new("blobs").join(BlobHash::of(url.as_bytes()).to_string());
    let (mut without_line, mut with_line) = (0, 0);
    for crash in storage.crashes(20) {
        let found = crash.remains.files.get(&blob);
        assert!(found.is_none_or(|bytes| bytes == url.as_bytes()), "half a blob: {crash:?}");
        let session = crash.remains.files.get(Path::new("s/x.jsonl"));
        if session.is_some_and(|bytes| bytes.ends_with(b"\n")) {
            assert!(found.is_some(), "a line without its blob: {crash:?}");
            with_line += 1;
        } else {
            without_line += 1;
        }
    }
    assert!(without_line > 0 && with_line > 0);
}

#[test]
fn an_acknowledged_blob_survives_any_crash_and_costs_one_write() {
    // [W10]
    let (storage, store) = recording();
    store.put(IMAGE).unwrap();
    for loss in [Loss::Nothing, Loss::Unsynced].into_iter().chain((0..20).map(Loss::Some)) {
        let remains = storage.crash(storage.len(), loss);
        assert_eq!(remains.files.get(&blob()).map(Vec::as_slice), Some(IMAGE), "{loss:?}");
    }
    assert_eq!((storage.count(CallKind::Write), storage.bytes_written()), (1, IMAGE.len() as u64));
    storage.restart().unwrap();
    store.put(IMAGE).unwrap();
    assert_eq!((storage.count(CallKind::Write), storage.count(CallKind::Rename)), (0, 0), "never written again");
}

#[test]
fn each_call_fails_in_turn() {
    // [W10] an error leaves no blob or a whole one, and the next attempt succeeds
    let (storage, store) = recording();
    store.put(IMAGE).unwrap();
    let calls = storage.len() as u64;
    assert!(calls > 5);
    for failure in [Failure::Error(io::ErrorKind::StorageFull), Failure::Error(io::ErrorKind::Other), Failure::Short(7)]
    {
        for call in 1..=calls {
            let (storage, store) = recording();
            storage.fail(Target::Number(call), failure, Times::Next(1));
            let put = store.put(IMAGE);
            let names: Vec<_> = storage.inner().read_dir(Path::new("/blobs")).unwrap().unwrap_or_default();
            let half = names.iter().any(|item| is_temporary(item.path.file_name().unwrap()));
            assert!(!half, "{failure:?} of call {call} leaves a temporary file");
            match store.get(&BlobHash::of(IMAGE)).unwrap() {
                Some(bytes) => assert_eq!(bytes, IMAGE),
                None => assert!(put.is_err(), "{failure:?} of call {call}"),
            }
            assert_eq!(store.put(IMAGE).unwrap(), BlobHash::of(IMAGE));
            assert_eq!(store.get(&BlobHash::of(IMAGE)).unwrap().unwrap(), IMAGE);
        }
    }
}

#[test]
fn an_acknowledged_artifact_survives_any_crash() {
    // [D9a]
    let (storage, _) = recording();
    let artifacts = Artifacts::of_session(Arc::new(storage.clone()), Path::new(SESSION)).unwrap();
    artifacts.save("the first", "bash").unwrap();
    let first_saved = storage.len();
    artifacts.save("the second", "read").unwrap();
    for crash in storage.crashes(20) {
        let text = |name: &str| crash.remains.files.get(Path::new(name)).map(Vec::as_slice);
        if crash.after >= first_saved {
            assert_eq!(text("s/x/0.bash.log"), Some(&b"the first"[..]), "{crash:?}");
        }
        if crash.after >= storage.len() {
            assert_eq!(text("s/x/1.read.log"), Some(&b"the second"[..]), "{crash:?}");
        }
    }
}
