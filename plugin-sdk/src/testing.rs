//! For the tests of extensions: a session in memory with pinned time and ids, and what an extension wrote to it.
//!
//! Everything here panics on failure: a test that meets what it does not expect fails.
//!
//! ```
//! # use plugin_sdk::{Extension, Version, testing::FakeSession};
//! let todos = Extension::new("todo").unwrap().state::<Vec<String>>(Version(1));
//! let mut session = FakeSession::new();
//! todos.save(&mut session, &vec!["milk".to_owned()]).unwrap();
//! session.reload();
//! session.assert_wrote("todo", r#"[["milk"]]"#);
//! ```

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use session_core::storage::MemorySessionStorage;
use session_core::{
    AgentDir, Clock, CompactionEntry, CountingIds, CustomMessageEntry, EntryId, EntryKind, Environment, Host, Json,
    JsonText, Leaf, ManualClock, Session, SessionManager, Timestamp, quote,
};

use crate::error::Result;
use crate::listener::Opening;
use crate::live::LiveSession;
use crate::same::same;
use crate::writer::SessionWriter;

/// The working directory of a fake session.
pub const CWD: &str = "/work/project";
/// When a fake session starts.
pub const START: &str = "2026-01-05T09:30:00.000Z";

/// A session on a storage in memory. Its clock stands still until it is moved, its ids count up from 1 and are the same in
/// each run. It is written from its first entry on, so that [`reload`](Self::reload) reads what a process would after a crash.
///
/// It is a [`LiveSession`] with the words of a test on top.
#[derive(Debug)]
pub struct FakeSession {
    live: LiveSession,
    host: Host,
    clock: Arc<ManualClock>,
}

impl Default for FakeSession {
    fn default() -> Self {
        Self::new()
    }
}

