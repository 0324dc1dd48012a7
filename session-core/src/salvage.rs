//! What a damaged line still holds: every whole record in it `[L1a]`.
//!
//! Records glued on one line, a cut record followed by the complete one, NUL bytes around a record. A record is looked for at
//! every `{`; it counts when it closes and is a header or has text `type`, text `id` and a `parentId` key. What is nested in
//! a whole object is part of it. A *torn* record (one that begins on the line and does not close) keeps what belongs to it:
//! an object in it behind `:`, `,` or `[`, until a whole object has followed.
//!
//! The line is read once, front to back, in pieces. Two scanners at most are alive at a time: a `{` that starts a second one
//! inside the first stands in the first one's text, so the two disagree at every quote, and a third would have to agree with
//! one of them. So the time is linear whatever the bytes.

use std::ops::Range;

use memchr::memchr;

use crate::scan::{Field, OwnKeys, Progress, Scanner, Shape};

/// A whole record inside a damaged line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Salvaged {
    /// Where it stands, counted from the line's first byte.
    pub(crate) range: Range<u64>,
    pub(crate) keys: OwnKeys,
}

/// Looks for records in a line that is handed over in pieces.
#[derive(Debug, Default)]
pub(crate) struct Salvage {
    found: Vec<Salvaged>,
    /// Records that may become whole, outermost first.
    live: Vec<Candidate>,
    /// Inner records that closed while an outer one is still open; they count if the outer one turns out to be torn.
    waiting: Vec<Closed>,
    /// Whether a torn record began before here and no whole object has followed it.
    in_torn_record: bool,
    last_non_blank: Option<u8>,
    /// Bytes of the line seen so far.
    seen: u64,
}

#[derive(Debug)]
struct Candidate {
    start: u64,
    scanner: Scanner<true>,
}

#[derive(Debug)]
struct Closed {
    range: Range<u64>,
    shape: Shape,
}

impl Salvage {
    /// Looks at the next piece of the line.
    pub(crate) fn feed(&mut self, piece: &[u8]) {
        let mut at = 0;
        while at < piece.len() {
            let brace = memchr(b'{', &piece[at..]).map_or(piece.len(), |n| at + n);
            self.pass(&piece[at..brace]);
            if brace == piece.len() {
                return;
            }
            self.begin_at_brace();
            self.pass(&piece[brace..=brace]);
            at = brace + 1;
        }
    }

    /// The records found, in the order of their places.
    pub(crate) fn finish(mut self) -> Vec<Salvaged> {
        while !self.live.is_empty() {
            self.drop_outermost();
        }
        self.found.sort_by_key(|record| record.range.start);
        self.found
    }

    fn begin_at_brace(&mut self) {
        let inside = self.in_torn_record || !self.live.is_empty();
        if inside && matches!(self.last_non_blank, Some(b':' | b',' | b'[')) {
            return;
        }
        self.live.push(Candidate { start: self.seen, scanner: Scanner::new() });
    }

    /// Feeds bytes to every live candidate.
    fn pass(&mut self, bytes: &[u8]) {
        let mut n = 0;
        while n < self.live.len() {
            match self.live[n].scanner.feed(bytes) {
                Progress::Open => n += 1,
                Progress::Failed if n == 0 => self.drop_outermost(),
                Progress::Failed => {
                    self.live.remove(n);
                }
                Progress::Closed(len) => {
                    let mut candidate = self.live.remove(n);
                    let closed =
                        Closed { range: candidate.start..self.seen + len as u64, shape: candidate.scanner.finish() };
                    if n == 0 {
                        self.accept(closed);
                        // What began inside it is part of it.
                        self.live.clear();
                        self.waiting.clear();
                    } else {
                        self.waiting.push(closed);
                    }
                }
            }
        }
        self.seen += bytes.len() as u64;
        if let Some(byte) = bytes.iter().rfind(|b| !matches!(b, b' ' | b'\t' | b'\r')) {
            self.last_non_blank = Some(*byte);
        }
    }

    fn accept(&mut self, closed: Closed) {
        self.in_torn_record = false;
        if let Shape::Object(keys) = closed.shape
            && counts(&keys)
        {
            self.found.push(Salvaged { range: closed.range, keys });
        }
    }

    /// The outermost candidate will not close: it is torn, and what closed inside it may stand on its own.
    fn drop_outermost(&mut self) {
        let torn = self.live.remove(0);
        self.in_torn_record |= torn.scanner.is_record();
        let limit = self.live.first().map_or(u64::MAX, |next| next.start);
        let (free, still_waiting): (Vec<Closed>, Vec<Closed>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|closed| closed.range.start < limit);
        self.waiting = still_waiting;
        for closed in free {
            self.accept(closed);
        }
    }
}

