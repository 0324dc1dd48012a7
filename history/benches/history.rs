//! What the prompt store costs beside what it cannot cost less than: one prepared insert through the same trigger into the
//! same index, one bare transaction, one step of SQLite. Each floor is measured in the same run.
//!
//! A question is answered on the thread that asks: beside the time by the clock stands the time that the thread ran, which
//! is what a machine with other work to do leaves comparable.
//!
//! `HISTORY_BENCH_ROWS` scales the large history (default one million prompts); `-- import add inside words owner` chooses
//! parts.

#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]
#![allow(clippy::unwrap_used, reason = "a benchmark that fails has nothing to say")]
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "shares of small numbers"
)]

use std::{
    fmt::Write as _,
    hint::black_box,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use history::{HistoryStorage, Import, Scope, SearchOptions, rusqlite};
use rusqlite::Connection;
use rustix::time::ClockId;

const SMALL: usize = 100_000;
const QUESTIONS: usize = 400;
const PAGE: usize = 20;

fn main() {
    let rows = std::env::var("HISTORY_BENCH_ROWS").map_or(1_000_000, |rows| rows.parse().unwrap());
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    let dir = tempfile::tempdir().unwrap();
    let words = Words::new();
    if is_wanted("import") {
        importing(dir.path(), rows.min(SMALL));
    }
    if is_wanted("add") {
        adding(dir.path());
    }
    if is_wanted("inside") {
        asking_inside(dir.path(), &words);
    }
    if is_wanted("words") || is_wanted("owner") {
        let large = dir.path().join("large.db");
        println!("\n{rows} prompts of Zipf words");
        let (clock, running) = time_both(|| fill(&large, &words.prompts(rows)));
        println!("{:<62} {:>12} {:>12} {:>12}", "  import", "", show(clock), show(running));
        asking_words(&large, &words);
        if is_wanted("owner") {
            beside_the_owner(&large);
        }
    }
}

/// A bulk import against rows through the trigger, into databases with the same tables, indexes and trigger. Slices end by
/// the clock, so beside other work they are smaller and there are more of them: the time that this process ran tells more.
fn importing(dir: &Path, rows: usize) {
    println!(
        "{:<62} {:>12} {:>12} {:>7} {:>18}",
        format!("bulk import of {rows} prompts"),
        "floor",
        "ours",
        "ratio",
        "ratio, running"
    );
    let prompts = Words::new().prompts(rows);
    let lines = json_lines(&prompts);
    let ours = time_both(|| {
        let store = HistoryStorage::open(dir.join("imported.db")).unwrap();
        let sum = store.import(Import::json_lines("bench", lines.as_bytes()), |_| ()).unwrap();
        assert_eq!(sum.added, rows);
        store.close().unwrap();
    });
    for (name, synchronous, grouped) in [
        ("a row a transaction, as the owner does it", "NORMAL", false),
        ("a row a transaction, never waiting for the disk", "OFF", false),
        ("all rows in one transaction", "NORMAL", true),
    ] {
        let conn = twin(&dir.join(format!("{synchronous}{grouped}.db")), synchronous);
        // Rows in transactions of their own are slow: a part of them tells the rest.
        let part = if grouped { &prompts[..] } else { &prompts[..rows.min(20_000)] };
        let taken = time_both(|| {
            if grouped {
                conn.execute_batch("BEGIN").unwrap();
            }
            let mut insert =
                conn.prepare("INSERT INTO history(prompt, created_at, cwd) VALUES (?, ?, '/home/u/p')").unwrap();
            for (at, prompt) in part.iter().enumerate() {
                insert.execute((prompt, i64::try_from(at).unwrap())).unwrap();
            }
            drop(insert);
            if grouped {
                conn.execute_batch("COMMIT").unwrap();
            }
        });
        let scale = rows as f64 / part.len() as f64;
        let floor = (taken.0.mul_f64(scale), taken.1.mul_f64(scale));
        println!(
            "{:<62} {:>12} {:>12} {:>6.1}× {:>17.1}×",
            format!("  {name}"),
            show(floor.0),
            show(ours.0),
            ratio(floor.0, ours.0),
            ratio(floor.1, ours.1)
        );
    }
}

/// An awaited add against one bare transaction on the same form of database, taken in turns.
fn adding(dir: &Path) {
    println!("{:<62} {:>12} {:>12} {:>7}", "\nawaited adds, median of 1000", "floor", "ours", "ratio");
    let store = HistoryStorage::open(dir.join("added.db")).unwrap();
    let conn = twin(&dir.join("bare.db"), "FULL");
    let mut insert = conn.prepare("INSERT INTO history(prompt, created_at, cwd) VALUES (?, ?, '/home/u/p')").unwrap();
    let (mut ours, mut floor, mut returned) = (Vec::new(), Vec::new(), Vec::new());
    for (at, prompt) in (1_700_000_000_i64..).zip(Words::new().prompts(1000)) {
        floor.push(time(|| insert.execute((&prompt, at)).unwrap()));
        ours.push(time(|| {
            let began = Instant::now();
            let pending = store.add(prompt.as_str(), Some("/home/u/p"));
            returned.push(began.elapsed());
            pending.wait().unwrap();
        }));
    }
    line("  add and wait: one bare transaction", at(&mut ours, 50), at(&mut floor, 50));
    println!("{:<62} {:>12} {:>12}", "  until `add` returns, p99", "", show(at(&mut returned, 99)));
}

fn asking_words(path: &Path, words: &Words) {
    println!(
        "{:<62} {:>12} {:>12} {:>12}",
        "questions, p99; the floor is one step of SQLite", "floor", "by the clock", "running"
    );
    let store = HistoryStorage::open(path).unwrap();
    let conn = Connection::open(path).unwrap();
    let mut random = Random(7);
    for letters in 1..=3 {
        let queries = (0..QUESTIONS).map(|_| words.pick(&mut random)[..letters].to_owned()).collect();
        ask(&format!("  prefix of {letters} letters, by use"), &store, &conn, queries);
    }
    let pair = |random: &mut Random, pick: &dyn Fn(&mut Random) -> String| format!("{} {}", pick(random), pick(random));
    let by_use = |random: &mut Random| words.pick(random).to_owned();
    let evenly = |random: &mut Random| words.0[random.below(words.0.len())].clone();
    ask("  two words, by use", &store, &conn, (0..QUESTIONS).map(|_| pair(&mut random, &by_use)).collect());
    ask(
        "  two words, evenly from the vocabulary",
        &store,
        &conn,
        (0..QUESTIONS).map(|_| pair(&mut random, &evenly)).collect(),
    );
    let common: Vec<String> = (0..QUESTIONS).map(|n| format!("{} {}", words.0[n % 20], words.0[n / 20])).collect();
    ask("  two of the twenty commonest words", &store, &conn, common);
    let one = |random: &mut Random| format!("{} {}", evenly(random), words.0[0]);
    ask("  a rare word and the commonest", &store, &conn, (0..QUESTIONS).map(|_| one(&mut random)).collect());
    let mut recent = Taken::default();
    for _ in 0..QUESTIONS {
        recent.add(|| store.recent(PAGE, &Scope::everywhere()).unwrap());
    }
    recent.line("  recent", &conn);
}

fn asking_inside(dir: &Path, words: &Words) {
    println!("\n{SMALL} prompts, what the index can't see");
    let path = dir.join("inside.db");
    fill(&path, &words.prompts(SMALL));
    let (store, conn, mut random) = (HistoryStorage::open(&path).unwrap(), Connection::open(&path).unwrap(), Random(9));
    let inside = (0..QUESTIONS).map(|_| {
        loop {
            let word = words.pick(&mut random);
            if word.len() > 6 {
                break word[1..5].to_owned();
            }
        }
    });
    ask("  the inside of a word, by use", &store, &conn, inside.collect());
    let nowhere = (0..QUESTIONS).map(|n| format!("q{n}q")).collect();
    ask("  what is nowhere", &store, &conn, nowhere);
    let path = dir.join("cjk.db");
    let prompts = chinese(SMALL);
    fill(&path, &prompts);
    let (store, conn) = (HistoryStorage::open(&path).unwrap(), Connection::open(&path).unwrap());
    let pieces = (0..QUESTIONS).map(|_| {
        let prompt: Vec<char> = prompts[random.below(SMALL)].chars().collect();
        let from = random.below(prompt.len() - 3);
        prompt[from..from + 2 + random.below(2)].iter().collect()
    });
    ask("  two or three characters of a Chinese sentence", &store, &conn, pieces.collect());
}

/// K59: the owner adds with its timeout of a second while an index is built over all rows.
fn beside_the_owner(large: &Path) {
    let conn = Connection::open(large).unwrap();
    conn.execute_batch(
        "DROP TRIGGER history_ai; DROP TRIGGER history_au; DROP TRIGGER history_ad; DROP TABLE history_fts;",
    )
    .unwrap();
    conn.busy_timeout(Duration::from_secs(1)).unwrap();
    let store = HistoryStorage::open(large).unwrap();
    let began = Instant::now();
    let ours = store.add("ours", None);
    let mut waits = Vec::new();
    while !ours.is_ready() {
        std::thread::sleep(Duration::from_millis(20));
        waits.push(time(|| {
            conn.execute("INSERT INTO history(prompt, created_at) VALUES ('theirs ' || random(), unixepoch())", [])
                .unwrap()
        }));
    }
    ours.wait().unwrap();
    println!("\nan index is built in {}, while the owner adds {} prompts (K59)", show(began.elapsed()), waits.len());
    println!(
        "{:<62} {:>12} {:>12} {:>7}",
        "  the owner waits: p50, p99, longest",
        show(at(&mut waits, 50)),
        show(at(&mut waits, 99)),
        show(at(&mut waits, 100))
    );
}

fn ask(name: &str, store: &HistoryStorage, conn: &Connection, queries: Vec<String>) {
    let mut taken = Taken::default();
    for query in queries {
        taken.add(|| store.search(&query, &SearchOptions::new(PAGE)).unwrap());
    }
    taken.line(name, conn);
}

#[derive(Default)]
struct Taken {
    clock: Vec<Duration>,
    running: Vec<Duration>,
}

impl Taken {
    fn add<T>(&mut self, work: impl Fn() -> T) {
        let once = || {
            let before = ran(ClockId::ThreadCPUTime);
            let clock = time(&work);
            (clock, ran(ClockId::ThreadCPUTime).saturating_sub(before))
        };
        let times = [once(), once(), once()];
        self.clock.extend(times.iter().map(|(clock, _)| *clock).min());
        self.running.extend(times.iter().map(|(_, running)| *running).min());
    }

    fn line(mut self, name: &str, conn: &Connection) {
        let (clock, running, step) = (at(&mut self.clock, 99), at(&mut self.running, 99), at(&mut steps(conn), 99));
        println!("{name:<62} {:>12} {:>12} {:>12}", show(step), show(clock), show(running));
    }
}

/// Time by the clock, and the time that all threads of this process ran.
fn time_both<T>(work: impl FnOnce() -> T) -> (Duration, Duration) {
    let before = ran(ClockId::ProcessCPUTime);
    let clock = time(work);
    (clock, ran(ClockId::ProcessCPUTime).saturating_sub(before))
}

/// How long this thread, or all of this process, has run.
fn ran(of: ClockId) -> Duration {
    let time = rustix::time::clock_gettime(of);
    Duration::new(u64::try_from(time.tv_sec).unwrap(), u32::try_from(time.tv_nsec).unwrap())
}

/// One row by its id, as the cheapest thing that SQLite can be asked.
fn steps(conn: &Connection) -> Vec<Duration> {
    let mut statement = conn.prepare("SELECT prompt FROM history WHERE id = ?").unwrap();
    (1..=1000).map(|id| time(|| statement.query_row([id], |row| row.get::<_, String>(0)).unwrap())).collect()
}

/// A database of the form that the store creates, fed by plain SQL.
fn twin(path: &PathBuf, synchronous: &str) -> Connection {
    HistoryStorage::open(path).unwrap().close().unwrap();
    let conn = Connection::open(path).unwrap();
    conn.pragma_update(None, "synchronous", synchronous).unwrap();
    conn
}

fn fill(path: &Path, prompts: &[String]) {
    let store = HistoryStorage::open(path).unwrap();
    store.import(Import::json_lines("bench", json_lines(prompts).as_bytes()), |_| ()).unwrap();
    store.close().unwrap();
}

fn json_lines(prompts: &[String]) -> String {
    let mut lines = String::new();
    for (at, prompt) in prompts.iter().enumerate() {
        writeln!(
            lines,
            "{{\"prompt\":\"{prompt}\",\"created_at\":{},\"cwd\":\"/home/u/p{}\"}}",
            1_600_000_000 + at,
            at % 50
        )
        .unwrap();
    }
    lines
}

/// A generator with a known sequence, so that every run asks the same (`SplitMix64`).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    /// A rank below `bound`, the lower the likelier: Zipf's law with exponent 1, by inverting its integral.
    fn zipf(&mut self, bound: usize) -> usize {
        let part = self.next() as f64 / u64::MAX as f64;
        ((bound as f64).powf(part) as usize - 1).min(bound - 1)
    }
}

