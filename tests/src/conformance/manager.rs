//! Operations on a session manager: each one call of its method of the same name.

use std::path::Path;

use session_core::{
    ArtifactId, CompactionEntry, CustomMessageEntry, EntryEdit, EntryId, Host, Json, JsonText, Leaf, NameSource,
    SessionInitEntry, SessionManager, quote,
};

use super::answer::{Object, Outcome, array, text_or_null};
use super::arguments::Arguments;
use super::{Failure, files, load, member, text};

/// Makes a manager; none when the operation is not one that makes one.
pub(super) fn make(op: &str, args: &Arguments, host: &Host) -> Option<Result<SessionManager, Failure>> {
    let made = || -> Result<Option<SessionManager>, Failure> {
        let dir = |n| Ok::<_, Failure>(args.maybe_text(n)?.map(std::path::PathBuf::from));
        Ok(Some(match op {
            "create" => SessionManager::create(host, &args.path(0)?, dir(1)?.as_deref())?,
            "open" => SessionManager::open(host, &args.path(0)?, dir(1)?.as_deref())?,
            "continueRecent" => SessionManager::continue_recent(host, &args.path(0)?, dir(1)?.as_deref())?,
            "forkFrom" => SessionManager::fork_from(host, &args.path(0)?, &args.path(1)?, dir(2)?.as_deref())?,
            "inMemory" => SessionManager::in_memory(host, &args.path(0)?)?,
            _ => return Ok(None),
        }))
    };
    made().transpose()
}

/// The session file, as the operations that make a manager answer.
pub(super) fn file(manager: &SessionManager) -> String {
    path_or_null(manager.file())
}

/// Calls a method.
pub(super) fn call(op: &str, args: &Arguments, manager: &mut SessionManager) -> Outcome {
    match op {
        "appendMessage" => appended(manager.append_message(args.json(0)?)),
        "appendThinkingLevelChange" => appended(manager.append_thinking_level_change(args.maybe_text(0)?.as_deref())),
        "appendModelChange" => appended(manager.append_model_change(&args.text(0)?, args.maybe_text(1)?.as_deref())),
        "appendModeChange" => appended(manager.append_mode_change(&args.text(0)?, args.maybe(1))),
        "appendSessionInit" => appended(manager.append_session_init(&session_init(args.json(0)?.view())?)),
        "appendTtsrInjection" => appended(manager.append_ttsr_injection(&texts(args.json(0)?.view()))),
        "appendCompaction" => appended(manager.append_compaction(&compaction(args)?)),
        "appendCustomEntry" => appended(manager.append_custom_entry(&args.text(0)?, args.maybe(1), None)),
        "appendCustomMessageEntry" => appended(manager.append_custom_message_entry(&custom_message(args)?)),
        "appendLabelChange" => appended(manager.append_label_change(&args.text(0)?, args.maybe_text(1)?.as_deref())),
        "branchWithSummary" => {
            let (from, summary) = (args.maybe_text(0)?, args.text(1)?);
            appended(manager.branch_with_summary(from.as_deref(), &summary, args.maybe(2), args.maybe_bool(3)?))
        }
        "branch" => nothing(manager.branch(&args.text(0)?)),
        "resetLeaf" => {
            manager.reset_leaf();
            nothing(Ok(()))
        }
        "createBranchedSession" => {
            let file = manager.create_branched_session(&args.text(0)?)?;
            Ok(path_or_null(file.as_deref()))
        }
        "fork" => Ok(manager.fork()?.map_or_else(null, |forked| {
            let old = Object::new().with("oldSessionFile", path_or_null(Some(&forked.old)));
            old.with("newSessionFile", path_or_null(Some(&forked.new))).to_string()
        })),
        "moveTo" => nothing(manager.move_to(&args.path(0)?)),
        "newSession" => {
            let parent = args.maybe(0).and_then(|options| options.view().get("parentSession")).and_then(Json::text);
            Ok(path_or_null(Some(&manager.new_session(parent.as_deref())?)))
        }
        "setSessionFile" => nothing(manager.set_session_file(&args.path(0)?)),
        "setSessionName" => {
            let source = match args.text(1)?.as_str() {
                "auto" => NameSource::Auto,
                "user" => NameSource::User,
                other => return Err(Failure::input(format!("there is no source {other}"))),
            };
            Ok(manager.set_session_name(&args.text(0)?, source)?.to_string())
        }
        "getSessionName" => Ok(text_or_null(manager.name()?)),
        "ensureOnDisk" => nothing(manager.ensure_on_disk()),
        "rewriteEntries" => nothing(manager.rewrite_entries(&edits(args)?)),
        "flush" => nothing(manager.flush()),
        "recover" => nothing(manager.recover()),
        "close" => nothing(manager.close()),
        "getLeafId" => Ok(text_or_null(manager.leaf_id())),
        "getLabel" => Ok(text_or_null(manager.label(&args.text(0)?)?)),
        "getBranch" => {
            let leaf = args.maybe_text(0)?.map_or(Leaf::Current, |id| Leaf::Entry(EntryId::from(id.as_str())));
            let path = manager.session().branch_path(&leaf);
            Ok(array(path.into_iter().map(|entry| Ok(entry.json()?)).collect::<Result<Vec<JsonText>, Failure>>()?))
        }
        "context" => Ok(manager.context(&Leaf::Current)?.to_json()),
        "tree" => load::tree(manager.session()),
        "saveArtifact" => Ok(quote(&manager.save_artifact(&args.text(0)?, &args.text(1)?)?.to_string())),
        "getArtifactPath" => {
            let Some(id) = ArtifactId::parse(&args.text(0)?) else { return Ok(null()) };
            Ok(path_or_null(manager.artifact_path(id)?.as_deref()))
        }
        "snap" => {
            let file = manager.file();
            let text = file.map(files::read).transpose()?.flatten();
            Ok(Object::new().with("file", path_or_null(file)).with_text("text", text).to_string())
        }
        other => Err(Failure::input(format!("there is no operation {other}"))),
    }
}

