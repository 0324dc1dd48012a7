//! The contract of a storage as checks that anyone can run on theirs.
//!
//! ```
//! use std::path::Path;
//! use session_core::storage::{MemorySessionStorage, SessionStorage, contract};
//! let storage = MemorySessionStorage::new();
//! storage.ensure_dir(Path::new("/scratch")).unwrap();
//! contract::check(&storage, Path::new("/scratch"));
//! ```
//!
//! What only a killed process, a power cut or a second process shows is not here: durability and the kernel's part of
//! locking are the storage's own to test.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime};

use super::{FileKind, OpenMode, Replacement, SessionStorage, is_temporary};
use crate::error::{ErrorKind, Result};

/// Runs every check, each in a directory of its own below `scratch`, which must exist.
///
/// # Panics
/// When the storage breaks the contract; the message says which rule.
pub fn check(storage: &dyn SessionStorage, scratch: &Path) {
    let checks: [(&str, Check); 12] = [
        ("nothing", nothing_there_is_no_error),
        ("kinds", wrong_kinds_are_errors),
        ("dirs", directories_are_made_and_listed),
        ("text", text_is_read_leniently),
        ("writers", writers_append_and_truncate),
        ("create", creating_needs_a_free_name_and_a_directory),
        ("overwrite", overwriting_never_grows),
        ("identity", identities_follow_the_file),
        ("replace", replacing_is_whole_or_not_at_all),
        ("trees", trees_are_copied_moved_and_removed),
        ("times", times_are_set),
        ("locks", locks_exclude),
    ];
    for (name, check) in checks {
        let dir = scratch.join(name);
        must(storage.ensure_dir(&dir), "ensure_dir");
        check(&Case { storage, dir });
    }
}

type Check = fn(&Case<'_>);

struct Case<'a> {
    storage: &'a dyn SessionStorage,
    dir: PathBuf,
}

impl Case<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        must(self.storage.write_text(&path, text), "write_text");
        path
    }

    fn text(&self, path: &Path) -> String {
        must(self.storage.read_text(path), "read_text")
    }

    fn names(&self, dir: &Path) -> Vec<String> {
        let items = must(self.storage.read_dir(dir), "read_dir").unwrap_or_default();
        items.iter().map(|item| item.path.file_name().unwrap_or_default().to_string_lossy().into_owned()).collect()
    }
}

#[track_caller]
fn must<T>(result: Result<T>, what: &str) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{what} must work here: {error:?}"),
    }
}

#[track_caller]
fn fails<T>(result: Result<T>, kind: ErrorKind, what: &str) {
    match result {
        Ok(_) => panic!("{what} must fail with {kind:?}"),
        Err(error) => {
            assert_eq!(error.kind(), kind, "{what}: {error}");
            assert!(error.path().is_some(), "{what}: an error names its path");
        }
    }
}

fn nothing_there_is_no_error(case: &Case<'_>) {
    let (storage, path) = (case.storage, case.path("missing/deep"));
    assert!(!must(storage.exists(&path), "exists"));
    assert_eq!(must(storage.stat(&path), "stat"), None);
    assert_eq!(must(storage.identity(&path), "identity"), None);
    assert_eq!(must(storage.read_dir(&path), "read_dir"), None);
    assert!(must(storage.list_files(&path, "*"), "list_files").is_empty());
    fails(storage.open_reader(&path), ErrorKind::NotFound, "reading what is missing");
    fails(storage.read_text(&path), ErrorKind::NotFound, "reading what is missing");
    fails(storage.unlink(&path), ErrorKind::NotFound, "removing what is missing");
    fails(storage.remove_tree(&path), ErrorKind::NotFound, "removing a directory that is missing");
    fails(storage.rename(&path, &case.path("x")), ErrorKind::NotFound, "renaming what is missing");
    fails(storage.copy(&path, &case.path("x")), ErrorKind::NotFound, "copying what is missing");
    fails(storage.write_at(&path, 0, b""), ErrorKind::NotFound, "overwriting what is missing");
    fails(storage.set_modified(&path, SystemTime::UNIX_EPOCH), ErrorKind::NotFound, "dating what is missing");
    fails(storage.open_reader(&case.path("a\0b")), ErrorKind::InvalidInput, "a path with a NUL");
    assert_eq!(storage.resolve(&path), storage.resolve(&case.dir).join("missing/deep"));
    assert_eq!(storage.resolve(&case.path("missing/../x/./y")), storage.resolve(&case.dir).join("x/y"));
}