/// Whether an object found inside a damaged line counts as a record `[L1a]`.
fn counts(keys: &OwnKeys) -> bool {
    match keys.kind.text() {
        Some("session") => true,
        Some(_) => keys.id.text().is_some() && keys.parent_id != Field::Missing,
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ids(line: &str) -> Vec<String> {
        let whole = found(line.as_bytes(), usize::MAX);
        for size in [1, 2, 7] {
            assert_eq!(found(line.as_bytes(), size), whole, "pieces of {size}: {line}");
        }
        whole.iter().map(|record| record.keys.id.text().unwrap_or_default().to_owned()).collect()
    }

    fn found(line: &[u8], piece: usize) -> Vec<Salvaged> {
        let mut salvage = Salvage::default();
        line.chunks(piece.clamp(1, line.len().max(1))).for_each(|piece| salvage.feed(piece));
        salvage.finish()
    }

    fn record(id: &str) -> String {
        format!(r#"{{"type":"message","id":"{id}","parentId":null,"message":{{"content":"a {{ \" }} b","x":[{{}}]}}}}"#)
    }

    #[test]
    fn k2_glued_records() {
        let [a, b, c] = ["a", "b", "c"].map(record);
        assert_eq!(ids(&format!("{a}{b}")), ["a", "b"]);
        assert_eq!(ids(&format!("{a}{b}{c}")), ["a", "b", "c"]);
        assert_eq!(ids(&format!("{a},{b} , {c} #end")), ["a", "b", "c"]);
        assert_eq!(ids(&format!("\0\0{a}\0{b}\0")), ["a", "b"]);
    }

    #[test]
    fn k0_what_is_nested_in_a_torn_record_is_part_of_it() {
        let [a, b] = ["a", "b"].map(record);
        let torn = r#"{"type":"custom","id":"t","parentId":null,"data":"#;
        assert_eq!(ids(&format!("{torn}{a}")), Vec::<String>::new());
        assert_eq!(ids(&format!("{torn}[{a}, {b}")), Vec::<String>::new());
        assert_eq!(ids(&format!("{torn}\"cut{a}")), ["a"]);
        // What follows a whole object is not inside the torn one.
        assert_eq!(ids(&format!("{torn}\"cut{a},{b}")), ["a", "b"]);
        assert_eq!(ids(&format!("{torn}{a}{b}")), ["b"]);
    }

    #[test]
    fn what_counts() {
        assert_eq!(
            ids(r#"x {"type":"m","id":"1"} {"type":"m","id":2,"parentId":null} {"id":"3","parentId":null}"#),
            Vec::<String>::new()
        );
        assert_eq!(ids(r#"x{"type":"session","id":"s"}"#), ["s"]);
        assert_eq!(ids(r#"foo [{"type":"m","id":"1","parentId":5}"#), ["1"]);
    }

    #[test]
    fn hostile_lines_take_linear_time() {
        for unit in ["{", "{\"a\":", "{\"a\":\"", "{\"", "[{", "{\"a\":\"{\",\":\":\"", "{\\\"", "{\"a\":{} ,x"] {
            let line = unit.repeat(200_000);
            let mut salvage = Salvage::default();
            salvage.feed(line.as_bytes());
            assert!(salvage.live.len() <= 2, "{unit}: {} alive", salvage.live.len());
            assert!(salvage.finish().is_empty());
        }
    }

    proptest! {
        #[test]
        fn property_two_candidates_at_most(
            line in proptest::collection::vec(proptest::sample::select(b"{{{}[]\"\"\\:, a".to_vec()), 0..60),
        ) {
            let mut salvage = Salvage::default();
            for byte in &line {
                salvage.feed(&[*byte]);
                prop_assert!(salvage.live.len() <= 2);
            }
        }

        #[test]
        fn property_whole_records_between_noise_are_found(
            noise in proptest::collection::vec("[a-z \u{0}é.!]{0,6}", 4),
            torn in proptest::option::of(1_usize..60),
        ) {
            let [a, b, c] = ["a", "b", "c"].map(record);
            let mut line = format!("{}{a}{}{b}{}", noise[0], noise[1], noise[2]);
            if let Some(cut) = torn {
                let cut = cut.min(c.len() - 1);
                line.push_str(&c[..cut]);
                prop_assume!(!matches!(c[..cut].trim_end().as_bytes().last(), Some(b':' | b',' | b'[')));
            }
            line.push_str(&c);
            prop_assert_eq!(ids(&line), ["a", "b", "c"]);
        }
    }
}
