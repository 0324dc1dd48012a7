//! Collecting blobs that nothing names [W11].

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use session_core::storage::{FileSessionStorage, MemorySessionStorage, SessionStorage};
use session_core::{BlobHash, BlobStore, Clock, CollectionScope, ErrorKind, ManualClock, Timestamp};

use crate::dying::DyingStorage;

const MINUTE: i64 = 60 * 1000;
const DAY: i64 = 24 * 60 * MINUTE;

/// An agent directory in memory; what is written gets the time of the clock.
struct Agent {
    disk: Arc<MemorySessionStorage>,
    clock: Arc<ManualClock>,
    store: BlobStore,
}

impl Agent {
    fn new() -> Self {
        let disk = Arc::new(MemorySessionStorage::new());
        let clock = Arc::new(ManualClock::at(Timestamp::parse("2026-01-05T09:30:00.000Z").unwrap()));
        let store = BlobStore::new(disk.clone(), "/agent/blobs", clock.clone());
        for dir in ["/agent/sessions", "/agent/blobs", "/agent/terminal-sessions", "/agent/locks"] {
            disk.ensure_dir(Path::new(dir)).unwrap();
        }
        Self { disk, clock, store }
    }

    fn scope() -> CollectionScope {
        CollectionScope::new()
            .with_directory("/agent/sessions")
            .with_pointers("/agent/terminal-sessions")
            .with_locks("/agent/locks")
    }

    fn write(&self, path: &str, text: &str) {
        let path = Path::new(path);
        self.disk.ensure_dir(path.parent().unwrap()).unwrap();
        self.disk.write_text(path, text).unwrap();
        let time = std::time::UNIX_EPOCH + Duration::from_millis(self.clock.now().millis().unsigned_abs());
        self.disk.set_modified(path, time).unwrap();
    }

    fn put(&self, content: &str) -> BlobHash {
        self.store.put(content.as_bytes()).unwrap()
    }

    fn unreferenced(&self) -> Vec<PathBuf> {
        self.store.plan_collection(&Self::scope()).unwrap().unreferenced().map(|file| file.path.clone()).collect()
    }

    fn names(&self) -> Vec<PathBuf> {
        self.disk.read_dir(Path::new("/agent/blobs")).unwrap().unwrap().into_iter().map(|item| item.path).collect()
    }
}

