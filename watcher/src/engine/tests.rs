//! The engine with time, events and files driven: nothing here waits, and nothing depends on the system's events.

use std::fs;
use std::io::Write;
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver};

use ::tests::recording::{Call, CallKind, Failure, Record, RecordingStorage, Target, Times};
use session_core::storage::FileSessionStorage;
use session_core::{Pointers, TerminalId};

use super::*;
use crate::source::Coverage;

/// A source whose events are what the test says; watches above the limit are refused.
struct Scripted {
    watched: Arc<Mutex<BTreeSet<PathBuf>>>,
    limit: usize,
}

impl Source for Scripted {
    fn watch(&mut self, dir: &Path) -> Coverage {
        let mut watched = self.watched.lock().unwrap();
        if watched.len() >= self.limit {
            return Coverage::Polling("the system's limit of file watches is reached (injected)".to_owned());
        }
        watched.insert(dir.to_owned());
        Coverage::Events
    }

    fn forget(&mut self, dir: &Path) {
        self.watched.lock().unwrap().remove(dir);
    }
}

struct World {
    dir: tempfile::TempDir,
    storage: RecordingStorage<FileSessionStorage>,
    watched: Arc<Mutex<BTreeSet<PathBuf>>>,
    watch_limit: usize,
    filter: Filter,
    engine: Option<Engine>,
    now: Moment,
}

impl World {
    fn new() -> Self {
        Self::with_watches(usize::MAX)
    }

    fn with_watches(watch_limit: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("sessions/--w--")).unwrap();
        // Nothing is recorded but calls: the root of the recording is an empty directory.
        fs::create_dir(dir.path().join("unused")).unwrap();
        let storage = RecordingStorage::new(FileSessionStorage::new(), &dir.path().join("unused")).unwrap();
        let now = Moment { tick: Duration::ZERO, clock: SystemTime::now() + Duration::from_secs(60) };
        let mut world =
            Self { dir, storage, watched: Arc::default(), watch_limit, filter: Filter::default(), engine: None, now };
        world.restart();
        world
    }

    fn agent(&self) -> AgentDir {
        AgentDir::at(self.dir.path()).unwrap()
    }

    /// A new engine on what the old one left; without a farewell, as after `kill -9`.
    fn restart(&mut self) {
        self.engine = None;
        self.watched.lock().unwrap().clear();
        let agent = self.agent();
        let plan =
            Plan { roots: vec![agent.sessions()], filter: self.filter.clone(), reconcile: Duration::from_secs(60) };
        let source = Box::new(Scripted { watched: Arc::clone(&self.watched), limit: self.watch_limit });
        let store = Arc::new(HistoryStorage::open(agent.history_db()).unwrap());
        let storage: Arc<dyn SessionStorage> = Arc::new(self.storage.clone());
        let engine = Engine::new(&agent, plan, storage, store, source, Board::new(), Arc::default()).unwrap();
        self.engine = Some(engine);
    }

    fn engine(&mut self) -> &mut Engine {
        self.engine.as_mut().unwrap()
    }

    fn reconcile(&mut self) -> Report {
        let now = self.now;
        self.engine().reconcile(now)
    }

    fn hint(&mut self, paths: &[&Path]) -> Report {
        let now = self.now;
        self.engine().handle(paths.iter().map(|path| Hint::Changed((*path).to_owned())), now)
    }

    /// Time passes; what is due is done.
    fn pass(&mut self, time: Duration) -> Report {
        self.now = Moment { tick: self.now.tick + time, clock: self.now.clock + time };
        let now = self.now;
        self.engine().tick(now)
    }

    /// How often directories with sessions were read.
    fn listed(&self) -> usize {
        let sessions = self.agent().sessions();
        let is_listing = |record: &Record| matches!(&record.call, Call::ReadDir { dir } if dir.starts_with(&sessions));
        self.storage.records().iter().filter(|record| is_listing(record)).count()
    }

    /// Looks until no directory is read again: until the file system's clock, which nobody drives, has gone on.
    fn stand_still(&mut self) {
        let begun = std::time::Instant::now();
        loop {
            let listed = self.listed();
            self.reconcile();
            if self.listed() == listed {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "directories are read again and again");
            std::thread::yield_now();
        }
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.dir.path().join("sessions").join(relative)
    }

    fn begin(&self, relative: &str, id: &str) -> PathBuf {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, header(id)).unwrap();
        path
    }

    fn prompts(&self) -> Vec<String> {
        let conn = history::rusqlite::Connection::open(self.agent().history_db()).unwrap();
        let mut statement = conn.prepare("SELECT prompt FROM history ORDER BY id").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    fn point(&self, terminal: &str, target: &Path) {
        let storage = FileSessionStorage::new();
        let pointers = Pointers::new(&storage, self.agent().terminal_sessions());
        pointers.set(&TerminalId::new(terminal).unwrap(), Path::new("/w"), target).unwrap();
    }

    fn target(&self, terminal: &str) -> Option<(PathBuf, PathBuf)> {
        let storage = FileSessionStorage::new();
        let pointers = Pointers::new(&storage, self.agent().terminal_sessions());
        let pointer = pointers.get(&TerminalId::new(terminal).unwrap()).unwrap()?;
        Some((pointer.cwd().to_owned(), pointer.session_file().to_owned()))
    }
}

