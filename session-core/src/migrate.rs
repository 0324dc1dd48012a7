//! Older versions, read as if they were current: v1 gains a tree `[L5]`, v2 loses a legacy role `[L6]`.
//!
//! Nothing is written here. A line is migrated when it is asked for, by splicing: what the migration does not name stays byte
//! for byte. The writer uses the same function when it rewrites the file, so a reader and a rewrite never disagree.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use sha2::{Digest, Sha256};

use crate::entry::EntryKind;
use crate::id::SessionId;
use crate::json::{Json, quote};
use crate::log::{Index, Log};
use crate::splice::{Change, Edits, change_keys};

/// What reading this file has to change.
#[derive(Clone, Debug, Default)]
pub(crate) enum Migration {
    /// The file is current, newer, or of an odd version.
    #[default]
    None,
    /// Version 2: only roles.
    Roles,
    /// Version 1: ids, parents, and what refers to them.
    Tree(Box<TreeMigration>),
}

/// How a version 1 file becomes a tree.
#[derive(Clone, Debug)]
pub(crate) struct TreeMigration {
    ids: DerivedIds,
    /// Ids that entries had all the same, and the new ones.
    renamed: HashMap<Box<str>, Box<str>>,
    /// By loaded object (the header is 0): the entry it is, none for further headers.
    objects: Vec<Option<Index>>,
}

impl TreeMigration {
    pub(crate) fn new(session: &SessionId) -> Self {
        Self { ids: DerivedIds::new(session.clone()), renamed: HashMap::new(), objects: vec![None] }
    }

    /// A further header was loaded: it takes a place in the count of objects.
    pub(crate) fn skip_object(&mut self) {
        self.objects.push(None);
    }

    /// The derived id of the next entry, which will have number `index` and had `old` as its id.
    pub(crate) fn next_id(&mut self, index: Index, old: Option<&str>) -> Box<str> {
        self.objects.push(Some(index));
        let id = self.ids.take();
        if let Some(old) = old {
            self.renamed.insert(old.into(), id.clone());
        }
        id
    }

    fn follow(&self, old: Option<Json<'_>>) -> Option<&str> {
        self.renamed.get(old?.text()?.as_ref()).map(AsRef::as_ref)
    }
}

/// The ids of version 1 entries, one after the other `[L5]`. They depend on nothing but the session's id and the number of
/// entries, so whoever knows these two can go on where another left off.
#[derive(Clone, Debug)]
pub(crate) struct DerivedIds {
    session: SessionId,
    taken: HashSet<Box<str>>,
    last: Option<Box<str>>,
    count: u64,
}

impl DerivedIds {
    pub(crate) fn new(session: SessionId) -> Self {
        Self { session, taken: HashSet::new(), last: None, count: 0 }
    }

    /// The ids as they stand after `count` entries.
    pub(crate) fn after(session: SessionId, count: u64) -> Self {
        let mut ids = Self::new(session);
        for _ in 0..count {
            ids.take();
        }
        ids
    }

    /// The id that the next entry gets.
    pub(crate) fn peek(&self) -> Box<str> {
        let base = base(&self.session, self.count + 1);
        let mut id = derived(&base);
        let mut attempt = 1;
        while self.taken.contains(&id) {
            id = derived(&format!("{base}:{attempt}"));
            attempt += 1;
        }
        id
    }

    /// Gives the next entry its id.
    pub(crate) fn take(&mut self) -> Box<str> {
        let id = self.peek();
        self.taken.insert(id.clone());
        self.last = Some(id.clone());
        self.count += 1;
        id
    }

    /// The id of the latest entry.
    pub(crate) fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }
}

/// What the id of an entry is derived from, by its number.
fn base(session: &SessionId, number: u64) -> String {
    format!("{session}:{number}")
}

/// The derived id of the entry with a number, unless an earlier one has taken it `[L5]`.
pub(crate) fn derived_id(session: &SessionId, number: u64) -> Box<str> {
    derived(&base(session, number))
}

/// The first 8 hex digits of the SHA-256 of `text` `[L5]`.
fn derived(text: &str) -> Box<str> {
    let digest = Sha256::digest(text.as_bytes());
    let [a, b, c, d] = [digest[0], digest[1], digest[2], digest[3]];
    format!("{:08x}", u32::from_be_bytes([a, b, c, d])).into()
}

impl Migration {
    pub(crate) fn is_needed(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// An entry's line as it reads today. `line` is one JSON object.
    pub(crate) fn migrate<'l>(&self, log: &Log, index: Index, line: &'l [u8]) -> Cow<'l, [u8]> {
        match self {
            Self::None => Cow::Borrowed(line),
            Self::Roles => migrate_role(log.kind(index), Cow::Borrowed(line)),
            Self::Tree(tree) => migrate_role(log.kind(index), Cow::Owned(migrate_tree(tree, log, index, line))),
        }
    }
}

fn migrate_tree(tree: &TreeMigration, log: &Log, index: Index, line: &[u8]) -> Vec<u8> {
    let json = Json::new(line);
    let id = quote(log.id(index));
    let parent = log.parent_id(index).map_or_else(|| "null".to_owned(), quote);
    let mut changes = vec![("id", Change::Set(id.as_bytes())), ("parentId", Change::Set(parent.as_bytes()))];
    let followed;
    match log.kind(index) {
        EntryKind::Compaction => {
            let first_kept = match json.get("firstKeptEntryIndex") {
                Some(number) => {
                    changes.push(("firstKeptEntryIndex", Change::Remove));
                    let object = number.integer().and_then(|n| usize::try_from(n).ok());
                    object.and_then(|n| *tree.objects.get(n)?).map(|entry| log.id(entry))
                }
                None => tree.follow(json.get("firstKeptEntryId")),
            };
            if let Some(first_kept) = first_kept {
                followed = quote(first_kept);
                changes.push(("firstKeptEntryId", Change::Set(followed.as_bytes())));
            }
        }
        EntryKind::Label => {
            if let Some(target) = tree.follow(json.get("targetId")) {
                followed = quote(target);
                changes.push(("targetId", Change::Set(followed.as_bytes())));
            }
        }
        EntryKind::BranchSummary => {
            if let Some(from) = tree.follow(json.get("fromId")) {
                followed = quote(from);
                changes.push(("fromId", Change::Set(followed.as_bytes())));
            }
        }
        _ => {}
    }
    change_keys(line, &changes)
}

/// In messages the legacy role `hookMessage` becomes `custom` `[L6]`.
fn migrate_role(kind: EntryKind, line: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    if kind != EntryKind::Message {
        return line;
    }
    let json = Json::new(&line);
    let role = json.get("message").and_then(|message| message.get("role"));
    let Some(role) = role.filter(|role| role.text().as_deref() == Some("hookMessage")) else { return line };
    let mut edits = Edits::default();
    edits.replace(role.range_in(&line), &b"\"custom\""[..]);
    Cow::Owned(edits.apply(&line))
}