/// A vocabulary, commonest word first.
struct Words(Vec<String>);

impl Words {
    fn new() -> Self {
        let mut random = Random(1);
        let syllables = "ba be bi co da de di en er es fo ga ge he in ka ki la le li lo ma me mi na ne ni no on or pa po ra re ri ro sa se si so ta te ti to tra ur ver vi wa ze";
        let syllables: Vec<&str> = syllables.split(' ').collect();
        let word = |rank: usize| {
            let count = 2 + random.below(2) + usize::from(rank > 500);
            (0..count).map(|_| syllables[random.below(syllables.len())]).collect()
        };
        Self((0..50_000).map(word).collect())
    }

    fn pick(&self, random: &mut Random) -> &str {
        &self.0[random.zipf(self.0.len())]
    }

    fn prompts(&self, count: usize) -> Vec<String> {
        let mut random = Random(3);
        let prompt = |_| {
            let length = 4 + random.below(20);
            (0..length).map(|_| self.pick(&mut random)).collect::<Vec<_>>().join(" ")
        };
        (0..count).map(prompt).collect()
    }
}

fn chinese(count: usize) -> Vec<String> {
    let mut random = Random(5);
    let prompt = |_| {
        let length = 8 + random.below(40);
        (0..length).map(|_| char::from_u32(0x4e00 + u32::try_from(random.zipf(3000)).unwrap()).unwrap()).collect()
    };
    (0..count).map(prompt).collect()
}

fn time<T>(work: impl FnOnce() -> T) -> Duration {
    let began = Instant::now();
    black_box(work());
    began.elapsed()
}

fn at(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() * percent / 100).min(times.len() - 1)]
}

fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_secs_f64() / b.as_secs_f64()
}

fn line(name: &str, ours: Duration, floor: Duration) {
    println!("{name:<62} {:>12} {:>12} {:>6.1}×", show(floor), show(ours), ratio(ours, floor));
}

fn show(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    match micros {
        micros if micros < 1e3 => format!("{micros:.1} µs"),
        micros if micros < 1e6 => format!("{:.2} ms", micros / 1e3),
        micros => format!("{:.2} s", micros / 1e6),
    }
}
