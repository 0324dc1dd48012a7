//! Real files among several processes: modes, locks, kills, writers, other file systems.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use session_core::ErrorKind;
use session_core::storage::{FileSessionStorage, OpenMode, SessionStorage};

use crate::child::{Child, role, say, wait_for_parent};

const STORAGE: FileSessionStorage = FileSessionStorage;

#[test]
fn what_we_create_is_private_whatever_the_umask() {
    // [D10] The umask belongs to the whole process, so each has its own.
    if let Some((umask, dir)) = role() {
        let umask = u32::from_str_radix(&umask, 8).unwrap();
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(umask));
        STORAGE.ensure_dir(&dir.join("a/b")).unwrap();
        STORAGE.open_writer(&dir.join("a/appended"), OpenMode::Append).unwrap();
        STORAGE.open_writer(&dir.join("a/truncated"), OpenMode::Truncate).unwrap();
        STORAGE.create_new(&dir.join("a/b/new")).unwrap();
        STORAGE.write_text(&dir.join("a/b/text"), "x").unwrap();
        STORAGE.lock(&dir.join("locks/deep/x.lock"), "x", Duration::ZERO).unwrap();
        STORAGE.copy(&dir.join("a"), &dir.join("copy")).unwrap();
        return;
    }
    for umask in ["000", "022", "077", "277", "777"] {
        let dir = tempfile::tempdir().unwrap();
        Child::run("storage::what_we_create_is_private_whatever_the_umask", umask, dir.path()).finish();
        let mut seen = 0;
        let mut todo = vec![dir.path().to_path_buf()];
        while let Some(place) = todo.pop() {
            for entry in fs::read_dir(place).unwrap() {
                let (path, metadata) = entry.map(|entry| (entry.path(), entry.metadata().unwrap())).unwrap();
                let mode = metadata.permissions().mode() & 0o7777;
                let private = if metadata.is_dir() { 0o700 } else { 0o600 };
                assert_eq!(mode, private, "umask {umask}: {} has mode {mode:o}", path.display());
                seen += 1;
                if metadata.is_dir() {
                    todo.push(path);
                }
            }
        }
        assert_eq!(seen, 15, "umask {umask}");
    }
}

#[test]
fn what_others_created_keeps_its_mode() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    fs::write(&path, "x").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    STORAGE.ensure_dir(dir.path()).unwrap();
    STORAGE.open_writer(&path, OpenMode::Append).unwrap().write(b"y").unwrap();
    STORAGE.write_at(&path, 0, b"z").unwrap();
    for (path, mode) in [(path.as_path(), 0o644), (dir.path(), 0o755)] {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o7777, mode);
    }
    STORAGE.write_text(&path, "a new file of ours").unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
}

#[test]
fn a_killed_process_loses_no_line_whose_write_returned() {
    // [W3, K21]
    if let Some((_, dir)) = role() {
        let mut writer = STORAGE.open_writer(&dir.join("log"), OpenMode::Append).unwrap();
        for number in 0.. {
            writer.write_line(format!("{{\"line\":{number}}}").as_bytes()).unwrap();
            say(&number.to_string());
        }
    }
    let dir = tempfile::tempdir().unwrap();
    for round in 1..=5_usize {
        let path = dir.path().join("log");
        let _ = fs::remove_file(&path);
        let mut child =
            Child::run("storage::a_killed_process_loses_no_line_whose_write_returned", "writer", dir.path());
        for number in 0..round * 40 {
            child.says(&number.to_string());
        }
        child.kill();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.lines().count() >= round * 40);
        let mut expected = (0..).map(|number| format!("{{\"line\":{number}}}\n"));
        for (number, line) in text.split_inclusive('\n').enumerate() {
            let whole = expected.next().unwrap();
            // The last one may have been killed in the call: the kernel stops between two pages.
            let cut = number >= round * 40 && !line.ends_with('\n') && whole.starts_with(line);
            assert!(line == whole || cut, "{line:?} for {whole:?}");
        }
    }
}

