//! A session as it can be read: any file, any damage, nothing written `[L4a]`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::blob::BlobStore;
use crate::clock::Timestamp;
use crate::context::{self, Context};
use crate::defect::{Defect, DefectKind, Defects};
use crate::entry::EntryKind;
use crate::error::{Error, ErrorKind, Result};
use crate::header::{Header, NameSource, TitleSlot};
use crate::id::EntryId;
use crate::json::{Json, JsonKind, JsonText};
use crate::load::Loaded;
use crate::log::{Envelope, Index, Log, Place, number_of};
use crate::message::Message;
use crate::payload::Payloads;
use crate::storage::{FileSessionStorage, SessionStorage, StorageReader};
use crate::tree::{self, Ancestors, TreeNode};
use crate::usage::{Usage, UsageShape};

/// Which entry a context or branch ends at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leaf {
    /// The session's leaf: the last entry of the file, unless it was moved.
    Current,
    /// Before the first entry: an empty context `[C1]`.
    None,
    /// This entry; when it does not exist, the last entry of the file `[C1]`.
    Entry(EntryId),
}

/// A session that was read.
///
/// Memory is taken for the entries' envelopes, not for the file `[L9]`: a payload is read from the opened file when it is
/// asked for, and checked to be that entry's. When the file was changed under us, the session is loaded anew once for that
/// read; when the entry is not there either, that is [`ErrorKind::Changed`].
///
/// ```
/// use session_core::{Leaf, Session};
/// let file = std::env::temp_dir().join(format!("doc-session-{}.jsonl", std::process::id()));
/// std::fs::write(&file, concat!(
///     r#"{"type":"session","version":3,"id":"15c0000000000001","timestamp":"2026-01-05T09:30:00.000Z","cwd":"/w"}"#, "\n",
///     r#"{"type":"message","id":"00000001","parentId":null,"timestamp":"2026-01-05T09:30:01.000Z","message":{"role":"user","content":"hi"}}"#, "\n",
///     "garbage\n",
/// )).unwrap();
/// let session = Session::read(&file)?;
/// assert_eq!(session.context(&Leaf::Current)?.messages().len(), 1);
/// assert_eq!(session.defects().list()[0].line(), 3);
/// # std::fs::remove_file(&file).unwrap();
/// # Ok::<(), session_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Session {
    pub(crate) loaded: Loaded,
    pub(crate) leaf: Option<Index>,
    pub(crate) origin: Option<Origin>,
    pub(crate) blobs: Option<BlobStore>,
    /// What the file holds now, when a read found that it was changed.
    anew: Mutex<Option<Arc<Session>>>,
}

/// The file that a session was read from.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<dyn StorageReader>,
    pub(crate) storage: Arc<dyn SessionStorage>,
}

/// An entry: what its envelope says, and its line when asked for.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'s> {
    session: &'s Session,
    index: Index,
}

impl Session {
    /// Reads a file. Never writes.
    ///
    /// # Errors
    /// As [`read_from`](Self::read_from).
    pub fn read(path: &Path) -> Result<Self> {
        Self::read_from(Arc::new(FileSessionStorage::new()), path)
    }

    /// Reads through any storage. Never writes.
    ///
    /// # Errors
    /// Only input and output fail: a missing file ([`ErrorKind::NotFound`]), no permission, a directory or device. Content
    /// never does; see [`defects`](Self::defects).
    pub fn read_from(storage: Arc<dyn SessionStorage>, path: &Path) -> Result<Self> {
        let file: Arc<dyn StorageReader> = storage.open_reader(path)?.into();
        let mut session = Self::unread(storage, path, Arc::clone(&file));
        session.loaded.read_on(file.as_ref())?;
        session.loaded.defects.name_file(path);
        session.leaf = session.log().indices().next_back();
        Ok(session)
    }

    /// A session of which nothing was read yet; the catalog reads no further than it must.
    pub(crate) fn unread(storage: Arc<dyn SessionStorage>, path: &Path, file: Arc<dyn StorageReader>) -> Self {
        let origin = Some(Origin { path: path.to_owned(), file, storage });
        Self { loaded: Loaded::default(), leaf: None, origin, blobs: None, anew: Mutex::new(None) }
    }