fn wrong_kinds_are_errors(case: &Case<'_>) {
    let (storage, file) = (case.storage, case.file("file", "text"));
    fails(storage.open_reader(&case.dir), ErrorKind::NotAFile, "reading a directory");
    fails(storage.open_writer(&case.dir, OpenMode::Append), ErrorKind::NotAFile, "appending to a directory");
    fails(storage.open_writer(&case.dir, OpenMode::Truncate), ErrorKind::NotAFile, "emptying a directory");
    fails(storage.ensure_dir(&file), ErrorKind::NotAFile, "a directory where a file is");
    fails(storage.ensure_dir(&file.join("below")), ErrorKind::NotAFile, "a directory below a file");
    fails(storage.remove_tree(&file), ErrorKind::NotAFile, "removing a file as a directory");
    assert!(storage.read_dir(&file).is_err(), "a file is no directory to list");
    assert!(storage.sync_dir(&file).is_err(), "a file is no directory to sync");
    assert_eq!(case.text(&file), "text");
}

fn directories_are_made_and_listed(case: &Case<'_>) {
    let storage = case.storage;
    let deep = case.path("a/b/c");
    must(storage.ensure_dir(&deep), "ensure_dir");
    must(storage.ensure_dir(&deep), "ensure_dir on what is there");
    assert_eq!(must(storage.stat(&deep), "stat").map(|stat| stat.kind), Some(FileKind::Directory));
    for name in ["b.jsonl", "a.jsonl", "c.txt", "a.jsonl.bak"] {
        case.file(name, name);
    }
    must(storage.ensure_dir(&case.path("d.jsonl")), "ensure_dir");
    assert_eq!(case.names(&case.dir), ["a", "a.jsonl", "a.jsonl.bak", "b.jsonl", "c.txt", "d.jsonl"]);
    let files = must(storage.list_files(&case.dir, "*.jsonl"), "list_files");
    assert_eq!(files, [case.path("a.jsonl"), case.path("b.jsonl")], "files alone, sorted");
    fails(storage.list_files(&case.dir, "[x"), ErrorKind::InvalidInput, "a broken pattern");
    must(storage.sync_dir(&case.dir), "sync_dir");
}

fn text_is_read_leniently(case: &Case<'_>) {
    let storage = case.storage;
    let path = case.file("text", "aé€😀z");
    for (bytes, text) in [(0, ""), (1, "a"), (2, "a"), (3, "aé"), (5, "aé"), (6, "aé€"), (9, "aé€"), (10, "aé€😀")]
    {
        let prefix = must(storage.read_text_prefix(&path, bytes), "read_text_prefix");
        assert_eq!(prefix, text, "a prefix of {bytes} bytes never cuts a character into garbage [S2]");
    }
    assert_eq!(must(storage.read_text_prefix(&path, u64::MAX), "read_text_prefix"), "aé€😀z");
    let mut writer = must(storage.open_writer(&path, OpenMode::Truncate), "open_writer");
    must(writer.write(b"a\xffb\xe2\x82"), "write");
    assert_eq!(case.text(&path), "a\u{fffd}b\u{fffd}", "invalid UTF-8 decodes to U+FFFD");
    assert_eq!(must(storage.read_bytes(&path, 3), "read_bytes"), b"a\xffb");
    let reader = must(storage.open_reader(&path), "open_reader");
    let mut buffer = [0; 8];
    assert_eq!(must(reader.read_at(2, &mut buffer), "read_at"), 3, "less only at the end of the file");
    assert_eq!(&buffer[..3], b"b\xe2\x82");
    assert_eq!(must(reader.read_at(5, &mut buffer), "read_at at the end"), 0);
    assert_eq!(must(reader.read_at(u64::MAX / 4, &mut buffer), "read_at far behind the end"), 0);
}

fn writers_append_and_truncate(case: &Case<'_>) {
    let (storage, path) = (case.storage, case.path("log"));
    let mut first = must(storage.open_writer(&path, OpenMode::Append), "open_writer creates");
    let mut second = must(storage.open_writer(&path, OpenMode::Append), "open_writer");
    must(first.write_line(b"1"), "write_line");
    assert_eq!(case.text(&path), "1\n", "a line is there when the call returns, without flush");
    must(second.write_line(b"2"), "write_line");
    must(first.write_line(b""), "write_line");
    must(first.write(b"3"), "write");
    assert_eq!(case.text(&path), "1\n2\n\n3", "every write goes to the end");
    must(first.flush(), "flush");
    must(first.fsync(), "fsync");
    assert_eq!(first.error().map(ToString::to_string), None);
    assert_eq!(must(first.stat(), "stat").len, 6);
    must(first.close(), "close");
    let mut third = must(storage.open_writer(&path, OpenMode::Truncate), "open_writer");
    assert_eq!(case.text(&path), "");
    must(third.write(b"x"), "write");
    must(second.write(b"y"), "write");
    assert_eq!(case.text(&path), "xy");
}

