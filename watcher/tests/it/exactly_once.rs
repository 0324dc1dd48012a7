//! Each prompt once, whatever dies when and whoever else writes into the same history.

use std::collections::BTreeSet;
use std::fs;

use history::rusqlite::{Connection, params};

use crate::support::{Session, World, until, user_line};

/// The harness's database, as its older and its newer generation make it `[H4]`.
const GENERATIONS: [&str; 2] = [
    "CREATE TABLE history(id INTEGER PRIMARY KEY AUTOINCREMENT, prompt TEXT NOT NULL,
       created_at INTEGER NOT NULL DEFAULT (unixepoch()), cwd TEXT);
     CREATE INDEX idx_history_created_at ON history(created_at DESC);
     CREATE VIRTUAL TABLE history_fts USING fts5(prompt, content='history', content_rowid='id');
     CREATE TRIGGER history_ai AFTER INSERT ON history BEGIN
       INSERT INTO history_fts(rowid, prompt) VALUES (new.id, new.prompt); END;",
    "CREATE TABLE history(id INTEGER PRIMARY KEY AUTOINCREMENT, prompt TEXT NOT NULL UNIQUE,
       created_at INTEGER NOT NULL DEFAULT (unixepoch()), cwd TEXT, session_id TEXT,
       use_count INTEGER NOT NULL DEFAULT 1);
     CREATE INDEX idx_history_created_at ON history(created_at DESC);
     CREATE VIRTUAL TABLE history_fts USING fts5(prompt, content='history', content_rowid='id');
     CREATE TRIGGER history_ai AFTER INSERT ON history BEGIN
       INSERT INTO history_fts(rowid, prompt) VALUES (new.id, new.prompt); END;",
];

/// Seconds since 1970, now: a harness and a watcher write a prompt at about the time at which it is typed.
fn now() -> i64 {
    session_core::Timestamp::from_system(std::time::SystemTime::now()).seconds()
}

fn harness_adds(conn: &Connection, generation: usize, prompt: &str, at: i64) {
    let sql = [
        "INSERT INTO history(prompt, created_at, cwd) VALUES (?1, ?2, ?3)",
        "INSERT INTO history(prompt, created_at, cwd, session_id) VALUES (?1, ?2, ?3, 's')
         ON CONFLICT(prompt) DO UPDATE SET created_at = ?2, cwd = ?3, use_count = use_count + 1",
    ];
    conn.execute(sql[generation], params![prompt, at, "/w"]).unwrap();
}

/// How often each prompt was submitted, by what the owner's table says.
fn uses(world: &World, generation: usize) -> Vec<(String, i64)> {
    let conn = Connection::open(world.history()).unwrap();
    let sql = [
        "SELECT prompt, count(*) FROM history GROUP BY prompt ORDER BY prompt",
        "SELECT prompt, use_count FROM history ORDER BY prompt",
    ];
    let mut statement = conn.prepare(sql[generation]).unwrap();
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
}

#[test]
fn a_prompt_that_the_harness_writes_too_counts_once_in_either_order_and_generation() {
    // K58, [H4]
    for (generation, schema) in GENERATIONS.iter().enumerate() {
        for harness_first in [true, false] {
            let world = World::new();
            fs::create_dir_all(world.agent()).unwrap();
            let conn = Connection::open(world.history()).unwrap();
            conn.execute_batch(schema).unwrap();
            let mut session = Session::begin(&world, "--w--", "00000000000000c1", "/w");
            let prompts = ["continue", "x", "continue"];
            let start = now() - 10;
            let harness = |conn: &Connection| {
                for (at, prompt) in (start..).zip(prompts) {
                    harness_adds(conn, generation, prompt, at);
                }
            };
            if harness_first {
                harness(&conn);
            }
            for (n, prompt) in (1_u32..).zip(prompts) {
                let millis = (start + i64::from(n)) * 1000 - 500;
                session.write((user_line(n, millis, prompt) + "\n").as_bytes());
            }
            world.json(&["sync"]);
            if !harness_first {
                harness(&conn);
            }
            // What the harness wrote after us is noticed with the next thing that we write.
            session.write((user_line(9, now() * 1000, "and then") + "\n").as_bytes());
            world.json(&["sync"]);
            let expected = [("and then", 1), ("continue", 2), ("x", 1)].map(|(prompt, uses)| (prompt.to_owned(), uses));
            assert_eq!(uses(&world, generation), expected, "generation {generation}, harness first: {harness_first}");
        }
    }
}