    /// Reads a file that lacks its header as if `header` stood before its first line.
    pub(crate) fn read_below(storage: Arc<dyn SessionStorage>, path: &Path, header: Header) -> Result<Self> {
        let file: Arc<dyn StorageReader> = storage.open_reader(path)?.into();
        let mut loaded = Loaded::default();
        loaded.assume_header(header);
        loaded.read_on(file.as_ref())?;
        let leaf = loaded.log.indices().next_back();
        let origin = Some(Origin { path: path.to_owned(), file, storage });
        Ok(Self { loaded, leaf, origin, blobs: None, anew: Mutex::new(None) })
    }

    /// A session without a file yet.
    pub(crate) fn unwritten(header: Header) -> Self {
        let loaded = Loaded { header: Some(header), ..Loaded::default() };
        Self { loaded, leaf: None, origin: None, blobs: None, anew: Mutex::new(None) }
    }

    /// The same session, whose payloads have their images back: references to blobs in `blobs` are resolved when a payload
    /// is decoded `[L4, W9]`. What can't be resolved stays a reference and is reported.
    #[must_use]
    pub fn with_blobs(mut self, blobs: BlobStore) -> Self {
        self.blobs = Some(blobs);
        self
    }

    pub(crate) fn log(&self) -> &Log {
        &self.loaded.log
    }

    /// The file, when the session came from one.
    pub fn path(&self) -> Option<&Path> {
        self.origin.as_ref().map(|origin| origin.path.as_path())
    }

    /// The header; none when nothing in the file is valid `[L2]`.
    pub fn header(&self) -> Option<&Header> {
        self.loaded.header.as_ref()
    }

    /// The title slot, where the file has one.
    pub fn title_slot(&self) -> Option<&TitleSlot> {
        self.loaded.slot.as_ref()
    }

    /// Adds an entry in memory and makes it the leaf.
    pub(crate) fn push(&mut self, envelope: &Envelope<'_>, json: JsonText) -> Index {
        let index = self.loaded.log.push_in_memory(envelope, json);
        self.leaf = Some(index);
        index
    }

    /// Becomes what the file holds now. Entries that are in memory stay so: over the file's own when it has them, beside it
    /// otherwise. The leaf stays where it is `[W6]`.
    pub(crate) fn take_over(&mut self, mut fresh: Session) {
        let old = self.log();
        for index in old.indices() {
            let Place::Memory(number) = old.place(index) else { continue };
            let payload = old.payload(number).clone();
            match fresh.log().find(old.id(index)).filter(|found| is_same_entry((old, index), (fresh.log(), *found))) {
                Some(found) => fresh.loaded.log.keep_in_memory(found, payload),
                None => {
                    fresh.loaded.log.push_in_memory(&old.envelope(index), payload);
                }
            }
        }
        let leaf = self.leaf_id().map(str::to_owned);
        fresh.leaf = leaf.and_then(|leaf| fresh.log().find(&leaf).or_else(|| fresh.log().indices().next_back()));
        fresh.blobs = self.blobs.take();
        *self = fresh;
    }

    /// Entries that are only in memory, in order.
    pub(crate) fn unwritten_entries(&self) -> Vec<Index> {
        let log = self.log();
        log.indices().filter(|index| log.is_unwritten(*index)).collect()
    }

    /// What is wrong in the file, as far as lines and the tree show it; [`examine`](Self::examine) also reads payloads.
    pub fn defects(&self) -> Defects {
        let mut defects = self.loaded.defects.clone();
        let log = self.log();
        for entry in log.indices() {
            if log.parent_id(entry).is_some() && log.parent(entry).is_none() {
                defects.add(self.defect_at(entry, DefectKind::MissingParent));
            }
        }
        for entry in tree::Links::of(log).cycles {
            defects.add(self.defect_at(entry, DefectKind::ParentCycle));
        }
        defects.sort_by_line();
        defects
    }