#[test]
fn a_write_that_the_system_cuts_short_says_so_and_is_the_last() {
    // [W5] A limit on the size of files stands for a disk that fills up in the middle of a line.
    if let Some((_, dir)) = role() {
        let path = dir.join("log");
        let mut writer = STORAGE.open_writer(&path, OpenMode::Append).unwrap();
        let limit = rustix::process::Rlimit { current: Some(100), maximum: Some(100) };
        rustix::process::setrlimit(rustix::process::Resource::Fsize, limit).unwrap();
        writer.write_line(&[b'a'; 59]).unwrap();
        let error = writer.write_line(&[b'b'; 59]).unwrap_err();
        assert!(error.to_string().contains("only 40 of 60 bytes"), "{error}");
        // Another write would end this process: the limit has a signal. None is made.
        assert_eq!(writer.write_line(b"c").unwrap_err().to_string(), error.to_string());
        assert_eq!(writer.fsync().unwrap_err().to_string(), error.to_string());
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let test = "storage::a_write_that_the_system_cuts_short_says_so_and_is_the_last";
    Child::run(test, "writer", dir.path()).finish();
    let expected = [&[b'a'; 59][..], b"\n", &[b'b'; 40]].concat();
    assert_eq!(fs::read(dir.path().join("log")).unwrap(), expected, "nothing is truncated");
}

#[test]
fn killing_the_holder_of_a_lock_frees_it_at_once() {
    // [W6, K18]
    if let Some((_, dir)) = role() {
        let holder = format!("process {} (child)", std::process::id());
        let _lock = STORAGE.lock(&dir.join("x.lock"), &holder, Duration::ZERO).unwrap();
        say("held");
        wait_for_parent();
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.lock");
    let test = "storage::killing_the_holder_of_a_lock_frees_it_at_once";
    // A longer name from before must not shine through.
    drop(STORAGE.lock(&path, &"a very long name ".repeat(20), Duration::ZERO).unwrap());
    for _ in 0..3 {
        let mut child = Child::run(test, "holder", dir.path());
        child.says("held");
        let mut lock = STORAGE.open_lock(&path, "parent").unwrap();
        let error = lock.acquire(Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Locked);
        assert!(error.to_string().contains(&format!("locked by process {} (child) for", child.pid())), "{error}");
        child.kill();
        lock.acquire(Duration::ZERO).unwrap();
    }
    assert!(path.exists());
}

#[test]
fn a_lock_serialises_processes_and_threads() {
    // [W6, K19] Each turn reads all and adds one line: without exclusion two would count the same.
    fn turns(dir: &Path, turns: usize) {
        let (log, mut lock) = (dir.join("log"), STORAGE.open_lock(&dir.join("x.lock"), "a worker").unwrap());
        let mut writer = STORAGE.open_writer(&log, OpenMode::Append).unwrap();
        for _ in 0..turns {
            lock.acquire(Duration::from_secs(60)).unwrap();
            let lines = STORAGE.read_text(&log).unwrap().lines().count();
            writer.write_line(lines.to_string().as_bytes()).unwrap();
            lock.release();
        }
    }
    if let Some((_, dir)) = role() {
        say("ready");
        wait_for_parent();
        turns(&dir, 100);
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let child = || Child::run("storage::a_lock_serialises_processes_and_threads", "worker", dir.path());
    let mut children: Vec<_> = (0..4).map(|_| child()).collect();
    for child in &mut children {
        child.says("ready");
    }
    std::thread::scope(|scope| {
        for child in children {
            scope.spawn(|| child.finish());
        }
        for _ in 0..2 {
            scope.spawn(|| turns(dir.path(), 100));
        }
    });
    let text = fs::read_to_string(dir.path().join("log")).unwrap();
    let lines: Vec<usize> = text.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(lines, (0..600).collect::<Vec<_>>());
}

#[cfg(target_os = "linux")]
#[test]
fn writers_of_a_file_are_found_and_told_apart() {
    // [W6]
    if let Some((role, dir)) = role() {
        let path = dir.join("x.jsonl");
        let _lock = (role == "ours").then(|| STORAGE.open_lock(&dir.join("x.lock"), "child").unwrap());
        let _reader = STORAGE.open_reader(&path).unwrap();
        let _writer = (role != "reader").then(|| STORAGE.open_writer(&path, OpenMode::Append).unwrap());
        say("open");
        wait_for_parent();
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (path, lock) = (dir.path().join("x.jsonl"), dir.path().join("x.lock"));
    assert_eq!(STORAGE.writers_of(&path, &lock).unwrap(), []);
    let _own = STORAGE.open_writer(&path, OpenMode::Append).unwrap();

    let run = |role| {
        let mut child = Child::run("storage::writers_of_a_file_are_found_and_told_apart", role, dir.path());
        child.says("open");
        child
    };
    let (mut foreign, ours, reader) = (run("foreign"), run("ours"), run("reader"));
    // Other tests start processes too; between fork and exec such a one has all files of this process open.
    let known = [std::process::id(), foreign.pid(), ours.pid(), reader.pid()];
    let writers = |path: &Path| -> Vec<_> {
        let found = STORAGE.writers_of(path, &lock).unwrap();
        found.into_iter().filter(|holder| known.contains(&holder.pid)).collect()
    };
    let mut expected = [(foreign.pid(), false), (ours.pid(), true)];
    expected.sort_unstable();
    let found: Vec<_> = writers(&path).iter().map(|holder| (holder.pid, holder.ours)).collect();
    assert_eq!(found, expected, "neither the reader nor this process, which writes too");

    // The file, not its name: another name, and a file that took the name.
    let renamed = dir.path().join("y.jsonl");
    fs::rename(&path, &renamed).unwrap();
    assert_eq!(writers(&renamed).len(), 2);
    fs::write(&path, "").unwrap();
    assert_eq!(writers(&path), []);
    foreign.kill();
    let left = writers(&renamed);
    assert_eq!(left.iter().map(|holder| holder.pid).collect::<Vec<_>>(), [ours.pid()]);
    let named = left[0].to_string();
    assert!(named.starts_with(&format!("process {} (", ours.pid())), "{named}");
    ours.finish();
}

#[test]
fn a_reader_sees_the_old_or_the_new_file_whole() {
    // [W4, K20]
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    let texts = ["a".repeat(100_000), "b".repeat(50_000)];
    STORAGE.write_text(&path, &texts[0]).unwrap();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let (path, text) = (&path, &texts[writer]);
                scope.spawn(move || (0..25).for_each(|_| STORAGE.write_text(path, text).unwrap()))
            })
            .collect();
        while !writers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            let text = STORAGE.read_text(&path).unwrap();
            assert!(texts.contains(&text), "{} bytes of two files", text.len());
        }
    });
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
}

