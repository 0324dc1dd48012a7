//! What an extension may do to a session, and through whom: the manager itself, a live session, a listener's handle.

use session_core::{CustomMessageEntry, EntryId, Host, JsonText, Session, SessionManager};

use crate::error::Result;

/// A session that extensions write to.
///
/// Implemented by [`SessionManager`], [`LiveSession`](crate::LiveSession), a listener's [`Handle`](crate::Handle) and
/// [`FakeSession`](crate::testing::FakeSession): what takes one takes all. Reading goes through `AsRef<Session>`.
pub trait SessionWriter: AsRef<Session> {
    /// Storage, agent directory, time and ids.
    fn host(&self) -> &Host;

    /// Appends a `custom` entry, as [`SessionManager::append_custom_entry`].
    fn append_custom(&mut self, custom_type: &str, data: Option<&JsonText>, version: Option<u32>) -> Result<EntryId>;

    /// Appends a `custom_message` entry, as [`SessionManager::append_custom_message_entry`].
    fn append_custom_message(&mut self, message: &CustomMessageEntry) -> Result<EntryId>;

    /// Sets a label, as [`SessionManager::append_label_change`].
    fn append_label(&mut self, target: &str, label: Option<&str>) -> Result<EntryId>;

    /// Writes what an earlier append could not write, as [`SessionManager::flush`].
    fn flush(&mut self) -> Result<()>;
}

impl SessionWriter for SessionManager {
    fn host(&self) -> &Host {
        Self::host(self)
    }

    fn append_custom(&mut self, custom_type: &str, data: Option<&JsonText>, version: Option<u32>) -> Result<EntryId> {
        Ok(self.append_custom_entry(custom_type, data, version)?)
    }

    fn append_custom_message(&mut self, message: &CustomMessageEntry) -> Result<EntryId> {
        Ok(self.append_custom_message_entry(message)?)
    }

    fn append_label(&mut self, target: &str, label: Option<&str>) -> Result<EntryId> {
        Ok(self.append_label_change(target, label)?)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(Self::flush(self)?)
    }
}
