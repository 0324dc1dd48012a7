//! Sessions in real files `[S1, S2]`, on Unix.
//!
//! What it creates is private whatever the umask `[D10]`; what it opens is a regular file or an error, and opening never
//! blocks on a pipe. It buffers nothing: what a call wrote is the kernel's when it returns.

mod copy;
mod handle;
mod lock;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::{DirItem, FileKind, OpenMode, SessionStorage, Stat, StorageLock, StorageReader, StorageWriter};
use crate::error::{Error, ErrorKind, Result};
use handle::{FileReader, FileWriter, kind_of, stat_of};
use lock::FileLock;

/// Permission bits of what we create `[D10]`.
const PRIVATE_FILE: u32 = 0o600;
const PRIVATE_DIR: u32 = 0o700;

/// Real files, below whatever paths the caller names. Has no state: two of them are the same.
///
/// ```
/// use session_core::storage::{FileSessionStorage, OpenMode, SessionStorage};
/// # fn main() -> session_core::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// let storage = FileSessionStorage::new();
/// let path = dir.path().join("notes.jsonl");
/// let mut writer = storage.open_writer(&path, OpenMode::Append)?;
/// writer.write_line(b"{}")?; // a killed process loses nothing of it
/// writer.fsync()?; // nor does a power cut…
/// storage.sync_dir(dir.path())?; // …of the file's name
/// assert_eq!(storage.read_text(&path)?, "{}\n");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct FileSessionStorage;

/// Nanoseconds in a second.
const NANOS: u64 = 1_000_000_000;
/// No file system numbers changes in longer ticks: some keep what the clock says, some (exFAT) hundredths of a second, and
/// others (FAT) every second second.
const FINE_TICK: Duration = Duration::from_millis(20);
const COARSE_TICK: Duration = Duration::from_secs(5);

/// The clock that the kernel numbers changes by, since 1970: it goes on in ticks, and after the clock of everybody else.
#[cfg(target_os = "linux")]
fn clock_of_changes() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    Duration::try_from(now).unwrap_or_default()
}

#[cfg(not(target_os = "linux"))]
fn clock_of_changes() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

impl FileSessionStorage {
    /// The storage of this machine's files.
    pub fn new() -> Self {
        Self
    }
}

impl SessionStorage for FileSessionStorage {
    fn ensure_dir(&self, dir: &Path) -> Result<()> {
        ensure_private_dir(dir)
    }