fn creating_needs_a_free_name_and_a_directory(case: &Case<'_>) {
    let (storage, path) = (case.storage, case.path("new"));
    let mut writer = must(storage.create_new(&path), "create_new");
    must(writer.write(b"mine"), "write");
    fails(storage.create_new(&path), ErrorKind::AlreadyExists, "creating what is there");
    fails(storage.create_new(&case.dir), ErrorKind::AlreadyExists, "creating where a directory is");
    assert_eq!(case.text(&path), "mine");
    for missing in ["no/file", "no/such/file"] {
        let path = case.path(missing);
        fails(storage.create_new(&path), ErrorKind::NotFound, "creating without a directory");
        fails(storage.open_writer(&path, OpenMode::Append), ErrorKind::NotFound, "appending without a directory");
        fails(storage.write_text(&path, ""), ErrorKind::NotFound, "writing without a directory");
    }
    assert_eq!(case.names(&case.dir), ["new"], "nothing is made on the way to an error");
}

fn overwriting_never_grows(case: &Case<'_>) {
    let (storage, path) = (case.storage, case.file("slot", "0123456789"));
    let before = must(storage.identity(&path), "identity");
    must(storage.write_at(&path, 8, b"ab"), "write_at");
    must(storage.write_at(&path, 10, b""), "write_at of nothing");
    fails(storage.write_at(&path, 9, b"xy"), ErrorKind::InvalidInput, "overwriting past the end");
    fails(storage.write_at(&path, u64::MAX, b"x"), ErrorKind::InvalidInput, "overwriting far behind the end");
    assert_eq!(case.text(&path), "01234567ab");
    assert_eq!(must(storage.identity(&path), "identity"), before, "it stays the same file");
}

fn identities_follow_the_file(case: &Case<'_>) {
    let storage = case.storage;
    let (a, b) = (case.file("a", "A"), case.file("b", "B"));
    let (id_a, id_b) = (must(storage.identity(&a), "identity"), must(storage.identity(&b), "identity"));
    assert_ne!(id_a, id_b);
    let reader = must(storage.open_reader(&b), "open_reader");
    let mut writer = must(storage.open_writer(&b, OpenMode::Append), "open_writer");
    must(storage.rename(&a, &b), "rename replaces");
    assert_eq!(must(storage.identity(&b), "identity"), id_a, "a rename keeps the identity");
    assert!(!must(storage.exists(&a), "exists"));
    assert_eq!(case.text(&b), "A");
    must(writer.write(b"!"), "write to the replaced file");
    let mut buffer = [0; 4];
    let read = must(reader.read_at(0, &mut buffer), "read_at");
    assert_eq!(&buffer[..read], b"B!", "handles stay on the replaced file");
    let stat = must(reader.stat(), "stat");
    assert_eq!((Some(stat.identity), stat.links, stat.len), (id_b, 0, 2), "no name is left");
    assert_eq!(must(writer.stat(), "stat").links, 0);

    let moved = case.path("c");
    let writer = must(storage.open_writer(&b, OpenMode::Append), "open_writer");
    must(storage.rename(&b, &moved), "rename");
    assert_eq!(must(writer.stat(), "stat").links, 1, "a renamed file has a name");
    must(storage.unlink(&moved), "unlink");
    assert_eq!(must(writer.stat(), "stat").links, 0, "a deleted file has none");
    assert!(!must(storage.exists(&moved), "exists"));
}

fn replacing_is_whole_or_not_at_all(case: &Case<'_>) {
    let (storage, path) = (case.storage, case.file("x", "old"));
    let before = must(storage.identity(&path), "identity");
    let mut dropped = must(Replacement::of(storage, &path), "a replacement");
    must(dropped.write(b"half"), "write");
    assert_eq!(case.text(&path), "old", "nothing shows before the commit");
    let beside: Vec<_> = case.names(&case.dir).into_iter().filter(|name| is_temporary(name.as_ref())).collect();
    assert_eq!(beside.len(), 1);
    drop(dropped);
    assert_eq!(case.names(&case.dir), ["x"], "a dropped replacement leaves nothing");

    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000);
    let mut replacement = must(Replacement::of(storage, &path), "a replacement");
    must(replacement.write(b"n"), "write");
    must(replacement.write(b"ew"), "write");
    must(replacement.set_modified(time), "set_modified");
    fails(replacement.write(b"late"), ErrorKind::Closed, "writing to complete content");
    must(replacement.commit(), "commit");
    assert_eq!(case.text(&path), "new");
    assert_eq!(must(storage.stat(&path), "stat").map(|stat| stat.modified), Some(time));
    assert_ne!(must(storage.identity(&path), "identity"), before, "a replaced file is another file");
    must(storage.write_text(&path, ""), "write_text of nothing");
    assert_eq!(case.text(&path), "");
    assert_eq!(case.names(&case.dir), ["x"]);
    fails(storage.write_text(&case.dir, "x"), ErrorKind::NotAFile, "replacing a directory");
    assert_eq!(case.names(&case.dir), ["x"]);
}

