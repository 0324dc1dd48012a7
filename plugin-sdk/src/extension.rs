//! An extension's name, which is the `customType` of all that it writes.
//!
//! # Names on disk
//!
//! An entry of an extension is known by its `customType` alone. The one state and the messages of the extension `todo` have
//! the type `todo`; its state, fold or message *named* `settings` has the type `todo/settings`. A TypeScript extension that
//! calls `appendEntry("todo/settings", data)` shares that state. Two names that give the same type are the same state.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::fold::{Fold, Step};
use crate::message::{Content, MessageDraft};
use crate::state::{State, Version};

/// The longest custom type, in bytes.
pub const MAX_NAME_BYTES: usize = 256;

/// An extension: where everything it writes begins.
///
/// ```
/// use plugin_sdk::{ErrorKind, Extension, Version};
/// let todo = Extension::new("todo")?;
/// assert_eq!(todo.state::<Vec<String>>(Version(1)).custom_type(), "todo");
/// assert_eq!(todo.named_state::<bool>("settings", Version(1))?.custom_type(), "todo/settings");
/// assert_eq!(Extension::new("line\nfeed").unwrap_err().kind(), ErrorKind::InvalidName);
/// # Ok::<(), plugin_sdk::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Extension {
    name: CustomType,
}

/// A checked `customType`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CustomType(String);

impl CustomType {
    fn new(name: &str) -> Result<Self> {
        let refuse = |message: &str| Err(Error::new(ErrorKind::InvalidName, format!("{name:?}: {message}")));
        if name.trim().is_empty() {
            return refuse("a name is not empty");
        }
        if name.len() > MAX_NAME_BYTES {
            let message = format!("a name of {} bytes; at most {MAX_NAME_BYTES} are allowed", name.len());
            return Err(Error::new(ErrorKind::InvalidName, message));
        }
        if name.chars().any(char::is_control) {
            return refuse("a name has no control characters");
        }
        Ok(Self(name.to_owned()))
    }

    fn named(&self, name: &str) -> Result<Self> {
        if name.contains('/') {
            return Err(Error::new(ErrorKind::InvalidName, format!("{name:?}: the name of a state has no slash")));
        }
        Self::new(name)?;
        Self::new(&format!("{self}/{name}"))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CustomType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Extension {
    /// An extension of this name.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidName`] when it is blank, longer than [`MAX_NAME_BYTES`] or holds control characters.
    pub fn new(name: &str) -> Result<Self> {
        Ok(Self { name: CustomType::new(name)? })
    }

    /// The extension's name.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// The extension's state, of the shape `T` in this version.
    pub fn state<T: Serialize + DeserializeOwned>(&self, version: Version) -> State<T> {
        State::new(self.name.clone(), version)
    }

    /// A state of its own beside the others of this extension.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidName`] as [`Extension::new`], and for a name with a slash.
    pub fn named_state<T: Serialize + DeserializeOwned>(&self, name: &str, version: Version) -> Result<State<T>> {
        Ok(State::new(self.name.named(name)?, version))
    }

    /// State that is computed from the entries of the path, with snapshots of this name and version.
    ///
    /// Raise the version whenever `step` comes to mean something else: snapshots of other versions are not used.
    ///
    /// # Errors
    /// As [`named_state`](Self::named_state).
    pub fn fold<S, F>(&self, name: &str, version: Version, step: F) -> Result<Fold<S>>
    where
        S: Default + Serialize + DeserializeOwned,
        F: Fn(&mut S, &mut Step<'_, '_>) -> Result<(), BoxError> + Send + Sync + 'static,
    {
        Ok(Fold::new(self.named_state(name, version)?, step))
    }

    /// A message to the model, not yet written.
    pub fn message(&self, content: impl Into<Content>) -> MessageDraft {
        MessageDraft::new(self.name.clone(), content.into())
    }

    /// A message of a kind of its own, as [named](Self::named_state) states are.
    ///
    /// # Errors
    /// As [`named_state`](Self::named_state).
    pub fn named_message(&self, name: &str, content: impl Into<Content>) -> Result<MessageDraft> {
        Ok(MessageDraft::new(self.name.named(name)?, content.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for bad in ["", "  ", "a\u{0}", "a\n", "\u{1b}[1m", "\u{85}", &"x".repeat(MAX_NAME_BYTES + 1)] {
            assert_eq!(Extension::new(bad).unwrap_err().kind(), ErrorKind::InvalidName, "{bad:?}");
        }
        let extension = Extension::new(&"x".repeat(MAX_NAME_BYTES - 2)).unwrap();
        assert!(extension.named_state::<()>("a", Version(1)).is_ok());
        for bad in ["ab", "", "a/b", "a\t"] {
            assert_eq!(extension.named_state::<()>(bad, Version(1)).unwrap_err().kind(), ErrorKind::InvalidName);
        }
    }
}