#[test]
fn every_place_that_may_name_a_blob_counts() {
    // [W11]
    let agent = Agent::new();
    let name = |content: &str| format!("… \"blob:sha256:{}\" torn", agent.put(content));
    let upper = agent.put("upper case");
    agent.write("/agent/sessions/--w--/a.jsonl", &name("session"));
    agent.write("/agent/sessions/--w--/b.jsonl", &format!("blob:sha256:{}", upper.to_string().to_uppercase()));
    agent.write("/agent/sessions/--w--/a/0-Task.jsonl", &name("sub-agent"));
    agent.write("/agent/sessions/--w--/a/0.bash.log", &name("artifact"));
    agent.write("/agent/sessions/--w--/a.jsonl.invalid-2026-01-05T09-30-00-000Z", &name("side file"));
    agent.write("/agent/sessions/.trash/deep/c.jsonl", &name("trash"));
    agent.write("/agent/terminal-sessions/pts-3", "/w\n/elsewhere/d.jsonl\nfresh\n");
    agent.write("/agent/terminal-sessions/pts-4", "/w\n/elsewhere/gone.jsonl\n");
    let parent = r#"{"type":"session","parentSession":"/else\u0077here/e.jsonl"} "#;
    agent.write("/elsewhere/d.jsonl", &(parent.to_owned() + &name("pointed to")));
    agent.write("/elsewhere/d/0.x.log", &name("artifact of what is pointed to"));
    agent.write("/elsewhere/e.jsonl", &(r#"{"parentSession": "f.jsonl"}"#.to_owned() + &name("parent")));
    agent.write(
        "/elsewhere/f.jsonl",
        &(r#"{"parentSession":"aaaaaaaaaaaaaaaa"} {"parentSession":"/"}"#.to_owned() + &name("parent's parent")),
    );
    let garbage = agent.put("garbage");
    agent.clock.advance_millis(8 * DAY);
    let plan = agent.store.plan_collection(&Agent::scope()).unwrap();
    let unreferenced: Vec<_> = plan.unreferenced().map(|file| file.path.clone()).collect();
    assert_eq!(unreferenced, [agent.store.path(&garbage)]);
    assert_eq!(plan.missing(), [Path::new("/elsewhere/gone.jsonl"), Path::new("/")]);
    assert_eq!((plan.kept(), plan.files_read()), (10, 10));
    assert_eq!(agent.names().len(), 11, "a plan removes nothing");
    let done = agent.store.collect(&plan).unwrap();
    assert_eq!(done.removed.len(), 1);
    assert_eq!(agent.names().len(), 10);
    assert_eq!(agent.store.get(&garbage).unwrap(), None);
}

#[test]
fn young_blobs_and_what_is_not_ours_stay() {
    // [W11]
    let agent = Agent::new();
    let old = agent.put("old");
    agent.write("/agent/blobs/README", "not ours");
    agent.write(&format!("/agent/blobs/{}", old.to_string().to_uppercase()), "not ours either");
    agent.write("/agent/blobs/.x.0123456789abcdef.tmp", "left by a crash");
    agent.clock.advance_millis(7 * DAY - 1);
    let young = agent.put("young");
    assert_eq!(agent.unreferenced(), [] as [PathBuf; 0]);
    agent.clock.advance_millis(1);
    let temporary = PathBuf::from("/agent/blobs/.x.0123456789abcdef.tmp");
    assert_eq!(agent.unreferenced(), [temporary, agent.store.path(&old)]);
    agent.put("old");
    assert_eq!(agent.unreferenced().len(), 1, "put again, so it is young again");
    assert!(agent.store.get(&young).unwrap().is_some());
}

#[test]
fn nothing_is_collected_while_a_session_is_written() {
    // [W11]
    let agent = Agent::new();
    agent.put("garbage");
    agent.clock.advance_millis(8 * DAY);
    agent.write("/agent/sessions/a.jsonl", "{}");
    let kind = || agent.store.plan_collection(&Agent::scope()).unwrap_err().kind();
    assert_eq!(kind(), ErrorKind::Busy);
    agent.clock.advance_millis(10 * MINUTE);
    assert_eq!(agent.unreferenced().len(), 1);
    agent.write("/agent/sessions/.a.jsonl.0123456789abcdef.tmp", "{}");
    assert_eq!(kind(), ErrorKind::Busy);
    agent.clock.advance_millis(10 * MINUTE);
    let lock = agent.disk.lock(Path::new("/agent/locks/a.lock"), "process 7", Duration::ZERO).unwrap();
    assert_eq!(kind(), ErrorKind::Locked);
    drop(lock);
    let plan = agent.store.plan_collection(&Agent::scope()).unwrap();
    agent.write("/agent/sessions/a.jsonl", "{} ");
    assert_eq!(agent.store.collect(&plan).unwrap_err().kind(), ErrorKind::Busy);
    assert_eq!(agent.names().len(), 1);
}

#[test]
fn a_plan_that_has_grown_old_spares_what_is_named_now() {
    // [W11]
    let agent = Agent::new();
    let (named, again, gone, garbage) = (agent.put("1"), agent.put("2"), agent.put("3"), agent.put("4"));
    agent.clock.advance_millis(8 * DAY);
    let plan = agent.store.plan_collection(&Agent::scope()).unwrap();
    assert_eq!(plan.unreferenced().count(), 4);
    agent.write("/agent/sessions/a.jsonl", &named.reference());
    agent.clock.advance_millis(11 * MINUTE);
    agent.put("2");
    agent.disk.unlink(&agent.store.path(&gone)).unwrap();
    let done = agent.store.collect(&plan).unwrap();
    assert_eq!(done.removed.iter().map(|file| &file.path).collect::<Vec<_>>(), [&agent.store.path(&garbage)]);
    assert_eq!(done.spared.len(), 3);
    assert!(agent.store.get(&named).unwrap().is_some() && agent.store.get(&again).unwrap().is_some());
}

#[test]
fn what_cannot_be_read_stops_the_collection() {
    // [W11] a missing directory, no directory at all, a file or directory that may not be read
    let agent = Agent::new();
    agent.put("garbage");
    agent.clock.advance_millis(8 * DAY);
    let kind = |scope: &CollectionScope| agent.store.plan_collection(scope).unwrap_err().kind();
    assert_eq!(kind(&CollectionScope::new()), ErrorKind::InvalidInput);
    assert_eq!(kind(&Agent::scope().with_directory("/mnt/backup")), ErrorKind::NotFound);
    agent.write("/file", "");
    assert_eq!(kind(&Agent::scope().with_directory("/file")), ErrorKind::NotAFile);
    agent.write("/agent/sessions/deep/a/0.bash.log", "");
    agent.clock.advance_millis(8 * DAY);
    agent.write("/agent/terminal-sessions/pts-3", "/w\n/elsewhere/d.jsonl\n");
    agent.write("/elsewhere/d.jsonl", "{}");
    agent.clock.advance_millis(11 * MINUTE);
    let plan = agent.store.plan_collection(&Agent::scope()).unwrap();
    assert_eq!(plan.unreferenced().count(), 1);
    for forbidden in [
        "/agent/sessions/deep",
        "/agent/sessions/deep/a/0.bash.log",
        "/agent/terminal-sessions/pts-3",
        "/elsewhere/d.jsonl",
    ] {
        let storage = Arc::new(DyingStorage::forbidding(agent.disk.clone(), forbidden));
        let store = BlobStore::new(storage, "/agent/blobs", agent.clock.clone());
        let error = store.collect(&plan).unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::PermissionDenied, Some(Path::new(forbidden))));
    }
    assert_eq!(agent.names().len(), 1);
}

#[cfg(target_os = "linux")]
#[test]
fn real_files_links_and_writers() {
    // [W11, K32] symbolic links are followed, a loop ends, a process that holds a session open is seen
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    let storage = Arc::new(FileSessionStorage::new());
    let clock = Arc::new(ManualClock::at(Timestamp::from_system(std::time::SystemTime::now())));
    let store = BlobStore::new(storage.clone(), at("agent/blobs"), clock.clone());
    storage.ensure_dir(&at("agent/sessions")).unwrap();
    storage.ensure_dir(&at("real")).unwrap();
    let named = store.put(b"named").unwrap();
    let garbage = store.put(b"garbage").unwrap();
    storage.write_text(&at("real/a.jsonl"), &named.reference()).unwrap();
    std::os::unix::fs::symlink(at("real"), at("agent/sessions/linked")).unwrap();
    std::os::unix::fs::symlink(at("agent"), at("real/loop")).unwrap();
    std::os::unix::fs::symlink(at("nowhere"), at("real/dangling")).unwrap();
    clock.advance_millis(8 * DAY);
    let scope = CollectionScope::new().with_directory(at("agent/sessions"));
    let plan = store.plan_collection(&scope).unwrap();
    assert_eq!(plan.unreferenced().map(|file| file.path.clone()).collect::<Vec<_>>(), [store.path(&garbage)]);
    assert_eq!(plan.missing(), [at("agent/sessions/linked/dangling")]);

    let mut holder = std::process::Command::new("sh")
        .args(["-c", "exec 9>>\"$1\"; echo open; read _", "sh"])
        .arg(at("real/a.jsonl"))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = [0; 5];
    std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut line).unwrap();
    let error = store.collect(&plan).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::HeldElsewhere);
    assert!(error.to_string().contains(&holder.id().to_string()), "{error}");
    drop(holder.stdin.take());
    holder.wait().unwrap();
    assert_eq!(store.collect(&plan).unwrap().removed.len(), 1);
    assert_eq!(store.get(&garbage).unwrap(), None);
    assert!(store.get(&named).unwrap().is_some());
}

#[test]
fn death_during_a_collection_loses_no_blob_that_is_named() {
    // [W11] killed at each changing call; the blob is then named by a new line and must be there, or was never put again
    for calls in 0.. {
        let agent = Agent::new();
        let (first, second) = (agent.put("1"), agent.put("2"));
        agent.clock.advance_millis(8 * DAY);
        let dying = Arc::new(DyingStorage::new(agent.disk.clone(), calls));
        let store = BlobStore::new(dying.clone(), "/agent/blobs", agent.clock.clone());
        let plan = store.plan_collection(&Agent::scope()).unwrap();
        let done = store.collect(&plan);
        // The next process puts what is half removed back where it belongs and finishes the work.
        let left = agent.names().len();
        let plan = agent.store.plan_collection(&Agent::scope()).unwrap();
        agent.store.collect(&plan).unwrap();
        let plan = agent.store.plan_collection(&Agent::scope()).unwrap();
        agent.store.collect(&plan).unwrap();
        assert_eq!(agent.names().len(), 0, "{left} were left after {calls} calls");
        assert_eq!(agent.put("1"), first);
        assert!(agent.store.get(&first).unwrap().is_some() && agent.store.get(&second).unwrap().is_none());
        if done.is_ok() {
            break;
        }
    }
}
