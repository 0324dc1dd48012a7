//! Reading the JSON of many entries, one after the other.
//!
//! The one thing it adds to [`Entry::json`]: what was read ahead (or behind) of one entry serves the next.

use crate::error::Result;
use crate::json::JsonText;
use crate::payload::Payloads;
use crate::session::{Entry, Session};

/// Reads entries of one session through a window of its file: neighbours cost one read, in either direction.
///
/// ```
/// use session_core::{EntryKind, Leaf, Session};
/// # let file = std::env::temp_dir().join(format!("doc-reader-{}.jsonl", std::process::id()));
/// # std::fs::write(&file, concat!(
/// #     r#"{"type":"session","version":3,"id":"15c0000000000001","timestamp":"2026-01-05T09:30:00.000Z","cwd":"/w"}"#, "\n",
/// #     r#"{"type":"custom","id":"00000001","parentId":null,"timestamp":"2026-01-05T09:30:01.000Z","customType":"x","data":1}"#, "\n",
/// # )).unwrap();
/// let session = Session::read(&file)?;
/// let mut reader = session.reader();
/// for entry in session.branch_path(&Leaf::Current).into_iter().rev().filter(|entry| entry.kind() == EntryKind::Custom) {
///     assert_eq!(reader.json(entry)?.view().get("data").unwrap().integer(), Some(1));
/// }
/// # std::fs::remove_file(&file).unwrap();
/// # Ok::<(), session_core::Error>(())
/// ```
#[derive(Debug)]
pub struct EntryReader<'s> {
    session: &'s Session,
    payloads: Payloads<'s>,
}

impl Session {
    /// A reader of many entries' JSON.
    pub fn reader(&self) -> EntryReader<'_> {
        EntryReader { session: self, payloads: self.payloads() }
    }
}

impl EntryReader<'_> {
    /// The whole entry as JSON, as [`Entry::json`] gives it. An entry of another session is read without the window.
    ///
    /// # Errors
    /// As [`Entry::json`].
    pub fn json(&mut self, entry: Entry<'_>) -> Result<JsonText> {
        if entry.is_of(self.session) { entry.json_through(&mut self.payloads) } else { entry.json() }
    }
}
