//! Custom entries as they stand in the session, not yet decoded: found on a path, or everywhere.

use session_core::{Entry, EntryId, EntryKind, EntryReader, Json, JsonText, Leaf, Session};

use crate::error::{Error, ErrorKind, Result};
use crate::state::Version;

/// A `custom` entry of one type.
#[derive(Clone, Debug)]
pub(crate) struct Stored<'s> {
    pub(crate) entry: Entry<'s>,
    json: JsonText,
}

impl Stored<'_> {
    /// The id of the entry.
    pub(crate) fn id(&self) -> EntryId {
        self.entry.id().into()
    }

    /// The state; none where it was cleared.
    pub(crate) fn data(&self) -> Option<JsonText> {
        let data = self.json.view().get("data")?;
        match (self.beside(), enveloped(data)) {
            (None, Some((_, inside))) => inside.to_owned(),
            _ => data.to_owned(),
        }
    }

    /// The schema version; 0 where there is none `[F4]`. `1.0` is 1: programs that rewrite files spell numbers their way.
    pub(crate) fn version(&self) -> Result<Version> {
        self.readable_version().ok_or_else(|| {
            let message = "`schemaVersion` is no whole number from 0 up, so nobody can tell what the data is";
            self.error(ErrorKind::Malformed, message)
        })
    }

    /// An error about this entry, its data in hand.
    pub(crate) fn error(&self, kind: ErrorKind, message: &str) -> Error {
        let error = Error::new(kind, message).on_entry(self.id());
        match self.data() {
            Some(data) => error.with_data(&data, self.readable_version()),
            None => error,
        }
    }

    /// The version, where it can be read.
    pub(crate) fn readable_version(&self) -> Option<Version> {
        match self.beside() {
            Some(version) => version.number().and_then(Version::from_number),
            None => Some(self.json.view().get("data").and_then(enveloped).map_or(Version(0), |(version, _)| version)),
        }
    }

    /// The version that stands beside the data.
    fn beside(&self) -> Option<Json<'_>> {
        self.json.view().get("schemaVersion").filter(|version| !version.is_null())
    }
}

/// The version and the data that stand in the data, `{"schemaVersion":2,"data":…}`, these two keys alone: what a harness's
/// `appendEntry` is handed, which takes data and nothing to stand beside it. Only where no version stands beside.
pub(crate) fn enveloped(data: Json<'_>) -> Option<(Version, Json<'_>)> {
    if data.members().count() != 2 {
        return None;
    }
    let version = data.get("schemaVersion")?.number().and_then(Version::from_number)?;
    Some((version, data.get("data")?))
}

/// The entry, when it is a `custom` entry of this type. One that is no JSON is of no type.
pub(crate) fn of_type<'s>(
    entry: Entry<'s>,
    custom_type: &str,
    reader: &mut EntryReader<'s>,
) -> Result<Option<Stored<'s>>> {
    if entry.kind() != EntryKind::Custom {
        return Ok(None);
    }
    let json = match reader.json(entry) {
        Err(error) if error.kind() == session_core::ErrorKind::NotJson => return Ok(None),
        json => json?,
    };
    let found = json.view().get("customType").and_then(Json::text);
    Ok((found.as_deref() == Some(custom_type)).then_some(Stored { entry, json }))
}

/// The latest entry of this type on the path to a leaf.
pub(crate) fn latest<'s>(session: &'s Session, leaf: &Leaf, custom_type: &str) -> Result<Option<Stored<'s>>> {
    let mut reader = session.reader();
    for entry in session.ancestors(leaf) {
        if let Some(stored) = of_type(entry, custom_type, &mut reader)? {
            return Ok(Some(stored));
        }
    }
    Ok(None)
}

/// Those of `entries` that are of this type, in their order.
pub(crate) fn among<'s>(
    session: &'s Session,
    entries: impl IntoIterator<Item = Entry<'s>>,
    custom_type: &str,
) -> Result<Vec<Stored<'s>>> {
    let mut reader = session.reader();
    let stored = entries.into_iter().filter_map(|entry| of_type(entry, custom_type, &mut reader).transpose());
    stored.collect()
}

/// The leaf that stands for an entry.
pub(crate) fn leaf_at(session: &Session, entry: &str) -> Result<Leaf> {
    match session.entry(entry) {
        Some(_) => Ok(Leaf::Entry(entry.into())),
        None => Err(Error::new(ErrorKind::UnknownEntry, "this session holds no such entry").on_entry(entry.into())),
    }
}
