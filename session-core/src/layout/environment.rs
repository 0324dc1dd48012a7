//! What a process knows of its surroundings, as a value that can be handed in.
//!
//! [`Environment::from_process`] is the only place that reads the process environment; everything else in this crate takes
//! an [`Environment`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};

/// Environment variables, home, working directory and temporary root. An empty variable counts as absent.
///
/// ```
/// use std::path::Path;
/// use session_core::Environment;
/// let environment = Environment::new("/w").with_variable("HOME", "/home/me").with_variable("TMPDIR", "");
/// assert_eq!(environment.home(), Some(Path::new("/home/me")));
/// assert_eq!(environment.temporary_root(), Path::new("/tmp"));
/// ```
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
    /// For a process without the variable: what the user database says.
    account_home: Option<PathBuf>,
    cwd: Option<PathBuf>,
}

/// Names without values: an environment holds secrets, and logs are read by many.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.variables.keys().collect();
        let mut shown = f.debug_struct("Environment");
        shown.field("variables", &names).field("home", &self.home()).field("cwd", &self.cwd).finish_non_exhaustive()
    }
}

impl Environment {
    /// An environment without variables, in the working directory `cwd`.
    pub fn new(cwd: impl Into<PathBuf>) -> Self {
        Self { cwd: Some(cwd.into()), ..Self::default() }
    }

    /// The environment of this process as it is now.
    pub fn from_process() -> Self {
        Self {
            variables: std::env::vars_os().collect(),
            account_home: std::env::home_dir(),
            cwd: std::env::current_dir().ok(),
        }
    }

    /// The same environment with one variable set.
    #[must_use]
    pub fn with_variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// The value of a variable; none when it is not set or empty.
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// The home directory: `$HOME`, else the account's. None when neither is an absolute path.
    pub fn home(&self) -> Option<&Path> {
        let home = self.variable("HOME").map(Path::new).or(self.account_home.as_deref());
        home.filter(|home| home.is_absolute())
    }

    /// The working directory.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when the process has none, because it was removed.
    pub fn cwd(&self) -> Result<&Path> {
        self.cwd.as_deref().ok_or_else(|| {
            Error::new(
                ErrorKind::NotFound,
                "the working directory of this process does not exist; change to one that does",
            )
        })
    }

    /// A path as it is meant from the working directory.
    pub(crate) fn absolute<'p>(&self, path: &'p Path) -> Result<Cow<'p, Path>> {
        if path.is_absolute() {
            return Ok(Cow::Borrowed(path));
        }
        Ok(Cow::Owned(self.cwd()?.join(path)))
    }

    /// The directory for temporary files, by the rule of the harnesses: `$TMPDIR`, `$TMP`, `$TEMP`, else `/tmp`.
    pub fn temporary_root(&self) -> &Path {
        let root = ["TMPDIR", "TMP", "TEMP"].into_iter().find_map(|name| self.variable(name));
        root.map_or(Path::new("/tmp"), Path::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_do_not_show() {
        let environment = Environment::new("/w").with_variable("API_KEY", "s3cret");
        let shown = format!("{environment:?}");
        assert!(shown.contains("API_KEY") && !shown.contains("s3cret"), "{shown}");
    }

    #[test]
    fn a_home_is_absolute_and_a_missing_working_directory_is_an_error() {
        assert_eq!(Environment::new("/w").with_variable("HOME", "me").home(), None);
        assert_eq!(Environment::default().cwd().unwrap_err().kind(), ErrorKind::NotFound);
        let process = Environment::from_process();
        assert_eq!(process.cwd().unwrap(), std::env::current_dir().unwrap());
        assert_eq!(process.variable("PATH").map(OsStr::to_owned), std::env::var_os("PATH"));
    }
}
