//! What is known of one session without holding it: as much as was read of it `[R3]`.

use crate::clock::Timestamp;
use crate::id::SessionId;
use crate::message::{Block, Message};

/// How far a session was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Depth {
    /// The header; what follows may have been seen or not.
    Header,
    /// Up to the first user message that has text, when it is near the beginning.
    Prompt,
    /// All of it.
    Whole,
}

/// The facts of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) depth: Depth,
    pub(super) id: SessionId,
    pub(super) cwd: Option<String>,
    pub(super) created: Option<Timestamp>,
    pub(super) parent: Option<String>,
    pub(super) title: Option<String>,
    pub(super) first_message: Option<String>,
    pub(super) messages: Option<u64>,
    pub(super) last_activity: Option<Timestamp>,
    pub(super) status: Option<Status>,
}

/// How a session stands, by its last message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// The model answered.
    Complete,
    /// A message of the user is unanswered.
    Waiting,
    /// Tool calls or results without a following answer, or an answer cut by its length.
    Interrupted,
    /// The user stopped the answer.
    Aborted,
    /// The answer failed.
    Error,
    /// There is no message that says.
    Unknown,
}

impl Status {
    /// All of them.
    pub(super) const ALL: [Self; 6] =
        [Self::Complete, Self::Waiting, Self::Interrupted, Self::Aborted, Self::Error, Self::Unknown];

    /// The status's name, as a listing prints it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Waiting => "waiting",
            Self::Interrupted => "interrupted",
            Self::Aborted => "aborted",
            Self::Error => "error",
            Self::Unknown => "unknown",
        }
    }

    /// By the answer that came last.
    pub(super) fn of_answer(message: Message<'_>) -> Self {
        let calls = || message.blocks().any(|block| matches!(block, Block::ToolCall { .. }));
        match message.stop_reason().as_deref() {
            Some("aborted") => Self::Aborted,
            Some("error") => Self::Error,
            Some("toolUse" | "length") => Self::Interrupted,
            None | Some("stop") if calls() => Self::Interrupted,
            None | Some("stop") => Self::Complete,
            Some(_) => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::JsonText;

    #[test]
    fn answers() {
        // [R3]
        let call = r#"[{"type":"toolCall","id":"1","name":"bash","arguments":{}}]"#;
        for (reason, content, want) in [
            (r#""stop""#, r#""x""#, Status::Complete),
            (r#""stop""#, call, Status::Interrupted),
            (r#""toolUse""#, call, Status::Interrupted),
            (r#""length""#, r#""x""#, Status::Interrupted),
            (r#""aborted""#, call, Status::Aborted),
            (r#""error""#, r#""x""#, Status::Error),
            ("null", r#""x""#, Status::Complete),
            ("null", call, Status::Interrupted),
            (r#""other""#, r#""x""#, Status::Unknown),
        ] {
            let text = format!(r#"{{"role":"assistant","stopReason":{reason},"content":{content}}}"#);
            let json = JsonText::parse(&text).unwrap();
            assert_eq!(Status::of_answer(Message::new(json.view())), want, "{text}");
        }
    }
}
