//! `watcher ext get|save|list|message`: an extension's state and messages for scripts and other languages, with the checks of
//! the SDK. The state is JSON; what shape it has is the script's business.

use std::collections::HashSet;
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use plugin_sdk::{Attribution, Content, Extension, Numbers, Record, Saved, State, Version};
use serde::Serialize;
use serde_json::value::RawValue;
use session_core::storage::{FileSessionStorage, SessionStorage};
use session_core::{ErrorKind, Host, JsonText, Leaf, Session, SessionManager};

use super::{Context, completions, named};
use crate::cause::told;
use crate::exit::{Exit, Refusal};
use crate::place::Place;
use crate::plugin::digest;

/// Who has written to a session so lately may have it in memory, without keeping its file open.
const JUST_WRITTEN: Duration = Duration::from_secs(60);

const ABOUT: &str = "\
Examples:
  watcher ext get --type groceries
  echo '{\"items\":[\"milk\"]}' | watcher ext save --type groceries

A state belongs to the branch: what another branch saved is never seen. The session is this terminal's or this directory's
latest when --session names none. Standard output is the plain JSON value; with --json it is in the usual envelope.";

/// Keep an extension's state in a session
#[derive(Debug, Subcommand)]
#[command(after_help = ABOUT)]
pub(crate) enum Ext {
    Get(Get),
    Save(Save),
    List(List),
    Message(Message),
}

#[derive(Debug, Args)]
struct Which {
    /// The extension's name, or NAME/STATE for one of several states
    #[arg(long = "type", value_name = "NAME")]
    custom_type: String,
    /// A session: its id or the beginning of one, its file, or its name
    #[arg(long, value_name = "SESSION", add = completions::sessions())]
    session: Option<String>,
}

/// Print the state in force on this branch
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher ext get --type groceries
  watcher ext get --type groceries --session 0198c2 --at 1a2b3c4d

Exits with code 3 when there is no state, and when it was cleared.")]
pub(crate) struct Get {
    #[command(flatten)]
    which: Which,
    /// The state that was in force at this entry: its id or the beginning of one
    #[arg(long, value_name = "ENTRY")]
    at: Option<String>,
    /// The version of the data that the caller understands; newer data is refused [default: any]
    #[arg(long, value_name = "N")]
    schema: Option<u32>,
}

/// Save a state: JSON on standard input
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  echo '{\"items\":[\"milk\"]}' | watcher ext save --type groceries --schema 1
  watcher ext save --type groceries --clear

Nothing is appended when the state in force is the same. Integers that JavaScript would round are refused, since the
extensions of harnesses read them. A session that another process has open, or has written in the last minute, is refused
with code 6: see --force.")]
pub(crate) struct Save {
    #[command(flatten)]
    which: Which,
    /// The version of the data's shape
    #[arg(long, value_name = "N", default_value_t = 0)]
    schema: u32,
    /// End the state instead; standard input is not read
    #[arg(long)]
    clear: bool,
    #[command(flatten)]
    writing: Writing,
}

/// Print every state of the session, of all branches, one JSON object a line
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher ext list --type groceries

Each line has the entry, the time, the version, whether it is on this branch, and the data (null where it was cleared).")]
pub(crate) struct List {
    #[command(flatten)]
    which: Which,
}

/// Append a message to the model: text on standard input
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  echo 'The build is green.' | watcher ext message --type ci
  watcher ext message --type ci --hidden --from agent < report.txt

