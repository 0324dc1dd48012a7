//! The tree of entries `[T4, L8]`: walks to the root, children, and the whole tree as a flat list. No recursion anywhere.

use std::collections::HashSet;

use crate::log::{Index, Log, number_of};

/// One node of [`Session::tree`](crate::Session::tree), in the order of a walk from the roots down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeNode {
    /// The entry's number in the order of the file.
    pub entry: usize,
    /// The position of the parent in this list; none for a root.
    pub parent: Option<usize>,
    /// How many ancestors it has.
    pub depth: usize,
}

/// The way from an entry up to its root, the entry first. Ends before the first entry that was seen already, and where a
/// parent does not exist.
#[derive(Debug)]
pub(crate) struct Ancestors<'l> {
    log: &'l Log,
    from: Index,
    next: Option<Index>,
    /// The last entry that was given.
    last: Option<Index>,
    given: usize,
    /// All that were given, once one stands behind its child in the file.
    seen: Option<HashSet<Index>>,
}

impl<'l> Ancestors<'l> {
    pub(crate) fn of(log: &'l Log, from: Index) -> Self {
        Self { log, from, next: Some(from), last: None, given: 0, seen: None }
    }
}

impl Iterator for Ancestors<'_> {
    type Item = Index;

    fn next(&mut self) -> Option<Index> {
        let entry = self.next.take()?;
        // As long as parents stand before their children the way can't meet itself, and nothing needs to be remembered.
        if self.seen.is_none() && self.last.is_some_and(|last| entry >= last) {
            let way = std::iter::successors(Some(self.from), |entry| self.log.parent(*entry));
            self.seen = Some(way.take(self.given).collect());
        }
        if let Some(seen) = &mut self.seen
            && !seen.insert(entry)
        {
            return None;
        }
        self.next = self.log.parent(entry);
        self.last = Some(entry);
        self.given += 1;
        Some(entry)
    }
}

/// The entries from the root to `leaf`: [`Ancestors`] backwards.
pub(crate) fn path(log: &Log, leaf: Index) -> Vec<Index> {
    let mut path: Vec<Index> = Ancestors::of(log, leaf).collect();
    path.reverse();
    path
}

/// Who hangs under whom, cycles cut.
pub(crate) struct Links {
    /// By entry: its parent in the tree.
    parents: Vec<Option<Index>>,
    /// One entry of each cycle: the first in file order, which is a root.
    pub(crate) cycles: Vec<Index>,
}

impl Links {
    pub(crate) fn of(log: &Log) -> Self {
        let mut parents: Vec<Option<Index>> = log.indices().map(|entry| log.parent(entry)).collect();
        let cycles = cut_cycles(&mut parents);
        Self { parents, cycles }
    }

    /// The children of each entry, and the roots, in the order of the tree.
    fn children(&self, log: &Log) -> Children {
        // Counting sort by parent: the last group holds the roots.
        let roots = self.parents.len();
        let group = |entry: Index| self.parents[entry as usize].map_or(roots, |parent| parent as usize);
        let mut starts = vec![0_u32; roots + 2];
        for entry in log.indices() {
            starts[group(entry) + 1] += 1;
        }
        for n in 1..starts.len() {
            starts[n] += starts[n - 1];
        }
        let mut fill = starts.clone();
        let mut entries = vec![0; log.len()];
        for entry in log.indices() {
            let at = &mut fill[group(entry)];
            entries[*at as usize] = entry;
            *at += 1;
        }
        for n in 0..=roots {
            sort_siblings(log, &mut entries[starts[n] as usize..starts[n + 1] as usize]);
        }
        Children { starts, entries }
    }
}

struct Children {
    starts: Vec<u32>,
    entries: Vec<Index>,
}

impl Children {
    fn group(&self, n: usize) -> &[Index] {
        &self.entries[self.starts[n] as usize..self.starts[n + 1] as usize]
    }
}