fn header(id: &str) -> String {
    format!(
        "{{\"type\":\"session\",\"version\":3,\"id\":\"{id}\",\"timestamp\":\"2026-01-05T09:30:00.000Z\",\"cwd\":\"/w\"}}\n"
    )
}

fn message(number: u64, text: &str) -> String {
    let millis = 1_767_605_400_000 + number * 1000;
    format!(
        "{{\"type\":\"message\",\"id\":\"{number:08x}\",\"parentId\":null,\"timestamp\":\"2026-01-05T09:30:00.000Z\",\
         \"message\":{{\"role\":\"user\",\"content\":\"{text}\",\"timestamp\":{millis}}}}}\n"
    )
}

fn append(path: &Path, text: impl AsRef<[u8]>) {
    fs::OpenOptions::new().append(true).open(path).unwrap().write_all(text.as_ref()).unwrap();
}

#[test]
fn a_burst_of_lost_events_is_made_good_by_a_rescan() {
    // K47
    let mut world = World::new();
    let paths: Vec<PathBuf> = (0..20).map(|n| world.begin(&format!("--w--/{n}.jsonl"), &format!("s{n}"))).collect();
    world.reconcile();
    for n in 0..20_000_u64 {
        append(&paths[(n % 20) as usize], message(n, &format!("prompt {n}")));
        // Of a hundred events one arrives.
        if n % 100 == 0 {
            world.hint(&[&paths[(n % 20) as usize]]);
        }
    }
    let now = world.now;
    world.engine().handle([Hint::Everything], now);
    let prompts: BTreeSet<String> = world.prompts().into_iter().collect();
    assert_eq!((prompts.len(), world.prompts().len()), (20_000, 20_000));
}

#[test]
fn without_any_event_the_reconcile_finds_everything_within_its_interval() {
    // K47
    let mut world = World::new();
    world.reconcile();
    let path = world.begin("--new--/x.jsonl", "s");
    append(&path, message(1, "found late"));
    assert_eq!(world.pass(Duration::from_secs(59)).tally.added, 0);
    assert_eq!(world.pass(Duration::from_secs(1)).tally.added, 1);
}

#[test]
fn above_the_limit_of_watches_directories_are_polled() {
    // K48
    let mut world = World::with_watches(2);
    let watched = world.begin("--a--/x.jsonl", "a");
    let polled = world.begin("--z--/x.jsonl", "z");
    world.reconcile();
    assert!(!world.watched.lock().unwrap().contains(polled.parent().unwrap()));
    assert!(world.engine().board.state().polling_reason.unwrap().contains("limit of file watches"));
    append(&watched, message(1, "by event"));
    append(&polled, message(2, "by poll"));
    let report = world.pass(poll::INTERVAL);
    assert_eq!((report.tally.added, world.prompts()), (1, vec!["by poll".to_owned()]));
    world.hint(&[&watched]);
    assert_eq!(world.prompts().len(), 2);
}

#[test]
fn a_record_in_pieces_with_a_restart_in_between_arrives_once() {
    // K49
    let mut world = World::new();
    let path = world.begin("--w--/x.jsonl", "s");
    world.reconcile();
    let line = message(1, "grüße").into_bytes();
    let inside = line.windows(2).position(|pair| pair == "ü".as_bytes()).unwrap() + 1;
    for (piece, then_restart) in [(&line[..20], false), (&line[20..inside], true), (&line[inside..], false)] {
        append(&path, piece);
        world.hint(&[&path]);
        if then_restart {
            world.restart();
            world.reconcile();
        }
    }
    assert_eq!(world.prompts(), ["grüße"]);
}

#[test]
fn replaced_truncated_and_remade_files_bring_each_entry_once() {
    // K50
    let mut world = World::new();
    let path = world.begin("--w--/x.jsonl", "s");
    append(&path, message(1, "one") + &message(2, "two"));
    world.reconcile();
    // The atomic rewrite of a harness, with one entry more.
    let fresh = world.path("--w--/fresh.tmp");
    fs::write(&fresh, header("s") + &message(1, "one") + &message(2, "two") + &message(3, "three")).unwrap();
    fs::rename(&fresh, &path).unwrap();
    world.hint(&[&path]);
    // Truncated, then written on.
    fs::write(&path, header("s") + &message(1, "one")).unwrap();
    world.hint(&[&path]);
    append(&path, message(4, "four"));
    world.hint(&[&path]);
    // Replaced by a shorter one.
    fs::write(&fresh, header("s") + &message(5, "five")).unwrap();
    fs::rename(&fresh, &path).unwrap();
    world.hint(&[&path]);
    // Deleted and made again.
    fs::remove_file(&path).unwrap();
    world.hint(&[&path]);
    fs::write(&path, header("s") + &message(1, "one") + &message(6, "six")).unwrap();
    world.hint(&[&path]);
    world.restart();
    world.reconcile();
    assert_eq!(world.prompts(), ["one", "two", "three", "four", "five", "six"]);
}

