//! What finding sessions asks of the disk, counted `[R1, R3]`, and files that cannot be read.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use session_core::storage::FileSessionStorage;
use session_core::{AgentDir, CacheMode, Catalog, Environment, ListDepth, ProblemKind};
use tests::recording::{CallKind, Failure, RecordingStorage, Target, Times};

type Recorded = Arc<RecordingStorage<FileSessionStorage>>;

/// Files are made behind the recording's back: it counts what the catalog does.
struct Place {
    root: tempfile::TempDir,
    storage: Recorded,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let storage = Arc::new(RecordingStorage::new(FileSessionStorage::new(), root.path()).unwrap());
        fs::create_dir_all(root.path().join("agent/sessions/--w--")).unwrap();
        Self { root, storage }
    }

    fn dir(&self) -> PathBuf {
        self.root.path().join("agent/sessions/--w--")
    }

    fn catalog(&self) -> Catalog {
        let agent = AgentDir::at(self.root.path().join("agent")).unwrap();
        Catalog::new(agent, Environment::new("/")).with_storage(Arc::clone(&self.storage) as _)
    }

    fn sessions(&self, count: u64) {
        for n in 0..count {
            self.write(&format!("{n:03}.jsonl"), &session(&format!("s{n}"), "hello"), n);
        }
    }

    fn write(&self, name: &str, text: &str, second: u64) {
        let path = self.dir().join(name);
        fs::write(&path, text).unwrap();
        fs::File::open(path).unwrap().set_modified(UNIX_EPOCH + Duration::from_secs(second)).unwrap();
    }

    /// How many session files `call` opened, and how many bytes it read of all files.
    fn cost<T>(&self, call: impl FnOnce() -> T) -> (usize, u64, T) {
        let (records, bytes) = (self.storage.len(), self.storage.bytes_read());
        let result = call();
        let opened = self.storage.records()[records..]
            .iter()
            .filter(|record| record.call.kind() == CallKind::OpenReader && is_session(record.call.path()))
            .count();
        (opened, self.storage.bytes_read() - bytes, result)
    }
}

fn is_session(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jsonl")
}

fn session(id: &str, prompt: &str) -> String {
    format!(
        "{{\"type\":\"session\",\"version\":3,\"id\":\"{id}\",\"timestamp\":\"2026-01-05T09:30:00.000Z\",\"cwd\":\"/w\"}}\n\
         {{\"type\":\"message\",\"id\":\"00000001\",\"parentId\":null,\"timestamp\":\"2026-01-05T09:30:01.000Z\",\"message\":{{\"role\":\"user\",\"content\":\"{prompt}\"}}}}\n"
    )
}

#[test]
fn k15_the_second_list_opens_what_changed() {
    // [K15, R3]
    let place = Place::new();
    place.sessions(50);
    place.write("broken.jsonl", "no session\n", 99);
    let catalog = place.catalog().with_cache(CacheMode::ReadWrite);
    let (opened, _, first) = place.cost(|| catalog.list_all().unwrap());
    assert_eq!((opened, first.sessions.len(), first.problems.len()), (51, 50, 1));
    let (opened, _, again) = place.cost(|| catalog.list_all().unwrap());
    assert_eq!((opened, again.sessions.len(), again.problems.len()), (0, 50, 1));
    let mut text = fs::read_to_string(place.dir().join("007.jsonl")).unwrap();
    let more = text.lines().nth(1).unwrap().replace("00000001", "00000002");
    text.push_str(&(more + "\n"));
    fs::write(place.dir().join("007.jsonl"), text).unwrap();
    let (opened, _, third) = place.cost(|| catalog.list_all().unwrap());
    assert_eq!((opened, third.sessions[0].message_count()), (1, Some(2)));
    let (opened, _, _) = place.cost(|| place.catalog().list(Some(Path::new("/w")), None).unwrap());
    assert_eq!(opened, 0, "reading the cache needs no leave to write it");
}

#[test]
fn without_leave_nothing_is_written() {
    // [R3, L4a]
    let place = Place::new();
    place.sessions(9);
    for mode in [CacheMode::Off, CacheMode::ReadOnly] {
        let catalog = place.catalog().with_cache(mode);
        catalog.list_all().unwrap();
        catalog.recent_sessions(&place.dir(), 9).unwrap();
        catalog.resolve("s1", Path::new("/w"), None).unwrap_or_default();
        catalog.most_likely(Path::new("/w"), None, None).unwrap();
    }
    assert!(place.storage.records().iter().all(|record| !record.call.kind().is_change()));
}

