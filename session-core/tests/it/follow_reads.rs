//! What following reads, counted; what happens when reading fails; and that it does nothing but read.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::SystemTime;

use proptest::prelude::*;
use session_core::follow::{Follower, LONGEST_KEPT, Position, Slice, Transition};
use session_core::storage::{
    DirItem, FileSessionStorage, MemorySessionStorage, OpenMode, SessionStorage, Stat, StorageLock, StorageReader,
    StorageWriter,
};
use session_core::{Error, ErrorKind, Result};

/// Counts what is read, fails when told to, and panics at whatever is not reading.
#[derive(Debug)]
struct Reads<'s> {
    storage: &'s dyn SessionStorage,
    count: Arc<Count>,
}

#[derive(Debug, Default)]
struct Count {
    bytes: AtomicU64,
    opened: AtomicU64,
    fails: AtomicBool,
}

#[derive(Debug)]
struct Reader(Box<dyn StorageReader>, Arc<Count>);

impl StorageReader for Reader {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        if self.1.fails.load(SeqCst) {
            return Err(Error::new(ErrorKind::Io, "the disk is gone"));
        }
        let n = self.0.read_at(offset, buffer)?;
        self.1.bytes.fetch_add(n as u64, SeqCst);
        Ok(n)
    }

    fn stat(&self) -> Result<Stat> {
        self.0.stat()
    }
}

const ONLY_READS: &str = "a follower only reads";

impl SessionStorage for Reads<'_> {
    fn stat(&self, path: &Path) -> Result<Option<Stat>> {
        self.storage.stat(path)
    }
    fn open_reader(&self, path: &Path) -> Result<Box<dyn StorageReader>> {
        self.count.opened.fetch_add(1, SeqCst);
        Ok(Box::new(Reader(self.storage.open_reader(path)?, self.count.clone())))
    }
    fn ensure_dir(&self, _: &Path) -> Result<()> {
        unreachable!("{ONLY_READS}")
    }
    fn read_dir(&self, _: &Path) -> Result<Option<Vec<DirItem>>> {
        unreachable!("{ONLY_READS}")
    }
    fn open_writer(&self, _: &Path, _: OpenMode) -> Result<Box<dyn StorageWriter>> {
        unreachable!("{ONLY_READS}")
    }
    fn create_new(&self, _: &Path) -> Result<Box<dyn StorageWriter>> {
        unreachable!("{ONLY_READS}")
    }
    fn write_at(&self, _: &Path, _: u64, _: &[u8]) -> Result<()> {
        unreachable!("{ONLY_READS}")
    }
    fn rename(&self, _: &Path, _: &Path) -> Result<()> {
        unreachable!("{ONLY_READS}")
    }
    fn unlink(&self, _: &Path) -> Result<()> {
        unreachable!("{ONLY_READS}")
    }
    fn remove_tree(&self, _: &Path) -> Result<()> {
        unreachable!("{ONLY_READS}")
    }
    fn copy(&self, _: &Path, _: &Path) -> Result<()> {
        unreachable!("{ONLY_READS}")
    }
    fn sync_dir(&self, _: &Path) -> Result<()> {
        unreachable!("{ONLY_READS}")
    }
    fn set_modified(&self, _: &Path, _: SystemTime) -> Result<()> {
        unreachable!("{ONLY_READS}")
    }
    fn resolve(&self, _: &Path) -> PathBuf {
        unreachable!("{ONLY_READS}")
    }
    fn open_lock(&self, _: &Path, _: &str) -> Result<Box<dyn StorageLock>> {
        unreachable!("{ONLY_READS}")
    }
}

impl<'s> Reads<'s> {
    fn of(storage: &'s dyn SessionStorage) -> Self {
        Self { storage, count: Arc::default() }
    }

    fn bytes(&self) -> u64 {
        self.count.bytes.load(SeqCst)
    }
}

fn line(id: usize, len: usize) -> Vec<u8> {
    let around = format!(r#"{{"type":"custom","id":"{id:08x}","parentId":null,"data":""}}"#).len() + 1;
    let data = "x".repeat(len - around);
    format!("{{\"type\":\"custom\",\"id\":\"{id:08x}\",\"parentId\":null,\"data\":\"{data}\"}}\n").into_bytes()
}

fn append(storage: &dyn SessionStorage, path: &Path, bytes: &[u8]) {
    storage.open_writer(path, OpenMode::Append).unwrap().write(bytes).unwrap();
}

const HEADER: &[u8] = b"{\"type\":\"session\",\"version\":3,\"id\":\"0123456789abcdef\",\"cwd\":\"/p\"}\n";

fn drain(follower: &mut Follower, storage: &dyn SessionStorage, path: &Path) -> usize {
    let mut entries = 0;
    loop {
        let changes = follower.look(storage, path, Slice::default()).unwrap();
        entries += changes.entries().len();
        if !changes.has_more() {
            return entries;
        }
    }
}

#[test]
fn k51_a_hundred_appends_to_a_large_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    let storage = FileSessionStorage::new();
    append(&storage, &path, HEADER);
    let block: Vec<u8> = (0..1000).flat_map(|id| line(id, 5_000)).collect();
    for _ in 0..10 {
        append(&storage, &path, &block);
    }
    let reads = Reads::of(&storage);
    let mut follower = Follower::new();
    assert_eq!(drain(&mut follower, &reads, &path), 10_000);
    let whole = storage.stat(&path).unwrap().unwrap().len;
    let more = reads.bytes() - whole;
    assert!(more <= whole.div_ceil(1 << 20) * (96 + 128), "each byte once, and {more} between slices of a mebibyte");
    for restarts in [false, true] {
        let before = reads.bytes();
        for id in 0..100 {
            append(&storage, &path, &line(id, 1_024));
            if restarts {
                follower = Follower::resume(follower.position().to_string().parse().unwrap());
            }
            assert_eq!(drain(&mut follower, &reads, &path), 1);
        }
        // 1,024 bytes appended and 96 to make sure of the file, a hundred times.
        assert_eq!(reads.bytes() - before, 100 * (1_024 + 96));
    }
    let (bytes, opened) = (reads.bytes(), reads.count.opened.load(SeqCst));
    for _ in 0..100 {
        assert_eq!(drain(&mut follower, &reads, &path), 0);
    }
    assert_eq!((reads.bytes(), reads.count.opened.load(SeqCst)), (bytes, opened), "what is as it was is not opened");
}

