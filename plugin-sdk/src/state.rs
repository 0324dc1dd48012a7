//! Typed state that follows the branch.
//!
//! A state is the `data` of the latest `custom` entry of its type on the path to the leaf: never that of another branch, and
//! still there after compaction, fork, branched sessions and moves, because all of these keep the path. `data` is plain JSON;
//! the schema version stands beside it as `schemaVersion` `[F4]`. A harness's `appendEntry` takes data alone: what an extension
//! in TypeScript saves with it counts as version 0, or brings its version along in the data (`{"schemaVersion":2,"data":…}`, as
//! `watcher.ts` does).

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use session_core::{EntryId, JsonText, Leaf, Session, Timestamp};

use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::extension::CustomType;
use crate::same::same;
use crate::stored::{self, Stored};
use crate::value::{self, Numbers};
use crate::writer::SessionWriter;

/// The version of a state's shape. 0 is what has none: state that was never versioned, or that another program wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u32);

impl Version {
    /// From a number in a file; `1.0` is 1, since programs that rewrite files spell numbers their way.
    pub(crate) fn from_number(number: f64) -> Option<Self> {
        let fits = number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number);
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked to be a whole number in range"
        )]
        fits.then_some(Self(number as u32))
    }

    fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What [`State::save`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Saved {
    /// This entry was appended.
    Appended(EntryId),
    /// Nothing: the state in force on this branch is the same.
    Unchanged,
}

impl Saved {
    /// The entry that was appended, if any.
    pub fn entry(&self) -> Option<&EntryId> {
        match self {
            Self::Appended(entry) => Some(entry),
            Self::Unchanged => None,
        }
    }
}

/// A typed state of an extension.
///
/// A value without a session: make it once, use it with any. `T` should serialize to the same JSON each time; sets and maps
/// without an order of their own do not (an unordered map is fine, an unordered set is another array each time).
///
/// ```
/// use plugin_sdk::{Extension, Saved, Version, testing::FakeSession};
/// let todos = Extension::new("todo")?.state::<Vec<String>>(Version(1));
/// let mut session = FakeSession::new();
/// let list = vec!["milk".to_owned()];
/// assert!(todos.save(&mut session, &list)?.entry().is_some());
/// assert_eq!(todos.save(&mut session, &list)?, Saved::Unchanged);
/// assert_eq!(todos.load(&session)?, Some(list));
/// # Ok::<(), plugin_sdk::Error>(())
/// ```
pub struct State<T> {
    custom_type: CustomType,
    version: Version,
    numbers: Numbers,
    upgrades: BTreeMap<Version, Upgrade>,
    of: PhantomData<fn(T) -> T>,
}

type Upgrade = Arc<dyn Fn(&JsonText) -> Result<JsonText, BoxError> + Send + Sync>;

/// One saved state: where, when, and what.
#[derive(Clone, Debug)]
pub struct Record<T> {
    entry: EntryId,
    timestamp: Option<Timestamp>,
    on_path: bool,
    version: Option<Version>,
    data: Option<JsonText>,
    value: Result<Option<T>>,
}

impl<T> Record<T> {
    /// The entry that holds it.
    pub fn entry(&self) -> &EntryId {
        &self.entry
    }

    /// When it was saved; none when that can't be read.
    pub fn timestamp(&self) -> Option<Timestamp> {
        self.timestamp
    }

    /// Whether it lies on the path to the leaf; otherwise it is another branch's.
    pub fn is_on_path(&self) -> bool {
        self.on_path
    }

    /// The version of its shape; none when that can't be read.
    pub fn version(&self) -> Option<Version> {
        self.version
    }

    /// The raw data, spelled as in the file; none where the state was cleared.
    pub fn data(&self) -> Option<&JsonText> {
        self.data.as_ref()
    }

    /// The state, upgraded; none where it was cleared.
    ///
    /// # Errors
    /// As [`State::load`]: one record that can't be read does not hide the others.
    pub fn value(&self) -> Result<Option<&T>, &Error> {
        self.value.as_ref().map(Option::as_ref)
    }
}

impl<T: Serialize + DeserializeOwned> State<T> {
    pub(crate) fn new(custom_type: CustomType, version: Version) -> Self {
        Self { custom_type, version, numbers: Numbers::default(), upgrades: BTreeMap::new(), of: PhantomData }
    }

    /// The same state, which takes the data of version `from` one version up.
    ///
    /// `Old` and `New` are the shapes of `from` and of the version after it; `serde_json::Value` is one too. Data passes all
    /// steps from its own version to the current one. For what a
    /// plain `appendEntry` of a harness wrote register version 0.
    ///
    /// ```
    /// use plugin_sdk::{Extension, Version};
    /// let clicks = Extension::new("clicks")?
    ///     .state::<Vec<u32>>(Version(2))
    ///     .upgrade(Version(1), |total: u32| Ok(vec![total]))?
    ///     .upgrade(Version(0), |text: String| Ok(text.parse::<u32>()?))?;
    /// # Ok::<(), plugin_sdk::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when `from` is not below the current version or has an upgrade already.
    pub fn upgrade<Old, New, F>(mut self, from: Version, step: F) -> Result<Self>
    where
        Old: DeserializeOwned,
        New: Serialize,
        F: Fn(Old) -> Result<New, BoxError> + Send + Sync + 'static,
    {
        if from >= self.version {
            let message =
                format!("an upgrade from version {from} leads nowhere: the current version is {}", self.version);
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        let upgrade = move |data: &JsonText| Ok(value::to_json_of_any_size(&step(data.to()?)?)?);
        if self.upgrades.insert(from, Arc::new(upgrade)).is_some() {
            return Err(Error::new(ErrorKind::InvalidInput, format!("version {from} has two upgrades")));
        }
        Ok(self)
    }

    /// The same state, for which [these numbers](Numbers) may be saved.
    #[must_use]
    pub fn numbers(mut self, numbers: Numbers) -> Self {
        self.numbers = numbers;
        self
    }

    /// The `customType` of its entries.
    pub fn custom_type(&self) -> &str {
        self.custom_type.as_str()
    }

    /// The current version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Saves `state`, unless it is the same as the one in force on this branch, however that is spelled.
    ///
    /// When this returns on a session that is on disk, the entry is with the kernel: `kill -9` loses nothing `[W3]`. A session
    /// without an answer of the model yet is in memory, and so is its state `[W2]`. Where another process has the session open,
    /// see [where an extension runs](crate#where-an-extension-runs).
    ///
    /// # Errors
    /// Nothing is written for [`ErrorKind::NotRepresentable`], [`ErrorKind::TooLarge`] (over
    /// [`MAX_STATE_BYTES`](crate::MAX_STATE_BYTES)) and [`ErrorKind::NewerVersion`] (a newer version of this extension saved
    /// last; see [`save_over`](Self::save_over)). [`ErrorKind::Session`] with an [entry](Error::entry): the state is in memory
    /// and not on disk, and saving it again says so again until the session recovers `[W5]`.
    pub fn save<S: SessionWriter + ?Sized>(&self, session: &mut S, state: &T) -> Result<Saved> {
        self.save_if(session, state, |in_force| self.check_not_newer(in_force))
    }

    /// Saves `state` as [`save`](Self::save) does, also over state of a newer version, which stays in the session's history.
    ///
    /// # Errors
    /// As [`save`](Self::save), but for [`ErrorKind::NewerVersion`].
    pub fn save_over<S: SessionWriter + ?Sized>(&self, session: &mut S, state: &T) -> Result<Saved> {
        self.save_if(session, state, |_| Ok(()))
    }

    fn save_if<S: SessionWriter + ?Sized>(
        &self,
        session: &mut S,
        state: &T,
        may_replace: impl Fn(&Stored<'_>) -> Result<()>,
    ) -> Result<Saved> {
        let data = value::to_json(state, self.numbers)?;
        let in_force = self.in_force((*session).as_ref(), &Leaf::Current)?;
        if let Some(in_force) = in_force {
            may_replace(&in_force)?;
            let is_same = in_force.version().is_ok_and(|version| version == self.version)
                && in_force.data().is_some_and(|old| same(old.view(), data.view()));
            if is_same {
                return Self::already_there(in_force.entry.is_written(), session);
            }
        }
        self.append(session, &data).map(Saved::Appended)
    }

    /// Ends the state on this branch: an entry without data, unless there is no state.
    ///
    /// # Errors
    /// [`ErrorKind::NewerVersion`] and [`ErrorKind::Session`], as [`save`](Self::save).
    pub fn clear<S: SessionWriter + ?Sized>(&self, session: &mut S) -> Result<Saved> {
        match self.in_force((*session).as_ref(), &Leaf::Current)? {
            Some(in_force) if in_force.data().is_some() => {
                self.check_not_newer(&in_force)?;
                session.append_custom(self.custom_type.as_str(), None, None).map(Saved::Appended)
            }
            Some(in_force) => Self::already_there(in_force.entry.is_written(), session),
            None => Ok(Saved::Unchanged),
        }
    }

    /// The same state is in force; what an earlier save could not write is written now, or its error comes again.
    fn already_there<S: SessionWriter + ?Sized>(is_written: bool, session: &mut S) -> Result<Saved> {
        if !is_written {
            session.flush()?;
        }
        Ok(Saved::Unchanged)
    }

    pub(crate) fn append<S: SessionWriter + ?Sized>(&self, session: &mut S, data: &JsonText) -> Result<EntryId> {
        // Data that looks as if its version stood in it needs one beside it, so that it is taken as it is.
        let version = Some(self.version.0).filter(|version| *version > 0 || stored::enveloped(data.view()).is_some());
        session.append_custom(self.custom_type.as_str(), Some(data), version)
    }

    /// The state in force on this branch: the latest on the path to the leaf. None when there is none, or it was cleared.
    ///
    /// # Errors
    /// [`ErrorKind::NewerVersion`], [`ErrorKind::NoUpgrade`], [`ErrorKind::UpgradeFailed`] and [`ErrorKind::Malformed`], each
    /// with the raw [data](Error::data), its [version](Error::version) and [entry](Error::entry); [`ErrorKind::Session`] when
    /// the session can't be read.
    pub fn load<S: AsRef<Session> + ?Sized>(&self, session: &S) -> Result<Option<T>> {
        self.load_on(session.as_ref(), &Leaf::Current)
    }

    /// The state that was in force at an entry, wherever the leaf is now.
    ///
    /// # Errors
    /// [`ErrorKind::UnknownEntry`], and as [`load`](Self::load).
    pub fn load_at<S: AsRef<Session> + ?Sized>(&self, session: &S, entry: &str) -> Result<Option<T>> {
        let session = session.as_ref();
        self.load_on(session, &stored::leaf_at(session, entry)?)
    }

    fn load_on(&self, session: &Session, leaf: &Leaf) -> Result<Option<T>> {
        match self.in_force(session, leaf)? {
            Some(stored) => self.decode(&stored),
            None => Ok(None),
        }
    }

    /// All states on the path to the leaf, oldest first.
    ///
    /// # Errors
    /// [`ErrorKind::Session`] only; what is wrong with a single one is its [value](Record::value).
    pub fn history<S: AsRef<Session> + ?Sized>(&self, session: &S) -> Result<Vec<Record<T>>> {
        let session = session.as_ref();
        let path = session.branch_path(&Leaf::Current);
        let stored = stored::among(session, path, self.custom_type.as_str())?;
        Ok(stored.iter().map(|stored| self.record(stored, true)).collect())
    }

    /// All states of all branches, in the order of the file; [`Record::is_on_path`] tells which are this branch's.
    ///
    /// # Errors
    /// As [`history`](Self::history).
    pub fn all<S: AsRef<Session> + ?Sized>(&self, session: &S) -> Result<Vec<Record<T>>> {
        let session = session.as_ref();
        let mut on_path = vec![false; session.entries().len()];
        for entry in session.branch_path(&Leaf::Current) {
            on_path[entry.index()] = true;
        }
        let entries = session.entries().filter(|entry| !entry.is_superseded());
        let stored = stored::among(session, entries, self.custom_type.as_str())?;
        Ok(stored.iter().map(|stored| self.record(stored, on_path[stored.entry.index()])).collect())
    }

    pub(crate) fn in_force<'s>(&self, session: &'s Session, leaf: &Leaf) -> Result<Option<Stored<'s>>> {
        stored::latest(session, leaf, self.custom_type.as_str())
    }

    fn record(&self, stored: &Stored<'_>, on_path: bool) -> Record<T> {
        Record {
            entry: stored.id(),
            timestamp: stored.entry.timestamp(),
            on_path,
            version: stored.readable_version(),
            data: stored.data(),
            value: self.decode(stored),
        }
    }

    /// The value of a stored state, upgraded to the current version.
    pub(crate) fn decode(&self, stored: &Stored<'_>) -> Result<Option<T>> {
        let Some(mut data) = stored.data() else { return Ok(None) };
        let mut version = stored.version()?;
        if version > self.version {
            return Err(self.newer(stored, version));
        }
        while version < self.version {
            let Some(upgrade) = self.upgrades.get(&version) else {
                let of = if version.0 == 0 { " (data without a version, as other programs write it)" } else { "" };
                let message = format!(
                    "nothing takes the state {} from version {version}{of} to {}: register an upgrade",
                    self.custom_type,
                    version.next()
                );
                return Err(stored.error(ErrorKind::NoUpgrade, &message));
            };
            data = upgrade(&data).map_err(|error| {
                let message =
                    format!("the state {} could not be upgraded from version {version}: {error}", self.custom_type);
                stored.error(ErrorKind::UpgradeFailed, &message).caused_by(error)
            })?;
            version = version.next();
        }
        data.to().map(Some).map_err(|error| {
            let message = format!("the state {} is {error}", self.custom_type);
            stored.error(ErrorKind::Malformed, &message)
        })
    }

    fn check_not_newer(&self, in_force: &Stored<'_>) -> Result<()> {
        match in_force.version() {
            Ok(version) if version > self.version => Err(self.newer(in_force, version)),
            _ => Ok(()),
        }
    }

    fn newer(&self, stored: &Stored<'_>, version: Version) -> Error {
        let message = format!(
            "the state {} is of version {version}, and this extension knows up to {}: use a newer version of the extension",
            self.custom_type, self.version
        );
        stored.error(ErrorKind::NewerVersion, &message)
    }
}

impl<T> Clone for State<T> {
    fn clone(&self) -> Self {
        Self {
            custom_type: self.custom_type.clone(),
            version: self.version,
            numbers: self.numbers,
            upgrades: self.upgrades.clone(),
            of: PhantomData,
        }
    }
}

impl<T> fmt::Debug for State<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let upgrades: Vec<_> = self.upgrades.keys().collect();
        f.debug_struct("State")
            .field("custom_type", &self.custom_type.as_str())
            .field("version", &self.version)
            .field("upgrades", &upgrades)
            .finish_non_exhaustive()
    }
}
