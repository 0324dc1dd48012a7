//! What the model sees for a leaf: the messages on its path and the settings in force `[C1–C5]`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::defect::{Defect, DefectKind};
use crate::entry::EntryKind;
use crate::error::Result;
use crate::id::EntryId;
use crate::json::{Json, JsonKind, JsonText, quote};
use crate::log::Index;
use crate::message::{Message, Role};
use crate::payload::Payloads;
use crate::session::Session;

/// The context for the model.
#[derive(Clone, Debug, Default)]
pub struct Context {
    messages: Vec<ContextMessage>,
    thinking_level: Option<String>,
    service_tier: Option<String>,
    models: BTreeMap<String, String>,
    injected_rules: Vec<String>,
    mcp_tools: Option<Vec<String>>,
    mode: Option<String>,
    mode_data: Option<JsonText>,
    defects: Vec<Defect>,
}

/// One message of a context.
#[derive(Clone, Debug)]
pub struct ContextMessage {
    json: JsonText,
    entry: EntryId,
}

impl ContextMessage {
    /// The message as the model sees it, spelled as in the file where it was one there.
    pub fn json(&self) -> &JsonText {
        &self.json
    }

    /// The message for looking into.
    pub fn view(&self) -> Message<'_> {
        Message::new(self.json.view())
    }

    /// The entry that it comes from.
    pub fn entry(&self) -> &EntryId {
        &self.entry
    }
}

impl Context {
    /// The messages, oldest first.
    pub fn messages(&self) -> &[ContextMessage] {
        &self.messages
    }

    /// The thinking level; `off` when none was set.
    pub fn thinking_level(&self) -> &str {
        self.thinking_level.as_deref().unwrap_or("off")
    }

    /// The service tier, when one is in force.
    pub fn service_tier(&self) -> Option<&str> {
        self.service_tier.as_deref()
    }

    /// The model for each role, as `provider/model`; `default` among them unless nothing says so.
    pub fn models(&self) -> &BTreeMap<String, String> {
        &self.models
    }

    /// The rules that were injected, each once, in the order of their first appearance.
    pub fn injected_rules(&self) -> &[String] {
        &self.injected_rules
    }

    /// The MCP tools that are selected; none when no selection was ever recorded.
    pub fn mcp_tools(&self) -> Option<&[String]> {
        self.mcp_tools.as_deref()
    }

    /// The mode; `none` when none was set.
    pub fn mode(&self) -> &str {
        self.mode.as_deref().unwrap_or("none")
    }

    /// The data of the mode in force.
    pub fn mode_data(&self) -> Option<&JsonText> {
        self.mode_data.as_ref()
    }

    /// What was wrong with the entries that were looked at.
    pub fn defects(&self) -> &[Defect] {
        &self.defects
    }

