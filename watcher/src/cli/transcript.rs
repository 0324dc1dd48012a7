//! What was said in a session, in order: the entries of a branch as turns of parts that a person can read. It shows nothing;
//! `show`, `context` and `export` do, each in its own way.

use anyhow::Result;
use serde::Serialize;
use session_core::{
    Block, Entry, EntryKind, ErrorKind, Json, JsonKind, JsonText, Leaf, Message, Role, Session, Timestamp,
};

/// One entry that says something.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Turn {
    pub(super) entry: String,
    /// The message's role; for other entries their type.
    pub(super) role: String,
    pub(super) time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) label: Option<String>,
    pub(super) parts: Vec<Part>,
    #[serde(skip)]
    pub(super) speaker: Speaker,
}

/// Who speaks, as far as it matters for how it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaker {
    Person,
    Model,
    Tool,
    Program,
}

/// A part of a turn.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub(super) enum Part {
    Text {
        text: String,
    },
    Thinking {
        text: String,
    },
    Call {
        name: String,
        arguments: Option<String>,
    },
    Output {
        name: String,
        text: String,
        failed: bool,
    },
    Image {
        kind: String,
        size: usize,
    },
    /// What happened beside the conversation: another model, another mode.
    Note {
        text: String,
    },
    /// Why an answer ended early.
    Stopped {
        reason: String,
    },
}

/// The turns from the root to a leaf. Entries whose content can't be read are passed over; `examine` reports them.
pub(super) fn turns(session: &Session, leaf: &Leaf) -> Result<Vec<Turn>> {
    let labels = session.labels()?;
    let mut turns = Vec::new();
    for entry in session.branch_path(leaf) {
        if let Some(json) = payload(entry)?
            && let Some(mut turn) = turn(entry, json.view())
        {
            turn.label = labels.get(entry.id()).cloned();
            turns.push(turn);
        }
    }
    Ok(turns)
}

