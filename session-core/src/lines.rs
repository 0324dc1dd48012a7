//! The lines of a file and what each is, read front to back `[L1]`.
//!
//! Large files are cut into chunks that several threads scan at once: whether a line is whole does not depend on the lines
//! before it. Each thread takes every so-manieth chunk and the lines that *begin* in it; they are handed on in the order of
//! the file. A thread is at most two chunks ahead, so memory stays bounded whatever the file.

use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use memchr::memchr;

use crate::error::Result;
use crate::scan::{Scanner, Shape};
use crate::storage::StorageReader;

pub(crate) const BOM: &[u8] = b"\xef\xbb\xbf";
/// How much is read at once. Measured: larger pieces leave the cache before they are looked at.
const PIECE: usize = 256 * 1024;
/// How much a thread takes at once.
const CHUNK: u64 = 1024 * 1024;
/// Files below this are read by one thread: starting others would cost more than they save.
const WORTH_THREADS: u64 = 4 * CHUNK;

/// A physical line.
#[derive(Debug)]
pub(crate) struct ScannedLine {
    /// Where it begins, behind a byte order mark.
    pub(crate) offset: u64,
    /// Its length without the line feed.
    pub(crate) len: u64,
    /// Whether it ends in a line feed. Only the last line may not.
    pub(crate) ended: bool,
    pub(crate) shape: Shape,
}

/// Calls `each` for every line from `start`, which begins one, to the end of the file as it is when this is called.
pub(crate) fn read(
    file: &dyn StorageReader,
    start: u64,
    mut each: impl FnMut(ScannedLine) -> Result<()>,
) -> Result<()> {
    let end = file.stat()?.len;
    // Asking for the number of cores reads files: not for a short session.
    let cores = || thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = if end.saturating_sub(start) < WORTH_THREADS { 1 } else { cores().min(4) };
    if threads == 1 {
        return scan(file, start..end, At::LineStart, &mut each);
    }
    thread::scope(|scope| {
        let receivers: Vec<Receiver<Result<Vec<ScannedLine>>>> = (0..threads)
            .map(|worker| {
                let (sender, receiver) = sync_channel(1);
                scope.spawn(move || scan_every(file, start..end, worker as u64, threads as u64, &sender));
                receiver
            })
            .collect();
        // Chunks come from the workers in turn; a worker without a further chunk has hung up, and so have all after it.
        for receiver in receivers.iter().cycle() {
            let Ok(lines) = receiver.recv() else { break };
            lines?.into_iter().try_for_each(&mut each)?;
        }
        Ok(())
    })
}

/// Scans the chunks `worker`, `worker + of`… and sends the lines of each. Ends early when nobody listens any more.
fn scan_every(
    file: &dyn StorageReader,
    range: Range<u64>,
    worker: u64,
    of: u64,
    sender: &SyncSender<Result<Vec<ScannedLine>>>,
) {
    let mut chunk = range.start + worker * CHUNK;
    while chunk < range.end {
        let mut lines = Vec::new();
        let at = if chunk == range.start { At::LineStart } else { At::Anywhere };
        let scanned = scan(file, chunk..range.end.min(chunk + CHUNK), at, &mut |line| {
            lines.push(line);
            Ok(())
        });
        if sender.send(scanned.map(|()| lines)).is_err() {
            return;
        }
        chunk += of * CHUNK;
    }
}

/// Where a range begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    LineStart,
    Anywhere,
}