fn null() -> String {
    "null".to_owned()
}

fn nothing(done: session_core::Result<()>) -> Outcome {
    Ok(done.map(|()| null())?)
}

fn appended(id: session_core::Result<EntryId>) -> Outcome {
    Ok(quote(id?.as_str()))
}

fn path_or_null(path: Option<&Path>) -> String {
    text_or_null(path.map(Path::to_string_lossy))
}

fn texts(array: Json<'_>) -> Vec<String> {
    array.items().filter_map(Json::text).map(std::borrow::Cow::into_owned).collect()
}

fn session_init(init: Json<'_>) -> Result<SessionInitEntry, Failure> {
    Ok(SessionInitEntry {
        system_prompt: text(init, "systemPrompt")?.into_owned(),
        task: text(init, "task")?.into_owned(),
        tools: texts(member(init, "tools")?),
        output_schema: init.get("outputSchema").and_then(Json::to_owned),
    })
}

fn compaction(args: &Arguments) -> Result<CompactionEntry, Failure> {
    Ok(CompactionEntry {
        summary: args.text(0)?,
        short_summary: args.maybe_text(1)?,
        first_kept_entry_id: EntryId::from(args.text(2)?.as_str()),
        tokens_before: u64::try_from(args.integer(3)?).map_err(|_| Failure::input("tokens are counted from 0"))?,
        details: args.maybe(4).cloned(),
        from_extension: args.maybe_bool(5)?,
        preserve_data: args.maybe(6).cloned(),
    })
}

fn custom_message(args: &Arguments) -> Result<CustomMessageEntry, Failure> {
    Ok(CustomMessageEntry {
        custom_type: args.text(0)?,
        content: args.json(1)?.clone(),
        display: args.maybe_bool(2)?.ok_or_else(|| Failure::input("display is missing"))?,
        details: args.maybe(3).cloned(),
        attribution: args.maybe_text(4)?,
    })
}

fn edits(args: &Arguments) -> Result<Vec<EntryEdit>, Failure> {
    let edits = args.maybe(0).map(JsonText::view).into_iter().flat_map(Json::items);
    let read = edits.map(|edit| {
        let payload = member(edit, "payload")?.to_owned().ok_or_else(|| Failure::input("payload is no JSON"))?;
        Ok(EntryEdit { id: EntryId::from(text(edit, "id")?.as_ref()), payload })
    });
    read.collect()
}
