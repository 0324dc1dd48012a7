//! Where things live: agent directories and what is in them `[D1–D9]`.
//!
//! Paths only. It looks whether a directory is there, and it creates and reads nothing; what sessions a directory holds is
//! the catalog's business.

mod cwd;
mod environment;

use std::ffi::OsString;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind, Result};
use crate::id::SessionId;
use crate::storage::{FileKind, SessionStorage};
pub(crate) use cwd::check_cwd;
use cwd::{CwdNames, hex};
pub use cwd::{encode_cwd, same_path};
pub use environment::Environment;

/// The programs that share this session model; they differ in their directories and in details of the format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Harness {
    /// xcsh, the default.
    #[default]
    Xcsh,
    /// omp.
    Omp,
    /// pi.
    Pi,
}

impl Harness {
    /// All of them, the default first.
    pub const ALL: [Self; 3] = [Self::Xcsh, Self::Omp, Self::Pi];

    /// Its name, as on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Xcsh => "xcsh",
            Self::Omp => "omp",
            Self::Pi => "pi",
        }
    }

    /// The harness of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|harness| harness.name() == name)
    }

    /// The agent directory of a user who configured nothing.
    fn default_dir(self, home: &Path) -> PathBuf {
        home.join(format!(".{}", self.name())).join("agent")
    }

    /// The directory that it uses below an XDG base directory, where it does so at all.
    fn xdg_name(self) -> Option<&'static str> {
        match self {
            Self::Xcsh | Self::Omp => Some(self.name()),
            Self::Pi => None,
        }
    }
}

impl fmt::Display for Harness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One agent directory and the places in it. Nothing of it need exist.
///
/// ```
/// use std::path::Path;
/// use session_core::{AgentDir, Environment, Harness};
/// use session_core::storage::FileSessionStorage;
/// # fn main() -> session_core::Result<()> {
/// let environment = Environment::new("/w").with_variable("HOME", "/home/me");
/// let agent = AgentDir::resolve(Harness::Xcsh, None, &environment, &FileSessionStorage::new())?;
/// assert_eq!(agent.root(), Path::new("/home/me/.xcsh/agent"));
/// assert_eq!(agent.blobs(), Path::new("/home/me/.xcsh/agent/blobs"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AgentDir {
    harness: Harness,
    root: PathBuf,
    data: PathBuf,
    state: PathBuf,
}

impl AgentDir {
    /// The agent directory at exactly this path, everything in it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for a relative path.
    pub fn at(root: impl Into<PathBuf>) -> Result<Self> {
        let root = absolute(root.into(), "an agent directory")?;
        Ok(Self { harness: Harness::default(), data: root.clone(), state: root.clone(), root })
    }

    /// The agent directory of a harness, the first that applies `[D1]`: `explicit`; for the default harness
    /// `$PI_CODING_AGENT_DIR`, then `$HOME/$PI_CONFIG_DIR/agent`; else its directory in the home.
    ///
    /// When that is the harness's directory in the home, and `$XDG_DATA_HOME` or `$XDG_STATE_HOME` has a directory of its
    /// name, data or terminal pointers live there `[D2]`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for a relative `explicit` or `$PI_CODING_AGENT_DIR`, for a `$PI_CONFIG_DIR` that leaves
    /// the home, and when there is no home to look in.
    pub fn resolve(
        harness: Harness,
        explicit: Option<&Path>,
        environment: &Environment,
        storage: &dyn SessionStorage,
    ) -> Result<Self> {
        let default = environment.home().map(|home| harness.default_dir(home));
        let root = match explicit {
            Some(explicit) => absolute(explicit.into(), "an agent directory")?,
            None => match from_variables(harness, environment)? {
                Some(root) => root,
                None => default.clone().ok_or_else(no_home)?,
            },
        };
        let (mut data, mut state) = (root.clone(), root.clone());
        if let (true, Some(name)) = (default.as_ref() == Some(&root), harness.xdg_name()) {
            let below = |variable| {
                let place = environment.variable(variable).map(Path::new).filter(|base| base.is_absolute())?.join(name);
                // A base directory that cannot be looked into holds nothing that we could use.
                is_dir(storage, &place).unwrap_or(false).then_some(place)
            };
            data = below("XDG_DATA_HOME").unwrap_or(data);
            state = below("XDG_STATE_HOME").unwrap_or(state);
        }
        Ok(Self { harness, root, data, state })
    }

