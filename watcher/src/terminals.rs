//! Which terminal the process that writes a session has, as Linux's `/proc` tells. It guesses nothing: what is not certain
//! is none.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use session_core::storage::FileIdentity;
use session_core::{Environment, TerminalId};

/// Variables that name a terminal `[P1]`.
const VARIABLES: [&str; 4] = ["KITTY_WINDOW_ID", "TMUX_PANE", "TERM_SESSION_ID", "WT_SESSION"];

/// The processes of a system; the root is `/proc`, or a picture of it.
#[derive(Clone, Debug)]
pub(crate) struct Processes {
    root: PathBuf,
    user: u32,
    own: u32,
}

/// What `/proc/PID/stat` says of a process, as far as it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    group: i64,
    terminal: i64,
    foreground: i64,
}

impl Processes {
    /// The processes of this system.
    pub(crate) fn of_system() -> Self {
        Self { root: "/proc".into(), user: rustix::process::geteuid().as_raw(), own: std::process::id() }
    }

    /// Whether sessions' terminals can be found; else why not.
    ///
    /// # Errors
    /// The reason.
    pub(crate) fn available(&self) -> Result<(), String> {
        if cfg!(not(target_os = "linux")) {
            return Err("it needs Linux".to_owned());
        }
        let Ok(pids) = self.pids() else {
            return Err(format!("{} can't be read", self.root.display()));
        };
        if fs::read_dir(self.root.join("self/fd")).is_err() {
            return Err(format!("{} is no process file system", self.root.display()));
        }
        let others = pids.into_iter().filter(|pid| *pid != self.own);
        let (mut seen, mut denied) = (0, 0);
        for pid in others {
            // Names of open files can be listed where what they are can't be seen.
            let open = fs::read_dir(self.root.join(pid.to_string()).join("fd"));
            let first = open.map(|mut files| files.next());
            match first.and_then(|first| first.map(|file| fs::read_link(file?.path())).transpose()) {
                Ok(Some(_)) => seen += 1,
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => denied += 1,
                Ok(None) | Err(_) => {}
            }
        }
        if seen == 0 && denied > 0 {
            let whole = fs::read_to_string(self.root.join("self/uid_map")).unwrap_or_default();
            let fields: Vec<&str> = whole.split_whitespace().collect();
            let namespace = fields.len() > 3 || fields.last().is_some_and(|count| *count != "4294967295");
            let why = if namespace { "this process is in a user namespace" } else { "permission denied" };
            return Err(format!("the open files of other processes can't be seen: {why}"));
        }
        Ok(())
    }

    /// The terminal of the process that has this session file open for writing. None when no process has, when it is in the
    /// background, when a process around it writes a session too, and when more than one terminal would do.
    ///
    /// `is_session` tells whether a file is a session that is followed.
    pub(crate) fn terminal_of(
        &self,
        session: FileIdentity,
        is_session: impl Fn(FileIdentity) -> bool,
    ) -> Option<TerminalId> {
        let holders: Vec<u32> =
            self.pids().ok()?.into_iter().filter(|pid| self.writes(*pid, |file| file == session)).collect();
        let mut terminals = BTreeSet::new();
        for pid in &holders {
            let Some(stat) = self.stat(*pid) else { continue };
            if self.is_nested(stat, &holders, &is_session) {
                continue;
            }
            match self.terminal(*pid, stat) {
                Some(terminal) => drop(terminals.insert(terminal)),
                // A holder in the background makes it uncertain whose session it is.
                None => return None,
            }
        }
        if terminals.len() == 1 { terminals.pop_first() } else { None }
    }

    /// Whether a process around this one writes a session: then this one's is a sub-agent's, and the terminal is not its own.
    /// A process that inherited the very same file is no other session.
    fn is_nested(&self, stat: Stat, holders: &[u32], is_session: &impl Fn(FileIdentity) -> bool) -> bool {
        let mut next = stat.parent;
        let mut seen = BTreeSet::new();
        while next > 1 && seen.insert(next) {
            if holders.contains(&next) || self.writes(next, is_session) {
                return true;
            }
            let Some(stat) = self.stat(next) else { return false };
            next = stat.parent;
        }
        false
    }

