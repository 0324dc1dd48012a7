//! Judges answers of the conformance driver against the vectors in `tests/data/vectors`.
//!
//! A vector is a file; the rules by which its answer is compared are here, so that a new vector needs no code. The judge knows
//! nothing of the crates that it judges beyond JSON and times: what it compares with stands in the files alone.

mod catalog;
mod difference;
mod history;
mod load;
mod normal;
mod script;
mod value;

use std::fs;
use std::path::{Path, PathBuf};

use session_core::JsonText;
pub use value::{Document, Node, Value};

/// Gives the answer to a command: one JSON text for another.
pub type Driver<'d> = dyn FnMut(&str) -> String + 'd;

/// The folders of vectors, and the rules for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Session files and what opening them gives.
    Load,
    /// Operations on session managers.
    Scripts,
    /// Operations on a prompt store.
    History,
    /// Finding sessions.
    Catalog,
}

/// How the vectors of one folder went.
#[derive(Debug, Default)]
pub struct Verdict {
    /// How many were run.
    pub ran: usize,
    /// One line for each that failed: its name and the first difference.
    pub failures: Vec<String>,
}

impl Kind {
    /// The folder's name.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Scripts => "scripts",
            Self::History => "history",
            Self::Catalog => "catalog",
        }
    }

    /// The vectors of this kind below `root`, in the order of their names.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn vectors(self, root: &Path) -> Result<Vec<PathBuf>, String> {
        let folder = root.join(self.folder());
        let listing = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut vectors =
            listing.map(|item| item.map(|item| item.path())).collect::<Result<Vec<_>, _>>().map_err(shown)?;
        vectors.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        vectors.sort();
        Ok(vectors)
    }

    /// Runs all vectors of this kind below `root`.
    ///
    /// # Errors
    /// When the folder cannot be read; a vector that fails is no error but part of the verdict.
    pub fn judge(self, root: &Path, driver: &mut Driver<'_>) -> Result<Verdict, String> {
        let mut verdict = Verdict::default();
        for path in self.vectors(root)? {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            verdict.ran += 1;
            if let Err(difference) = self.judge_one(&path, driver) {
                verdict.failures.push(format!("{}/{name}: {difference}", self.folder()));
            }
        }
        Ok(verdict)
    }

    fn judge_one(self, path: &Path, driver: &mut Driver<'_>) -> Result<(), String> {
        let vector = Vector::read(path)?;
        let guard = tempfile::Builder::new().prefix("judge").tempdir().map_err(shown)?;
        // Links in the name of the temporary directory are resolved: answers name places by their real path.
        let work = fs::canonicalize(guard.path()).map_err(shown)?;
        match self {
            Self::Load => load::check(&vector, driver, &work),
            Self::Scripts => script::check(&vector, driver),
            Self::History => history::check(&vector, driver, &work),
            Self::Catalog => catalog::check(&vector, driver, &work),
        }
    }
}

/// One vector: as it is spelled, for commands, and for looking into.
struct Vector {
    path: PathBuf,
    text: JsonText,
    document: Document,
}

impl Vector {
    fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(shown)?;
        let document = Document::parse(&text)?;
        Ok(Self { path: path.to_owned(), text: JsonText::parse(&text).map_err(shown)?, document })
    }

    /// The value of a key of the vector as it is spelled, on one line; null when it is not there.
    fn raw(&self, key: &str) -> String {
        let value = self.text.view().get(key);
        // In JSON line ends stand between tokens alone.
        value.map_or_else(|| "null".to_owned(), |value| String::from_utf8_lossy(value.raw()).replace(['\n', '\r'], " "))
    }

    fn get(&self, key: &str) -> Option<Node> {
        self.document.get(Document::ROOT, key)
    }

    /// The items of the array under a key.
    fn items(&self, key: &str) -> &[Node] {
        self.get(key).map_or(&[], |node| self.document.items(node))
    }

    /// The members of the object under a key.
    fn members(&self, key: &str) -> &[(String, Node)] {
        self.get(key).map_or(&[], |node| self.document.members(node))
    }
}

/// The answer's document and the place of what was answered.
///
/// # Errors
/// When the answer is an error or no answer at all.
fn ask(driver: &mut Driver<'_>, command: &str) -> Result<(Document, Node), String> {
    let answer = Document::parse(&driver(command))?;
    match answer.get(Document::ROOT, "ok") {
        Some(ok) => Ok((answer, ok)),
        None => Err(answer.shown(Document::ROOT)),
    }
}

fn shown(error: impl std::fmt::Display) -> String {
    error.to_string()
}
