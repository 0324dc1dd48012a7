//! Which session files are followed: by default those directly in session directories. Sub-agents' files lie deeper and
//! are none of them `[D9]`, unless a pattern asks for them.

use std::path::Path;

use anyhow::{Context, Result};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use session_core::storage::is_temporary;

/// Sessions of this depth and no sub-agents'.
pub(crate) const DEFAULT_INCLUDE: &str = "*/*.jsonl";

/// Whether a name is that of a session file.
pub(crate) fn is_session_name(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jsonl") && !path.file_name().is_some_and(is_temporary)
}

/// Patterns for paths relative to a root. `*` stays within a directory, `**` does not.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    include: GlobSet,
    exclude: GlobSet,
    is_deep: bool,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            include: GlobSet::new(GlobBuilder::new(DEFAULT_INCLUDE).literal_separator(true).build())
                .unwrap_or_default(),
            exclude: GlobSet::empty(),
            is_deep: false,
        }
    }
}

impl Filter {
    /// Files that some pattern of `include` matches (none given: [`DEFAULT_INCLUDE`]) and none of `exclude`.
    ///
    /// # Errors
    /// A pattern that is none.
    pub(crate) fn new(include: &[String], exclude: &[String]) -> Result<Self> {
        let set = |patterns: &[String]| -> Result<GlobSet> {
            let mut set = GlobSetBuilder::new();
            for pattern in patterns {
                let glob = GlobBuilder::new(pattern).literal_separator(true).build();
                set.add(glob.with_context(|| format!("{pattern:?} is no file pattern"))?);
            }
            Ok(set.build()?)
        };
        if include.is_empty() {
            return Ok(Self { exclude: set(exclude)?, ..Self::default() });
        }
        let is_deep = include.iter().any(|pattern| pattern.contains("**") || pattern.matches('/').count() > 1);
        Ok(Self { include: set(include)?, exclude: set(exclude)?, is_deep })
    }

    /// Whether a file is followed; the path is relative to its root.
    pub(crate) fn admits(&self, relative: &Path) -> bool {
        is_session_name(relative) && self.include.is_match(relative) && !self.exclude.is_match(relative)
    }

    /// Whether files may be in a directory; the path is relative to its root.
    pub(crate) fn enters(&self, relative: &Path) -> bool {
        let depth = relative.components().count();
        depth == 1 || depth > 1 && self.is_deep
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sub_agents_are_left_out_unless_asked_for() {
        // K36
        let plain = Filter::default();
        let admits = |filter: &Filter, path: &str| filter.admits(Path::new(path));
        assert!(admits(&plain, "--w--/x.jsonl"));
        for path in ["--w--/x/sub.jsonl", "x.jsonl", "--w--/x.json", "--w--/.x.jsonl.tmp"] {
            assert!(!admits(&plain, path), "{path}");
        }
        assert!(plain.enters(Path::new("--w--")) && !plain.enters(Path::new("--w--/x")));

        let deep = Filter::new(&["**/*.jsonl".to_owned()], &["*secret*/**".to_owned()]).unwrap();
        assert!(admits(&deep, "--w--/x/sub.jsonl") && admits(&deep, "--w--/x.jsonl"));
        assert!(!admits(&deep, "--secret--/x.jsonl"));
        assert!(deep.enters(Path::new("--w--/x")));
        assert!(Filter::new(&["[".to_owned()], &[]).unwrap_err().to_string().contains("\"[\""));
    }
}
