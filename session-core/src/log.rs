//! The entries of a session as envelopes: 40 bytes each, and one more table for their ids `[L9]`.
//!
//! Ids are interned: an entry holds numbers that stand for its own id and its parent's. The table also says which entry an id
//! stands for: the last one with it `[L8]`. Payloads stay where they are, on disk or in memory.

use std::hash::BuildHasher;
use std::ops::Range;

use hashbrown::HashTable;

use crate::clock::Timestamp;
use crate::entry::EntryKind;
use crate::json::JsonText;

/// The number of an id in [`Ids`].
pub(crate) type Symbol = u32;
/// The number of an entry, in the order of insertion.
pub(crate) type Index = u32;

const NONE: u32 = u32::MAX;
const NO_TIME: i64 = i64::MIN;
/// Two bits of a record's type word say where its payload is.
const PLACE_BITS: u32 = 2;
const PLACE: u32 = (1 << PLACE_BITS) - 1;
const IN_LINE: u32 = 0;
const INSIDE_LINE: u32 = 1;
/// In memory, and not in the file yet.
const UNWRITTEN: u32 = 2;
/// In memory, and in the file as well.
const WRITTEN: u32 = 3;

/// Where an entry's line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A line of its own in the file.
    Line { offset: u64, len: u64 },
    /// Part of a damaged line of the file.
    Inside { offset: u64, len: u64 },
    /// In memory: the number of the payload.
    Memory(usize),
}

#[derive(Clone, Copy, Debug)]
struct Record {
    offset: u64,
    len: u64,
    timestamp: i64,
    id: Symbol,
    parent: Symbol,
    line: u32,
    kind_and_place: u32,
}

/// What is known of an entry before its payload is read.
#[derive(Clone, Debug)]
pub(crate) struct Envelope<'a> {
    pub(crate) kind: &'a str,
    pub(crate) id: &'a str,
    pub(crate) parent: Option<&'a str>,
    pub(crate) timestamp: Option<Timestamp>,
    /// The physical line, 0 for entries that are not in the file yet.
    pub(crate) line: u64,
}

/// All entries, in the order of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    records: Vec<Record>,
    ids: Ids,
    /// By symbol: the last entry with that id.
    entry_of: Vec<Index>,
    /// Names of types beyond [`EntryKind::KNOWN`].
    other_kinds: Vec<Box<str>>,
    payloads: Vec<Kept>,
}

/// A line in memory, and where the file has it as far as that is known.
#[derive(Clone, Debug)]
struct Kept {
    json: JsonText,
    range: Option<Range<u64>>,
}

impl Log {
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// The number that the next entry gets.
    pub(crate) fn next_index(&self) -> Index {
        number_of(self.records.len())
    }

    /// All entries in order.
    pub(crate) fn indices(&self) -> std::ops::Range<Index> {
        0..self.next_index()
    }

    /// Adds an entry whose line is in the file.
    pub(crate) fn push(&mut self, envelope: &Envelope<'_>, place: Place) -> Index {
        let index = self.next_index();
        let (offset, len, place_bits) = match place {
            Place::Line { offset, len } => (offset, len, IN_LINE),
            Place::Inside { offset, len } => (offset, len, INSIDE_LINE),
            Place::Memory(number) => (number as u64, 0, UNWRITTEN),
        };
        let id = self.symbol(envelope.id);
        let parent = envelope.parent.map_or(NONE, |parent| self.symbol(parent));
        let kind = self.kind_number(envelope.kind);
        self.entry_of[id as usize] = index;
        self.records.push(Record {
            offset,
            len,
            timestamp: envelope.timestamp.map_or(NO_TIME, Timestamp::millis),
            id,
            parent,
            line: u32::try_from(envelope.line).unwrap_or(u32::MAX),
            kind_and_place: kind << PLACE_BITS | place_bits,
        });
        index
    }

    /// Adds an entry whose line is in memory and not in the file yet.
    pub(crate) fn push_in_memory(&mut self, envelope: &Envelope<'_>, json: JsonText) -> Index {
        self.payloads.push(Kept { json, range: None });
        self.push(envelope, Place::Memory(self.payloads.len() - 1))
    }

    /// Keeps the line of an entry of the file in memory.
    pub(crate) fn keep_in_memory(&mut self, index: Index, json: JsonText) {
        let range = self.range(index);
        self.payloads.push(Kept { json, range });
        let record = &mut self.records[index as usize];
        record.offset = (self.payloads.len() - 1) as u64;
        record.len = 0;
        self.mark_written(index);
    }

    /// Replaces the line of an entry that is in memory.
    pub(crate) fn replace_in_memory(&mut self, index: Index, json: JsonText) {
        if let Place::Memory(number) = self.place(index) {
            self.payloads[number].json = json;
        }
    }

    /// Where the entry stands in the file; none when it is not there, or was written after the file was read.
    pub(crate) fn range(&self, index: Index) -> Option<Range<u64>> {
        match self.place(index) {
            Place::Line { offset, len } | Place::Inside { offset, len } => Some(offset..offset + len),
            Place::Memory(number) => self.payloads[number].range.clone(),
        }
    }

    /// An entry in memory is in the file now.
    pub(crate) fn mark_written(&mut self, index: Index) {
        let record = &mut self.records[index as usize];
        record.kind_and_place = record.kind_and_place & !PLACE | WRITTEN;
    }