    fn terminal(&self, pid: u32, stat: Stat) -> Option<TerminalId> {
        if stat.terminal != 0 {
            if stat.group != stat.foreground {
                return None;
            }
            return TerminalId::detect(Some(&device(stat.terminal)?), &Environment::default());
        }
        let bytes = fs::read(self.root.join(pid.to_string()).join("environ")).ok()?;
        let mut environment = Environment::new("/");
        for pair in bytes.split(|byte| *byte == 0) {
            let Ok(pair) = std::str::from_utf8(pair) else { continue };
            if let Some((name, value)) = pair.split_once('=')
                && VARIABLES.contains(&name)
            {
                environment = environment.with_variable(name, value);
            }
        }
        TerminalId::detect(None, &environment)
    }

    /// Processes that we may look into, but for this one.
    fn pids(&self) -> std::io::Result<Vec<u32>> {
        let mut pids = Vec::new();
        for item in fs::read_dir(&self.root)? {
            let Ok(item) = item else { continue };
            let Some(pid) = item.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let is_ours = item.metadata().is_ok_and(|metadata| metadata.uid() == self.user);
            if is_ours && pid != self.own {
                pids.push(pid);
            }
        }
        Ok(pids)
    }

    /// Whether a process has a file open for writing that `wanted` accepts.
    fn writes(&self, pid: u32, wanted: impl Fn(FileIdentity) -> bool) -> bool {
        let dir = self.root.join(pid.to_string());
        let Ok(items) = fs::read_dir(dir.join("fd")) else { return false };
        for item in items.flatten() {
            // Most are sockets and pipes; the name says so without a look at the file.
            let is_candidate = fs::read_link(item.path()).is_ok_and(|target| {
                target.is_absolute() && target.extension().is_some_and(|extension| extension == "jsonl")
            });
            if !is_candidate {
                continue;
            }
            let Ok(metadata) = fs::metadata(item.path()) else { continue };
            if wanted(FileIdentity { device: metadata.dev(), inode: metadata.ino() })
                && is_for_writing(&dir.join("fdinfo").join(item.file_name()))
            {
                return true;
            }
        }
        false
    }

    fn stat(&self, pid: u32) -> Option<Stat> {
        parse_stat(&fs::read_to_string(self.root.join(pid.to_string()).join("stat")).ok()?)
    }
}

fn is_for_writing(info: &Path) -> bool {
    let Ok(text) = fs::read_to_string(info) else { return false };
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).is_some_and(|flags| flags & 3 != 0)
}

/// The command name may hold anything, so fields count from the last parenthesis.
fn parse_stat(text: &str) -> Option<Stat> {
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(1).map(str::parse::<i64>);
    let mut next = || fields.next()?.ok();
    let (parent, group, _session, terminal, foreground) = (next()?, next()?, next()?, next()?, next()?);
    Some(Stat { parent: u32::try_from(parent).ok()?, group, terminal, foreground })
}

