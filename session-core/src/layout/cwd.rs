//! Names of the directory that holds a working directory's sessions `[D3, D4]`.
//!
//! The encoding is lossy (`/a/b` and `/a-b` share a name), so a name says where to look, never whose a session is `[D5]`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use sha2::{Digest, Sha256};

use super::Environment;
use crate::error::{Error, ErrorKind, Result};
use crate::storage::SessionStorage;

/// The directory name for a working directory: its absolute path without the leading slash, every `/`, `\` and `:` replaced
/// by `-`, between `--` and `--` `[D3]`.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] for a relative path or one with a NUL.
///
/// ```
/// use std::path::Path;
/// use session_core::encode_cwd;
/// assert_eq!(encode_cwd(Path::new("/home/me/my-project")).unwrap(), "--home-me-my-project--");
/// assert_eq!(encode_cwd(Path::new("/")).unwrap(), "----");
/// assert!(encode_cwd(Path::new("my-project")).is_err());
/// ```
pub fn encode_cwd(cwd: &Path) -> Result<OsString> {
    Ok(encode_absolute(&clean_cwd(cwd)?))
}

/// Whether two paths name the same place: compared with links resolved as far as they exist `[D5]`.
pub fn same_path(storage: &dyn SessionStorage, a: &Path, b: &Path) -> bool {
    a == b || storage.resolve(a) == storage.resolve(b)
}

/// Whether a path can be a working directory: absolute, and without a NUL.
pub(crate) fn check_cwd(cwd: &Path) -> Result<()> {
    if cwd.as_os_str().as_bytes().contains(&0) {
        return Err(Error::new(ErrorKind::InvalidInput, "a working directory holds no NUL").at(cwd));
    }
    if !cwd.is_absolute() {
        return Err(Error::new(ErrorKind::InvalidInput, "a working directory is given as an absolute path").at(cwd));
    }
    Ok(())
}

/// Checks a working directory and takes `.`, `..` and needless slashes out of it, by name alone.
pub(super) fn clean_cwd(cwd: &Path) -> Result<PathBuf> {
    check_cwd(cwd)?;
    let mut clean = PathBuf::from("/");
    for component in cwd.components() {
        match component {
            Component::ParentDir => drop(clean.pop()),
            Component::Normal(name) => clean.push(name),
            _ => {}
        }
    }
    Ok(clean)
}

/// All names that harnesses give to one working directory's sessions.
#[derive(Debug)]
pub(super) struct CwdNames {
    known: Vec<OsString>,
    digests: Vec<String>,
}

impl CwdNames {
    pub(super) fn of(cwd: &Path, environment: &Environment, storage: &dyn SessionStorage) -> Result<Self> {
        let cwd = clean_cwd(cwd)?;
        let mut names = Self { known: Vec::new(), digests: Vec::new() };
        // Some harnesses name the path as given, newer ones the resolved one.
        let resolved = storage.resolve(&cwd);
        let given_home = environment.home().map(Path::to_path_buf);
        let resolved_home = given_home.as_deref().map(|home| storage.resolve(home));
        let given_temporary = environment.temporary_root().to_path_buf();
        let resolved_temporary = storage.resolve(&given_temporary);
        names.add(&cwd, given_home.as_deref(), &given_temporary);
        names.add(&resolved, resolved_home.as_deref(), &resolved_temporary);
        Ok(names)
    }

    fn add(&mut self, cwd: &Path, home: Option<&Path>, temporary: &Path) {
        let below_home = home.and_then(|home| cwd.strip_prefix(home).ok());
        let below_temporary = cwd.strip_prefix(temporary).ok();
        let names = [
            Some(encode_absolute(cwd)),
            below_home.map(|below| encode_relative("-", "", below)),
            below_temporary.map(|below| encode_relative("-tmp", "-", below)),
        ];
        for name in names.into_iter().flatten() {
            if !self.known.contains(&name) {
                self.known.push(name);
            }
        }
        let digest = hex(&Sha256::digest(cwd.as_os_str().as_bytes()));
        if !self.digests.contains(&digest) {
            self.digests.push(digest);
        }
    }

    /// The names that need no look at the disk; the first is the one for new directories.
    pub(super) fn known(&self) -> &[OsString] {
        &self.known
    }

