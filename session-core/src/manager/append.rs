//! One method for every type of entry `[F4, F5]`. What is checked is checked before anything changes.

use super::SessionManager;
use crate::compose::Draft;
use crate::error::{Error, ErrorKind, Result};
use crate::id::EntryId;
use crate::json::{JsonKind, JsonText};

/// What a `compaction` entry says.
#[derive(Clone, Debug)]
pub struct CompactionEntry {
    /// The text that stands for what came before.
    pub summary: String,
    /// One line for lists.
    pub short_summary: Option<String>,
    /// From this entry on, what came before is still sent.
    pub first_kept_entry_id: EntryId,
    /// The size of the context before, in tokens.
    pub tokens_before: u64,
    /// Anything the maker wants to keep.
    pub details: Option<JsonText>,
    /// Whether an extension made it.
    pub from_extension: Option<bool>,
    /// Data that must survive.
    pub preserve_data: Option<JsonText>,
}

/// What a `custom_message` entry says: a message of an extension to the model.
#[derive(Clone, Debug)]
pub struct CustomMessageEntry {
    /// The extension's own name for this kind of message.
    pub custom_type: String,
    /// Text, or an array of text and image blocks.
    pub content: JsonText,
    /// Whether a person sees it.
    pub display: bool,
    /// Anything the extension wants to keep.
    pub details: Option<JsonText>,
    /// Who is behind it: `user` or `agent`.
    pub attribution: Option<String>,
}

/// What a `session_init` entry says: how a sub-agent was started.
#[derive(Clone, Debug)]
pub struct SessionInitEntry {
    /// Its system prompt.
    pub system_prompt: String,
    /// Its task.
    pub task: String,
    /// The names of its tools.
    pub tools: Vec<String>,
    /// The shape that its answer must have.
    pub output_schema: Option<JsonText>,
}

/// Every method appends one entry below the leaf, which becomes the leaf `[T1]`, and returns its id. When it returns on a
/// session that is on disk, the line is with the kernel `[W3]`.
///
/// # Errors
///
/// [`ErrorKind::ReadOnly`], [`ErrorKind::Closed`] and bad arguments change nothing. Any other error names the entry
/// ([`Error::entry`]): it is in memory, in its place, and [`recover`](SessionManager::recover) writes it `[W5]`.
impl SessionManager {
    /// Appends an agent message, stored as it is.
    pub fn append_message(&mut self, message: &JsonText) -> Result<EntryId> {
        if message.view().kind() != JsonKind::Object {
            return Err(self.refuse("a message is a JSON object"));
        }
        self.append(&Draft::new("message").json("message", message.clone()))
    }

    /// Appends another thinking level; none means off.
    pub fn append_thinking_level_change(&mut self, level: Option<&str>) -> Result<EntryId> {
        self.append(&Draft::new("thinking_level_change").json("thinkingLevel", text_or_null(level)))
    }

    /// Appends another model, `provider/modelId`, for a role; none means `default`.
    pub fn append_model_change(&mut self, model: &str, role: Option<&str>) -> Result<EntryId> {
        if model.is_empty() {
            return Err(self.refuse("a model has a name"));
        }
        let role = role.map(JsonText::from_text);
        self.append(&Draft::new("model_change").text("model", model).optional("role", role))
    }

    /// Appends another mode; `none` ends one.
    pub fn append_mode_change(&mut self, mode: &str, data: Option<&JsonText>) -> Result<EntryId> {
        if mode.is_empty() {
            return Err(self.refuse("a mode has a name; `none` ends one"));
        }
        self.append(&Draft::new("mode_change").text("mode", mode).optional("data", data.cloned()))
    }

    /// Appends how a sub-agent was started.
    pub fn append_session_init(&mut self, init: &SessionInitEntry) -> Result<EntryId> {
        let draft = Draft::new("session_init").text("systemPrompt", &init.system_prompt).text("task", &init.task);
        let draft = draft.json("tools", texts(&init.tools)).optional("outputSchema", init.output_schema.clone());
        self.append(&draft)
    }

