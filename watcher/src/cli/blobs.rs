//! `watcher blobs collect`: removes the images that no session names any more `[W11]`.

use anyhow::Result;
use clap::{Args, Subcommand};
use serde::Serialize;
use session_core::{BlobStore, CollectionPlan, CollectionScope, SessionId};

use super::Context;
use super::confirm::Confirm;
use super::output::with_progress;
use super::surroundings::storage;
use super::text::{plural, size};
use crate::exit::Exit;

/// So many are listed before it asks; `--json` lists all.
const SHOWN: usize = 10;

/// The images of sessions, which are kept beside them
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  watcher blobs collect --dry-run       what no session names any more")]
pub(crate) enum Blobs {
    Collect(Collect),
}

/// Remove images that no session names any more
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher blobs collect --dry-run
  watcher blobs collect --yes

Whatever might name an image counts: sessions and those of sub-agents, files beside them, the trash, what terminal pointers
and parents lead to, and the roots of the settings file. Images younger than a week stay. Nothing is collected while a session
is being written, nor when something that may name an image can't be read.")]
pub(crate) struct Collect {
    #[command(flatten)]
    confirm: Confirm,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    /// What nothing names.
    unreferenced: Vec<Blob>,
    /// What of it was removed.
    removed: Vec<String>,
    /// What was named, put again or gone by then.
    spared: Vec<String>,
    kept: usize,
    files_read: usize,
    /// Paths that are named and where nothing is.
    missing: Vec<String>,
}

#[derive(Serialize)]
struct Blob {
    path: String,
    size: u64,
}

impl Blobs {
    pub(crate) fn run(self, context: &mut Context) -> Result<Exit> {
        match self {
            Self::Collect(collect) => collect.run(context),
        }
    }
}

impl Collect {
    fn run(self, context: &mut Context) -> Result<Exit> {
        let store = BlobStore::new(storage(), context.agent_there()?.blobs(), context.clock()?);
        let scope = scope(context)?;
        let plan = with_progress(|| "looking for images that are named…".to_owned(), || store.plan_collection(&scope))?;
        let mut shown = Shown::of(&plan);
        let bytes: u64 = shown.unreferenced.iter().map(|blob| blob.size).sum();
        for blob in shown.unreferenced.iter().take(SHOWN) {
            context.out.line(&format!("{:>7}  {}", size(blob.size), context.homely(blob.path.as_ref())))?;
        }
        if shown.unreferenced.len() > SHOWN {
            context.out.line(&format!("and {} more", shown.unreferenced.len() - SHOWN))?;
        }
        for path in &shown.missing {
            context.remark(&format!("{path}: something names this, and nothing is there; is a disk not mounted?"));
        }
        let what = format!("Remove {} ({})", plural(shown.unreferenced.len(), "image"), size(bytes));
        if shown.unreferenced.is_empty() {
            context.out.line(&format!("nothing to remove; {} named or young", plural(shown.kept, "image")))?;
        } else if self.confirm.ask(context, &what)? {
            let done = store.collect(&plan)?;
            let bytes = done.removed.iter().map(|blob| blob.len).sum();
            context.out.line(&format!("{} removed ({})", plural(done.removed.len(), "image"), size(bytes)))?;
            shown.removed = done.removed.iter().map(|blob| blob.path.display().to_string()).collect();
            shown.spared = done.spared.iter().map(|path| path.display().to_string()).collect();
        }
        context.out.json("blobs.collect", shown)?;
        Ok(Exit::Done)
    }
}

impl Shown {
    fn of(plan: &CollectionPlan) -> Self {
        let unreferenced =
            plan.unreferenced().map(|blob| Blob { path: blob.path.display().to_string(), size: blob.len });
        Self {
            unreferenced: unreferenced.collect(),
            removed: Vec::new(),
            spared: Vec::new(),
            kept: plan.kept(),
            files_read: plan.files_read(),
            missing: plan.missing().iter().map(|path| path.display().to_string()).collect(),
        }
    }
}

/// Where something may name an image.
fn scope(context: &Context) -> Result<CollectionScope> {
    let agent = context.agent()?;
    let mut scope = CollectionScope::new().with_pointers(agent.terminal_sessions());
    for root in context.settings(&agent)?.plan.roots {
        scope = scope.with_directory(root);
    }
    if agent.trash().is_dir() {
        scope = scope.with_directory(agent.trash());
    }
    // All locks lie in one directory.
    if let Some(locks) = agent.session_lock(&SessionId::from("any")).parent() {
        scope = scope.with_locks(locks);
    }
    Ok(scope)
}