    /// Whether a name has the short-lived form `<scope>-<readable>-<sha256 of the cwd>` for this working directory.
    pub(super) fn is_digest_form(&self, name: &OsStr) -> bool {
        let Some((readable, digest)) = name.to_str().and_then(|name| name.rsplit_once('-')) else {
            return false;
        };
        let scoped = readable.split_once('-').is_some_and(|(scope, rest)| !scope.is_empty() && !rest.is_empty());
        scoped && self.digests.iter().any(|known| known == digest)
    }
}

fn encode_absolute(cwd: &Path) -> OsString {
    let bytes = cwd.as_os_str().as_bytes();
    let mut name = b"--".to_vec();
    name.extend(bytes.strip_prefix(b"/").unwrap_or(bytes).iter().map(|byte| encode_byte(*byte)));
    name.extend_from_slice(b"--");
    OsString::from_vec(name)
}

fn encode_relative(prefix: &str, separator: &str, below: &Path) -> OsString {
    let bytes = below.as_os_str().as_bytes();
    let mut name = prefix.as_bytes().to_vec();
    if !bytes.is_empty() {
        name.extend_from_slice(separator.as_bytes());
        name.extend(bytes.iter().map(|byte| encode_byte(*byte)));
    }
    OsString::from_vec(name)
}

/// These three are ASCII, and no byte of a longer character is: working on bytes leaves all others whole.
fn encode_byte(byte: u8) -> u8 {
    match byte {
        b'/' | b'\\' | b':' => b'-',
        other => other,
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::storage::MemorySessionStorage;

    fn known(cwd: &str, environment: &Environment) -> Vec<String> {
        let names = CwdNames::of(Path::new(cwd), environment, &MemorySessionStorage::new()).unwrap();
        names.known().iter().map(|name| name.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn every_form_of_a_directory_name() {
        // [D3, D4]
        let environment = Environment::new("/").with_variable("HOME", "/home/me").with_variable("TMPDIR", "/var/tmp/");
        for (cwd, names) in [
            ("/w/a-b/c", vec!["--w-a-b-c--"]),
            ("/w/a/b-c/", vec!["--w-a-b-c--"]),
            (r"/w/x:y\z", vec!["--w-x-y-z--"]),
            ("/home/me", vec!["--home-me--", "-"]),
            ("/home/me/p/q", vec!["--home-me-p-q--", "-p-q"]),
            ("/home/me2", vec!["--home-me2--"]),
            ("/var/tmp", vec!["--var-tmp--", "-tmp"]),
            ("/var/tmp/x", vec!["--var-tmp-x--", "-tmp-x"]),
            ("/", vec!["----"]),
            ("/w/./x/../é", vec!["--w-é--"]),
        ] {
            assert_eq!(known(cwd, &environment), names, "{cwd}");
        }
    }

    #[test]
    fn digest_names_belong_to_one_working_directory() {
        // [D4]
        let storage = MemorySessionStorage::new();
        let environment = Environment::new("/");
        let names = CwdNames::of(Path::new("/home/me/p"), &environment, &storage).unwrap();
        let other = CwdNames::of(Path::new("/home/me/q"), &environment, &storage).unwrap();
        let digest = hex(&Sha256::digest(b"/home/me/p"));
        let name = OsString::from(format!("home-p-{digest}"));
        assert!(names.is_digest_form(&name) && !other.is_digest_form(&name));
        for name in [format!("home-{digest}"), digest.clone(), format!("-p-{digest}"), format!("home-p-{digest}0")] {
            assert!(!names.is_digest_form(OsStr::new(&name)), "{name}");
        }
    }

    #[test]
    fn unusable_working_directories_are_typed_errors() {
        for cwd in ["", ".", "a/b", "./x", "/a\0b"] {
            assert_eq!(encode_cwd(Path::new(cwd)).unwrap_err().kind(), ErrorKind::InvalidInput, "{cwd:?}");
        }
    }

    proptest! {
        #[test]
        fn property_a_name_is_one_component_and_says_all_but_the_separators(
            parts in prop::collection::vec("[^/\0]{1,12}", 0..6)
        ) {
            // [D3]
            let cwd = PathBuf::from(format!("/{}", parts.join("/")));
            let name = encode_cwd(&cwd).unwrap();
            prop_assert_eq!(Path::new(&name).components().count(), 1);
            let clean = clean_cwd(&cwd).unwrap();
            let text = clean.to_str().unwrap();
            let expected: String = text[1..].chars().map(|c| if "/\\:".contains(c) { '-' } else { c }).collect();
            prop_assert_eq!(name.to_str().unwrap(), format!("--{expected}--"));
            prop_assert_eq!(encode_cwd(&clean).unwrap(), name);
        }
    }
}
