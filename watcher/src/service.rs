//! The files with which a service manager runs the watcher: a systemd user unit, or a launchd agent. It writes nothing.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use session_core::Environment;

use crate::exit::Exit;

/// What says that a file is ours.
pub(crate) const MARK: &str = "Written by `watcher service install`";

/// Who runs services here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manager {
    Systemd,
    Launchd,
}

/// What is to be run.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub(crate) program: PathBuf,
    pub(crate) agents: Vec<PathBuf>,
}

impl Manager {
    pub(crate) fn of_system() -> Self {
        if cfg!(target_os = "macos") { Self::Launchd } else { Self::Systemd }
    }

    /// Where its file is.
    ///
    /// # Errors
    /// No home is known.
    pub(crate) fn file(self, environment: &Environment) -> Result<PathBuf> {
        let home = environment.home().context("no home directory is known; set $HOME");
        match self {
            Self::Systemd => {
                let base = environment.variable("XDG_CONFIG_HOME").map(PathBuf::from).filter(|base| base.is_absolute());
                let base = base.map_or_else(|| home.map(|home| home.join(".config")), Ok)?;
                Ok(base.join("systemd/user/watcher.service"))
            }
            Self::Launchd => Ok(home?.join("Library/LaunchAgents/watcher.plist")),
        }
    }

    /// What enabling the service puts beside its file.
    pub(crate) fn link(self, file: &Path) -> Option<PathBuf> {
        match self {
            Self::Systemd => Some(file.parent()?.join("default.target.wants").join(file.file_name()?)),
            Self::Launchd => None,
        }
    }

    pub(crate) fn text(self, unit: &Unit) -> String {
        match self {
            Self::Systemd => systemd(unit),
            Self::Launchd => launchd(unit),
        }
    }

    pub(crate) fn start_commands(self) -> Vec<String> {
        match self {
            Self::Systemd => {
                vec!["systemctl --user daemon-reload".into(), "systemctl --user enable --now watcher.service".into()]
            }
            Self::Launchd => vec!["launchctl load -w ~/Library/LaunchAgents/watcher.plist".into()],
        }
    }

    pub(crate) fn stop_commands(self) -> Vec<String> {
        match self {
            Self::Systemd => {
                // Its file is gone, so there is nothing to disable any more; systemd still knows the service itself.
                vec!["systemctl --user stop watcher.service".into(), "systemctl --user daemon-reload".into()]
            }
            Self::Launchd => vec!["launchctl remove watcher".into()],
        }
    }

    pub(crate) fn state_commands(self) -> Vec<String> {
        match self {
            Self::Systemd => vec!["systemctl --user status watcher.service".into()],
            Self::Launchd => vec!["launchctl list watcher".into()],
        }
    }
}

/// Only such hardening as needs no user namespace: in one, the terminals of other processes can't be seen.
fn systemd(unit: &Unit) -> String {
    let mut command = quoted(&unit.program);
    command.push_str(" run");
    for agent in &unit.agents {
        command.push_str(" --agent-dir ");
        command.push_str(&quoted(agent));
    }
    format!(
        "# {MARK}\n\
         [Unit]\n\
         Description=Keeps prompt history and terminal pointers in sync with sessions\n\
         \n\
         [Service]\n\
         Type=notify\n\
         NotifyAccess=main\n\
         ExecStart={command}\n\
         ExecReload=/bin/kill -HUP $MAINPID\n\
         Restart=on-failure\n\
         RestartSec=5\n\
         RestartPreventExitStatus={} {}\n\
         TimeoutStartSec=infinity\n\
         TimeoutStopSec=5\n\
         NoNewPrivileges=yes\n\
         UMask=0077\n\
         MemoryHigh=256M\n\
         MemoryMax=1G\n\
         TasksMax=64\n\
         Nice=5\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n",
        Exit::Usage.code(),
        Exit::AlreadyRunning.code(),
    )
}

/// A word of a command in a unit file.
fn quoted(path: &Path) -> String {
    let mut word = String::from("\"");
    for c in path.to_string_lossy().chars() {
        match c {
            '"' | '\\' => word.extend(['\\', c]),
            '%' => word.push_str("%%"),
            '$' => word.push_str("$$"),
            '\n' => word.push_str("\\n"),
            c => word.push(c),
        }
    }
    word.push('"');
    word
}

fn launchd(unit: &Unit) -> String {
    let mut arguments = vec![unit.program.display().to_string(), "run".to_owned()];
    for agent in &unit.agents {
        arguments.extend(["--agent-dir".to_owned(), agent.display().to_string()]);
    }
    let escape = |text: &String| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let lines: Vec<String> = arguments.iter().map(|word| format!("    <string>{}</string>\n", escape(word))).collect();
    let arguments = lines.concat();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <!-- {MARK} -->\n\
         <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
         <plist version=\"1.0\">\n<dict>\n\
         \x20 <key>Label</key><string>watcher</string>\n\
         \x20 <key>ProgramArguments</key>\n  <array>\n{arguments}  </array>\n\
         \x20 <key>RunAtLoad</key><true/>\n\
         \x20 <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>\n\
         \x20 <key>ProcessType</key><string>Background</string>\n\
         \x20 <key>Umask</key><integer>63</integer>\n\
         </dict>\n</plist>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_paths_stay_one_word() {
        let unit = Unit { program: "/opt/my $tools/100%/wat\"cher".into(), agents: vec!["/a<b>&c".into()] };
        let text = Manager::Systemd.text(&unit);
        assert!(text.contains(r#"ExecStart="/opt/my $$tools/100%%/wat\"cher" run --agent-dir "/a<b>&c""#), "{text}");
        for key in ["NoNewPrivileges=yes", "UMask=0077", "MemoryMax=", "TasksMax=", "Type=notify"] {
            assert!(text.contains(key), "{key}");
        }
        for blinding in ["Private", "Protect", "RestrictNamespaces", "SystemCallFilter"] {
            assert!(!text.contains(blinding), "{blinding} would take a namespace");
        }
        assert!(Manager::Launchd.text(&unit).contains("<string>/a&lt;b&gt;&amp;c</string>"));
    }
}
