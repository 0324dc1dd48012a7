//! The command line: definitions here, one file a command beside it, and all printing in `output`.

mod bash;
mod blobs;
mod busy;
mod completions;
mod confirm;
mod continue_cmd;
mod detach;
mod errand;
mod ext;
mod file_out;
mod following;
mod grid;
mod help;
mod history;
mod hook;
mod man;
mod named;
mod output;
mod pager;
mod plugin;
mod pointers;
mod run;
mod service;
mod sessions;
mod settings;
mod status;
mod surroundings;
mod sync;
mod terminals;
mod text;
mod times;
mod transcript;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use session_core::{Environment, Harness};

use crate::agents::Selection;
use crate::cause::told;
use crate::exit::Exit;
use crate::mending;
use output::{Form, Output};

const EXAMPLES: &str = "\
Examples:
  watcher run                       follow the default agent directory until Ctrl-C
  watcher sync                      read what is there once, then leave
  watcher history search login fix  find a prompt that was typed once
  watcher sessions list             the sessions of this directory
  watcher sessions show 15c0        what was said in one of them
  watcher continue                  which session this terminal would go on with
  watcher status                    whether a watcher runs, and how it is

`watcher COMMAND --help` shows more.";

const JSON: &str = "\
JSON: with --json, standard output is one object: {\"schema\":\"watcher/1\",\"kind\":KIND,\"data\":…}, where KIND is the command
(`history.search`); a failure is of kind `error` with {\"message\":…,\"exit\":…}. Fields may be added within a schema
number; none changes its meaning or goes. Times are ISO 8601 in UTC.";

/// Keeps the prompt history and the terminal pointers of coding agents in sync with their sessions.
#[derive(Debug, Parser)]
#[command(
    name = "watcher",
    version,
    arg_required_else_help = true,
    disable_help_flag = true,
    after_help = EXAMPLES
)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// Above what every command understands, in its help.
const EVERYWHERE: &str = "Everywhere";

/// What every command understands. In a help it comes after what is the command's own.
#[derive(Clone, Debug, Args)]
struct Common {
    #[arg(
        long,
        value_name = "DIR",
        global = true,
        display_order = 101, help_heading = EVERYWHERE,
        help = "An agent directory; may be given more than once [default: the first of $PI_CODING_AGENT_DIR, \
                $HOME/$PI_CONFIG_DIR/agent, ~/.xcsh/agent]"
    )]
    agent_dir: Vec<PathBuf>,
    /// Work for this harness: xcsh, omp or pi; all means these three; claude-code means the history that its hooks fill
    #[arg(long, value_name = "NAME", global = true, display_order = 102, help_heading = EVERYWHERE)]
    harness: Option<HarnessName>,
    /// Print one JSON object
    #[arg(long, global = true, display_order = 103, help_heading = EVERYWHERE)]
    json: bool,
    /// Say more on standard error; twice for everything
    #[arg(short, long, action = clap::ArgAction::Count, global = true, display_order = 104, help_heading = EVERYWHERE)]
    verbose: u8,
    /// Print help
    #[arg(short, long, action = clap::ArgAction::Help, global = true, display_order = 105, help_heading = EVERYWHERE)]
    help: (),
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum HarnessName {
    Xcsh,
    Omp,
    Pi,
    ClaudeCode,
    All,
}

impl Common {
    fn selection(&self) -> Selection {
        let harnesses = match self.harness {
            None | Some(HarnessName::ClaudeCode) => Vec::new(),
            Some(HarnessName::Xcsh) => vec![Harness::Xcsh],
            Some(HarnessName::Omp) => vec![Harness::Omp],
            Some(HarnessName::Pi) => vec![Harness::Pi],
            Some(HarnessName::All) => Harness::ALL.to_vec(),
        };
        let strangers = match self.harness {
            Some(HarnessName::ClaudeCode) => vec!["claude-code".to_owned()],
            _ => Vec::new(),
        };
        Selection { dirs: self.agent_dir.clone(), harnesses, strangers }
    }

    /// A command as somebody would type it who means the same agent directory.
    fn command(&self, words: &str) -> String {
        let mut command = vec![format!("watcher {words}")];
        for dir in &self.agent_dir {
            let dir = dir.display().to_string();
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+,:@%".contains(&byte);
            let dir = if dir.bytes().all(is_plain) { dir } else { format!("'{}'", dir.replace('\'', "'\\''")) };
            command.push(format!("--agent-dir {dir}"));
        }
        if let Some(name) = self.harness.and_then(|name| name.to_possible_value()) {
            command.push(format!("--harness {}", name.get_name()));
        }
        command.join(" ")
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Run),
    Sync(sync::Sync),
    Status(status::Status),
    #[command(subcommand)]
    History(history::History),
    #[command(subcommand)]
    Sessions(sessions::Sessions),
    #[command(subcommand)]
    Blobs(blobs::Blobs),
    #[command(subcommand)]
    Service(service::Service),
    Settings(settings::ShowSettings),
    Detach(detach::Detach),
    Continue(continue_cmd::Continue),
    #[command(subcommand)]
    Pointers(pointers::PointersOf),
    Completions(completions::Completions),
    Man(man::Man),
    Hook(hook::Hook),
    Errand(errand::Errand),
    #[command(subcommand)]
    Ext(ext::Ext),
    #[command(subcommand)]
    Plugin(plugin::Plugin),
}

