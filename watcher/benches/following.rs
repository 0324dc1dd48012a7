//! What the watcher costs, each beside its floor in the same run: from append to found, a start on ten thousand session
//! directories, a first sync. `BENCH_MB` and `BENCH_DIRS` scale it; `cargo bench -p watcher -- start sync` runs some of it.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::cast_precision_loss, reason = "a benchmark prints a table")]

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use history::rusqlite::Connection;
use history::{Access, OpenOptions as HistoryOptions, SearchOptions};

const ROUNDS: usize = 300;
const SYNC_ROUNDS: usize = 5;

struct Watcher(Child);

impl Watcher {
    fn start(agent: &Path) -> (Self, Duration) {
        Self::start_with(agent, &[])
    }

    fn start_with(agent: &Path, words: &[&str]) -> (Self, Duration) {
        let begun = Instant::now();
        let mut command = Command::new(env!("CARGO_BIN_EXE_watcher"));
        command.args(["run", "--agent-dir"]).arg(agent).args(words).stdout(Stdio::null()).stderr(Stdio::null());
        let watcher = Self(command.spawn().unwrap());
        let pid = format!("\"pid\":{},", watcher.0.id());
        loop {
            let state = fs::read_to_string(agent.join(".watcher/state.json")).unwrap_or_default();
            if state.contains(&pid) && state.contains("\"following\":true") {
                return (watcher, begun.elapsed());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// How often its threads went to sleep, and how long they ran.
    #[cfg(target_os = "linux")]
    fn activity(&self) -> (u64, Duration) {
        let mut sum = (0, Duration::ZERO);
        for task in fs::read_dir(format!("/proc/{}/task", self.0.id())).unwrap() {
            let task = task.unwrap().path();
            let read = |name: &str| fs::read_to_string(task.join(name)).unwrap_or_default();
            let status = read("status");
            let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            sum.0 += count.map_or(0, |count| count.trim().parse::<u64>().unwrap());
            sum.1 += ran(&task);
        }
        sum
    }

    /// A line of the process's status that holds kilobytes or a count.
    fn status(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
    }
}

/// How long a thread has run, by its directory in `/proc`.
#[cfg(target_os = "linux")]
fn ran(task: &Path) -> Duration {
    let schedule = fs::read_to_string(task.join("schedstat")).unwrap_or_default();
    Duration::from_nanos(schedule.split_whitespace().next().map_or(0, |nanos| nanos.parse().unwrap()))
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // It ends with the benchmark, however that ends.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let parts: [(&str, fn()); 6] = [
        ("latency", latency),
        ("start", start),
        ("sync", first_sync),
        ("status", status),
        ("day", day),
        ("idle", idle),
    ];
    for (name, part) in parts {
        if wanted.is_empty() || wanted.iter().any(|word| word == name) {
            part();
        }
    }
}

fn header(id: &str) -> String {
    format!(
        "{{\"type\":\"session\",\"version\":3,\"id\":\"{id}\",\"timestamp\":\"2026-01-05T09:30:00.000Z\",\"cwd\":\"/w\"}}\n"
    )
}

fn message(number: usize, role: &str, text: &str) -> String {
    format!(
        "{{\"type\":\"message\",\"id\":\"{number:08x}\",\"parentId\":null,\"timestamp\":\"2026-01-05T09:30:00.000Z\",\
         \"message\":{{\"role\":\"{role}\",\"content\":\"{text}\",\"timestamp\":{}}}}}\n",
        1_767_605_400_000 + number * 1000
    )
}

fn report(what: &str, mut times: Vec<Duration>) -> (f64, f64) {
    times.sort();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1000.0;
    println!("{what:<44} p50 {:8.2} ms   p99 {:8.2} ms", at(50), at(99));
    (at(50), at(99))
}

/// From append to found by search, beside raw inotify and one committed insert.
fn latency() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = dir.path().join("sessions/--w--");
    fs::create_dir_all(&sessions).unwrap();
    let path = sessions.join("x.jsonl");
    fs::write(&path, header("s")).unwrap();
    let (_watcher, _) = Watcher::start(dir.path());
    let store = HistoryOptions::new().access(Access::ReadOnly).open(dir.path().join("history.db")).unwrap();
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    let options = SearchOptions::new(1);
    let found = (0..ROUNDS).map(|n| {
        let word = format!("needle{n:06}");
        file.write_all(message(n, "user", &word).as_bytes()).unwrap();
        let begun = Instant::now();
        while store.search(&word, &options).unwrap().entries().is_empty() {
            std::thread::sleep(Duration::from_micros(50));
        }
        let took = begun.elapsed();
        std::thread::sleep(Duration::from_millis(5));
        took
    });
    let (p50, p99) = report("append to found by search", found.collect());
    let (floor50, floor99) = report("floor: raw inotify and one committed insert", floor());
    println!("{:<44} p50 {:8.2}      p99 {:8.2}", "ratio", p50 / floor50, p99 / floor99);
}

#[cfg(target_os = "linux")]
fn floor() -> Vec<Duration> {
    use rustix::fs::inotify;
    let dir = tempfile::tempdir().unwrap();
    let events = inotify::init(inotify::CreateFlags::empty()).unwrap();
    inotify::add_watch(&events, dir.path(), inotify::WatchFlags::MODIFY).unwrap();
    let conn = Connection::open(dir.path().join("db")).unwrap();
    conn.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE t(prompt TEXT)").unwrap();
    let outside = tempfile::tempdir_in(dir.path()).unwrap();
    inotify::add_watch(&events, outside.path(), inotify::WatchFlags::MODIFY).unwrap();
    let mut file = File::create(outside.path().join("x")).unwrap();
    let mut events = File::from(events);
    let mut buffer = [0; 4096];
    (0..ROUNDS)
        .map(|n| {
            file.write_all(message(n, "user", "needle").as_bytes()).unwrap();
            let begun = Instant::now();
            let _ = events.read(&mut buffer).unwrap();
            conn.execute("INSERT INTO t(prompt) VALUES ('needle')", []).unwrap();
            let took = begun.elapsed();
            std::thread::sleep(Duration::from_millis(5));
            took
        })
        .collect()
}

#[cfg(not(target_os = "linux"))]
fn floor() -> Vec<Duration> {
    vec![Duration::from_millis(1); ROUNDS]
}

fn scale(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// A warm start on many session directories, beside one stat of each file.
fn start() {
    let count = scale("BENCH_DIRS", 10_000);
    let dir = tempfile::tempdir().unwrap();
    for n in 0..count {
        let sessions = dir.path().join(format!("sessions/--w{n}--"));
        fs::create_dir_all(&sessions).unwrap();
        fs::write(sessions.join("x.jsonl"), header(&format!("s{n}")) + &message(n, "user", &format!("prompt {n}")))
            .unwrap();
    }
    sync(dir.path());
    let begun = Instant::now();
    let files = fs::read_dir(dir.path().join("sessions")).unwrap().map(|dir| dir.unwrap().path());
    let bytes: u64 = files
        .map(|dir| fs::read_dir(dir).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum::<u64>())
        .sum();
    let floor = begun.elapsed();
    let (watcher, took) = Watcher::start(dir.path());
    println!(
        "start on {count} directories: {:.2} s (under 2 wanted), at most {} kB (under 40000 wanted); \
         floor (list and stat, {bytes} bytes): {:.2} s; ratio {:.1}",
        took.as_secs_f64(),
        watcher.status("VmHWM"),
        floor.as_secs_f64(),
        took.as_secs_f64() / floor.as_secs_f64()
    );
}

/// What is asked of a watcher that may not run, its process included, beside a process that does nothing.
fn status() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..scale("BENCH_DIRS", 10_000) {
        fs::create_dir_all(dir.path().join(format!("sessions/--w{n}--"))).unwrap();
    }
    let times = |word: &str| -> Vec<Duration> {
        let time = |_| {
            let begun = Instant::now();
            let mut command = Command::new(env!("CARGO_BIN_EXE_watcher"));
            command.arg(word).arg("--agent-dir").arg(dir.path()).stdout(Stdio::null()).status().unwrap();
            begun.elapsed()
        };
        (0..50).map(time).collect()
    };
    report("status, nothing runs (under 50 ms wanted)", times("status"));
    let (watcher, _) = Watcher::start(dir.path());
    report("status of a running watcher (under 50 ms)", times("status"));
    drop(watcher);
    report("floor: the process alone", times("--version"));
}

/// Months in a minute: appends to two hundred files, of which some are rewritten, deleted and made again. Memory must not
/// grow with what went by.
fn day() {
    let appends = scale("BENCH_APPENDS", 100_000);
    let dir = tempfile::tempdir().unwrap();
    let path = |file: usize| dir.path().join(format!("sessions/--w{}--/{file}.jsonl", file % 20));
    for file in 0..200 {
        fs::create_dir_all(path(file).parent().unwrap()).unwrap();
        fs::write(path(file), header(&format!("s{file}"))).unwrap();
    }
    // A history larger than what the database keeps of it in memory, which is bounded and fills once.
    let past: String = (1..=appends).map(|n| message(appends + n, "user", &format!("long ago {n}"))).collect();
    fs::write(path(0).with_file_name("past.jsonl"), header("past") + &past).unwrap();
    sync(dir.path());
    let (watcher, _) = Watcher::start_with(dir.path(), &["--reconcile-interval", "1"]);
    let store = HistoryOptions::new().access(Access::ReadOnly).open(dir.path().join("history.db")).unwrap();
    let arrived = |number: usize| {
        let word = format!("needle{number:07}");
        while store.search(&word, &SearchOptions::new(1)).unwrap().entries().is_empty() {
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    let mut measured = Vec::new();
    for number in 1..=appends {
        let path = path(number % 200);
        let line = message(number, "user", &format!("needle{number:07} of a day"));
        match number % 50 {
            // As a harness rewrites; what stood in it is known.
            0 => {
                let fresh = path.with_extension("tmp");
                fs::write(&fresh, fs::read_to_string(&path).unwrap() + &line).unwrap();
                fs::rename(&fresh, &path).unwrap();
            }
            1 => {
                fs::remove_file(&path).unwrap();
                fs::write(&path, header(&format!("s{number}")) + &line).unwrap();
            }
            _ => OpenOptions::new().append(true).open(&path).unwrap().write_all(line.as_bytes()).unwrap(),
        }
        // Not so far ahead that files are deleted before anybody looked.
        if number % 500 == 0 {
            arrived(number);
        }
        if number % (appends / 10) == 0 {
            measured.push(watcher.status("RssAnon"));
        }
    }
    println!(
        "{appends} appends to 200 files: memory of its own {} kB after a tenth, {} kB after all (each tenth: {measured:?})",
        measured[0],
        measured[measured.len() - 1]
    );
}

/// A minute without news (K52): how often any thread woke, and what the processor did.
#[cfg(target_os = "linux")]
fn idle() {
    let (count, seconds) = (500, scale("BENCH_IDLE_SECONDS", 60) as u64);
    let dir = tempfile::tempdir().unwrap();
    // Beside them as many that nobody but the floor looks at.
    for (n, tree) in (0..count).flat_map(|n| [(n, "sessions"), (n, "beside")]) {
        let sessions = dir.path().join(tree).join(format!("--w{n}--"));
        fs::create_dir_all(&sessions).unwrap();
        fs::write(sessions.join("x.jsonl"), header(&format!("s{n}"))).unwrap();
    }
    let (watcher, _) = Watcher::start(dir.path());
    // What the start left to do is done.
    std::thread::sleep(Duration::from_secs(2));
    let (woken, busy) = watcher.activity();
    // One look at each name is what a reconcile can't do without. After the same sleep: by then others have the caches.
    let beside = dir.path().join("beside");
    let floor = std::thread::spawn(move || {
        let dirs = (0..count).map(|n| beside.join(format!("--w{n}--")));
        let paths: Vec<_> = dirs.flat_map(|dir| [dir.join("x.jsonl"), dir]).collect();
        std::thread::sleep(Duration::from_secs(seconds));
        let before = ran(Path::new("/proc/thread-self"));
        assert!(paths.iter().all(|path| fs::metadata(path).is_ok()));
        ran(Path::new("/proc/thread-self")).saturating_sub(before)
    });
    std::thread::sleep(Duration::from_secs(seconds));
    let (woken, busy) = (watcher.activity().0 - woken, watcher.activity().1.saturating_sub(busy));
    let millis = |time: Duration| time.as_secs_f64() * 1000.0;
    let floor = millis(floor.join().unwrap());
    println!(
        "idle on {count} directories for {seconds} s: {woken} wake-ups (under 30 a minute wanted), {:.1} ms of CPU \
         (under 50 a minute wanted); floor (a look at each name) {floor:.1} ms; ratio {:.1}",
        millis(busy),
        millis(busy) / floor
    );
}

#[cfg(not(target_os = "linux"))]
fn idle() {
    println!("idle: wake-ups are counted on Linux only");
}

fn sync(agent: &Path) -> Duration {
    let begun = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_watcher"));
    let output = command.args(["sync", "--agent-dir"]).arg(agent).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    begun.elapsed()
}

/// A first sync, beside reading the sessions: into memory, and as sessions.
fn first_sync() {
    let megabytes = scale("BENCH_MB", 1024);
    let dir = tempfile::tempdir().unwrap();
    let sessions = dir.path().join("sessions/--w--");
    fs::create_dir_all(&sessions).unwrap();
    let answer = "An answer of the model, with \\\"quotes\\\" and a line\\n. ".repeat(150);
    let mut number = 0;
    for file in 0..megabytes.div_ceil(4) {
        let mut text = header(&format!("s{file}"));
        while text.len() < 4 << 20 {
            number += 1;
            let is_prompt = number % 12 == 0;
            text += &if is_prompt {
                message(number, "user", &format!("prompt {number}"))
            } else {
                message(number, "assistant", &answer)
            };
        }
        fs::write(sessions.join(format!("{file}.jsonl")), text).unwrap();
    }
    let files: Vec<_> = fs::read_dir(&sessions).unwrap().map(|file| file.unwrap().path()).collect();
    let mut buffer = vec![0; 1 << 20];
    let mut bytes = 0;
    // The best of a few rounds each, in turn: what else runs on the machine disturbs all three.
    let [mut raw, mut read, mut took] = [Duration::MAX; 3];
    for _ in 0..SYNC_ROUNDS {
        let begun = Instant::now();
        bytes = files.iter().map(|path| read_through(path, &mut buffer)).sum();
        raw = raw.min(begun.elapsed());
        let begun = Instant::now();
        for path in &files {
            assert!(session_core::Session::read(path).unwrap().header().is_some());
        }
        read = read.min(begun.elapsed());
        for name in ["history.db", "history.db-wal", "history.db-shm"] {
            let _ = fs::remove_file(dir.path().join(name));
        }
        took = took.min(sync(dir.path()));
    }
    let rate = |time: Duration| bytes as f64 / 1e6 / time.as_secs_f64();
    println!(
        "first sync of {} MB with {} prompts: {:.0} MB/s; as sessions {:.0} MB/s (ratio {:.2}, at least 0.50 wanted); \
         bytes alone {:.0} MB/s",
        bytes / 1_000_000,
        number / 12,
        rate(took),
        rate(read),
        rate(took) / rate(read),
        rate(raw)
    );
}

fn read_through(path: &Path, buffer: &mut [u8]) -> usize {
    let mut file = File::open(path).unwrap();
    std::iter::from_fn(|| Some(file.read(buffer).unwrap()).filter(|read| *read > 0)).sum()
}
