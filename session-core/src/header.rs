//! The header line `[F2]` and the title slot before it `[F8]`. Knows the bytes of both, and nothing of files.

use crate::clock::Timestamp;
use crate::id::SessionId;
use crate::json::Json;
use crate::splice::{Change, change_keys};

/// The version that this crate writes.
pub const CURRENT_VERSION: u32 = 3;

/// A header is short; a first object that is not is read no further than this many bytes.
pub(crate) const LONGEST_HEADER: u64 = 16 * 1024 * 1024;

/// The version a header states.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum FormatVersion {
    /// A number; absent and `null` count as 1 `[F2, F9]`.
    Number(f64),
    /// Something that is no number: reported, read as current, never written `[F9]`.
    Odd,
}

impl FormatVersion {
    fn of(value: Option<Json<'_>>) -> Self {
        match value {
            None => Self::Number(1.0),
            Some(value) if value.is_null() => Self::Number(1.0),
            Some(value) => value.number().filter(|n| n.is_finite()).map_or(Self::Odd, Self::Number),
        }
    }

    /// Whether entries have no ids of the tree yet `[L5]`.
    pub(crate) fn lacks_tree(self) -> bool {
        matches!(self, Self::Number(n) if n < 2.0)
    }

    /// Whether reading means migrating `[L5, L6]`.
    pub(crate) fn is_old(self) -> bool {
        matches!(self, Self::Number(n) if n < f64::from(CURRENT_VERSION))
    }

    /// Whether a session of this version may be written `[F9]`.
    pub fn is_writable(self) -> bool {
        matches!(self, Self::Number(n) if n <= f64::from(CURRENT_VERSION))
    }
}

/// Who gave a session its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameSource {
    /// A program; gives way to a user's.
    Auto,
    /// A person.
    User,
}

impl NameSource {
    /// The text that files hold.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::User => "user",
        }
    }

    /// Reads `auto` or `user`; a title without a source counts as `auto` `[W7]`.
    pub(crate) fn of(value: Option<Json<'_>>) -> Self {
        match value.and_then(Json::text).as_deref() {
            Some("user") => Self::User,
            _ => Self::Auto,
        }
    }
}

/// A session's header: the line as it stands in the file, and what it says.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    line: Vec<u8>,
    id: SessionId,
    version: FormatVersion,
}

impl Header {
    /// Reads a header line. None when it is no valid header: `type` is not `session`, or `id` is no text `[L2]`.
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        let json = Json::new(line);
        let (mut kind, mut id, mut version) = (None, None, None);
        for member in json.members() {
            match () {
                () if member.is("type") => kind = member.value.text(),
                () if member.is("id") => id = Some(member.value),
                () if member.is("version") => version = Some(member.value),
                () => {}
            }
        }
        if kind.as_deref() != Some("session") {
            return None;
        }
        let id = SessionId::from(id?.text()?.as_ref());
        Some(Self { line: line.to_vec(), id, version: FormatVersion::of(version) })
    }

    /// A new header line `[F8b]`.
    pub(crate) fn compose(id: &SessionId, timestamp: Timestamp, cwd: &str, extra: &[(&str, &str)]) -> Vec<u8> {
        let mut line = format!(
            r#"{{"type":"session","version":{CURRENT_VERSION},"id":{},"timestamp":"{timestamp}","cwd":{}"#,
            crate::json::quote(id.as_str()),
            crate::json::quote(cwd),
        );
        for (key, text) in extra {
            for part in [",", &crate::json::quote(key), ":", &crate::json::quote(text)] {
                line.push_str(part);
            }
        }
        line.push('}');
        line.into_bytes()
    }

    /// The line as it stands in the file, without its line end.
    pub fn raw(&self) -> &[u8] {
        &self.line
    }

    /// The line with the version that reading it gives: 3 for older ones, spliced `[L5, L6]`.
    pub fn migrated(&self) -> Vec<u8> {
        if self.version.is_old() {
            let current = CURRENT_VERSION.to_string();
            change_keys(&self.line, &[("version", Change::Set(current.as_bytes()))])
        } else {
            self.line.clone()
        }
    }

    /// The session's id.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// The version that the file states.
    pub fn version(&self) -> FormatVersion {
        self.version
    }

    /// When the session began; none when it can't be read.
    pub fn timestamp(&self) -> Option<Timestamp> {
        Timestamp::parse(&self.text("timestamp")?)
    }

    /// The working directory; none when the header lacks it or it is no text.
    pub fn cwd(&self) -> Option<String> {
        self.text("cwd")
    }

    /// The title in the header; a title slot or a `session_info` entry may say another name.
    pub fn title(&self) -> Option<String> {
        self.text("title").filter(|title| !title.is_empty())
    }

    /// Who gave the title in the header.
    pub fn title_source(&self) -> NameSource {
        NameSource::of(self.json().get("titleSource"))
    }

    /// Where this session came from: opaque text, sometimes an id, sometimes a path; never a key `[F2]`.
    pub fn parent_session(&self) -> Option<String> {
        self.text("parentSession")
    }

    /// The header for looking into.
    pub fn json(&self) -> Json<'_> {
        Json::new(&self.line)
    }

    fn text(&self, key: &str) -> Option<String> {
        self.json().get(key)?.text().map(std::borrow::Cow::into_owned)
    }

    /// The header with keys changed by splicing.
    pub(crate) fn changed(&self, changes: &[(&str, Change<'_>)]) -> Self {
        Self { line: change_keys(&self.line, changes), id: self.id.clone(), version: self.version }
    }
}

/// The length of a title slot with its line feed, in bytes.
pub const TITLE_SLOT_LEN: usize = 256;

/// A title slot: a physical first line of exactly 256 bytes that is rewritten in place `[F8]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TitleSlot {
    title: String,
    source: Option<String>,
}

