//! What an extension's state costs beside what it cannot cost less than: a save beside the bare append of the same bytes, a
//! save that changes nothing beside reading the one entry it compares with, a fold beside reading what it folds. Each floor
//! is measured in the same run; the ratio is what counts.

#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]
#![allow(clippy::unwrap_used, reason = "a benchmark that fails has nothing to say")]

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use plugin_sdk::{Event, Extension, LiveSession, Opening, Version};
use session_core::{AgentDir, EntryKind, Environment, Host, JsonText, SessionManager};

const ROUNDS: usize = 200;

fn main() {
    let dir = tempfile::tempdir().unwrap();
    let host = Host::new(AgentDir::at(dir.path().join("agent")).unwrap(), Environment::new(dir.path()));
    println!("{:<58} {:>12} {:>12} {:>7}", "", "ours", "floor", "ratio");
    saving(&host, dir.path());
    for entries in [1_000, 10_000, 100_000] {
        long_session(&host, dir.path(), entries);
    }
}

/// A new session, written.
fn new_session(host: &Host, cwd: &Path) -> SessionManager {
    let mut session = SessionManager::create(host, cwd, None).unwrap();
    session.ensure_on_disk().unwrap();
    session
}

fn saving(host: &Host, cwd: &Path) {
    println!("a changed state of 1 KB against the append of the same bytes");
    let state = Extension::new("n").unwrap().state::<(usize, String)>(Version(1));
    let text = "x".repeat(1_000);
    let mut plain = new_session(host, cwd);
    let mut saved = new_session(host, cwd);
    let mut live = LiveSession::new(new_session(host, cwd), Opening::New);
    let mut heard = 0_usize;
    live.listen("counts", move |event, _| {
        heard += usize::from(matches!(event, Event::EntryAppended { .. }));
        black_box(heard);
        Ok(())
    });
    let (mut append, mut save, mut save_live) = (Vec::new(), Vec::new(), Vec::new());
    // Taken in turns, so that a slow moment of the disk strikes all.
    for n in 0..ROUNDS {
        let value = (n, text.clone());
        let json = JsonText::from_serialize(&value).unwrap();
        append.push(time(|| plain.append_custom_entry("n", Some(&json), Some(1)).unwrap()));
        save.push(time(|| state.save(&mut saved, &value).unwrap()));
        save_live.push(time(|| state.save(&mut live, &value).unwrap()));
    }
    let floor = median(append);
    row("  save", median(save), floor);
    row("  save with a listener that counts", median(save_live), floor);
}

fn long_session(host: &Host, cwd: &Path, entries: usize) {
    println!("a session of {entries} messages of 200 bytes, opened anew");
    let state = Extension::new("n").unwrap().state::<u32>(Version(1));
    let never = Extension::new("never").unwrap().state::<u32>(Version(1));
    let step = |count: &mut u64, step: &mut plugin_sdk::Step<'_, '_>| {
        *count += u64::from(step.entry().kind() == EntryKind::Message && step.json()?.as_str().len() > 200);
        Ok(())
    };
    let fold = Extension::new("fold").unwrap().fold("count", Version(1), step).unwrap();
    let whole = Extension::new("fold").unwrap().fold("none", Version(1), step).unwrap();
    let mut session = new_session(host, cwd);
    let message = format!(r#"{{"role":"user","content":"{}"}}"#, "x".repeat(100));
    let message = JsonText::parse(&message).unwrap();
    let mut last = None;
    for n in 0..entries {
        session.append_message(&message).unwrap();
        if n % 1_000 == 500 {
            last = state.save(&mut session, &u32::try_from(n).unwrap()).unwrap().entry().cloned();
            fold.keep(&mut session).unwrap();
        }
    }
    let file = session.file().unwrap().to_owned();
    drop(session);
    let mut session = SessionManager::open(host, &file, None).unwrap();
    let value = state.load(&session).unwrap().unwrap();
    let last = last.unwrap();

    let one = best(|| session.session().entry(last.as_str()).unwrap().json().unwrap());
    row("  save, nothing changed: reading the entry", best(|| state.save(&mut session, &value).unwrap()), one);
    row("  load: reading the entry", best(|| state.load(&session).unwrap()), one);
    let path = best(|| session.session().branch_path(&session_core::Leaf::Current).len());
    row("  load where there is none: the path, and other states", best(|| never.load(&session).unwrap()), path);
    let read = best(|| std::fs::read(&file).unwrap().len());
    row("  fold with snapshots: reading the file", best(|| fold.read(&session).unwrap()), read);
    row("  fold without: reading the file", best(|| whole.read(&session).unwrap()), read);
}

fn time<T>(work: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    black_box(work());
    start.elapsed()
}

fn best<T>(mut work: impl FnMut() -> T) -> Duration {
    (0..20).map(|_| time(&mut work)).min().unwrap()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn row(name: &str, ours: Duration, floor: Duration) {
    let ratio = ours.as_secs_f64() / floor.as_secs_f64();
    println!("{name:<58} {ours:>12.2?} {floor:>12.2?} {ratio:>7.2}");
}