/// Scans the lines that begin in `range`, the last one to its end.
fn scan(
    file: &dyn StorageReader,
    range: Range<u64>,
    begins: At,
    each: &mut impl FnMut(ScannedLine) -> Result<()>,
) -> Result<()> {
    // Clearing a long buffer would cost more than reading a short session.
    let mut piece = vec![0; usize::try_from(range.end - range.start).unwrap_or(PIECE).clamp(1, PIECE)];
    let mut scanner = Scanner::<false>::new();
    // In the middle of a line the byte before the range tells whether a line begins at its start.
    let mut at = if begins == At::Anywhere { range.start - 1 } else { range.start };
    let mut skipping = begins == At::Anywhere;
    let mut line = at;
    let mut len = 0;
    loop {
        let n = file.read_at(at, &mut piece)?;
        if n == 0 {
            break;
        }
        let mut rest = &piece[..n];
        if at == 0 && rest.starts_with(BOM) {
            rest = &rest[BOM.len()..];
            line = BOM.len() as u64;
        }
        at += n as u64;
        while let Some(end) = memchr(b'\n', rest) {
            if !skipping {
                scanner.feed(&rest[..end]);
                len += end as u64;
                each(ScannedLine { offset: line, len, ended: true, shape: scanner.finish() })?;
                scanner.reset();
            }
            skipping = false;
            rest = &rest[end + 1..];
            line = at - rest.len() as u64;
            len = 0;
            if line >= range.end {
                return Ok(());
            }
        }
        if skipping {
            // The line that goes on here began before the range.
            if at >= range.end {
                return Ok(());
            }
            continue;
        }
        scanner.feed(rest);
        len += rest.len() as u64;
    }
    if len > 0 && !skipping {
        each(ScannedLine { offset: line, len, ended: false, shape: scanner.finish() })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use crate::storage::{MemorySessionStorage, SessionStorage};

    fn lines_of(file: &dyn StorageReader, range: Range<u64>, begins: At) -> Vec<(u64, u64, bool)> {
        let mut lines = Vec::new();
        scan(file, range, begins, &mut |line| {
            lines.push((line.offset, line.len, line.ended));
            Ok(())
        })
        .unwrap();
        lines
    }

    proptest! {
        #[test]
        fn property_lines_add_up_to_the_file_however_it_is_cut(
            text in "(\u{feff})?[a{}\"é\n\r]{0,60}",
            cuts in proptest::collection::btree_set(1_u64..60, 0..5),
        ) {
            let storage = MemorySessionStorage::new();
            storage.write_text(Path::new("/x"), &text).unwrap();
            let file = storage.open_reader(Path::new("/x")).unwrap();
            let len = text.len() as u64;
            let whole = lines_of(file.as_ref(), 0..len, At::LineStart);

            let bom = if text.starts_with('\u{feff}') { BOM.len() as u64 } else { 0 };
            let mut at = bom;
            for (offset, len, ended) in &whole {
                prop_assert_eq!(*offset, at);
                at += len + u64::from(*ended);
            }
            prop_assert_eq!(at, len.max(bom));

            let mut pieces = Vec::new();
            let mut start = 0;
            // No real cut falls into a byte order mark: chunks are larger.
            for end in cuts.into_iter().filter(|cut| *cut < len && *cut > bom).chain([len]) {
                let begins = if start == 0 { At::LineStart } else { At::Anywhere };
                pieces.extend(lines_of(file.as_ref(), start..end, begins));
                start = end;
            }
            prop_assert_eq!(pieces, whole);
        }
    }

    #[test]
    fn threads_and_one_thread_agree() {
        let storage = MemorySessionStorage::new();
        let line = |id: usize, len: usize| format!("{{\"id\":\"{id}\",\"x\":\"{}\"}}\n", "y".repeat(len));
        let mut lines: Vec<String> = (0..60_000).map(|n| line(n, n % 300)).collect();
        lines.extend([line(60_000, 3 << 20), "{\"torn".to_owned()]);
        let text = lines.concat();
        storage.write_text(Path::new("/x"), &text).unwrap();
        let file = storage.open_reader(Path::new("/x")).unwrap();
        assert!(text.len() as u64 > WORTH_THREADS);
        let mut many = Vec::new();
        read(file.as_ref(), 0, |line| {
            many.push((line.offset, line.len, line.ended));
            Ok(())
        })
        .unwrap();
        assert_eq!(many, lines_of(file.as_ref(), 0..text.len() as u64, At::LineStart));
    }
}
