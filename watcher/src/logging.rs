//! Where logs go: standard error, or a file that is changed for a new one each day. It prints nothing itself.

use std::path::Path;

use anyhow::{Context as _, Result};
use tracing_appender::rolling::{RollingFileAppender, Rotation};
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

fn rolling(path: &Path) -> Result<impl for<'w> MakeWriter<'w> + Send + Sync + 'static> {
    let name = path.file_name().with_context(|| format!("{}: no file name", path.display()))?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    RollingFileAppender::builder()
        .rotation(Rotation::DAILY)
        .max_log_files(KEPT)
        .filename_prefix(name.to_string_lossy())
        .build(dir)
        .with_context(|| path.display().to_string())
}
