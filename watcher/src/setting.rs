//! Values of settings that are judged where they are written, so that an error has its line and column, or its flag. What is
//! done with them is no concern of this file.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use history::OpenOptions;
use serde::Deserialize;
use session_core::Environment;

use crate::discover::Filter;

/// A pattern of session files.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct FilePattern(String);

/// A pattern of working directories whose prompts are not recorded; it may begin with the home.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct DirectoryPattern(String);

/// A path that means the same wherever it is read: absolute, or below the home.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct SettledPath(PathBuf);

impl FilePattern {
    pub(crate) fn text(&self) -> String {
        self.0.clone()
    }
}

impl DirectoryPattern {
    pub(crate) fn expanded(&self, environment: &Environment) -> String {
        // A home whose name is no text can't be written into a pattern.
        expand(Path::new(&self.0), environment).to_str().map_or_else(|| self.0.clone(), str::to_owned)
    }
}

impl SettledPath {
    /// A path of the command line, made absolute.
    pub(crate) fn absolute(path: PathBuf) -> Self {
        Self(path)
    }

    pub(crate) fn expanded(&self, environment: &Environment) -> PathBuf {
        expand(&self.0, environment)
    }
}

fn expand(path: &Path, environment: &Environment) -> PathBuf {
    match (path.strip_prefix("~"), environment.home()) {
        (Ok(below), Some(home)) => home.join(below),
        _ => path.to_owned(),
    }
}

impl FromStr for FilePattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pattern = text.to_owned();
        Filter::new(std::slice::from_ref(&pattern), &[]).map_err(|error| format!("{error:#}"))?;
        Ok(Self(pattern))
    }
}

impl FromStr for DirectoryPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Any home will do for judging it.
        let judged = expand(Path::new(text), &Environment::default().with_variable("HOME", "/"));
        let judged = judged.to_str().unwrap_or(text);
        OpenOptions::new().never_record([judged]).map_err(|error| error.to_string())?;
        Ok(Self(text.to_owned()))
    }
}

impl FromStr for SettledPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = Path::new(text);
        if path.is_absolute() || path.starts_with("~") {
            return Ok(Self(path.to_owned()));
        }
        Err(format!("{text:?} is relative to nothing: say an absolute path, or one that begins with ~/"))
    }
}

impl TryFrom<String> for FilePattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl TryFrom<String> for DirectoryPattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl TryFrom<String> for SettledPath {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}