Refused as `save` is while another process has the session.")]
pub(crate) struct Message {
    #[command(flatten)]
    which: Which,
    /// The model gets it and no person sees it
    #[arg(long)]
    hidden: bool,
    /// Standard input is JSON: a text, or an array of text and image blocks
    #[arg(long)]
    blocks: bool,
    /// Who is behind it
    #[arg(long, value_name = "WHO")]
    from: Option<Who>,
    #[command(flatten)]
    writing: Writing,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Who {
    User,
    Agent,
}

#[derive(Debug, Args)]
struct Writing {
    /// Write although another process has the session. That process holds the session in memory: what it appends next does
    /// not follow what is written now, which is left on a dead branch and seen by nobody until the session is opened there.
    /// Right only when that process is known to be done with the session
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    entry: String,
    timestamp: Option<String>,
    on_path: bool,
    version: Option<u32>,
    data: Option<Box<RawValue>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Appended {
    entry: Option<String>,
    session: String,
}

impl Ext {
    pub(crate) fn run(self, context: &mut Context) -> Result<Exit> {
        match self {
            Self::Get(get) => get.run(context),
            Self::Save(save) => save.run(context).map_err(held),
            Self::List(list) => list.run(context),
            Self::Message(message) => message.run(context).map_err(held),
        }
    }
}

impl Get {
    fn run(self, context: &mut Context) -> Result<Exit> {
        let state = self.which.state(self.schema.unwrap_or(u32::MAX))?;
        let session = Session::read(&self.which.find(context)?)?;
        // The raw data of whatever version: what a script reads is what stands there.
        let found = match &self.at {
            None => newest(state.history(&session)?),
            Some(at) => {
                let path = session.branch_path(&Leaf::Entry(named::entry(&session, at)?));
                let ids: HashSet<&str> = path.iter().map(|entry| entry.id()).collect();
                newest(
                    state.all(&session)?.into_iter().filter(|record| ids.contains(record.entry().as_str())).collect(),
                )
            }
        };
        let Some((record, data)) = found.as_ref().and_then(|record| Some((record, record.data()?))) else {
            let message = format!("there is no state {} on this branch", state.custom_type());
            return Err(Refusal::new(Exit::NotFound, message).into());
        };
        if let Err(error) = record.value()
            && error.kind() == plugin_sdk::ErrorKind::NewerVersion
        {
            return Err(error.clone().into());
        }
        print(context, "ext.get", data.as_str())
    }
}

impl Save {
    fn run(self, context: &mut Context) -> Result<Exit> {
        let state = self.which.state(self.schema)?.numbers(Numbers::JavaScript);
        let data = if self.clear { None } else { Some(json_input()?) };
        let mut session = self.which.open(context, &self.writing)?;
        let saved = match &data {
            Some(data) => state.save(&mut session, data)?,
            None => state.clear(&mut session)?,
        };
        session.flush()?;
        appended(
            context,
            "ext.save",
            &session,
            saved.entry().map(ToString::to_string),
            matches!(saved, Saved::Unchanged),
        )
    }
}

impl List {
    fn run(self, context: &mut Context) -> Result<Exit> {
        let state = self.which.state(u32::MAX)?;
        let session = Session::read(&self.which.find(context)?)?;
        let mut all = Vec::new();
        for record in state.all(&session)? {
            let data = record.data().map(|data| RawValue::from_string(data.as_str().to_owned())).transpose()?;
            all.push(Shown {
                entry: record.entry().to_string(),
                timestamp: record.timestamp().map(|time| time.to_string()),
                on_path: record.is_on_path(),
                version: record.version().map(|version| version.0),
                data,
            });
        }
        for shown in &all {
            context.out.json_line(&serde_json::to_string(shown)?)?;
        }
        context.out.json("ext.list", all)?;
        Ok(Exit::Done)
    }
}

impl Message {
    fn run(self, context: &mut Context) -> Result<Exit> {
        let (extension, name) = self.which.extension()?;
        let said = if self.blocks {
            Content::from_json(JsonText::parse(json_input()?.get()).map_err(|error| anyhow::anyhow!("{error}"))?)
        } else {
            let text = input()?;
            Content::from(text.strip_suffix('\n').unwrap_or(&text))
        };
        let mut draft = match &name {
            None => extension.message(said),
            Some(name) => extension.named_message(name, said)?,
        };
        if self.hidden {
            draft = draft.hidden();
        }
        draft = match self.from {
            None => draft,
            Some(Who::User) => draft.attribution(Attribution::User),
            Some(Who::Agent) => draft.attribution(Attribution::Agent),
        };
        let mut session = self.which.open(context, &self.writing)?;
        let entry = draft.append(&mut session)?;
        session.flush()?;
        appended(context, "ext.message", &session, Some(entry.to_string()), false)
    }
}

impl Which {
    /// The extension, and the name of its state where it is not the only one.
    fn extension(&self) -> Result<(Extension, Option<String>)> {
        Ok(match self.custom_type.split_once('/') {
            None => (Extension::new(&self.custom_type)?, None),
            Some((extension, name)) => (Extension::new(extension)?, Some(name.to_owned())),
        })
    }

    fn state(&self, version: u32) -> Result<State<Box<RawValue>>> {
        let (extension, name) = self.extension()?;
        Ok(match name {
            None => extension.state(Version(version)),
            Some(name) => extension.named_state(&name, Version(version))?,
        })
    }

    /// The session that is meant: any file, one that is named `[R4]`, or the likely one `[R5]`.
    fn find(&self, context: &Context) -> Result<PathBuf> {
        let cwd = context.environment.cwd()?;
        let Some(wanted) = &self.session else {
            let likely = context.catalog()?.most_likely(cwd, None, context.terminal().as_ref())?;
            if likely.session().is_none() {
                context.agent_there()?;
            }
            let message = "this directory has no session; name one with --session";
            return Ok(likely.session().ok_or_else(|| Refusal::new(Exit::NotFound, message))?.to_owned());
        };
        let path = cwd.join(wanted);
        if path.is_file() { Ok(path) } else { named::find(context, wanted) }
    }

