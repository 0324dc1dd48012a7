//! Directories whose prompts are never recorded. When in doubt a prompt stays out: it can be typed again, and a secret can't
//! be untold.

use std::path::Path;

use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::error::{Error, ErrorKind, Result};

/// The patterns, as they match working directories.
#[derive(Debug, Clone, Default)]
pub(crate) struct Exclusions(GlobSet);

impl Exclusions {
    /// Each pattern stands for the directories that it matches and everything below them.
    pub(crate) fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let mut set = GlobSetBuilder::new();
        for pattern in patterns {
            let invalid = |message: &str| Error::new(ErrorKind::Invalid, Path::new(pattern), message);
            let directory = pattern.trim_end_matches("/**").trim_end_matches('/');
            if !pattern.starts_with(['/', '*', '?', '[', '{']) {
                return Err(invalid(
                    "working directories are absolute: it has to begin with / or with **/ to match one",
                ));
            }
            for glob in [directory, &format!("{directory}/**")] {
                set.add(Glob::new(glob).map_err(|error| invalid(&error.kind().to_string()))?);
            }
        }
        set.build().map(Self).map_err(|error| Error::new(ErrorKind::Invalid, Path::new(""), error.to_string()))
    }

    /// Whether nothing of this directory is recorded, however it is spelled.
    pub(crate) fn hold(&self, cwd: &str) -> bool {
        !self.0.is_empty() && (self.0.is_match(cwd) || self.0.is_match(plain(cwd)))
    }
}

/// The same directory without `.`, `..`, double and closing slashes, as far as the text tells.
fn plain(cwd: &str) -> String {
    let mut parts = Vec::new();
    for part in cwd.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_left_out_with_all_below_it_however_either_is_spelled() {
        for (pattern, cwd, out) in [
            ("/p/secret", "/p/secret", true),
            ("/p/secret", "/p/secret/", true),
            ("/p/secret", "/p/secret/deep/er", true),
            ("/p/secret", "/p/./open/../secret//x", true),
            ("/p/secret", "/p/secrets", false),
            ("/p/secret", "/q/p/secret", false),
            ("/p/secret/", "/p/secret", true),
            ("/p/secret/**", "/p/secret", true),
            ("/p/secret/**", "/p/secret/x", true),
            ("/p/sec*", "/p/secrets/x", true),
            ("**/private", "/a/b/private/c", true),
            ("**/private", "/a/b/private.bak", false),
            ("/{a,b}", "/b/c", true),
            ("/**", "/", true),
        ] {
            assert_eq!(Exclusions::new([pattern]).unwrap().hold(cwd), out, "{pattern} {cwd}");
        }
        assert!(!Exclusions::default().hold("/p"));
    }

    #[test]
    fn a_pattern_that_could_never_match_is_refused() {
        for pattern in ["", "secret", "~/secret", "./secret", "/p/[x"] {
            let error = Exclusions::new(["/good", pattern]).unwrap_err();
            assert!(error.kind() == ErrorKind::Invalid && error.path() == Some(Path::new(pattern)), "{error}");
        }
    }
}