    /// Whether an entry is only in memory.
    pub(crate) fn is_unwritten(&self, index: Index) -> bool {
        self.records[index as usize].kind_and_place & PLACE == UNWRITTEN
    }

    pub(crate) fn payload(&self, number: usize) -> &JsonText {
        &self.payloads[number].json
    }

    pub(crate) fn place(&self, index: Index) -> Place {
        let Record { offset, len, kind_and_place, .. } = self.records[index as usize];
        match kind_and_place & PLACE {
            IN_LINE => Place::Line { offset, len },
            INSIDE_LINE => Place::Inside { offset, len },
            _ => Place::Memory(usize::try_from(offset).unwrap_or(usize::MAX)),
        }
    }

    pub(crate) fn id(&self, index: Index) -> &str {
        self.ids.text(self.records[index as usize].id)
    }

    /// The id that the entry names as its parent, whether that exists or not.
    pub(crate) fn parent_id(&self, index: Index) -> Option<&str> {
        let parent = self.records[index as usize].parent;
        (parent != NONE).then(|| self.ids.text(parent))
    }

    /// The entry that is the parent; none for roots and when it does not exist.
    pub(crate) fn parent(&self, index: Index) -> Option<Index> {
        let parent = self.records[index as usize].parent;
        if parent == NONE {
            return None;
        }
        Some(self.entry_of[parent as usize]).filter(|entry| *entry != NONE)
    }

    /// The entry that an id stands for: the last one that has it.
    pub(crate) fn find(&self, id: &str) -> Option<Index> {
        let symbol = self.ids.find(id)?;
        Some(self.entry_of[symbol as usize]).filter(|entry| *entry != NONE)
    }

    /// Whether a later entry has the same id.
    pub(crate) fn is_superseded(&self, index: Index) -> bool {
        self.entry_of[self.records[index as usize].id as usize] != index
    }

    pub(crate) fn kind(&self, index: Index) -> EntryKind {
        let number = (self.records[index as usize].kind_and_place >> PLACE_BITS) as usize;
        EntryKind::KNOWN.get(number).map_or(EntryKind::Other, |(kind, _)| *kind)
    }

    pub(crate) fn kind_name(&self, index: Index) -> &str {
        let number = (self.records[index as usize].kind_and_place >> PLACE_BITS) as usize;
        match EntryKind::KNOWN.get(number) {
            Some((_, name)) => name,
            None => &self.other_kinds[number - EntryKind::KNOWN.len()],
        }
    }

    pub(crate) fn timestamp(&self, index: Index) -> Option<Timestamp> {
        Timestamp::from_millis(self.records[index as usize].timestamp)
    }

    /// The physical line; none for entries that were not read from the file.
    pub(crate) fn line(&self, index: Index) -> Option<u64> {
        Some(u64::from(self.records[index as usize].line)).filter(|line| *line > 0)
    }

    /// What is known of an entry before its payload is read.
    pub(crate) fn envelope(&self, index: Index) -> Envelope<'_> {
        Envelope {
            kind: self.kind_name(index),
            id: self.id(index),
            parent: self.parent_id(index),
            timestamp: self.timestamp(index),
            line: self.line(index).unwrap_or(0),
        }
    }

    fn symbol(&mut self, id: &str) -> Symbol {
        let symbol = self.ids.intern(id);
        if symbol as usize == self.entry_of.len() {
            self.entry_of.push(NONE);
        }
        symbol
    }

    fn kind_number(&mut self, name: &str) -> u32 {
        if let Some(known) = EntryKind::KNOWN.iter().position(|(_, known)| *known == name) {
            return number_of(known);
        }
        let other = self.other_kinds.iter().position(|kind| **kind == *name).unwrap_or_else(|| {
            self.other_kinds.push(name.into());
            self.other_kinds.len() - 1
        });
        number_of(EntryKind::KNOWN.len() + other)
    }
}

/// Texts, each kept once and known by a number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ids {
    text: String,
    /// Where each text ends.
    ends: Vec<usize>,
    table: HashTable<Symbol>,
    hasher: std::hash::RandomState,
}

impl Ids {
    fn text(&self, symbol: Symbol) -> &str {
        slice(&self.text, &self.ends, symbol)
    }

    fn find(&self, text: &str) -> Option<Symbol> {
        self.table.find(self.hasher.hash_one(text), |symbol| self.text(*symbol) == text).copied()
    }

    fn intern(&mut self, text: &str) -> Symbol {
        let hash = self.hasher.hash_one(text);
        let Self { text: all, ends, table, hasher } = self;
        if let Some(symbol) = table.find(hash, |symbol| slice(all, ends, *symbol) == text) {
            return *symbol;
        }
        let symbol = number_of(ends.len());
        all.push_str(text);
        ends.push(all.len());
        table.insert_unique(hash, symbol, |symbol| hasher.hash_one(slice(all, ends, *symbol)));
        symbol
    }
}

/// Four thousand million entries need more memory than any machine has; the number above them all stands for none.
pub(crate) fn number_of(count: usize) -> u32 {
    u32::try_from(count).unwrap_or_else(|_| unreachable!("more entries than can be numbered"))
}

fn slice<'a>(all: &'a str, ends: &[usize], symbol: Symbol) -> &'a str {
    let symbol = symbol as usize;
    let start = if symbol == 0 { 0 } else { ends[symbol - 1] };
    &all[start..ends[symbol]]
}
