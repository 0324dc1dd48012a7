//! Edits of entries that exist `[T9a, W4]`: payload fields by entry id, and a tool call's arguments by its id.

use std::collections::HashMap;

use super::SessionManager;
use crate::entry::EntryKind;
use crate::error::{Error, ErrorKind, Result};
use crate::id::EntryId;
use crate::json::{Json, JsonKind, JsonText};
use crate::log::{Index, Log};
use crate::persist::persist;
use crate::splice::{Change, Edits, change_keys};

/// New values for some of an entry's own fields; the others stay byte for byte.
#[derive(Clone, Debug)]
pub struct EntryEdit {
    /// The entry.
    pub id: EntryId,
    /// An object: the entry's own keys `[F4]` with their new values. `id`, `parentId` and `type` may stand in it when they are
    /// the entry's.
    pub payload: JsonText,
}

impl SessionManager {
    /// Replaces payload fields of entries in one atomic rewrite. One edit that is refused refuses all. Without edits it is a
    /// plain rewrite, in which every byte stays.
    ///
    /// # Errors
    /// [`ErrorKind::UnknownEntry`]; [`ErrorKind::InvalidInput`] for a payload that is no object or changes id, parent or
    /// type; [`ErrorKind::HeldElsewhere`]. Nothing is changed then.
    pub fn rewrite_entries(&mut self, edits: &[EntryEdit]) -> Result<()> {
        self.check_writable()?;
        if !self.is_on_disk() {
            let lines = self.edited_lines(edits)?;
            self.replace_in_memory(lines);
            return Ok(());
        }
        self.on_disk(|manager, disk| {
            // Where lines that this manager appended stand in the file is known after reading it.
            if edits.iter().any(|edit| manager.is_of_unknown_place(edit.id.as_str())) {
                disk.load_anew(&mut manager.session)?;
            }
            // Checked against what the file holds now, others' changes included.
            let lines = manager.edited_lines(edits)?;
            let blobs = manager.host.blobs();
            manager.rewrite_with(disk, manager.header().raw().to_vec(), |entry, _, _| match lines.get(&entry) {
                Some(line) => Ok(Some(persist(line, |image| blobs.put(image))?.as_str().as_bytes().to_vec())),
                None => Ok(None),
            })?;
            manager.replace_in_memory(lines);
            disk.load_anew(&mut manager.session)
        })
    }

    fn is_of_unknown_place(&self, id: &str) -> bool {
        let log = self.session.log();
        log.find(id).is_some_and(|entry| log.range(entry).is_none())
    }

    /// Replaces the arguments of a tool call, found by the call's id in the messages of the path to the leaf and then in all.
    ///
    /// # Errors
    /// [`ErrorKind::UnknownEntry`] when no message holds that call; else as [`rewrite_entries`](Self::rewrite_entries).
    pub fn rewrite_tool_call_arguments(&mut self, tool_call_id: &str, arguments: &JsonText) -> Result<()> {
        let mut payloads = self.session.payloads();
        for entry in self.session.log().indices().rev() {
            if self.session.log().kind(entry) != EntryKind::Message {
                continue;
            }
            let line = payloads.line(entry)?;
            let Some(message) = Json::new(&line).get("message") else { continue };
            if let Some(found) = arguments_of(message, tool_call_id) {
                let mut edits = Edits::default();
                edits.replace(found.range_in(message.raw()), arguments.on_one_line().as_bytes());
                let edited = JsonText::from_valid(&edits.apply(message.raw()));
                let payload = JsonText::from_valid(format!("{{\"message\":{edited}}}").as_bytes());
                let id = EntryId::from(self.session.log().id(entry));
                return self.rewrite_entries(&[EntryEdit { id, payload }]);
            }
        }
        let message = format!("no message holds a tool call `{tool_call_id}` with arguments");
        Err(Error::new(ErrorKind::UnknownEntry, message).at(&self.file))
    }

    /// The lines that the edits ask for, all checked.
    fn edited_lines(&self, edits: &[EntryEdit]) -> Result<HashMap<Index, JsonText>> {
        let log = self.session.log();
        let mut lines: HashMap<Index, JsonText> = HashMap::new();
        let mut payloads = self.session.payloads();
        for edit in edits {
            let refuse = |kind, message: &str| Error::new(kind, message).on_entry(edit.id.clone()).at(&self.file);
            let entry = log
                .find(edit.id.as_str())
                .ok_or_else(|| refuse(ErrorKind::UnknownEntry, "this session holds no such entry"))?;
            let view = edit.payload.view();
            if view.kind() != JsonKind::Object {
                return Err(refuse(ErrorKind::InvalidInput, "an edit's payload is an object of the entry's fields"));
            }
            if !keeps_place(log, entry, view) {
                return Err(refuse(ErrorKind::InvalidInput, "an edit can't change an entry's id, parent or type"));
            }
            let old = match lines.get(&entry) {
                Some(line) => line.as_str().as_bytes().to_vec(),
                None => payloads.line(entry)?,
            };
            let keys: Vec<_> =
                view.members().map(|member| (member.key().into_owned(), member.value.raw().to_vec())).collect();
            let changes: Vec<_> = keys.iter().map(|(key, value)| (key.as_str(), Change::Set(value))).collect();
            let line = String::from_utf8_lossy(&change_keys(&old, &changes)).replace(['\n', '\r'], "");
            lines.insert(entry, JsonText::parse(&line)?);
        }
        Ok(lines)
    }

    /// Entries that are kept in memory read as edited there too, uncut.
    fn replace_in_memory(&mut self, lines: HashMap<Index, JsonText>) {
        for (entry, line) in lines {
            self.session.loaded.log.replace_in_memory(entry, line);
        }
    }
}

/// Whether an edit leaves the entry's id, parent and type what they are.
fn keeps_place(log: &Log, entry: Index, edit: Json<'_>) -> bool {
    edit.members().all(|member| match member.key().as_ref() {
        "id" => member.value.text().as_deref() == Some(log.id(entry)),
        "parentId" => match log.parent_id(entry) {
            Some(parent) => member.value.text().as_deref() == Some(parent),
            None => member.value.is_null(),
        },
        "type" => member.value.text().as_deref() == Some(log.kind_name(entry)),
        _ => true,
    })
}

/// The arguments of a tool call in a message's content.
fn arguments_of<'a>(message: Json<'a>, tool_call_id: &str) -> Option<Json<'a>> {
    let call = message.get("content")?.items().find(|block| {
        let text = |key| block.get(key).and_then(Json::text);
        text("type").as_deref() == Some("toolCall") && text("id").as_deref() == Some(tool_call_id)
    })?;
    call.get("arguments")
}
