//! How far a file was read, as a value that can be stored and taken up again.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::fingerprint::Fingerprint;
use crate::header::FormatVersion;
use crate::id::{EntryId, SessionId};
use crate::migrate::derived_id;
use crate::storage::{FileIdentity, Stat, StorageReader};

/// How far a file was read: which file, how it can be told from another, and what the lines up to there said.
///
/// [`offset`](Position::offset) is always the end of a complete line (or the beginning of the file), whatever a writer was in
/// the middle of. The default is the position in a file that was never seen.
///
/// # Text form
///
/// `to_string` gives one line of JSON and `parse` reads it: a ledger stores it in the transaction that stores what the lines
/// became, and a process that starts later goes on exactly there. The keys are private to this type; `v` is raised when their
/// meaning changes, and a text of another `v` is an error. Whoever meets that error starts from the default position and
/// reads the file again.
///
/// ```
/// use session_core::follow::Position;
/// let text = Position::default().to_string();
/// assert_eq!(text.parse::<Position>()?, Position::default());
/// # Ok::<(), session_core::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Position {
    pub(super) identity: Option<FileIdentity>,
    pub(super) generation: u64,
    pub(super) offset: u64,
    pub(super) lines: u64,
    /// Entries up to here, which in version 1 say the next one's id `[L5]`.
    pub(super) entries: u64,
    pub(super) start: Start,
    /// The beginning of the first object.
    pub(super) head: Option<Fingerprint>,
    /// What stands right before the offset.
    pub(super) tail: Option<Fingerprint>,
    /// What was delivered of a last line that has no line feed yet.
    pub(super) unended: Vec<Fingerprint>,
    /// The file as it was when it was read to its end; none when there is more to read.
    pub(super) seen: Option<Seen>,
}

/// What the first object of the file is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Start {
    /// It has not been read yet.
    #[default]
    Unknown,
    /// No header: nothing in the file is valid `[L2]`.
    Invalid,
    /// A header.
    Session(SessionFacts),
}

/// What a session's header says, as far as a follower needs it.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionFacts {
    pub(super) id: SessionId,
    pub(super) cwd: Option<String>,
    pub(super) version: FormatVersion,
}

/// A file that was read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    len: u64,
    modified: SystemTime,
    /// Whether a last line without a line feed was considered too.
    pub(super) last_line_taken: bool,
}

impl Seen {
    pub(super) fn of(stat: &Stat, last_line_taken: bool) -> Self {
        Self { len: stat.len, modified: stat.modified, last_line_taken }
    }

    pub(super) fn is_still(&self, stat: &Stat) -> bool {
        self.len == stat.len && self.modified == stat.modified
    }
}

impl SessionFacts {
    /// The session's id.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// The working directory; none when the header lacks it or it is no text.
    pub fn cwd(&self) -> Option<&str> {
        self.cwd.as_deref()
    }

    /// The version that the file states.
    pub fn version(&self) -> FormatVersion {
        self.version
    }

    /// The id that the entry with this [number](super::FollowedEntry::number) has for every reader while the file is of
    /// version 1 `[L5]`. Whoever migrates the file may have given it another one.
    ///
    /// Of two entries with the same derived id (one pair in thousands of files) this is that of the first.
    pub fn version_1_id(&self, number: u64) -> EntryId {
        derived_id(&self.id, number).as_ref().into()
    }
}

impl Position {
    /// Which file was read; none when none was.
    pub fn identity(&self) -> Option<FileIdentity> {
        self.identity
    }

    /// How many times reading began at the beginning: 1 for the first file, one more after each replacement, truncation or
    /// rewrite.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The end of the last complete line that was read, in bytes from the beginning of the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// How many physical lines end up to there.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// What the header says; none until it was read, and when nothing in the file is valid `[L2]`.
    pub fn session(&self) -> Option<&SessionFacts> {
        match &self.start {
            Start::Session(session) => Some(session),
            Start::Unknown | Start::Invalid => None,
        }
    }

    /// The position at the beginning of `file`, after this one.
    pub(super) fn anew(&self, file: FileIdentity) -> Self {
        Self { identity: Some(file), generation: self.generation + 1, ..Self::default() }
    }

