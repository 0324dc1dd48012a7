//! Databases that are locked, full, read-only or corrupt: [H5], K42, K43.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::Path,
    process::Stdio,
    time::Duration,
};

use history::{
    Access, EntryKey, ErrorKind, HistoryStorage, Import, OpenOptions, Scope, SearchOptions, Selection, Submission,
    rusqlite,
};

use crate::child::{finish, start};

fn filled(path: &Path, prompts: usize) {
    let store = options().open(path).unwrap();
    for number in 0..prompts {
        drop(store.add(format!("hello number {number} {}", "filler ".repeat(20)), None));
    }
    store.close().unwrap();
}

fn options() -> OpenOptions {
    OpenOptions::new().patience(Duration::from_millis(50)).clock(|| 1_700_000_000)
}

#[test]
fn h5_a_locked_database_is_an_error_and_never_moved() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    filled(&path, 1);
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let store = options().open(&path).unwrap();
    let error = store.add("new", None).wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    assert_eq!(store.search("hello", &SearchOptions::new(5)).unwrap().entries().len(), 1, "reading goes on");
    assert_eq!(options().rebuild_if_corrupt(&path, |_| Ok(())).unwrap(), None);
    other.execute_batch("COMMIT").unwrap();
    drop(store);
    other.execute_batch("PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT").unwrap();
    assert_eq!(options().open(&path).unwrap_err().kind(), ErrorKind::Locked);
    assert_eq!(options().rebuild_if_corrupt(&path, |_| Ok(())).unwrap_err().kind(), ErrorKind::Locked);
    drop(other);
    let store = options().open(&path).unwrap();
    store.add("new", None).wait().unwrap();
}

#[test]
fn h5_a_dropped_answer_that_failed_is_told_by_close() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    filled(&path, 1);
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let store = options().open(&path).unwrap();
    drop(store.add("new", None));
    assert_eq!(store.close().unwrap_err().kind(), ErrorKind::Locked);
}

#[test]
fn h5_a_full_disk_is_one_clear_error_and_nothing_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    filled(&path, 10);
    let store = options().open(&path).unwrap();
    let limit = |pages: i64| {
        let set = store.apply(Vec::new(), move |transaction, _| {
            let used: i64 = transaction.pragma_query_value(None, "page_count", |row| row.get(0))?;
            let pages = if pages == 0 { used } else { pages };
            transaction.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
            Ok(())
        });
        set.wait().unwrap();
    };
    limit(0);
    let big = "word ".repeat(50_000);
    let error = store.add(big.clone(), None).wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DiskFull);
    assert!(error.to_string().contains("free some space"), "{error}");
    let failed = store.apply(vec![Submission::new(big.clone()).key(EntryKey::new("k"))], |_, _| Ok(()));
    assert_eq!(failed.wait().unwrap_err().kind(), ErrorKind::DiskFull);
    limit(1_000_000);
    store.add(big.clone(), None).wait().unwrap();
    assert_eq!(store.recent(1, &Scope::everywhere()).unwrap()[0].prompt(), big.trim());
    assert!(store.check().unwrap().is_well());
}

/// Room for so many more pages on the disk, for a store's writer.
fn leave_room(store: &HistoryStorage, pages: i64) {
    let limited = store.apply(Vec::new(), move |transaction, _| {
        let used: i64 = transaction.pragma_query_value(None, "page_count", |row| row.get(0))?;
        transaction.pragma_update_and_check(None, "max_page_count", used + pages, |_| Ok(()))?;
        Ok(())
    });
    limited.wait().unwrap();
}

