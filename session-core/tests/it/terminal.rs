//! The terminal on standard input of a real process.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use session_core::{Environment, TerminalId, stdin_terminal};

use crate::child::{Child, role, say};

const TEST: &str = "terminal::the_terminal_on_standard_input_names_itself";

#[test]
fn the_terminal_on_standard_input_names_itself() {
    // [P1] It counts before the environment; no terminal there, and the environment counts.
    if role().is_some() {
        let environment = Environment::new("/").with_variable("TMUX_PANE", "%3");
        let id = TerminalId::detect(stdin_terminal().as_deref(), &environment);
        say(id.as_ref().map_or("none", TerminalId::as_str));
        return;
    }
    Child::run(TEST, "pipe", Path::new("/")).says("tmux-%3");

    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    let name = ptsname(&controller, Vec::new()).unwrap();
    let device = Path::new(OsStr::from_bytes(name.as_bytes()));
    let terminal = OpenOptions::new().read(true).write(true).open(device).unwrap();
    let mut child = Child::run_on(terminal, TEST, "terminal", Path::new("/"));
    let expected = device.strip_prefix("/dev").unwrap().to_str().unwrap().replace('/', "-");
    child.says(&expected);
}
