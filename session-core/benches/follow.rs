//! What following a session file costs beside what it cannot cost less than: reading the bytes, for the first look at a large
//! file; one `stat` for a file that is as it was; one `stat`, one open and one read for an append. Each floor is measured in
//! the same run; the ratio is what counts, and so are the bytes.

#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]
#![allow(clippy::unwrap_used, reason = "a benchmark that fails has nothing to say")]

use std::fs::{File, metadata};
use std::hint::black_box;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use session_core::EntryKind;
use session_core::follow::{Follower, Slice};
use session_core::storage::FileSessionStorage;

const SIZE: u64 = 256 * 1_000_000;

fn main() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    fill(&path);
    let storage = FileSessionStorage::new();
    println!("{:<64} {:>12} {:>12} {:>7}", "", "ours", "floor", "ratio");

    let read = best(|| read_through(&path));
    let mut entries = 0;
    let look = best(|| {
        let mut follower = Follower::new();
        entries = 0;
        loop {
            let changes = follower.look(&storage, &path, Slice::default()).unwrap();
            entries += changes.entries().len();
            if !changes.has_more() {
                break;
            }
        }
    });
    row(&format!("first look, {} MB, {entries} entries: reading it", SIZE / 1_000_000), look, read);
    let with_prompts = best(|| {
        let mut follower = Follower::new();
        loop {
            let changes = follower.look(&storage, &path, Slice::default()).unwrap();
            for entry in changes.entries().filter(|entry| entry.kind() == EntryKind::Message) {
                black_box(entry.json().unwrap());
            }
            if !changes.has_more() {
                break;
            }
        }
    });
    row("  the same, the JSON of each entry checked and copied", with_prompts, read);

    let mut follower = Follower::new();
    while follower.look(&storage, &path, Slice::default()).unwrap().has_more() {}
    let unchanged = best(|| follower.look(&storage, &path, Slice::default()).unwrap().transition());
    row("a look at a file that is as it was: one stat", unchanged, best(|| metadata(&path).unwrap().len()));

    let mut writer = File::options().append(true).open(&path).unwrap();
    let line = entry(0, 1_024);
    let mut buffer = vec![0; line.len()];
    let (mut look, mut floor) = (Duration::MAX, Duration::MAX);
    for _ in 0..1_000 {
        writer.write_all(line.as_bytes()).unwrap();
        look = look.min(time(|| follower.look(&storage, &path, Slice::default()).unwrap().entries().len()));
        floor = floor.min(time(|| {
            let len = metadata(&path).unwrap().len();
            File::open(&path).unwrap().read_at(&mut buffer, len - line.len() as u64).unwrap()
        }));
    }
    row("1 KB appended to it: stat, open, one read", look, floor);
    println!("position of {} bytes as text: {}", follower.position().to_string().len(), follower.position());
}

fn fill(path: &Path) {
    let mut file = File::create(path).unwrap();
    writeln!(
        file,
        r#"{{"type":"session","version":3,"id":"0123456789abcdef","timestamp":"2026-01-05T09:30:00.000Z","cwd":"/p"}}"#
    )
    .unwrap();
    let block: String = (0..1_000).map(|id| entry(id, [300, 700, 2_000, 12_000][id % 4])).collect();
    while file.metadata().unwrap().len() < SIZE {
        file.write_all(block.as_bytes()).unwrap();
    }
}

fn entry(id: usize, len: usize) -> String {
    let text = "The quick brown fox jumps over the \\\"lazy\\\" dog.\\n".repeat(len / 50);
    format!(
        "{{\"type\":\"message\",\"id\":\"{id:08x}\",\"parentId\":null,\"timestamp\":\"2026-01-05T09:30:00.000Z\",\"message\":{{\"role\":\"user\",\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}],\"timestamp\":1767605400250}}}}\n"
    )
}

fn read_through(path: &Path) -> u64 {
    let mut file = File::open(path).unwrap();
    let mut buffer = vec![0; 256 * 1024];
    let mut total = 0;
    loop {
        match file.read(&mut buffer).unwrap() {
            0 => return total,
            n => total += black_box(&buffer[..n]).len() as u64,
        }
    }
}

fn time<T>(call: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    black_box(call());
    start.elapsed()
}

fn best<T>(mut call: impl FnMut() -> T) -> Duration {
    (0..5).map(|_| time(&mut call)).min().unwrap_or_default()
}

fn row(name: &str, ours: Duration, floor: Duration) {
    let ratio = ours.as_secs_f64() / floor.as_secs_f64();
    println!("{name:<64} {:>12} {:>12} {ratio:>7.2}", format!("{ours:.1?}"), format!("{floor:.1?}"));
}