/// Lines of a help are no longer, however wide the terminal is.
const WIDEST: usize = 100;

/// What a command works with.
struct Context {
    common: Common,
    environment: Environment,
    out: Output,
}

/// Reads the command line and runs one command.
pub(crate) fn main() -> ExitCode {
    // A shell that asks for completions gets them here, and nothing else happens.
    completions::answer();
    let columns = output::columns(&Environment::from_process()).unwrap_or(WIDEST).min(WIDEST);
    let parsed =
        help::fitted(definition(), columns).try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no failures, and a closed pipe is none either.
            let _ = error.print();
            if is_hook() {
                // A hook that is set up wrongly says so and fails nobody: some harnesses take code 2 for a veto.
                return ExitCode::from(Exit::Done.code());
            }
            if !error.use_stderr() {
                return ExitCode::from(Exit::Done.code());
            }
            if std::env::args_os().any(|word| word == "--json") {
                let text = error.to_string();
                let message = text.trim().trim_start_matches("error: ");
                Output::new(Form::Json, &Environment::from_process()).failed(message, Exit::Usage);
            }
            return ExitCode::from(Exit::Usage.code());
        }
    };
    let form = if cli.common.json { Form::Json } else { Form::Text };
    let environment = Environment::from_process();
    let out = Output::new(form, &environment);
    let mut context = Context { common: cli.common, environment, out };
    let result = cli.command.run(&mut context);
    // Also after a failure: what was said before it is said, and a pager is waited for.
    let finished = context.out.finish();
    let result = result.and_then(|exit| finished.map(|()| exit));
    let exit = match result {
        Ok(exit) => exit,
        Err(error) if output::is_broken_pipe(&error) => Exit::Done,
        Err(error) => {
            let exit = Exit::of(&error);
            context.failure(&error, exit);
            exit
        }
    };
    ExitCode::from(exit.code())
}

/// Whether a command line that is not understood is a hook's: its first word that is no option, nor an option's value.
fn is_hook() -> bool {
    let mut words = std::env::args_os().skip(1);
    while let Some(word) = words.next() {
        if word == "--agent-dir" || word == "--harness" {
            words.next();
        } else if !word.as_encoded_bytes().starts_with(b"-") {
            return word == "hook";
        }
    }
    false
}

/// The whole command line, its long help included.
fn definition() -> clap::Command {
    help::flowing(Cli::command().after_long_help(format!("{EXAMPLES}\n\n{JSON}\n\n{}", Exit::TABLE)))
}

impl Context {
    /// Says why the command failed.
    fn failure(&mut self, error: &anyhow::Error, exit: Exit) {
        let message = told(error);
        self.out.failed(&message, exit);
        self.remark(&format!("watcher: {message}"));
        if mending::is_corrupt(error) {
            let repair = self.common.command("history check --repair");
            self.remark(&format!("`{repair}` does that, and keeps what can still be read"));
        }
    }
}

impl Command {
    fn run(self, context: &mut Context) -> Result<Exit> {
        match self {
            Self::Run(run) => run.run(context),
            Self::Sync(sync) => sync.run(context),
            Self::Status(_) => status::Status::run(context),
            Self::History(history) => history.run(context),
            Self::Sessions(sessions) => sessions.run(context),
            Self::Blobs(blobs) => blobs.run(context),
            Self::Service(service) => service.run(context),
            Self::Settings(_) => settings::ShowSettings::run(context),
            Self::Detach(detach) => detach.run(context),
            Self::Continue(command) => command.run(context),
            Self::Pointers(pointers) => pointers.run(context),
            Self::Completions(command) => command.run(context),
            Self::Man(man) => man.run(context),
            Self::Ext(ext) => ext.run(context),
            Self::Plugin(plugin) => plugin.run(context),
            Self::Errand(errand) => errand.run(context),
            Self::Hook(_) => Ok(hook::Hook::run(context)),
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_definitions_hold_and_the_long_help_says_all() {
        let mut command = super::definition();
        command.clone().debug_assert();
        let help = command.render_long_help().to_string();
        assert!(help.contains(crate::exit::Exit::TABLE) && help.contains(super::output::SCHEMA), "{help}");
    }
}
