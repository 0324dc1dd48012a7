//! The pager of long answers: `$PAGER`, else `less`. It decides nothing about what is shown.

use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;

use session_core::Environment;

/// What `less` is told when the user tells it nothing: colours, leave when it fits the screen, keep the screen.
const LESS: &str = "FRX";

/// Starts the pager; none when there is none, or the user wants none (`PAGER=cat`).
pub(super) fn start(environment: &Environment) -> Option<(Child, ChildStdin)> {
    let wanted = environment.variable("PAGER").map_or("less".into(), std::ffi::OsStr::to_os_string);
    if wanted == "cat" {
        return None;
    }
    // Like every program that honours `$PAGER`: it is a command of the shell, options and all.
    let mut command = Command::new("sh");
    command.arg("-c").arg(&wanted).stdin(Stdio::piped());
    if environment.variable("LESS").is_none() {
        command.env("LESS", LESS);
    }
    let found = Command::new("sh").args(["-c", "command -v \"${1%% *}\" >/dev/null", "sh"]).arg(&wanted).status();
    if !found.is_ok_and(|status| status.success()) {
        return None;
    }
    // Ctrl-C is the pager's as soon as it runs: if we died of it, the shell and the pager would both read the keyboard. Where
    // this can't be had, paging goes on all the same.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::default());
    let mut child = command.spawn().ok()?;
    let input = child.stdin.take()?;
    Some((child, input))
}
