//! What listings learned, kept in one file of ours so that the next one need not open what did not change `[R3]`.
//!
//! The cache is a guess that costs nothing to lose: whatever is wrong with it, it is empty. It is never the source of
//! anything, is written only when the caller asked for that, and holds nothing that is not in the session files.
//!
//! # Format
//!
//! Lines of JSON. The first is `{"type":"session-catalog","version":1,"sha256":"…"}`, the digest being that of all bytes
//! behind that line. Each further line is one file:
//!
//! | key | meaning |
//! |---|---|
//! | `path` | absolute path, the key |
//! | `len`, `modified`, `change`, `device`, `inode` | the file as it was: bytes, nanoseconds since 1970 as text, a number as text that changes with the file, which file it is |
//! | `broken` | nothing in it is a session; no further keys |
//! | `depth` | how far it was read: `header`, `prompt`, `whole` |
//! | `id`, `cwd`, `created`, `parent`, `title`, `first` | facts of its beginning (`created` in milliseconds since 1970) |
//! | `messages`, `activity`, `status` | facts of the whole file |

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::facts::{Depth, Facts, Status};
use super::problem::ProblemKind;
use super::scan::Scanned;
use crate::clock::Timestamp;
use crate::error::{ErrorKind, Result};
use crate::id::SessionId;
use crate::storage::{Replacement, SessionStorage, Stat};

const TYPE: &str = "session-catalog";
const VERSION: u32 = 1;
/// More than any cache of ours holds; what is longer is none.
const LONGEST: u64 = 256 * 1024 * 1024;
/// A longer first message is not kept: its file is read again each time.
const LONGEST_TEXT: usize = 64 * 1024;

/// What is known of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Session(Facts),
    Broken(ProblemKind),
}

/// Files that were looked into, by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cache {
    /// By the bytes of the path: comparing and hashing paths part by part is slow.
    files: HashMap<OsString, (Key, Outcome)>,
}

/// What a file was. Any change changes it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    len: u64,
    /// Nanoseconds since 1970.
    modified: i128,
    change: u64,
    device: u64,
    inode: u64,
}

impl Key {
    fn of(stat: &Stat) -> Self {
        Self {
            len: stat.len,
            modified: nanos(stat.modified),
            change: stat.change,
            device: stat.identity.device,
            inode: stat.identity.inode,
        }
    }
}

fn nanos(time: SystemTime) -> i128 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => after.as_nanos().cast_signed(),
        Err(before) => -before.duration().as_nanos().cast_signed(),
    }
}

impl Cache {
    /// The cache at `path`; an empty one when there is none that can be used.
    pub(super) fn read(storage: &dyn SessionStorage, path: &Path) -> Self {
        let bytes = match storage.read_bytes(path, LONGEST) {
            Ok(bytes) => bytes,
            Err(error) => {
                if error.kind() != ErrorKind::NotFound {
                    tracing::warn!(%error, "the session cache could not be read; listing without it");
                }
                return Self::default();
            }
        };
        Self::parse(&bytes).unwrap_or_else(|| {
            tracing::warn!(path = %path.display(), "the session cache is damaged or of another version; it is ignored");
            Self::default()
        })
    }

    /// What is known of a file that is what it was.
    pub(super) fn get(&self, path: &Path, stat: &Stat) -> Option<&Outcome> {
        let (key, outcome) = self.files.get(path.as_os_str())?;
        (*key == Key::of(stat)).then_some(outcome)
    }

    /// This cache and what was learned of the files of `dirs`; none when that is nothing.
    pub(super) fn learn(&self, scanned: &[Scanned], dirs: &[PathBuf]) -> Learned {
        let is_known = |one: &&Scanned| self.files.contains_key(one.file.path.as_os_str());
        if scanned.iter().filter(is_known).count() == self.files.len() && !scanned.iter().any(|one| one.is_news) {
            return Learned(None);
        }
        let mut files = self.files.clone();
        let seen: HashSet<&OsStr> = scanned.iter().map(|one| one.file.path.as_os_str()).collect();
        let looked_through: HashSet<&Path> = dirs.iter().map(PathBuf::as_path).collect();
        files.retain(|path, _| seen.contains(path.as_os_str()) || !is_in(path, |dir| looked_through.contains(dir)));
        let mut is_news = files.len() != self.files.len();
        for one in scanned.iter().filter(|one| one.is_news) {
            let outcome = match &one.found {
                Ok(facts) => Outcome::Session(facts.clone()),
                Err(problem) if problem.kind() == ProblemKind::NoHeader => Outcome::Broken(ProblemKind::NoHeader),
                // What the system refused today it may give tomorrow.
                Err(_) => continue,
            };
            let path = one.file.path.as_os_str();
            let outcome = outcome.at_least(files.get(path), &one.file.stat);
            if is_worth_keeping(&one.file.path, &outcome) {
                files.insert(path.to_owned(), (Key::of(&one.file.stat), outcome));
                is_news = true;
            }
        }
        Learned(is_news.then_some(Self { files }))
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (head, body) = text.split_once('\n')?;
        let head: Head = serde_json::from_str(head).ok()?;
        if head.kind != TYPE || head.version != VERSION || head.sha256 != digest(body) {
            return None;
        }
        let mut files = HashMap::new();
        for line in body.lines() {
            let (path, known) = serde_json::from_str::<Record>(line).ok()?.known()?;
            files.insert(path, known);
        }
        Some(Self { files })
    }