    /// The context as one JSON object: `messages`, `thinkingLevel`, `serviceTier?`, `models`, `injectedTtsrRules`,
    /// `selectedMCPToolNames`, `hasPersistedMCPToolSelection`, `mode`, `modeData?`.
    pub fn to_json(&self) -> String {
        let texts =
            |list: &[String]| format!("[{}]", list.iter().map(|text| quote(text)).collect::<Vec<_>>().join(","));
        let messages: Vec<&str> = self.messages.iter().map(|message| message.json.as_str()).collect();
        let models: Vec<String> =
            self.models.iter().map(|(role, model)| format!("{}:{}", quote(role), quote(model))).collect();
        let mut members = vec![
            format!(r#""messages":[{}]"#, messages.join(",")),
            format!(r#""thinkingLevel":{}"#, quote(self.thinking_level())),
        ];
        members.extend(self.service_tier.as_ref().map(|tier| format!(r#""serviceTier":{}"#, quote(tier))));
        members.extend([
            format!(r#""models":{{{}}}"#, models.join(",")),
            format!(r#""injectedTtsrRules":{}"#, texts(&self.injected_rules)),
            format!(r#""selectedMCPToolNames":{}"#, texts(self.mcp_tools.as_deref().unwrap_or_default())),
            format!(r#""hasPersistedMCPToolSelection":{}"#, self.mcp_tools.is_some()),
            format!(r#""mode":{}"#, quote(self.mode())),
        ]);
        members.extend(self.mode_data.as_ref().map(|data| format!(r#""modeData":{data}"#)));
        format!("{{{}}}", members.join(","))
    }
}

/// Builds the context for the entries from the root to a leaf.
pub(crate) fn build(session: &Session, path: &[Index]) -> Result<Context> {
    let mut builder = Builder { session, payloads: session.payloads(), context: Context::default(), first_kept: None };
    let log = session.log();
    let kind = |position: &usize| log.kind(path[*position]);
    // The context starts behind the latest reset boundary; settings stay `[F5]`.
    let start = (0..path.len()).rfind(|n| kind(n) == EntryKind::ResetBoundary).map_or(0, |n| n + 1);
    let compaction = (start..path.len()).rfind(|n| kind(n) == EntryKind::Compaction);
    for &entry in path {
        if is_setting(log.kind(entry)) {
            builder.setting(entry)?;
        }
    }
    let mut after = start;
    if let Some(at) = compaction {
        builder.compaction(path[at])?;
        if let Some(kept) = builder.first_kept.and_then(|kept| path[..at].iter().position(|entry| *entry == kept)) {
            builder.messages(&path[kept.max(start)..at])?;
        }
        after = at + 1;
    }
    builder.messages(&path[after..])?;
    builder.default_model(path)?;
    Ok(builder.context)
}

/// Whether entries of this kind set something for all that follows.
fn is_setting(kind: EntryKind) -> bool {
    use EntryKind::{McpToolSelection, ModeChange, ModelChange, ServiceTierChange, ThinkingLevelChange, TtsrInjection};
    matches!(
        kind,
        ThinkingLevelChange | ModelChange | TtsrInjection | ModeChange | ServiceTierChange | McpToolSelection
    )
}

struct Builder<'s> {
    session: &'s Session,
    payloads: Payloads<'s>,
    context: Context,
    /// The entry from which the latest compaction keeps what came before it.
    first_kept: Option<Index>,
}

impl Builder<'_> {
    /// The entry's JSON, or none when it is not JSON, which is reported.
    fn json(&mut self, entry: Index) -> Result<Option<JsonText>> {
        let payload = self.payloads.read(entry)?;
        for kind in payload.defects {
            self.report(entry, kind);
        }
        Ok(payload.json)
    }

    fn report(&mut self, entry: Index, kind: DefectKind) {
        self.context.defects.push(self.session.defect_at(entry, kind));
    }

    fn setting(&mut self, entry: Index) -> Result<()> {
        let Some(json) = self.json(entry)? else { return Ok(()) };
        let json = json.view();
        let context = &mut self.context;
        let well_formed = match self.session.log().kind(entry) {
            EntryKind::ThinkingLevelChange => {
                context.thinking_level = non_empty_text(json.get("thinkingLevel"));
                true
            }
            EntryKind::ModelChange => {
                let role = non_empty_text(json.get("role")).unwrap_or_else(|| "default".to_owned());
                match model_of_change(json) {
                    Some(model) => {
                        context.models.insert(role, model);
                        true
                    }
                    None => matches!(json.get("model").map(Json::kind), Some(JsonKind::Text)),
                }
            }
            EntryKind::TtsrInjection => match json.get("injectedRules") {
                Some(rules) if rules.kind() == JsonKind::Array => {
                    for rule in rules.items().filter_map(Json::text) {
                        if !context.injected_rules.iter().any(|known| *known == rule) {
                            context.injected_rules.push(rule.into_owned());
                        }
                    }
                    true
                }
                _ => false,
            },
            EntryKind::ModeChange => match non_empty_text(json.get("mode")) {
                Some(mode) => {
                    context.mode = Some(mode);
                    context.mode_data = json.get("data").filter(|data| !data.is_null()).and_then(Json::to_owned);
                    true
                }
                None => false,
            },
            EntryKind::ServiceTierChange => match json.get("serviceTier").map(|tier| (tier.is_null(), tier.text())) {
                Some((true, _)) => {
                    context.service_tier = None;
                    true
                }
                Some((false, Some(tier))) => {
                    context.service_tier = Some(tier.into_owned()).filter(|tier| !tier.is_empty());
                    true
                }
                _ => false,
            },
            EntryKind::McpToolSelection => match json.get("selectedToolNames") {
                Some(names) if names.kind() == JsonKind::Array => {
                    context.mcp_tools = Some(names.items().filter_map(Json::text).map(Cow::into_owned).collect());
                    true
                }
                _ => false,
            },
            _ => true,
        };
        if !well_formed {
            self.report(entry, DefectKind::MalformedBody);
        }
        Ok(())
    }

    /// The summary of the latest compaction `[C4]`.
    fn compaction(&mut self, entry: Index) -> Result<()> {
        let json = self.json(entry)?;
        let view = json.as_ref().map(JsonText::view);
        let get = |key: &str| view.and_then(|json| json.get(key));
        let summary = get("summary").and_then(Json::text);
        if view.is_some() && summary.is_none() {
            self.report(entry, DefectKind::MalformedBody);
        }
        let tokens = get("tokensBefore").filter(|tokens| summary.is_some() && tokens.kind() == JsonKind::Number);
        let mut message = Composer::new("compactionSummary");
        message.text("summary", &summary.unwrap_or_default());
        message.raw_unless_null("shortSummary", get("shortSummary"));
        message.bytes("tokensBefore", tokens.map_or(b"0", Json::raw));
        let remote = get("preserveData").and_then(|data| data.get("openaiRemoteCompaction")).and_then(remote_history);
        if let Some((provider, items)) = &remote {
            let mut payload = Composer::of_type("openaiResponsesHistory");
            payload.text("provider", provider);
            payload.bytes("items", items.raw());
            message.bytes("providerPayload", payload.finish().as_str().as_bytes());
        }
        if remote.is_none() {
            let first_kept = get("firstKeptEntryId").and_then(Json::text);
            self.first_kept = first_kept.and_then(|id| self.session.log().find(&id));
        }
        self.push(message, entry);
        Ok(())
    }

    fn messages(&mut self, entries: &[Index]) -> Result<()> {
        for &entry in entries {
            match self.session.log().kind(entry) {
                EntryKind::Message => self.message(entry)?,
                EntryKind::CustomMessage => self.custom_message(entry)?,
                EntryKind::BranchSummary => self.branch_summary(entry)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn message(&mut self, entry: Index) -> Result<()> {
        let Some(json) = self.json(entry)? else { return Ok(()) };
        match json.view().get("message").filter(|message| message.kind() == JsonKind::Object) {
            Some(message) => {
                let entry = self.session.log().id(entry).into();
                self.context.messages.push(ContextMessage { json: json.part(message), entry });
            }
            None => self.report(entry, DefectKind::MalformedBody),
        }
        Ok(())
    }

    fn custom_message(&mut self, entry: Index) -> Result<()> {
        let Some(json) = self.json(entry)? else { return Ok(()) };
        let json = json.view();
        let content = json.get("content").filter(|content| matches!(content.kind(), JsonKind::Text | JsonKind::Array));
        if content.is_none() {
            self.report(entry, DefectKind::MalformedBody);
            return Ok(());
        }
        let mut message = Composer::new("custom");
        for key in ["customType", "content", "display", "details", "attribution"] {
            message.raw(key, json.get(key));
        }
        self.push(message, entry);
        Ok(())
    }

    fn branch_summary(&mut self, entry: Index) -> Result<()> {
        let Some(json) = self.json(entry)? else { return Ok(()) };
        let json = json.view();
        let Some(summary) = json.get("summary").and_then(Json::text) else {
            self.report(entry, DefectKind::MalformedBody);
            return Ok(());
        };
        if summary.is_empty() {
            return Ok(());
        }
        let mut message = Composer::new("branchSummary");
        message.raw("summary", json.get("summary"));
        message.raw("fromId", json.get("fromId"));
        self.push(message, entry);
        Ok(())
    }

    fn push(&mut self, mut message: Composer, entry: Index) {
        let log = self.session.log();
        let time = log.timestamp(entry).map_or_else(|| "null".to_owned(), |time| time.millis().to_string());
        message.bytes("timestamp", time.as_bytes());
        self.context.messages.push(ContextMessage { json: message.finish(), entry: log.id(entry).into() });
    }

    /// Without a default model, the latest assistant message on the path says which one answered `[C2]`.
    fn default_model(&mut self, path: &[Index]) -> Result<()> {
        if self.context.models.contains_key("default") {
            return Ok(());
        }
        for &entry in path.iter().rev() {
            if self.session.log().kind(entry) != EntryKind::Message {
                continue;
            }
            // What is malformed here was reported when the message was emitted, or is before the context.
            let Some(json) = self.payloads.read(entry)?.json else { continue };
            let Some(message) = json.view().get("message").map(Message::new) else { continue };
            if message.role() != Role::Assistant {
                continue;
            }
            if let (Some(provider), Some(model)) = (message.provider(), message.model()) {
                self.context.models.insert("default".to_owned(), format!("{provider}/{model}"));
                return Ok(());
            }
        }
        Ok(())
    }
}

fn non_empty_text(value: Option<Json<'_>>) -> Option<String> {
    value?.text().filter(|text| !text.is_empty()).map(Cow::into_owned)
}

/// The model that a `model_change` names, in either dialect; none for an empty one.
pub(crate) fn model_of_change(json: Json<'_>) -> Option<String> {
    if let Some(model) = json.get("model") {
        return non_empty_text(Some(model));
    }
    let (provider, model) = (non_empty_text(json.get("provider"))?, non_empty_text(json.get("modelId"))?);
    Some(format!("{provider}/{model}"))
}

/// The provider and history that stand for everything before a remote compaction `[C4]`.
fn remote_history(remote: Json<'_>) -> Option<(String, Json<'_>)> {
    let items = remote.get("replacementHistory").filter(|items| items.kind() == JsonKind::Array)?;
    Some((non_empty_text(remote.get("provider"))?, items))
}

/// Writes an object of values that are JSON already.
struct Composer(Vec<u8>);

impl Composer {
    fn new(role: &str) -> Self {
        Self(format!(r#"{{"role":{}"#, quote(role)).into_bytes())
    }

    fn of_type(name: &str) -> Self {
        Self(format!(r#"{{"type":{}"#, quote(name)).into_bytes())
    }

    fn bytes(&mut self, key: &str, json: &[u8]) {
        self.0.extend_from_slice(format!(",{}:", quote(key)).as_bytes());
        self.0.extend_from_slice(json);
    }

    fn text(&mut self, key: &str, text: &str) {
        self.bytes(key, quote(text).as_bytes());
    }

    fn raw(&mut self, key: &str, value: Option<Json<'_>>) {
        if let Some(value) = value {
            self.bytes(key, value.raw());
        }
    }

    fn raw_unless_null(&mut self, key: &str, value: Option<Json<'_>>) {
        self.raw(key, value.filter(|value| !value.is_null()));
    }

    fn finish(mut self) -> JsonText {
        self.0.push(b'}');
        JsonText::from_valid(&self.0)
    }
}