#[test]
fn killed_at_random_during_five_thousand_prompts_each_arrives_once() {
    // K53
    let world = World::new();
    let mut sessions: Vec<Session> =
        (0..10).map(|n| Session::begin(&world, &format!("--w{n}--"), &format!("00000000000000d{n}"), "/w")).collect();
    let mut written = 0_u32;
    let mut round = 0_u64;
    while written < 5_000 {
        let watcher = world.run(&[]);
        let before = world.prompts().len();
        // A different number of prompts and a different moment each time.
        for _ in 0..250 + (round * 97) % 300 {
            if written == 5_000 {
                break;
            }
            sessions[(written % 10) as usize].user(&format!("prompt {written}"));
            written += 1;
        }
        let moment = usize::try_from(round * 53 % 200).unwrap();
        until("some have arrived", || world.prompts().len() >= (before + moment).min(written as usize));
        watcher.signal("KILL");
        watcher.end();
        round += 1;
        assert!(world.prompts().len() <= written as usize);
    }
    let watcher = world.run(&[]);
    until("all have arrived", || world.prompts().len() >= 5_000);
    watcher.signal("TERM");
    watcher.end();
    let prompts = world.prompts();
    assert_eq!(prompts.len(), 5_000);
    assert_eq!(prompts.iter().collect::<BTreeSet<_>>().len(), 5_000);
    assert!(round >= 9, "{round} rounds");
}

#[test]
fn a_prompt_that_was_deleted_stays_away() {
    // K60
    let world = World::new();
    let mut session = Session::begin(&world, "--w--", "00000000000000e1", "/w");
    session.user("a secret");
    session.user("not secret");
    world.json(&["sync"]);
    let store = history::HistoryStorage::open(world.history()).unwrap();
    let recent = store.recent(10, &history::Scope::everywhere()).unwrap();
    let secret = recent.iter().find(|entry| entry.prompt() == "a secret").unwrap().id();
    let selection = history::Selection::rows([secret]);
    store.delete(selection).wait().unwrap();
    store.close().unwrap();
    // Read again from the beginning, as after a rewrite and as a fork.
    let text = fs::read_to_string(session.path()).unwrap();
    fs::write(session.path(), text.clone() + &user_line(9, 1_767_605_409_000, "later") + "\n").unwrap();
    let mut fork = Session::begin(&world, "--v--", "00000000000000e2", "/v");
    fork.write(text.split_once('\n').unwrap().1.as_bytes());
    world.json(&["sync"]);
    assert_eq!(world.prompts(), ["not secret", "later"]);
}

#[test]
fn the_harness_can_write_while_a_large_sync_runs() {
    // [H5] The write lock is never held for long: a harness with a timeout of a second gets its turn.
    let world = World::new();
    let mut session = Session::begin(&world, "--w--", "00000000000000f1", "/w");
    let lines: String = (0..3_000).map(|n| session.user_line(&format!("prompt {n}")) + "\n").collect();
    session.write(lines.as_bytes());
    let mut sync = world.command(&["sync"]).stdout(std::process::Stdio::null()).spawn().unwrap();
    until("the history is there", || {
        Connection::open(world.history()).is_ok_and(|conn| conn.prepare("SELECT prompt, cwd FROM history").is_ok())
    });
    let conn = Connection::open(world.history()).unwrap();
    conn.busy_timeout(std::time::Duration::from_secs(1)).unwrap();
    let mut added = 0;
    while added < 20 && sync.try_wait().unwrap().is_none() {
        harness_adds(&conn, 0, &format!("typed {added}"), now());
        added += 1;
    }
    assert!(sync.wait().unwrap().success());
    assert_eq!(world.prompts().len(), 3_000 + added);
}
