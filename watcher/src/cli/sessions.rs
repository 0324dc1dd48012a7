//! `watcher sessions list|show|context|likely`: questions to session files. They write nothing.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::value::RawValue;
use session_core::{
    Catalog, EntryId, ErrorKind, Leaf, LikelyReason, ListDepth, Session, SessionInfo, Status, TerminalId, Timestamp,
    stdin_terminal,
};

use super::Context;
use super::output::{Tone, remark};
use super::times::local;
use crate::agents;
use crate::exit::{Exit, Refusal};

/// Look into sessions
#[derive(Debug, Subcommand)]
pub(crate) enum Sessions {
    List(List),
    Show(Show),
    Context(ContextOf),
    Likely(LikelyOf),
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

/// One session: what it is, and what is wrong with it
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

/// The session that continuing here would mean: this terminal's, else the latest of the directory
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher sessions likely
  watcher sessions likely --cwd ~/project --json

Leaves with code 3 when a new session would be begun.")]
pub(crate) struct LikelyOf {
    /// Continuing in this directory [default: the working directory]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    path: String,
    id: String,
    cwd: String,
    name: String,
    title: Option<String>,
    parent: Option<String>,
    created: Option<String>,
    modified: String,
    message_count: Option<u64>,
    first_message: String,
    last_activity: Option<String>,
    status: Option<&'static str>,
    size: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listing {
    sessions: Vec<Listed>,
    problems: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Detail {
    path: String,
    id: Option<String>,
    version: Option<f64>,
    cwd: Option<String>,
    name: Option<String>,
    created: Option<String>,
    entries: usize,
    leaf: Option<String>,
    defects: Vec<Flaw>,
    defect_count: u64,
}

#[derive(Serialize)]
struct Flaw {
    line: u64,
    offset: u64,
    kind: &'static str,
    meaning: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Likely {
    path: Option<String>,
    reason: &'static str,
}

impl Sessions {
    pub(crate) fn run(self, context: &mut Context) -> Result<Exit> {
        match self {
            Self::List(list) => list.run(context),
            Self::Show(show) => show.run(context),
            Self::Context(of) => of.run(context),
            Self::Likely(of) => of.run(context),
        }
    }
}

impl List {
    fn run(self, context: &mut Context) -> Result<Exit> {
        let catalog = catalog(context)?;
        let listing = match self.cwd {
            _ if self.all => catalog.list_all()?,
            Some(cwd) => catalog.list(Some(&context.environment.cwd()?.join(cwd)), None)?,
            None => catalog.list(None, None)?,
        };
        let problems: Vec<String> = listing.problems.iter().map(ToString::to_string).collect();
        for problem in &problems {
            remark(problem);
        }
        let row = |session: &SessionInfo| {
            let status = session.status().map_or("", Status::name).to_owned();
            vec![local(session.modified().seconds()), session.id().to_string(), status, session.name()]
        };
        context.out.table(&listing.sessions.iter().map(row).collect::<Vec<_>>())?;
        let sessions = listing.sessions.iter().map(Listed::of).collect();
        context.out.json("sessions.list", Listing { sessions, problems })?;
        Ok(Exit::Done)
    }
}

impl Listed {
    fn of(session: &SessionInfo) -> Self {
        let time = |time: Timestamp| time.to_string();
        Self {
            path: session.path().display().to_string(),
            id: session.id().to_string(),
            cwd: session.cwd().to_owned(),
            name: session.name(),
            title: session.title().map(str::to_owned),
            parent: session.parent_session().map(str::to_owned),
            created: session.created().map(time),
            modified: time(session.modified()),
            message_count: session.message_count(),
            first_message: session.first_message().to_owned(),
            last_activity: session.last_activity().map(time),
            status: session.status().map(Status::name),
            size: session.size(),
        }
    }
}

impl Show {
    fn run(self, context: &mut Context) -> Result<Exit> {
        let path = find(context, &self.session)?;
        let session = Session::read(&path)?;
        let header = session.header();
        let defects = session.examine()?;
        let flaw = |defect: &session_core::Defect| Flaw {
            line: defect.line(),
            offset: defect.offset(),
            kind: defect.kind().name(),
            meaning: defect.kind().meaning(),
        };
        let detail = Detail {
            path: path.display().to_string(),
            id: header.map(|header| header.id().to_string()),
            version: header.and_then(|header| match header.version() {
                session_core::FormatVersion::Number(number) => Some(number),
                _ => None,
            }),
            cwd: header.and_then(session_core::Header::cwd),
            name: session.name()?,
            created: header.and_then(session_core::Header::timestamp).map(|time| time.to_string()),
            entries: session.entries().len(),
            leaf: session.leaf_id().map(str::to_owned),
            defects: defects.list().iter().map(flaw).collect(),
            defect_count: defects.total(),
        };
        let out = &mut context.out;
        out.toned(Tone::Strong, detail.name.as_deref().unwrap_or("(no name)"))?;
        let version = detail.version.map(|version| version.to_string());
        for (what, value) in [
            ("id", detail.id.as_deref()),
            ("file", Some(detail.path.as_str())),
            ("version", version.as_deref()),
            ("cwd", detail.cwd.as_deref()),
            ("created", detail.created.as_deref()),
            ("entries", Some(detail.entries.to_string().as_str())),
            ("leaf", detail.leaf.as_deref()),
        ] {
            if let Some(value) = value {
                out.line(&format!("{what:<10}{value}"))?;
            }
        }
        if header.is_none() {
            out.line("no valid session header: nothing in the file is a session")?;
        }
        for defect in defects.list() {
            out.line(&defect.to_string())?;
        }
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

impl LikelyOf {
    fn run(self, context: &mut Context) -> Result<Exit> {
        let here = context.environment.cwd()?;
        let cwd = self.cwd.map_or_else(|| here.to_owned(), |cwd| here.join(cwd));
        let terminal = TerminalId::detect(stdin_terminal().as_deref(), &context.environment);
        let likely = catalog(context)?.most_likely(&cwd, None, terminal.as_ref())?;
        let (reason, why) = match likely.reason() {
            LikelyReason::Pointer => ("pointer", "this terminal's session"),
            LikelyReason::FreshPointer => ("freshPointer", "a new session was begun here and is not on disk yet"),
            LikelyReason::MostRecent => ("mostRecent", "the latest session of this directory"),
            _ => ("nothing", "this directory has no session; a new one would be begun"),
        };
        if let Some(path) = likely.session() {
            context.out.line(&path.display().to_string())?;
        }
        context.out.toned(Tone::Faint, why)?;
        let path = likely.session().map(|path| path.display().to_string());
        let exit = if path.is_some() { Exit::Done } else { Exit::NotFound };
        context.out.json("sessions.likely", Likely { path, reason })?;
        Ok(exit)
    }
}

fn catalog(context: &Context) -> Result<Catalog> {
    let agent = agents::resolve_one(&context.common.selection(), &context.environment)?;
    Ok(Catalog::new(agent, context.environment.clone()))
}

/// The file of the session that a person named `[R4]`.
fn find(context: &Context, wanted: &str) -> Result<PathBuf> {
    let cwd = context.environment.cwd()?;
    let catalog = catalog(context)?.with_depth(ListDepth::Header);
    match catalog.resolve(wanted, cwd, None) {
        Ok(Some(found)) => Ok(cwd.join(found.path())),
        Ok(None) => Err(Refusal::new(Exit::NotFound, format!("no session is called {wanted}")).into()),
        Err(error) if error.kind() == ErrorKind::Ambiguous => {
            Err(Refusal::new(Exit::NotFound, error.to_string()).into())
        }
        Err(error) => Err(error.into()),
    }
}
