//! What is wrong in a session file, and where. Damage is reported, never fatal `[L1, L8, L8a]`.

use std::fmt;
use std::path::{Path, PathBuf};

/// One thing that is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defect {
    kind: DefectKind,
    line: u64,
    offset: u64,
    path: Option<PathBuf>,
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DefectKind {
    /// The line is no whole JSON object. Whole entries in it were recovered.
    DamagedLine,
    /// The line is a JSON value, but no object.
    NotAnObject,
    /// The first line has type `title` but is no title slot `[F8a]`.
    NotATitleSlot,
    /// Another header; kept in the file, no entry `[L8]`.
    SecondHeader,
    /// The header's version is no number `[F9]`.
    OddVersion,
    /// An entry without a text id: no node of the tree `[L8]`.
    NoId,
    /// An id that an earlier entry has already; the last one wins the lookup `[L8]`.
    RepeatedId,
    /// The parent does not exist; the entry is a root `[L8]`.
    MissingParent,
    /// The entry is its own ancestor `[L8]`.
    ParentCycle,
    /// The line is an entry, but its payload is no JSON `[L9]`.
    PayloadNotJson,
    /// The entry's own fields are missing or of the wrong kind; it contributes nothing `[L8a]`.
    MalformedBody,
    /// `usage` is missing or holds something that is no number `[L8a]`.
    MalformedUsage,
    /// A blob that the entry refers to is not there `[W9]`.
    MissingBlob,
    /// A blob whose content does not match its name `[W10]`.
    CorruptBlob,
    /// A blob reference that is no SHA-256 in hex `[W10]`.
    BadBlobReference,
}

impl DefectKind {
    /// The kind's name as `--json` prints it.
    pub fn name(self) -> &'static str {
        match self {
            Self::DamagedLine => "damagedLine",
            Self::NotAnObject => "notAnObject",
            Self::NotATitleSlot => "notATitleSlot",
            Self::SecondHeader => "secondHeader",
            Self::OddVersion => "oddVersion",
            Self::NoId => "noId",
            Self::RepeatedId => "repeatedId",
            Self::MissingParent => "missingParent",
            Self::ParentCycle => "parentCycle",
            Self::PayloadNotJson => "payloadNotJson",
            Self::MalformedBody => "malformedBody",
            Self::MalformedUsage => "malformedUsage",
            Self::MissingBlob => "missingBlob",
            Self::CorruptBlob => "corruptBlob",
            Self::BadBlobReference => "badBlobReference",
        }
    }

    /// Whether a repair takes the line out of the file `[L1b]`; what is wrong with a whole entry stays.
    pub fn leaves_with_repair(self) -> bool {
        matches!(self, Self::DamagedLine | Self::NotAnObject | Self::NotATitleSlot | Self::SecondHeader | Self::NoId)
    }

    /// What it means, for a person.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::DamagedLine => {
                "the line is no whole JSON object; what is whole in it was recovered, the line stays in the file"
            }
            Self::NotAnObject => "the line is no JSON object; it is skipped and stays in the file",
            Self::NotATitleSlot => "the first line is no valid title slot; it is skipped and stays in the file",
            Self::SecondHeader => "another session header; it is skipped and stays in the file",
            Self::OddVersion => {
                "the version is no number; the session is read as the current version and never written"
            }
            Self::NoId => "the entry has no text id; it stays in the file and is not part of the tree",
            Self::RepeatedId => "an earlier entry has the same id; the last one is used",
            Self::MissingParent => "the parent is not in the file; the entry counts as a root",
            Self::ParentCycle => "the entry is its own ancestor; walks stop here",
            Self::PayloadNotJson => "the entry's content is no JSON; it contributes nothing and stays in the file",
            Self::MalformedBody => "the entry lacks what its type needs; it contributes nothing",
            Self::MalformedUsage => "the usage is missing or no number; it counts as 0",
            Self::MissingBlob => "a blob is missing; the reference stays",
            Self::CorruptBlob => "a blob's content does not match its name; the reference stays",
            Self::BadBlobReference => "a blob reference is no SHA-256; it stays and is not followed",
        }
    }
}

impl Defect {
    pub(crate) fn new(kind: DefectKind, line: u64, offset: u64) -> Self {
        Self { kind, line, offset, path: None }
    }

    pub(crate) fn in_file(mut self, path: &Path) -> Self {
        self.path = Some(path.to_owned());
        self
    }

    /// What is wrong.
    pub fn kind(&self) -> DefectKind {
        self.kind
    }

    /// The physical line, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// The byte offset at which that line begins.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The file, when the session came from one.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{}:{}: ", path.display(), self.line)?,
            None => write!(f, "line {}: ", self.line)?,
        }
        write!(f, "{} (byte {})", self.kind.meaning(), self.offset)
    }
}

/// Defects as they are found; beyond [`Defects::KEPT`] only counted, so that a file full of foreign text stays cheap.
#[derive(Clone, Debug, Default)]
pub struct Defects {
    list: Vec<Defect>,
    total: u64,
}

impl Defects {
    /// How many are kept in full.
    pub const KEPT: usize = 1_000;

    pub(crate) fn report(&mut self, kind: DefectKind, line: u64, offset: u64) {
        self.add(Defect::new(kind, line, offset));
    }

    pub(crate) fn add(&mut self, defect: Defect) {
        self.total += 1;
        if self.list.len() < Self::KEPT {
            self.list.push(defect);
        }
    }

    pub(crate) fn name_file(&mut self, path: &Path) {
        for defect in &mut self.list {
            *defect = defect.clone().in_file(path);
        }
    }

    pub(crate) fn sort_by_line(&mut self) {
        self.list.sort_by_key(|defect| (defect.line, defect.kind));
    }

    /// The defects, the first [`KEPT`](Self::KEPT) of them.
    pub fn list(&self) -> &[Defect] {
        &self.list
    }

    /// How many there are, those that are only counted included.
    pub fn total(&self) -> u64 {
        self.total
    }
}