#[test]
fn h5_wherever_the_disk_fills_up_long_work_can_be_done_again() {
    let lines = (0..1500).fold(String::new(), |lines, n| {
        lines + &format!("{{\"prompt\":\"prompt {n} with words\",\"created_at\":{n},\"session\":\"s{n}\"}}\n")
    });
    for room in [0, 2, 9, 30] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.db");
        let owner = rusqlite::Connection::open(&path).unwrap();
        owner
            .execute_batch(
                "CREATE TABLE history(id INTEGER PRIMARY KEY AUTOINCREMENT, prompt TEXT NOT NULL, created_at INTEGER NOT NULL, cwd TEXT);
                 CREATE VIRTUAL TABLE history_fts USING fts5(prompt, content='history', content_rowid='id');
                 CREATE TRIGGER history_ai AFTER INSERT ON history BEGIN INSERT INTO history_fts(rowid, prompt) VALUES (new.id, new.prompt); END;",
            )
            .unwrap();
        let store = options().open(&path).unwrap();
        let import = || store.import(Import::json_lines("x", lines.as_bytes()), |_| ());
        leave_room(&store, room);
        assert_eq!(import().unwrap_err().kind(), ErrorKind::DiskFull, "{room}");
        leave_room(&store, 1_000_000);
        import().unwrap();
        assert_eq!(store.stats().unwrap().prompts, 1500);
        assert_eq!(import().unwrap().known, 1500);
        // An index that has lost its words is as large again while it is built anew.
        owner.execute_batch("DELETE FROM history_fts_data WHERE id > 1000").unwrap();
        leave_room(&store, room);
        if let Err(error) = store.repair().wait() {
            assert_eq!(error.kind(), ErrorKind::DiskFull, "{room}");
        }
        leave_room(&store, 1_000_000);
        assert!(store.repair().wait().unwrap().is_well(), "{room}");
        let all = || Selection::all().matching("[0-4] with").unwrap();
        leave_room(&store, 0);
        let deleted = match store.delete(all()).wait() {
            Ok(deleted) => deleted.rows(),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::DiskFull);
                leave_room(&store, 1_000_000);
                store.delete(all()).wait().unwrap().rows()
            }
        };
        assert!(deleted > 0);
        assert_eq!(store.stats().unwrap().prompts, 750);
        assert!(store.check().unwrap().is_well(), "{room}");
        leave_room(&store, 0);
        let tables = store.detach().unwrap();
        assert_eq!(tables.tables().len(), 4);
    }
}

#[test]
fn k42_a_read_only_database_can_be_searched() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    filled(&path, 1);
    let store = OpenOptions::new().access(Access::ReadOnly).open(&path).unwrap();
    assert_eq!(store.search("hello", &SearchOptions::new(5)).unwrap().entries().len(), 1);
    assert_eq!(store.add("new", None).wait().unwrap_err().kind(), ErrorKind::ReadOnly);
    let applied = store.apply(Vec::new(), |_, _| Ok(()));
    assert_eq!(applied.wait().unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(
        OpenOptions::new().access(Access::ReadOnly).open(dir.path().join("none.db")).unwrap_err().kind(),
        ErrorKind::Io
    );
    assert!(!dir.path().join("none.db").exists());
}

/// The superuser may write everything, so the reading process is somebody else.
fn read_as_someone_else(path: &Path) -> String {
    let mut command = start("read-as-someone-else", path);
    if rustix::process::geteuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn k42_a_file_without_write_permission_can_be_searched_also_in_a_directory_without() {
    let dir = tempfile::Builder::new().tempdir_in("/tmp").unwrap();
    let path = dir.path().join("history.db");
    filled(&path, 1);
    let mode = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(&path, 0o444);
    mode(dir.path(), 0o555);
    let said = read_as_someone_else(&path);
    assert!(!said.contains("notice"), "{said}");
    mode(dir.path(), 0o755);
    std::fs::write(dir.path().join("history.db-wal"), "not read").unwrap();
    mode(&dir.path().join("history.db-wal"), 0o444);
    mode(dir.path(), 0o555);
    let said = read_as_someone_else(&path);
    assert!(said.contains("UnreadLog"), "rows in an unread log are said to be missing: {said}");
    mode(dir.path(), 0o755);
}

fn spoil(path: &Path, from: usize, bytes: &[u8]) {
    let mut content = std::fs::read(path).unwrap();
    content[from..from + bytes.len()].copy_from_slice(bytes);
    std::fs::write(path, content).unwrap();
}

fn supply(give: &mut dyn FnMut(Submission) -> history::Result<()>) -> history::Result<()> {
    for number in 0..300 {
        let prompt = format!("hello number {number} {}", "filler ".repeat(20));
        give(Submission::new(prompt).at(1_600_000_000 + number).key(EntryKey::new(number.to_string())))?;
    }
    Ok(())
}

#[test]
fn k43_noise_and_a_zeroed_header_are_moved_aside_and_rebuilt() {
    for zeroed in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.db");
        if zeroed {
            filled(&path, 300);
            spoil(&path, 0, &[0; 100]);
        } else {
            std::fs::write(
                &path,
                (0..4096_u32).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect::<Vec<_>>(),
            )
            .unwrap();
        }
        let before = std::fs::read(&path).unwrap();
        std::fs::write(dir.path().join("history.db-wal"), "old log").unwrap();
        assert_eq!(HistoryStorage::open(&path).unwrap_err().kind(), ErrorKind::Corrupt);
        let rebuilt = options().rebuild_if_corrupt(&path, supply).unwrap().unwrap();
        assert_eq!((rebuilt.salvaged(), rebuilt.supplied()), (0, 300));
        assert_eq!(rebuilt.aside().file_name().unwrap(), "history.db.corrupt-20231114T221320Z");
        assert_eq!(std::fs::read(rebuilt.aside()).unwrap(), before);
        assert!(!dir.path().join("history.db-wal").exists(), "an old log never meets the new file");
        assert!(dir.path().join("history.db.corrupt-20231114T221320Z-wal").exists());
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let store = HistoryStorage::open(&path).unwrap();
        assert_eq!(store.search("number 299", &SearchOptions::new(5)).unwrap().entries().len(), 1);
        assert!(store.check().unwrap().is_well());
        assert_eq!(options().rebuild_if_corrupt(&path, supply).unwrap(), None, "a healthy one is left alone");
    }
}

