//! The follower against a model: whatever is done to a file, in whatever pieces and with whatever restarts, what is delivered
//! is what a reader of the whole file sees, each entry once a generation.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use session_core::Session;
use session_core::follow::{Follower, Slice, Transition};
use session_core::storage::{
    FileIdentity, FileSessionStorage, MemorySessionStorage, OpenMode, Replacement, SessionStorage,
};

#[derive(Clone, Debug)]
enum Step {
    /// Whole records.
    Append(Vec<Kind>),
    /// So many percent of what is left of a record; a new one when nothing is.
    AppendPiece(Kind, usize),
    /// The same file keeps so many percent.
    Truncate(usize),
    /// Another file, renamed over it: the old lines behind another header, so many percent of them.
    Replace(Start, usize),
    /// The same file, emptied and written anew.
    Rewrite(Start, Vec<Kind>),
    /// The same file and length, other entries.
    Overwrite,
    /// The title slot, where there is one, is written in place.
    NameInSlot,
    Rename,
    Delete,
    /// A look in slices of so many bytes.
    Look(u64),
    /// The same, taking a last line without a line feed.
    LookAtQuietFile(u64),
    /// The position is stored, and another follower goes on; also between the slices of the next look.
    Restart,
}

/// What a file begins with.
#[derive(Clone, Copy, Debug)]
enum Start {
    Header,
    Long,
    Version1,
    Slot,
    Bom,
    Junk,
    Nothing,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Entry,
    Crlf,
    Long,
    Glued,
    TornThenWhole,
    Junk,
    Array,
    NoId,
    Blank,
    Header,
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        8 => Just(Kind::Entry),
        1 => Just(Kind::Crlf),
        1 => Just(Kind::Long),
        1 => Just(Kind::Glued),
        1 => Just(Kind::TornThenWhole),
        1 => Just(Kind::Junk),
        1 => Just(Kind::Array),
        1 => Just(Kind::NoId),
        1 => Just(Kind::Blank),
        1 => Just(Kind::Header),
    ]
}

fn start() -> impl Strategy<Value = Start> {
    prop_oneof![
        4 => Just(Start::Header),
        1 => Just(Start::Long),
        2 => Just(Start::Version1),
        2 => Just(Start::Slot),
        1 => Just(Start::Bom),
        1 => Just(Start::Junk),
        1 => Just(Start::Nothing),
    ]
}

fn kinds(range: Range<usize>) -> impl Strategy<Value = Vec<Kind>> {
    proptest::collection::vec(kind(), range)
}

fn step() -> impl Strategy<Value = Step> {
    let slice = || prop_oneof![Just(1), 1..600_u64, Just(1 << 20)];
    prop_oneof![
        6 => kinds(1..4).prop_map(Step::Append),
        8 => (kind(), 1..=100_usize).prop_map(|(kind, percent)| Step::AppendPiece(kind, percent)),
        1 => (0..100_usize).prop_map(Step::Truncate),
        1 => (start(), 0..=100_usize).prop_map(|(start, percent)| Step::Replace(start, percent)),
        1 => (start(), kinds(0..6)).prop_map(|(start, kinds)| Step::Rewrite(start, kinds)),
        1 => Just(Step::Overwrite),
        1 => Just(Step::NameInSlot),
        1 => Just(Step::Rename),
        1 => Just(Step::Delete),
        10 => slice().prop_map(Step::Look),
        2 => slice().prop_map(Step::LookAtQuietFile),
        4 => Just(Step::Restart),
    ]
}

/// An entry as the model tells it from others: line, id, and the number that no two records share.
type Seen = (u64, String, i64);

/// What the model knows of the file that was looked at last.
struct Known {
    identity: FileIdentity,
    /// Its complete lines.
    lines: Vec<u8>,
    /// All of it.
    content: Vec<u8>,
    delivered: BTreeSet<Seen>,
}

struct World<'s> {
    storage: &'s dyn SessionStorage,
    dir: PathBuf,
    path: PathBuf,
    names: u32,
    next: u64,
    content: Vec<u8>,
    exists: bool,
    /// What is left to write of a record.
    rest: Vec<u8>,
    time: SystemTime,
    follower: Follower,
    restart_between_slices: bool,
    known: Option<Known>,
    /// Whether the file ended in a piece of a line when it was looked at last.
    holds_piece: bool,
}

