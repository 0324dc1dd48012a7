//! The movable leaf `[T2, T3]`.

use super::SessionManager;
use crate::compose::Draft;
use crate::error::Result;
use crate::id::EntryId;
use crate::json::JsonText;

impl SessionManager {
    /// Moves the leaf to an entry; nothing is written `[T2]`.
    ///
    /// # Errors
    /// [`ErrorKind::UnknownEntry`](crate::ErrorKind::UnknownEntry); the leaf stays.
    pub fn branch(&mut self, id: &str) -> Result<()> {
        self.known_entry(id)?;
        self.session.leaf = self.session.log().find(id);
        Ok(())
    }

    /// Moves the leaf before the first entry: the next append is a new root `[T2]`.
    pub fn reset_leaf(&mut self) {
        self.session.leaf = None;
    }

    /// Moves the leaf to `from` (none: before the first entry) and appends what the abandoned branch came to `[T3]`.
    ///
    /// # Errors
    /// [`ErrorKind::UnknownEntry`](crate::ErrorKind::UnknownEntry) changes nothing; else as every append.
    pub fn branch_with_summary(
        &mut self,
        from: Option<&str>,
        summary: &str,
        details: Option<&JsonText>,
        from_extension: Option<bool>,
    ) -> Result<EntryId> {
        self.check_writable()?;
        match from {
            Some(from) => self.branch(from)?,
            None => self.reset_leaf(),
        }
        let from_extension = from_extension.map(|value| JsonText::from_valid(value.to_string().as_bytes()));
        let draft = Draft::new("branch_summary")
            .text("fromId", from.unwrap_or("root"))
            .text("summary", summary)
            .optional("details", details.cloned())
            .optional("fromExtension", from_extension);
        self.append(&draft)
    }
}