    fn stat(&self, path: &Path) -> Result<Option<Stat>> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(Some(stat_of(&metadata))),
            Err(error) if nothing_there(&error) => Ok(None),
            Err(error) => Err(Error::io("look at the file", path, error)),
        }
    }

    fn is_settled(&self, stat: &Stat) -> bool {
        let now = clock_of_changes();
        // A file system that keeps whole seconds, or two of them, shows by having nothing behind them.
        let tick = if stat.change.is_multiple_of(NANOS) { COARSE_TICK } else { FINE_TICK };
        let change = Duration::from_nanos(stat.change);
        now.checked_sub(change).is_some_and(|age| age > tick)
    }

    fn read_dir(&self, dir: &Path) -> Result<Option<Vec<DirItem>>> {
        let failed = |error| Error::io("read the directory", dir, error);
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let mut items = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let path = entry.path();
            let kind = match entry.file_type() {
                Ok(kind) if kind.is_symlink() => fs::metadata(&path).ok().map(|target| kind_of(target.file_type())),
                Ok(kind) => Some(kind_of(kind)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(Error::io("look at the file", &path, error)),
            };
            items.push(DirItem { path, kind });
        }
        items.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Some(items))
    }

    fn open_reader(&self, path: &Path) -> Result<Box<dyn StorageReader>> {
        let file = open_regular(path, OpenOptions::new().read(true), "read")?;
        Ok(Box::new(FileReader::new(file, path)))
    }

    fn open_writer(&self, path: &Path, mode: OpenMode) -> Result<Box<dyn StorageWriter>> {
        let file = match open_regular(path, OpenOptions::new().append(true), "write") {
            Err(error) if error.kind() == ErrorKind::NotFound => match create_private(path) {
                // Somebody else created it since we looked.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    open_regular(path, OpenOptions::new().append(true), "write")?
                }
                created => created?,
            },
            opened => opened?,
        };
        if mode == OpenMode::Truncate {
            file.set_len(0).map_err(|error| Error::io("empty the file", path, error))?;
        }
        Ok(Box::new(FileWriter::new(file, path)))
    }

    fn create_new(&self, path: &Path) -> Result<Box<dyn StorageWriter>> {
        Ok(Box::new(FileWriter::new(create_private(path)?, path)))
    }

    fn write_at(&self, path: &Path, offset: u64, bytes: &[u8]) -> Result<()> {
        let failed = |error| Error::io("overwrite part of the file", path, error);
        let file = open_regular(path, OpenOptions::new().write(true), "write")?;
        let len = file.metadata().map_err(failed)?.len();
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > len) {
            let message = format!("the range to overwrite reaches past the file's end at {len}");
            return Err(Error::new(ErrorKind::InvalidInput, message).at(path));
        }
        let written = retry_interrupted(|| file.write_at(bytes, offset)).map_err(failed)?;
        if written < bytes.len() {
            return Err(handle::short_write(path, written, bytes.len()));
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        match fs::rename(from, to) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => copy::move_across(from, to),
            Err(error) => Err(Error::io(&format!("rename it to {}", to.display()), from, error)),
        }
    }

    fn unlink(&self, path: &Path) -> Result<()> {
        fs::remove_file(path).map_err(|error| Error::io("remove the file", path, error))
    }

    fn remove_tree(&self, dir: &Path) -> Result<()> {
        let failed = |error| Error::io("remove the directory", dir, error);
        // The standard library would remove a link that is given as the directory itself; we were asked for a directory.
        if !fs::symlink_metadata(dir).map_err(failed)?.is_dir() {
            return Err(not_a("directory", dir));
        }
        fs::remove_dir_all(dir).map_err(failed)
    }

    fn copy(&self, from: &Path, to: &Path) -> Result<()> {
        copy::copy(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        sync_dir(dir)
    }

    fn set_modified(&self, path: &Path, time: SystemTime) -> Result<()> {
        let failed = |error| Error::io("set the modification time", path, error);
        let file = OpenOptions::new().read(true).custom_flags(NO_BLOCK).open(path).map_err(failed)?;
        file.set_modified(time).map_err(failed)
    }

    fn resolve(&self, path: &Path) -> PathBuf {
        resolve(path)
    }

    fn open_lock(&self, path: &Path, holder: &str) -> Result<Box<dyn StorageLock>> {
        Ok(Box::new(FileLock::open(path, holder)?))
    }

    #[cfg(target_os = "linux")]
    fn writers_of(&self, path: &Path, lock: &Path) -> Result<Vec<super::Holder>> {
        super::writers::writers_of(path, lock)
    }
}

/// Opening a pipe must not wait for its other end, nor make a terminal ours. Without effect on regular files.
const NO_BLOCK: i32 = (rustix::fs::OFlags::NONBLOCK.bits() | rustix::fs::OFlags::NOCTTY.bits()).cast_signed();

fn nothing_there(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn not_a(what: &str, path: &Path) -> Error {
    Error::new(ErrorKind::NotAFile, format!("this is no {what}")).at(path)
}

/// Opens an existing regular file. Looks before it opens, because opening a device can do things; looks again afterwards,
/// because the first look may be out of date.
fn open_regular(path: &Path, options: &mut OpenOptions, verb: &str) -> Result<File> {
    let action = format!("open the file to {verb} it");
    let failed = |error| Error::io(&action, path, error);
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(not_a("regular file", path));
    }
    let file = options.custom_flags(NO_BLOCK).open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(not_a("regular file", path));
    }
    Ok(file)
}

/// Creates a file that must not exist, for appending and reading, with exactly our mode `[D10]`.
fn create_private(path: &Path) -> Result<File> {
    let failed = |error| Error::io("create the file", path, error);
    let mut options = OpenOptions::new();
    let file = options.read(true).append(true).create_new(true).mode(PRIVATE_FILE).open(path).map_err(failed)?;
    // The mode is a wish: a umask can take our own bits away, an access list of the directory can add others'.
    if file.metadata().map_err(failed)?.mode() & 0o7777 != PRIVATE_FILE {
        file.set_permissions(fs::Permissions::from_mode(PRIVATE_FILE)).map_err(failed)?;
    }
    Ok(file)
}