/// So much before the position the follower compares.
const TAIL: usize = 32;

impl World<'_> {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// A number that no two records share, always of eight digits.
    fn mark(&mut self) -> u64 {
        10_000_000 + self.number()
    }

    fn entry(&mut self) -> String {
        let (id, n) = (self.number(), self.mark());
        format!(
            r#"{{"type":"message","id":"{id:08x}","parentId":null,"message":{{"role":"user","content":"é😀"}},"n":{n}}}"#
        )
    }

    fn record(&mut self, kind: Kind) -> Vec<u8> {
        let entry = self.entry();
        let text = match kind {
            Kind::Entry => entry,
            Kind::Crlf => format!("{entry}\r"),
            Kind::Long => {
                // No two places of two such texts are alike: what is compared is short, and sees no change that it is the same in.
                let n = self.number();
                let places: Vec<String> = (0..150).map(|place| format!("é😀{place}.{n:x}/")).collect();
                entry.replace("é😀", &places.concat())
            }
            Kind::Glued => format!("{entry}{}", self.entry()),
            Kind::TornThenWhole => format!("{}{}", &entry[..60], self.entry()),
            Kind::Junk => format!("junk é {}", self.mark()),
            Kind::Array => format!("[{}]", self.mark()),
            Kind::NoId => format!(r#"{{"type":"x","n":{}}}"#, self.mark()),
            Kind::Blank => " ".to_owned(),
            Kind::Header => format!(r#"{{"type":"session","id":"z","n":{}}}"#, self.mark()),
        };
        format!("{text}\n").into_bytes()
    }

    fn start(&mut self, start: Start) -> Vec<u8> {
        let n = self.number();
        let header = format!(r#"{{"type":"session","version":3,"id":"{n:016x}","cwd":"/p"}}"#);
        let text = match start {
            Start::Header => header,
            Start::Long => header.replace("/p", &"/p".repeat(200)),
            Start::Version1 => header.replace("\"version\":3,", ""),
            Start::Slot => format!("{}\n{header}", slot(n)),
            Start::Bom => format!("\u{feff}{header}"),
            Start::Junk => format!("junk {n}\n{header}"),
            Start::Nothing => return Vec::new(),
        };
        format!("{text}\n").into_bytes()
    }

    fn put(&mut self, bytes: &[u8]) {
        if !self.exists {
            self.content.clear();
            self.exists = true;
        }
        let mut writer = self.storage.open_writer(&self.path, OpenMode::Append).unwrap();
        writer.write(bytes).unwrap();
        self.content.extend_from_slice(bytes);
        self.touch();
    }

    fn rewrite(&mut self, content: Vec<u8>) {
        self.storage.open_writer(&self.path, OpenMode::Truncate).unwrap().write(&content).unwrap();
        self.exists = true;
        self.content = content;
        self.rest.clear();
        self.touch();
    }

    /// Each change has a time of its own, as on a file system with fine times.
    fn touch(&mut self) {
        self.time += Duration::from_millis(7);
        self.storage.set_modified(&self.path, self.time).unwrap();
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Append(kinds) => {
                let mut bytes = std::mem::take(&mut self.rest);
                for kind in kinds {
                    bytes.extend(self.record(kind));
                }
                self.put(&bytes);
            }
            Step::AppendPiece(kind, percent) => {
                if self.rest.is_empty() {
                    self.rest = self.record(kind);
                }
                let len = (self.rest.len() * percent).div_ceil(100);
                let piece: Vec<u8> = self.rest.drain(..len).collect();
                self.put(&piece);
            }
            Step::Truncate(percent) if self.exists => {
                let len = self.content.len() * percent / 100;
                let cuts_piece = self.holds_piece && self.known.as_ref().is_some_and(|known| len > known.lines.len());
                self.rewrite(self.content[..len].to_vec());
                if cuts_piece {
                    // Where it has grown again before anybody looks, only the ends of its pieces tell; a line that comes in
                    // small ones has more of them than are compared.
                    self.look(Slice::default());
                }
            }
            Step::Replace(start, percent) => {
                let mut content = self.start(start);
                let lines = self.content.split_inclusive(|byte| *byte == b'\n').skip(1).collect::<Vec<_>>();
                let kept = lines.len() * percent / 100;
                content.extend(lines[..kept].concat());
                let mut replacement = Replacement::of(self.storage, &self.path).unwrap();
                replacement.write(&content).unwrap();
                replacement.commit().unwrap();
                (self.content, self.exists) = (content, true);
                self.rest.clear();
                self.touch();
            }
            Step::Rewrite(start, kinds) => {
                let mut content = self.start(start);
                for kind in kinds {
                    content.extend(self.record(kind));
                }
                self.rewrite(content);
            }
            Step::Overwrite => self.overwrite(),
            Step::NameInSlot if self.exists && has_slot(&self.content) => {
                let slot = slot(self.number());
                self.storage.write_at(&self.path, 0, slot.as_bytes()).unwrap();
                self.content[..slot.len()].copy_from_slice(slot.as_bytes());
                self.touch();
            }
            Step::Rename if self.exists => {
                self.names += 1;
                let path = self.dir.join(format!("{}.jsonl", self.names));
                self.storage.rename(&self.path, &path).unwrap();
                self.path = path;
            }
            Step::Delete if self.exists => {
                self.storage.unlink(&self.path).unwrap();
                self.exists = false;
                self.rest.clear();
            }
            Step::Look(bytes) => self.look(Slice::of_bytes(bytes)),
            Step::LookAtQuietFile(bytes) => self.look(Slice::of_bytes(bytes).taking_last_line()),
            Step::Restart => {
                self.restart();
                self.restart_between_slices = true;
            }
            Step::Truncate(_) | Step::NameInSlot | Step::Rename | Step::Delete => {}
        }
    }

    /// Every record gets another number of the same length. Not while the follower holds a piece of a line: it compares
    /// what the piece begins and ends with, and is documented not to see what else became of it. Nor where the end of what was
    /// read holds no number, as that of a torn record: it is documented not to see who leaves that end alone.
    fn overwrite(&mut self) {
        if !self.exists || self.holds_piece {
            return;
        }
        let mut content = self.content.clone();
        let digits = |bytes: &[u8]| bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut at = 0;
        while at < content.len() {
            let len = digits(&content[at..]);
            if len == 8 && content[at] == b'1' {
                let mark = self.mark().to_string();
                content[at..at + 8].copy_from_slice(mark.as_bytes());
            }
            at += len.max(1);
        }
        let read = self.known.as_ref().map_or(0, |known| known.lines.len()).min(content.len());
        let end = read.saturating_sub(TAIL)..read;
        if content != self.content && !end.is_empty() && content[end.clone()] == self.content[end] {
            return;
        }
        self.content = content;
        self.storage.write_at(&self.path, 0, &self.content).unwrap();
        self.touch();
    }

    fn restart(&mut self) {
        let text = self.follower.position().to_string();
        self.follower = Follower::resume(text.parse().unwrap());
    }

    fn look(&mut self, slice: Slice) {
        let takes_last_line = slice == slice.taking_last_line();
        let mut delivered = Vec::new();
        let mut first = None;
        for slices in 0.. {
            assert!(slices <= self.content.len(), "each slice gets on");
            let generation = self.follower.position().generation();
            let changes = self.follower.look(self.storage, &self.path, slice).unwrap();
            let anew = u64::from(changes.transition().is_from_the_beginning());
            assert_eq!(self.follower.position().generation(), generation + anew);
            if first.is_some() {
                assert_eq!(changes.transition(), Transition::Continued, "a slice goes on where the last one ended");
            }
            first.get_or_insert(changes.transition());
            for entry in changes.entries() {
                let json = entry.json().unwrap();
                let n = json.view().get("n").unwrap().integer().unwrap();
                delivered.push((entry.line(), entry.id().to_string(), n));
            }
            if !changes.has_more() {
                break;
            }
            if self.restart_between_slices {
                self.restart();
            }
        }
        self.restart_between_slices = false;
        self.judge(first.unwrap(), &delivered, takes_last_line);
    }

    fn judge(&mut self, transition: Transition, delivered: &[Seen], takes_last_line: bool) {
        let Some(stat) = self.storage.stat(&self.path).unwrap() else {
            let was_seen = self.follower.position().identity().is_some();
            assert_eq!(transition, if was_seen { Transition::Deleted } else { Transition::NotYet });
            assert!(delivered.is_empty());
            return;
        };
        let set: BTreeSet<Seen> = delivered.iter().cloned().collect();
        assert_eq!(set.len(), delivered.len(), "nothing comes twice");
        let complete = self.content.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.holds_piece = complete < self.content.len();
        let lines = &self.content[..complete];
        // A header waits for its line feed.
        let last_line_counts = takes_last_line && read(lines).header().is_some();
        let visible = naive(if last_line_counts { &self.content } else { lines });
        let same = |known: &Known| known.identity == stat.identity && continues(&known.lines, lines);
        let before = self.known.take();
        let goes_on_without_end = self.holds_piece && !takes_last_line && delivered.is_empty();
        if goes_on_without_end
            && before.as_ref().is_some_and(|known| !continues(&known.content, &self.content))
            && matches!(transition, Transition::Continued | Transition::Unchanged)
        {
            // What became of the file is seen when the line ends, or when the file is quiet.
            self.known = before;
            return;
        }
        let expected = match &before {
            Some(known) if same(known) => visible.difference(&known.delivered).cloned().collect(),
            _ => visible,
        };
        assert_eq!(set, expected, "{transition:?} of {:?}", String::from_utf8_lossy(&self.content));
        let offset = usize::try_from(self.follower.position().offset()).unwrap();
        assert!(offset == 0 || self.content[offset - 1] == b'\n', "the position is the end of a line");
        let mut all = match before {
            Some(known) if same(&known) => known.delivered,
            _ => BTreeSet::new(),
        };
        all.extend(set);
        self.known = Some(Known {
            identity: stat.identity,
            lines: lines.to_vec(),
            content: self.content.clone(),
            delivered: all,
        });
    }
}

fn slot(n: u64) -> String {
    let slot = format!(r#"{{"type":"title","v":1,"title":"title {n}","updatedAt":"","pad":""#);
    format!("{slot}{}\"}}", " ".repeat(255 - 2 - slot.len()))
}

fn has_slot(content: &[u8]) -> bool {
    content.starts_with(b"{\"type\":\"title\"") && content.get(255) == Some(&b'\n')
}

/// Whether `now` is what was there before, grown, a title slot left out of account.
fn continues(before: &[u8], now: &[u8]) -> bool {
    let slots = has_slot(before) && has_slot(now);
    let skip = if slots { 256 } else { 0 };
    now[skip..].starts_with(&before[skip..])
}

fn read(content: &[u8]) -> Session {
    let storage = MemorySessionStorage::new();
    let path = Path::new("/x.jsonl");
    storage.open_writer(path, OpenMode::Append).unwrap().write(content).unwrap();
    Session::read_from(Arc::new(storage), path).unwrap()
}

/// What a reader of the whole file sees.
fn naive(content: &[u8]) -> BTreeSet<Seen> {
    let session = read(content);
    let seen = |entry: session_core::Entry<'_>| {
        let n = entry.json().unwrap().view().get("n").unwrap().integer().unwrap();
        (entry.line().unwrap(), entry.id().to_owned(), n)
    };
    session.entries().map(seen).collect()
}

fn run(storage: &dyn SessionStorage, dir: &Path, steps: Vec<Step>) {
    let mut world = World {
        storage,
        dir: dir.to_owned(),
        path: dir.join("0.jsonl"),
        names: 0,
        next: 0,
        content: Vec::new(),
        exists: false,
        rest: Vec::new(),
        time: SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_605_400),
        follower: Follower::new(),
        restart_between_slices: false,
        known: None,
        holds_piece: false,
    };
    for step in steps {
        world.step(step);
    }
    world.look(Slice::default().taking_last_line());
    world.look(Slice::default());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]
    #[test]
    fn property_k49_k50_model_in_memory(start in start(), steps in proptest::collection::vec(step(), 0..30)) {
        let storage = MemorySessionStorage::new();
        let first = Step::Rewrite(start, Vec::new());
        run(&storage, Path::new("/"), std::iter::once(first).chain(steps).collect());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn property_k49_k50_model_on_files(steps in proptest::collection::vec(step(), 0..30)) {
        let dir = tempfile::tempdir().unwrap();
        run(&FileSessionStorage::new(), dir.path(), steps);
    }
}
