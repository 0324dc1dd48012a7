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

/// A terminal, and a harness in its foreground that appends each line typed into it to its session.
#[cfg(target_os = "linux")]
struct Terminal {
    keyboard: fs::File,
    id: String,
    harness: Child,
}

#[cfg(target_os = "linux")]
impl Terminal {
    /// Runs a shell script as the session leader of a new terminal.
    fn run(script: &str) -> Self {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let name = ptsname(&keyboard, Vec::new()).unwrap().into_string().unwrap();
        let side = fs::File::options().read(true).write(true).open(&name).unwrap();
        let mut command = Command::new("setsid");
        command.args(["--ctty", "sh", "-c", script]).env_clear().env("PATH", "/usr/bin:/bin");
        // The terminal counts, whatever the environment says.
        command.env("TMUX_PANE", "%99");
        let harness = command.stdin(side.try_clone().unwrap()).stdout(side.try_clone().unwrap()).stderr(side).spawn();
        let harness = harness.expect("`setsid` of util-linux gives a process a terminal of its own");
        Self { keyboard: keyboard.into(), id: name.trim_start_matches("/dev/").replace('/', "-"), harness }
    }

    fn enter(&mut self, line: &str) {
        use std::io::Write;
        writeln!(self.keyboard, "{line}").unwrap();
    }
}

#[cfg(target_os = "linux")]
impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.harness.kill();
        let _ = self.harness.wait();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_foreground_of_a_real_terminal_gets_its_pointer_and_its_background_does_not() {
    let world = World::new();
    let path = |session: Session| session.path().to_owned();
    let front = path(Session::begin(&world, "--w--", "0000000000000b11", "/w"));
    let back = path(Session::begin(&world, "--w--", "0000000000000b12", "/w"));
    let fifo = world.home().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let watcher = world.run(&[]);
    // `set -m` gives each job a process group of its own, as an interactive shell does; the shell itself writes no session.
    // The job in the background opens the pipe twice, so that it still holds its session when it has written.
    let script = format!(
        "stty -echo; set -m; (exec 8>>'{back}'; cat '{fifo}' '{fifo}' >&8) & \
         (exec 9>>'{front}'; while IFS= read -r line; do printf '%s\\n' \"$line\" >&9; done); true",
        back = back.display(),
        fifo = fifo.display(),
        front = front.display(),
    );
    let mut terminal = Terminal::run(&script);
    terminal.enter(&user_line(1, 1_767_605_401_000, "in front"));
    until("the pointer is there", || world.target(&terminal.id).as_deref() == Some(front.as_path()));

    fs::write(&fifo, user_line(1, 1_767_605_402_000, "in the background") + "\n").unwrap();
    until("the prompt has arrived", || world.finds("in the background"));
    watcher.signal("TERM");
    assert_eq!(watcher.end().1, Some(0));
    assert_eq!(world.target(&terminal.id).as_deref(), Some(front.as_path()));
    assert_eq!(world.target("tmux-%99"), None);
}
