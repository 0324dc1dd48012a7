//! Agent messages as they are stored: typed views, decoded on demand and leniently, with the raw JSON at hand `[F7, L8a]`.

use std::borrow::Cow;

use crate::json::{Json, JsonKind};

/// Who speaks `[F7]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Role {
    /// A person.
    User,
    /// The program around the model.
    Developer,
    /// The model.
    Assistant,
    /// What a tool gave back.
    ToolResult,
    /// A shell command run by the user.
    BashExecution,
    /// Python run by the user.
    PythonExecution,
    /// An extension.
    Custom,
    /// An extension, in files before version 3.
    HookMessage,
    /// What an abandoned branch came to.
    BranchSummary,
    /// What came before a compaction.
    CompactionSummary,
    /// Files that the user mentioned.
    FileMention,
    /// Any other role, or none; passes through.
    Other,
}

impl Role {
    fn of(name: &str) -> Self {
        match name {
            "user" => Self::User,
            "developer" => Self::Developer,
            "assistant" => Self::Assistant,
            "toolResult" => Self::ToolResult,
            "bashExecution" => Self::BashExecution,
            "pythonExecution" => Self::PythonExecution,
            "custom" => Self::Custom,
            "hookMessage" => Self::HookMessage,
            "branchSummary" => Self::BranchSummary,
            "compactionSummary" => Self::CompactionSummary,
            "fileMention" => Self::FileMention,
            _ => Self::Other,
        }
    }
}

/// A message. Every question about it has an answer, whatever it holds.
///
/// ```
/// use session_core::{JsonText, Message, Role};
/// let json = JsonText::parse(r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#)?;
/// let message = Message::new(json.view());
/// assert_eq!(message.role(), Role::User);
/// assert_eq!(message.text("\n"), "a\nb");
/// # Ok::<(), session_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Message<'a>(Json<'a>);

impl<'a> Message<'a> {
    /// A view on a message's JSON.
    pub fn new(json: Json<'a>) -> Self {
        Self(json)
    }

    /// The JSON as it stands.
    pub fn json(self) -> Json<'a> {
        self.0
    }

    /// Who speaks.
    pub fn role(self) -> Role {
        self.role_name().map_or(Role::Other, |name| Role::of(&name))
    }

    /// The role as it is spelled; none when it is no text.
    pub fn role_name(self) -> Option<Cow<'a, str>> {
        self.0.get("role")?.text()
    }

    /// The message's own time, in milliseconds since 1970.
    pub fn timestamp_millis(self) -> Option<i64> {
        let timestamp = self.0.get("timestamp")?;
        // Other programs may write fractions of a millisecond, or `1e12`.
        timestamp.integer().or_else(|| format!("{:.0}", timestamp.number()?).parse().ok())
    }

    /// The content: its blocks, a lone text counting as one.
    pub fn blocks(self) -> Blocks<'a> {
        let content = self.0.get("content");
        match content.map(Json::kind) {
            Some(JsonKind::Array) => Blocks { items: content.map(Json::items), text: None },
            Some(JsonKind::Text) => Blocks { items: None, text: content },
            _ => Blocks { items: None, text: None },
        }
    }

    /// The text of all text blocks, joined by `separator`.
    pub fn text(self, separator: &str) -> String {
        let mut out = String::new();
        let mut first = true;
        for block in self.blocks() {
            if let Block::Text(text) = block {
                if !std::mem::take(&mut first) {
                    out.push_str(separator);
                }
                out.push_str(&text);
            }
        }
        out
    }

    /// The provider that answered (assistant messages).
    pub fn provider(self) -> Option<Cow<'a, str>> {
        self.0.get("provider")?.text()
    }

    /// The model that answered (assistant messages).
    pub fn model(self) -> Option<Cow<'a, str>> {
        self.0.get("model")?.text()
    }

    /// Why the model stopped (assistant messages): `stop`, `toolUse`, `length`, `aborted`, `error`.
    pub fn stop_reason(self) -> Option<Cow<'a, str>> {
        self.0.get("stopReason")?.text()
    }

    /// The tool that gave this result.
    pub fn tool_name(self) -> Option<Cow<'a, str>> {
        self.0.get("toolName")?.text()
    }

    /// Whether a program produced this user message: `attribution` is `agent`, or `synthetic` is true.
    pub fn is_by_program(self) -> bool {
        let by_agent = self.0.get("attribution").and_then(Json::text).is_some_and(|who| who == "agent");
        by_agent || self.0.get("synthetic").and_then(Json::bool) == Some(true)
    }
}

/// One block of a message's content.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Block<'a> {
    /// Text.
    Text(Cow<'a, str>),
    /// What the model thought.
    Thinking(Cow<'a, str>),
    /// An image: its data (base64 or a blob reference) and kind.
    Image {
        /// Base64, or `blob:sha256:…` where the blob is missing.
        data: Cow<'a, str>,
        /// `image/png` and the like.
        mime_type: Cow<'a, str>,
    },
    /// The model calls a tool.
    ToolCall {
        /// The call's id, which its result names.
        id: Cow<'a, str>,
        /// The tool.
        name: Cow<'a, str>,
        /// Its arguments.
        arguments: Option<Json<'a>>,
    },
    /// Anything else.
    Other(Json<'a>),
}

impl<'a> Block<'a> {
    fn of(json: Json<'a>) -> Self {
        let text = |key: &str| json.get(key).and_then(Json::text);
        let block = match text("type").as_deref() {
            Some("text") => text("text").map(Self::Text),
            Some("thinking") => text("thinking").map(Self::Thinking),
            Some("image") => {
                text("data").map(|data| Self::Image { data, mime_type: text("mimeType").unwrap_or_default() })
            }
            Some("toolCall") => text("name").map(|name| Self::ToolCall {
                id: text("id").unwrap_or_default(),
                name,
                arguments: json.get("arguments"),
            }),
            _ => None,
        };
        block.unwrap_or(Self::Other(json))
    }
}

/// Iterator over the blocks of a message.
#[derive(Clone, Debug)]
pub struct Blocks<'a> {
    items: Option<crate::json::Items<'a>>,
    text: Option<Json<'a>>,
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Block<'a>;

    fn next(&mut self) -> Option<Block<'a>> {
        if let Some(text) = self.text.take() {
            return text.text().map(Block::Text);
        }
        self.items.as_mut()?.next().map(Block::of)
    }
}
