//! What was said in a session `[R3]`: the text of its user and assistant messages, for searching through.

use crate::entry::EntryKind;
use crate::error::Result;
use crate::log::Index;
use crate::message::{Message, Role};
use crate::payload::Payloads;
use crate::session::Session;

/// The text of one message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageText {
    /// Who said it: the user or the assistant.
    pub role: Role,
    /// Its text blocks, joined by a space; never empty.
    pub text: String,
}

/// Iterator over the texts of a session's user and assistant messages, in the order of the file. One message is in memory
/// at a time. An error is that of reading the file, and the last item.
#[derive(Debug)]
pub struct Texts<'s> {
    session: &'s Session,
    payloads: Payloads<'s>,
    next: Index,
}

impl Session {
    /// All text of user and assistant messages `[R3]`; messages without text are left out.
    ///
    /// ```
    /// use session_core::{Session, storage::{MemorySessionStorage, SessionStorage}};
    /// use std::{path::Path, sync::Arc};
    /// # fn main() -> session_core::Result<()> {
    /// let storage = Arc::new(MemorySessionStorage::new());
    /// storage.write_text(Path::new("/x.jsonl"), concat!(
    ///     r#"{"type":"session","version":3,"id":"15c0000000000001","timestamp":"2026-01-05T09:30:00.000Z","cwd":"/w"}"#, "\n",
    ///     r#"{"type":"message","id":"00000001","parentId":null,"timestamp":"2026-01-05T09:30:01.000Z","message":{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}}"#, "\n",
    /// ))?;
    /// let session = Session::read_from(storage, Path::new("/x.jsonl"))?;
    /// let texts: Result<Vec<String>, _> = session.texts().map(|item| item.map(|message| message.text)).collect();
    /// assert_eq!(texts?, ["a b"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn texts(&self) -> Texts<'_> {
        Texts { session: self, payloads: self.payloads(), next: 0 }
    }
}

impl Iterator for Texts<'_> {
    type Item = Result<MessageText>;

    fn next(&mut self) -> Option<Self::Item> {
        let log = self.session.log();
        while (self.next as usize) < log.len() {
            let entry = self.next;
            self.next += 1;
            if log.kind(entry) != EntryKind::Message {
                continue;
            }
            let json = match self.payloads.read(entry) {
                Ok(payload) => payload.json,
                Err(error) => {
                    self.next = Index::MAX;
                    return Some(Err(error));
                }
            };
            let Some(message) = json.as_ref().and_then(|json| json.view().get("message")).map(Message::new) else {
                continue;
            };
            let role = message.role();
            if matches!(role, Role::User | Role::Assistant) {
                let text = message.text(" ");
                if !text.is_empty() {
                    return Some(Ok(MessageText { role, text }));
                }
            }
        }
        None
    }
}
