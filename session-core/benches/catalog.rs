//! What finding sessions costs beside what it cannot do without: looking at every file, reading the beginning of every file,
//! reading every file. Each floor is measured in turns in the same run; the ratio is what counts. Files are in the page
//! cache throughout, and times are those of the processor, of all threads together: what is measured is our work, not the
//! disk's, and not that of others on the machine.

#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]
#![allow(clippy::unwrap_used, reason = "a benchmark that fails has nothing to say")]

use std::fs::{self, File};
use std::hint::black_box;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};
use session_core::storage::{
    DirItem, FileSessionStorage, OpenMode, SessionStorage, Stat, StorageLock, StorageReader, StorageWriter,
};
use session_core::{AgentDir, CacheMode, Catalog, Environment, ListDepth, Result};

const DIRS: usize = 20;
const IN_EACH: usize = 100;
const ROUNDS: usize = 7;

fn main() {
    let root = tempfile::tempdir().unwrap();
    let (files, bytes) = generate(root.path());
    println!("{} sessions in {DIRS} directories, {:.1} MB in all, in the page cache", files.len(), mb(bytes));
    println!("{:<58} {:>10} {:>10} {:>7} {:>7} {:>10}", "", "ours", "floor", "ratio", "opens", "KB read");

    let agent = AgentDir::at(root.path()).unwrap();
    let cache = agent.catalog_cache();
    let counting = Arc::new(Counting::default());
    let catalog =
        Catalog::new(agent, Environment::new("/")).with_storage(Arc::clone(&counting) as _).with_cache(CacheMode::Off);
    let cached = catalog.clone().with_cache(CacheMode::ReadWrite);
    let dir = root.path().join("sessions/--w-0--");

    let look = || files.iter().map(|path| fs::metadata(path).unwrap().len()).sum::<u64>();
    let begin = || files.iter().map(|path| read(path, 4096)).sum::<usize>();
    let all = || files.iter().map(|path| read(path, usize::MAX)).sum::<usize>();
    let forget = || fs::remove_file(&cache).unwrap_or_default();
    let list = |catalog: &Catalog, depth| catalog.clone().with_depth(depth).list_all().unwrap().sessions.len();

    let table = Table(&counting);
    table.row("list, headers: read 4096 bytes of every file", || list(&catalog, ListDepth::Header), begin, || {});
    table.row("list, prefixes: read 4096 bytes of every file", || list(&catalog, ListDepth::Prefix), begin, || {});
    table.row("list, all facts, no cache: read every file", || list(&catalog, ListDepth::Bounded), all, || {});
    table.row("list, all facts, cache written: read every file", || list(&cached, ListDepth::Bounded), all, forget);
    table.row("list, all facts, from the cache: stat every file", || list(&cached, ListDepth::Bounded), look, || {});
    let here = || catalog.list(Some(Path::new("/w/0")), None).unwrap().sessions.len();
    let in_dir = || fs::read_dir(&dir).unwrap().map(|item| read(&item.unwrap().path(), usize::MAX)).sum::<usize>();
    table.row("list of one of the directories: read its files", here, in_dir, || {});
    let look_in_dir = || fs::read_dir(&dir).unwrap().map(|item| item.unwrap().metadata().unwrap().len()).sum::<u64>();
    let recent = || catalog.recent_sessions(&dir, 10).unwrap().sessions.len();
    table.row("10 recent of 100: stat every file", recent, look_in_dir, || {});
    let likely = || catalog.most_likely(Path::new("/w/0"), None, None).unwrap().session().map(Path::to_path_buf);
    table.row("which to continue, of 100: stat every file", likely, look_in_dir, || {});
    let resolve = || catalog.resolve("s00700", Path::new("/w/0"), None).unwrap().unwrap().id().cloned();
    table.row("resolve an id: read 4096 bytes of every file", resolve, begin, || {});
    let by_id = || catalog.find_by_id(&"s00700".into()).unwrap().unwrap();
    table.row("find an id that is in a file's name: stat every file", by_id, look, || {});
}

struct Table<'a>(&'a Counting);

impl Table<'_> {
    /// Measures both in turns, `before` before each, and counts what ours opened and read in its last turn.
    fn row<A, B>(&self, name: &str, ours: impl Fn() -> A, floor: impl Fn() -> B, before: impl Fn()) {
        let (mut best_ours, mut best_floor) = (Duration::MAX, Duration::MAX);
        for _ in 0..ROUNDS {
            before();
            self.0.opens.store(0, Ordering::Relaxed);
            self.0.bytes.store(0, Ordering::Relaxed);
            best_ours = best_ours.min(time(&ours));
            best_floor = best_floor.min(time(&floor));
        }
        let ratio = best_ours.as_secs_f64() / best_floor.as_secs_f64();
        let (opens, bytes) = (self.0.opens.load(Ordering::Relaxed), self.0.bytes.load(Ordering::Relaxed));
        println!(
            "{name:<58} {:>7.2} ms {:>7.2} ms {ratio:>7.2} {opens:>7} {:>10}",
            millis(best_ours),
            millis(best_floor),
            bytes / 1024
        );
    }
}

