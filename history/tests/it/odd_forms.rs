//! Databases whose owner did something unusual: with its triggers, its table, its index, its values [H1], [H4].

use std::path::{Path, PathBuf};

use history::{
    EntryKey, ErrorKind, HistoryStorage, Import, OpenOptions, Recorded, Scope, SearchOptions, Selection, Submission,
    rusqlite,
};
use rusqlite::Connection;

const NOW: i64 = 1_700_000_000;

const TABLE: &str = "
CREATE TABLE history(id INTEGER PRIMARY KEY AUTOINCREMENT, prompt TEXT NOT NULL, created_at INTEGER NOT NULL, cwd TEXT);
CREATE INDEX idx_history_created_at ON history(created_at DESC);";

const COUNTED: &str = "
CREATE TABLE history(id INTEGER PRIMARY KEY AUTOINCREMENT, prompt TEXT NOT NULL UNIQUE, created_at INTEGER NOT NULL, cwd TEXT, session_id TEXT, use_count INTEGER NOT NULL DEFAULT 1);
CREATE INDEX idx_history_created_at ON history(created_at DESC);";

const INDEX: &str = "CREATE VIRTUAL TABLE history_fts USING fts5(prompt, content='history', content_rowid='id');";

const FEED: &str = "INSERT INTO history_fts(rowid, prompt) VALUES (new.id, new.prompt);";

fn made(sql: &[&str]) -> (tempfile::TempDir, PathBuf, Connection) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    let owner = Connection::open(&path).unwrap();
    owner.execute_batch("PRAGMA journal_mode = WAL").unwrap();
    owner.execute_batch(&sql.concat()).unwrap();
    (dir, path, owner)
}

fn open(path: &Path) -> HistoryStorage {
    OpenOptions::new().clock(|| NOW).patience(std::time::Duration::from_secs(2)).open(path).unwrap()
}

fn prompts(store: &HistoryStorage) -> Vec<String> {
    store.recent(1000, &Scope::everywhere()).unwrap().iter().map(|entry| entry.prompt().to_owned()).collect()
}

fn entry(prompt: &str, at: i64) -> Submission {
    Submission::new(prompt).cwd("/p").session("s").at(at).key(EntryKey::new(format!("{prompt} {at}")))
}

fn index_is_well(owner: &Connection) {
    owner.execute("INSERT INTO history_fts(history_fts, rank) VALUES ('integrity-check', 1)", []).unwrap();
}