#[test]
fn only_what_is_new_is_read() {
    // K51
    let mut world = World::new();
    let path = world.begin("--w--/x.jsonl", "s");
    let filler =
        format!("{{\"type\":\"custom\",\"id\":\"c\",\"parentId\":null,\"data\":\"{}\"}}\n", "x".repeat(1 << 20));
    (0..50).for_each(|_| append(&path, &filler));
    world.reconcile();
    let before = world.storage.bytes_read();
    let mut appended = 0;
    for n in 0..100 {
        let line = message(n, &format!("{n} {}", "y".repeat(1024)));
        appended += line.len() as u64;
        append(&path, line);
        world.hint(&[&path]);
    }
    let read = world.storage.bytes_read() - before;
    assert_eq!(world.prompts().len(), 100);
    assert!(read <= 2 * appended, "{read} bytes read of {appended} appended");
    // A reconcile reads nothing.
    world.pass(Duration::from_secs(60));
    assert_eq!(world.storage.bytes_read() - before, read);
}

#[test]
fn many_files_are_read_at_once_and_written_in_the_order_of_time() {
    let mut world = World::new();
    let filler =
        format!("{{\"type\":\"custom\",\"id\":\"c\",\"parentId\":null,\"data\":\"{}\"}}\n", "x".repeat(512 << 10));
    for n in 0..20 {
        let path = world.begin(&format!("--w--/{n:02}.jsonl"), &format!("s{n}"));
        // Each file has one early and one late prompt.
        append(&path, message(19 - n, &format!("early {}", 19 - n)) + &filler + &message(20 + n, &format!("late {n}")));
    }
    fs::create_dir(world.path("--w--/x.jsonl")).unwrap();
    let report = world.reconcile();
    assert_eq!((report.files_read, report.tally.added), (20, 40));
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    let expected: Vec<String> =
        (0..20).map(|n| format!("early {n}")).chain((0..20).map(|n| format!("late {n}"))).collect();
    assert_eq!(world.prompts(), expected);
    world.restart();
    assert_eq!(world.reconcile().files_read, 0, "nothing is read again");
}

#[test]
fn files_that_change_places_are_followed() {
    let mut world = World::new();
    let paths = ["a", "b", "c"].map(|name| world.begin(&format!("--w--/{name}.jsonl"), name));
    for (path, n) in paths.iter().zip(1..) {
        append(path, message(n, &format!("prompt {n}")));
    }
    world.reconcile();
    // Round by one: a → b → c → a.
    let aside = world.path("--w--/aside");
    fs::rename(&paths[2], &aside).unwrap();
    fs::rename(&paths[1], &paths[2]).unwrap();
    fs::rename(&paths[0], &paths[1]).unwrap();
    fs::rename(&aside, &paths[0]).unwrap();
    world.hint(&[&paths[0], &paths[1], &paths[2]]);
    for (path, n) in paths.iter().zip(4..) {
        append(path, message(n, &format!("prompt {n}")));
        world.hint(&[path]);
    }
    for (path, session) in paths.iter().zip(["c", "a", "b"]) {
        assert_eq!(world.engine().tails.get(path).unwrap().session(), Some(session));
    }
    assert_eq!(world.prompts(), (1..=6).map(|n| format!("prompt {n}")).collect::<Vec<_>>());
}

#[test]
fn a_fork_is_no_new_submission() {
    // K57
    let mut world = World::new();
    let path = world.begin("--w--/x.jsonl", "s");
    append(&path, message(1, "one") + &message(2, "two"));
    world.reconcile();
    for (fork, id) in [("--w--/fork.jsonl", "f1"), ("--v--/fork.jsonl", "f2")] {
        let fork = world.begin(fork, id);
        append(&fork, message(1, "one") + &message(2, "two"));
        world.hint(&[fork.parent().unwrap(), &fork]);
        append(&fork, message(3, &format!("three of {id}")));
        world.hint(&[&fork]);
    }
    assert_eq!(world.prompts(), ["one", "two", "three of f1", "three of f2"]);
}