fn time<T>(work: impl Fn() -> T) -> Duration {
    let now = || Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap();
    let start = now();
    black_box(work());
    now().saturating_sub(start)
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn mb(bytes: u64) -> f64 {
    Duration::from_micros(bytes).as_secs_f64()
}

fn read(path: &Path, most: usize) -> usize {
    let mut file = File::open(path).unwrap();
    let len = usize::try_from(file.metadata().unwrap().len()).unwrap().min(most);
    let mut bytes = vec![0; len];
    file.read_exact(&mut bytes).unwrap();
    bytes.len()
}

/// Sessions of 1 to 50 turns, and how many bytes they have.
fn generate(root: &Path) -> (Vec<PathBuf>, u64) {
    let (mut files, mut bytes) = (Vec::new(), 0);
    for dir in 0..DIRS {
        let place = root.join(format!("sessions/--w-{dir}--"));
        fs::create_dir_all(&place).unwrap();
        for n in 0..IN_EACH {
            let id = format!("s{:05}", dir * IN_EACH + n);
            let mut text = format!(
                "{{\"type\":\"session\",\"version\":3,\"id\":\"{id}\",\"timestamp\":\"2026-01-05T09:30:00.000Z\",\"cwd\":\"/w/{dir}\"}}\n"
            );
            for turn in 0..=(dir * 7 + n * 13) % 50 {
                for (role, size) in [("user", 80), ("assistant", 700)] {
                    text.push_str(&message(turn, role, &"word ".repeat(size / 5)));
                }
            }
            let path = place.join(format!("2026-01-05T09-30-00-000Z_{id}.jsonl"));
            fs::write(&path, &text).unwrap();
            bytes += text.len() as u64;
            files.push(path);
        }
    }
    (files, bytes)
}

fn message(turn: usize, role: &str, text: &str) -> String {
    let id = format!("{turn:04x}{:04x}", role.len());
    format!(
        "{{\"type\":\"message\",\"id\":\"{id}\",\"parentId\":null,\"timestamp\":\"2026-01-05T09:31:00.000Z\",\"message\":{{\"role\":\"{role}\",\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}]}}}}\n"
    )
}

/// Files, with a count of what was opened and read.
#[derive(Debug, Default)]
struct Counting {
    files: FileSessionStorage,
    opens: AtomicU64,
    bytes: Arc<AtomicU64>,
}

#[derive(Debug)]
struct CountingReader(Box<dyn StorageReader>, Arc<AtomicU64>);

impl StorageReader for CountingReader {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let n = self.0.read_at(offset, buffer)?;
        self.1.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }

    fn stat(&self) -> Result<Stat> {
        self.0.stat()
    }
}

impl SessionStorage for Counting {
    fn open_reader(&self, path: &Path) -> Result<Box<dyn StorageReader>> {
        self.opens.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(CountingReader(self.files.open_reader(path)?, Arc::clone(&self.bytes))))
    }

    fn ensure_dir(&self, dir: &Path) -> Result<()> {
        self.files.ensure_dir(dir)
    }

    fn stat(&self, path: &Path) -> Result<Option<Stat>> {
        self.files.stat(path)
    }

    fn read_dir(&self, dir: &Path) -> Result<Option<Vec<DirItem>>> {
        self.files.read_dir(dir)
    }

    fn open_writer(&self, path: &Path, mode: OpenMode) -> Result<Box<dyn StorageWriter>> {
        self.files.open_writer(path, mode)
    }

    fn create_new(&self, path: &Path) -> Result<Box<dyn StorageWriter>> {
        self.files.create_new(path)
    }

    fn write_at(&self, path: &Path, offset: u64, bytes: &[u8]) -> Result<()> {
        self.files.write_at(path, offset, bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.files.rename(from, to)
    }

    fn unlink(&self, path: &Path) -> Result<()> {
        self.files.unlink(path)
    }

    fn remove_tree(&self, dir: &Path) -> Result<()> {
        self.files.remove_tree(dir)
    }

    fn copy(&self, from: &Path, to: &Path) -> Result<()> {
        self.files.copy(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.files.sync_dir(dir)
    }

    fn set_modified(&self, path: &Path, time: SystemTime) -> Result<()> {
        self.files.set_modified(path, time)
    }

    fn resolve(&self, path: &Path) -> PathBuf {
        self.files.resolve(path)
    }

    fn open_lock(&self, path: &Path, holder: &str) -> Result<Box<dyn StorageLock>> {
        self.files.open_lock(path, holder)
    }
}
