//! `watcher sessions list|show|context`: questions to session files. They write nothing.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::value::RawValue;
use session_core::storage::{FileSessionStorage, SessionStorage};
use session_core::{EntryId, Leaf, Role, Session, Timestamp, same_path};

use super::Context;
use super::output::Tone;
use super::output::remark;
use super::times::local;
use crate::exit::{Exit, Refusal};
use crate::{agents, discover};

/// Look into sessions
#[derive(Debug, Subcommand)]
pub(crate) enum Sessions {
    List(List),
    Show(Show),
    Context(ContextOf),
}

/// The sessions of this directory, latest first
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher sessions list
  watcher sessions list --all
  watcher sessions list --cwd ~/project --json")]
pub(crate) struct List {
    /// Sessions of every directory
    #[arg(long, conflicts_with = "cwd")]
    all: bool,
    /// Sessions of this directory [default: the working directory]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
}

/// One session: what it is, what is wrong with it, and what was said
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher sessions show 15c0            the session whose id begins so
  watcher sessions show path/to/x.jsonl")]
pub(crate) struct Show {
    /// A session's file, or the beginning of its id
    session: String,
}

/// What the model would see next in a session
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher sessions context 15c0
  watcher sessions context 15c0 --leaf 0000002a --json")]
pub(crate) struct ContextOf {
    /// A session's file, or the beginning of its id
    session: String,
    /// The entry to end at [default: the last one]
    #[arg(long, value_name = "ID")]
    leaf: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    path: String,
    id: String,
    cwd: Option<String>,
    name: Option<String>,
    created: Option<String>,
    modified: String,
    entries: usize,
    first_message: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Detail {
    #[serde(flatten)]
    listed: Listed,
    defects: Vec<Shown>,
    defect_count: u64,
}

#[derive(Serialize)]
struct Shown {
    line: u64,
    offset: u64,
    kind: &'static str,
    meaning: &'static str,
}

impl Sessions {
    pub(crate) fn run(self, context: &mut Context) -> Result<Exit> {
        match self {
            Self::List(list) => list.run(context),
            Self::Show(show) => show.run(context),
            Self::Context(of) => of.run(context),
        }
    }
}

impl List {
    fn run(self, context: &mut Context) -> Result<Exit> {
        let storage = FileSessionStorage::new();
        let cwd = match (&self.cwd, self.all) {
            (_, true) => None,
            (Some(cwd), _) => Some(context.environment.cwd()?.join(cwd)),
            (None, _) => Some(context.environment.cwd()?.to_owned()),
        };
        let mut listed = Vec::new();
        for path in files(context, &storage)? {
            match describe(&path) {
                Ok(Some((session, _))) => {
                    let here = |cwd: &PathBuf| {
                        session.cwd.as_ref().is_some_and(|own| same_path(&storage, Path::new(own), cwd))
                    };
                    if cwd.as_ref().is_none_or(here) {
                        listed.push(session);
                    }
                }
                Ok(None) => remark(&format!("{}: no valid session header", path.display())),
                Err(error) => remark(&error.to_string()),
            }
        }
        listed.sort_by(|a, b| b.modified.cmp(&a.modified));
        let row = |session: &Listed| {
            let modified = Timestamp::parse(&session.modified).map_or(0, Timestamp::seconds);
            let name = session.name.clone().unwrap_or_else(|| session.first_message.clone());
            vec![local(modified), session.id.clone(), name]
        };
        let rows: Vec<Vec<String>> = listed.iter().map(row).collect();
        context.out.table(&rows)?;
        context.out.json("sessions.list", listed)?;
        Ok(Exit::Done)
    }
}

impl Show {
    fn run(self, context: &mut Context) -> Result<Exit> {
        let path = find(context, &self.session)?;
        let Some((listed, session)) = describe(&path)? else {
            let message = format!("{}: no valid session header", path.display());
            return Err(Refusal::new(Exit::Failed, message).into());
        };
        let defects = session.examine()?;
        let out = &mut context.out;
        out.toned(Tone::Strong, listed.name.as_deref().unwrap_or(&listed.first_message))?;
        for (name, value) in [
            ("id", Some(listed.id.as_str())),
            ("file", Some(listed.path.as_str())),
            ("cwd", listed.cwd.as_deref()),
            ("created", listed.created.as_deref()),
            ("modified", Some(listed.modified.as_str())),
        ] {
            if let Some(value) = value {
                out.line(&format!("{name:<10}{value}"))?;
            }
        }
        out.line(&format!("{:<10}{}", "entries", listed.entries))?;
        for defect in defects.list() {
            out.line(&defect.to_string())?;
        }
        let shown = defects.list().iter().map(|defect| Shown {
            line: defect.line(),
            offset: defect.offset(),
            kind: defect.kind().name(),
            meaning: defect.kind().meaning(),
        });
        let detail = Detail { defects: shown.collect(), defect_count: defects.total(), listed };
        context.out.json("sessions.show", detail)?;
        Ok(Exit::Done)
    }
}

impl ContextOf {
    fn run(self, context: &mut Context) -> Result<Exit> {
        let session = Session::read(&find(context, &self.session)?)?;
        let leaf = match &self.leaf {
            None => Leaf::Current,
            Some(id) if session.entry(id).is_some() => Leaf::Entry(EntryId::from(id.as_str())),
            Some(id) => return Err(Refusal::new(Exit::NotFound, format!("no entry has the id {id}")).into()),
        };
        let built = session.context(&leaf)?;
        for message in built.messages() {
            let view = message.view();
            context.out.toned(Tone::Strong, view.role_name().as_deref().unwrap_or("?"))?;
            context.out.text(&view.text("\n"))?;
        }
        if context.out.is_json() {
            context.out.json("sessions.context", RawValue::from_string(built.to_json())?)?;
        }
        Ok(Exit::Done)
    }
}

fn files(context: &Context, storage: &dyn SessionStorage) -> Result<Vec<PathBuf>> {
    let agent = agents::resolve_one(&context.common.selection(), &context.environment)?;
    let mut files = Vec::new();
    for dir in discover::dirs(storage, &agent.sessions())? {
        match discover::files(storage, &dir) {
            Ok(found) => files.extend(found),
            Err(error) => remark(&error.to_string()),
        }
    }
    Ok(files)
}

fn find(context: &Context, wanted: &str) -> Result<PathBuf> {
    if wanted.contains('/') || discover::is_session_name(Path::new(wanted)) {
        return Ok(context.environment.cwd()?.join(wanted));
    }
    let storage = FileSessionStorage::new();
    let mut found = Vec::new();
    for path in files(context, &storage)? {
        let Ok(session) = Session::read(&path) else { continue };
        let fits = session.header().is_some_and(|header| header.id().as_str().starts_with(wanted));
        if fits {
            found.push(path);
        }
    }
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(Refusal::new(Exit::NotFound, format!("no session has an id that begins with {wanted}")).into()),
        _ => {
            let list: Vec<String> = found.iter().map(|path| path.display().to_string()).collect();
            let message = format!("more than one session has an id that begins with {wanted}:\n{}", list.join("\n"));
            Err(Refusal::new(Exit::NotFound, message).into())
        }
    }
}

/// What a session's file says; none when it has no valid header.
fn describe(path: &Path) -> session_core::Result<Option<(Listed, Session)>> {
    let session = Session::read(path)?;
    let Some(header) = session.header() else { return Ok(None) };
    let stat = FileSessionStorage::new().stat(path)?;
    let mut first_message = String::from("(no messages)");
    for entry in session.entries().filter(|entry| entry.kind() == session_core::EntryKind::Message) {
        let Ok(json) = entry.json() else { continue };
        let Some(message) = json.view().get("message").map(session_core::Message::new) else { continue };
        let text = message.text(" ");
        if message.role() == Role::User && !text.trim().is_empty() {
            first_message = text;
            break;
        }
    }
    let listed = Listed {
        path: path.display().to_string(),
        id: header.id().to_string(),
        cwd: header.cwd(),
        name: session.name()?,
        created: header.timestamp().map(|time| time.to_string()),
        modified: stat.map(|stat| Timestamp::from_system(stat.modified).to_string()).unwrap_or_default(),
        entries: session.entries().len(),
        first_message,
    };
    Ok(Some((listed, session)))
}
