//! What counts as a prompt: the text that a person typed, found in a `message` entry. It reads no files.

use session_core::{EntryId, Json, Message, Role, Timestamp};
use sha2::{Digest, Sha256};

use history::{EntryKey, Submission};

/// A prompt as it stands in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prompt {
    pub(crate) text: String,
    /// The message's own time, else the entry's, in milliseconds since 1970; none when neither can be read.
    pub(crate) millis: Option<i64>,
    /// The id of its entry.
    entry: EntryId,
    /// The id that its entry has while the file is of version 1.
    version_1: Option<EntryId>,
}

impl Prompt {
    /// The prompt in an entry's JSON; none when it is no message of a person, or holds no text. What a program produced
    /// (`attribution: "agent"`, `synthetic: true`) does not count.
    pub(crate) fn of(entry: &EntryId, entry_time: Option<Timestamp>, json: Json<'_>) -> Option<Self> {
        let message = Message::new(json.get("message")?);
        if message.role() != Role::User || message.is_by_program() {
            return None;
        }
        let text = message.text("\n");
        if text.trim().is_empty() {
            return None;
        }
        let millis = message.timestamp_millis().or(entry_time.map(Timestamp::millis));
        Some(Self { text, millis, entry: entry.clone(), version_1: None })
    }

    /// Its time in seconds since 1970.
    pub(crate) fn seconds(&self) -> Option<i64> {
        self.millis.map(|millis| millis.div_euclid(1000))
    }

    /// What makes it the same submission in whatever session or directory it stands (forks, copies, rewrites): the entry's
    /// id, the message's time and the text.
    pub(crate) fn key(&self) -> EntryKey {
        self.key_with(&self.entry)
    }

    fn key_with(&self, entry: &EntryId) -> EntryKey {
        let entry = entry.as_str();
        let mut hash = Sha256::new();
        hash.update((entry.len() as u64).to_le_bytes());
        hash.update(entry);
        hash.update(self.millis.unwrap_or(i64::MIN).to_le_bytes());
        hash.update(&self.text);
        EntryKey::new(hash.finalize().to_vec())
    }

    /// The file may have been of version 1, where the entry had this id, as every reader derives it. A harness that migrates
    /// such a file gives its entries ids of its own: they are the same submissions all the same `[L5]`.
    #[must_use]
    pub(crate) fn once_known_as(mut self, version_1: Option<EntryId>) -> Self {
        self.version_1 = version_1.filter(|id| *id != self.entry);
        self
    }

    /// The prompt as the history takes it.
    pub(crate) fn into_submission(self, session: &str, cwd: Option<&str>) -> Submission {
        let (key, seconds) = (self.key(), self.seconds());
        let formerly = self.version_1.as_ref().map(|id| self.key_with(id));
        let mut submission = Submission::new(self.text).key(key).session(session);
        if let Some(formerly) = formerly {
            submission = submission.formerly(formerly);
        }
        if let Some(cwd) = cwd {
            submission = submission.cwd(cwd);
        }
        match seconds {
            Some(seconds) => submission.at(seconds),
            None => submission,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use session_core::JsonText;

    fn prompt(message: &str) -> Option<Prompt> {
        let json = JsonText::parse(&format!(r#"{{"type":"message","message":{message}}}"#)).unwrap();
        Prompt::of(&"0000000a".into(), Timestamp::from_millis(5_500), json.view())
    }

    #[test]
    fn what_a_person_typed_counts() {
        let typed = prompt(r#"{"role":"user","content":"hi","timestamp":7999}"#).unwrap();
        assert_eq!((typed.text.as_str(), typed.seconds()), ("hi", Some(7)));
        let blocks = r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","data":"x","mimeType":"y"},{"type":"text","text":"b"}]}"#;
        let blocks = prompt(blocks).unwrap();
        assert_eq!((blocks.text.as_str(), blocks.seconds()), ("a\nb", Some(5)));
        for not in [
            r#"{"role":"assistant","content":"hi"}"#,
            r#"{"role":"user","content":"  \n"}"#,
            r#"{"role":"user","content":[]}"#,
            r#"{"role":"user","content":"hi","attribution":"agent"}"#,
            r#"{"role":"user","content":"hi","synthetic":true}"#,
            r#""bare""#,
        ] {
            assert_eq!(prompt(not), None, "{not}");
        }
        assert!(prompt(r#"{"role":"user","content":"hi","attribution":"user","synthetic":false}"#).is_some());
    }

    #[test]
    fn entry_time_and_text_make_the_submission() {
        // K57
        let key = |entry: &str, millis, text: &str| {
            Prompt { text: text.into(), millis: Some(millis), entry: entry.into(), version_1: None }.key()
        };
        assert_eq!(key("a", 1, "x"), key("a", 1, "x"));
        assert_ne!(key("a", 1, "x"), key("b", 1, "x"));
        assert_ne!(key("a", 1, "x"), key("a", 2, "x"));
        assert_ne!(key("a", 1, "x"), key("a", 1, "y"));
    }
}