/// An entry's content; none when it is no JSON.
pub(super) fn payload(entry: Entry<'_>) -> Result<Option<JsonText>> {
    match entry.json() {
        Ok(json) => Ok(Some(json)),
        Err(error) if error.kind() == ErrorKind::NotJson => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The text of the first message of a person that has text.
pub(super) fn first_prompt(session: &Session) -> Result<Option<String>> {
    for entry in session.entries().filter(|entry| entry.kind() == EntryKind::Message) {
        let Some(json) = payload(entry)? else { continue };
        let Some(message) = json.view().get("message").map(Message::new) else { continue };
        let text = message.text(" ");
        if message.role() == Role::User && !text.trim().is_empty() {
            return Ok(Some(text));
        }
    }
    Ok(None)
}

/// What an entry says; none when that is nothing a reader misses.
pub(super) fn turn(entry: Entry<'_>, json: Json<'_>) -> Option<Turn> {
    let text = |key: &str| json.get(key).and_then(Json::text).map(std::borrow::Cow::into_owned);
    let note = |text: String| vec![Part::Note { text }];
    let said = |text: Option<String>| text.filter(|text| !text.is_empty()).map(|text| Part::Text { text });
    let parts = match entry.kind() {
        EntryKind::Message => {
            let mut turn = of_message(Message::new(json.get("message")?));
            entry.id().clone_into(&mut turn.entry);
            turn.time = entry.timestamp().map(|time| time.to_string());
            return Some(turn);
        }
        EntryKind::Compaction => {
            let tokens = json.get("tokensBefore").and_then(Json::number).unwrap_or(0.0);
            let what = format!("what came before ({} tokens) was compacted to:", super::text::count(tokens));
            note(what).into_iter().chain(said(text("summary"))).collect()
        }
        EntryKind::BranchSummary => {
            note("another branch, in short:".to_owned()).into_iter().chain(said(text("summary"))).collect()
        }
        EntryKind::CustomMessage if json.get("display").and_then(Json::bool) != Some(false) => {
            Message::new(json).blocks().filter_map(part).collect()
        }
        EntryKind::ModelChange => {
            let model = text("model").or_else(|| Some(format!("{}/{}", text("provider")?, text("modelId")?)))?;
            let role = text("role").filter(|role| role != "default").map(|role| format!(" for {role}"));
            note(format!("model {model}{}", role.unwrap_or_default()))
        }
        EntryKind::ThinkingLevelChange => {
            note(format!("thinking {}", text("thinkingLevel").as_deref().unwrap_or("off")))
        }
        EntryKind::ModeChange => note(format!("mode {}", text("mode")?)),
        EntryKind::ResetBoundary => note("the context begins anew here".to_owned()),
        EntryKind::SessionInit => note("begun for a task:".to_owned()).into_iter().chain(said(text("task"))).collect(),
        _ => return None,
    };
    Some(Turn {
        entry: entry.id().to_owned(),
        role: entry.kind_name().to_owned(),
        time: entry.timestamp().map(|time| time.to_string()),
        model: None,
        label: None,
        parts,
        speaker: Speaker::Program,
    })
}

/// What a message says.
pub(super) fn of_message(message: Message<'_>) -> Turn {
    let json = message.json();
    let text = |key: &str| json.get(key).and_then(Json::text).map(std::borrow::Cow::into_owned);
    let mut parts: Vec<Part> = Vec::new();
    let speaker = match message.role() {
        Role::User => Speaker::Person,
        Role::Assistant => Speaker::Model,
        Role::ToolResult | Role::BashExecution | Role::PythonExecution => Speaker::Tool,
        _ => Speaker::Program,
    };
    match message.role() {
        Role::ToolResult => {
            let failed = json.get("isError").and_then(Json::bool) == Some(true);
            let name = message.tool_name().unwrap_or_default().into_owned();
            parts.push(Part::Output { name, text: message.text("\n"), failed });
            parts.extend(message.blocks().filter_map(part).filter(|part| matches!(part, Part::Image { .. })));
        }
        Role::BashExecution | Role::PythonExecution => {
            let name = if message.role() == Role::BashExecution { "bash" } else { "python" };
            parts.push(Part::Call { name: name.to_owned(), arguments: text("command").or_else(|| text("code")) });
            let failed = json.get("exitCode").and_then(Json::number).is_some_and(|code| code != 0.0);
            parts.push(Part::Output { name: name.to_owned(), text: text("output").unwrap_or_default(), failed });
        }
        Role::BranchSummary | Role::CompactionSummary => {
            parts.extend(text("summary").map(|text| Part::Text { text }));
        }
        Role::FileMention => {
            let files = json.get("files").filter(|files| files.kind() == JsonKind::Array).map(Json::items);
            let paths = files
                .into_iter()
                .flatten()
                .filter_map(|file| file.get("path")?.text().map(std::borrow::Cow::into_owned));
            parts.extend(paths.map(|path| Part::Note { text: format!("file {path}") }));
        }
        _ => parts.extend(message.blocks().filter_map(part)),
    }
    let stopped = message.stop_reason().filter(|reason| matches!(&**reason, "aborted" | "error" | "length"));
    if let Some(reason) = stopped {
        let why = text("errorMessage").filter(|why| !why.is_empty()).map(|why| format!(": {why}")).unwrap_or_default();
        parts.push(Part::Stopped { reason: format!("{reason}{why}") });
    }
    Turn {
        entry: String::new(),
        role: message.role_name().unwrap_or("?".into()).into_owned(),
        time: message.timestamp_millis().and_then(Timestamp::from_millis).map(|time| time.to_string()),
        model: message.model().map(std::borrow::Cow::into_owned),
        label: None,
        parts,
        speaker,
    }
}

fn part(block: Block<'_>) -> Option<Part> {
    Some(match block {
        Block::Text(text) if text.trim().is_empty() => return None,
        Block::Text(text) => Part::Text { text: text.into_owned() },
        Block::Thinking(text) => Part::Thinking { text: text.into_owned() },
        Block::Image { data, mime_type } => Part::Image { kind: mime_type.into_owned(), size: data.len() / 4 * 3 },
        Block::ToolCall { name, arguments, .. } => {
            let arguments = arguments.map(|arguments| String::from_utf8_lossy(arguments.raw()).into_owned());
            Part::Call { name: name.into_owned(), arguments }
        }
        _ => return None,
    })
}

/// The arguments of a call in one line: the first text in them, which is what the call is about.
pub(super) fn gist(arguments: &str) -> String {
    let json = JsonText::parse(arguments).ok().filter(|json| json.view().kind() == JsonKind::Object);
    let Some(json) = json else { return super::text::first_line(arguments).to_owned() };
    let mut texts = json.view().members().filter_map(|member| member.value.text().map(std::borrow::Cow::into_owned));
    let first = texts.find(|text| !text.trim().is_empty());
    super::text::first_line(&first.unwrap_or_default()).to_owned()
}