/// By timestamp, then file order; an entry whose timestamp can't be read takes the time of the sibling before it.
fn sort_siblings(log: &Log, siblings: &mut [Index]) {
    if siblings.len() < 2 {
        return;
    }
    let mut last = i64::MIN;
    let mut timed: Vec<(i64, Index)> = siblings
        .iter()
        .map(|&entry| {
            last = log.timestamp(entry).map_or(last, crate::clock::Timestamp::millis);
            (last, entry)
        })
        .collect();
    timed.sort_unstable();
    for (slot, (_, entry)) in siblings.iter_mut().zip(timed) {
        *slot = entry;
    }
}

/// Makes the first entry of each cycle a root, and returns these entries.
fn cut_cycles(parents: &mut [Option<Index>]) -> Vec<Index> {
    const UNSEEN: Index = Index::MAX;
    // By entry: the walk that first came by.
    let mut walk_of = vec![UNSEEN; parents.len()];
    let mut cycles = Vec::new();
    for start in 0..number_of(parents.len()) {
        let mut at = start;
        let meeting = loop {
            match walk_of[at as usize] {
                UNSEEN => walk_of[at as usize] = start,
                walk if walk == start => break Some(at),
                _ => break None,
            }
            match parents[at as usize] {
                Some(parent) => at = parent,
                None => break None,
            }
        };
        let Some(meeting) = meeting else { continue };
        let mut first = meeting;
        let mut next = parents[meeting as usize];
        while let Some(entry) = next.filter(|entry| *entry != meeting) {
            first = first.min(entry);
            next = parents[entry as usize];
        }
        parents[first as usize] = None;
        cycles.push(first);
    }
    cycles
}

/// All entries, each once, roots first and children below their parents.
pub(crate) fn flatten(log: &Log) -> Vec<TreeNode> {
    let children = Links::of(log).children(log);
    let mut nodes = Vec::with_capacity(log.len());
    let mut ahead: Vec<(Index, Option<usize>, usize)> = Vec::new();
    ahead.extend(children.group(log.len()).iter().rev().map(|&root| (root, None, 0)));
    while let Some((entry, parent, depth)) = ahead.pop() {
        let position = nodes.len();
        nodes.push(TreeNode { entry: entry as usize, parent, depth });
        ahead.extend(children.group(entry as usize).iter().rev().map(|&child| (child, Some(position), depth + 1)));
    }
    nodes
}

/// The children of one entry, in the order of the tree.
pub(crate) fn children(log: &Log, entry: Index) -> Vec<Index> {
    let links = Links::of(log);
    let mut children: Vec<Index> =
        log.indices().filter(|&child| links.parents[child as usize] == Some(entry)).collect();
    sort_siblings(log, &mut children);
    children
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Envelope, Place};
    use proptest::prelude::*;

    /// Entries that name these as their parents.
    fn log(parents: &[Option<usize>]) -> Log {
        let ids: Vec<String> = (0..parents.len()).map(|n| n.to_string()).collect();
        let mut log = Log::default();
        for (n, parent) in parents.iter().enumerate() {
            let parent = parent.map(|parent| parent.to_string());
            let envelope =
                Envelope { kind: "x", id: &ids[n], parent: parent.as_deref(), timestamp: None, line: n as u64 + 1 };
            log.push(&envelope, Place::Line { offset: 0, len: 0 });
        }
        log
    }

    proptest! {
        #[test]
        fn property_a_way_up_ends_before_what_it_has_seen(
            parents in prop::collection::vec(prop::option::weighted(0.9, 0..12_usize), 1..12),
            from in any::<prop::sample::Index>(),
        ) {
            // [L8] cycles, missing parents, parents behind their children
            let from = from.index(parents.len());
            let mut expected = Vec::new();
            let mut next = Some(from);
            while let Some(entry) = next.filter(|entry| *entry < parents.len() && !expected.contains(entry)) {
                expected.push(entry);
                next = parents[entry];
            }
            let log = log(&parents);
            let found: Vec<usize> = Ancestors::of(&log, number_of(from)).map(|entry| entry as usize).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
