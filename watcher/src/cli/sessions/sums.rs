//! What a listing cannot know without decoding a session: what it cost, and how many branches it has.

use anyhow::Result;
use session_core::Session;

/// The sums of one session.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sums {
    pub(super) cost: f64,
    /// Entries on which nothing hangs; one in a session that never branched.
    pub(super) branches: usize,
}

impl Sums {
    pub(super) fn of(session: &Session) -> Result<Self> {
        Ok(Self { cost: session.usage()?.cost, branches: branches(session) })
    }
}

pub(super) fn branches(session: &Session) -> usize {
    let nodes = session.tree();
    let mut has_children = vec![false; nodes.len()];
    for parent in nodes.iter().filter_map(|node| node.parent) {
        has_children[parent] = true;
    }
    has_children.iter().filter(|has| !**has).count()
}
