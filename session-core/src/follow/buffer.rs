//! Bytes that were read, in memory that the next look can use again. It knows nothing of lines or files.

use std::fmt;
use std::ops::Deref;

/// The memory that looks read into. Whoever looks at many files hands it from [look to look](super::Follower::look_into):
/// memory is cleared once, and not for every slice of every file.
#[derive(Default)]
pub struct Buffer {
    /// What was read, and behind it memory that was cleared or read into before.
    memory: Vec<u8>,
    len: usize,
}

impl Buffer {
    /// Room for so many bytes behind what was read; [`extend`](Self::extend) says how many came.
    pub(super) fn room(&mut self, wanted: usize) -> &mut [u8] {
        let end = self.len + wanted;
        if self.memory.len() < end {
            self.memory.resize(end, 0);
        }
        &mut self.memory[self.len..end]
    }

    /// So many bytes were read into the [room](Self::room).
    pub(super) fn extend(&mut self, read: usize) {
        self.truncate(self.len + read);
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
        self.extend(bytes.len());
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.len = len.min(self.memory.len());
    }

    /// Takes bytes off the beginning.
    pub(super) fn skip(&mut self, bytes: usize) {
        self.memory.copy_within(bytes..self.len, 0);
        self.len -= bytes;
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[..self.len]
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("len", &self.len).field("memory", &self.memory.len()).finish()
    }
}
