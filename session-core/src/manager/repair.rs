//! An explicit repair: the damage leaves the file, the whole original stays beside it `[L1b]`, K6.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Host, SessionManager};
use crate::disk::held_elsewhere;
use crate::error::{Error, ErrorKind, Result};
use crate::header::{CURRENT_VERSION, Header, TITLE_SLOT_LEN, TitleSlot};
use crate::id::SessionId;
use crate::json::quote;
use crate::session::Session;
use crate::storage::{Replacement, SessionStorage};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What a repair would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairPlan {
    /// How many entries the repaired file would hold.
    pub entries: usize,
    /// Whether the header would be made anew, from the file's name and its entries.
    pub header_rebuilt: bool,
}

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

/// A file that has something to repair, as a session.
struct Damaged {
    session: Session,
    header: Header,
    header_rebuilt: bool,
}

impl SessionManager {
    /// What [`repair`](Self::repair) would do; none when there is nothing to repair. Writes nothing.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] and [`ErrorKind::ReadOnly`] as `repair`; what kept the file from being read.
    pub fn plan_repair(host: &Host, file: &Path, cwd: Option<&Path>) -> Result<Option<RepairPlan>> {
        let plan = |damaged: Damaged| RepairPlan {
            entries: damaged.session.entries().len(),
            header_rebuilt: damaged.header_rebuilt,
        };
        Ok(Damaged::read(host, file, cwd)?.map(plan))
    }

    /// Repairs a session file: title slot, header and whole entries stay, each on a line of its own, in their order, older
    /// versions migrated; damaged lines, further headers and lines without an id leave it. The file as it was is kept beside it
    /// as `<name>.damaged-<time>`. Without a valid header one is made from the file's name and its entries, with `cwd` when the
    /// caller knows it: a directory's name never decides that `[D5]`.
    ///
    /// Returns none, and writes nothing, when there is nothing to repair. A crash leaves the old file or the new one, whole;
    /// what it was is on the medium before that.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when not even one entry can be read; [`ErrorKind::HeldElsewhere`] while another process
    /// has the file open for writing; [`ErrorKind::ReadOnly`] for versions that are never rewritten.
    pub fn repair(host: &Host, file: &Path, cwd: Option<&Path>) -> Result<Option<Repair>> {
        let Some(seen) = Damaged::read(host, file, cwd)? else { return Ok(None) };
        let lock_path = host.agent.session_lock(seen.header.id());
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
        // Somebody may have written, or repaired, before the lock was ours.
        let Some(damaged) = Damaged::read(host, file, cwd)? else { return Ok(None) };
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let original = file.with_file_name(format!("{name}.damaged-{}", host.clock.now().file_name_form()));
        host.storage.copy(file, &original)?;

        let modified = host.storage.stat(file)?.map(|stat| stat.modified);
        let mut new = Replacement::of(host.storage.as_ref(), file)?;
        damaged.write(&mut new, host.storage.as_ref(), file)?;
        if let Some(modified) = modified {
            new.set_modified(modified)?;
        }
        new.commit()?;
        let entries = damaged.session.entries().len();
        Ok(Some(Repair { original, entries, header_rebuilt: damaged.header_rebuilt }))
    }
}

impl Damaged {
    /// None when there is nothing to repair.
    fn read(host: &Host, file: &Path, cwd: Option<&Path>) -> Result<Option<Self>> {
        let mut session = Session::read_from(Arc::clone(&host.storage), file)?;
        let header_rebuilt = session.header().is_none();
        if header_rebuilt {
            session = session_without_header(host, file, cwd)?;
        }
        let Some(header) = session.header().cloned() else { unreachable!("it was read or made") };
        if !header.version().is_writable() {
            return Err(Error::new(ErrorKind::ReadOnly, "sessions of this version are never rewritten").at(file));
        }
        let is_damaged = header_rebuilt || session.loaded.has_extra;
        Ok(is_damaged.then_some(Self { session, header, header_rebuilt }))
    }

    /// What is whole.
    fn write(
        &self,
        new: &mut Replacement<'_, dyn SessionStorage + '_>,
        storage: &dyn SessionStorage,
        file: &Path,
    ) -> Result<()> {
        if let Some(slot) = slot(storage, file)? {
            new.write(&slot)?;
        }
        new.write(&self.header.migrated())?;
        new.write(b"\n")?;
        let mut payloads = self.session.payloads();
        for entry in self.session.log().indices() {
            let mut line = payloads.line(entry)?;
            line.push(b'\n');
            new.write(&line)?;
        }
        Ok(())
    }
}

/// The title slot, which stands before the header and is no part of it `[F8]`.
fn slot(storage: &dyn SessionStorage, file: &Path) -> Result<Option<Vec<u8>>> {
    let begin = storage.read_bytes(file, (BYTE_ORDER_MARK.len() + TITLE_SLOT_LEN) as u64)?;
    let begin = begin.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&begin);
    let slot = begin.get(..TITLE_SLOT_LEN).filter(|slot| TitleSlot::parse(slot).is_some());
    Ok(slot.map(<[u8]>::to_vec))
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