    /// Everything that is wrong, payloads read and blob references followed.
    pub fn examine(&self) -> Result<Defects> {
        let mut defects = self.defects();
        let mut payloads = self.payloads();
        let mut usage = Usage::default();
        for entry in self.log().indices() {
            let payload = payloads.read(entry)?;
            for kind in payload.defects {
                defects.add(self.defect_at(entry, kind));
            }
            let Some(json) = payload.json else { continue };
            if let Some(kind) = body_defect(self.log().kind(entry), json.view(), &mut usage) {
                defects.add(self.defect_at(entry, kind));
            }
        }
        defects.sort_by_line();
        Ok(defects)
    }

    pub(crate) fn defect_at(&self, entry: Index, kind: DefectKind) -> Defect {
        let line = self.log().line(entry).unwrap_or(0);
        let offset = match self.log().place(entry) {
            Place::Line { offset, .. } => offset,
            _ => self.loaded.damaged.get(&line).copied().unwrap_or(0),
        };
        let defect = Defect::new(kind, line, offset);
        match self.path() {
            Some(path) => defect.in_file(path),
            None => defect,
        }
    }

    /// The entries, in the order of the file.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = Entry<'_>> + ExactSizeIterator {
        (0..self.log().len()).map(|index| Entry { session: self, index: number_of(index) })
    }

    /// The entry with this id; of repeated ids the last one `[L8]`.
    pub fn entry(&self, id: &str) -> Option<Entry<'_>> {
        self.log().find(id).map(|index| self.at(index))
    }

    pub(crate) fn at(&self, index: Index) -> Entry<'_> {
        Entry { session: self, index }
    }

    /// The leaf's id: where the next entry goes.
    pub fn leaf_id(&self) -> Option<&str> {
        self.leaf.map(|leaf| self.log().id(leaf))
    }

    /// The leaf.
    pub fn leaf_entry(&self) -> Option<Entry<'_>> {
        self.leaf.map(|leaf| self.at(leaf))
    }

    /// The entries whose parent is `id`, by timestamp, then file order `[T4]`.
    pub fn children(&self, id: &str) -> Vec<Entry<'_>> {
        let children = self.log().find(id).map(|index| tree::children(self.log(), index)).unwrap_or_default();
        children.into_iter().map(|index| self.at(index)).collect()
    }

    /// The entries from the root to a leaf `[T4]`.
    pub fn branch_path(&self, leaf: &Leaf) -> Vec<Entry<'_>> {
        self.path_to(leaf).into_iter().map(|index| self.at(index)).collect()
    }

    /// The entries from a leaf up to its root: the [branch path](Self::branch_path) backwards, found while it is walked. What
    /// stands near the leaf is near, however long the path.
    pub fn ancestors(&self, leaf: &Leaf) -> impl Iterator<Item = Entry<'_>> {
        self.leaf_index(leaf).into_iter().flat_map(|leaf| Ancestors::of(self.log(), leaf)).map(|index| self.at(index))
    }

    pub(crate) fn path_to(&self, leaf: &Leaf) -> Vec<Index> {
        self.leaf_index(leaf).map(|leaf| tree::path(self.log(), leaf)).unwrap_or_default()
    }

    fn leaf_index(&self, leaf: &Leaf) -> Option<Index> {
        match leaf {
            Leaf::None => None,
            Leaf::Current => self.leaf,
            Leaf::Entry(id) => self.log().find(id.as_str()).or_else(|| self.log().indices().next_back()),
        }
    }

    /// The whole tree as a flat list, each entry once, roots first and children below their parents `[T4]`.
    pub fn tree(&self) -> Vec<TreeNode> {
        tree::flatten(self.log())
    }

    /// The label on an entry `[T5]`.
    pub fn label(&self, id: &str) -> Result<Option<String>> {
        Ok(self.labels()?.remove(id))
    }

    /// The labels in force, by the id they stand on `[T5]`.
    pub fn labels(&self) -> Result<BTreeMap<EntryId, String>> {
        let mut labels = BTreeMap::new();
        let mut payloads = self.payloads();
        for entry in self.log().indices().filter(|entry| self.log().kind(*entry) == EntryKind::Label) {
            let Some(json) = payloads.read(entry)?.json else { continue };
            let Some(target) = json.view().get("targetId").and_then(Json::text) else { continue };
            match json.view().get("label") {
                Some(label) if label.kind() == JsonKind::Text => {
                    let label = label.text().unwrap_or_default();
                    if label.is_empty() {
                        labels.remove(&*target);
                    } else {
                        labels.insert(EntryId::from(target.as_ref()), label.into_owned());
                    }
                }
                Some(label) if !label.is_null() => {}
                _ => {
                    labels.remove(&*target);
                }
            }
        }
        Ok(labels)
    }

    /// The session's name: the title slot's, else the latest `session_info`, else the header's title `[F8, F8a]`.
    pub fn name(&self) -> Result<Option<String>> {
        Ok(self.named()?.map(|(name, _)| name))
    }

    /// The name in force and who gave it; none when there is no name.
    pub fn named(&self) -> Result<Option<(String, NameSource)>> {
        if let Some(slot) = self.title_slot() {
            return Ok(slot.title().map(|title| (title.to_owned(), slot.source())));
        }
        if let Some(name) = self.info_name()? {
            return Ok(Some((name, NameSource::User)).filter(|(name, _)| !name.is_empty()));
        }
        Ok(self.header().and_then(|header| Some((header.title()?, header.title_source()))))
    }

    /// Whether somebody stated who gave the name in force.
    pub(crate) fn states_name_source(&self) -> Result<bool> {
        if let Some(slot) = self.title_slot() {
            return Ok(slot.raw_source().is_some());
        }
        let in_header = |header: &Header| header.json().get("titleSource").is_some();
        Ok(self.info_name()?.is_some() || self.header().is_some_and(in_header))
    }

    /// The text of the latest `session_info` whose name is text.
    pub(crate) fn info_name(&self) -> Result<Option<String>> {
        let mut payloads = self.payloads();
        for entry in self.log().indices().rev().filter(|entry| self.log().kind(*entry) == EntryKind::SessionInfo) {
            let Some(json) = payloads.read(entry)?.json else { continue };
            if let Some(name) = json.view().get("name").and_then(Json::text) {
                return Ok(Some(name.into_owned()));
            }
        }
        Ok(None)
    }

    /// What the model sees for a leaf `[C1–C5]`.
    ///
    /// # Errors
    /// Only when the file can't be read or was changed; see [`Session`].
    pub fn context(&self, leaf: &Leaf) -> Result<Context> {
        context::build(self, &self.path_to(leaf))
    }

    /// The role of the latest `model_change` on the way to the leaf; none when there is none `[T4]`.
    pub fn last_model_change_role(&self) -> Result<Option<String>> {
        let mut payloads = self.payloads();
        for entry in self.path_to(&Leaf::Current).into_iter().rev() {
            if self.log().kind(entry) != EntryKind::ModelChange {
                continue;
            }
            let Some(json) = payloads.read(entry)?.json else { continue };
            let role = json.view().get("role").and_then(Json::text).filter(|role| !role.is_empty());
            return Ok(Some(role.map_or_else(|| "default".to_owned(), Cow::into_owned)));
        }
        Ok(None)
    }

    /// What the session used. Reads every message `[T10]`.
    pub fn usage(&self) -> Result<Usage> {
        let mut usage = Usage::default();
        let mut payloads = self.payloads();
        for entry in self.log().indices().filter(|entry| self.log().kind(*entry) == EntryKind::Message) {
            if let Some(json) = payloads.read(entry)?.json
                && let Some(message) = json.view().get("message")
            {
                usage.add_message(Message::new(message));
            }
        }
        Ok(usage)
    }

    pub(crate) fn payloads(&self) -> Payloads<'_> {
        Payloads::of(self)
    }

    /// The session as its file is now, loaded once when a read finds that it was changed `[L9]`.
    pub(crate) fn anew(&self) -> Result<Arc<Session>> {
        let mut anew = self.anew.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = &*anew {
            return Ok(Arc::clone(session));
        }
        let Some(Origin { path, storage, .. }) = &self.origin else {
            return Err(Error::new(ErrorKind::Changed, "the session has no file to read again"));
        };
        let session = Arc::new(Session::read_from(Arc::clone(storage), path)?);
        *anew = Some(Arc::clone(&session));
        Ok(session)
    }
}