/// The device file of a terminal by its number; none for kinds that are not known.
fn device(number: i64) -> Option<PathBuf> {
    let major = (number >> 8) & 0xfff;
    let minor = (number & 0xff) | ((number >> 12) & 0xfff00);
    match major {
        136..=143 => Some(PathBuf::from(format!("/dev/pts/{}", (major - 136) * 256 + minor))),
        4 if minor < 64 => Some(PathBuf::from(format!("/dev/tty{minor}"))),
        4 => Some(PathBuf::from(format!("/dev/ttyS{}", minor - 64))),
        _ => None,
    }
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;

    /// A picture of `/proc` in a temporary directory.
    struct Picture(tempfile::TempDir);

    impl Picture {
        fn new() -> Self {
            let picture = Self(tempfile::tempdir().unwrap());
            fs::create_dir_all(picture.0.path().join("self/fd")).unwrap();
            picture
        }

        fn processes(&self) -> Processes {
            Processes { root: self.0.path().into(), user: rustix::process::geteuid().as_raw(), own: 1 }
        }

        fn session(&self, name: &str) -> FileIdentity {
            let path = self.0.path().join(name);
            fs::write(&path, "").unwrap();
            let metadata = fs::metadata(path).unwrap();
            FileIdentity { device: metadata.dev(), inode: metadata.ino() }
        }

        /// A process with a terminal (0: none), in the foreground or not, that has a file open.
        fn process(
            &self,
            pid: u32,
            parent: u32,
            terminal: i64,
            foreground: u32,
            open: Option<&str>,
            environment: &str,
        ) {
            let dir = self.0.path().join(pid.to_string());
            fs::create_dir_all(dir.join("fd")).unwrap();
            fs::create_dir_all(dir.join("fdinfo")).unwrap();
            fs::write(dir.join("stat"), format!("{pid} (odd) name) S {parent} {pid} {pid} {terminal} {foreground} 0"))
                .unwrap();
            fs::write(dir.join("environ"), environment).unwrap();
            if let Some(open) = open {
                std::os::unix::fs::symlink(self.0.path().join(open), dir.join("fd/5")).unwrap();
                fs::write(dir.join("fdinfo/5"), "pos:\t0\nflags:\t0102001\n").unwrap();
            }
        }
    }

    const PTS_3: i64 = 136 << 8 | 3;

    #[test]
    fn the_foreground_writer_of_a_session_has_its_terminal() {
        let picture = Picture::new();
        let session = picture.session("a.jsonl");
        picture.process(10, 1, PTS_3, 10, Some("a.jsonl"), "TMUX_PANE=%7\0");
        picture.process(11, 1, PTS_3, 10, None, "");
        let found = picture.processes().terminal_of(session, |_| true);
        assert_eq!(found.unwrap().as_str(), "pts-3");
    }

    #[test]
    fn without_a_terminal_the_environment_tells() {
        let picture = Picture::new();
        let session = picture.session("a.jsonl");
        picture.process(10, 1, 0, 0, Some("a.jsonl"), "A=b\0TMUX_PANE=%7\0KITTY_WINDOW_ID=4\0");
        assert_eq!(picture.processes().terminal_of(session, |_| true).unwrap().as_str(), "kitty-4");
        picture.process(12, 1, 0, 0, Some("a.jsonl"), "");
        assert_eq!(picture.processes().terminal_of(session, |_| true), None, "one of two is none");
    }

    #[test]
    fn background_nested_reading_and_doubtful_processes_have_none() {
        let picture = Picture::new();
        let (outer, inner, back, read, two) = (
            picture.session("outer.jsonl"),
            picture.session("inner.jsonl"),
            picture.session("back.jsonl"),
            picture.session("read.jsonl"),
            picture.session("two.jsonl"),
        );
        picture.process(10, 1, PTS_3, 10, Some("outer.jsonl"), "");
        picture.process(20, 10, PTS_3, 20, None, "");
        picture.process(21, 20, PTS_3, 21, Some("inner.jsonl"), "");
        picture.process(30, 1, PTS_3, 10, Some("back.jsonl"), "TMUX_PANE=%1\0");
        picture.process(40, 1, PTS_3, 40, Some("read.jsonl"), "");
        fs::write(picture.0.path().join("40/fdinfo/5"), "flags:\t0100000\n").unwrap();
        picture.process(50, 1, PTS_3, 50, Some("two.jsonl"), "");
        picture.process(51, 1, PTS_3 + 1, 51, Some("two.jsonl"), "");
        let processes = picture.processes();
        assert_eq!(processes.terminal_of(outer, |_| true).unwrap().as_str(), "pts-3");
        for session in [inner, back, read, two] {
            assert_eq!(processes.terminal_of(session, |_| true), None);
        }
    }

    #[test]
    fn terminals_have_numbers() {
        assert_eq!(device(PTS_3).unwrap(), Path::new("/dev/pts/3"));
        assert_eq!(device(137 << 8 | 1).unwrap(), Path::new("/dev/pts/257"));
        assert_eq!(device(4 << 8 | 2).unwrap(), Path::new("/dev/tty2"));
        assert_eq!(device(5 << 8), None);
        assert_eq!(parse_stat("1 (a) b) S 2 3"), None);
    }

    #[test]
    fn a_system_without_proc_says_so() {
        let processes = Processes { root: "/nowhere".into(), user: 0, own: 1 };
        assert!(processes.available().unwrap_err().contains("/nowhere"));
    }
}