proptest! {
    #[test]
    fn property_k51_lines_in_pieces_are_read_once(
        lengths in proptest::collection::vec(224..3_000_usize, 1..8),
        mut cuts in proptest::collection::vec(0..1_000_usize, 0..12),
    ) {
        let (storage, path) = (MemorySessionStorage::new(), Path::new("/s.jsonl"));
        append(&storage, path, HEADER);
        let reads = Reads::of(&storage);
        let mut follower = Follower::new();
        drain(&mut follower, &reads, path);
        let before = reads.bytes();
        let bytes: Vec<u8> = lengths.iter().enumerate().flat_map(|(id, len)| line(id, *len)).collect();
        cuts.sort_unstable();
        let mut at = 0;
        let mut entries = 0;
        for end in cuts.iter().map(|cut| bytes.len() * cut / 1_000).chain([bytes.len()]) {
            append(&storage, path, &bytes[at..end]);
            at = end;
            entries += drain(&mut follower, &reads, path);
        }
        prop_assert_eq!(entries, lengths.len());
        prop_assert!(reads.bytes() - before < 2 * bytes.len() as u64, "{} of {}", reads.bytes() - before, bytes.len());
    }
}

#[test]
fn an_error_moves_nothing() {
    let (storage, path) = (MemorySessionStorage::new(), Path::new("/s.jsonl"));
    append(&storage, path, HEADER);
    let reads = Reads::of(&storage);
    let mut follower = Follower::new();
    drain(&mut follower, &reads, path);
    let (first, second) = (line(1, 300), line(2, 300));
    append(&storage, path, &first);
    append(&storage, path, &second[..50]);
    drain(&mut follower, &reads, path);
    append(&storage, path, &second[50..]);
    let position: Position = follower.position().clone();
    reads.count.fails.store(true, SeqCst);
    assert_eq!(follower.look(&reads, path, Slice::default()).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(follower.position(), &position);
    reads.count.fails.store(false, SeqCst);
    assert_eq!(drain(&mut follower, &reads, path), 1);
}

#[test]
fn lines_too_long_to_keep() {
    let (storage, path) = (MemorySessionStorage::new(), Path::new("/s.jsonl"));
    append(&storage, path, HEADER);
    let long = line(1, usize::try_from(LONGEST_KEPT).unwrap() + 300_000);
    append(&storage, path, &long[..5_000_000]);
    let reads = Reads::of(&storage);
    let mut follower = Follower::new();
    assert_eq!(drain(&mut follower, &reads, path), 0);
    append(&storage, path, &long[5_000_000..long.len() - 1_000]);
    assert_eq!(drain(&mut follower, &reads, path), 0);
    append(&storage, path, &long[long.len() - 1_000..]);
    // A damaged one gives up what is whole in it, too.
    let damaged = [b"torn\"", &long[..long.len() - 1], &line(2, 300)].concat();
    append(&storage, path, &damaged);
    append(&storage, path, &line(3, 300));
    let changes = follower.look(&reads, path, Slice::of_bytes(u64::MAX)).unwrap();
    assert!(!changes.has_more());
    let found: Vec<_> = changes.entries().map(|entry| (entry.line(), entry.id().to_string())).collect();
    let expected = [(2, "00000001"), (3, "00000001"), (3, "00000002"), (4, "00000003")];
    assert_eq!(found, expected.map(|(line, id)| (line, id.to_owned())));
    let texts = [&long, &long, &line(2, 300), &line(3, 300)];
    for (entry, text) in changes.entries().zip(texts) {
        assert_eq!(entry.json().unwrap().as_str().as_bytes(), &text[..text.len() - 1]);
    }
    storage.write_at(path, HEADER.len() as u64, b"{\"type\":\"label\"").unwrap();
    let first = changes.entries().next().unwrap();
    assert_eq!(first.json().unwrap_err().kind(), ErrorKind::Changed);
    storage.set_modified(path, SystemTime::UNIX_EPOCH).unwrap();
    let changes = follower.look(&reads, path, Slice::default()).unwrap();
    assert_eq!(changes.transition(), Transition::Continued, "the middle of what was read is not looked at again");
}
