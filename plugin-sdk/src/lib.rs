//! For extension authors: state that follows the branch, messages to the model, lifecycle.
//!
//! ```
//! use plugin_sdk::{Extension, Saved, Version, testing::FakeSession};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Debug, PartialEq, Serialize, Deserialize)]
//! struct Todo {
//!     items: Vec<String>,
//! }
//!
//! // Once: a name, a type, and the version of its shape.
//! let todo = Extension::new("todo")?.state::<Todo>(Version(1));
//!
//! // With any session: a `SessionManager`, or, as here, the one for tests.
//! let mut session = FakeSession::new();
//! let begin = session.user("buy what we need");
//! let list = Todo { items: vec!["milk".into()] };
//! todo.save(&mut session, &list)?;
//! assert_eq!(todo.save(&mut session, &list)?, Saved::Unchanged);
//! assert_eq!(todo.load(&session)?, Some(list));
//!
//! // The state is the branch's: where it was not saved yet, there is none.
//! session.branch_to(&begin);
//! assert_eq!(todo.load(&session)?, None);
//! # Ok::<(), plugin_sdk::Error>(())
//! ```
//!
//! Everything begins with an [`Extension`] and works on a [`SessionWriter`]: a `SessionManager`, or a [`LiveSession`] when
//! listeners should hear what happens.
//!
//! * [`State`]: typed state with a schema version. Saved only when it differs from what is in force on this branch, never
//!   read from another branch, upgraded by functions of yours; data of a newer version is an error with the data in hand.
//! * [`Fold`]: state computed from the entries of the path, with snapshots.
//! * [`MessageDraft`]: messages to the model, checked before anything is written.
//! * [`LiveSession`]: events for listeners, whose failures never touch what is stored.
//! * [`Subscription`]: what other processes append.
//! * [`put_blob`] and [`get_blob`]: what is too large for a state. Texts of tools belong in the session's artifacts
//!   (`SessionManager::save_artifact`).
//! * [`testing`]: a fake session; a test of an extension is five lines. [`examples`]: programs to begin from.
//!
//! # Where an extension runs
//!
//! In the program that owns the session: it hands its `SessionManager` to the extension. A program of its own, beside a
//! harness that has the session open, is only a reader (see [`Subscription`]): what it appends is on disk and safe, but the
//! harness goes on from the leaf that it has in memory, and leaves those entries on a branch that nobody is on. Ask
//! `session_core::session_writers` who has a file open before you write to it; `watcher ext save` does that and refuses,
//! also for a minute after somebody else wrote.
//!
//! A session made with `SessionManager::create` has no file before the model's first answer: until then everything is in
//! memory (`SessionManager::is_on_disk`). One that was opened by its path is written from its first entry on. Where that path
//! holds something that is no session, a new session is made as by `create`; what was there is kept beside it and never added
//! to (`SessionManager::take_notices` says so).
//!
//! # What other programs see
//!
//! A state is a `custom` entry: `{"type":"custom",…,"customType":"todo","data":…,"schemaVersion":2}`. `data` is plain JSON;
//! programs that know no `schemaVersion` ignore it. In a TypeScript extension of the same family:
//!
//! ```ts
//! const entry = ctx.sessionManager.getBranch().findLast(e => e.type === "custom" && e.customType === "todo");
//! pi.appendEntry("todo", { items: [...entry.data.items, "milk"] });   // read back here as version 0
//! ```
//!
//! `plugin-sdk/harness/extension/watcher.ts` does the same with versions and the checks of this crate.

mod blob;
mod error;
pub mod examples;
mod extension;
mod finite;
mod fold;
mod listener;
mod live;
mod message;
mod place;
mod same;
mod state;
mod stored;
mod subscription;
pub mod testing;
mod value;
mod writer;

pub use blob::{BlobRef, get_blob, put_blob};
pub use error::{BoxError, Error, ErrorKind, Result};
pub use extension::{Extension, MAX_NAME_BYTES};
pub use fold::{Fold, Folded, SNAPSHOT_EVERY, Step};
pub use listener::{Event, Failure, Handle, LONGEST_CHAIN, ListenerFailure, Opening};
pub use live::LiveSession;
pub use message::{Attribution, Content, MessageDraft};
pub use state::{Record, Saved, State, Version};
pub use subscription::{Subscription, Update};
pub use value::{MAX_STATE_BYTES, Numbers};
pub use writer::SessionWriter;