#[test]
fn entries_that_a_migration_gave_ids_of_its_own_are_the_submissions_they_were() {
    // [L5], [H2a]: a harness migrates a version 1 file and draws ids at random.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Then {
        Hint,
        Restart,
    }
    let texts = ["again", "other", "again", "last"];
    // All in one second: nothing but the entries tells the first "again" from the second.
    let body = |text: &str| {
        format!("\"message\":{{\"role\":\"user\",\"content\":\"{text}\",\"timestamp\":1767605400123}}}}\n")
    };
    let old = |text: &str| format!("{{\"type\":\"message\",\"timestamp\":\"2026-01-05T09:30:00.000Z\",{}", body(text));
    let new =
        |id: u32, text: &str| format!("{{\"type\":\"message\",\"id\":\"{id:08x}\",\"parentId\":null,{}", body(text));
    let drawn = [0xdead_beef, 0x0bad_cafe, 0x1234_5678, 0x8765_4321];
    for then in [Then::Hint, Then::Restart] {
        for in_place in [true, false] {
            let mut world = World::new();
            let path = world.path("--w--/x.jsonl");
            fs::write(&path, header("s").replace("\"version\":3,", "")).unwrap();
            append(&path, texts.map(old).concat());
            world.reconcile();
            assert_eq!(world.prompts(), texts);

            let entries: String = texts.iter().zip(drawn).map(|(text, id)| new(id, text)).collect();
            let target = if in_place { path.clone() } else { world.path("--w--/x.jsonl.tmp") };
            fs::write(&target, header("s") + &entries + &new(0x1111_1111, "again")).unwrap();
            fs::rename(&target, &path).unwrap();
            if then == Then::Restart {
                world.restart();
                world.reconcile();
            }
            world.hint(&[&path]);
            let more = [&texts[..], &["again"]].concat();
            assert_eq!(world.prompts(), more, "{then:?}, in place: {in_place}");

            // A fork carries the ids that the migration drew.
            let fork = world.begin("--v--/fork.jsonl", "f");
            append(&fork, &entries);
            world.hint(&[fork.parent().unwrap()]);
            assert_eq!(world.prompts(), more);
            let conn = history::rusqlite::Connection::open(world.agent().history_db()).unwrap();
            let submissions: i64 =
                conn.query_row("SELECT count(*) FROM watcher_submission", [], |row| row.get(0)).unwrap();
            assert_eq!(submissions, 5, "{then:?}, in place: {in_place}");

            // A copy from before the migration, in a backup that is followed too.
            let copy = world.path("--old--/x.jsonl");
            fs::create_dir(copy.parent().unwrap()).unwrap();
            fs::write(&copy, header("s").replace("\"version\":3,", "") + &texts.map(old).concat()).unwrap();
            world.hint(&[copy.parent().unwrap()]);
            assert_eq!(world.prompts(), more);
            let submissions: i64 =
                conn.query_row("SELECT count(*) FROM watcher_submission", [], |row| row.get(0)).unwrap();
            assert_eq!(submissions, 5, "{then:?}, in place: {in_place}");
        }
    }
}

#[test]
fn a_renamed_directory_is_followed_whatever_order_the_events_come_in() {
    // K34
    for order in [[0, 1], [1, 0]] {
        let mut world = World::new();
        let old = world.begin("--w--/x.jsonl", "s");
        append(&old, message(1, "before"));
        world.reconcile();
        world.point("pts-3", &old);
        let mut held = fs::OpenOptions::new().append(true).open(&old).unwrap();
        let (from, to) = (world.path("--w--"), world.path("-w"));
        fs::rename(&from, &to).unwrap();
        let events = [from.as_path(), to.as_path()];
        for n in order {
            world.hint(&[events[n]]);
        }
        assert_eq!(world.target("pts-3").unwrap().1, to.join("x.jsonl"), "{order:?}");
        assert_eq!(
            *world.watched.lock().unwrap(),
            BTreeSet::from([world.path(""), to.clone()].map(|path| path.components().collect()))
        );
        held.write_all(message(2, "after").as_bytes()).unwrap();
        world.hint(&[&to.join("x.jsonl")]);
        world.restart();
        world.reconcile();
        assert_eq!(world.prompts(), ["before", "after"]);
    }
}

#[test]
fn a_moved_session_takes_its_pointers_along_the_working_directory_included() {
    // K33
    let mut world = World::new();
    let old = world.begin("--w--/x.jsonl", "s");
    append(&old, message(1, "one"));
    world.reconcile();
    world.point("pts-3", &old);
    world.point("tmux-%1", &old);
    // A copy with another working directory, then the original goes: another file, the same id.
    let new = world.path("--v--/x.jsonl");
    fs::create_dir(new.parent().unwrap()).unwrap();
    fs::write(&new, header("s").replace("\"/w\"", "\"/v\"") + &message(1, "one")).unwrap();
    fs::remove_file(&old).unwrap();
    world.restart();
    world.reconcile();
    for terminal in ["pts-3", "tmux-%1"] {
        assert_eq!(world.target(terminal).unwrap(), (PathBuf::from("/v"), new.clone()));
    }
    assert_eq!(world.prompts(), ["one"]);
}

#[test]
fn a_deleted_session_takes_its_pointers_along_and_leaves_its_prompts() {
    // K55
    let mut world = World::new();
    let path = world.begin("--w--/x.jsonl", "s");
    append(&path, message(1, "stays"));
    world.reconcile();
    world.point("pts-3", &path);
    fs::remove_file(&path).unwrap();
    world.hint(&[&path]);
    assert!(world.target("pts-3").is_some(), "it may have moved where nobody looked yet");
    world.pass(Duration::from_secs(60));
    assert_eq!(world.target("pts-3"), None);
    world.restart();
    world.reconcile();
    assert_eq!((world.target("pts-3"), world.prompts()), (None, vec!["stays".to_owned()]));
}

#[test]
fn a_pointer_stays_when_its_session_was_never_seen_or_its_root_is_away() {
    // K55
    let mut world = World::new();
    let path = world.begin("--w--/x.jsonl", "s");
    world.reconcile();
    world.point("pts-1", &path);
    world.point("pts-2", &world.path("--w--/never.jsonl"));
    world.point("pts-3", Path::new("/not/mounted/--w--/x.jsonl"));
    fs::rename(world.path(""), world.dir.path().join("away")).unwrap();
    world.pass(Duration::from_secs(60));
    world.pass(Duration::from_secs(8 * 24 * 3600));
    for terminal in ["pts-1", "pts-2", "pts-3"] {
        assert!(world.target(terminal).is_some(), "{terminal}");
    }
    // The root is back, the one session is deleted: what was never seen has had its seven days.
    fs::rename(world.dir.path().join("away"), world.path("")).unwrap();
    fs::remove_file(&path).unwrap();
    world.pass(Duration::from_secs(60));
    assert_eq!((world.target("pts-1"), world.target("pts-2")), (None, None));
    assert!(world.target("pts-3").is_some());
}