fn ensure_private_dir(dir: &Path) -> Result<()> {
    let mut missing = Vec::new();
    let mut place = dir;
    loop {
        match FileSessionStorage.stat(place)? {
            Some(stat) if stat.kind == FileKind::Directory => break,
            Some(_) => return Err(not_a("directory", place)),
            None => missing.push(place),
        }
        match place.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => place = parent,
            _ => break,
        }
    }
    for dir in missing.into_iter().rev() {
        make_private_dir(dir)?;
        if let Some(parent) = dir.parent() {
            sync_dir(parent)?;
        }
    }
    Ok(())
}

/// Makes one directory, private; one that somebody else made meanwhile is as good.
fn make_private_dir(dir: &Path) -> Result<()> {
    let failed = |error| Error::io("make the directory", dir, error);
    match fs::DirBuilder::new().mode(PRIVATE_DIR).create(dir) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => return Ok(()),
        Err(error) => return Err(failed(error)),
    }
    if fs::metadata(dir).map_err(failed)?.mode() & 0o777 != PRIVATE_DIR {
        fs::set_permissions(dir, fs::Permissions::from_mode(PRIVATE_DIR)).map_err(failed)?;
    }
    Ok(())
}

fn sync_dir(dir: &Path) -> Result<()> {
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let failed = |error| Error::io("sync the directory", dir, error);
    let handle = OpenOptions::new().read(true).custom_flags(NO_BLOCK).open(dir).map_err(failed)?;
    if !handle.metadata().map_err(failed)?.is_dir() {
        return Err(not_a("directory", dir));
    }
    match handle.sync_all() {
        // Some file systems (of networks, of user space) cannot sync a directory; they have no better promise to give.
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        synced => synced.map_err(failed),
    }
}

/// Resolves the longest part of `path` that exists; `.` and `..` in the rest are taken away by name.
fn resolve(path: &Path) -> PathBuf {
    let mut known = path;
    let mut rest = Vec::new();
    let mut resolved = loop {
        let place = if known.as_os_str().is_empty() { Path::new(".") } else { known };
        if let Ok(real) = fs::canonicalize(place) {
            break real;
        }
        match (known.parent(), known.components().next_back()) {
            (Some(parent), Some(last)) => {
                rest.push(last);
                known = parent;
            }
            _ => break PathBuf::from(known),
        }
    };
    for component in rest.into_iter().rev() {
        match component {
            Component::ParentDir => drop(resolved.pop()),
            Component::CurDir => {}
            other => resolved.push(other),
        }
    }
    resolved
}