/// What a test does not expect.
fn expected<T, E: std::fmt::Display>(result: std::result::Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

impl FakeSession {
    /// An empty session.
    pub fn new() -> Self {
        let start = Timestamp::parse(START).unwrap_or_else(|| unreachable!("a time"));
        let clock = Arc::new(ManualClock::at(start));
        let shared: Arc<dyn Clock> = Arc::clone(&clock) as _;
        let agent = expected(AgentDir::at("/agent"));
        let host = Host::new(agent, Environment::new(CWD))
            .with_storage(Arc::new(MemorySessionStorage::new()))
            .with_clock(shared)
            .with_ids(Arc::new(CountingIds::new()));
        let mut manager = expected(SessionManager::create(&host, Path::new(CWD), None));
        expected(manager.ensure_on_disk());
        Self { live: LiveSession::new(manager, Opening::New), host, clock }
    }

    /// Moves the clock on.
    pub fn advance_millis(&self, millis: i64) {
        self.clock.advance_millis(millis);
    }

    /// The user says something.
    pub fn user(&mut self, text: &str) -> EntryId {
        self.message(&format!(r#""role":"user","content":{}"#, quote(text)))
    }

    /// The model answers.
    pub fn assistant(&mut self, text: &str) -> EntryId {
        const USAGE: &str = r#"{"input":1,"output":1,"cacheRead":0,"cacheWrite":0,"totalTokens":2,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}"#;
        let content = format!(r#"[{{"type":"text","text":{}}}]"#, quote(text));
        let origin = r#""provider":"fake","model":"fake-1""#;
        self.message(&format!(r#""role":"assistant","content":{content},{origin},"usage":{USAGE},"stopReason":"stop""#))
    }

    fn message(&mut self, fields: &str) -> EntryId {
        let time = self.clock.now().millis();
        let json = expected(JsonText::parse(&format!(r#"{{{fields},"timestamp":{time}}}"#)));
        expected(self.live.append_message(&json))
    }

    /// Moves the leaf to an entry.
    pub fn branch_to(&mut self, entry: &EntryId) {
        expected(self.live.branch(entry.as_str()));
    }

    /// Compacts everything up to `first_kept`.
    pub fn compact(&mut self, first_kept: &EntryId, summary: &str) -> EntryId {
        expected(self.live.append_compaction(&CompactionEntry {
            summary: summary.to_owned(),
            short_summary: None,
            first_kept_entry_id: first_kept.clone(),
            tokens_before: 1_000,
            details: None,
            from_extension: None,
            preserve_data: None,
        }))
    }

    /// Forgets everything in memory, listeners included, and opens the file again. The leaf is the last entry of the file.
    pub fn reload(&mut self) {
        let manager = expected(SessionManager::open(&self.host, &self.file(), None));
        self.live = LiveSession::new(manager, Opening::Resumed);
    }

    /// The session's file, in the storage in memory.
    pub fn file(&self) -> PathBuf {
        self.live.manager().file().map(Path::to_owned).unwrap_or_default()
    }

    /// The text of the file as it stands now.
    pub fn text(&self) -> String {
        expected(self.host.storage().read_text(&self.file()))
    }

    /// Replaces the text of the file, as another program would, and opens it again.
    pub fn rewrite(&mut self, edit: impl FnOnce(String) -> String) {
        let text = edit(self.text());
        expected(self.host.storage().write_text(&self.file(), &text));
        self.reload();
    }

    /// Another manager on the same file, as another process has one.
    pub fn other_process(&self) -> SessionManager {
        expected(SessionManager::open(&self.host, &self.file(), None))
    }

    /// The `data` of the `custom` entries of a type that the file holds, in its order, spelled as there; `null` for none.
    pub fn wrote(&self, custom_type: &str) -> Vec<JsonText> {
        let session = expected(Session::read_from(Arc::clone(self.host.storage()), &self.file()));
        let of_type = session.entries().filter(|entry| entry.kind() == EntryKind::Custom).filter_map(|entry| {
            let json = expected(entry.json());
            let is_ours = json.view().get("customType").and_then(Json::text).is_some_and(|name| name == custom_type);
            let data = json.view().get("data").and_then(Json::to_owned);
            is_ours.then(|| data.unwrap_or_else(|| expected(JsonText::parse("null"))))
        });
        of_type.collect()
    }

    /// Asserts that the file holds exactly these `data` of a type: a JSON array, spelled as you like.
    ///
    /// # Panics
    /// When it holds others, with both.
    #[track_caller]
    pub fn assert_wrote(&self, custom_type: &str, data: &str) {
        let wrote: Vec<String> = self.wrote(custom_type).iter().map(ToString::to_string).collect();
        let wrote = expected(JsonText::parse(&format!("[{}]", wrote.join(","))));
        let wanted = expected(JsonText::parse(data));
        assert!(same(wrote.view(), wanted.view()), "{custom_type} wrote {wrote}, and not {wanted}");
    }

    /// The messages that the model sees at the leaf, as JSON.
    pub fn model_sees(&self) -> Vec<JsonText> {
        let context = expected(self.live.manager().context(&Leaf::Current));
        context.messages().iter().map(|message| message.json().clone()).collect()
    }

    /// The texts that the model sees at the leaf: of each message its text blocks, or its summary.
    pub fn model_reads(&self) -> Vec<String> {
        let texts = self.model_sees().into_iter().map(|message| {
            let summary = message.view().get("summary").and_then(Json::text).map(std::borrow::Cow::into_owned);
            summary.unwrap_or_else(|| session_core::Message::new(message.view()).text("\n"))
        });
        texts.collect()
    }
}

impl Deref for FakeSession {
    type Target = LiveSession;

    fn deref(&self) -> &LiveSession {
        &self.live
    }
}

impl DerefMut for FakeSession {
    fn deref_mut(&mut self) -> &mut LiveSession {
        &mut self.live
    }
}

impl AsRef<Session> for FakeSession {
    fn as_ref(&self) -> &Session {
        self.live.as_ref()
    }
}

impl SessionWriter for FakeSession {
    fn host(&self) -> &Host {
        &self.host
    }

    fn append_custom(&mut self, custom_type: &str, data: Option<&JsonText>, version: Option<u32>) -> Result<EntryId> {
        self.live.append_custom(custom_type, data, version)
    }

    fn append_custom_message(&mut self, message: &CustomMessageEntry) -> Result<EntryId> {
        self.live.append_custom_message(message)
    }

    fn append_label(&mut self, target: &str, label: Option<&str>) -> Result<EntryId> {
        self.live.append_label(target, label)
    }

    fn flush(&mut self) -> Result<()> {
        SessionWriter::flush(&mut self.live)
    }
}