fn trees_are_copied_moved_and_removed(case: &Case<'_>) {
    let storage = case.storage;
    must(storage.ensure_dir(&case.path("t/deep/er")), "ensure_dir");
    case.file("t/a", "A");
    let b = case.file("t/deep/er/b", "B");
    case.file("t2", "a name that begins like the directory's");
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_500_000_000);
    must(storage.set_modified(&b, time), "set_modified");

    must(storage.copy(&case.path("t"), &case.path("copy")), "copy of a directory");
    assert_eq!(case.text(&case.path("copy/deep/er/b")), "B");
    let stat = must(storage.stat(&case.path("copy/deep/er/b")), "stat");
    assert_eq!(stat.map(|stat| stat.modified), Some(time), "a copy keeps the time");
    assert_ne!(stat.map(|stat| stat.identity), must(storage.identity(&b), "identity"));
    must(storage.copy(&b, &case.path("copy/b")), "copy of a file");
    assert_eq!(case.text(&case.path("copy/b")), "B");
    fails(storage.copy(&b, &case.path("copy/b")), ErrorKind::AlreadyExists, "copying onto a file");
    fails(storage.copy(&case.path("t"), &case.path("copy")), ErrorKind::AlreadyExists, "copying onto a directory");

    must(storage.rename(&case.path("t"), &case.path("moved")), "rename of a directory");
    assert_eq!(case.names(&case.path("moved")), ["a", "deep"]);
    assert_eq!(case.text(&case.path("moved/deep/er/b")), "B");
    assert!(!must(storage.exists(&case.path("t")), "exists"));
    must(storage.remove_tree(&case.path("moved")), "remove_tree");
    assert_eq!(case.names(&case.dir), ["copy", "t2"], "the tree alone is gone");
}

fn times_are_set(case: &Case<'_>) {
    let (storage, path) = (case.storage, case.file("x", "x"));
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_250);
    must(storage.set_modified(&path, time), "set_modified");
    assert_eq!(must(storage.stat(&path), "stat").map(|stat| stat.modified), Some(time));
    let mut writer = must(storage.open_writer(&path, OpenMode::Append), "open_writer");
    assert_eq!(must(writer.stat(), "stat").modified, time, "opening changes no time");
    must(writer.write(b"y"), "write");
    assert_ne!(must(writer.stat(), "stat").modified, time, "writing does");
}

fn locks_exclude(case: &Case<'_>) {
    let (storage, path) = (case.storage, case.path("locks/session.lock"));
    let mut first = must(storage.lock(&path, "process 1 (one)", Duration::ZERO), "lock makes its directory");
    must(first.acquire(Duration::ZERO), "a lock that is held");
    let mut second = must(storage.open_lock(&path, "process 2 (two)"), "open_lock");
    match second.acquire(Duration::ZERO) {
        Ok(()) => panic!("two must not hold one lock"),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Locked);
            assert!(error.to_string().contains("process 1 (one)"), "the message names the holder: {error}");
        }
    }
    first.release();
    first.release();
    must(second.acquire(Duration::ZERO), "a lock that was released");
    fails(first.acquire(Duration::from_millis(1)), ErrorKind::Locked, "a lock that another took");
    drop(second);
    must(first.acquire(Duration::ZERO), "a lock whose holder was dropped");
    assert!(must(storage.exists(&path), "exists"), "a lock file is never deleted");
    drop(must(storage.lock(&case.path("locks/other.lock"), "x", Duration::ZERO), "another lock"));

    // Whoever waits gets it once it is free, and only then.
    thread::scope(|scope| {
        let (waiting, started) = mpsc::channel();
        let path = &path;
        let waiter = scope.spawn(move || {
            let mut lock = must(storage.open_lock(path, "process 3"), "open_lock");
            let early = lock.acquire(Duration::ZERO).is_ok();
            let _ = waiting.send(());
            must(lock.acquire(Duration::from_secs(60)), "waiting for a lock");
            early
        });
        assert_eq!(started.recv(), Ok(()));
        first.release();
        assert_eq!(waiter.join().ok(), Some(false), "a waiter must not hold a lock that is held");
    });

    // A directory that somebody cleared away does not make two holders.
    must(first.acquire(Duration::ZERO), "acquire");
    first.release();
    must(storage.remove_tree(&case.path("locks")), "remove_tree");
    must(first.acquire(Duration::ZERO), "a lock whose file was removed");
    let mut late = must(storage.open_lock(&path, "process 4"), "open_lock");
    fails(late.acquire(Duration::ZERO), ErrorKind::Locked, "the lock file that was made again");
}
