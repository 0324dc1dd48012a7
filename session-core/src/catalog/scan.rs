//! Looking into session files: from the cache where they did not change, else by reading as little as will do `[R1, R3]`.

use std::path::Path;
use std::sync::Arc;

use super::ListDepth;
use super::cache::{Cache, Outcome};
use super::cwd::SameCwd;
use super::facts::{Depth, Facts};
use super::files::SessionFile;
use super::name;
use super::parallel;
use super::problem::{Problem, ProblemKind};
use super::reading::Reading;
use crate::error::ErrorKind;
use crate::storage::SessionStorage;

/// What is not read whole unless asked for `[R3]`.
const LARGE: u64 = 64 * 1024 * 1024;

/// How to look into files.
#[derive(Debug)]
pub(super) struct Scan<'a> {
    pub(super) storage: &'a Arc<dyn SessionStorage>,
    pub(super) cache: &'a Cache,
    /// Sessions of other working directories are read no further than their header.
    pub(super) cwd: Option<&'a SameCwd<'a>>,
    pub(super) depth: ListDepth,
}

/// A file that was looked into.
#[derive(Debug)]
pub(super) struct Scanned {
    /// With what it was when it was read.
    pub(super) file: SessionFile,
    pub(super) found: Result<Facts, Problem>,
    /// Whether that was read now and not known before.
    pub(super) is_news: bool,
}

impl Scan<'_> {
    /// Looks into each file, on two cores.
    pub(super) fn files(&self, files: &[SessionFile]) -> Vec<Scanned> {
        parallel::map(files, |file| self.file(file))
    }

    /// Looks into one file.
    pub(super) fn file(&self, file: &SessionFile) -> Scanned {
        match self.cache.get(&file.path, &file.stat) {
            Some(Outcome::Broken(kind)) => known(file, Err(Problem::new(*kind, &file.path))),
            Some(Outcome::Session(facts)) if self.is_enough(facts, file.stat.len) => known(file, Ok(facts.clone())),
            _ => self.read(file),
        }
    }

    /// Whether a session is one of those asked for.
    pub(super) fn wants(&self, facts: &Facts) -> bool {
        self.cwd.is_none_or(|cwd| cwd.is(facts.cwd.as_deref()))
    }

    fn is_enough(&self, facts: &Facts, len: u64) -> bool {
        let needed = self.needed(len, facts.title.as_deref());
        facts.depth >= needed || !self.wants(facts)
    }

    fn needed(&self, len: u64, title: Option<&str>) -> Depth {
        match self.depth {
            ListDepth::Header => Depth::Header,
            ListDepth::Name if title.and_then(name::first_line).is_some() => Depth::Header,
            ListDepth::Bounded if len <= LARGE => Depth::Whole,
            ListDepth::Name | ListDepth::Prefix | ListDepth::Bounded => Depth::Prompt,
            ListDepth::Whole => Depth::Whole,
        }
    }

    fn read(&self, file: &SessionFile) -> Scanned {
        if file.stat.len == 0 {
            return known(file, Err(Problem::new(ProblemKind::Empty, &file.path)));
        }
        let mut file = file.clone();
        let path = file.path.clone();
        let found =
            Reading::open(self.storage, &path).map_err(|error| unreadable(&path, error)).and_then(|mut reading| {
                file.stat = *reading.stat();
                self.facts(&mut reading).map_err(|problem| match problem.error() {
                    Some(error) => unreadable(&path, error.clone()),
                    None => problem,
                })
            });
        Scanned { file, found, is_news: true }
    }

    fn facts(&self, reading: &mut Reading) -> Result<Facts, Problem> {
        let len = reading.stat().len;
        reading.read_header(self.needed(len, None) == Depth::Whole)?;
        let mut facts = reading.facts()?;
        if self.wants(&facts) {
            match self.needed(len, facts.title.as_deref()) {
                Depth::Header => return Ok(facts),
                Depth::Prompt => reading.read_prompt()?,
                Depth::Whole => reading.read_all()?,
            }
            facts = reading.facts()?;
        }
        Ok(facts)
    }
}

fn known(file: &SessionFile, found: Result<Facts, Problem>) -> Scanned {
    Scanned { file: file.clone(), found, is_news: false }
}

fn unreadable(path: &Path, error: crate::Error) -> Problem {
    match error.kind() {
        ErrorKind::NotAFile => Problem::new(ProblemKind::NotAFile, path),
        _ => Problem::unreadable(path, error),
    }
}