impl AsRef<Session> for Session {
    fn as_ref(&self) -> &Session {
        self
    }
}

/// Whether two entries of the same id are the same: parent and time tell `[W6]`.
fn is_same_entry((a, i): (&Log, Index), (b, j): (&Log, Index)) -> bool {
    a.parent_id(i) == b.parent_id(j) && a.timestamp(i) == b.timestamp(j)
}

/// What is wrong with the fields that an entry's type needs `[L8a]`.
fn body_defect(kind: EntryKind, json: Json<'_>, usage: &mut Usage) -> Option<DefectKind> {
    let kind_of = |key: &str| json.get(key).map(Json::kind);
    let is_text = |key: &str| kind_of(key) == Some(JsonKind::Text);
    let well_formed = match kind {
        EntryKind::Message => {
            let message = json.get("message").filter(|message| message.kind() == JsonKind::Object);
            let Some(message) = message else { return Some(DefectKind::MalformedBody) };
            let shape = usage.add_message(Message::new(message));
            return (shape == UsageShape::Malformed).then_some(DefectKind::MalformedUsage);
        }
        EntryKind::Compaction | EntryKind::BranchSummary => is_text("summary"),
        EntryKind::CustomMessage => matches!(kind_of("content"), Some(JsonKind::Text | JsonKind::Array)),
        EntryKind::TtsrInjection => kind_of("injectedRules") == Some(JsonKind::Array),
        EntryKind::McpToolSelection => kind_of("selectedToolNames") == Some(JsonKind::Array),
        EntryKind::ModeChange => json.get("mode").and_then(Json::text).is_some_and(|mode| !mode.is_empty()),
        EntryKind::ModelChange => is_text("model") || is_text("modelId"),
        EntryKind::ServiceTierChange => matches!(kind_of("serviceTier"), Some(JsonKind::Text | JsonKind::Null)),
        _ => true,
    };
    (!well_formed).then_some(DefectKind::MalformedBody)
}

