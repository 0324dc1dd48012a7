//! Content-addressed storage of images `[D6, W10]`: a blob's name is the SHA-256 of its bytes.
//!
//! A blob is written once and never changed: the same image in a hundred entries is one file. This module knows no JSON
//! (see [`resolve`]) and removes nothing (see [`collect`]).

pub(crate) mod collect;
pub(crate) mod references;
pub(crate) mod resolve;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};
use crate::storage::{Replacement, SessionStorage};

/// How a reference to a blob begins; 64 hex digits follow.
pub(crate) const REFERENCE_PREFIX: &str = "blob:sha256:";

/// The SHA-256 of a blob's bytes: its name.
///
/// ```
/// use session_core::BlobHash;
/// let hash = BlobHash::of(b"");
/// assert_eq!(hash.to_string(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
/// assert_eq!(BlobHash::parse_reference(&hash.reference().to_uppercase().replace("BLOB:SHA", "blob:sha")), Some(hash));
/// assert_eq!(BlobHash::parse_reference("blob:sha256:../../etc/passwd"), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobHash([u8; 32]);

impl BlobHash {
    /// The hash of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Reads 64 hex digits of either case. None for everything else, so no path escapes `[W10]`.
    pub fn parse(hex: &str) -> Option<Self> {
        let digits = hex.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = hex_digit(pair[0])? << 4 | hex_digit(pair[1])?;
        }
        Some(Self(hash))
    }

    /// Reads a reference as it stands in a session file: `blob:sha256:` and 64 hex digits of either case.
    pub fn parse_reference(text: &str) -> Option<Self> {
        Self::parse(text.strip_prefix(REFERENCE_PREFIX)?)
    }

    /// The reference to this blob, as it stands in a session file.
    pub fn reference(&self) -> String {
        format!("{REFERENCE_PREFIX}{self}")
    }
}

fn hex_digit(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// 64 lower-case hex digits: the name on disk.
impl fmt::Display for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The blobs of an agent directory.
///
/// ```
/// use std::sync::Arc;
/// use session_core::storage::MemorySessionStorage;
/// use session_core::{BlobStore, SystemClock};
/// let blobs = BlobStore::new(Arc::new(MemorySessionStorage::new()), "/agent/blobs", Arc::new(SystemClock));
/// let hash = blobs.put(b"an image")?;
/// assert_eq!(blobs.get(&hash)?.unwrap(), b"an image");
/// assert_eq!(blobs.put(b"an image")?, hash);
/// # Ok::<(), session_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct BlobStore {
    storage: Arc<dyn SessionStorage>,
    dir: PathBuf,
    clock: Arc<dyn Clock>,
}

impl BlobStore {
    /// The blobs in `dir`, which is made (0700) when the first blob is put.
    pub fn new(storage: Arc<dyn SessionStorage>, dir: impl Into<PathBuf>, clock: Arc<dyn Clock>) -> Self {
        Self { storage, dir: dir.into(), clock }
    }

    /// The directory that holds the blobs.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where the blob is or would be.
    pub fn path(&self, hash: &BlobHash) -> PathBuf {
        self.dir.join(hash.to_string())
    }

    /// Stores `bytes` and gives their name.
    ///
    /// When this returns the blob is on the medium under its final name, whole: a line that names it may be written. A crash
    /// or power cut before that leaves nothing under that name, at worst a temporary file that a later collection removes. A
    /// blob that is there already is not written again, only its time is refreshed, so that no collection takes it before
    /// the line is written.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] when something else is at the blob's place; it is left there for whoever can use it. Otherwise
    /// what the storage says.
    pub fn put(&self, bytes: &[u8]) -> Result<BlobHash> {
        let hash = BlobHash::of(bytes);
        let path = self.path(&hash);
        if self.refresh(&path)? && self.holds(&path, bytes)? {
            return Ok(hash);
        }
        self.storage.ensure_dir(&self.dir)?;
        let mut blob = Replacement::of(&*self.storage, &path)?;
        blob.write(bytes)?;
        // A file system may keep another time than the clock that ages are reckoned by.
        blob.set_modified(self.now())?;
        blob.commit()?;
        Ok(hash)
    }

    /// The bytes of a blob, checked; none when there is no such blob.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] when its content is not what its name says `[W10]`.
    pub fn get(&self, hash: &BlobHash) -> Result<Option<Vec<u8>>> {
        let path = self.path(hash);
        let bytes = match self.storage.read_bytes(&path, u64::MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if BlobHash::of(&bytes) == *hash { Ok(Some(bytes)) } else { Err(corrupt(&path)) }
    }

    /// Gives the blob at `path` the time of now; false when there is none. This comes before anything else is asked of it:
    /// a collection looks at the time last, so the two never miss each other.
    fn refresh(&self, path: &Path) -> Result<bool> {
        match self.storage.set_modified(path, self.now()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => {
                // Somebody else's file: still a blob, if its content says so.
                tracing::debug!(%error, "the time of a blob could not be refreshed");
                self.storage.exists(path)
            }
        }
    }

    /// Whether the file at `path` holds exactly `bytes`; false when it is gone.
    fn holds(&self, path: &Path, bytes: &[u8]) -> Result<bool> {
        let reader = match self.storage.open_reader(path) {
            Ok(reader) => reader,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) if error.kind() == ErrorKind::NotAFile => return Err(corrupt(path)),
            Err(error) => return Err(error),
        };
        if reader.stat()?.len != bytes.len() as u64 {
            return Err(corrupt(path));
        }
        let mut buffer = vec![0; bytes.len().min(256 * 1024)];
        let mut rest = bytes;
        while !rest.is_empty() {
            let read = reader.read_at((bytes.len() - rest.len()) as u64, &mut buffer)?;
            match rest.split_at_checked(read) {
                Some((same, after)) if read > 0 && *same == buffer[..read] => rest = after,
                _ => return Err(corrupt(path)),
            }
        }
        Ok(true)
    }

    fn now(&self) -> SystemTime {
        let millis = self.clock.now().millis();
        let distance = Duration::from_millis(millis.unsigned_abs());
        if millis < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
    }
}

fn corrupt(path: &Path) -> Error {
    let message = "the content of this blob is not what its name says; restore it from a copy, or move it away";
    Error::new(ErrorKind::Corrupt, message).at(path)
}