impl TitleSlot {
    /// Reads a first line (with its line feed, without a BOM). None when it is no slot `[F8, F8a]`.
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        if line.len() != TITLE_SLOT_LEN || line.last() != Some(&b'\n') {
            return None;
        }
        let json = Json::new(line);
        let text = |key| json.get(key).and_then(Json::text);
        if text("type")? != "title" || json.get("v")?.integer()? != 1 {
            return None;
        }
        text("updatedAt").and(text("pad"))?;
        let source = text("source").map(std::borrow::Cow::into_owned);
        Some(Self { title: text("title")?.into_owned(), source })
    }

    /// The title; an empty one means no title, with no fallback `[F8]`.
    pub fn title(&self) -> Option<&str> {
        Some(self.title.as_str()).filter(|title| !title.is_empty())
    }

    /// Who gave the title.
    pub fn source(&self) -> NameSource {
        if self.source.as_deref() == Some("user") { NameSource::User } else { NameSource::Auto }
    }

    /// The source as the slot spells it.
    pub fn raw_source(&self) -> Option<&str> {
        self.source.as_deref()
    }

    /// The 256 bytes of a slot for `title`, cut at a character boundary when it does not fit; and the title that fitted.
    pub(crate) fn compose(title: &str, source: NameSource, updated_at: Timestamp) -> (Vec<u8>, Self) {
        let around = format!(
            r#"{{"type":"title","v":1,"title":"","source":"{}","updatedAt":"{updated_at}","pad":""}}"#,
            source.as_str()
        );
        let room = TITLE_SLOT_LEN - 1 - around.len();
        let mut fitting = title;
        while crate::json::quote(fitting).len() - 2 > room {
            let Some((cut, _)) = fitting.char_indices().next_back() else { break };
            fitting = &fitting[..cut];
        }
        let quoted = crate::json::quote(fitting);
        let pad = " ".repeat(room - (quoted.len() - 2));
        let line = format!(
            "{{\"type\":\"title\",\"v\":1,\"title\":{quoted},\"source\":\"{}\",\"updatedAt\":\"{updated_at}\",\"pad\":\"{pad}\"}}\n",
            source.as_str(),
        );
        let slot = Self { title: fitting.to_owned(), source: Some(source.as_str().to_owned()) };
        (line.into_bytes(), slot)
    }
}

/// Whether a line is an object of type `title`, slot or not `[F8a]`.
pub(crate) fn is_title_line(kind: Option<&str>) -> bool {
    kind == Some("title")
}

/// Whether an own `type` names a header.
pub(crate) fn is_header_kind(kind: Option<&str>) -> bool {
    kind == Some("session")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn versions() {
        let version =
            |text: &str| Header::parse(format!(r#"{{"type":"session","id":"s"{text}}}"#).as_bytes()).unwrap().version();
        assert!(version("").lacks_tree() && version(r#","version":null"#).lacks_tree());
        assert!(version(r#","version":2"#).is_old() && !version(r#","version":2"#).lacks_tree());
        assert!(version(r#","version":3"#).is_writable() && !version(r#","version":3"#).is_old());
        assert!(!version(r#","version":4"#).is_writable() && !version(r#","version":"3""#).is_writable());
    }

    proptest! {
        #[test]
        fn property_slots_are_256_bytes_and_read_back(title in "\\PC{0,200}") {
            let now = Timestamp::from_millis(0).unwrap();
            let (line, slot) = TitleSlot::compose(&title, NameSource::User, now);
            prop_assert_eq!(line.len(), TITLE_SLOT_LEN);
            prop_assert!(title.starts_with(&slot.title));
            prop_assert_eq!(TitleSlot::parse(&line), Some(slot));
        }
    }
}
