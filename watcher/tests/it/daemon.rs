//! A background process one can forget: signals, settings, status, the service file, taking everything away.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use history::rusqlite::Connection;
use serde_json::Value;

use crate::support::{Session, World, until};

#[test]
fn a_watcher_goes_within_a_second_of_being_told_also_in_the_middle_of_work() {
    let world = World::new();
    let mut session = Session::begin(&world, "--w--", "0000000000000c01", "/w");
    let lines: String = (0..50_000).map(|n| session.user_line(&format!("prompt {n}")) + "\n").collect();
    session.write(lines.as_bytes());
    for signal in ["TERM", "INT"] {
        let child = world.command(&["run"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let watcher = crate::support::Running(child);
        let before = if world.history().exists() { count(&world) } else { 0 };
        until("it works", || world.history().exists() && count(&world) > before);
        watcher.signal(signal);
        let (took, code) = watcher.end();
        assert_eq!(code, Some(0));
        assert!(took < Duration::from_millis(1500), "{took:?}");
    }
    world.json(&["sync"]);
    assert_eq!(world.prompts().len(), 50_000);
}

#[test]
fn a_sync_that_is_told_to_go_leaves_nothing_half_done_and_says_that_it_is_not_done() {
    let world = World::new();
    let mut session = Session::begin(&world, "--w--", "0000000000000c02", "/w");
    let lines: String = (0..50_000).map(|n| session.user_line(&format!("prompt {n}")) + "\n").collect();
    session.write(lines.as_bytes());
    let child = world.command(&["sync"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let sync = crate::support::Running(child);
    until("it works", || world.history().exists() && count(&world) > 0);
    sync.signal("TERM");
    assert_eq!(sync.end().1, Some(1));
    world.json(&["sync"]);
    assert_eq!(world.prompts().len(), 50_000);
}

#[test]
fn a_history_that_is_deleted_or_replaced_under_a_watcher_is_opened_anew() {
    let world = World::new();
    let mut session = Session::begin(&world, "--w--", "0000000000000c03", "/w");
    session.user("one");
    let watcher = world.run(&[]);
    let remove = || {
        for name in ["history.db", "history.db-wal", "history.db-shm"] {
            // Only the first is there for sure.
            let _ = fs::remove_file(world.agent().join(name));
        }
    };
    remove();
    session.user("two");
    until("all prompts are in a new one", || world.history().exists() && world.finds("two"));
    assert_eq!(world.prompts(), ["one", "two"]);

    // Somebody else's takes its place.
    remove();
    history::HistoryStorage::open(world.history()).unwrap().add("from elsewhere", None).wait().unwrap();
    session.user("three");
    until("all prompts are in that one", || world.finds("three"));
    assert_eq!(world.prompts(), ["from elsewhere", "one", "two", "three"]);
    watcher.signal("TERM");
    assert_eq!(watcher.end().1, Some(0));
}

#[test]
fn an_agent_directory_that_is_made_anew_under_a_watcher_is_its_own_again() {
    let world = World::new();
    Session::begin(&world, "--w--", "0000000000000c04", "/w").user("gone with it");
    let watcher = world.run(&["--reconcile-interval", "1"]);
    // The watcher may put its state there while it is taken away.
    until("it is gone", || fs::remove_dir_all(world.agent()).is_ok() || !world.agent().exists());
    Session::begin(&world, "--w--", "0000000000000c05", "/w").user("new");
    until("it follows the new one", || world.history().exists() && world.finds("new"));
    assert_eq!(world.prompts(), ["new"]);
    assert_eq!(world.output(&["sync"]).status.code(), Some(4), "its lock is in the new one");
    watcher.signal("TERM");
    assert_eq!(watcher.end().1, Some(0));
}

#[test]
fn a_history_that_cannot_be_opened_anew_yet_is_opened_later() {
    let world = World::new();
    Session::begin(&world, "--w--", "0000000000000c06", "/w").user("gone with it");
    let log = world.home().join("watcher.log");
    let watcher = world.run(&["--reconcile-interval", "1", "--log-file", log.to_str().unwrap()]);
    until("it is gone", || fs::remove_dir_all(world.agent()).is_ok() || !world.agent().exists());
    // Made anew, with something in the place of what the watcher needs.
    let making = world.home().join("making");
    fs::create_dir(&making).unwrap();
    fs::write(making.join(".watcher"), "").unwrap();
    until("it is there again", || {
        fs::rename(&making, world.agent()).is_ok() || {
            let _ = fs::remove_dir_all(world.agent());
            false
        }
    });
    let logged = || {
        let files = fs::read_dir(world.home()).unwrap().map(|file| file.unwrap().path());
        files.filter(|file| file.is_file()).map(|file| fs::read_to_string(file).unwrap()).collect::<String>()
    };
    until("it says what is wrong", || logged().contains("can't be opened anew yet"));
    fs::remove_file(world.agent().join(".watcher")).unwrap();
    Session::begin(&world, "--w--", "0000000000000c07", "/w").user("new");
    until("it follows the new one", || world.history().exists() && world.finds("new"));
    watcher.signal("TERM");
    assert_eq!(watcher.end().1, Some(0));
}

/// Rows, also while the table is being made.
fn count(world: &World) -> usize {
    let conn = Connection::open(world.history()).unwrap();
    let count: i64 = conn.query_row("SELECT count(*) FROM history", [], |row| row.get(0)).unwrap_or(0);
    usize::try_from(count).unwrap()
}

#[test]
fn status_is_quick_and_writes_nothing() {
    let world = World::new();
    fs::create_dir_all(world.agent()).unwrap();
    let start = Instant::now();
    let output = world.output(&["status"]);
    assert_eq!(output.status.code(), Some(3));
    println!("status took {} ms, its process included", start.elapsed().as_millis());
    assert_eq!(fs::read_dir(world.agent()).unwrap().count(), 0);

    let watcher = world.run(&[]);
    let status = world.json(&["status"]);
    assert_eq!(status[0]["condition"], "watching");
    let state = &status[0]["state"];
    assert_eq!((&state["pid"], &state["added"]), (&watcher.0.id().into(), &0.into()));
    let heartbeat = state["heartbeat"].as_i64().unwrap();
    assert!(heartbeat >= state["started"].as_i64().unwrap());
    let text = String::from_utf8(world.output(&["status"]).stdout).unwrap();
    assert!(text.contains("  pointers    discovery "), "{text}");
    let is_row = |line: &str| line.starts_with("  ") && line[..14].ends_with(' ') && !line[14..].starts_with(' ');
    assert!(text.lines().skip(1).all(is_row), "{text}");
    let running = text.lines().find(|line| line.starts_with("  running ")).unwrap();
    assert!(!running.ends_with('Z'), "a time as people read it: {running}");
    watcher.signal("KILL");
    watcher.end();
    let envelope: Value = serde_json::from_slice(&world.output(&["status", "--json"]).stdout).unwrap();
    assert_eq!(envelope["data"][0]["condition"], "stopped");
}

#[test]
fn settings_are_read_again_at_sighup_and_bad_ones_change_nothing() {
    let world = World::new();
    let config = world.home().join(".config");
    fs::create_dir(&config).unwrap();
    let file = config.join("watcher.toml");
    fs::write(&file, "[default]\nexclude = ['--b--/**']\nreconcile_interval = 3600\n").unwrap();
    let mut a = Session::begin(&world, "--a--", "0000000000000d01", "/a");
    let mut b = Session::begin(&world, "--b--", "0000000000000d02", "/b");
    let watcher = world.run(&[]);
    b.user("excluded");
    a.user("one");
    until("one", || world.prompts() == ["one"]);

    fs::write(&file, "[default]\nexclud = []\n").unwrap();
    watcher.signal("HUP");
    a.user("two");
    until("two", || world.prompts() == ["one", "two"]);

    fs::write(&file, "[agent.'~/.xcsh/agent']\nexclude = []\nnever_record = ['/a']\n").unwrap();
    watcher.signal("HUP");
    until("the excluded one", || world.prompts() == ["one", "two", "excluded"]);
    a.user("not recorded");
    b.user("recorded");
    until("the new rules", || world.prompts().len() == 4);
    assert_eq!(world.prompts()[3], "recorded");

    let bad = world.output(&["run", "--config", "nowhere.toml"]);
    assert_eq!(bad.status.code(), Some(2));
    fs::write(&file, "[default]\n  polling = 'never'\n").unwrap();
    let bad = world.output(&["sync"]);
    assert_eq!(bad.status.code(), Some(2));
    let said = String::from_utf8(bad.stderr).unwrap();
    assert!(said.contains("watcher.toml:2:13: "), "{said}");
}

#[test]
fn settings_under_which_the_history_cannot_be_opened_just_now_end_no_watcher() {
    let world = World::new();
    let config = world.home().join(".config");
    fs::create_dir(&config).unwrap();
    let mut session = Session::begin(&world, "--w--", "0000000000000d03", "/w");
    session.user("one");
    let watcher = world.run(&["--reconcile-interval", "3600"]);
    let away = world.home().join("away.db");
    fs::rename(world.history(), &away).unwrap();
    fs::create_dir(world.history()).unwrap();
    fs::write(config.join("watcher.toml"), "[default]\nnever_record = ['/x']\n").unwrap();
    watcher.signal("HUP");
    until("it says so", || {
        let status = world.json(&["status"]);
        let problem = status[0]["state"]["lastProblem"]["message"].as_str().unwrap_or_default();
        problem.starts_with("the settings stay as they were: ")
    });
    fs::remove_dir(world.history()).unwrap();
    fs::rename(&away, world.history()).unwrap();
    session.user("two");
    until("it follows on", || world.prompts() == ["one", "two"]);
    watcher.signal("TERM");
    assert_eq!(watcher.end().1, Some(0));
}

#[test]
fn whatever_stands_in_a_state_file_status_answers() {
    let world = World::new();
    let place = world.agent().join(".watcher");
    fs::create_dir_all(&place).unwrap();
    let extreme = format!(
        r#"{{"heartbeat":{0},"progress":{1},"workingSince":{1},"started":{0},"lastProblem":{{"at":{1},"message":"\u001b[2J"}}}}"#,
        i64::MAX,
        i64::MIN
    );
    for text in ["", "garbage", "{}", "[]", r#"{"heartbeat":"x"}"#, &extreme] {
        fs::write(place.join("state.json"), text).unwrap();
        for words in [&["status"][..], &["status", "--json"]] {
            let output = world.output(words);
            assert_eq!(output.status.code(), Some(3), "{text}: {}", String::from_utf8_lossy(&output.stderr));
            assert!(!output.stdout.contains(&0x1b), "{text}");
        }
    }
}

#[test]
fn the_state_that_an_earlier_watcher_left_is_not_taken_for_that_of_a_sync() {
    let world = World::new();
    let watcher = world.run(&[]);
    watcher.signal("TERM");
    watcher.end();
    // Whatever else holds the lock now, and tells nothing.
    let lock = world.agent().join(".watcher/lock");
    let held = fs::File::options().write(true).open(&lock).unwrap();
    held.lock().unwrap();
    fs::write(&lock, "process 1 since 2026-01-05T09:30:00.000Z\n").unwrap();
    let status = world.json(&["status"]);
    assert_eq!((&status[0]["condition"], &status[0]["state"]), (&"syncing".into(), &Value::Null));
    assert_eq!(status[0]["holder"], "process 1 since 2026-01-05T09:30:00.000Z");
}

#[test]
fn polling_finds_what_events_would() {
    let world = World::new();
    let mut session = Session::begin(&world, "--w--", "0000000000000e01", "/w");
    let watcher = world.run(&["--polling", "always"]);
    session.user("polled");
    until("the prompt is found", || world.finds("polled"));
    let status = world.json(&["status"]);
    assert_eq!(status[0]["state"]["pollingReason"], "the settings say so");
    drop(watcher);
}

#[test]
fn several_agent_directories_are_followed_apart() {
    let world = World::new();
    let other = World::new();
    let mut here = Session::begin(&world, "--w--", "0000000000000f01", "/w");
    let mut there = Session::begin(&other, "--w--", "0000000000000f02", "/w");
    let (a, b) = (world.agent().display().to_string(), other.agent().display().to_string());
    let watcher = world.run(&["--agent-dir", &a, "--agent-dir", &b, "--agent-dir", &format!("{a}/.")]);
    here.user("here");
    there.user("there");
    until("both", || world.finds("here") && other.finds("there"));
    assert_eq!((world.prompts().len(), other.prompts().len()), (1, 1));
    watcher.signal("TERM");
    assert_eq!(watcher.end().1, Some(0));
}

#[test]
fn logs_go_to_a_private_file_and_the_service_manager_hears_of_it() {
    let world = World::new();
    let socket = world.home().join("notify");
    let listener = std::os::unix::net::UnixDatagram::bind(&socket).unwrap();
    listener.set_read_timeout(Some(crate::support::DEADLINE)).unwrap();
    let mut command = world.command(&["run", "--log-file", "watcher.log"]);
    let child = command.env("NOTIFY_SOCKET", &socket).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let watcher = crate::support::Running(child);
    let mut buffer = [0; 256];
    let mut hear = || {
        let read = listener.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..read].to_vec()).unwrap()
    };
    assert!(hear().starts_with("READY=1"));
    watcher.signal("TERM");
    assert!(hear().starts_with("STOPPING=1"));
    watcher.end();
    let logs: Vec<_> = fs::read_dir(world.home())
        .unwrap()
        .map(|item| item.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("watcher.log."))
        .collect();
    assert_eq!(logs.len(), 1);
    assert!(fs::read_to_string(&logs[0]).unwrap().contains("synced"));
    assert_eq!(fs::metadata(&logs[0]).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn detaching_leaves_what_is_the_harness_s() {
    // [H5a]
    let world = World::new();
    fs::create_dir_all(world.agent()).unwrap();
    let conn = Connection::open(world.history()).unwrap();
    conn.execute_batch(
        "CREATE TABLE history(id INTEGER PRIMARY KEY AUTOINCREMENT, prompt TEXT NOT NULL,
           created_at INTEGER NOT NULL DEFAULT (unixepoch()), cwd TEXT);
         INSERT INTO history(prompt) VALUES ('from before')",
    )
    .unwrap();
    drop(conn);
    let mut session = Session::begin(&world, "--w--", "0000000000000101", "/w");
    session.user("new");
    world.json(&["sync"]);
    let watcher = world.run(&[]);
    assert_eq!(world.output(&["detach", "--yes"]).status.code(), Some(4));
    drop(watcher);
    let service = world.json(&["service", "install"])["file"].as_str().unwrap().to_owned();
    let locks = world.agent().join(".session-locks");
    fs::create_dir(&locks).unwrap();
    assert_eq!(world.output(&["detach"]).status.code(), Some(5), "nobody was there to be asked");
    let dry = world.json(&["detach", "--dry-run"]);
    assert!(world.agent().join(".watcher").exists(), "nothing was done");
    let said = String::from_utf8(world.output(&["detach"]).stdout).unwrap();
    let mut detached = world.json(&["detach", "--yes"]);
    assert_eq!((&dry[0]["detached"], &detached[0]["detached"]), (&false.into(), &true.into()));
    for list in ["tables", "files", "kept"] {
        for item in detached[0][list].as_array().unwrap() {
            let item = item.as_str().unwrap().rsplit('/').next().unwrap();
            assert!(said.contains(item), "nobody heard of {item} before being asked: {said}");
        }
    }
    detached[0]["detached"] = false.into();
    assert_eq!(dry, detached, "a dry run tells what goes and what stays");
    assert_eq!(world.json(&["detach", "--yes"])[0]["detached"], false, "there is nothing of ours any more");
    let left: Vec<_> = detached[0]["left"].as_array().unwrap().iter().map(|left| &left["path"]).collect();
    assert_eq!(left, [&Value::from(locks.to_str().unwrap()), &Value::from(service)]);
    let text = String::from_utf8(world.output(&["detach", "--yes"]).stdout).unwrap();
    assert!(text.contains("`watcher service uninstall` removes it"), "{text}");
    assert!(detached[0]["tables"].as_array().unwrap().iter().any(|table| table == "watcher_file"));
    assert_eq!(detached[0]["kept"].as_array().unwrap().len(), 1, "the copy from the first contact");
    let conn = Connection::open(world.history()).unwrap();
    let ours: i64 =
        conn.query_row("SELECT count(*) FROM sqlite_master WHERE name LIKE 'watcher%'", [], |row| row.get(0)).unwrap();
    assert_eq!(ours, 0);
    assert_eq!(world.prompts(), ["from before", "new"]);
    assert!(!world.agent().join(".watcher").exists());
    assert!(locks.exists());
}

#[test]
fn the_service_file_is_written_judged_and_removed() {
    let world = World::new();
    assert_eq!(world.output(&["service", "status"]).status.code(), Some(3));
    let printed = world.json(&["service", "install", "--print"]);
    assert!(!Path::new(printed["file"].as_str().unwrap()).exists(), "it was only to be printed");
    let installed = world.json(&["service", "install"]);
    let file = installed["file"].as_str().unwrap().to_owned();
    assert!(file.ends_with(".config/systemd/user/watcher.service") || cfg!(target_os = "macos"));
    assert_eq!(fs::read_to_string(&file).unwrap(), printed["text"].as_str().unwrap());
    assert_eq!(world.json(&["service", "status"])["state"], "installed");
    if cfg!(target_os = "linux") {
        verify(&file);
    }
    let wants = Path::new(&file).with_file_name("default.target.wants");
    fs::create_dir(&wants).unwrap();
    // What enabling it leaves.
    std::os::unix::fs::symlink(&file, wants.join("watcher.service")).unwrap();
    world.json(&["service", "uninstall"]);
    assert!(!Path::new(&file).exists());
    assert_eq!(fs::read_dir(&wants).unwrap().count(), usize::from(cfg!(target_os = "macos")));
    fs::write(&file, "[Service]\nExecStart=/bin/true\n").unwrap();
    assert_eq!(world.output(&["service", "install"]).status.code(), Some(1), "somebody else's file stays");
    assert_eq!(world.output(&["service", "uninstall"]).status.code(), Some(1));
    let foreign = world.output(&["service", "status"]);
    assert_eq!(foreign.status.code(), Some(3));
    assert!(String::from_utf8(foreign.stdout).unwrap().contains("somebody else wrote this"));

    let odd: std::ffi::OsString = std::os::unix::ffi::OsStringExt::from_vec(b"agent-\xff".to_vec());
    let mut command = world.command(&["service", "install", "--print", "--agent-dir"]);
    let refused = command.arg(world.home().join(odd)).output().unwrap();
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("is no UTF-8"));
}

/// systemd's own judgement, where systemd is.
fn verify(file: &str) {
    let runtime = tempfile::tempdir().unwrap();
    let mut command = Command::new("systemd-analyze");
    let verified = command.args(["verify", "--user", "--man=no", file]).env("XDG_RUNTIME_DIR", runtime.path()).output();
    match verified {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("systemd-analyze is not installed here: the unit was not judged");
        }
        verified => {
            let verified = verified.unwrap();
            let said = String::from_utf8_lossy(&verified.stderr).into_owned();
            let ours: Vec<&str> = said.lines().filter(|line| line.contains("watcher.service")).collect();
            assert!(verified.status.success() && ours.is_empty(), "{said}");
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn in_a_user_namespace_the_status_says_that_terminals_cannot_be_found() {
    let world = World::new();
    let probe = Command::new("unshare").args(["-Ur", "true"]).output();
    if !probe.is_ok_and(|probe| probe.status.success()) {
        println!("no user namespaces can be made here: not tried");
        return;
    }
    // A process outside of the namespace, whose files can't be seen from inside.
    let child = Command::new("unshare")
        .args(["-Ur", env!("CARGO_BIN_EXE_watcher"), "run"])
        .env_clear()
        .env("HOME", world.home())
        .env("PATH", "/usr/bin:/bin")
        .current_dir(world.home())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let watcher = crate::support::Running(child);
    let mut text = String::new();
    until("the status says it", || {
        text = String::from_utf8(world.output(&["status"]).stdout).unwrap();
        text.contains("  pointers    discovery ")
    });
    assert!(text.contains("  pointers    discovery unavailable (") && text.contains("user namespace"), "{text}");
    drop(watcher);
}

#[test]
fn an_idle_watcher_sleeps() {
    // K52, scaled: the time between two heartbeats with 500 directories. A count, no time; `make bench` takes its minute.
    if !cfg!(target_os = "linux") {
        return;
    }
    let world = World::new();
    for n in 0..500 {
        Session::begin(&world, &format!("--w{n}--"), &format!("{n:016x}"), "/w");
    }
    let watcher = world.run(&[]);
    let pid = watcher.0.id();
    let wakeups = || -> u64 {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let of = |task: fs::DirEntry| {
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            line.map_or(0, |count| count.trim().parse::<u64>().unwrap())
        };
        tasks.map(|task| of(task.unwrap())).sum()
    };
    let heartbeat = || world.json(&["status"])[0]["state"]["heartbeat"].as_i64().unwrap();
    // The next beat is the beginning; the one after it is the end.
    let mut last = heartbeat();
    let mut beats = Vec::new();
    until("two heartbeats", || {
        std::thread::sleep(Duration::from_millis(200));
        let now = heartbeat();
        if now != last {
            last = now;
            beats.push(wakeups());
        }
        beats.len() == 2
    });
    let woken = beats[1] - beats[0];
    println!("{woken} wake-ups in 10 s");
    assert!(woken <= 5, "{woken} wake-ups between two heartbeats");
}