#[test]
fn k12_a_sparse_file_of_4_gb_is_not_read() {
    // [K12, R3] With a header and without.
    let place = Place::new();
    place.sessions(5);
    let header = session("big", "first words");
    for (name, text) in [("big.jsonl", header.as_str()), ("hole.jsonl", "")] {
        place.write(name, text, 99);
        fs::OpenOptions::new().write(true).open(place.dir().join(name)).unwrap().set_len(4 << 30).unwrap();
    }
    let (_, read, listing) = place.cost(|| place.catalog().list_all().unwrap());
    assert!(read < 16 << 20, "{read} bytes");
    assert_eq!((listing.sessions.len(), listing.problems.len()), (6, 1));
    let big = listing.sessions.iter().find(|info| info.id().as_str() == "big").unwrap();
    assert_eq!((big.first_message(), big.message_count(), big.size()), ("first words", None, 4 << 30));
    assert_eq!(listing.problems[0].kind(), ProblemKind::NoHeader);
}

#[test]
fn a_short_list_reads_a_prefix_of_a_few_files() {
    // [R1, K13]
    let place = Place::new();
    place.sessions(40);
    for n in 40..44 {
        let text = session(&format!("s{n}"), "early") + &"x".repeat(13_000_000);
        place.write(&format!("{n:03}.jsonl"), &text, n);
    }
    let (opened, read, recent) = place.cost(|| place.catalog().recent_sessions(&place.dir(), 10).unwrap());
    assert_eq!((opened, recent.sessions.len()), (10, 10));
    assert!(read <= 10 * 4096, "{read} bytes");
    let (opened, read, _) = place.cost(|| place.catalog().find_most_recent_session(&place.dir()).unwrap());
    assert!(opened == 1 && read <= 4096, "{opened} files, {read} bytes");
    let (opened, read, likely) = place.cost(|| place.catalog().most_likely(Path::new("/w"), None, None).unwrap());
    assert!(opened == 1 && read <= 4096 && likely.session().is_some(), "{opened} files, {read} bytes");
}

#[test]
fn sessions_of_others_are_read_no_further_than_the_header() {
    // [D5, R3]
    let place = Place::new();
    for n in 0..20 {
        let text = session(&format!("s{n}"), &"y".repeat(500_000));
        place.write(&format!("{n:03}.jsonl"), &text.replace("\"/w\"", if n == 0 { "\"/w\"" } else { "\"/v\"" }), n);
    }
    let catalog = place.catalog().with_depth(ListDepth::Whole);
    let (_, read, listing) = place.cost(|| catalog.list(Some(Path::new("/w")), None).unwrap());
    assert_eq!(listing.sessions.len(), 1);
    // 64 KiB of each other; the long message once for its line, once as the first and once as the last.
    assert!(read < 20 * 64 * 1024 + 3 * 510_000, "{read} bytes");
}

#[test]
fn k5_18_good_files_and_4_bad_ones() {
    // [K5, R3] Of 19 good files one can't be opened: a fault, because a test that runs as root may read anything.
    let place = Place::new();
    place.sessions(19);
    place.write("nul.jsonl", &"\0".repeat(4_096), 0);
    place.write("zero.jsonl", "", 51);
    fs::create_dir(place.dir().join("x.jsonl")).unwrap();
    place.storage.fail(
        Target::Kind(CallKind::OpenReader),
        Failure::Error(io::ErrorKind::PermissionDenied),
        Times::Next(1),
    );
    let catalog = place.catalog().with_cache(CacheMode::Off);
    let listing = catalog.list(None, Some(&place.dir())).unwrap();
    let mut kinds: Vec<_> = listing.problems.iter().map(|problem| problem.kind().name()).collect();
    kinds.sort_unstable();
    assert_eq!((listing.sessions.len(), kinds.len()), (18, 4), "{:?}", listing.problems);
    assert!(kinds.contains(&"unreadable") && kinds.contains(&"notAFile") && kinds.contains(&"empty"), "{kinds:?}");
    assert_eq!(
        catalog.list(None, Some(&place.dir())).unwrap().sessions.len(),
        19,
        "refused once is not refused for ever"
    );
}

#[test]
fn a_directory_that_cannot_be_read_is_an_error_and_a_failing_cache_is_not() {
    // [L1, R3]
    let place = Place::new();
    place.sessions(3);
    place.storage.fail(
        Target::Kind(CallKind::ReadDir),
        Failure::Error(io::ErrorKind::PermissionDenied),
        Times::Next(1),
    );
    assert!(place.catalog().list(None, Some(&place.dir())).is_err());
    place.storage.fill_disk();
    let catalog = place.catalog().with_cache(CacheMode::ReadWrite);
    assert_eq!(catalog.list_all().unwrap().sessions.len(), 3);
    place.storage.clear_faults();
    let left: Vec<_> = fs::read_dir(place.root.path().join("agent")).unwrap().collect();
    assert_eq!(left.len(), 1, "no half a cache: {left:?}");
}
