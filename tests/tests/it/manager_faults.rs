//! A session manager through failing calls, crashes and a full disk: what was acknowledged is never lost, and the file is
//! always the old or the new one, whole `[W3–W6]`.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use session_core::storage::{MemorySessionStorage, SessionStorage};
use session_core::{
    AgentDir, CountingIds, EntryEdit, Environment, Error, ErrorKind, Host, JsonText, ManualClock, NameSource, Session,
    SessionManager, Timestamp,
};
use tests::recording::{CallKind, Failure, Loss, RecordingStorage, Target, Times};

type Storage = RecordingStorage<MemorySessionStorage>;

fn json(text: &str) -> JsonText {
    JsonText::parse(text).unwrap()
}

fn user(text: &str) -> JsonText {
    json(&format!(r#"{{"role":"user","content":"{text}","timestamp":1}}"#))
}

fn host(storage: &Storage) -> Host {
    let agent = AgentDir::at("/agent").unwrap();
    Host::new(agent, Environment::new("/w").with_variable("HOME", "/home/u"))
        .with_storage(Arc::new(storage.clone()))
        .with_clock(Arc::new(ManualClock::at(Timestamp::from_millis(1_767_605_400_000).unwrap())))
        .with_ids(Arc::new(CountingIds::new()))
}

fn storage() -> Storage {
    let inner = MemorySessionStorage::new();
    inner.ensure_dir(Path::new("/s")).unwrap();
    RecordingStorage::new(inner, Path::new("/")).unwrap()
}

/// What a caller was told.
#[derive(Debug, Default)]
struct Told {
    /// Ids of entries whose append returned.
    acknowledged: Vec<String>,
    /// Ids of entries that an error said are in memory.
    in_memory: Vec<String>,
    errors: Vec<Error>,
}

impl Told {
    fn append(&mut self, done: session_core::Result<session_core::EntryId>) -> Option<String> {
        match done {
            Ok(id) => {
                self.acknowledged.push(id.to_string());
                Some(id.to_string())
            }
            Err(error) => {
                let id = error.entry().map(ToString::to_string);
                self.in_memory.extend(id.clone());
                self.errors.push(error);
                id
            }
        }
    }

    fn note<T>(&mut self, done: session_core::Result<T>) {
        if let Err(error) = done {
            self.errors.push(error);
        }
    }
}

/// A day in the life of a session: first write, appends, an image, a name, an edit, a branch, a flush.
fn day(session: &mut SessionManager, told: &mut Told) {
    let first = told.append(session.append_message(&user("one")));
    told.append(session.append_message(&json(r#"{"role":"assistant","content":[{"type":"text","text":"two"}]}"#)));
    told.append(session.append_custom_entry("todo", Some(&json(r#"{"n":1.0}"#)), Some(2)));
    let image = "iVBORw0KGgo".repeat(200) + "AA==";
    let image = &image[..image.len() / 4 * 4];
    let content =
        format!(r#"{{"role":"user","content":[{{"type":"image","mimeType":"image/png","data":"{image}"}}]}}"#);
    told.append(session.append_message(&json(&content)));
    told.note(session.set_session_name("A name", NameSource::User));
    told.append(session.append_message(&user("after the rename")));
    if let Some(first) = first {
        let payload = json(r#"{"message":{"role":"user","content":"edited"}}"#);
        told.note(session.rewrite_entries(&[EntryEdit { id: first.as_str().into(), payload }]));
        told.note(session.branch(&first));
    }
    told.append(session.append_message(&user("another branch")));
    told.note(session.flush());
}

fn ids_on_disk(storage: &dyn SessionStorage, file: &Path) -> Vec<String> {
    let bytes = storage.read_text(file).unwrap_or_default();
    let lines = bytes.lines().filter_map(|line| JsonText::parse(line).ok());
    lines.skip(1).map(|line| line.view().get("id").unwrap().text().unwrap().into_owned()).collect()
}

fn file_of(session: &SessionManager) -> PathBuf {
    session.file().unwrap().to_owned()
}

#[test]
fn each_call_failing_in_turn_loses_nothing() {
    // [W3, W4, W5, W5a]
    let clean = storage();
    let mut session = SessionManager::create(&host(&clean), Path::new("/w"), Some(Path::new("/s"))).unwrap();
    let mut told = Told::default();
    day(&mut session, &mut told);
    assert!(told.errors.is_empty(), "{told:?}");
    let (calls, wanted) = (clean.len() as u64, ids_on_disk(&clean, &file_of(&session)));
    assert_eq!(wanted, told.acknowledged);

    for failure in [Failure::Error(io::ErrorKind::Other), Failure::Short(7)] {
        for (index, call) in (1..=calls).enumerate() {
            let storage = storage();
            storage.fail(Target::Number(call), failure, Times::Next(1));
            let Ok(mut session) = SessionManager::create(&host(&storage), Path::new("/w"), Some(Path::new("/s")))
            else {
                continue;
            };
            let mut told = Told::default();
            day(&mut session, &mut told);
            let what = format!("call {call}, {failure:?}: {:?} {:?}", storage.records().get(index), told.errors);
            storage.clear_faults();
            // Appends that failed are in memory: they read as they did.
            for id in told.in_memory.iter().chain(&told.acknowledged) {
                session.session().entry(id).unwrap_or_else(|| panic!("{id} is not in memory, {what}")).json().unwrap();
            }
            session.recover().unwrap_or_else(|error| panic!("{error}, {what}"));
            session.flush().unwrap();
            let file = file_of(&session);
            let found = ids_on_disk(storage.inner(), &file);
            let distinct: BTreeSet<&String> = found.iter().collect();
            assert_eq!(distinct.len(), found.len(), "an entry stands twice, {what}");
            let told_of: BTreeSet<&String> = told.in_memory.iter().chain(&told.acknowledged).collect();
            if session.is_on_disk() {
                assert_eq!(distinct, told_of, "{what}");
            }
            let leftovers: Vec<_> = storage.inner().read_dir(Path::new("/s")).unwrap().unwrap();
            assert!(leftovers.len() <= 2, "{leftovers:?}, {what}");
            session.close().unwrap();
        }
    }
}

#[test]
fn a_crash_at_any_call_leaves_the_old_or_the_new_file_whole() {
    // [W3, W4, K21]
    let storage = storage();
    let mut session = SessionManager::create(&host(&storage), Path::new("/w"), Some(Path::new("/s"))).unwrap();
    let file = file_of(&session);
    // After how many calls each acknowledgement came.
    let mut acknowledged: Vec<(usize, String)> = Vec::new();
    let mut note = |session: &mut SessionManager, text: &str| {
        let id = session.append_message(&user(text)).unwrap();
        acknowledged.push((storage.len(), id.to_string()));
    };
    session.append_message(&json(r#"{"role":"assistant","content":[]}"#)).unwrap();
    note(&mut session, "a");
    note(&mut session, "b");
    session.set_session_name("name", NameSource::Auto).unwrap();
    note(&mut session, "c");
    session.flush().unwrap();
    let flushed = storage.len();
    for crash in storage.crashes(4) {
        let after = MemorySessionStorage::new();
        crash.remains.restore(&after, Path::new("/")).unwrap();
        if !after.exists(&file).unwrap() {
            assert!(crash.loss != Loss::Nothing || acknowledged[0].0 > crash.after, "{crash:?}");
            continue;
        }
        let after: Arc<dyn SessionStorage> = Arc::new(after);
        let read = Session::read_from(Arc::clone(&after), &file).unwrap();
        let durable = crash.loss == Loss::Nothing || crash.after >= flushed;
        for (calls, id) in &acknowledged {
            assert!(!durable || *calls > crash.after || read.entry(id).is_some(), "{id} is lost: {crash:?}");
        }
        if crash.loss == Loss::Nothing {
            assert_eq!(read.defects().total(), 0, "{crash:?}");
        }
        assert!(read.header().is_some(), "{crash:?}");
    }
}

#[test]
fn k22_a_disk_that_is_full_for_a_while_costs_nothing() {
    // [W5, W5a]
    let storage = storage();
    let mut session = SessionManager::create(&host(&storage), Path::new("/w"), Some(Path::new("/s"))).unwrap();
    session.append_message(&json(r#"{"role":"assistant","content":[]}"#)).unwrap();
    storage.fill_disk();
    let mut ids = Vec::new();
    for text in ["a", "b", "c"] {
        let error = session.append_message(&user(text)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        ids.push(error.entry().unwrap().to_string());
    }
    assert_eq!(session.flush().unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(session.recover().unwrap_err().kind(), ErrorKind::StorageFull, "still full");
    storage.clear_faults();
    session.recover().unwrap();
    let after = session.append_message(&user("d")).unwrap();
    ids.push(after.to_string());
    assert_eq!(ids_on_disk(storage.inner(), &file_of(&session))[1..], ids);
    assert!(session.error().is_none());
}

#[test]
fn one_write_an_append_and_no_read_of_old_content() {
    // [W3]
    let storage = storage();
    let mut session = SessionManager::create(&host(&storage), Path::new("/w"), Some(Path::new("/s"))).unwrap();
    session.append_message(&json(r#"{"role":"assistant","content":[]}"#)).unwrap();
    session.append_message(&user("warm")).unwrap();
    let (writes, read) = (storage.count(CallKind::Write), storage.bytes_read());
    for n in 0..100 {
        session.append_message(&user(&format!("{n}"))).unwrap();
    }
    assert_eq!(storage.count(CallKind::Write) - writes, 100);
    assert_eq!(storage.bytes_read() - read, 0);
}

#[test]
fn k17_open_and_close_change_nothing() {
    let storage = storage();
    let mut session = SessionManager::create(&host(&storage), Path::new("/w"), Some(Path::new("/s"))).unwrap();
    session.append_message(&json(r#"{"role":"assistant","content":[]}"#)).unwrap();
    session.close().unwrap();
    let file = file_of(&session);
    let before = storage.inner().stat(&file).unwrap().unwrap();
    let mut again = SessionManager::open(&host(&storage), &file, None).unwrap();
    again.close().unwrap();
    assert_eq!(storage.inner().stat(&file).unwrap().unwrap(), before);
    // After appends only: the same file, not one byte more than the lines.
    let mut again = SessionManager::open(&host(&storage), &file, None).unwrap();
    again.append_message(&user("x")).unwrap();
    let grown = storage.inner().stat(&file).unwrap().unwrap();
    again.close().unwrap();
    let after = storage.inner().stat(&file).unwrap().unwrap();
    assert_eq!((after.len, after.identity), (grown.len, before.identity));
}
