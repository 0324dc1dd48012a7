//! Sessions of coding agents: the file format, its tree of entries, the context for the model, durable writing, blobs,
//! finding sessions and terminal pointers.
//!
//! Where to begin:
//!
//! - [`Catalog`] finds sessions: what there are, which one a name means, which one to continue.
//! - [`Session`] reads one: entries, tree, context for the model, usage, damage. It never writes.
//! - [`SessionManager`] writes one: appends, branches, forks, names, moves. A [`Host`] says where, and with which clock.
//! - [`follow`] tails a file that others write.
//! - [`BlobStore`] holds the images that sessions name, [`Pointers`] say which session a terminal is at.
//!
//! ```
//! # fn main() -> session_core::Result<()> {
//! # let home = tempfile::tempdir().unwrap();
//! # let home = home.path();
//! use session_core::{AgentDir, Catalog, Environment, Host, JsonText, Leaf, Session, SessionManager};
//!
//! let (agent, environment) = (AgentDir::at(home.join(".xcsh/agent"))?, Environment::new(home));
//! let host = Host::new(agent.clone(), environment.clone());
//! let mut writer = SessionManager::create(&host, home, None)?;
//! writer.append_message(&JsonText::parse(r#"{"role":"user","content":"fix the login page","timestamp":1}"#)?)?;
//! writer.append_message(&JsonText::parse(r#"{"role":"assistant","content":[],"timestamp":2}"#)?)?;
//! writer.close()?;
//!
//! let listing = Catalog::new(agent, environment).list(Some(home), None)?;
//! assert_eq!(listing.sessions[0].first_message(), "fix the login page");
//! let session = Session::read(listing.sessions[0].path())?;
//! assert_eq!(session.context(&Leaf::Current)?.messages().len(), 2);
//! # Ok(())
//! # }
//! ```
//!
//! All of it touches the disk through a [`storage::SessionStorage`], and takes time, ids and environment from its caller.
//! Tags such as `[F3]` number the rules that the code keeps; ARCHITECTURE.md lists them by letter.

mod artifacts;
mod blob;
mod block;
mod brackets;
mod catalog;
mod clock;
mod compose;
mod context;
mod defect;
mod deletion;
mod disk;
mod entry;
mod error;
mod fingerprint;
pub mod follow;
mod header;
mod id;
mod json;
mod layout;
mod lines;
mod load;
mod log;
mod manager;
mod message;
mod migrate;
mod payload;
mod persist;
mod pointer;
mod reader;
mod salvage;
mod scan;
mod session;
mod source;
mod splice;
pub mod storage;
mod terminal;
mod trash;
mod tree;
mod usage;

pub use artifacts::{Artifact, ArtifactId, Artifacts};
pub use blob::collect::{Collected, CollectionPlan, CollectionScope, UnreferencedFile};
pub use blob::resolve::{BlobProblem, BlobProblemKind, resolve_blobs};
pub use blob::{BlobHash, BlobStore};
pub use catalog::{
    CacheMode, Catalog, Likely, LikelyReason, ListDepth, Listing, MessageText, Problem, ProblemKind, RecentSession,
    Resolved, ResolvedBy, SessionInfo, Status, Texts, time_ago,
};
pub use clock::{Clock, ManualClock, SystemClock, Timestamp};
pub use context::{Context, ContextMessage};
pub use defect::{Defect, DefectKind, Defects};
pub use deletion::{delete_session_with_artifacts, session_writers};
pub use disk::ForeignWriters;
pub use entry::EntryKind;
pub use error::{Error, ErrorKind, Result};
pub use header::{CURRENT_VERSION, FormatVersion, Header, NameSource, TITLE_SLOT_LEN, TitleSlot};
pub use id::{CountingIds, EntryId, IdSource, RandomIds, SessionId};
pub use json::{Items, Json, JsonKind, JsonText, Member, Members, quote};
pub use layout::{AgentDir, Environment, Harness, artifact_dir, encode_cwd, same_path, session_file_name};
pub use manager::{
    CompactionEntry, CustomMessageEntry, EntryEdit, Forked, Host, Notice, Repair, RepairPlan, SessionInitEntry,
    SessionManager,
};
pub use message::{Block, Blocks, Message, Role};
pub use persist::{MAX_TEXT_UNITS, persist};
pub use pointer::{Pointer, PointerChange, Pointers, StoredPointer};
pub use reader::EntryReader;
pub use session::{Entry, Leaf, Session};
pub use terminal::{TerminalId, stdin_terminal};
pub use trash::{Trash, Trashed};
pub use tree::TreeNode;
pub use usage::Usage;