#[test]
fn a_pointer_stays_while_the_disk_of_its_session_is_away() {
    // K55
    let mut world = World::new();
    let disk = tempfile::tempdir().unwrap();
    let dir = disk.path().join("sessions");
    fs::create_dir(&dir).unwrap();
    std::os::unix::fs::symlink(&dir, world.path("--linked--")).unwrap();
    let path = world.begin("--linked--/x.jsonl", "away");
    world.reconcile();
    world.point("t", &path);
    fs::rename(&dir, disk.path().join("unmounted")).unwrap();
    world.reconcile();
    assert!(world.target("t").is_some());
    fs::rename(disk.path().join("unmounted"), &dir).unwrap();
    append(&path, message(1, "back again"));
    assert_eq!(world.reconcile().tally.added, 1);
    // What is really gone is gone.
    fs::remove_file(&path).unwrap();
    world.reconcile();
    assert_eq!(world.target("t"), None);
}

#[test]
fn a_root_that_is_no_directory_is_told_once() {
    let mut world = World::new();
    let sessions = world.agent().sessions();
    fs::remove_dir_all(&sessions).unwrap();
    fs::write(&sessions, "").unwrap();
    let problems = world.reconcile().problems;
    assert!(problems.len() == 1 && problems[0].contains("this is no directory"), "{problems:?}");
    assert_eq!(world.reconcile().problems, Vec::<String>::new());
    fs::remove_file(&sessions).unwrap();
    append(&world.begin("--w--/x.jsonl", "s"), message(1, "there now"));
    assert_eq!(world.reconcile().tally.added, 1);
}

#[test]
fn a_fresh_pointer_is_left_alone() {
    let mut world = World::new();
    world.reconcile();
    let dir = world.agent().terminal_sessions();
    fs::create_dir_all(&dir).unwrap();
    let text = format!("/w\n{}\nfresh\n", world.path("--w--/new.jsonl").display());
    fs::write(dir.join("pts-3"), &text).unwrap();
    world.pass(Duration::from_secs(30 * 24 * 3600));
    assert_eq!(fs::read_to_string(dir.join("pts-3")).unwrap(), text);
}

#[test]
fn sessions_that_appear_later_and_a_root_that_does_not_exist_yet_are_followed() {
    let mut world = World::new();
    fs::remove_dir_all(world.path("")).unwrap();
    world.reconcile();
    let root = world.path("").components().collect::<PathBuf>();
    assert!(world.watched.lock().unwrap().contains(world.dir.path()), "its parent tells when it appears");
    let path = world.begin("--w--/x.jsonl", "s");
    append(&path, message(1, "one"));
    world.hint(&[&root]);
    assert_eq!(world.prompts(), ["one"]);
    assert!(!world.watched.lock().unwrap().contains(world.dir.path()));
    assert!(world.watched.lock().unwrap().contains(path.parent().unwrap()));
}

