//! References to blobs, found in the bytes of any file.
//!
//! No JSON is parsed: torn lines, side files and logs count as well, and a reference too many only keeps a blob. Memory is
//! bounded whatever the size of the file.

use std::collections::BTreeSet;

use memchr::memmem::Finder;

use super::{BlobHash, REFERENCE_PREFIX};
use crate::error::Result;
use crate::json::decode;
use crate::storage::StorageReader;

const CHUNK: usize = 256 * 1024;
/// What is looked at again with the next chunk: longer than any reference, and than any path however it is escaped.
const OVERLAP: usize = 32 * 1024;
const PARENT_KEY: &[u8] = b"\"parentSession\"";

/// What files name.
#[derive(Clone, Debug, Default)]
pub(crate) struct References {
    pub(crate) blobs: BTreeSet<BlobHash>,
    /// Texts under a key `parentSession`: ids or paths `[F2]`.
    pub(crate) parents: BTreeSet<String>,
}

impl References {
    /// Adds what the file names, from its beginning to its end.
    pub(crate) fn read(&mut self, file: &dyn StorageReader) -> Result<()> {
        self.read_in_chunks(CHUNK, OVERLAP, |offset, buffer| file.read_at(offset, buffer))
    }

    fn read_in_chunks(
        &mut self,
        chunk: usize,
        overlap: usize,
        read_at: impl Fn(u64, &mut [u8]) -> Result<usize>,
    ) -> Result<()> {
        let blob = Finder::new(REFERENCE_PREFIX);
        let parent = Finder::new(PARENT_KEY);
        let mut buffer = vec![0; overlap + chunk];
        let (mut filled, mut offset) = (0, 0);
        loop {
            let read = read_at(offset, &mut buffer[filled..])?;
            if read == 0 {
                return Ok(());
            }
            offset += read as u64;
            filled += read;
            let window = &buffer[..filled];
            for at in blob.find_iter(window) {
                let digits = window[at + REFERENCE_PREFIX.len()..].get(..64);
                self.blobs.extend(digits.and_then(|hex| BlobHash::parse(std::str::from_utf8(hex).ok()?)));
            }
            for at in parent.find_iter(window) {
                self.parents.extend(member_text(&window[at + PARENT_KEY.len()..]));
            }
            let done = filled.saturating_sub(overlap);
            buffer.copy_within(done..filled, 0);
            filled -= done;
        }
    }
}

/// The text behind a key, when all of it is there.
fn member_text(behind: &[u8]) -> Option<String> {
    let inner = behind.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start().strip_prefix(b"\"")?;
    let mut at = 0;
    loop {
        match inner.get(at)? {
            b'"' => return Some(decode(&inner[..at]).into_owned()),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(bytes: &[u8], chunk: usize, overlap: usize, at_once: usize) -> References {
        let mut references = References::default();
        references
            .read_in_chunks(chunk, overlap, |offset, buffer| {
                let rest = &bytes[usize::try_from(offset).unwrap()..];
                let len = rest.len().min(buffer.len()).min(at_once);
                buffer[..len].copy_from_slice(&rest[..len]);
                Ok(len)
            })
            .unwrap();
        references
    }

    proptest! {
        #[test]
        fn property_a_boundary_hides_nothing(
            before in 0..300_usize, between in 0..300_usize, chunk in 1..200_usize, at_once in 1..200_usize, upper: bool,
        ) {
            // [W11] a reference cut by the end of a buffer, upper-case digits, torn JSON around it
            let hash = BlobHash::of(b"x");
            let digits = if upper { hash.to_string().to_uppercase() } else { hash.to_string() };
            let text = format!(
                "{}blob:sha256:{digits}{}\"parentSession\" : \"/a\\/b \\\"c\\\".jsonl\"",
                "\0".repeat(before), "\u{e9}".repeat(between),
            );
            let found = read(text.as_bytes(), chunk, 100, at_once);
            prop_assert_eq!(found.blobs.into_iter().collect::<Vec<_>>(), vec![hash]);
            prop_assert_eq!(found.parents.into_iter().collect::<Vec<_>>(), vec!["/a/b \"c\".jsonl".to_owned()]);
        }
    }

    #[test]
    fn what_is_no_reference() {
        let hash = BlobHash::of(b"x");
        let short = format!("blob:sha256:{}", &hash.to_string()[..63]);
        for text in
            [short.as_str(), "blob:sha256:", "\"parentSession\"", "\"parentSession\":7", "\"parentSession\":\"/a"]
        {
            let found = read(text.as_bytes(), 10, 100, 1000);
            assert!(found.blobs.is_empty() && found.parents.is_empty(), "{text}");
        }
    }
}
