//! A home with the sessions of `tests/data`, every time pinned, for commands whose answers are compared word for word.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

/// What stands in transcripts for the home, which has another name each time.
const HOME: &str = "/tmp/watcher-XXXXXXXX";
/// What the commands take for now.
pub(crate) const NOW: &str = "2026-01-07T10:00:00Z";

pub(crate) struct Fixture {
    home: tempfile::TempDir,
}

/// The sessions of a directory of `tests/data`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sessions {
    Project,
    Broken,
    Corpus,
}

impl Fixture {
    pub(crate) fn new(sessions: &[Sessions]) -> Self {
        // As long as the name in the transcripts, so that lines break where they break there.
        let home = tempfile::Builder::new().prefix("watcher-").rand_bytes(8).tempdir_in("/tmp").unwrap();
        let fixture = Self { home };
        fs::create_dir_all(fixture.sessions()).unwrap();
        for which in sessions {
            let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
            let (from, to) = match which {
                Sessions::Project => (data.join("project"), "--home-u-project--"),
                Sessions::Broken => (data.join("broken"), "--home-u-broken--"),
                Sessions::Corpus => (data.join("../../../tests/data/corpus"), "--corpus--"),
            };
            let to = fixture.sessions().join(to);
            fs::create_dir_all(&to).unwrap();
            for file in fs::read_dir(from).unwrap().map(|file| file.unwrap().path()) {
                if file.extension().is_some_and(|extension| extension == "jsonl") {
                    let copy = to.join(file.file_name().unwrap());
                    fs::copy(&file, &copy).unwrap();
                    pin(&copy);
                }
            }
            if matches!(which, Sessions::Broken) {
                fs::create_dir(to.join("directory.jsonl")).unwrap();
                std::os::unix::fs::symlink("nowhere", to.join("dangling.jsonl")).unwrap();
            }
        }
        fixture
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn agent(&self) -> PathBuf {
        self.home().join(".xcsh/agent")
    }

    pub(crate) fn sessions(&self) -> PathBuf {
        self.agent().join("sessions")
    }

    /// The only session file below the sessions whose name holds this.
    pub(crate) fn session(&self, part: &str) -> PathBuf {
        let dirs = fs::read_dir(self.sessions()).unwrap().map(|dir| dir.unwrap().path());
        let files = dirs.flat_map(|dir| fs::read_dir(dir).unwrap().map(|file| file.unwrap().path()));
        let mut fitting = files.filter(|file| file.is_file() && file.to_str().unwrap().contains(part));
        let found = fitting.next().unwrap();
        assert_eq!(fitting.next(), None);
        found
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_watcher"));
        command.args(words).env_clear().current_dir(self.home()).stdin(Stdio::null());
        command.env("HOME", self.home()).env("TZ", "UTC").env("WATCHER_NOW", NOW).env("PATH", "/usr/bin:/bin");
        command
    }

    pub(crate) fn output(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// What a command that succeeds prints.
    pub(crate) fn prints(&self, words: &[&str]) -> String {
        let output = self.output(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The code and the messages of a command that does not succeed.
    pub(crate) fn fails(&self, words: &[&str]) -> (i32, String) {
        let output = self.output(words);
        assert!(!output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stdout));
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    }

    /// The data of a command's JSON envelope, which is of this kind.
    pub(crate) fn json(&self, kind: &str, words: &[&str]) -> serde_json::Value {
        let output = self.output(&[words, &["--json"]].concat());
        let mut envelope: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&envelope["schema"], &envelope["kind"]), (&"watcher/1".into(), &kind.into()), "{words:?}");
        envelope["data"].take()
    }

    /// A command and all that it says, with the home's name taken out.
    pub(crate) fn transcript(&self, columns: usize, words: &[&str]) -> String {
        let output = self.command(words).env("COLUMNS", columns.to_string()).output().unwrap();
        let said: Vec<String> = words
            .iter()
            .map(|word| if word.contains(' ') { format!("'{word}'") } else { (*word).to_owned() })
            .collect();
        let text = format!(
            "$ watcher {}\n{}{}[exit {}]\n",
            said.join(" "),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
            output.status.code().unwrap()
        );
        text.replace(self.home().to_str().unwrap(), HOME)
    }

    /// Every file below the agent directory, with its bytes and time.
    pub(crate) fn picture(&self) -> std::collections::BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
        let mut files = std::collections::BTreeMap::new();
        let mut dirs = vec![self.home().to_path_buf()];
        while let Some(dir) = dirs.pop() {
            for path in fs::read_dir(dir).unwrap().map(|item| item.unwrap().path()) {
                if path.is_dir() {
                    dirs.push(path);
                } else if let Ok(bytes) = fs::read(&path) {
                    let modified = fs::metadata(&path).unwrap().modified().unwrap();
                    files.insert(path, (bytes, modified));
                }
            }
        }
        files
    }
}

/// An hour before what is taken for now.
pub(crate) fn pin(file: &Path) {
    let hour_before = SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_776_400);
    File::options().append(true).open(file).unwrap().set_modified(hour_before).unwrap();
}