#[test]
fn a_directory_under_two_names_is_followed_once() {
    // K32
    let mut world = World::new();
    let path = world.begin("--w--/x.jsonl", "s");
    append(&path, message(1, "one"));
    std::os::unix::fs::symlink(world.path("--w--"), world.path("linked")).unwrap();
    std::os::unix::fs::symlink("loop", world.path("loop")).unwrap();
    let report = world.reconcile();
    assert_eq!((report.files_read, report.tally.added), (1, 1));
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

#[test]
fn a_day_with_a_thousand_prompts_costs_no_more_than_its_looks() {
    // A day compressed by driven time: every minute a reconcile, prompts in between.
    let mut world = World::new();
    let path = world.begin("--w--/x.jsonl", "s");
    world.reconcile();
    let mut known = 0;
    for minute in 0..24 * 60_u64 {
        if minute % 2 == 0 {
            append(&path, message(minute, &format!("minute {minute}")));
            world.hint(&[&path]);
            known += 1;
        }
        let engine = world.engine();
        let sizes = (engine.unsaved.len(), engine.retry.len(), engine.told.len(), engine.announced.len());
        assert!(sizes.0 <= 1 && (sizes.1, sizes.2, sizes.3) == (0, 0, 0), "{sizes:?}");
        let due = engine.next();
        assert!(due >= world.now.tick, "nothing is due that was not done");
        let report = world.pass(Duration::from_secs(60));
        assert_eq!(report.tally.added, 0, "the event was enough");
    }
    assert_eq!(world.prompts().len(), known);
}

#[test]
fn hours_of_rewrites_and_deletions_leave_nothing_behind() {
    // Every minute a file is rewritten as a harness does, one is deleted, one begins in a new directory, one is renamed.
    let mut world = World::new();
    let lasting = world.begin("--w--/lasting.jsonl", "lasting");
    world.reconcile();
    let mut sizes = Vec::new();
    for minute in 0..6 * 60_u64 {
        let fresh = world.path("--w--/lasting.jsonl.tmp");
        fs::write(&fresh, header("lasting") + &message(minute, &format!("rewritten {minute}"))).unwrap();
        fs::rename(&fresh, &lasting).unwrap();
        let begun = world.begin(&format!("--{minute}--/x.jsonl"), &format!("s{minute}"));
        append(&begun, message(100_000 + minute, &format!("begun {minute}")));
        world.hint(&[&lasting, begun.parent().unwrap()]);
        let (from, to) = (begun.parent().unwrap().to_owned(), world.path(&format!("-{minute}")));
        fs::rename(&from, &to).unwrap();
        world.hint(&[&from, &to]);
        if let Some(before) = minute.checked_sub(3) {
            let old = world.path(&format!("-{before}"));
            fs::remove_dir_all(&old).unwrap();
            world.hint(&[&old]);
        }
        world.pass(Duration::from_secs(60));
        let engine = world.engine();
        let waiting = engine.unsaved.len() + engine.unread.len() + engine.retry.len() + engine.told.len();
        sizes.push((engine.tails.sizes(), engine.watches.len(), waiting + engine.announced.len()));
    }
    let last = sizes[sizes.len() - 1];
    // The lasting file and three that were not deleted yet; their directories and the root.
    assert_eq!(last, ([4, 4, 0], 5, 0));
    assert!(sizes[10..].iter().all(|size| *size == last));
    let conn = history::rusqlite::Connection::open(world.agent().history_db()).unwrap();
    let rows: i64 = conn.query_row("SELECT count(*) FROM watcher_file", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 4);
    assert_eq!(world.prompts().len(), 2 * 6 * 60);
}

#[test]
fn a_minute_without_news_is_one_look_that_reads_and_writes_nothing() {
    // K52: the counts; what they cost in time is in `make bench`.
    let mut world = World::new();
    for n in 0..500 {
        let path = world.begin(&format!("--w{n}--/x.jsonl"), &format!("s{n}"));
        append(&path, message(n, &format!("prompt {n}")));
    }
    world.stand_still();
    let conn = history::rusqlite::Connection::open(world.agent().history_db()).unwrap();
    let version = || conn.pragma_query_value(None, "data_version", |row| row.get::<_, i64>(0)).unwrap();
    let before = (world.storage.bytes_read(), world.storage.count(CallKind::OpenReader), version());
    let (looked, listed) = (world.storage.count(CallKind::Stat), world.listed());
    let (end, mut wake_ups) = (world.now.tick + Duration::from_secs(60), 0);
    while world.engine().next() <= end {
        let next = world.engine().next();
        world.pass(next.saturating_sub(world.now.tick));
        wake_ups += 1;
    }
    assert_eq!(wake_ups, 1);
    assert_eq!((world.storage.bytes_read(), world.storage.count(CallKind::OpenReader), version()), before);
    let looks = world.storage.count(CallKind::Stat) - looked;
    // One of each directory and one of each file, and some of what is around them.
    assert!(looks <= 2 * 500 + 20, "{looks} looks at names");
    assert_eq!(world.listed(), listed, "no directory changed");
}

#[test]
fn what_no_event_told_of_is_found_in_directories_that_stood_still() {
    // K47, K52
    let mut world = World::new();
    let paths: Vec<PathBuf> = (0..3).map(|n| world.begin(&format!("--w{n}--/x.jsonl"), &format!("s{n}"))).collect();
    let elsewhere = world.path("elsewhere.jsonl");
    world.stand_still();

    // An append changes no directory.
    append(&paths[0], message(1, "appended"));
    // A new file, a new directory, a file that takes another's place, one that goes.
    append(&world.begin("--w1--/new.jsonl", "new"), message(2, "in a new file"));
    append(&world.begin("--new--/x.jsonl", "new-dir"), message(3, "in a new directory"));
    fs::write(&elsewhere, header("s2") + &message(4, "in the other's place")).unwrap();
    fs::rename(&elsewhere, &paths[2]).unwrap();
    fs::remove_file(&paths[1]).unwrap();
    world.point("gone", &paths[1]);
    let listed = world.listed();
    world.pass(Duration::from_secs(60));
    let mut prompts = world.prompts();
    prompts.sort();
    assert_eq!(prompts, ["appended", "in a new directory", "in a new file", "in the other's place"]);
    assert_eq!(world.target("gone"), None);
    let listed = world.listed() - listed;
    assert!((4..=7).contains(&listed), "{listed}: the root, the directories that changed and the new one");

    // A link that leads nowhere is no change of its directory when it leads somewhere.
    let target = world.dir.path().join("target.jsonl");
    std::os::unix::fs::symlink(&target, world.path("--w0--/link.jsonl")).unwrap();
    for _ in 0..10 {
        world.pass(Duration::from_secs(60));
    }
    fs::write(&target, header("linked") + &message(5, "behind a link")).unwrap();
    assert_eq!(world.pass(Duration::from_secs(60)).tally.added, 1);

    // Whatever a directory says of itself, it is read once an hour.
    world.stand_still();
    let listed = world.listed();
    world.pass(Duration::from_secs(3600));
    assert_eq!(world.listed() - listed, 6);
}

#[test]
fn what_appears_right_after_a_look_is_found_by_the_next() {
    // K52: within one tick of the clock that numbers changes, a directory may look as it did.
    let mut world = World::new();
    world.reconcile();
    for n in 0..300 {
        let path = world.path(&format!("--w--/{n}.jsonl"));
        fs::write(&path, header(&format!("s{n}")) + &message(n, &format!("prompt {n}"))).unwrap();
        assert_eq!(world.pass(Duration::from_secs(60)).tally.added, 1, "prompt {n}");
    }
}

#[test]
fn what_could_not_be_written_is_written_later_and_once() {
    let mut world = World::new();
    let path = world.begin("--w--/x.jsonl", "s");
    world.reconcile();
    let conn = history::rusqlite::Connection::open(world.agent().history_db()).unwrap();
    conn.execute_batch("CREATE TRIGGER full BEFORE INSERT ON history BEGIN SELECT RAISE(ABORT, 'no room'); END")
        .unwrap();
    append(&path, message(1, "one"));
    let report = world.hint(&[&path]);
    assert!(report.problems.iter().any(|problem| problem.contains("no room")), "{:?}", report.problems);
    assert_eq!(world.engine().board.state().last_problem.unwrap().message, report.problems[0]);
    append(&path, message(2, "two"));
    conn.execute_batch("DROP TRIGGER full").unwrap();
    drop(conn);
    assert_eq!(world.pass(poll::INTERVAL).tally.added, 2);
    assert_eq!(world.prompts(), ["one", "two"]);
}

#[test]
fn positions_are_never_ahead_of_rows() {
    // K53: a restart without a farewell after every step finds what is missing, and only that.
    let mut world = World::new();
    let path = world.begin("--w--/x.jsonl", "s");
    world.reconcile();
    for n in 0..50 {
        append(&path, message(n, &format!("prompt {n}")));
        if n % 3 == 0 {
            world.hint(&[&path]);
        }
        if n % 5 == 0 {
            world.restart();
            world.reconcile();
        }
    }
    world.reconcile();
    let expected: Vec<String> = (0..50).map(|n| format!("prompt {n}")).collect();
    assert_eq!(world.prompts(), expected);
}

/// The channel of hints is all that ties a source to the loop.
#[test]
fn the_system_s_events_name_the_file_that_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let (tell, told): (_, Receiver<Hint>) = mpsc::channel();
    let mut source = crate::source::notify::NotifySource::start(move |hint| drop(tell.send(hint))).unwrap();
    assert_eq!(source.watch(dir.path()), Coverage::Events);
    let path = dir.path().join("x.jsonl");
    fs::write(&path, "x").unwrap();
    assert_eq!(told.recv_timeout(Duration::from_secs(30)).unwrap(), Hint::Changed(path));
}

