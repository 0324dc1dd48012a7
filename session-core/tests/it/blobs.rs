//! The blob store [D6, D10, W10].

use std::path::Path;
use std::sync::Arc;

use session_core::storage::{FileSessionStorage, MemorySessionStorage, SessionStorage};
use session_core::{
    BlobHash, BlobStore, ErrorKind, JsonText, ManualClock, SystemClock, Timestamp, persist, resolve_blobs,
};

use crate::dying::DyingStorage;

const DIR: &str = "/agent/blobs";

fn clock(millis: i64) -> Arc<ManualClock> {
    Arc::new(ManualClock::at(Timestamp::from_millis(millis).unwrap()))
}

#[test]
fn a_blob_that_is_there_is_only_touched() {
    // [W10]
    let disk = Arc::new(MemorySessionStorage::new());
    let time = clock(1_000_000);
    let store = BlobStore::new(disk.clone(), DIR, time.clone());
    let hash = store.put(b"image").unwrap();
    let before = disk.stat(&store.path(&hash)).unwrap().unwrap();
    time.advance_millis(5_000);
    assert_eq!(store.put(b"image").unwrap(), hash);
    let after = disk.stat(&store.path(&hash)).unwrap().unwrap();
    assert_eq!(after.identity, before.identity);
    assert_eq!(Timestamp::from_system(after.modified).millis(), 1_005_000);
    assert_eq!(disk.read_dir(Path::new(DIR)).unwrap().unwrap().len(), 1);
}

#[test]
fn damage_is_reported_and_never_returned_or_overwritten() {
    // [W10] of another length, and of the same
    let disk = Arc::new(MemorySessionStorage::new());
    let store = BlobStore::new(disk.clone(), DIR, Arc::new(SystemClock));
    let hash = BlobHash::of(b"image");
    disk.ensure_dir(Path::new(DIR)).unwrap();
    for damaged in ["", "imag", "imagE", "image and more"] {
        disk.write_text(&store.path(&hash), damaged).unwrap();
        for error in [store.get(&hash).unwrap_err(), store.put(b"image").unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert_eq!(error.path(), Some(&*store.path(&hash)));
        }
        assert_eq!(disk.read_text(&store.path(&hash)).unwrap(), damaged);
    }
    assert_eq!(store.get(&BlobHash::of(b"other")).unwrap(), None);
    disk.ensure_dir(&store.path(&BlobHash::of(b"directory"))).unwrap();
    assert_eq!(store.put(b"directory").unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(store.get(&BlobHash::of(b"directory")).unwrap_err().kind(), ErrorKind::NotAFile);
}

#[test]
fn death_at_any_call_leaves_no_half_blob() {
    // [W10] killed at each changing call of the storage in turn, then tried again by the next process
    let mut survived = 0;
    for calls in 0.. {
        let disk = Arc::new(MemorySessionStorage::new());
        let dying = Arc::new(DyingStorage::new(disk.clone(), calls));
        let first = BlobStore::new(dying.clone(), DIR, Arc::new(SystemClock)).put(b"an image of some length");
        let store = BlobStore::new(disk.clone(), DIR, Arc::new(SystemClock));
        let hash = BlobHash::of(b"an image of some length");
        match store.get(&hash).unwrap() {
            Some(bytes) => assert_eq!(bytes, b"an image of some length"),
            None => assert!(first.is_err(), "an acknowledged blob is missing after {calls} calls"),
        }
        assert_eq!(store.put(b"an image of some length").unwrap(), hash);
        assert_eq!(store.get(&hash).unwrap().unwrap(), b"an image of some length");
        if first.is_ok() && dying.calls_left() > 0 {
            break;
        }
        survived += 1;
    }
    assert!(survived >= 5, "make the directory, create, write, sync, rename, sync the directory");
}

#[cfg(unix)]
#[test]
fn blobs_are_private() {
    // [D10]
    use std::os::unix::fs::PermissionsExt;
    let root = tempfile::tempdir().unwrap();
    let store = BlobStore::new(Arc::new(FileSessionStorage::new()), root.path().join("a/blobs"), Arc::new(SystemClock));
    let hash = store.put(b"image").unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&store.path(&hash)), 0o600);
    assert_eq!(mode(store.dir()), 0o700);
    assert_eq!(store.get(&hash).unwrap().unwrap(), b"image");
    assert_eq!(std::fs::read_dir(store.dir()).unwrap().count(), 1);
}

#[test]
fn many_images_make_a_small_session() {
    // K16, images of 20 KB: 200 of them, each twice. [W8, W9]
    use base64::Engine as _;
    let disk = Arc::new(MemorySessionStorage::new());
    let store = BlobStore::new(disk.clone(), DIR, Arc::new(SystemClock));
    let mut file = String::new();
    for n in (0..200_usize).chain(0..200) {
        let bytes: Vec<u8> = (0..20_000_usize).map(|i| (i * (n + 3) / 7).to_le_bytes()[0]).collect();
        let data = base64::engine::general_purpose::STANDARD.encode(bytes);
        let payload =
            JsonText::parse(&format!(r#"{{"content":[{{"type":"image","mimeType":"image/png","data":"{data}"}}]}}"#))
                .unwrap();
        let written = persist(&payload, |bytes| store.put(bytes)).unwrap();
        let (back, problems) = resolve_blobs(&written, &store);
        assert_eq!(*back, payload);
        assert!(problems.is_empty());
        file.push_str(written.as_str());
        file.push('\n');
    }
    assert!(file.len() < 1_000_000, "{} bytes", file.len());
    assert_eq!(disk.read_dir(Path::new(DIR)).unwrap().unwrap().len(), 200);
}
