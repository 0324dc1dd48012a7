//! An explicit repair: the damage leaves the file, the whole original stays beside it `[L1b]`, K6.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Host, SessionManager};
use crate::disk::held_elsewhere;
use crate::error::{Error, ErrorKind, Result};
use crate::header::{CURRENT_VERSION, Header};
use crate::id::SessionId;
use crate::json::quote;
use crate::session::Session;
use crate::storage::Replacement;

/// What a repair did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// The file as it was, byte for byte.
    pub original: PathBuf,
    /// How many entries the repaired file holds.
    pub entries: usize,
    /// Whether the header was made anew, from the file's name and its entries.
    pub header_rebuilt: bool,
}

impl SessionManager {
    /// Repairs a session file: header and whole entries stay, each on a line of its own, in their order, older versions
    /// migrated; damaged lines, further headers and lines without an id leave it. The file as it was is kept beside it as
    /// `<name>.damaged-<time>`. Without a valid header one is made from the file's name and its entries, with `cwd` when the
    /// caller knows it: a directory's name never decides that `[D5]`.
    ///
    /// Returns none, and writes nothing, when there is nothing to repair. A crash leaves the old file or the new one, whole.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when not even one entry can be read; [`ErrorKind::HeldElsewhere`] while another process
    /// has the file open for writing; [`ErrorKind::ReadOnly`] for versions that are never rewritten.
    pub fn repair(host: &Host, file: &Path, cwd: Option<&Path>) -> Result<Option<Repair>> {
        let mut session = Session::read_from(Arc::clone(&host.storage), file)?;
        let header_rebuilt = session.header().is_none();
        if header_rebuilt {
            session = session_without_header(host, file, cwd)?;
        }
        let Some(header) = session.header() else { unreachable!("it was read or made") };
        if !header.version().is_writable() {
            return Err(Error::new(ErrorKind::ReadOnly, "sessions of this version are never rewritten").at(file));
        }
        if !header_rebuilt && !session.loaded.has_extra {
            return Ok(None);
        }
        let lock_path = host.agent.session_lock(header.id());
        if let Some(dir) = lock_path.parent() {
            host.storage.ensure_dir(dir)?;
        }
        let _lock = host.storage.lock(
            &lock_path,
            &format!("process {}", std::process::id()),
            std::time::Duration::from_secs(2),
        )?;
        if let Some(holder) = host.storage.writers_of(file, &lock_path)?.first() {
            return Err(held_elsewhere(holder, file));
        }
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let original = file.with_file_name(format!("{name}.damaged-{}", host.clock.now().file_name_form()));
        host.storage.copy(file, &original)?;

        let modified = host.storage.stat(file)?.map(|stat| stat.modified);
        let mut new = Replacement::of(host.storage.as_ref(), file)?;
        new.write(&header.migrated())?;
        new.write(b"\n")?;
        let mut payloads = session.payloads();
        for entry in session.log().indices() {
            let mut line = payloads.line(entry)?;
            line.push(b'\n');
            new.write(&line)?;
        }
        if let Some(modified) = modified {
            new.set_modified(modified)?;
        }
        new.commit()?;
        Ok(Some(Repair { original, entries: session.entries().len(), header_rebuilt }))
    }
}

/// Reads a file whose header is missing as if one made from its name stood before it.
fn session_without_header(host: &Host, file: &Path, cwd: Option<&Path>) -> Result<Session> {
    let current = made_header(host, file, cwd, CURRENT_VERSION);
    let session = Session::read_below(Arc::clone(&host.storage), file, current)?;
    if session.entries().len() > 0 {
        return Ok(session);
    }
    // Entries of version 1 have no ids.
    let session = Session::read_below(Arc::clone(&host.storage), file, made_header(host, file, cwd, 1))?;
    if session.entries().len() == 0 {
        return Err(
            Error::new(ErrorKind::InvalidInput, "not one entry can be read; there is nothing to repair").at(file)
        );
    }
    Ok(session)
}

/// A header for a file named `<time>_<id>.jsonl` `[D3]`; a name of another form is the id itself.
fn made_header(host: &Host, file: &Path, cwd: Option<&Path>, version: u32) -> Header {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let id = SessionId::from(stem.rsplit('_').next().unwrap_or(&stem));
    let timestamp = stem.get(..24).and_then(time_of_name).unwrap_or_else(|| host.clock.now().to_string());
    let cwd = cwd.map(|cwd| format!(",\"cwd\":{}", quote(&cwd.to_string_lossy()))).unwrap_or_default();
    let id = quote(id.as_str());
    let line = format!("{{\"type\":\"session\",\"version\":{version},\"id\":{id},\"timestamp\":\"{timestamp}\"{cwd}}}");
    let Some(header) = Header::parse(line.as_bytes()) else { unreachable!("a composed header is one") };
    header
}

/// `2026-01-05T09-30-00-250Z` as a time; none when it is not of that form.
fn time_of_name(name: &str) -> Option<String> {
    let (date, time) = name.split_once('T')?;
    let [hour, minute, second, millis]: [&str; 4] = time.split('-').collect::<Vec<_>>().try_into().ok()?;
    let text = format!("{date}T{hour}:{minute}:{second}.{millis}");
    crate::Timestamp::parse(&text).map(|_| text)
}