    fn to_text(&self) -> String {
        let mut body = String::new();
        let mut files: Vec<_> = self.files.iter().collect();
        files.sort_unstable_by_key(|(path, _)| *path);
        for (path, (key, outcome)) in files {
            if let Some(line) = Record::of(path, key, outcome).and_then(|record| serde_json::to_string(&record).ok()) {
                body.push_str(&line);
                body.push('\n');
            }
        }
        let sha256 = digest(&body);
        format!("{{\"type\":\"{TYPE}\",\"version\":{VERSION},\"sha256\":\"{sha256}\"}}\n{body}")
    }
}

impl Outcome {
    /// This outcome, unless the same file was read further before.
    fn at_least(self, before: Option<&(Key, Outcome)>, stat: &Stat) -> Self {
        match (&self, before) {
            (Self::Session(now), Some((key, Self::Session(then))))
                if *key == Key::of(stat) && then.depth > now.depth =>
            {
                Self::Session(then.clone())
            }
            _ => self,
        }
    }
}

/// A cache to be written, if there is anything new in it.
#[derive(Debug)]
pub(super) struct Learned(Option<Cache>);

impl Learned {
    /// Replaces the cache at `path`, private and at once. Best effort: a cache that can't be written is none.
    pub(super) fn write(self, storage: &dyn SessionStorage, path: &Path) {
        let Some(mut cache) = self.0 else { return };
        cache.forget_lost_directories(storage);
        if let Err(error) = replace(storage, path, &cache.to_text()) {
            tracing::warn!(%error, "the session cache could not be written; the next listing reads again");
        }
    }
}

impl Cache {
    /// Files of directories that are gone would stay for ever.
    fn forget_lost_directories(&mut self, storage: &dyn SessionStorage) {
        let dirs: HashSet<&Path> = self.files.keys().filter_map(|path| Path::new(path).parent()).collect();
        let lost = dirs.into_iter().filter(|dir| matches!(storage.exists(dir), Ok(false)));
        let lost: HashSet<PathBuf> = lost.map(Path::to_path_buf).collect();
        self.files.retain(|path, _| !is_in(path, |dir| lost.contains(dir)));
    }
}

/// Whether the directory that a path lies in is one of those.
fn is_in(path: &OsStr, one_of: impl Fn(&Path) -> bool) -> bool {
    Path::new(path).parent().is_some_and(one_of)
}

fn replace(storage: &dyn SessionStorage, path: &Path, text: &str) -> Result<()> {
    if let Some(dir) = path.parent() {
        storage.ensure_dir(dir)?;
    }
    let mut replacement = Replacement::of(storage, path)?;
    replacement.write(text.as_bytes())?;
    replacement.commit()
}

fn is_worth_keeping(path: &Path, outcome: &Outcome) -> bool {
    let short = |text: &Option<String>| text.as_ref().is_none_or(|text| text.len() <= LONGEST_TEXT);
    let fits = match outcome {
        Outcome::Session(facts) => short(&facts.first_message) && short(&facts.title),
        Outcome::Broken(_) => true,
    };
    fits && path.is_absolute() && path.to_str().is_some()
}

fn digest(body: &str) -> String {
    Sha256::digest(body.as_bytes()).iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[derive(Deserialize)]
struct Head {
    #[serde(rename = "type")]
    kind: String,
    version: u32,
    sha256: String,
}

#[derive(Serialize, Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    path: Cow<'a, str>,
    len: u64,
    modified: String,
    change: String,
    device: u64,
    inode: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    broken: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    depth: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cwd: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    messages: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    activity: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<String>,
}

const DEPTHS: [(Depth, &str); 3] = [(Depth::Header, "header"), (Depth::Prompt, "prompt"), (Depth::Whole, "whole")];

impl<'a> Record<'a> {
    fn of(path: &'a OsStr, key: &Key, outcome: &Outcome) -> Option<Self> {
        let mut record = Self {
            path: path.to_str()?.into(),
            len: key.len,
            modified: key.modified.to_string(),
            change: key.change.to_string(),
            device: key.device,
            inode: key.inode,
            broken: None,
            depth: None,
            id: None,
            cwd: None,
            created: None,
            parent: None,
            title: None,
            first: None,
            messages: None,
            activity: None,
            status: None,
        };
        match outcome {
            Outcome::Broken(_) => record.broken = Some(true),
            Outcome::Session(facts) => {
                let facts = facts.clone();
                record.depth = DEPTHS.iter().find(|(depth, _)| *depth == facts.depth).map(|(_, name)| (*name).into());
                record.id = Some(facts.id.as_str().into());
                record.cwd = facts.cwd;
                record.created = facts.created.map(Timestamp::millis);
                record.parent = facts.parent;
                record.title = facts.title;
                record.first = facts.first_message;
                record.messages = facts.messages;
                record.activity = facts.last_activity.map(Timestamp::millis);
                record.status = facts.status.map(|status| status.name().into());
            }
        }
        Some(record)
    }

    fn known(self) -> Option<(OsString, (Key, Outcome))> {
        let key = Key {
            len: self.len,
            modified: self.modified.parse().ok()?,
            change: self.change.parse().ok()?,
            device: self.device,
            inode: self.inode,
        };
        let outcome = if self.broken == Some(true) {
            Outcome::Broken(ProblemKind::NoHeader)
        } else {
            let depth = self.depth?;
            let status = match self.status {
                Some(name) => Some(Status::ALL.into_iter().find(|status| status.name() == name)?),
                None => None,
            };
            Outcome::Session(Facts {
                depth: DEPTHS.iter().find(|(_, name)| *name == depth)?.0,
                id: SessionId::from(self.id?),
                cwd: self.cwd,
                created: self.created.and_then(Timestamp::from_millis),
                parent: self.parent,
                title: self.title,
                first_message: self.first,
                messages: self.messages,
                last_activity: self.activity.and_then(Timestamp::from_millis),
                status,
            })
        };
        Some((OsString::from(self.path.into_owned()), (key, outcome)))
    }
}
