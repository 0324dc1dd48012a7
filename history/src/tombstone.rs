//! What was deleted on purpose and must stay away `[H5b]`, in a private file of ours beside the database, so that it
//! outlives the database. It never holds a prompt: only salted hashes and the caller's entry keys.
//!
//! One JSON object a line. The first holds the salt; each other one a deleted prompt.

use std::{
    collections::{HashMap, HashSet},
    fs, io,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{
    copy,
    error::{Error, ErrorKind, Result},
    fold::trim,
};

/// So often a list is begun anew that others take away, before something else must be wrong.
const ATTEMPTS: usize = 100;

#[derive(Serialize, Deserialize)]
struct Head {
    salt: String,
}

#[derive(Serialize, Deserialize)]
struct Line {
    prompt: String,
    at: i64,
    keys: Vec<String>,
}

/// The deleted prompts of one history.
#[derive(Debug, Default)]
pub(crate) struct Tombstones {
    path: PathBuf,
    read: Option<(u64, i64, i64)>,
    salt: String,
    ends_whole: bool,
    prompts: HashMap<String, i64>,
    keys: HashSet<String>,
}

impl Tombstones {
    pub(crate) fn of(database: &Path) -> Self {
        Self { path: file_of(database), ..Self::default() }
    }

    /// Reads the file again if it has changed.
    pub(crate) fn refresh(&mut self) -> Result<()> {
        let found = match fs::metadata(&self.path) {
            Ok(metadata) if !metadata.is_file() => {
                let message = "this is no file, and the list of deleted prompts should be here; move it away";
                return Err(Error::new(ErrorKind::Io, &self.path, message));
            }
            Ok(metadata) => Some((metadata.len(), metadata.mtime(), metadata.mtime_nsec())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Error::io(&self.path, "the list of deleted prompts can't be read", error)),
        };
        if found == self.read {
            return Ok(());
        }
        *self = Self { path: std::mem::take(&mut self.path), ..Self::default() };
        if found.is_none() {
            return Ok(());
        }
        let text = match fs::read_to_string(&self.path) {
            // Another process has just detached.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => {
                other.map_err(|error| Error::io(&self.path, "the list of deleted prompts can't be read", error))?
            }
        };
        for (number, line) in (1_u64..).zip(text.lines()) {
            if number == 1 {
                let broken = |error| Error::at_line(&self.path, 1, format!("here should be the list's salt: {error}"));
                self.salt = serde_json::from_str::<Head>(line).map_err(broken)?.salt;
                continue;
            }
            // A deletion that died while it wrote this had deleted nothing yet.
            let Ok(line) = serde_json::from_str::<Line>(line) else {
                tracing::warn!(list = %self.path.display(), line = number, "a damaged record of a deletion is passed over");
                continue;
            };
            self.keys.extend(line.keys);
            let at = self.prompts.entry(line.prompt).or_insert(line.at);
            *at = line.at.max(*at);
        }
        self.ends_whole = text.ends_with('\n');
        self.read = found;
        Ok(())
    }

    /// Whether a submission of this prompt at this time, or with this key, was deleted.
    pub(crate) fn holds(&self, prompt: &str, at: i64, key: Option<&[u8]>) -> bool {
        if self.prompts.is_empty() {
            return false;
        }
        key.is_some_and(|key| self.keys.contains(&hex(key)))
            || self.prompts.get(&self.hash(prompt)).is_some_and(|deleted| at <= *deleted)
    }

    /// Adds deleted prompts, each with the time up to which it is gone, and its keys; they are on the medium when this
    /// returns.
    pub(crate) fn add<'a>(
        &mut self,
        conn: &Connection,
        deleted: impl Iterator<Item = (&'a str, i64, &'a [Vec<u8>])>,
    ) -> Result<()> {
        let failed = |path: &Path, error| Error::io(path, "the deletion can't be recorded, nothing was deleted", error);
        let mut file = self.open(conn)?;
        // Nothing is ever joined to a torn line.
        let mut text = Vec::new();
        if !self.ends_whole {
            text.push(b'\n');
        }
        for (prompt, at, keys) in deleted {
            // Submissions are compared without the white space that an owner may have stored.
            let line = Line { prompt: self.hash(trim(prompt)), at, keys: keys.iter().map(|key| hex(key)).collect() };
            serde_json::to_writer(&mut text, &line).map_err(|error| failed(&self.path, error.into()))?;
            text.push(b'\n');
        }
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(|error| failed(&self.path, error))?;
        self.refresh()
    }

    /// The list, open for appending, with the salt that is known; made where it is missing.
    fn open(&mut self, conn: &Connection) -> Result<fs::File> {
        for _ in 0..ATTEMPTS {
            self.refresh()?;
            if self.read.is_none() {
                self.begin(conn)?;
                continue;
            }
            let list = match fs::OpenOptions::new().read(true).append(true).open(&self.path) {
                // Another process has detached, and the list is gone.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other.map_err(|error| Error::io(&self.path, "the list can't be opened", error))?,
            };
            if self.salt.is_empty() {
                let message = "its first line holds no salt; move the file away to begin a new list";
                return Err(Error::new(ErrorKind::Invalid, &self.path, message));
            }
            let mut first = String::new();
            BufReader::new(&list)
                .read_line(&mut first)
                .map_err(|error| Error::io(&self.path, "the list can't be read", error))?;
            // Else it went, and another one came, since it was read.
            if serde_json::from_str::<Head>(&first).is_ok_and(|head| head.salt == self.salt) {
                return Ok(list);
            }
            self.read = None;
        }
        let message = "the list of deleted prompts can't be made or does not stay, so nothing was deleted; is a link that \
                       leads nowhere in its place?";
        Err(Error::new(ErrorKind::Io, &self.path, message))
    }

    /// The file appears with its salt or not at all; if another process was faster, its salt is the one.
    fn begin(&self, conn: &Connection) -> Result<()> {
        let salt: Vec<u8> = conn
            .query_row("SELECT randomblob(16)", [], |row| row.get(0))
            .map_err(|error| Error::sqlite(&self.path, error))?;
        let temporary = copy::private_file_beside(&self.path)?;
        let head = format!("{{\"salt\":\"{}\"}}\n", hex(&salt));
        fs::write(&temporary, head).map_err(|error| Error::io(&self.path, "it can't be made", error))?;
        match temporary.persist_noclobber(&self.path) {
            Ok(()) => Ok(()),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(Error::io(&self.path, "it can't be made", error.error)),
        }
    }

    fn hash(&self, prompt: &str) -> String {
        let mut hash = Sha256::new();
        hash.update(self.salt.as_bytes());
        hash.update(prompt.as_bytes());
        hex(&hash.finalize())
    }
}

/// Where the list of a database is.
pub(crate) fn file_of(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".forgotten");
    name.into()
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