    /// The session for writing, unless somebody else has it.
    fn open(&self, context: &Context, writing: &Writing) -> Result<SessionManager> {
        let path = self.find(context)?;
        // No terminal becomes this session's: the script only passes by [P3].
        let host = context.host()?;
        if !writing.force {
            refuse_if_held(&host, &path)?;
        }
        let mut manager = context.open(&path)?;
        for notice in manager.take_notices() {
            tracing::info!(?notice, "the session");
        }
        Ok(manager)
    }
}

/// Refuses a session that another process has open for writing, or that somebody else wrote within the last minute: a harness
/// may hold it in memory without keeping the file open.
fn refuse_if_held(host: &Host, path: &Path) -> Result<()> {
    let storage = FileSessionStorage::new();
    let session = Session::read(path)?;
    let Some(header) = session.header() else { return Ok(()) };
    let lock = host.agent().session_lock(header.id());
    let consequence = "what it appends next would leave ours on a dead branch. Wait until it is done, use the extension of \
                       that harness, or read `watcher ext save --help` on --force";
    if let Some(holder) = storage.writers_of(path, &lock)?.first() {
        let message = format!("{}: {holder} has the session open; {consequence}", path.display());
        return Err(Refusal::new(Exit::Held, message).into());
    }
    let modified =
        std::fs::metadata(path).and_then(|file| file.modified()).with_context(|| path.display().to_string())?;
    let age = SystemTime::now().duration_since(modified).unwrap_or_default();
    if age < JUST_WRITTEN && !Trace::of(host, path)?.is_last() {
        let message =
            format!("{}: another process wrote to the session {} s ago; {consequence}", path.display(), age.as_secs());
        return Err(Refusal::new(Exit::Held, message).into());
    }
    Ok(())
}

/// Of a session that somebody took between our look at it and our work, what a look would have said.
fn held(error: anyhow::Error) -> anyhow::Error {
    let by_session = error.downcast_ref::<session_core::Error>();
    let by_sdk = || error.downcast_ref::<plugin_sdk::Error>().and_then(plugin_sdk::Error::session);
    match by_session.or_else(by_sdk).map(session_core::Error::kind) {
        Some(ErrorKind::Busy | ErrorKind::HeldElsewhere | ErrorKind::Locked) => {
            Refusal::new(Exit::Held, error.to_string()).into()
        }
        _ => error,
    }
}

/// What we remember of a session that a script wrote last: while its file is still that, nobody else wrote meanwhile.
struct Trace {
    file: PathBuf,
    now: String,
}

impl Trace {
    fn of(host: &Host, session: &Path) -> Result<Self> {
        let session = session.canonicalize().with_context(|| session.display().to_string())?;
        let stat = std::fs::metadata(&session).with_context(|| session.display().to_string())?;
        let name = digest(session.as_os_str().as_encoded_bytes())[..16].to_owned();
        let time = format!("{}.{:09}", stat.mtime(), stat.mtime_nsec());
        let now = format!("{} {} {} {time}\n", stat.dev(), stat.ino(), stat.len());
        Ok(Self { file: Place::of(host.agent()).extensions().join(name), now })
    }

    fn is_last(&self) -> bool {
        std::fs::read_to_string(&self.file).is_ok_and(|last| last == self.now)
    }

    /// Best effort: without it the next save is refused for a minute.
    fn leave(host: &Host, session: &Path) {
        let left = Self::of(host, session).and_then(|trace| {
            let dir = trace.file.parent().unwrap_or(Path::new("/"));
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
            let mut options = std::fs::OpenOptions::new();
            let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&trace.file)?;
            Ok(io::Write::write_all(&mut file, trace.now.as_bytes())?)
        });
        if let Err(error) = left {
            tracing::debug!("no trace was left: {}", told(&error));
        }
    }
}

fn newest(mut records: Vec<Record<Box<RawValue>>>) -> Option<Record<Box<RawValue>>> {
    records.pop()
}

fn input() -> Result<String> {
    let mut text = String::new();
    io::stdin().lock().read_to_string(&mut text).context("standard input")?;
    Ok(text)
}

fn json_input() -> Result<Box<RawValue>> {
    let text = input()?;
    let value = RawValue::from_string(text.trim().to_owned());
    value.map_err(|error| Refusal::new(Exit::Usage, format!("standard input is no JSON value: {error}")).into())
}

fn print(context: &mut Context, kind: &str, json: &str) -> Result<Exit> {
    context.out.json_line(json)?;
    context.out.json(kind, RawValue::from_string(json.to_owned())?)?;
    Ok(Exit::Done)
}

fn appended(
    context: &mut Context,
    kind: &str,
    session: &SessionManager,
    entry: Option<String>,
    unchanged: bool,
) -> Result<Exit> {
    if let Some(entry) = &entry {
        context.out.line(entry)?;
    }
    if unchanged {
        context.remark("nothing was appended: the state in force is the same");
    }
    if let (Some(file), Some(_)) = (session.file(), &entry) {
        Trace::leave(session.host(), file);
    }
    let session = session.file().map_or_else(String::new, |file| file.display().to_string());
    context.out.json(kind, Appended { entry, session })?;
    Ok(Exit::Done)
}