    /// Whether the beginning and the end of what was read still stand in the file.
    pub(super) fn stands_in(&self, file: &dyn StorageReader) -> Result<bool> {
        for fingerprint in [self.tail, self.head].into_iter().flatten() {
            if !fingerprint.matches(file)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The version of the text form.
const FORM: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Form {
    v: u32,
    #[serde(default)]
    file: Option<(u64, u64)>,
    generation: u64,
    offset: u64,
    lines: u64,
    entries: u64,
    #[serde(default)]
    session: Option<SessionForm>,
    invalid: bool,
    #[serde(default)]
    head: Option<String>,
    #[serde(default)]
    tail: Option<String>,
    #[serde(default)]
    unended: Vec<String>,
    #[serde(default)]
    seen: Option<SeenForm>,
}

#[derive(Serialize, Deserialize)]
struct SessionForm {
    id: String,
    cwd: Option<String>,
    /// None for a version that is no number.
    version: Option<f64>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SeenForm {
    len: u64,
    /// Whole seconds since 1970, rounded down, and nanoseconds on top.
    modified: (i64, u32),
    last_line_taken: bool,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fingerprint = |of: Option<Fingerprint>| of.map(Fingerprint::to_text);
        let form = Form {
            v: FORM,
            file: self.identity.map(|file| (file.device, file.inode)),
            generation: self.generation,
            offset: self.offset,
            lines: self.lines,
            entries: self.entries,
            session: self.session().map(|session| SessionForm {
                id: session.id.as_str().to_owned(),
                cwd: session.cwd.clone(),
                version: match session.version {
                    FormatVersion::Number(number) => Some(number),
                    FormatVersion::Odd => None,
                },
            }),
            invalid: self.start == Start::Invalid,
            head: fingerprint(self.head),
            tail: fingerprint(self.tail),
            unended: self.unended.iter().map(|object| object.to_text()).collect(),
            seen: self.seen.map(|seen| SeenForm {
                len: seen.len,
                modified: since_1970(seen.modified),
                last_line_taken: seen.last_line_taken,
            }),
        };
        f.write_str(&serde_json::to_string(&form).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for Position {
    type Err = Error;

    /// # Errors
    /// [`ErrorKind::Corrupt`] for anything but what `to_string` of this version gave.
    fn from_str(text: &str) -> Result<Self> {
        let broken = || {
            let message = "this is no reading position of this version; read the file from its beginning";
            Error::new(ErrorKind::Corrupt, message)
        };
        let form: Form = serde_json::from_str(text).map_err(|_| broken())?;
        if form.v != FORM {
            return Err(broken());
        }
        let fingerprint = |text: Option<String>| match text {
            Some(text) => Fingerprint::parse(&text).map(Some).ok_or_else(broken),
            None => Ok(None),
        };
        let start = match form.session {
            Some(_) if form.invalid => return Err(broken()),
            Some(session) => Start::Session(SessionFacts {
                id: session.id.into(),
                cwd: session.cwd,
                version: session.version.map_or(FormatVersion::Odd, FormatVersion::Number),
            }),
            None if form.invalid => Start::Invalid,
            None => Start::Unknown,
        };
        let seen = match form.seen {
            Some(SeenForm { len, modified, last_line_taken }) => {
                Some(Seen { len, modified: system_time(modified).ok_or_else(broken)?, last_line_taken })
            }
            None => None,
        };
        Ok(Self {
            identity: form.file.map(|(device, inode)| FileIdentity { device, inode }),
            generation: form.generation,
            offset: form.offset,
            lines: form.lines,
            entries: form.entries,
            start,
            head: fingerprint(form.head)?,
            tail: fingerprint(form.tail)?,
            unended: form
                .unended
                .iter()
                .map(|text| Fingerprint::parse(text).ok_or_else(broken))
                .collect::<Result<_>>()?,
            seen,
        })
    }
}

fn since_1970(time: SystemTime) -> (i64, u32) {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (i64::try_from(after.as_secs()).unwrap_or(i64::MAX), after.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            let seconds = -i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
            match before.subsec_nanos() {
                0 => (seconds, 0),
                nanos => (seconds - 1, 1_000_000_000 - nanos),
            }
        }
    }
}

fn system_time((seconds, nanos): (i64, u32)) -> Option<SystemTime> {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let time = if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    time?.checked_add(Duration::from_nanos(nanos.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn property_positions_survive_their_text_form(
            numbers in any::<[u64; 6]>(),
            cwd in proptest::option::of("\\PC{0,20}"),
            version in proptest::option::of(-9.0..1e9_f64),
            head in proptest::collection::vec(any::<u8>(), 0..70),
            time in (-1_000_000_000_000_i64..1_000_000_000_000, 0..1_000_000_000_u32),
            start in 0..3_usize,
        ) {
            let [device, inode, generation, offset, lines, entries] = numbers;
            let version = version.map_or(FormatVersion::Odd, FormatVersion::Number);
            let modified = system_time(time).unwrap();
            let position = Position {
                identity: Some(FileIdentity { device, inode }),
                generation,
                offset,
                lines,
                entries,
                start: match start {
                    0 => Start::Unknown,
                    1 => Start::Invalid,
                    _ => Start::Session(SessionFacts { id: "s\"".into(), cwd, version }),
                },
                head: Some(Fingerprint::of(offset, &head)),
                tail: None,
                unended: vec![Fingerprint::of(0, &[]); start],
                seen: Some(Seen { len: offset, modified, last_line_taken: start == 1 }),
            };
            prop_assert_eq!(position.to_string().parse::<Position>().unwrap(), position);
            prop_assert_eq!(since_1970(modified), time);
        }

        #[test]
        fn property_no_text_is_a_panic(text in "\\PC{0,60}") {
            prop_assert!(text.parse::<Position>().is_err());
        }
    }

    #[test]
    fn another_form_is_an_error() {
        let text = Position::default().to_string().replace("\"v\":1", "\"v\":2");
        assert_eq!(text.parse::<Position>().unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
