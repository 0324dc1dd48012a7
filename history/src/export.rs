//! The shape of an exported line. What it writes, `import` reads.

use serde::Serialize;

use crate::entry::Entry;

/// One line of an export.
#[derive(Serialize)]
pub(crate) struct Exported<'a> {
    prompt: &'a str,
    created_at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a str>,
    use_count: u64,
}

impl<'a> Exported<'a> {
    pub(crate) fn of(entry: &'a Entry) -> Self {
        Self {
            prompt: entry.prompt(),
            created_at: entry.created_at(),
            cwd: entry.cwd(),
            session: entry.session(),
            use_count: entry.use_count(),
        }
    }
}
