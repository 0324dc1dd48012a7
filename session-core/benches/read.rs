//! Opening a session and building its context, beside reading the same file once in pieces of 256 KB.
//!
//! The file is in the page cache in both cases: the floor is what the kernel takes to hand the bytes over. Memory is the
//! peak of a process of its own that does nothing else, over what it had before. Promised: at most three times the floor, and
//! at most 16 MB + 64 bytes an entry + the context.

#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]
#![allow(clippy::unwrap_used, reason = "a benchmark that fails has nothing to say")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

mod generate;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use session_core::{Leaf, Session};

const ROUNDS: usize = 15;
const CHILD: &str = "READ_BENCH_CHILD";

fn main() {
    if let Ok(path) = std::env::var(CHILD) {
        measure_memory(Path::new(&path));
        return;
    }
    let megabytes: usize = std::env::var("READ_BENCH_MB").ok().and_then(|mb| mb.parse().ok()).unwrap_or(100);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("session.jsonl");
    std::fs::write(&path, generate::session(megabytes * 1_000_000, 1)).unwrap();
    let entries = Session::read(&path).unwrap().entries().len();
    println!(
        "a session of {megabytes} MB with {entries} entries, in the page cache; medians of {ROUNDS} rounds in turn"
    );

    let (mut floor, mut open, mut both) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        floor.push(time(|| read_in_pieces(&path)));
        let mut opened = None;
        let opening = time(|| opened = Some(Session::read(&path).unwrap()));
        open.push(opening);
        both.push(opening + time(|| drop(opened.take().unwrap().context(&Leaf::Current).unwrap())));
    }
    let floor = median(&mut floor);
    println!("{:<40} {:>9} {:>9} {:>6}", "", "ours", "floor", "ratio");
    for (what, times) in [("open", &mut open), ("open and context of the leaf", &mut both)] {
        let ours = median(times);
        let ratio = ours.as_secs_f64() / floor.as_secs_f64();
        println!("{what:<40} {:>6.1} ms {:>6.1} ms {ratio:>6.2}", millis(ours), millis(floor));
    }
    let output = Command::new(std::env::current_exe().unwrap()).env(CHILD, &path).output().unwrap();
    print!("{}", String::from_utf8_lossy(&output.stdout));
}

fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn read_in_pieces(path: &Path) {
    let file = File::open(path).unwrap();
    let mut piece = vec![0; 256 * 1024];
    let mut at = 0;
    loop {
        match file.read_at(&mut piece, at).unwrap() {
            0 => return,
            n => at += n as u64,
        }
    }
}

/// In a process of its own: how far the peak of resident memory rises.
fn measure_memory(path: &Path) {
    let Some(before) = peak_kb() else {
        println!("memory: not measured, /proc/self/status can't be read here");
        return;
    };
    let session = Session::read(path).unwrap();
    let after_open = peak_kb().unwrap_or(before);
    let context = session.context(&Leaf::Current).unwrap();
    let peak = peak_kb().unwrap_or(before);
    let context_kb =
        context.messages().iter().map(|message| message.json().as_str().len()).sum::<usize>() as u64 / 1024;
    let allowed = 16 * 1024 + session.entries().len() as u64 * 64 / 1024 + context_kb;
    println!(
        "memory: open {} KB, with context {} KB (the context itself {context_kb} KB); allowed {allowed} KB",
        after_open - before,
        peak - before,
    );
}

fn peak_kb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().strip_suffix(" kB")?.trim().parse().ok()
}
