//! `open` and `context`: what the reading API sees in a session file.

use std::path::Path;
use std::sync::Arc;

use session_core::storage::FileSessionStorage;
use session_core::{
    BlobStore, Context, EntryId, Header, Json, JsonText, Leaf, Session, SystemClock, TitleSlot, Usage, quote,
};

use super::answer::{Object, Outcome, array};
use super::{Failure, text};

pub(super) fn open(command: Json<'_>) -> Outcome {
    let session = read(command)?;
    let labels = session.labels()?;
    let mut shown_labels = Object::new();
    for (target, label) in &labels {
        shown_labels.add(target.as_str(), quote(label));
    }
    let defects = session.examine()?;
    let defects = defects.list().iter().map(|defect| {
        let place = Object::new().with("line", defect.line()).with("offset", defect.offset());
        place.with("kind", quote(defect.kind().name()))
    });
    let answer = Object::new()
        .with("header", header(session.header(), session.title_slot()))
        .with_text("name", session.name()?)
        .with("ids", array(session.entries().map(|entry| quote(entry.id()))))
        .with("types", array(session.entries().map(|entry| quote(entry.kind_name()))))
        .with_text("leaf", session.leaf_id())
        .with("labels", shown_labels)
        .with("tree", tree(&session)?)
        .with("usage", usage(&session.usage()?))
        .with("context", session.context(&Leaf::Current)?.to_json())
        .with("defects", array(defects));
    Ok(answer.to_string())
}

pub(super) fn context(command: Json<'_>) -> Outcome {
    let leaf = match command.get("leaf") {
        None => Leaf::Current,
        Some(leaf) if leaf.is_null() => Leaf::None,
        Some(_) => Leaf::Entry(EntryId::from(text(command, "leaf")?.as_ref())),
    };
    Ok(Context::to_json(&read(command)?.context(&leaf)?))
}

fn read(command: Json<'_>) -> Result<Session, Failure> {
    let session = Session::read(Path::new(&*text(command, "file")?))?;
    let Some(blobs) = command.get("blobs").and_then(Json::text) else { return Ok(session) };
    let storage = Arc::new(FileSessionStorage::new());
    Ok(session.with_blobs(BlobStore::new(storage, Path::new(&*blobs), Arc::new(SystemClock))))
}

/// The header after migration; where there is a title slot, its title and source stand in place of the header's.
fn header(header: Option<&Header>, slot: Option<&TitleSlot>) -> String {
    let Some(header) = header else { return "null".to_owned() };
    let migrated = String::from_utf8_lossy(&header.migrated()).into_owned();
    let (Some(slot), Ok(json)) = (slot, JsonText::parse(&migrated)) else { return migrated };
    let mut shown = Object::new();
    for member in json.view().members() {
        let key = member.key();
        if key != "title" && key != "titleSource" {
            shown.add(&key, String::from_utf8_lossy(member.value.raw()));
        }
    }
    for (key, value) in [("title", slot.title()), ("titleSource", slot.raw_source())] {
        if let Some(value) = value {
            shown.add(key, quote(value));
        }
    }
    shown.to_string()
}

/// The tree, nested. It comes as a flat list in the order of a walk, so that no depth needs a stack.
pub(super) fn tree(session: &Session) -> Outcome {
    let labels = session.labels()?;
    let entries: Vec<_> = session.entries().collect();
    let mut out = String::from("[");
    let mut open_nodes = 0;
    for node in session.tree() {
        if open_nodes > node.depth {
            // A sibling of an ancestor, or of the node before: what is open below it ends.
            out.push('}');
            out.push_str(&"]}".repeat(open_nodes - node.depth - 1));
            out.push(',');
        } else if open_nodes > 0 {
            out.push_str(r#","children":["#);
        }
        let entry = entries[node.entry];
        let label = labels.get(entry.id()).filter(|_| !entry.is_superseded());
        out.push_str(r#"{"id":"#);
        out.push_str(&quote(entry.id()));
        if let Some(label) = label {
            out.push_str(r#","label":"#);
            out.push_str(&quote(label));
        }
        open_nodes = node.depth + 1;
    }
    if open_nodes > 0 {
        out.push('}');
        out.push_str(&"]}".repeat(open_nodes - 1));
    }
    out.push(']');
    Ok(out)
}

fn usage(usage: &Usage) -> Object {
    Object::new()
        .with("input", usage.input)
        .with("output", usage.output)
        .with("cacheRead", usage.cache_read)
        .with("cacheWrite", usage.cache_write)
        .with("premiumRequests", usage.premium_requests)
        .with("cost", usage.cost)
}