#[test]
fn what_takes_the_place_of_a_session_and_is_no_file_leaves_no_doubt() {
    // K55
    let mut world = World::new();
    let (first, second) = (world.begin("--w--/a.jsonl", "a"), world.begin("--w--/b.jsonl", "b"));
    let deleted = world.begin("--w--/c.jsonl", "c");
    append(&first, message(1, "one"));
    world.reconcile();
    for (terminal, path) in [("pts-1", &first), ("pts-2", &second), ("pts-3", &deleted)] {
        world.point(terminal, path);
        fs::remove_file(path).unwrap();
    }
    fs::create_dir(&first).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &second, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    // What nobody can look at is nobody's session either.
    world.point("odd", Path::new(&format!("/{}", "x".repeat(5000))));
    let hinted = world.hint(&[&first, &second, &deleted]);
    assert_eq!(hinted.problems.len(), 0);
    assert_eq!(world.pass(Duration::from_secs(60)).problems.len(), 0);
    for terminal in ["pts-1", "pts-2", "pts-3"] {
        assert_eq!(world.target(terminal), None, "{terminal}");
    }
    assert!(world.target("odd").is_some());
}

#[test]
fn a_file_that_could_not_be_read_and_went_unnoticed_is_no_doubt_for_ever() {
    // K55
    let mut world = World::new();
    let path = world.begin("--w--/x.jsonl", "s");
    let unreadable = world.begin("--v--/y.jsonl", "t");
    world.storage.fail(
        Target::Kind(CallKind::OpenReader),
        Failure::Error(std::io::ErrorKind::PermissionDenied),
        Times::Next(1),
    );
    assert_eq!(world.reconcile().problems.len(), 1);
    fs::remove_file(&unreadable).unwrap();
    world.point("pts-3", &path);
    fs::remove_file(&path).unwrap();
    world.pass(Duration::from_secs(60));
    assert_eq!(world.target("pts-3"), None);
}

