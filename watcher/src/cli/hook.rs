//! `watcher hook`: one event of a harness, told as JSON on standard input. It keeps nobody waiting, fails nobody, and says
//! nothing on standard output: some harnesses hand that to the model.

use std::io::{self, Read as _};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Result;
use clap::Args;
use serde_json::value::RawValue;
use session_core::Timestamp;

use super::Context;
use crate::exit::Exit;
use crate::hook::{Event, Happened, Target};
use crate::logging;
use crate::settings::{Keys, Level, Sources};
use crate::spool::Spool;

/// The database gets so long; then the prompt waits in the spool.
const DATABASE: Duration = Duration::from_millis(20);
/// Whoever calls us has so long to say why.
const INPUT: Duration = Duration::from_secs(1);
/// No event is longer.
const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// Take one event of a harness, as JSON on standard input
#[derive(Debug, Args)]
#[command(after_help = r#"Examples:
  echo '{"event":"prompt","harness":"xcsh","cwd":"/w","prompt":"fix it"}' | watcher hook
  echo '{"event":"session_start","sessionFile":"/…/x.jsonl","cwd":"/w"}' | watcher hook

Events: prompt (prompt, cwd, sessionId, time in milliseconds), session_start, session_switch, session_branch, session_end
(sessionFile, cwd, terminal: its device). `harness` is xcsh, omp, pi or any other name; what is not of these three gets a
history of its own in the state directory and no pointers. Claude Code's hooks are understood as they are
(hook_event_name, session_id, cwd, prompt). Unknown events are ignored.

It leaves within 50 ms and always with code 0. A prompt that can't go into the history at once waits in a private file
until the watcher, the next hook or a history command takes it over. `watcher plugin install` sets harnesses up."#)]
pub(crate) struct Hook {}

impl Hook {
    pub(crate) fn run(context: &Context) -> Exit {
        let level = match context.common.verbose {
            0 => Level::Error,
            1 => Level::Debug,
            _ => Level::Trace,
        };
        // Without a log there still are prompts to record.
        let _ = logging::start(level, None);
        rustix::process::umask(rustix::fs::Mode::from_bits_truncate(0o077));
        if let Err(error) = take(context) {
            tracing::error!("{error:#}");
        }
        Exit::Done
    }
}

fn take(context: &Context) -> Result<()> {
    let (read, event) = mpsc::channel();
    std::thread::spawn(move || {
        // Up to the end of the object: who keeps the pipe open is not waited for.
        let input = io::stdin().lock().take(MOST_BYTES);
        let _ = read.send(serde_json::Deserializer::from_reader(input).into_iter::<Box<RawValue>>().next());
    });
    let Ok(event) = event.recv_timeout(INPUT) else { anyhow::bail!("no event came on standard input") };
    let Some(event) = event.transpose()? else { anyhow::bail!("no event came on standard input") };
    let event = Event::parse(event.get())?;
    if let Happened::Unknown(name) = &event.happened {
        tracing::debug!("{name} is no event that anything is done for");
        return Ok(());
    }
    let begun = Instant::now();
    let target = event.target(&context.common.selection(), &context.environment)?;
    let spool = target.place().spool();
    if let Some(heard) = event.heard(Timestamp::from_system(SystemTime::now()).millis()) {
        // First of all: whatever happens to this process from here on, the prompt is recorded.
        spool.append(&heard)?;
    }
    let (done, finished) = mpsc::channel();
    let environment = context.environment.clone();
    std::thread::spawn(move || {
        match event.point(&target, &environment) {
            Ok(Some(terminal)) => tracing::debug!(%terminal, "the terminal's pointer is written"),
            Ok(None) => {}
            Err(error) => tracing::debug!("no pointer was written: {error:#}"),
        }
        let drained = drain(&target, &spool, environment);
        let _ = done.send(drained);
    });
    match finished.recv_timeout(DATABASE.saturating_sub(begun.elapsed())) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!("the prompt waits: {error:#}"),
        // The thread ends with this process, wherever it is: what it has not finished is gone through again.
        Err(_) => tracing::debug!("the prompt waits: the history took too long"),
    }
    Ok(())
}

fn drain(target: &Target, spool: &Spool, environment: session_core::Environment) -> Result<()> {
    if !spool.waits() {
        return Ok(());
    }
    if !target.is_acquainted() {
        tracing::debug!("the prompt waits: nothing of ours was written to this history yet; `watcher sync` does so");
        return Ok(());
    }
    let sources = Sources { file: None, flags: Keys::default(), level: None, default: Level::Off, environment };
    let options = sources.read()?.of(&target.agent)?.history()?;
    let store = options.patience(DATABASE).open(target.agent.history_db())?;
    let drained = spool.drain(&store)?;
    tracing::debug!(?drained, "the spool is empty");
    Ok(())
}