    /// Whose directory it is.
    pub fn harness(&self) -> Harness {
        self.harness
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where each working directory has a directory with its sessions `[D3]`.
    pub fn sessions(&self) -> PathBuf {
        self.data.join("sessions")
    }

    /// Content-addressed files `[D6]`.
    pub fn blobs(&self) -> PathBuf {
        self.data.join("blobs")
    }

    /// One pointer a terminal `[D7]`.
    pub fn terminal_sessions(&self) -> PathBuf {
        self.state.join("terminal-sessions")
    }

    /// The prompt history `[D8]`.
    pub fn history_db(&self) -> PathBuf {
        self.data.join("history.db")
    }

    /// What listings learned of the session files, ours alone and safe to delete `[R3]`.
    pub fn catalog_cache(&self) -> PathBuf {
        self.root.join(".session-catalog")
    }

    /// Deleted sessions that can come back, ours alone and private ([`Trash`](crate::Trash)).
    pub fn trash(&self) -> PathBuf {
        self.root.join(".session-trash")
    }

    /// The lock file of a session: in a private directory of ours, named for the session id `[W6]`.
    ///
    /// An id that is no plain name is named by its digest, so that no id leaves the directory.
    pub fn session_lock(&self, id: &SessionId) -> PathBuf {
        const LONGEST: usize = 128;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let id = id.as_str();
        let name = if !id.is_empty() && id.len() <= LONGEST && id.bytes().all(plain) {
            format!("{id}.lock")
        } else {
            format!("sha256-{}.lock", hex(&Sha256::digest(id.as_bytes())))
        };
        self.root.join(".session-locks").join(name)
    }

    /// Where new sessions of a working directory go: its directory of whatever form, when there is one `[D3a]`, else the
    /// directory of [`encode_cwd`]. It need not exist.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for a relative working directory or one with a NUL.
    pub fn session_dir(&self, cwd: &Path, environment: &Environment, storage: &dyn SessionStorage) -> Result<PathBuf> {
        match self.session_dirs(cwd, environment, storage)?.into_iter().next() {
            Some(dir) => Ok(dir),
            None => Ok(self.sessions().join(encode_cwd(cwd)?)),
        }
    }

    /// All directories that exist and may hold sessions of a working directory `[D4]`: the form of [`encode_cwd`] first,
    /// then relative to the home, relative to the temporary root, the same for the resolved path, then names with a digest.
    /// Other working directories may share them: the header decides `[D5]`.
    ///
    /// # Errors
    /// As [`session_dir`](AgentDir::session_dir).
    pub fn session_dirs(
        &self,
        cwd: &Path,
        environment: &Environment,
        storage: &dyn SessionStorage,
    ) -> Result<Vec<PathBuf>> {
        let names = CwdNames::of(cwd, environment, storage)?;
        let sessions = self.sessions();
        let items = storage.read_dir(&sessions)?.unwrap_or_default();
        let existing: Vec<OsString> = items
            .into_iter()
            .filter(|item| item.kind == Some(FileKind::Directory))
            .filter_map(|item| item.path.file_name().map(Into::into))
            .collect();
        let known = names.known().iter().filter(|name| existing.contains(name));
        let digests = existing.iter().filter(|name| names.is_digest_form(name));
        Ok(known.chain(digests).map(|name| sessions.join(name)).collect())
    }
}

/// The file name of a session: `<timestamp>_<sessionId>.jsonl` `[D3]`.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] for an id that cannot stand in a file name; ids of other programs are any text.
///
/// ```
/// use session_core::{SessionId, Timestamp, session_file_name};
/// let time = Timestamp::parse("2026-01-05T09:30:00.250Z").unwrap();
/// let name = session_file_name(time, &SessionId::from("0123456789abcdef")).unwrap();
/// assert_eq!(name, "2026-01-05T09-30-00-250Z_0123456789abcdef.jsonl");
/// assert!(session_file_name(time, &SessionId::from("../../x")).is_err());
/// ```
pub fn session_file_name(timestamp: Timestamp, id: &SessionId) -> Result<String> {
    const LONGEST: usize = 200;
    let id = id.as_str();
    if id.is_empty() || id.len() > LONGEST || id.contains(|c: char| c == '/' || c == '\\' || c.is_control()) {
        let message = format!("the session id {id:?} cannot stand in a file name");
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    Ok(format!("{}_{id}.jsonl", timestamp.file_name_form()))
}

/// The directory of a session's artifacts: named like the session file without `.jsonl` `[D9]`. None for a file without that
/// ending: the directory would have the file's own name.
///
/// ```
/// use std::path::Path;
/// use session_core::artifact_dir;
/// assert_eq!(artifact_dir(Path::new("/s/x.jsonl")).as_deref(), Some(Path::new("/s/x")));
/// assert_eq!(artifact_dir(Path::new("/s/x")), None);
/// ```
pub fn artifact_dir(session_file: &Path) -> Option<PathBuf> {
    let jsonl = session_file.extension().is_some_and(|extension| extension == "jsonl");
    jsonl.then(|| session_file.with_extension(""))
}

fn from_variables(harness: Harness, environment: &Environment) -> Result<Option<PathBuf>> {
    if harness != Harness::default() {
        return Ok(None);
    }
    if let Some(dir) = environment.variable("PI_CODING_AGENT_DIR") {
        return absolute(dir.into(), "$PI_CODING_AGENT_DIR").map(Some);
    }
    let Some(name) = environment.variable("PI_CONFIG_DIR").map(Path::new) else {
        return Ok(None);
    };
    if !name.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        let message = "$PI_CONFIG_DIR is the name of a directory in the home, without `..` and not absolute";
        return Err(Error::new(ErrorKind::InvalidInput, message).at(name));
    }
    Ok(Some(environment.home().ok_or_else(no_home)?.join(name).join("agent")))
}

fn absolute(path: PathBuf, what: &str) -> Result<PathBuf> {
    if path.is_absolute() {
        Ok(path.components().collect())
    } else {
        Err(Error::new(ErrorKind::InvalidInput, format!("{what} is given as an absolute path")).at(path))
    }
}

fn no_home() -> Error {
    Error::new(ErrorKind::InvalidInput, "no home directory is known; set $HOME or name the agent directory")
}

fn is_dir(storage: &dyn SessionStorage, path: &Path) -> Result<bool> {
    Ok(storage.stat(path)?.is_some_and(|stat| stat.kind == FileKind::Directory))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::MemorySessionStorage;

    fn resolve(harness: Harness, variables: &[(&str, &str)], storage: &MemorySessionStorage) -> Result<AgentDir> {
        let environment =
            variables.iter().fold(Environment::new("/w").with_variable("HOME", "/h"), |environment, (name, value)| {
                environment.with_variable(name, value)
            });
        AgentDir::resolve(harness, None, &environment, storage)
    }

    #[test]
    fn the_first_rule_that_applies_names_the_agent_directory() {
        // [D1]
        let storage = MemorySessionStorage::new();
        let root = |harness, variables: &[(&str, &str)]| {
            resolve(harness, variables, &storage).unwrap().root().to_str().unwrap().to_owned()
        };
        let both = [("PI_CODING_AGENT_DIR", "/x/y/"), ("PI_CONFIG_DIR", ".other")];
        assert_eq!(root(Harness::Xcsh, &both), "/x/y");
        assert_eq!(root(Harness::Xcsh, &both[1..]), "/h/.other/agent");
        assert_eq!(root(Harness::Xcsh, &[("PI_CODING_AGENT_DIR", ""), ("PI_CONFIG_DIR", "")]), "/h/.xcsh/agent");
        assert_eq!(root(Harness::Omp, &both), "/h/.omp/agent", "the override is the default harness's");
        assert_eq!(root(Harness::Pi, &both), "/h/.pi/agent");

        for bad in [("PI_CODING_AGENT_DIR", "x"), ("PI_CONFIG_DIR", "/x"), ("PI_CONFIG_DIR", "../x"), ("HOME", "x")] {
            let error = resolve(Harness::Xcsh, &[bad], &storage).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{bad:?}");
        }
        let explicit = Some(Path::new("/e"));
        let agent = AgentDir::resolve(Harness::Omp, explicit, &Environment::new("/"), &storage).unwrap();
        assert_eq!((agent.root(), agent.harness()), (Path::new("/e"), Harness::Omp));
        assert!(AgentDir::at("e").is_err());
    }

    #[test]
    fn xdg_directories_count_for_the_default_directory_when_they_exist() {
        // [D2]
        let storage = MemorySessionStorage::new();
        let xdg = [("XDG_DATA_HOME", "/d"), ("XDG_STATE_HOME", "/s")];
        let before = resolve(Harness::Xcsh, &xdg, &storage).unwrap();
        assert_eq!(before.sessions(), Path::new("/h/.xcsh/agent/sessions"));
        storage.ensure_dir(Path::new("/d/xcsh")).unwrap();
        storage.ensure_dir(Path::new("/s/xcsh")).unwrap();

        let agent = resolve(Harness::Xcsh, &xdg, &storage).unwrap();
        assert_eq!(agent.sessions(), Path::new("/d/xcsh/sessions"));
        assert_eq!(agent.blobs(), Path::new("/d/xcsh/blobs"));
        assert_eq!(agent.history_db(), Path::new("/d/xcsh/history.db"));
        assert_eq!(agent.terminal_sessions(), Path::new("/s/xcsh/terminal-sessions"));
        assert_eq!(agent.session_lock(&"a".into()), Path::new("/h/.xcsh/agent/.session-locks/a.lock"));
        let data_only = resolve(Harness::Xcsh, &xdg[..1], &storage).unwrap();
        assert_eq!(data_only.terminal_sessions(), Path::new("/h/.xcsh/agent/terminal-sessions"));

        let elsewhere = [xdg[0], xdg[1], ("PI_CODING_AGENT_DIR", "/x")];
        assert_eq!(resolve(Harness::Xcsh, &elsewhere, &storage).unwrap().sessions(), Path::new("/x/sessions"));
        let relative = resolve(Harness::Xcsh, &[("XDG_DATA_HOME", "d")], &storage).unwrap();
        assert_eq!(relative.sessions(), Path::new("/h/.xcsh/agent/sessions"));
    }

    #[test]
    fn an_existing_directory_of_any_form_gets_the_new_sessions() {
        // [D3a, D4]
        let environment = Environment::new("/").with_variable("HOME", "/h");
        let digest = hex(&Sha256::digest(b"/h/p"));
        for name in ["--h-p--", "-p", &format!("home-p-{digest}")] {
            let storage = MemorySessionStorage::new();
            let agent = AgentDir::at("/agent").unwrap();
            let dir = || agent.session_dir(Path::new("/h/p"), &environment, &storage).unwrap();
            assert_eq!(dir(), Path::new("/agent/sessions/--h-p--"));
            storage.ensure_dir(Path::new("/agent/sessions")).unwrap();
            storage.write_text(&agent.sessions().join("-"), "a file is no directory").unwrap();
            storage.ensure_dir(&agent.sessions().join("-q")).unwrap();
            storage.ensure_dir(&agent.sessions().join(name)).unwrap();
            assert_eq!(dir(), agent.sessions().join(name));
            let all = agent.session_dirs(Path::new("/h/p"), &environment, &storage).unwrap();
            assert_eq!(all, [agent.sessions().join(name)]);
        }
        let agent = AgentDir::at("/agent").unwrap();
        let relative = agent.session_dir(Path::new("p"), &environment, &MemorySessionStorage::new());
        assert_eq!(relative.unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn the_directory_of_a_linked_working_directory_is_found() {
        // [D5, K32]
        let dir = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(dir.path()).unwrap();
        let storage = crate::storage::FileSessionStorage::new();
        storage.ensure_dir(&root.join("data/me/p")).unwrap();
        std::os::unix::fs::symlink("data/me", root.join("home")).unwrap();
        let environment = Environment::new("/").with_variable("HOME", root.join("home"));
        let agent = AgentDir::at(root.join("agent")).unwrap();
        storage.ensure_dir(&agent.sessions().join("-p")).unwrap();
        for cwd in ["home/p", "data/me/p"] {
            let found = agent.session_dir(&root.join(cwd), &environment, &storage).unwrap();
            assert_eq!(found, agent.sessions().join("-p"), "{cwd}");
        }
        assert!(same_path(&storage, &root.join("home/p"), &root.join("data/me/p")));
        assert!(!same_path(&storage, &root.join("home/p"), &root.join("data/me")));
    }

    #[test]
    fn no_id_leaves_its_directory() {
        // [D3, W6]
        let agent = AgentDir::at("/agent").unwrap();
        for id in ["../x", "", ".", "a/b", "a\0b", &"x".repeat(300), "é"] {
            let lock = agent.session_lock(&id.into());
            assert_eq!(lock.parent(), Some(Path::new("/agent/.session-locks")), "{id:?}");
            assert!(lock.file_name().is_some_and(|name| name.len() < 100), "{id:?}");
        }
        let time = Timestamp::from_millis(0).unwrap();
        for id in ["../x", "", "a/b", r"a\b", "a\0b", "a\nb", &"x".repeat(300)] {
            let error = session_file_name(time, &id.into()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{id:?}");
        }
        assert_eq!(artifact_dir(Path::new("/s/.jsonl")), None);
        assert_eq!(artifact_dir(Path::new("/s/a.b.jsonl")), Some("/s/a.b".into()));
    }
}
