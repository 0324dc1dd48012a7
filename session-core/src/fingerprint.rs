//! What a short range of a file held when it was read, and whether it still does.
//!
//! Device and inode tell files apart only while both exist: an inode is used again once its file is gone, and a file can be
//! emptied and written anew. A few bytes read again tell the rest. Nothing here knows what the bytes mean.

use sha2::{Digest, Sha256};

use crate::error::Result;
use crate::storage::{StorageReader, read_range};

/// The bytes of a fingerprint's hash: the first half of a SHA-256.
const HASH_LEN: usize = 16;

/// A range of a file and the hash of what it held.
///
/// The length is part of it, so a file that only grew still matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    offset: u64,
    len: u64,
    hash: [u8; HASH_LEN],
}

impl Fingerprint {
    /// Of `bytes`, which stand at `offset`.
    pub(crate) fn of(offset: u64, bytes: &[u8]) -> Self {
        let mut hash = [0; HASH_LEN];
        hash.copy_from_slice(&Sha256::digest(bytes)[..HASH_LEN]);
        Self { offset, len: bytes.len() as u64, hash }
    }

    /// Where the range begins.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether the file holds the same bytes there now. Reads as many bytes as the range has, and none twice.
    pub(crate) fn matches(&self, file: &dyn StorageReader) -> Result<bool> {
        Ok(*self == Self::of(self.offset, &read_range(file, self.offset, self.len)?))
    }

    /// Whether bytes that stand where the range does begin with what it held.
    pub(crate) fn is_of(&self, bytes: &[u8]) -> bool {
        let len = usize::try_from(self.len).unwrap_or(usize::MAX);
        bytes.get(..len).is_some_and(|bytes| *self == Self::of(self.offset, bytes))
    }

    /// As text: offset, length and hash, between colons.
    pub(crate) fn to_text(self) -> String {
        format!("{}:{}:{:032x}", self.offset, self.len, u128::from_be_bytes(self.hash))
    }

    /// Reads the form of [`to_text`](Self::to_text).
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let (offset, len, digits) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?);
        if parts.next().is_some() || digits.len() != 2 * HASH_LEN {
            return None;
        }
        // Digits only: `from_str_radix` would take a sign, too.
        let digits = digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(digits)?;
        let hash = u128::from_str_radix(digits, 16).ok()?.to_be_bytes();
        Some(Self { offset, len, hash })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form() {
        let fingerprint = Fingerprint::of(1 << 60, b"abc");
        assert_eq!(Fingerprint::parse(&fingerprint.to_text()), Some(fingerprint));
        for broken in ["", "1:2", "1:2:00", "1:2:zz", &format!("{}:", fingerprint.to_text()), "-1:0:é"] {
            assert_eq!(Fingerprint::parse(broken), None, "{broken}");
        }
        let odd = format!("1:2:{}", "é".repeat(16));
        assert_eq!(Fingerprint::parse(&odd), None);
    }
}
