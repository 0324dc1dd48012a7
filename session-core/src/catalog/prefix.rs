//! The beginning of a file, as if the file ended there `[R1]`.
//!
//! It lets the reader of sessions read only as far as it must: what stands behind the end is not there, until the end is
//! moved on. Bytes near the beginning are read once and kept, so that looking back costs nothing. It judges nothing.

use std::sync::{Mutex, PoisonError};

use crate::error::Result;
use crate::source::WINDOW;
use crate::storage::{Stat, StorageReader};

/// How much of the beginning is kept.
const KEPT: usize = WINDOW;

#[derive(Debug)]
pub(super) struct Prefix {
    file: Box<dyn StorageReader>,
    /// What the file was when it was opened.
    stat: Stat,
    view: Mutex<View>,
}

#[derive(Debug)]
struct View {
    head: Vec<u8>,
    end: u64,
}

impl Prefix {
    /// An empty beginning of `file`.
    pub(super) fn of(file: Box<dyn StorageReader>) -> Result<Self> {
        let stat = file.stat()?;
        Ok(Self { file, stat, view: Mutex::new(View { head: Vec::new(), end: 0 }) })
    }

    /// What the whole file was when it was opened.
    pub(super) fn whole(&self) -> &Stat {
        &self.stat
    }

    /// Moves the end on to `end`.
    pub(super) fn grow(&self, end: u64) -> Result<()> {
        let mut view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        let View { head, .. } = &mut *view;
        let (start, wanted) = (head.len(), clipped(end));
        if wanted > start {
            head.resize(wanted, 0);
            let read = self.file.read_at(start as u64, &mut head[start..]);
            head.truncate(start + *read.as_ref().unwrap_or(&0));
            read?;
        }
        view.end = view.end.max(end);
        Ok(())
    }
}

/// How much of the beginning up to `end` is kept.
fn clipped(end: u64) -> usize {
    usize::try_from(end).unwrap_or(KEPT).min(KEPT)
}

impl StorageReader for Prefix {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        let room = usize::try_from(view.end.saturating_sub(offset)).unwrap_or(usize::MAX).min(buffer.len());
        let buffer = &mut buffer[..room];
        let head = usize::try_from(offset).ok().and_then(|start| view.head.get(start..)).unwrap_or_default();
        let kept = head.len().min(room);
        buffer[..kept].copy_from_slice(&head[..kept]);
        // A head that is shorter than what is kept ends where the file does.
        if kept == room || view.head.len() < clipped(view.end) {
            return Ok(kept);
        }
        drop(view);
        Ok(kept + self.file.read_at(offset + kept as u64, &mut buffer[kept..])?)
    }

    fn stat(&self) -> Result<Stat> {
        let stat = self.file.stat()?;
        let end = self.view.lock().unwrap_or_else(PoisonError::into_inner).end;
        Ok(Stat { len: stat.len.min(end), ..stat })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use crate::storage::{MemorySessionStorage, SessionStorage};

    proptest! {
        #[test]
        fn property_reads_as_a_file_that_ends_there(
            len in 0_usize..600_000, ends in proptest::collection::vec(0_usize..600_000, 1..4),
            offset in 0_usize..600_000, wanted in 0_usize..600_000,
        ) {
            let storage = MemorySessionStorage::new();
            let text: String = ('a'..='w').cycle().take(len).collect();
            storage.write_text(Path::new("/x"), &text).unwrap();
            let prefix = Prefix::of(storage.open_reader(Path::new("/x")).unwrap()).unwrap();
            for end in &ends {
                prefix.grow(*end as u64).unwrap();
            }
            let end = ends.into_iter().max().unwrap().min(len);
            let mut buffer = vec![0; wanted];
            let read = prefix.read_at(offset as u64, &mut buffer).unwrap();
            let want = text.as_bytes().get(offset..end).unwrap_or_default();
            prop_assert_eq!(&buffer[..read], &want[..want.len().min(wanted)]);
            prop_assert_eq!(prefix.stat().unwrap().len, end as u64);
        }
    }
}
