//! Where logs go: standard error, or a file that is changed for a new one each day. It prints nothing itself.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;
use std::{fs, io};

use anyhow::{Context as _, Result};
use session_core::Timestamp;
use tracing_appender::rolling::{RollingFileAppender, RollingWriter, Rotation};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, reload};

use crate::settings::Level;

/// Log files that are kept, the current one included.
const KEPT: usize = 7;

/// A way to change the level while the process runs.
pub(crate) struct Logging(reload::Handle<EnvFilter, tracing_subscriber::Registry>);

/// Starts logging, to standard error or to `NAME.DATE` files of which the last seven days are kept.
///
/// # Errors
/// The file can't be opened.
pub(crate) fn start(level: Level, file: Option<&Path>) -> Result<Logging> {
    let writer = match file {
        None => BoxMakeWriter::new(std::io::stderr),
        Some(path) => BoxMakeWriter::new(rolling(path)?),
    };
    let (filter, handle) = reload::Layer::new(filter(level));
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_target(false).with_writer(writer);
    tracing_subscriber::registry().with(filter).with(lines).try_init().context("logging")?;
    Ok(Logging(handle))
}

impl Logging {
    /// From now on at this level.
    pub(crate) fn set(&self, level: Level) {
        if let Err(error) = self.0.reload(filter(level)) {
            tracing::warn!(%error, "the log level stays as it is");
        }
    }
}

fn filter(level: Level) -> EnvFilter {
    EnvFilter::new(level.name())
}

fn rolling(path: &Path) -> Result<Daily> {
    let name = path.file_name().with_context(|| format!("{}: no file name", path.display()))?;
    let name = name.to_string_lossy().into_owned();
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let appender = RollingFileAppender::builder()
        .rotation(Rotation::DAILY)
        .filename_prefix(&name)
        .build(dir)
        .with_context(|| path.display().to_string())?;
    Ok(Daily { appender, dir: dir.into(), name, tidied: Mutex::default() })
}

/// A file for each day. The appender could remove old ones itself, and would take whatever else has a name that begins so.
struct Daily {
    appender: RollingFileAppender,
    dir: PathBuf,
    name: String,
    /// The day on which old files were removed last.
    tidied: Mutex<String>,
}

impl<'w> MakeWriter<'w> for Daily {
    type Writer = RollingWriter<'w>;

    fn make_writer(&'w self) -> Self::Writer {
        let day = day(SystemTime::now());
        let mut tidied = self.tidied.lock().unwrap_or_else(PoisonError::into_inner);
        if *tidied != day {
            // What can't be removed can't be told of either: this is the log.
            let _ = tidy(&self.dir, &self.name, &day);
            *tidied = day;
        }
        drop(tidied);
        self.appender.make_writer()
    }
}

/// `YYYY-MM-DD`, as the appender ends names.
fn day(now: SystemTime) -> String {
    Timestamp::from_system(now).to_string().chars().take(10).collect()
}

/// Removes the files of earlier days but for the latest, so many that the current one is one of [`KEPT`].
fn tidy(dir: &Path, name: &str, today: &str) -> io::Result<()> {
    let mut earlier = Vec::new();
    for item in fs::read_dir(dir)? {
        let item = item?;
        let is_log = |day: &str| day < today && is_day(day) && item.file_type().is_ok_and(|kind| kind.is_file());
        let file_name = item.file_name();
        let of_ours = file_name.to_str().and_then(|file_name| file_name.strip_prefix(name)?.strip_prefix('.'));
        if of_ours.is_some_and(is_log) {
            earlier.push(item.path());
        }
    }
    earlier.sort();
    let kept = earlier.len().min(KEPT - 1);
    earlier.truncate(earlier.len() - kept);
    earlier.iter().try_for_each(fs::remove_file)
}

fn is_day(text: &str) -> bool {
    let pattern = "dddd-dd-dd";
    let fits = |(byte, wanted): (u8, u8)| if wanted == b'd' { byte.is_ascii_digit() } else { byte == wanted };
    text.len() == pattern.len() && text.bytes().zip(pattern.bytes()).all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_logs_go_and_nothing_else_that_is_called_like_them() {
        let dir = tempfile::tempdir().unwrap();
        let days: Vec<String> = (1..=9).map(|day| format!("log.2026-01-0{day}")).collect();
        let others =
            ["log", "log.txt", "login", "log.2020-01-01.gz", "log.2020-01-01x", "log.2020-13", "blog.2020-01-01"];
        for name in days.iter().map(String::as_str).chain(others).chain(["log.2030-01-01"]) {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        fs::create_dir(dir.path().join("log.2020-01-02")).unwrap();
        tidy(dir.path(), "log", "2026-01-09").unwrap();
        for name in others.into_iter().chain(["log.2020-01-02", "log.2030-01-01"]) {
            assert!(dir.path().join(name).exists(), "{name}");
        }
        let left: Vec<&String> = days.iter().filter(|name| dir.path().join(name).exists()).collect();
        assert_eq!(left, days[2..].iter().collect::<Vec<_>>());
        assert_eq!(day(SystemTime::UNIX_EPOCH), "1970-01-01");
    }
}