#[test]
fn h5_what_is_readable_in_a_corrupt_database_is_kept_and_claimed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    {
        let store = HistoryStorage::open(&path).unwrap();
        let filler = "filler ".repeat(20);
        let import = (0..300).fold(String::new(), |lines, n| {
            lines + &format!("{{\"prompt\":\"hello number {n} {filler}\",\"created_at\":{}}}\n", 1_600_000_000 + n)
        });
        store.import(history::Import::json_lines("x", import.as_bytes()), |_| ()).unwrap();
        store.add("only here", None).wait().unwrap();
        store.close().unwrap();
    }
    let root: i64 = rusqlite::Connection::open(&path)
        .unwrap()
        .query_row("SELECT max(pageno) FROM dbstat WHERE name = 'history' AND pagetype = 'leaf' AND pageno < (SELECT max(pageno) FROM dbstat WHERE name = 'history')", [], |row| row.get(0))
        .unwrap_or_else(|_| history_leaf(&path));
    spoil(&path, usize::try_from(root - 1).unwrap() * 4096, &[0xff; 4096]);
    let rebuilt = options().rebuild_if_corrupt(&path, supply).unwrap().unwrap();
    assert!(rebuilt.salvaged() > 50 && rebuilt.salvaged() < 301, "{rebuilt:?}");
    let store = HistoryStorage::open(&path).unwrap();
    assert_eq!(store.stats().unwrap().prompts, 301, "each once: {rebuilt:?}");
    assert_eq!(store.search("only here", &SearchOptions::new(5)).unwrap().entries().len(), 1);
    assert!(store.check().unwrap().is_well());
}

/// A leaf page in the middle of the `history` table: the first page of the file with one of its prompts and none of the
/// last one's.
fn history_leaf(path: &Path) -> i64 {
    let content = std::fs::read(path).unwrap();
    let holds = |page: &[u8], text: &[u8]| memchr::memmem::find(page, text).is_some();
    let found = content
        .chunks(4096)
        .position(|page| page[0] == 13 && holds(page, b"hello number 150 filler filler") && !holds(page, b"only here"));
    i64::try_from(found.unwrap()).unwrap() + 1
}

#[test]
fn h5_a_corrupt_database_that_somebody_has_open_is_not_moved() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    filled(&path, 3);
    let mut child = start("hold-open", &path).stdin(Stdio::piped()).spawn().unwrap();
    assert!(BufReader::new(child.stdout.as_mut().unwrap()).lines().map(Result::unwrap).any(|line| line == "ready"));
    spoil(&path, 0, &[0; 100]);
    let error = options().rebuild_if_corrupt(&path, supply).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InUse);
    assert!(error.to_string().contains(&child.id().to_string()), "{error}");
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    finish(child);
    assert!(options().rebuild_if_corrupt(&path, supply).unwrap().is_some());
}

#[test]
fn h5_a_broken_index_is_repaired_in_the_owners_form() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    let other = rusqlite::Connection::open(&path).unwrap();
    other
        .execute_batch(
            "CREATE TABLE history(id INTEGER PRIMARY KEY AUTOINCREMENT, prompt TEXT NOT NULL, created_at INTEGER NOT NULL, cwd TEXT);
             CREATE VIRTUAL TABLE history_fts USING fts5(prompt, content='history', content_rowid='id');
             CREATE TRIGGER history_ai AFTER INSERT ON history BEGIN INSERT INTO history_fts(rowid, prompt) VALUES (new.id, new.prompt); END;
             INSERT INTO history(prompt, created_at) VALUES ('kept', 1), ('changed', 2), ('gone', 3);
             UPDATE history SET prompt = 'otherwise' WHERE id = 2; DELETE FROM history WHERE id = 3;",
        )
        .unwrap();
    let store = HistoryStorage::open(&path).unwrap();
    assert!(store.check().unwrap().index.is_some());
    assert!(store.repair().wait().unwrap().is_well());
    assert_eq!(store.search("otherwise", &SearchOptions::new(5)).unwrap().entries().len(), 1);
    let sql: String =
        other.query_row("SELECT sql FROM sqlite_master WHERE name = 'history_fts'", [], |row| row.get(0)).unwrap();
    assert!(!sql.contains("prefix") && sql.contains("content='history'"), "{sql}");
    other.execute("INSERT INTO history(prompt, created_at) VALUES ('the owner goes on', 4)", []).unwrap();
    assert_eq!(store.search("owner", &SearchOptions::new(5)).unwrap().entries().len(), 1);
}