    /// Appends rules that were injected.
    pub fn append_ttsr_injection(&mut self, rules: &[String]) -> Result<EntryId> {
        self.append(&Draft::new("ttsr_injection").json("injectedRules", texts(rules)))
    }

    /// Appends a compaction.
    pub fn append_compaction(&mut self, compaction: &CompactionEntry) -> Result<EntryId> {
        let short_summary = compaction.short_summary.as_deref().map(JsonText::from_text);
        let draft = Draft::new("compaction")
            .text("summary", &compaction.summary)
            .optional("shortSummary", short_summary)
            .text("firstKeptEntryId", compaction.first_kept_entry_id.as_str())
            .json("tokensBefore", number(compaction.tokens_before))
            .optional("details", compaction.details.clone())
            .optional("preserveData", compaction.preserve_data.clone())
            .optional("fromExtension", compaction.from_extension.map(boolean));
        self.append(&draft)
    }

    /// Appends state of an extension, which the model never sees. `schema_version` is ours, other programs ignore it `[F4]`.
    pub fn append_custom_entry(
        &mut self,
        custom_type: &str,
        data: Option<&JsonText>,
        schema_version: Option<u32>,
    ) -> Result<EntryId> {
        if custom_type.is_empty() {
            return Err(self.refuse("a custom entry has a type"));
        }
        let version = schema_version.map(|version| number(u64::from(version)));
        let draft = Draft::new("custom").text("customType", custom_type).optional("data", data.cloned());
        self.append(&draft.optional("schemaVersion", version))
    }

    /// Appends a message of an extension to the model.
    pub fn append_custom_message_entry(&mut self, message: &CustomMessageEntry) -> Result<EntryId> {
        if message.custom_type.is_empty() {
            return Err(self.refuse("a custom message has a type"));
        }
        if !matches!(message.content.view().kind(), JsonKind::Text | JsonKind::Array) {
            return Err(self.refuse("the content of a custom message is text or an array of blocks"));
        }
        let draft = Draft::new("custom_message")
            .text("customType", &message.custom_type)
            .json("content", message.content.clone())
            .json("display", boolean(message.display))
            .optional("details", message.details.clone())
            .optional("attribution", message.attribution.as_deref().map(JsonText::from_text));
        self.append(&draft)
    }

    /// Sets the label on an entry; none or an empty one removes it `[T5]`.
    ///
    /// # Errors
    /// [`ErrorKind::UnknownEntry`] for an entry that this session does not hold.
    pub fn append_label_change(&mut self, target: &str, label: Option<&str>) -> Result<EntryId> {
        self.known_entry(target)?;
        let label = label.filter(|label| !label.is_empty()).map(JsonText::from_text);
        self.append(&Draft::new("label").text("targetId", target).optional("label", label))
    }

    /// Appends another service tier; none clears it `[F5]`.
    pub fn append_service_tier_change(&mut self, tier: Option<&str>) -> Result<EntryId> {
        self.append(&Draft::new("service_tier_change").json("serviceTier", text_or_null(tier)))
    }

    /// Appends which MCP tools are selected `[F5]`.
    pub fn append_mcp_tool_selection(&mut self, names: &[String]) -> Result<EntryId> {
        self.append(&Draft::new("mcp_tool_selection").json("selectedToolNames", texts(names)))
    }

    /// Checks that the session holds an entry.
    pub(super) fn known_entry(&self, id: &str) -> Result<()> {
        super::known(&self.session, id, &self.file)
    }

    pub(super) fn refuse(&self, message: &str) -> Error {
        Error::new(ErrorKind::InvalidInput, message).at(&self.file)
    }
}

fn texts(list: &[String]) -> JsonText {
    let items: Vec<String> = list.iter().map(|text| crate::json::quote(text)).collect();
    JsonText::from_valid(format!("[{}]", items.join(",")).as_bytes())
}

fn text_or_null(text: Option<&str>) -> JsonText {
    text.map_or_else(|| JsonText::from_valid(b"null"), JsonText::from_text)
}

fn number(number: u64) -> JsonText {
    JsonText::from_valid(number.to_string().as_bytes())
}

fn boolean(value: bool) -> JsonText {
    JsonText::from_valid(if value { b"true" } else { b"false" })
}
