//! Files on disk: private, few, and handed back. K44, K46, [D10].

use std::{
    io::{BufRead as _, BufReader, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::Stdio,
};

use history::{HistoryStorage, SearchOptions};

use crate::child::start;

#[test]
fn k46_everything_is_private_whatever_the_umask() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent/history.db");
    let mut child = start("make-with-open-umask", &path).stdin(Stdio::piped()).spawn().unwrap();
    let ready = BufReader::new(child.stdout.as_mut().unwrap()).lines().map(Result::unwrap).any(|line| line == "ready");
    assert!(ready);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    for file in ["history.db", "history.db-wal", "history.db-shm"] {
        assert_eq!(mode(&path.with_file_name(file)), 0o600, "{file}");
    }
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn k44_a_thousand_openings_leave_no_file_open() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    // Other tests run in this process: only files of this directory count.
    let open_files = || {
        let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        files
            .filter_map(|file| std::fs::read_link(file.path()).ok())
            .filter(|file| file.starts_with(dir.path()))
            .count()
    };
    HistoryStorage::open(&path).unwrap().add("hello", None).wait().unwrap();
    for _ in 0..1000 {
        let store = HistoryStorage::open(&path).unwrap();
        assert_eq!(store.search("hel", &SearchOptions::new(5)).unwrap().entries().len(), 1);
        store.close().unwrap();
        assert_eq!(open_files(), 0);
    }
}

#[test]
fn a_new_database_on_an_empty_file_is_ours() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    std::fs::write(&path, "").unwrap();
    let store = HistoryStorage::open(&path).unwrap();
    assert!(store.search("x", &SearchOptions::new(5)).unwrap().entries().is_empty());
    store.add("x", None).wait().unwrap();
    let stats = store.stats().unwrap();
    assert!(stats.created_by_us && stats.journal == "wal", "{stats:?}");
}
