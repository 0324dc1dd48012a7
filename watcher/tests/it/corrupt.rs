//! A history that is corrupt is moved aside and begun anew from the sessions [H5, K43]; one that is in use or merely locked
//! is left where it is. What was deleted stays away [H5b, K60].

use std::fs;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use history::rusqlite::Connection;
use history::{HistoryStorage, Scope, Selection};

use crate::support::{Running, Session, World, until};

impl World {
    /// Files beside the history whose names say that they were corrupt.
    fn set_aside(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.agent()).unwrap().map(|file| file.unwrap().path());
        let is_main =
            |path: &PathBuf| !path.to_string_lossy().ends_with("-wal") && !path.to_string_lossy().ends_with("-shm");
        files.filter(|path| path.to_string_lossy().contains(".corrupt")).filter(is_main).collect()
    }
}

/// Overwrites what stands in the first page of a table: opening the history reads nothing of most of them.
fn spoil(world: &World, table: &str, from: usize) {
    let conn = Connection::open(world.history()).unwrap();
    let page: i64 =
        conn.query_row("SELECT rootpage FROM sqlite_schema WHERE name = ?", [table], |row| row.get(0)).unwrap();
    // Closing the last connection puts the log into the file.
    conn.close().unwrap();
    let mut bytes = fs::read(world.history()).unwrap();
    let start = usize::try_from(page - 1).unwrap() * 4096 + from;
    bytes[start..start + 40].fill(0xfe);
    fs::write(world.history(), bytes).unwrap();
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn synced() -> (World, Session) {
    let world = World::new();
    let mut session = Session::begin(&world, "--w--", "00000000000000f1", "/w");
    for prompt in ["one", "a secret", "two"] {
        session.user(prompt);
    }
    world.json(&["sync"]);
    let store = HistoryStorage::open(world.history()).unwrap();
    let recent = store.recent(10, &Scope::everywhere()).unwrap();
    let secret = recent.iter().find(|entry| entry.prompt() == "a secret").unwrap().id();
    store.delete(Selection::rows([secret])).wait().unwrap();
    store.close().unwrap();
    (world, session)
}

#[test]
fn noise_and_a_zeroed_header_are_moved_aside_and_the_sessions_fill_a_new_history() {
    let noise: Vec<u8> = (0..4096_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for command in ["sync", "run"] {
        for damage in ["noise", "header"] {
            let (world, mut session) = synced();
            let mut bytes = if damage == "noise" { noise.clone() } else { fs::read(world.history()).unwrap() };
            if damage == "header" {
                bytes[..100].fill(0);
            }
            fs::write(world.history(), &bytes).unwrap();
            session.user("three");
            if command == "sync" {
                let output = world.output(&["sync"]);
                assert_eq!(output.status.code(), Some(0), "{}", said(&output));
                assert!(said(&output).contains("was corrupt"), "{}", said(&output));
            } else {
                let watcher = world.run(&[]);
                let problem =
                    world.json(&["status"])[0]["state"]["lastProblem"]["message"].as_str().unwrap().to_owned();
                assert!(problem.contains("was corrupt"), "{problem}");
                drop(watcher);
            }
            assert_eq!(world.prompts(), ["one", "two", "three"], "{command}, {damage}");
            let aside = world.set_aside();
            assert_eq!(aside.len(), 1, "{aside:?}");
            assert_eq!(fs::read(&aside[0]).unwrap(), bytes, "it is kept as it was");
        }
    }
}

#[test]
fn a_corrupt_history_that_somebody_has_open_stays_and_the_message_says_what_to_run() {
    let (world, _session) = synced();
    fs::write(world.history(), [7; 8192]).unwrap();
    let held = fs::File::open(world.history()).unwrap();
    for command in ["sync", "run"] {
        let output = world.output(&[command]);
        assert_eq!(output.status.code(), Some(5), "{}", said(&output));
        let process = format!("process {} has it open", std::process::id());
        assert!(said(&output).contains(&process), "{}", said(&output));
        assert!(said(&output).contains("watcher history check --repair"), "{}", said(&output));
    }
    assert_eq!(fs::read(world.history()).unwrap(), [7; 8192]);
    assert_eq!(world.set_aside(), Vec::<PathBuf>::new());
    drop(held);
    let output = world.output(&["sync"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(world.prompts(), ["one", "two"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_history_that_is_merely_locked_is_left_where_it_is() {
    use std::os::unix::fs::MetadataExt;
    let (world, mut session) = synced();
    session.user("three");
    let conn = Connection::open(world.history()).unwrap();
    conn.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").unwrap();
    let child = world.command(&["sync"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let sync = Running(child);
    let file = fs::metadata(world.history()).unwrap().ino();
    let has_open = || {
        let files = fs::read_dir(format!("/proc/{}/fd", sync.0.id())).into_iter().flatten();
        files.flatten().any(|held| fs::metadata(held.path()).is_ok_and(|found| found.ino() == file))
    };
    until("it waits for the history", has_open);
    drop(conn);
    assert_eq!(sync.end().1, Some(0));
    assert_eq!(world.set_aside(), Vec::<PathBuf>::new());
    assert_eq!(world.prompts(), ["one", "two", "three"]);
}

#[test]
fn a_history_that_breaks_under_the_watcher_is_replaced_while_it_runs() {
    let (world, mut session) = synced();
    let child = world.command(&["run"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let watcher = Running(child);
    session.user("three");
    until("it follows", || world.finds("three"));
    let conn = Connection::open(world.history()).unwrap();
    // A table that begins on a page that is not there; the new schema version makes everybody look.
    conn.execute_batch(
        "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET rootpage = 99999 WHERE name = 'watcher_submission'",
    )
    .unwrap();
    let version: i64 = conn.pragma_query_value(None, "schema_version", |row| row.get(0)).unwrap();
    conn.pragma_update(None, "schema_version", version + 1).unwrap();
    drop(conn);
    session.user("four");
    // Nobody looks into the history meanwhile: it is moved only when it is free.
    until("it was moved aside", || !world.set_aside().is_empty());
    until("the prompts are back", || world.finds("four"));
    session.user("five");
    until("it follows on", || world.finds("five"));
    watcher.signal("TERM");
    assert_eq!(watcher.end().1, Some(0));
    assert_eq!(world.prompts(), ["one", "two", "three", "four", "five"]);
}

#[test]
fn corruption_that_shows_only_while_it_is_written_to_is_mended_there_and_then() {
    for command in ["sync", "run"] {
        // Ours, the index's, and the prompts' own.
        for table in ["watcher_file", "history_fts_data", "watcher_submission", "history"] {
            let (world, mut session) = synced();
            spoil(&world, table, 0);
            session.user("three");
            if command == "sync" {
                let output = world.output(&["sync"]);
                assert_eq!(output.status.code(), Some(0), "{table}: {}", said(&output));
                assert!(said(&output).contains("was corrupt"), "{table}: {}", said(&output));
            } else {
                let watcher = world.run(&[]);
                let mended = || {
                    let status = world.json(&["status"]);
                    let problem = status[0]["state"]["lastProblem"]["message"].as_str().unwrap_or_default();
                    problem.contains("was corrupt")
                };
                until("it is mended", mended);
                session.user("four");
                until("it follows on", || world.finds("four"));
                drop(watcher);
            }
            let expected =
                if command == "sync" { &["one", "two", "three"][..] } else { &["one", "two", "three", "four"] };
            assert_eq!(world.prompts(), expected, "{command}, {table}");
            assert_eq!(world.set_aside().len(), 1);
            assert_eq!(world.output(&["history", "check"]).status.code(), Some(0));
        }
    }
}

#[test]
fn an_index_that_is_broken_in_a_file_that_is_well_is_built_anew_in_place() {
    for command in ["sync", "run"] {
        let (world, mut session) = synced();
        let conn = Connection::open(world.history()).unwrap();
        conn.execute("DELETE FROM history_fts_data WHERE id = 10", []).unwrap();
        drop(conn);
        session.user("three");
        if command == "sync" {
            let output = world.output(&["sync"]);
            assert_eq!(output.status.code(), Some(0), "{}", said(&output));
            assert!(said(&output).contains("built anew"), "{}", said(&output));
        } else {
            let watcher = world.run(&[]);
            until("it follows", || world.output(&["history", "check"]).status.success() && world.finds("three"));
            drop(watcher);
        }
        assert_eq!(world.prompts(), ["one", "two", "three"]);
        assert_eq!(world.set_aside(), Vec::<PathBuf>::new());
        assert!(world.finds("one") && world.finds("three"));
    }
}

#[test]
fn check_repair_is_the_way_out_of_whatever_check_finds() {
    for table in ["watcher_file", "history_fts_data", "history_fts_docsize", "watcher_submission_row", "history"] {
        for from in [0, 8] {
            let (world, _session) = synced();
            spoil(&world, table, from);
            assert_eq!(world.output(&["history", "check"]).status.code(), Some(1), "{table}");
            let output = world.output(&["history", "check", "--repair", "--yes"]);
            assert_eq!(output.status.code(), Some(0), "{table}: {}", said(&output));
            assert_eq!(world.output(&["history", "check"]).status.code(), Some(0), "{table}");
            world.json(&["sync"]);
            assert_eq!(world.prompts(), ["one", "two"], "{table}");
        }
    }
}

#[test]
fn what_is_wrong_with_waiting_prompts_of_hooks_keeps_no_session_from_being_read() {
    let (world, mut session) = synced();
    session.user("three");
    fs::create_dir_all(world.agent().join(".watcher/spool/claim-0")).unwrap();
    let output = world.output(&["sync"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("claim-0"), "{}", said(&output));
    assert_eq!(world.prompts(), ["one", "two", "three"]);
}

#[test]
fn a_sync_that_could_not_write_everything_says_so_by_its_code() {
    let (world, mut session) = synced();
    let conn = Connection::open(world.history()).unwrap();
    // An index of a form that this SQLite does not know.
    conn.execute("UPDATE history_fts_config SET v = 99 WHERE k = 'version'", []).unwrap();
    drop(conn);
    session.user("three");
    let output = world.output(&["sync"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("history.db: invalid fts5 file format"), "{}", said(&output));
}
