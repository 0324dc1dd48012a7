//! `list`, `recent` and `resolve`: finding sessions.

use std::path::{Path, PathBuf};

use session_core::storage::FileSessionStorage;
use session_core::{AgentDir, Catalog, Environment, Harness, Json, RecentSession, SessionInfo, quote};

use super::answer::{Object, Outcome, array, text_or_null};
use super::{Failure, member, text};

pub(super) fn list(command: Json<'_>) -> Outcome {
    let (cwd, dir) = (path(command, "cwd"), path(command, "dir"));
    let listing = catalog()?.list(cwd.as_deref(), dir.as_deref())?;
    Ok(array(listing.sessions.iter().map(session)))
}

pub(super) fn recent(command: Json<'_>) -> Outcome {
    let limit = member(command, "limit")?.integer().and_then(|limit| usize::try_from(limit).ok());
    let limit = limit.ok_or_else(|| Failure::input("limit is a number from 0"))?;
    let listing = catalog()?.recent_sessions(Path::new(&*text(command, "dir")?), limit)?;
    Ok(array(listing.sessions.iter().map(recent_session)))
}

pub(super) fn resolve(command: Json<'_>) -> Outcome {
    let (argument, cwd, dir) = (text(command, "arg")?, text(command, "cwd")?, path(command, "dir"));
    let found = catalog()?.resolve(&argument, Path::new(&*cwd), dir.as_deref())?;
    Ok(found.map_or_else(
        || "null".to_owned(),
        |found| {
            let id = found.id().map(session_core::SessionId::as_str);
            Object::new().with("path", quoted(found.path())).with_text("id", id).to_string()
        },
    ))
}

/// The catalog of this process's agent directory.
fn catalog() -> Result<Catalog, Failure> {
    let environment = Environment::from_process();
    let agent = AgentDir::resolve(Harness::default(), None, &environment, &FileSessionStorage::new())?;
    Ok(Catalog::new(agent, environment))
}

fn path(command: Json<'_>, key: &str) -> Option<PathBuf> {
    command.get(key).and_then(Json::text).map(|path| PathBuf::from(&*path))
}

fn quoted(path: &Path) -> String {
    quote(&path.to_string_lossy())
}

fn session(session: &SessionInfo) -> Object {
    let count = session.message_count().map_or_else(|| "null".to_owned(), |count| count.to_string());
    Object::new()
        .with("path", quoted(session.path()))
        .with("id", quote(session.id().as_str()))
        .with("cwd", quote(session.cwd()))
        .with("title", text_or_null(session.title()))
        .with_text("created", session.created().map(|time| time.to_string()))
        .with("modified", quote(&session.modified().to_string()))
        .with("messageCount", count)
        .with("firstMessage", quote(session.first_message()))
}

fn recent_session(session: &RecentSession) -> Object {
    Object::new()
        .with("path", quoted(session.path()))
        .with("fullName", quote(session.full_name()))
        .with("name", quote(&session.name()))
}
