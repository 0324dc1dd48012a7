//! What a storage's calls cost beside the system calls that they cannot do without, measured in turns in the same run.

#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]
#![allow(clippy::unwrap_used, reason = "a benchmark that fails has nothing to say")]

use std::fs::{self, File, OpenOptions};
use std::hint::black_box;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use session_core::storage::{FileSessionStorage, OpenMode, SessionStorage};

fn main() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    let storage = FileSessionStorage::new();
    println!("{:<56} {:>11} {:>11} {:>7}", "best of many, per call", "ours", "floor", "ratio");

    let line = vec![b'x'; 1_023];
    let whole = [line.as_slice(), b"\n"].concat();
    let mut ours = storage.open_writer(&path("ours"), OpenMode::Append).unwrap();
    let mut raw = OpenOptions::new().create(true).append(true).open(path("raw")).unwrap();
    row(
        "write_line of 1 KB: one write(2)",
        turns(2_000, 10, || ours.write_line(&line).unwrap(), || raw.write_all(&whole).unwrap()),
    );

    let mut lock = storage.open_lock(&path("x.lock"), "process 1 (bench)").unwrap();
    let file = File::create(path("raw.lock")).unwrap();
    let flock = || {
        file.lock().unwrap();
        file.unlock().unwrap();
    };
    let cycle = || {
        lock.acquire(Duration::ZERO).unwrap();
        lock.release();
    };
    row("acquire and release: flock(2) twice", turns(2_000, 10, cycle, flock));

    let reader = storage.open_reader(&path("ours")).unwrap();
    let file = File::open(path("ours")).unwrap();
    let (mut a, mut b) = ([0; 4_096], [0; 4_096]);
    row(
        "read_at of 4 KB: one pread(2)",
        turns(
            2_000,
            10,
            || assert_eq!(reader.read_at(512, &mut a).unwrap(), 4_096),
            || assert_eq!(file.read_at(&mut b, 512).unwrap(), 4_096),
        ),
    );

    row(
        "prefix of 4 KB of a file by path: open, read, close",
        turns(
            500,
            10,
            || drop(black_box(storage.read_bytes(&path("ours"), 4_096).unwrap())),
            || assert_eq!(File::open(path("ours")).unwrap().read_at(&mut b, 0).unwrap(), 4_096),
        ),
    );

    let text = "y".repeat(100_000);
    row(
        "write_text of 100 KB: write, fsync, rename, fsync of dir",
        turns(
            1,
            20,
            || storage.write_text(&path("text"), &text).unwrap(),
            || replace(root.path(), &path("raw text"), text.as_bytes()),
        ),
    );

    row(
        "writers_of: reading the links of all open files",
        turns(5, 10, || drop(black_box(storage.writers_of(&path("ours"), &path("x.lock")).unwrap())), links),
    );
}

/// The least time a call of each, over `rounds` rounds of `calls` calls, taken in turns so that a slow moment strikes both.
fn turns(calls: u32, rounds: u32, mut ours: impl FnMut(), mut floor: impl FnMut()) -> (Duration, Duration) {
    let mut best = (Duration::MAX, Duration::MAX);
    for _ in 0..rounds {
        best.0 = best.0.min(time(calls, &mut ours));
        best.1 = best.1.min(time(calls, &mut floor));
    }
    best
}

fn time(calls: u32, work: &mut impl FnMut()) -> Duration {
    let start = Instant::now();
    for _ in 0..calls {
        work();
    }
    start.elapsed() / calls
}

fn row(name: &str, (ours, floor): (Duration, Duration)) {
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    println!("{name:<56} {:>8.2} us {:>8.2} us {:>7.2}", micros(ours), micros(floor), micros(ours) / micros(floor));
}

fn replace(dir: &Path, path: &Path, bytes: &[u8]) {
    let temporary = dir.join("temporary");
    let mut file = File::create(&temporary).unwrap();
    file.write_all(bytes).unwrap();
    file.sync_data().unwrap();
    drop(file);
    fs::rename(&temporary, path).unwrap();
    File::open(dir).unwrap().sync_all().unwrap();
}

fn links() {
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        for descriptor in fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten() {
            let _ = black_box(fs::read_link(descriptor.path()));
        }
    }
}
