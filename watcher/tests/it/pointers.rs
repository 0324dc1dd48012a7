//! Terminal pointers follow their sessions while the watcher runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use session_core::storage::FileSessionStorage;
use session_core::{Pointers, TerminalId};

use crate::support::{Session, World, until, user_line};

impl World {
    fn point(&self, terminal: &str, target: &Path) {
        let storage = FileSessionStorage::new();
        let pointers = Pointers::new(&storage, self.agent().join("terminal-sessions"));
        pointers.set(&TerminalId::new(terminal).unwrap(), Path::new("/w"), target).unwrap();
    }

    fn target(&self, terminal: &str) -> Option<PathBuf> {
        let storage = FileSessionStorage::new();
        let pointers = Pointers::new(&storage, self.agent().join("terminal-sessions"));
        let pointer = pointers.get(&TerminalId::new(terminal).unwrap()).unwrap()?;
        Some(pointer.session_file().to_owned())
    }
}

#[test]
fn a_directory_renamed_under_the_watcher_keeps_its_pointers_and_counts() {
    // K34
    let world = World::new();
    let mut session = Session::begin(&world, "--home-u-w--", "0000000000000a01", "/home/u/w");
    session.user("before");
    world.point("pts-7", session.path());
    let watcher = world.run(&[]);
    fs::rename(world.sessions().join("--home-u-w--"), world.sessions().join("-w")).unwrap();
    let new = world.sessions().join("-w").join(session.path().file_name().unwrap());
    let took = until("the pointer follows", || world.target("pts-7").as_deref() == Some(new.as_path()));
    println!("the pointer was right after {} ms", took.as_millis());
    // The harness still has the file open, and writes on.
    session.user("after");
    until("the prompt is found", || world.finds("after"));
    watcher.signal("TERM");
    watcher.end();
    assert_eq!(world.json(&["sync"])[0]["added"], 0);
    assert_eq!(world.prompts(), ["before", "after"]);
}

/// A harness that writes no pointers: a process without a terminal of its own that holds its session open.
struct Silent(Child);

impl Silent {
    fn start(path: &Path, pane: &str) -> Self {
        // It appends each line that it is given, as a harness does.
        let script =
            format!("exec 9>>'{}'; while IFS= read -r line; do printf '%s\\n' \"$line\" >&9; done", path.display());
        let mut command = Command::new("setsid");
        command.args(["sh", "-c", &script]).env_clear().env("PATH", "/usr/bin:/bin").env("TMUX_PANE", pane);
        Self(command.stdin(Stdio::piped()).spawn().unwrap())
    }

    fn write(&mut self, line: &str) {
        use std::io::Write;
        writeln!(self.0.stdin.as_mut().unwrap(), "{line}").unwrap();
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        // Its input ends with it, so it may be gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_session_whose_harness_writes_no_pointer_gets_its_terminal_s() {
    let world = World::new();
    // This process must not hold them open: a process around the harness that writes sessions makes it a nested one.
    let session = Session::begin(&world, "--w--", "0000000000000b01", "/w").path().to_owned();
    let other = Session::begin(&world, "--w--", "0000000000000b02", "/w").path().to_owned();
    let watcher = world.run(&[]);
    let mut harness = Silent::start(&session, "%41");
    harness.write(&user_line(1, 1_767_605_401_000, "hello"));
    until("the pointer is there", || world.target("tmux-%41").as_deref() == Some(session.as_path()));
    // One that somebody else wrote stays.
    world.point("tmux-%42", &session);
    let mut harness = Silent::start(&other, "%42");
    harness.write(&user_line(1, 1_767_605_402_000, "there"));
    until("the prompt has arrived", || world.finds("there"));
    watcher.signal("TERM");
    assert_eq!(watcher.end().1, Some(0));
    assert_eq!(world.target("tmux-%42").as_deref(), Some(session.as_path()));
}