#[test]
fn h1_a_trigger_feeds_the_index_once_however_it_is_spelled() {
    let delete = "INSERT INTO history_fts(history_fts, rowid, prompt) VALUES ('delete', old.id, old.prompt);";
    for triggers in [
        format!("CREATE TRIGGER history_begin AFTER INSERT ON history BEGIN {FEED} END;"),
        format!("CREATE TRIGGER t AFTER INSERT /* not DELETE */ ON history BEGIN {FEED} END;"),
        format!("CREATE TRIGGER [after delete on] AFTER INSERT ON history BEGIN {FEED} END;"),
        format!("CREATE TRIGGER t AFTER INSERT ON history WHEN new.prompt <> 'BEGIN' BEGIN {FEED} END;"),
        "CREATE TRIGGER t AFTER INSERT ON history BEGIN REPLACE INTO \"history_fts\"([rowid], prompt) VALUES (new.id, new.prompt); END;".to_owned(),
        // Named, and not fed.
        "CREATE TABLE log(a); CREATE TRIGGER t AFTER INSERT ON history BEGIN -- as history_fts does
           INSERT INTO log VALUES ('history_fts'); END;".to_owned(),
        format!("CREATE TABLE log(a); CREATE TRIGGER t AFTER INSERT ON history BEGIN INSERT INTO log VALUES (1); END;
           CREATE TRIGGER t2 AFTER DELETE ON history BEGIN {delete} END;"),
        // Text that only looks like the known trigger.
        format!("CREATE TABLE log(a); CREATE TRIGGER t AFTER INSERT ON history BEGIN {FEED} INSERT INTO log VALUES (1);
           -- AFTER INSERT ON history BEGIN {FEED}\n END;"),
        format!("CREATE TABLE log(a); CREATE TRIGGER t AFTER INSERT ON history BEGIN {FEED} INSERT INTO log VALUES (1);
           SELECT 'AFTER INSERT ON history BEGIN INSERT INTO history_fts(rowid, prompt) VALUES (new.id, new.prompt)'; END;"),
    ] {
        let (_dir, path, owner) = made(&[TABLE, INDEX, &triggers]);
        let store = open(&path);
        store.add("alone", None).wait().unwrap();
        let many: Vec<_> = (0..40).map(|n| entry(&format!("many {n}"), NOW - 900 + n)).collect();
        store.apply(many, |_, _| Ok(())).wait().unwrap();
        index_is_well(&owner);
        assert_eq!(store.search("many", &SearchOptions::new(100)).unwrap().entries().len(), 40, "{triggers}");
        store.delete(Selection::all().matching("alone|many 7").unwrap()).wait().unwrap();
        index_is_well(&owner);
        if let Ok(log) = owner.query_row("SELECT count(*) FROM log", [], |row| row.get::<_, i64>(0)) {
            assert_eq!(log, 41, "{triggers}");
        }
    }
}

#[test]
fn h4_a_table_that_only_looks_known_is_read_and_never_altered() {
    for table in [
        "CREATE TABLE history(id INTEGER PRIMARY KEY, prompt TEXT NOT NULL, created_at INTEGER, cwd TEXT) WITHOUT ROWID;",
        "CREATE TABLE history(id INTEGER PRIMARY KEY, prompt TEXT NOT NULL, created_at INTEGER, cwd TEXT, UNIQUE(prompt, cwd));",
        "CREATE TABLE history(id INTEGER PRIMARY KEY, prompt TEXT NOT NULL, created_at INTEGER UNIQUE, cwd TEXT);",
        "CREATE TABLE history(id INTEGER PRIMARY KEY, prompt TEXT, created_at INTEGER, cwd TEXT, session_id TEXT, use_count INTEGER);
         CREATE UNIQUE INDEX some ON history(prompt) WHERE cwd IS NULL;",
        "CREATE TABLE history(id INTEGER PRIMARY KEY, prompt TEXT NOT NULL, created_at INTEGER, cwd TEXT, CHECK (created_at < 10));",
    ] {
        let (_dir, path, owner) =
            made(&[table, "INSERT INTO history(id, prompt, created_at) VALUES (1, 'strange days', 5)"]);
        let before: i64 = owner.pragma_query_value(None, "schema_version", |row| row.get(0)).unwrap();
        let store = open(&path);
        assert_eq!(store.search("strange", &SearchOptions::new(5)).unwrap().entries().len(), 1);
        if table.contains("CHECK") {
            // Nothing but its owner knows what such a rule wants.
            assert_eq!(store.add("new", None).wait().unwrap_err().kind(), ErrorKind::Sqlite, "{table}");
            continue;
        }
        assert_eq!(store.add("new", None).wait().unwrap_err().kind(), ErrorKind::UnknownSchema, "{table}");
        let after: i64 = owner.pragma_query_value(None, "schema_version", |row| row.get(0)).unwrap();
        assert_eq!(after, before, "{table}");
    }
}

#[test]
fn h4_an_index_that_is_not_over_the_prompts_alone_is_neither_asked_nor_fed() {
    for index in [
        "CREATE VIRTUAL TABLE history_fts USING fts5(prompt, cwd, content='history', content_rowid='id');",
        "CREATE TABLE history_old(id INTEGER PRIMARY KEY, prompt TEXT);
         CREATE VIRTUAL TABLE history_fts USING fts5(prompt, content='history_old', content_rowid='id');",
        "CREATE VIRTUAL TABLE history_fts USING fts5(prompt, content='');",
        "CREATE VIRTUAL TABLE history_fts USING fts5(prompt);",
        "CREATE VIRTUAL TABLE history_fts USING fts5(prompt, content='history', content_rowid='id', tokenize=trigram);",
        "CREATE VIRTUAL TABLE history_fts USING fts5(prompt, content='history', content_rowid='id', tokenize=\"unicode61 categories 'L*'\");",
        "CREATE VIRTUAL TABLE history_fts USING fts5(prompt, content='history', content_rowid='created_at');",
        "CREATE TABLE history_fts(prompt TEXT);",
        "CREATE VIEW history_fts AS SELECT prompt FROM history;",
    ] {
        let (_dir, path, owner) = made(&[TABLE, index]);
        let store = open(&path);
        store.add("one two3", Some("/elsewhere")).wait().unwrap();
        store.add("gone", None).wait().unwrap();
        assert_eq!(store.search("two3", &SearchOptions::new(5)).unwrap().entries().len(), 1, "{index}");
        assert_eq!(store.search("else", &SearchOptions::new(5)).unwrap().entries().len(), 0, "{index}");
        store.delete(Selection::all().matching("gone").unwrap()).wait().unwrap();
        assert!(store.check().unwrap().is_well(), "{index}");
        let triggers: i64 =
            owner.query_row("SELECT count(*) FROM sqlite_master WHERE type = 'trigger'", [], |row| row.get(0)).unwrap();
        assert_eq!(triggers, 0, "{index}");
    }
}

#[test]
fn h4_names_are_the_same_in_capitals() {
    let (_dir, path, owner) = made(&[
        "CREATE TABLE History(ID INTEGER PRIMARY KEY AUTOINCREMENT, Prompt TEXT NOT NULL, Created_At INTEGER NOT NULL, CWD TEXT);
         CREATE VIRTUAL TABLE HISTORY_FTS USING FTS5(prompt, content='history', content_rowid='id');
         CREATE TRIGGER feed AFTER INSERT ON History BEGIN INSERT INTO History_Fts(rowid, prompt) VALUES (new.id, new.prompt); END;",
    ]);
    let store = open(&path);
    store.add("words", None).wait().unwrap();
    assert_eq!(store.search("words", &SearchOptions::new(5)).unwrap().entries().len(), 1);
    index_is_well(&owner);
    owner.execute("DELETE FROM history_fts_data WHERE id > 10", []).unwrap();
    assert!(store.repair().wait().unwrap().is_well());
}

#[test]
fn h2_values_of_any_kind_in_the_owners_rows_keep_no_prompt_out() {
    for table in [TABLE, COUNTED] {
        // The last is the one that a live prompt is compared with.
        for row in [
            "('a', 1700000000.5, NULL), (7, 9223372036854775807, 7.5), (x'ff00fe', 1700000000, NULL)",
            "('', -9223372036854775808, ''), (CAST(x'ff00fe' AS TEXT), 1700000000, CAST(x'ff' AS TEXT))",
            "('b', x'00', 7), ('a', 'yesterday', x'ff')",
        ] {
            let (_dir, path, owner) = made(&[table, "INSERT INTO history(prompt, created_at, cwd) VALUES ", row]);
            let store = open(&path);
            let mut known = Vec::new();
            store.add("live", None).wait().unwrap();
            store.submit(entry("read", NOW + 7)).wait().unwrap();
            store.submit(entry("a", NOW + 9)).wait().unwrap();
            store.submit(Submission::new("heard").at(NOW + 3).heard()).wait().unwrap();
            // It writes while ours are on record, so that we look at its rows.
            let sql = format!("INSERT INTO history(prompt, created_at, cwd) VALUES {row}");
            owner.execute(if table == TABLE { sql.as_str() } else { "SELECT 1 WHERE 0" }, []).ok();
            store.add("last", None).wait().unwrap();
            store.add("last", None).wait().unwrap();
            for _ in 0..2 {
                let lines = "{\"prompt\":\"imported\",\"created_at\":5}\n\"a\"\n";
                known.push(store.import(Import::json_lines("x", lines.as_bytes()), |_| ()).unwrap().added);
            }
            assert_eq!(known[1], 0);
            let found = prompts(&store);
            for prompt in ["live", "read", "a", "heard", "last", "imported"] {
                let count = found.iter().filter(|found| *found == prompt).count();
                assert!(count == 1 || (count > 1 && prompt == "a"), "{prompt} beside {row}: {found:?}");
            }
            store.delete(Selection::all()).wait().unwrap();
            assert_eq!(store.stats().unwrap().prompts, 0, "{row}");
            assert!(store.check().unwrap().is_well());
        }
    }
}

#[test]
fn h4_a_row_that_the_owners_own_rule_keeps_out_is_said_to_be_kept_out() {
    let rule = "CREATE TRIGGER no AFTER INSERT ON history WHEN new.prompt LIKE '%x%' BEGIN SELECT RAISE(IGNORE); END;";
    let before = rule.replace("AFTER", "BEFORE");
    for table in [TABLE, COUNTED] {
        let (_dir, path, owner) = made(&[table, &before]);
        let store = open(&path);
        store.add("first", None).wait().unwrap();
        let outcome = store.add("x", None).wait().unwrap();
        assert_eq!((outcome.recorded(), outcome.row()), (Recorded::Refused, None));
        let read = store.apply(vec![entry("x2", 5), entry("fine", 6)], |_, outcomes| Ok(outcomes[0].recorded()));
        assert_eq!(read.wait().unwrap(), Recorded::Refused);
        let sum = store.import(Import::lines("x", "x3\ngood".as_bytes()), |_| ()).unwrap();
        assert_eq!((sum.added, sum.refused), (1, 1));
        assert_eq!(prompts(&store), ["good", "first", "fine"]);
        index_is_well(&owner);
    }
}

#[test]
fn h2_an_imported_row_that_is_used_again_is_a_live_addition() {
    let (_dir, path, _owner) = made(&[COUNTED]);
    let store = open(&path);
    let import = |lines: &str| store.import(Import::json_lines("x", lines.as_bytes()), |_| ()).unwrap();
    let add = |prompt: &str| store.add(prompt, None).wait().unwrap().recorded();
    import("{\"prompt\":\"x\",\"created_at\":100}\n");
    assert_eq!(add("x"), Recorded::Bumped);
    assert_eq!(add("x"), Recorded::Folded, "typed twice");
    assert_eq!(add("y"), Recorded::Inserted);
    // From another machine, with a clock that is ahead: no addition here.
    import(&format!("{{\"prompt\":\"x\",\"created_at\":{},\"cwd\":\"/q\"}}\n", NOW + 500));
    assert_eq!(add("y"), Recorded::Folded);
    assert_eq!(add("x"), Recorded::Bumped);
}

/// What an owner does that builds its table anew in the same words, with other numbers for the rows.
const REBUILD: &str = "
BEGIN IMMEDIATE;
CREATE TEMP TABLE kept AS SELECT prompt, created_at, cwd FROM history WHERE prompt <> 'dropped' ORDER BY id DESC;
DELETE FROM history; DELETE FROM sqlite_sequence WHERE name = 'history';
DROP TRIGGER IF EXISTS history_ai; DROP TABLE IF EXISTS history_fts; DROP TABLE history;
CREATE TABLE history(id INTEGER PRIMARY KEY AUTOINCREMENT, prompt TEXT NOT NULL, created_at INTEGER NOT NULL, cwd TEXT);
CREATE INDEX idx_history_created_at ON history(created_at DESC);
INSERT INTO history(prompt, created_at, cwd) SELECT prompt, created_at, cwd FROM kept ORDER BY rowid;
DROP TABLE kept;
COMMIT;";

#[test]
fn h2a_a_table_built_anew_in_the_same_words_is_noticed() {
    let (_dir, path, owner) = made(&[TABLE]);
    let store = open(&path);
    for number in 0..6 {
        let prompt = if number == 3 { "dropped".to_owned() } else { format!("common {number}") };
        store.submit(entry(&prompt, NOW + number).cwd(format!("/p{number}"))).wait().unwrap();
    }
    owner.execute_batch(REBUILD).unwrap();
    let page = |limit: i64| -> Vec<String> {
        let page = store.search("common", &SearchOptions::new(limit)).unwrap();
        page.entries().iter().map(|entry| entry.prompt().to_owned()).collect()
    };
    assert_eq!(page(2), ["common 5", "common 4"], "also before we write");
    store.submit(entry("more", NOW + 9)).wait().unwrap();
    assert_eq!(page(2), ["common 5", "common 4"]);
    let wrong: i64 = owner
        .query_row(
            "SELECT count(*) FROM watcher_submission s JOIN history h ON h.id = s.row WHERE h.created_at <> s.at",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(wrong, 0, "each record points at its own row");
    assert_eq!(store.recent(5, &Scope::directory("/p3")).unwrap(), [], "or at none");
    assert_eq!(store.submit(entry("dropped", NOW + 3).cwd("/p3")).wait().unwrap().recorded(), Recorded::Known);
}

#[test]
fn h5_the_owner_builds_its_table_anew_in_the_middle_of_our_index_build() {
    let rows = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 30000)
         INSERT INTO history(prompt, created_at) SELECT 'word' || i || ' and others to index', i FROM c;";
    let (_dir, path, owner) = made(&[TABLE, rows]);
    owner.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
    let store = open(&path);
    let ours = store.add("ours", None);
    let begun = || -> bool {
        owner
            .query_row("SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'watcher_fts')", [], |row| row.get(0))
            .unwrap()
    };
    while !begun() && !ours.is_ready() {
        std::thread::yield_now();
    }
    assert!(!ours.is_ready(), "an index of so many rows takes more than one slice");
    owner.execute_batch(REBUILD).unwrap();
    ours.wait().unwrap();
    index_is_well(&owner);
    assert_eq!(store.search("word30000", &SearchOptions::new(5)).unwrap().entries().len(), 1);
}

#[test]
fn h2a_the_owner_builds_its_table_anew_in_the_middle_of_our_import() {
    let (_dir, path, owner) = made(&[TABLE]);
    owner.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
    let store = open(&path);
    let lines =
        (0..6000).fold(String::new(), |lines, n| lines + &format!("{{\"prompt\":\"p{n}\",\"created_at\":{n}}}\n"));
    let mut rebuilt = false;
    store
        .import(Import::json_lines("x", lines.as_bytes()), |_| {
            if !rebuilt {
                owner.execute_batch(REBUILD).unwrap();
                // What it writes now has a row number that we have looked at before.
                owner
                    .execute("INSERT INTO history(id, prompt, created_at) VALUES (1500000, 'p5000', 5000)", [])
                    .unwrap();
                owner.execute("UPDATE history SET id = 0 WHERE id = 1500000", []).unwrap();
            }
            rebuilt = true;
        })
        .unwrap();
    let twice: i64 = owner
        .query_row("SELECT count(*) FROM (SELECT 1 FROM history GROUP BY prompt HAVING count(*) > 1)", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!((twice, store.stats().unwrap().prompts), (0, 6000));
    assert!(store.check().unwrap().is_well());
}

#[test]
fn h5a_tables_of_callers_go_whatever_their_form() {
    let (_dir, path, owner) = made(&[TABLE]);
    let store = open(&path);
    store
        .apply(Vec::new(), |transaction, _| {
            Ok(transaction.execute_batch(
                "CREATE TABLE watcher_a(a PRIMARY KEY) without rowid; INSERT INTO watcher_a VALUES (1);
                 CREATE TABLE watcher_b(rowid TEXT); INSERT INTO watcher_b VALUES (NULL), ('x');
                 CREATE VIRTUAL TABLE watcher_c USING rtree(id, a, b);
                 CREATE VIRTUAL TABLE watcher_d USING fts5(a); INSERT INTO watcher_d VALUES ('words');
                 CREATE TABLE \"watcher_e \"\" x\"(a)",
            )?)
        })
        .wait()
        .unwrap();
    assert_eq!(store.detachable().unwrap().tables().len(), 9);
    assert_eq!(store.detach().unwrap().tables().len(), 9);
    let left: i64 = owner
        .query_row("SELECT count(*) FROM sqlite_master WHERE name GLOB 'watcher_*'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(left, 0);
}