#[cfg(target_os = "linux")]
#[test]
fn a_rename_reaches_other_file_systems() {
    // [S1]
    let here = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let there = tempfile::tempdir_in("/dev/shm").unwrap();
    let device = |path: &Path| STORAGE.identity(path).unwrap().unwrap().device;
    assert_ne!(device(here.path()), device(there.path()), "this test needs /dev/shm to be another file system");

    STORAGE.ensure_dir(&here.path().join("s/deep")).unwrap();
    STORAGE.write_text(&here.path().join("s/deep/log"), "artifact").unwrap();
    STORAGE.write_text(&here.path().join("s.jsonl"), "session").unwrap();
    STORAGE.write_text(&there.path().join("s.jsonl"), "replaced").unwrap();
    let modified = STORAGE.stat(&here.path().join("s.jsonl")).unwrap().unwrap().modified;
    for name in ["s", "s.jsonl"] {
        STORAGE.rename(&here.path().join(name), &there.path().join(name)).unwrap();
    }
    assert_eq!(fs::read_dir(here.path()).unwrap().count(), 0);
    assert_eq!(fs::read_dir(there.path()).unwrap().count(), 2);
    assert_eq!(STORAGE.read_text(&there.path().join("s/deep/log")).unwrap(), "artifact");
    let moved = there.path().join("s.jsonl");
    assert_eq!(STORAGE.read_text(&moved).unwrap(), "session");
    assert_eq!(STORAGE.stat(&moved).unwrap().unwrap().modified, modified);
    assert_eq!(fs::metadata(&moved).unwrap().permissions().mode() & 0o7777, 0o600);
}
