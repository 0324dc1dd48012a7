//! Sessions of coding agents: the file format, its tree of entries, the context for the model, durable writing, blobs,
//! finding sessions and terminal pointers.

mod artifacts;
mod blob;
mod clock;
mod error;
mod id;
mod json;
mod persist;
mod splice;
pub mod storage;

pub use artifacts::{Artifact, ArtifactId, Artifacts};
pub use blob::collect::{Collected, CollectionPlan, CollectionScope, UnreferencedFile};
pub use blob::resolve::{BlobProblem, BlobProblemKind, resolve_blobs};
pub use blob::{BlobHash, BlobStore};
pub use clock::{Clock, ManualClock, SystemClock, Timestamp};
pub use error::{Error, ErrorKind, Result};
pub use id::{CountingIds, EntryId, IdSource, RandomIds, SessionId};
pub use json::{Items, Json, JsonKind, JsonText, Member, Members, quote};
pub use persist::{MAX_TEXT_UNITS, persist};