/// Runs a call again as long as a signal interrupts it before it did anything.
fn retry_interrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::contract;

    #[test]
    fn file_storage_keeps_the_contract() {
        // [S1, S2]
        let dir = tempfile::tempdir().unwrap();
        contract::check(&FileSessionStorage::new(), dir.path());
    }

    #[test]
    fn links_are_followed_to_files_and_never_into_loops() {
        // [D5, S1]
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, path(name)).unwrap();
        let storage = FileSessionStorage::new();
        storage.ensure_dir(&path("real")).unwrap();
        storage.write_text(&path("real/x"), "old").unwrap();
        link("real/x", "x");
        link("real", "dir");
        link("nowhere", "dangling");
        link("loop", "loop");
        link("..", "real/up");

        storage.write_text(&path("x"), "new").unwrap();
        assert!(fs::symlink_metadata(path("x")).unwrap().is_symlink(), "the link stays a link");
        assert_eq!(storage.read_text(&path("real/x")).unwrap(), "new");

        let real = fs::canonicalize(dir.path()).unwrap();
        assert_eq!(storage.resolve(&path("dir/x")), real.join("real/x"));
        assert_eq!(storage.resolve(&path("dir/missing/../y")), real.join("real/y"));
        assert_eq!(storage.resolve(&path("loop/x")), real.join("loop/x"));
        assert_eq!(storage.stat(&path("dangling")).unwrap(), None);
        assert!(storage.stat(&path("loop")).is_err(), "a loop is an error, not nothing [L1]");
        assert_eq!(storage.create_new(&path("dangling")).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert!(storage.open_writer(&path("dangling"), OpenMode::Append).is_err());

        let kinds: Vec<_> = storage.read_dir(dir.path()).unwrap().unwrap().into_iter().map(|item| item.kind).collect();
        let (file, directory) = (Some(FileKind::File), Some(FileKind::Directory));
        assert_eq!(kinds, [None, directory, None, directory, file], "dangling dir loop real x");

        storage.copy(&path("dir"), &path("copy")).unwrap();
        assert_eq!(fs::read_link(path("copy/up")).unwrap(), Path::new(".."), "a link in a tree stays a link");
        assert_eq!(storage.remove_tree(&path("dir")).unwrap_err().kind(), ErrorKind::NotAFile);
        storage.remove_tree(&path("copy")).unwrap();
        assert!(path("real/x").exists(), "what a link leads to is not removed");
    }

    #[test]
    fn pipes_devices_and_sockets_are_refused_at_once() {
        // [L1] Nobody holds the other end of the pipe: an opening that waited would wait for ever.
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe.jsonl");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let socket = dir.path().join("socket.jsonl");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let storage = FileSessionStorage::new();
        for path in [pipe.as_path(), &socket, Path::new("/dev/null")] {
            let errors = [
                storage.open_reader(path).unwrap_err(),
                storage.open_writer(path, OpenMode::Append).unwrap_err(),
                storage.open_writer(path, OpenMode::Truncate).unwrap_err(),
                storage.write_at(path, 0, b"x").unwrap_err(),
                storage.open_lock(path, "x").unwrap_err(),
            ];
            assert!(errors.iter().all(|error| error.kind() == ErrorKind::NotAFile), "{errors:?}");
        }
    }

    #[test]
    fn a_settled_file_or_directory_shows_every_later_change() {
        // [S1] The clock is the file system's: it is waited for.
        let dir = tempfile::tempdir().unwrap();
        let (storage, file) = (FileSessionStorage::new(), dir.path().join("x"));
        fs::write(&file, "").unwrap();
        let look = |path: &Path| storage.stat(path).unwrap().unwrap();
        let settle = |path: &Path| loop {
            let stat = look(path);
            if storage.is_settled(&stat) {
                return stat;
            }
            std::thread::yield_now();
        };
        let changes: [(&Path, &dyn Fn()); 5] = [
            (&file, &|| fs::write(&file, "y").unwrap()),
            (&file, &|| storage.set_modified(&file, SystemTime::UNIX_EPOCH).unwrap()),
            (dir.path(), &|| fs::write(dir.path().join("new"), "").unwrap()),
            (dir.path(), &|| fs::rename(dir.path().join("new"), dir.path().join("newer")).unwrap()),
            (dir.path(), &|| fs::remove_file(dir.path().join("newer")).unwrap()),
        ];
        for (path, change) in changes {
            let before = settle(path);
            change();
            assert_ne!(look(path).change, before.change);
        }
        let stat = look(&file);
        let from_ahead = Stat { change: u64::MAX, ..stat };
        let whole_second = Stat { change: stat.change / NANOS * NANOS, ..stat };
        assert!(!storage.is_settled(&from_ahead), "the clock was set back since");
        assert!(!storage.is_settled(&whole_second), "the next change may come within the same second");
    }

    #[test]
    fn a_writer_keeps_its_first_error() {
        // [W5] /dev/full cannot be opened here, so the error comes from a file opened for reading alone.
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        fs::write(&path, "kept").unwrap();
        let mut writer: Box<dyn StorageWriter> = Box::new(FileWriter::new(File::open(&path).unwrap(), &path));
        let first = writer.write_line(b"x").unwrap_err().to_string();
        for later in [writer.flush(), writer.fsync(), writer.write(b"y")] {
            assert_eq!(later.unwrap_err().to_string(), first);
        }
        assert_eq!(writer.error().unwrap().to_string(), first);
        assert_eq!(writer.close().unwrap_err().to_string(), first);
        assert_eq!(fs::read_to_string(&path).unwrap(), "kept");
    }
}