#[test]
fn what_is_excluded_later_is_not_read_on() {
    let mut world = World::new();
    let (secret, plain) = (world.begin("--secret--/x.jsonl", "s"), world.begin("--w--/x.jsonl", "t"));
    append(&secret, message(1, "before"));
    world.reconcile();
    world.filter = Filter::new(&[], &["*secret*/**".to_owned()]).unwrap();
    world.restart();
    append(&secret, message(2, "a secret"));
    append(&plain, message(3, "plain"));
    world.reconcile();
    world.hint(&[&secret, secret.parent().unwrap()]);
    world.pass(Duration::from_secs(60));
    assert_eq!(world.prompts(), ["before", "plain"]);
    // What becomes of it is seen all the same.
    world.point("pts-3", &secret);
    fs::remove_file(&secret).unwrap();
    world.pass(Duration::from_secs(60));
    assert_eq!(world.target("pts-3"), None);
    assert_eq!(world.engine().tails.len(), 1);
}

#[test]
fn a_directory_that_is_named_or_whose_events_were_lost_is_watched_anew() {
    // The kernel takes a watch away with its directory; one that is made again may get the same number.
    let mut world = World::new();
    let dirs = [world.path("--w--"), world.path("").components().collect()];
    world.reconcile();
    for dir in &dirs {
        world.watched.lock().unwrap().remove(dir);
        world.hint(&[dir]);
        assert!(world.watched.lock().unwrap().contains(dir), "{}", dir.display());
    }
    world.watched.lock().unwrap().clear();
    let now = world.now;
    world.engine().handle([Hint::Everything], now);
    assert_eq!(world.watched.lock().unwrap().len(), 2);
}

#[test]
fn a_last_line_without_its_end_counts_also_in_a_file_whose_time_lies_ahead() {
    let mut world = World::new();
    let path = world.begin("--w--/x.jsonl", "s");
    append(&path, message(1, "one") + message(2, "two").trim_end());
    let file = fs::File::options().append(true).open(&path).unwrap();
    // Just now by another machine's clock: somebody may be writing.
    file.set_modified(world.now.clock + Duration::from_secs(600)).unwrap();
    world.reconcile();
    assert_eq!(world.prompts(), ["one"]);
    file.set_modified(world.now.clock + Duration::from_secs(10 * 365 * 24 * 3600)).unwrap();
    world.pass(Duration::from_secs(60));
    assert_eq!(world.prompts(), ["one", "two"]);
    append(&path, "\n".to_owned() + &message(3, "three"));
    world.pass(Duration::from_secs(60));
    assert_eq!(world.prompts(), ["one", "two", "three"]);
}

#[test]
fn whatever_happens_to_files_in_whatever_order_each_entry_arrives_once() {
    // K50: entries of one second, so that nothing is folded and nothing but the rules tells them apart.
    let line = |number: u64| {
        let time = (1_767_605_400_000 + number * 1000).to_string();
        message(number, &format!("prompt {number}")).replace(&time, "1767605400000")
    };
    for seed in 0..20_u64 {
        let mut random = {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            move |below: usize| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                usize::try_from(state >> 33).unwrap() % below
            }
        };
        let mut world = World::new();
        fs::create_dir_all(world.path("--v--")).unwrap();
        let paths: Vec<PathBuf> =
            ["--w--/a.jsonl", "--w--/b.jsonl", "--v--/c.jsonl", "--v--/d.jsonl"].map(|path| world.path(path)).into();
        let mut written = 0;
        let mut steps = Vec::new();
        for _ in 0..60 {
            let (path, other) = (&paths[random(4)], &paths[random(4)]);
            let text = fs::read_to_string(path).unwrap_or_default();
            let mut fresh = || {
                written += 1;
                line(written)
            };
            let step = random(12);
            steps.push((step, path.clone(), other.clone()));
            match step {
                0 | 1 if !text.is_empty() => append(path, fresh() + &fresh()),
                0..=2 if text.is_empty() => fs::write(path, header(&format!("s{}", random(3))) + &fresh()).unwrap(),
                // An atomic rewrite, one in place, one that is shorter.
                3 => {
                    let fresh = path.with_extension("tmp");
                    fs::write(&fresh, &text).unwrap();
                    fs::rename(&fresh, path).unwrap();
                }
                4 if !text.is_empty() => fs::write(path, text.clone() + &fresh()).unwrap(),
                5 if !text.is_empty() => {
                    let lines: Vec<&str> = text.split_inclusive('\n').collect();
                    fs::write(path, lines[..lines.len().div_ceil(2)].concat() + &fresh()).unwrap();
                }
                6 if path.exists() => fs::remove_file(path).unwrap(),
                7 if path.exists() => fs::rename(path, other).unwrap(),
                8 if path.exists() && path != other => drop(fs::copy(path, other).unwrap()),
                9 => world.restart(),
                10 => drop(world.hint(&[path, other.parent().unwrap()])),
                11 => drop(world.pass(Duration::from_secs(60))),
                _ => {}
            }
        }
        world.reconcile();
        let mut prompts = world.prompts();
        prompts.sort();
        let count = prompts.len();
        prompts.dedup();
        assert_eq!(prompts.len(), count, "seed {seed}: something is there twice: {steps:?}");
        for path in &paths {
            let text = fs::read_to_string(path).unwrap_or_default();
            for prompt in (1..=written).map(|number| format!("prompt {number}")) {
                let is_there = text.contains(&format!("\"{prompt}\""));
                let is_known = prompts.binary_search(&prompt).is_ok();
                assert!(!is_there || is_known, "seed {seed}: {prompt} of {} is missing: {steps:?}", path.display());
            }
        }
    }
}
