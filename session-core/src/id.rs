//! Ids of sessions and entries, and where new ones come from.
//!
//! Ids that we make have the forms of `[F2]` and `[F3]`. Ids that we read are any text: other programs write UUIDs.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::Timestamp;

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Box<str>);

        impl $name {
            /// The id as it stands in the file.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id! {
    /// The id of an entry: unique in its file; 8 lowercase hex digits when we made it `[F3]`.
    EntryId
}

text_id! {
    /// The id of a session: 16 lowercase hex digits, a snowflake, when we made it `[F2]`.
    SessionId
}

/// Where new ids come from; tests hand in one that counts.
pub trait IdSource: Send + Sync + fmt::Debug {
    /// A new session id for a session that starts at `now`.
    fn session_id(&self, now: Timestamp) -> SessionId;
    /// 32 bits for an entry id. The caller asks again until the id is not in the file.
    fn entry_bits(&self) -> u32;
}

/// Milliseconds between 1970 and the snowflake epoch 2015-01-01T00:00:00Z.
const SNOWFLAKE_EPOCH_MILLIS: i64 = 1_420_070_400_000;
const SEQUENCE_BITS: u32 = 22;

/// Ids from the operating system's randomness; the sequence part of a session id starts at a random number, so that two
/// processes that start a session in the same millisecond do not meet.
#[derive(Debug, Default)]
pub struct RandomIds {
    last: Mutex<u64>,
}

impl RandomIds {
    /// A source of random ids.
    pub fn new() -> Self {
        Self::default()
    }

    fn random() -> u64 {
        use std::hash::{BuildHasher, Hasher, RandomState};
        // Each `RandomState` is keyed from the operating system's randomness and differs from the one before.
        RandomState::new().build_hasher().finish()
    }
}

impl IdSource for RandomIds {
    fn session_id(&self, now: Timestamp) -> SessionId {
        let random = Self::random();
        let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut id = snowflake(now, random);
        if id == *last {
            id = snowflake(now, random.wrapping_add(1));
        }
        *last = id;
        SessionId::from(format!("{id:016x}"))
    }

    fn entry_bits(&self) -> u32 {
        let random = Self::random();
        low_half(random ^ (random >> 32))
    }
}

/// Ids that count up: what a test sees is the same in each run.
///
/// ```
/// use session_core::{CountingIds, IdSource, Timestamp};
/// let ids = CountingIds::new();
/// assert_eq!(ids.entry_bits(), 1);
/// assert_eq!(ids.session_id(Timestamp::from_millis(1_420_070_400_001).unwrap()).as_str(), "0000000000400002");
/// ```
#[derive(Debug, Default)]
pub struct CountingIds(AtomicU64);

impl CountingIds {
    /// A source that starts at 1.
    pub fn new() -> Self {
        Self::default()
    }

    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }
}

impl IdSource for CountingIds {
    fn session_id(&self, now: Timestamp) -> SessionId {
        SessionId::from(format!("{:016x}", snowflake(now, self.next())))
    }

    fn entry_bits(&self) -> u32 {
        low_half(self.next())
    }
}

fn low_half(bits: u64) -> u32 {
    let [a, b, c, d, ..] = bits.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

fn snowflake(now: Timestamp, sequence: u64) -> u64 {
    let millis = u64::try_from(now.millis() - SNOWFLAKE_EPOCH_MILLIS).unwrap_or(0) & ((1 << 42) - 1);
    millis << SEQUENCE_BITS | sequence & ((1 << SEQUENCE_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ids_are_snowflakes_of_their_time() {
        // [F2] 42 bits of milliseconds since 2015, then 22 bits of sequence.
        let now = Timestamp::parse("2026-01-05T09:30:00.000Z").unwrap();
        let ids = RandomIds::new();
        let (a, b) = (ids.session_id(now), ids.session_id(now));
        assert_ne!(a, b);
        for id in [a, b] {
            assert_eq!(id.as_str().len(), 16);
            let bits = u64::from_str_radix(id.as_str(), 16).unwrap();
            assert_eq!(i64::try_from(bits >> SEQUENCE_BITS).unwrap() + SNOWFLAKE_EPOCH_MILLIS, now.millis());
        }
    }
}