/// Fills 40 bytes of the first page of a table or index with noise.
fn spoil_first_page_of(path: &Path, name: &str, from: usize) {
    let conn = rusqlite::Connection::open(path).unwrap();
    let page: i64 =
        conn.query_row("SELECT rootpage FROM sqlite_schema WHERE name = ?", [name], |row| row.get(0)).unwrap();
    // Closing the last connection puts the log into the file.
    conn.close().unwrap();
    spoil(path, usize::try_from(page - 1).unwrap() * 4096 + from, &[0xfe; 40]);
}

#[test]
fn h5_what_a_check_finds_in_the_file_a_rebuild_mends_wherever_it_is() {
    let parts = [
        "history_fts_data",
        "history_fts_docsize",
        // An index that was replaced and was to be taken away.
        "watcher_old_fts_data",
        "watcher_old_fts_docsize",
        "idx_history_created_at",
        "watcher_submission",
        "watcher_submission_row",
    ];
    for part in parts {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.db");
        filled(&path, 30);
        let other = rusqlite::Connection::open(&path).unwrap();
        other
            .execute_batch(
                "CREATE VIRTUAL TABLE watcher_old_fts USING fts5(prompt);
                 INSERT INTO watcher_old_fts(prompt) SELECT prompt FROM history",
            )
            .unwrap();
        other.close().unwrap();
        // Behind its header: the page is still one, what is in it is not.
        spoil_first_page_of(&path, part, 8);
        let checked = options().access(Access::ReadOnly).open(&path).unwrap().check();
        let is_found = match checked {
            Ok(health) => !health.file.is_empty(),
            Err(error) => error.kind() == ErrorKind::Corrupt,
        };
        assert!(is_found, "{part}");
        let rebuilt = options().rebuild_if_corrupt(&path, |_| Ok(())).unwrap();
        assert_eq!(rebuilt.map(|rebuilt| rebuilt.salvaged()), Some(30), "{part}");
        let store = options().open(&path).unwrap();
        store.add("new", None).wait().unwrap();
        assert!(store.check().unwrap().is_well(), "{part}");
    }
}

#[test]
fn h5_a_schema_that_names_a_page_that_is_not_there_hides_no_rows() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    filled(&path, 30);
    let other = rusqlite::Connection::open(&path).unwrap();
    let misplaced = "UPDATE sqlite_schema SET rootpage = 99999 WHERE name = 'watcher_submission'";
    other.execute_batch(&format!("PRAGMA writable_schema = ON; {misplaced}")).unwrap();
    drop(other);
    let rebuilt = options().rebuild_if_corrupt(&path, |_| Ok(())).unwrap();
    assert_eq!(rebuilt.map(|rebuilt| rebuilt.salvaged()), Some(30));
}

#[test]
fn h5_a_table_of_the_caller_s_that_is_corrupt_is_no_mistake_of_the_caller_s() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    let store = options().open(&path).unwrap();
    let table = "CREATE TABLE watcher_notes(text); INSERT INTO watcher_notes VALUES ('x')";
    store.apply(Vec::new(), move |transaction, _| Ok(transaction.execute_batch(table)?)).wait().unwrap();
    store.close().unwrap();
    spoil_first_page_of(&path, "watcher_notes", 0);
    let store = options().open(&path).unwrap();
    let ask = |sql: &'static str| {
        store
            .apply(Vec::new(), move |transaction, _| Ok(transaction.query_row(sql, [], |row| row.get::<_, String>(0))?))
    };
    assert_eq!(ask("SELECT text FROM watcher_notes").wait().unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(ask("SELECT text FROM nowhere").wait().unwrap_err().kind(), ErrorKind::Rejected);
}

#[test]
fn a_file_that_lost_its_name_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let (path, link) = (dir.path().join("history.db"), dir.path().join("link.db"));
    std::os::unix::fs::symlink("history.db", &link).unwrap();
    filled(&path, 1);
    for named in [&path, &link] {
        let store = options().open(named).unwrap();
        assert!(store.is_in_place());
        std::fs::rename(&path, dir.path().join("away")).unwrap();
        assert!(!store.is_in_place(), "nothing is there");
        std::fs::copy(dir.path().join("away"), &path).unwrap();
        assert!(!store.is_in_place(), "another one is there");
        std::fs::rename(dir.path().join("away"), &path).unwrap();
        assert!(store.is_in_place());
    }
    let store = options().open(&link).unwrap();
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("other.db", &link).unwrap();
    assert!(!store.is_in_place(), "the link leads elsewhere");
}
