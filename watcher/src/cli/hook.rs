//! `watcher hook`: one event of a harness, told as JSON on standard input. It keeps nobody waiting, fails nobody, and says
//! nothing on standard output: some harnesses hand that to the model.
//!
//! What it does itself never waits for a database or for the medium: a line in the spool, a pointer. The history is written by
//! an *errand*, a process of its own, for which it waits a moment and no longer. A thread would not do: a process that ends
//! while one of its threads is in `fsync` is gone only when that has returned.

use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum as _};
use serde_json::value::RawValue;
use session_core::Timestamp;

use super::{Context, errand};
use crate::cause::told;
use crate::exit::Exit;
use crate::hook::{Event, Happened, Target};
use crate::logging;
use crate::settings::Level;
use crate::spool::Heard;

/// The history gets so long, from when the event was read; then the prompt waits in the spool.
const HISTORY: Duration = Duration::from_millis(20);
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

It exits within 50 ms and always with code 0. A prompt that can't go into the history at once waits in a private file, which
a process in the background, the watcher, the next hook or a history command takes over. `watcher plugin install` sets
harnesses up."#)]
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
            tracing::error!("hook: {}", told(&error));
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
    let Ok(event) = event.recv_timeout(INPUT) else { bail!("no event came on standard input") };
    let Some(event) = event.transpose().map_err(|error| not_read(&error))? else {
        bail!("no event came on standard input")
    };
    let event = Event::parse(event.get())?;
    if let Happened::Unknown(name) = &event.happened {
        tracing::debug!("{name} is no event that anything is done for");
        return Ok(());
    }
    let begun = Instant::now();
    let target = event.target(&context.common.selection(), &context.environment)?;
    let spool = target.place().spool();
    let heard = event.heard(Timestamp::from_system(SystemTime::now()).millis());
    if let Some(heard) = heard.filter(|heard| !is_private(context, &target, heard)) {
        // First of all: whatever happens to this process from here on, the prompt is recorded.
        spool.append(&heard)?;
    }
    match event.point(&target, &context.environment) {
        Ok(Some(terminal)) => tracing::debug!(%terminal, "the terminal's pointer is written"),
        Ok(None) => {}
        Err(error) => tracing::debug!("no pointer was written: {}", told(&error)),
    }
    if spool.waits() {
        match send(context, event.harness(), HISTORY.saturating_sub(begun.elapsed())) {
            Ok(()) => tracing::debug!("the history was written, or somebody is at it"),
            Err(error) => tracing::debug!("the prompt waits: {}", told(&error)),
        }
    }
    Ok(())
}

/// What was wrong with standard input.
fn not_read(error: &serde_json::Error) -> anyhow::Error {
    let what = if error.is_io() { "can't be read" } else { "is no JSON object" };
    anyhow::anyhow!("standard input {what}: {error}")
}

/// Whether a prompt is not to be put down anywhere. Settings that can't be understood keep nobody's prompt: it waits until they
/// can, and is judged then.
fn is_private(context: &Context, target: &Target, heard: &Heard) -> bool {
    let Some(cwd) = &heard.cwd else { return false };
    match context.settings(&target.agent).and_then(|settings| settings.history()) {
        Ok(options) => options.never_records(cwd),
        Err(error) => {
            tracing::debug!("the prompt will wait: {}", told(&error));
            false
        }
    }
}

/// Sends the errand, and waits so long for its return. It is in a process group of its own: what ends the hook's ends it not.
fn send(context: &Context, harness: Option<&str>, patience: Duration) -> Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(errand::NAME);
    let here = context.environment.cwd()?;
    for dir in &context.common.agent_dir {
        command.arg("--agent-dir").arg(here.join(dir));
    }
    if let Some(name) = context.common.harness.and_then(|name| name.to_possible_value()) {
        command.args(["--harness", name.get_name()]);
    }
    if let Some(harness) = harness {
        command.args(["--for", harness]);
    }
    // Nothing of the harness's is kept: neither its pipes, whose end it may wait for, nor its directory.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/").process_group(0);
    let mut child = command.spawn().context("nobody could be sent")?;
    let (end, ended) = mpsc::channel();
    std::thread::spawn(move || end.send(child.wait()));
    match ended.recv_timeout(patience) {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(_) => bail!("the history could not be written"),
        Err(_) => bail!("the history takes longer; it is gone on with in the background"),
    }
}
