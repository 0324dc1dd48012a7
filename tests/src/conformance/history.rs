//! `history`: operations on prompt stores of one database.

use std::collections::HashMap;
use std::path::Path;

use history::{Entry, HistoryStorage, Scope, SearchOptions};
use session_core::{Json, quote};

use super::answer::{Object, Outcome, array, text_or_null};
use super::{Failure, member, text};

pub(super) fn run(command: Json<'_>) -> Outcome {
    let database = text(command, "db")?;
    let mut stores = HashMap::new();
    let answers = member(command, "ops")?.items().map(|op| {
        let outcome = step(Path::new(&*database), &mut stores, op);
        outcome.unwrap_or_else(|failure| format!(r#"{{"error":{failure}}}"#))
    });
    Ok(array(answers.collect::<Vec<_>>()))
}

fn step(database: &Path, stores: &mut HashMap<String, HistoryStorage>, op: Json<'_>) -> Outcome {
    let name = op.get("store").and_then(Json::text).unwrap_or("main".into());
    let kind = text(op, "op")?;
    if kind == "reopen"
        && let Some(store) = stores.remove(&*name)
    {
        store.close()?;
    }
    if !stores.contains_key(&*name) {
        stores.insert(name.clone().into_owned(), HistoryStorage::open(database)?);
    }
    let store = &stores[&*name];
    let cwd = op.get("cwd").and_then(Json::text);
    let scope = cwd.as_deref().map_or_else(Scope::everywhere, Scope::directory);
    let limit = || {
        let limit = member(op, "limit")?.integer();
        limit.ok_or_else(|| Failure::input("limit is no whole number"))
    };
    match &*kind {
        "reopen" => Ok("null".to_owned()),
        "add" => {
            store.add(text(op, "prompt")?, cwd.as_deref()).wait()?;
            Ok("null".to_owned())
        }
        "recent" => Ok(array(store.recent(limit()?, &scope)?.iter().map(row))),
        "search" => {
            let page = store.search(&text(op, "query")?, &SearchOptions::new(limit()?).scope(scope))?;
            Ok(array(page.entries().iter().map(row)))
        }
        other => Err(Failure::input(format!("there is no operation {other}"))),
    }
}

fn row(entry: &Entry) -> Object {
    Object::new()
        .with("prompt", quote(entry.prompt()))
        .with("cwd", text_or_null(entry.cwd()))
        .with("created_at", entry.created_at())
        .with("session", text_or_null(entry.session()))
        .with("use_count", entry.use_count())
}
