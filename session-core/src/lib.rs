//! Sessions of coding agents: the file format, its tree of entries, the context for the model, durable writing, blobs,
//! finding sessions and terminal pointers.

mod artifacts;
mod blob;
mod clock;
mod error;
mod id;
mod json;
mod layout;
mod persist;
mod pointer;
mod splice;
pub mod storage;
mod terminal;

pub use artifacts::{Artifact, ArtifactId, Artifacts};
pub use blob::collect::{Collected, CollectionPlan, CollectionScope, UnreferencedFile};
pub use blob::resolve::{BlobProblem, BlobProblemKind, resolve_blobs};
pub use blob::{BlobHash, BlobStore};
pub use clock::{Clock, ManualClock, SystemClock, Timestamp};
pub use error::{Error, ErrorKind, Result};
pub use id::{CountingIds, EntryId, IdSource, RandomIds, SessionId};
pub use json::{Items, Json, JsonKind, JsonText, Member, Members, quote};
pub use layout::{AgentDir, Environment, Harness, artifact_dir, encode_cwd, same_path, session_file_name};
pub use persist::{MAX_TEXT_UNITS, persist};
pub use pointer::{Pointer, PointerChange, Pointers, StoredPointer};
pub use terminal::{TerminalId, stdin_terminal};