impl<'s> Entry<'s> {
    /// The entry's id.
    pub fn id(self) -> &'s str {
        self.session.log().id(self.index)
    }

    /// The id that it names as its parent, whether that exists or not; none for a root.
    pub fn parent_id(self) -> Option<&'s str> {
        self.session.log().parent_id(self.index)
    }

    /// Its type.
    pub fn kind(self) -> EntryKind {
        self.session.log().kind(self.index)
    }

    /// Its type as the file names it; empty when it has none.
    pub fn kind_name(self) -> &'s str {
        self.session.log().kind_name(self.index)
    }

    /// When it was made; none when that can't be read.
    pub fn timestamp(self) -> Option<Timestamp> {
        self.session.log().timestamp(self.index)
    }

    /// Its number in the order of the file, from 0.
    pub fn index(self) -> usize {
        self.index as usize
    }

    /// The physical line, from 1; none when it was not read from a file.
    pub fn line(self) -> Option<u64> {
        self.session.log().line(self.index)
    }

    /// Whether a later entry has the same id `[L8]`.
    pub fn is_superseded(self) -> bool {
        self.session.log().is_superseded(self.index)
    }

    /// Whether the entry stands in a file. Before the session's first write, in memory, and after a failed write it does not.
    pub fn is_written(self) -> bool {
        !self.session.log().is_unwritten(self.index)
    }

    pub(crate) fn is_of(self, session: &Session) -> bool {
        std::ptr::eq(self.session, session)
    }

    /// The whole entry as JSON, older versions migrated, blob references resolved where the session has
    /// [blobs](Session::with_blobs).
    ///
    /// # Errors
    /// [`ErrorKind::NotJson`] when the payload is no JSON, [`ErrorKind::Changed`] when the file no longer holds it.
    pub fn json(self) -> Result<JsonText> {
        self.json_through(&mut self.session.payloads())
    }

    pub(crate) fn json_through(self, payloads: &mut Payloads<'_>) -> Result<JsonText> {
        let payload = payloads.read(self.index)?;
        payload.json.ok_or_else(|| {
            let error = Error::new(ErrorKind::NotJson, "the entry's payload is no JSON").on_entry(self.id().into());
            let error = if let Some(path) = self.session.path() { error.at(path) } else { error };
            if let Some(line) = self.line() { error.on_line(line) } else { error }
        })
    }
}
