//! `watcher run`: syncs, then follows changes until it is told to stop.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use history::Notice;

use super::Context;
use super::following::{Following, followed, prepare};
use crate::exit::Exit;
use crate::logging;
use crate::readiness::Readiness;
use crate::settings::Level;
use crate::supervise::{self, Prepared};

/// Follow agent directories until Ctrl-C: prompts become searchable as they are typed
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher run
  watcher run --agent-dir /srv/agent --log-file /var/tmp/watcher.log
  watcher run --harness all --exclude '*scratch*/**'

One watcher works on an agent directory at a time; a second one says who that is and exits with code 4.
Session files are only read. The history is the harness's own; it is copied once before it is first written to.
SIGHUP reads the settings file again and looks at everything; `watcher settings` shows what can stand in it.")]
pub(crate) struct Run {
    #[command(flatten)]
    following: Following,
    /// Log to FILE.DATE, a new one each day, seven of them kept [default: standard error]
    #[arg(long, value_name = "FILE")]
    log_file: Option<PathBuf>,
}

impl Run {
    pub(crate) fn run(&self, context: &mut Context) -> Result<Exit> {
        // Whatever we make is ours alone, log files included.
        rustix::process::umask(rustix::fs::Mode::from_bits_truncate(0o077));
        let sources = self.following.sources(context, Level::Info);
        let settings = sources.read()?;
        let logging = logging::start(settings.level(), self.log_file.as_deref())?;
        let prepared = prepare(followed(context)?, &settings)?;
        for one in &prepared {
            greet(context, one)?;
        }
        context.out.line("Ctrl-C ends it.")?;
        context.out.finish()?;
        let readiness = Readiness::of(&context.environment);
        supervise::run(prepared, &sources, &logging, &readiness)?;
        Ok(Exit::Done)
    }
}

fn greet(context: &mut Context, prepared: &Prepared) -> Result<()> {
    let agent = &prepared.agent;
    let [sessions, history, root] =
        [agent.sessions(), agent.history_db(), agent.root().to_owned()].map(|path| context.homely(&path));
    let notices: Vec<String> = prepared.store.notices().iter().map(describe).collect();
    let notices: Vec<String> = notices.iter().map(|notice| context.homely_text(notice)).collect();
    let mended = prepared.mended.as_ref().map(|mended| context.homely_text(mended));
    let out = &mut context.out;
    out.line(&format!("watching  {sessions}"))?;
    let stats = prepared.store.stats()?;
    let first = if stats.submissions == 0 { "; prompts of all sessions are added first" } else { "" };
    out.line(&format!("history   {history} ({} prompts{first})", stats.prompts))?;
    for said in mended.iter().chain(&notices) {
        out.line(&format!("          {said}"))?;
    }
    out.line(&format!("search    watcher history search --agent-dir {root} WORDS"))
}

/// A notice of the history in words.
pub(crate) fn describe(notice: &Notice) -> String {
    match notice {
        Notice::Copied(copy) => format!("first contact: a copy from before is at {}", copy.display()),
        Notice::UnreadLog(log) => format!("read as it is; rows in {} are missing", log.display()),
        _ => "the history has something to say that this version does not know".to_owned(),
    }
}
