//! The prompt store: every prompt that was typed to a coding agent, in one SQLite file, found again by search.
//!
//! Begin with [`HistoryStorage`]:
//!
//! ```
//! # fn main() -> Result<(), history::Error> {
//! # let dir = tempfile::tempdir().unwrap();
//! use history::{HistoryStorage, Scope, SearchOptions};
//!
//! let store = HistoryStorage::open(dir.path().join("history.db"))?;
//! store.add("fix the login page", Some("/home/u/project")).wait()?;
//! let page = store.search("log fix", &SearchOptions::new(20))?;
//! assert_eq!(page.entries()[0].prompt(), "fix the login page");
//! assert!(store.recent(20, &Scope::directory("/elsewhere"))?.is_empty());
//! store.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! The file is shared with the harness that owns it and may be writing at the same time, so this crate behaves as a
//! guest: it keeps the harness's schema and journal mode, holds the write lock for at most a tenth of a second, puts
//! everything of its own into tables whose names begin with [`TABLE_PREFIX`], and can take all of that away again.
//!
//! - [`HistoryStorage`] opens a database, adds prompts without waiting for the disk, and answers questions.
//! - [`Submission`] is one prompt handed in; [`Pending`] is the answer that can be awaited or dropped.
//! - [`Scope`] says which submissions a question is about; [`Entry`] is what comes back.
//!
//! # What survives
//!
//! An answer that was awaited survives `kill -9` and the loss of power; one that was dropped is written all the same, and
//! [`close`](HistoryStorage::close) and dropping the store wait for it. Rows and the caller's own statements in
//! [`apply`](HistoryStorage::apply) are committed together or not at all. Imports and index builds go in slices, each of
//! them whole: cut short at any instant, they are gone on with.
//!
//! # What is not promised
//!
//! SQLite before 3.51.3 can lose a committed transaction when two connections reset the write-ahead log at the same
//! moment. Ours is a later one (anything else is refused on open), and beside other processes our checkpoints only are
//! passive; what the owner's own SQLite does in its process is beyond us. Times are seconds: of two programs that record
//! the same prompt a minute apart, nobody can tell that it was one. One prompt is one piece: the words of one of ten
//! megabytes keep the write lock for longer than a tenth of a second. A table of the owner's without an index on
//! `created_at` is read whole for each prompt that comes from a session file.
//!
//! It knows nothing of session files, command lines or async runtimes.

mod bulk;
mod candidates;
mod copy;
mod database;
mod detach;
mod entry;
mod error;
mod exclusions;
mod export;
mod fold;
mod forget;
mod guard;
mod health;
mod import;
mod index;
mod known;
mod ledger;
mod limit;
mod matcher;
mod meta;
mod occupancy;
mod options;
mod order;
mod pending;
mod place;
mod prepare;
mod query;
mod read_only;
mod rebuild;
mod redact;
mod schema;
mod scope;
mod search;
mod selection;
mod slice;
mod sql;
mod stats;
#[cfg(test)]
mod steps;
mod storage;
mod submission;
mod tombstone;
mod triggers;
mod turn;
mod unclaimed;
mod value;
mod words;
mod writer;

pub use detach::Detached;
pub use entry::{Entry, Page, RowId};
pub use error::{Error, ErrorKind, Result};
pub use forget::Deleted;
pub use health::Health;
pub use import::{Import, Imported};
pub use limit::Limit;
pub use options::{Access, OpenOptions};
pub use pending::Pending;
pub use rebuild::Rebuilt;
pub use redact::Redaction;
pub use rusqlite;
pub use schema::TABLE_PREFIX;
pub use scope::Scope;
pub use search::{Order, SearchOptions};
pub use selection::Selection;
pub use stats::Stats;
pub use storage::{HistoryStorage, Notice};
pub use submission::{EntryKey, Outcome, Recorded, Submission};
