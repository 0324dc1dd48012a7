//! `make demo`: a scripted harness writes a session in a temporary agent directory, entry by entry, while the watcher tails
//! it. Ten seconds; it cleans up behind itself.

#![allow(clippy::print_stderr, reason = "a demonstration says why it ends")]

use std::error::Error;
use std::fs::{self, File};
use std::io::ErrorKind::BrokenPipe;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use session_core::{IdSource, RandomIds, Timestamp, encode_cwd, session_file_name};

/// What the scripted user types, and what the scripted model answers.
const SCRIPT: [(&str, &str); 4] = [
    ("why does the login form forget the name?", "It is read before the form is filled."),
    ("fix the login form, and add a test", "Done: LoginForm.tsx keeps the name now, and a test types one."),
    ("does the résumé upload have the same fault?", "No, it reads when the user submits."),
    ("then write the release note", "\"The login form keeps your name.\""),
];

/// Ends the watcher with the demonstration, however that ends.
struct Watcher(Child);

impl Drop for Watcher {
    fn drop(&mut self) {
        // It may be gone already; both calls then change nothing.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        // Nobody reads on.
        Err(error) if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == BrokenPipe) => {
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    // Whoever stops reading ends it, which `println!` would do with a panic.
    let mut out = io::stdout();
    let binary = std::env::current_exe()?.with_file_name("watcher");
    let temporary = tempfile::Builder::new().prefix("watcher-demo-").tempdir()?;
    let agent = temporary.path().join("agent");
    let project = temporary.path().join("project");
    fs::create_dir(&project)?;

    writeln!(out, "A watcher starts on a new agent directory.")?;
    let mut run = command(&binary, &agent, &["run", "--log-level", "error"]);
    let mut watcher = Watcher(run.stdout(Stdio::null()).spawn()?);
    sleep(Duration::from_millis(800));

    writeln!(out, "\nA harness writes a session in {}, entry by entry.\n", project.display())?;
    let mut harness = Harness::begin(&agent, &project)?;
    for (prompt, answer) in SCRIPT {
        let written = harness.user(prompt)?;
        let found = loop {
            if recent(&binary, &agent)?.contains(prompt) {
                break written.elapsed();
            }
            if written.elapsed() > Duration::from_secs(10) {
                return Err("a prompt did not arrive within ten seconds".into());
            }
            sleep(Duration::from_millis(2));
        };
        writeln!(out, "  > {prompt}\n    in the history after {} ms (a process start included)", found.as_millis())?;
        harness.assistant(answer)?;
        sleep(Duration::from_millis(1200));
    }

    for query in ["form fix", "resume upload", "login"] {
        writeln!(out, "\n$ watcher history search {query}")?;
        let mut search = command(&binary, &agent, &["history", "search"]);
        search.args(query.split(' ')).status()?;
    }
    writeln!(out, "\nWhich session would this directory continue with?\n\n$ watcher continue")?;
    command(&binary, &agent, &["continue"]).current_dir(&project).status()?;

    writeln!(out, "\nThe watcher ends, and everything is removed.")?;
    let pid = watcher.0.id().to_string();
    Command::new("kill").arg(pid).status()?;
    watcher.0.wait()?;
    Ok(temporary.close()?)
}

fn command(binary: &Path, agent: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(binary);
    command.args(words).arg("--agent-dir").arg(agent);
    command
}

fn recent(binary: &Path, agent: &Path) -> Result<String, Box<dyn Error>> {
    let output = command(binary, agent, &["history", "recent"]).stderr(Stdio::null()).output()?;
    Ok(String::from_utf8(output.stdout)?)
}

/// Writes a session as a harness does, one whole line at a time.
struct Harness {
    file: File,
    ids: RandomIds,
    parent: String,
}

impl Harness {
    fn begin(agent: &Path, project: &Path) -> Result<Self, Box<dyn Error>> {
        let (ids, now) = (RandomIds::new(), now());
        let id = ids.session_id(now);
        let dir = agent.join("sessions").join(encode_cwd(project)?);
        fs::create_dir_all(&dir)?;
        let mut file = File::create_new(dir.join(session_file_name(now, &id)?))?;
        let cwd = project.display();
        writeln!(file, r#"{{"type":"session","version":3,"id":"{id}","timestamp":"{now}","cwd":"{cwd}"}}"#)?;
        Ok(Self { file, ids, parent: "null".to_owned() })
    }

    fn user(&mut self, text: &str) -> Result<Instant, Box<dyn Error>> {
        self.message(&format!(r#""role":"user","content":{}"#, session_core::quote(text)))
    }

    fn assistant(&mut self, text: &str) -> Result<Instant, Box<dyn Error>> {
        let content = session_core::quote(text);
        self.message(&format!(
            r#""role":"assistant","content":[{{"type":"text","text":{content}}}],"stopReason":"stop""#
        ))
    }

    fn message(&mut self, body: &str) -> Result<Instant, Box<dyn Error>> {
        let (now, id) = (now(), format!("{:08x}", self.ids.entry_bits()));
        let parent = std::mem::replace(&mut self.parent, format!("\"{id}\""));
        let line = format!(
            r#"{{"type":"message","id":"{id}","parentId":{parent},"timestamp":"{now}","message":{{{body},"timestamp":{}}}}}"#,
            now.millis()
        );
        self.file.write_all(format!("{line}\n").as_bytes())?;
        Ok(Instant::now())
    }
}

fn now() -> Timestamp {
    Timestamp::from_system(std::time::SystemTime::now())
}
