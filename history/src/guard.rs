//! What must not get into the history: secrets, directories that are never recorded, prompts that were deleted.

use crate::{exclusions::Exclusions, redact::Redaction, submission::Submission, tombstone::Tombstones};

/// The rules that stand before the ledger.
pub(crate) struct Guard {
    pub(crate) redaction: Option<Redaction>,
    pub(crate) exclusions: Exclusions,
    pub(crate) tombstones: Tombstones,
}

impl Guard {
    /// Nothing is kept out.
    #[cfg(test)]
    pub(crate) fn of_nothing() -> Self {
        let tombstones = Tombstones::of(std::path::Path::new("nowhere"));
        Self { redaction: None, exclusions: Exclusions::default(), tombstones }
    }

    pub(crate) fn excludes(&self, submission: &Submission) -> bool {
        submission.cwd.as_ref().is_some_and(|cwd| self.exclusions.hold(cwd))
    }

    /// The text to record, and the kinds of secrets that it lost.
    pub(crate) fn redact(&self, prompt: &str) -> Option<(String, Vec<String>)> {
        self.redaction.as_ref().and_then(|redaction| redaction.apply(prompt))
    }

    /// Whether this very submission was deleted.
    pub(crate) fn is_forgotten(&self, prompt: &str, at: i64, submission: &Submission) -> bool {
        self.tombstones.holds(prompt, at, submission.key.as_ref().map(crate::EntryKey::as_bytes))
    }
}
