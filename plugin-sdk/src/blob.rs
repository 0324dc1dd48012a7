//! Large parts of a state, kept outside of it: the state holds a reference, the bytes lie in the blob store `[D6, W10]`.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use session_core::BlobHash;

use crate::error::Result;
use crate::writer::SessionWriter;

/// A reference to a blob, to be kept in a state: in JSON the text `blob:sha256:<64 hex digits>`.
///
/// As long as a session file holds the reference, no collection of unreferenced blobs takes the blob `[W11]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobRef(BlobHash);

impl BlobRef {
    /// The hash of the blob's bytes.
    pub fn hash(&self) -> &BlobHash {
        &self.0
    }
}

impl fmt::Display for BlobRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.reference())
    }
}

impl Serialize for BlobRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.reference())
    }
}

impl<'de> Deserialize<'de> for BlobRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let hash = BlobHash::parse_reference(&text);
        hash.map(Self)
            .ok_or_else(|| serde::de::Error::custom("no reference to a blob: `blob:sha256:` and 64 hex digits"))
    }
}

/// Stores bytes as a blob. When this returns they are on the medium, whole; save the state that names them afterwards.
///
/// ```
/// use plugin_sdk::{get_blob, put_blob, testing::FakeSession};
/// let session = FakeSession::new();
/// let picture = put_blob(&session, b"a large picture")?;
/// assert_eq!(get_blob(&session, &picture)?.unwrap(), b"a large picture");
/// # Ok::<(), plugin_sdk::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Session`](crate::ErrorKind::Session), as [`BlobStore::put`](session_core::BlobStore::put).
pub fn put_blob<S: SessionWriter + ?Sized>(session: &S, bytes: &[u8]) -> Result<BlobRef> {
    Ok(BlobRef(session.host().blobs().put(bytes)?))
}

/// The bytes of a blob, checked against its name; none when there is no such blob.
///
/// # Errors
/// [`ErrorKind::Session`](crate::ErrorKind::Session), as [`BlobStore::get`](session_core::BlobStore::get): other content under
/// that name is never returned.
pub fn get_blob<S: SessionWriter + ?Sized>(session: &S, blob: &BlobRef) -> Result<Option<Vec<u8>>> {
    Ok(session.host().blobs().get(blob.hash())?)
}
