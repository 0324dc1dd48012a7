//! Terminal pointers `[D7, P2–P4]`: one small file a terminal that says where its session is.
//!
//! Pointers are best effort `[P3]`: they name the session to continue with and hold nothing else. Every call says honestly
//! whether it worked; a session manager takes a failure as a warning, never as a reason to fail. Which sessions exist, and
//! whether a pointer's is the right one, is the caller's to judge.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::error::{Error, ErrorKind, Result};
use crate::layout::same_path;
use crate::storage::{FileKind, Replacement, SessionStorage};
use crate::terminal::TerminalId;

/// More than any pointer holds; what is longer is none.
const LONGEST: u64 = 64 * 1024;

/// What a pointer says: working directory, session file, and lines that other programs added.
///
/// ```
/// use std::path::Path;
/// use session_core::Pointer;
/// let pointer = Pointer::parse(b"/w\n/s/x.jsonl\nfresh").unwrap();
/// assert_eq!(pointer.cwd(), Path::new("/w"));
/// assert_eq!(pointer.session_file(), Path::new("/s/x.jsonl"));
/// assert!(pointer.is_fresh());
/// assert_eq!(pointer.to_bytes(), b"/w\n/s/x.jsonl\nfresh\n");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pointer {
    cwd: PathBuf,
    session_file: PathBuf,
    /// Lines of others, each with its line end.
    extra: Vec<u8>,
}

impl Pointer {
    /// A pointer of our two lines.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an empty path, or one with a line feed or NUL: a line cannot hold it.
    pub fn new(cwd: &Path, session_file: &Path) -> Result<Self> {
        for path in [cwd, session_file] {
            let bytes = path.as_os_str().as_bytes();
            if bytes.is_empty() || bytes.contains(&b'\n') || bytes.contains(&0) {
                return Err(Error::new(ErrorKind::InvalidInput, "a terminal pointer cannot hold this path").at(path));
            }
        }
        Ok(Self { cwd: cwd.into(), session_file: session_file.into(), extra: Vec::new() })
    }

    /// Reads a pointer; the last line end may be missing. None unless there are a working directory and a session file.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (cwd, rest) = first_line(bytes);
        let (session_file, extra) = first_line(rest);
        let path = |line: &[u8]| PathBuf::from(OsStr::from_bytes(line));
        let mut pointer = Self::new(&path(cwd), &path(session_file)).ok()?;
        pointer.extra = extra.to_vec();
        if !matches!(pointer.extra.last(), None | Some(b'\n')) {
            pointer.extra.push(b'\n');
        }
        Some(pointer)
    }

    /// The file's content: each line ends in a line feed `[P2]`.
    pub fn to_bytes(&self) -> Vec<u8> {
        let lines =
            [self.cwd.as_os_str().as_bytes(), b"\n", self.session_file.as_os_str().as_bytes(), b"\n", &self.extra];
        lines.concat()
    }

    /// The working directory that the terminal's session is in.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// The session file.
    pub fn session_file(&self) -> &Path {
        &self.session_file
    }

    /// The lines after our two, without their line ends.
    pub fn extra_lines(&self) -> impl Iterator<Item = &[u8]> {
        self.extra.split_inclusive(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\n").unwrap_or(line))
    }

    /// Whether it says that its session file may not exist yet `[P2]`.
    pub fn is_fresh(&self) -> bool {
        self.extra_lines().any(|line| line == b"fresh")
    }

    /// The pointer to the same session in a new place. Lines of others stay, but for `cwdstat` when the working directory
    /// is another: it describes the old one.
    ///
    /// # Errors
    /// As [`new`](Pointer::new).
    pub fn moved_to(&self, cwd: &Path, session_file: &Path) -> Result<Self> {
        let mut moved = Self::new(cwd, session_file)?;
        let stale = |line: &[u8]| cwd != self.cwd && line.starts_with(b"cwdstat ");
        for line in self.extra_lines().filter(|line| !stale(line)) {
            moved.extra.extend_from_slice(line);
            moved.extra.push(b'\n');
        }
        Ok(moved)
    }
}

fn first_line(bytes: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b'\n', bytes) {
        Some(end) => (&bytes[..end], &bytes[end + 1..]),
        None => (bytes, &[]),
    }
}

/// A pointer file as it was when it was read; what a later change is compared with.
#[derive(Clone, Debug)]
pub struct StoredPointer {
    terminal: TerminalId,
    bytes: Vec<u8>,
    modified: SystemTime,
}

impl StoredPointer {
    /// Whose pointer it is. From a listing: the file's name, which is an id whose file name it is.
    pub fn terminal(&self) -> &TerminalId {
        &self.terminal
    }

    /// What it says; none when it is no pointer.
    pub fn pointer(&self) -> Option<Pointer> {
        Pointer::parse(&self.bytes)
    }

    /// The file's content.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// When it was written last.
    pub fn modified(&self) -> SystemTime {
        self.modified
    }
}

/// What became of a change that was to happen only while the pointer is what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum PointerChange {
    /// It was made.
    Done,
    /// Somebody else wrote or removed the pointer meanwhile: given up, nothing was changed.
    GivenUp,
}

/// The pointers of one agent directory.
///
/// A pointer is replaced at once and private: a reader sees the old or the new one, whole, also after a power cut `[P4]`.
/// The directory is made when the first is written.
///
/// ```
/// use std::path::Path;
/// use session_core::storage::MemorySessionStorage;
/// use session_core::{Pointers, TerminalId};
/// # fn main() -> session_core::Result<()> {
/// let storage = MemorySessionStorage::new();
/// let pointers = Pointers::new(&storage, "/agent/terminal-sessions");
/// let terminal = TerminalId::new("pts-3")?;
/// assert_eq!(pointers.get(&terminal)?, None);
/// pointers.set(&terminal, Path::new("/w"), Path::new("/s/x.jsonl"))?;
/// assert_eq!(pointers.get(&terminal)?.unwrap().session_file(), Path::new("/s/x.jsonl"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Pointers<'a> {
    storage: &'a dyn SessionStorage,
    dir: PathBuf,
}

impl<'a> Pointers<'a> {
    /// The pointers in `dir`, an agent directory's `terminal-sessions`.
    pub fn new(storage: &'a dyn SessionStorage, dir: impl Into<PathBuf>) -> Self {
        Self { storage, dir: dir.into() }
    }

    /// The file of a terminal's pointer.
    pub fn path(&self, terminal: &TerminalId) -> PathBuf {
        self.dir.join(terminal.file_name())
    }

    /// The terminal's pointer; none when there is none, or what is there is no pointer.
    pub fn get(&self, terminal: &TerminalId) -> Result<Option<Pointer>> {
        Ok(self.read(terminal)?.and_then(|stored| stored.pointer()))
    }

    /// The terminal's pointer file, to be changed later if it is still the same; none when there is none.
    pub fn read(&self, terminal: &TerminalId) -> Result<Option<StoredPointer>> {
        self.read_file(&self.path(terminal), terminal)
    }

    /// All pointer files, by name. One that cannot be read is an error in its place and hides no other. Hidden files are
    /// none: an id never begins with a dot `[P4]`.
    pub fn list(&self) -> Result<Vec<Result<StoredPointer>>> {
        let items = self.storage.read_dir(&self.dir)?.unwrap_or_default();
        let mut found = Vec::new();
        for item in items.into_iter().filter(|item| item.kind == Some(FileKind::File)) {
            let name = item.path.file_name().unwrap_or_default();
            if name.as_bytes().starts_with(b".") {
                continue;
            }
            let Some(name) = name.to_str() else {
                let message = "the name of this terminal pointer is no UTF-8; nothing of this family writes such names";
                found.push(Err(Error::new(ErrorKind::InvalidInput, message).at(&item.path)));
                continue;
            };
            let terminal = TerminalId::new(name)?;
            found.extend(self.read_file(&item.path, &terminal).transpose());
        }
        Ok(found)
    }

    /// Points the terminal at a session `[P3]`. Lines that others added stay while the session file is the same `[P2]`.
    pub fn set(&self, terminal: &TerminalId, cwd: &Path, session_file: &Path) -> Result<()> {
        self.replacement(terminal, cwd, session_file)?.commit()
    }

    /// As [`set`](Pointers::set), without waiting for the medium: every process sees the new pointer when this returns, and a
    /// power cut may leave the old one, the new one or an empty file, which is no pointer.
    pub fn set_soon(&self, terminal: &TerminalId, cwd: &Path, session_file: &Path) -> Result<()> {
        self.replacement(terminal, cwd, session_file)?.commit_soon()
    }

    fn replacement(
        &self,
        terminal: &TerminalId,
        cwd: &Path,
        session_file: &Path,
    ) -> Result<Replacement<'a, dyn SessionStorage + 'a>> {
        let mut pointer = Pointer::new(cwd, session_file)?;
        // An old pointer that cannot be read has no lines to keep; it is replaced.
        if let Ok(Some(old)) = self.get(terminal)
            && same_path(self.storage, old.session_file(), session_file)
        {
            pointer.extra = old.extra;
        }
        self.storage.ensure_dir(&self.dir)?;
        let mut replacement = Replacement::of(self.storage, &self.path(terminal))?;
        replacement.write(&pointer.to_bytes())?;
        Ok(replacement)
    }

    /// Makes all pointers to the session file `from` point to `to`, for a session that moved to the working directory `cwd`
    /// `[T9]`; the terminals whose pointers follow now. One that can't be read or written, or that somebody else changes
    /// meanwhile, is left as it is.
    ///
    /// # Errors
    /// When the directory of the pointers can't be read, or a pointer cannot hold these paths.
    pub fn follow(&self, from: &Path, cwd: &Path, to: &Path) -> Result<Vec<TerminalId>> {
        Pointer::new(cwd, to)?;
        let mut followed = Vec::new();
        for stored in self.list()?.into_iter().flatten() {
            let Some(pointer) = stored.pointer().filter(|pointer| pointer.session_file() == from) else { continue };
            match self.replace(&stored, &pointer.moved_to(cwd, to)?) {
                Ok(PointerChange::Done) => followed.push(stored.terminal.clone()),
                Ok(PointerChange::GivenUp) => {}
                Err(error) => tracing::warn!(%error, "a terminal's pointer does not follow its session"),
            }
        }
        Ok(followed)
    }

    /// Replaces a pointer only if it still is what it was. It is read again immediately before the replacement; what another
    /// program writes in the instant between the two is lost, as it would be had it written an instant earlier.
    pub fn replace(&self, seen: &StoredPointer, pointer: &Pointer) -> Result<PointerChange> {
        let mut replacement = Replacement::of(self.storage, &self.path(&seen.terminal))?;
        replacement.write(&pointer.to_bytes())?;
        replacement.complete()?;
        if !self.is_still(seen)? {
            return Ok(PointerChange::GivenUp);
        }
        replacement.commit()?;
        Ok(PointerChange::Done)
    }

    /// Removes a pointer only if it still is what it was, with the same short gap as [`replace`](Pointers::replace).
    pub fn remove(&self, seen: &StoredPointer) -> Result<PointerChange> {
        if !self.is_still(seen)? {
            return Ok(PointerChange::GivenUp);
        }
        match self.storage.unlink(&self.path(&seen.terminal)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(PointerChange::GivenUp),
            removed => removed.and_then(|()| self.storage.sync_dir(&self.dir)).map(|()| PointerChange::Done),
        }
    }

    fn is_still(&self, seen: &StoredPointer) -> Result<bool> {
        Ok(self.read(&seen.terminal)?.is_some_and(|now| now.bytes == seen.bytes))
    }

    fn read_file(&self, path: &Path, terminal: &TerminalId) -> Result<Option<StoredPointer>> {
        let missing = |error: Error| if error.kind() == ErrorKind::NotFound { Ok(None) } else { Err(error) };
        let bytes = match self.storage.read_bytes(path, LONGEST + 1) {
            Ok(bytes) => bytes,
            Err(error) => return missing(error),
        };
        if bytes.len() as u64 > LONGEST {
            return Err(Error::new(ErrorKind::TooLarge, "this is too long for a terminal pointer").at(path));
        }
        let Some(stat) = self.storage.stat(path)? else {
            return Ok(None);
        };
        Ok(Some(StoredPointer { terminal: terminal.clone(), bytes, modified: stat.modified }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::storage::{MemorySessionStorage, is_temporary};

    const DIR: &str = "/agent/terminal-sessions";

    fn terminal() -> TerminalId {
        TerminalId::new("kitty-5").unwrap()
    }

    fn storage(text: &str) -> MemorySessionStorage {
        let storage = MemorySessionStorage::new();
        storage.ensure_dir(Path::new(DIR)).unwrap();
        storage.write_text(&Path::new(DIR).join("kitty-5"), text).unwrap();
        storage
    }

    fn text(storage: &MemorySessionStorage) -> String {
        storage.read_text(&Path::new(DIR).join("kitty-5")).unwrap()
    }

    #[test]
    fn pointers_follow_a_session_that_moved_and_no_other() {
        // [P3, P2]
        let storage = MemorySessionStorage::new();
        storage.ensure_dir(Path::new(DIR)).unwrap();
        let write = |name: &str, text: &str| storage.write_text(&Path::new(DIR).join(name), text).unwrap();
        write("pts-1", "/old\n/s/x.jsonl\ncwdstat 7 8\nfuture line");
        write("pts-2", "/old\n/s/x.jsonl\n");
        write("pts-3", "/old\n/s/y.jsonl\nfresh\n");
        write("pts-4", "no pointer");
        write(".hidden", "/old\n/s/x.jsonl\n");
        let pointers = Pointers::new(&storage, DIR);
        let follow = || {
            let followed =
                pointers.follow(Path::new("/s/x.jsonl"), Path::new("/new"), Path::new("/t/x.jsonl")).unwrap();
            followed.iter().map(|terminal| terminal.as_str().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(follow(), ["pts-1", "pts-2"]);
        let text = |name: &str| storage.read_text(&Path::new(DIR).join(name)).unwrap();
        assert_eq!(text("pts-1"), "/new\n/t/x.jsonl\nfuture line\n", "the old directory's `cwdstat` goes");
        assert_eq!(text("pts-2"), "/new\n/t/x.jsonl\n");
        assert_eq!(text("pts-3"), "/old\n/s/y.jsonl\nfresh\n");
        assert_eq!((text("pts-4").as_str(), text(".hidden").as_str()), ("no pointer", "/old\n/s/x.jsonl\n"));
        assert_eq!(follow(), [""; 0], "nobody is left behind");
        let nowhere = pointers.follow(Path::new("/t/x.jsonl"), Path::new("/new"), Path::new("/a\nb")).unwrap_err();
        assert_eq!(nowhere.kind(), ErrorKind::InvalidInput);
        assert_eq!(text("pts-2"), "/new\n/t/x.jsonl\n");
    }

    #[test]
    fn a_pointer_that_is_set_soon_is_there_for_everybody_at_once() {
        // [P2, P3]
        let storage = storage("/w\n/s/x.jsonl\nfuture line\n");
        let pointers = Pointers::new(&storage, DIR);
        pointers.set_soon(&terminal(), Path::new("/v"), Path::new("/s/x.jsonl")).unwrap();
        assert_eq!(text(&storage), "/v\n/s/x.jsonl\nfuture line\n");
        pointers.set_soon(&terminal(), Path::new("/v"), Path::new("/s/y.jsonl")).unwrap();
        assert_eq!(text(&storage), "/v\n/s/y.jsonl\n");
        let items = storage.read_dir(Path::new(DIR)).unwrap().unwrap();
        assert!(items.iter().all(|item| !is_temporary(item.path.file_name().unwrap())));
        assert_eq!(
            pointers.set_soon(&terminal(), Path::new("/v"), Path::new("/a\nb")).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
    }

    #[test]
    fn lines_of_others_stay_with_the_session() {
        // [P2]
        let storage = storage("/w\n/s/x.jsonl\ncwdstat 7 8\nfuture line\n");
        let pointers = Pointers::new(&storage, DIR);
        pointers.set(&terminal(), Path::new("/w"), Path::new("/s/./x.jsonl")).unwrap();
        assert_eq!(text(&storage), "/w\n/s/./x.jsonl\ncwdstat 7 8\nfuture line\n");
        pointers.set(&terminal(), Path::new("/w"), Path::new("/s/y.jsonl")).unwrap();
        assert_eq!(text(&storage), "/w\n/s/y.jsonl\n");
    }

    #[test]
    fn a_moved_session_takes_the_lines_along() {
        // [P2, T9]
        let pointer = Pointer::parse(b"/w\n/s/x.jsonl\ncwdstat 7 8\n\nfuture").unwrap();
        let renamed = pointer.moved_to(Path::new("/w"), Path::new("/t/x.jsonl")).unwrap();
        assert_eq!(renamed.to_bytes(), b"/w\n/t/x.jsonl\ncwdstat 7 8\n\nfuture\n");
        let moved = pointer.moved_to(Path::new("/v"), Path::new("/t/x.jsonl")).unwrap();
        assert_eq!(moved.to_bytes(), b"/v\n/t/x.jsonl\n\nfuture\n");
    }

    #[test]
    fn what_is_no_pointer_is_none_and_can_be_replaced() {
        for bad in ["", "\n", "/w", "/w\n", "/w\n\nfresh\n", "\n/s/x.jsonl\n", "/w\0\n/s/x\n"] {
            let storage = storage(bad);
            let pointers = Pointers::new(&storage, DIR);
            assert_eq!(pointers.get(&terminal()).unwrap(), None, "{bad:?}");
            pointers.set(&terminal(), Path::new("/w"), Path::new("/s/x.jsonl")).unwrap();
            assert_eq!(text(&storage), "/w\n/s/x.jsonl\n");
        }
        for bad in ["", "/a\nb", "/a\0b"] {
            assert_eq!(Pointer::new(Path::new(bad), Path::new("/x")).unwrap_err().kind(), ErrorKind::InvalidInput);
            assert_eq!(Pointer::new(Path::new("/x"), Path::new(bad)).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn a_pointer_that_changed_meanwhile_is_left_alone() {
        let storage = storage("/w\n/s/x.jsonl\n");
        let pointers = Pointers::new(&storage, DIR);
        let seen = pointers.read(&terminal()).unwrap().unwrap();
        let new = Pointer::new(Path::new("/w"), Path::new("/s/y.jsonl")).unwrap();

        storage.write_text(&pointers.path(&terminal()), "/w\n/s/z.jsonl\n").unwrap();
        assert_eq!(pointers.replace(&seen, &new).unwrap(), PointerChange::GivenUp);
        assert_eq!(pointers.remove(&seen).unwrap(), PointerChange::GivenUp);
        assert_eq!(text(&storage), "/w\n/s/z.jsonl\n");

        let seen = pointers.read(&terminal()).unwrap().unwrap();
        assert_eq!(pointers.replace(&seen, &new).unwrap(), PointerChange::Done);
        assert_eq!(text(&storage), "/w\n/s/y.jsonl\n");
        let seen = pointers.read(&terminal()).unwrap().unwrap();
        assert_eq!(pointers.remove(&seen).unwrap(), PointerChange::Done);
        assert_eq!(pointers.remove(&seen).unwrap(), PointerChange::GivenUp);
        assert_eq!(
            pointers.replace(&seen, &new).unwrap(),
            PointerChange::GivenUp,
            "a removed pointer does not come back"
        );
        let left = storage.read_dir(Path::new(DIR)).unwrap().unwrap();
        assert!(left.is_empty(), "no temporary file is left: {left:?}");
    }

    #[test]
    fn a_listing_shows_every_pointer_and_what_is_wrong() {
        let storage = storage("/w\n/s/x.jsonl\n");
        let dir = Path::new(DIR);
        storage.write_text(&dir.join("broken"), "").unwrap();
        storage.write_text(&dir.join("huge"), &"x".repeat(100_000)).unwrap();
        storage.write_text(&dir.join(".hidden"), "/w\n/s/x.jsonl\n").unwrap();
        storage.ensure_dir(&dir.join("directory")).unwrap();
        let pointers = Pointers::new(&storage, DIR);
        let odd = TerminalId::new("kitty-7/../8").unwrap();
        pointers.set(&odd, Path::new("/w"), Path::new("/s/y.jsonl")).unwrap();

        let list = pointers.list().unwrap();
        let shown: Vec<_> = list
            .iter()
            .map(|item| match item {
                Ok(stored) => (stored.terminal().as_str(), stored.pointer().is_some()),
                Err(error) => (error.path().unwrap().file_name().unwrap().to_str().unwrap(), false),
            })
            .collect();
        assert_eq!(shown, [("broken", false), ("huge", false), ("kitty-5", true), ("kitty-7%2F..%2F8", true)]);
        let Ok(stored) = &list[3] else { panic!("readable") };
        let new = Pointer::new(Path::new("/w"), Path::new("/s/z.jsonl")).unwrap();
        assert_eq!(pointers.replace(stored, &new).unwrap(), PointerChange::Done);
        assert_eq!(pointers.get(&odd).unwrap(), Some(new), "a name from the listing reaches the same file");
        assert!(Pointers::new(&storage, "/nowhere").list().unwrap().is_empty());
    }

    fn line() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>().prop_filter("one line", |byte| !matches!(byte, b'\n' | 0)), 1..20)
    }

    proptest! {
        #[test]
        fn property_any_bytes_parse_to_what_is_written_back(bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..80),
            prop::collection::vec(line(), 0..5).prop_map(|lines| lines.join(&b'\n')),
        ]) {
            // [P2] Nothing is lost but a missing last line end, which is added.
            if let Some(pointer) = Pointer::parse(&bytes) {
                let mut whole = bytes.clone();
                if !whole.ends_with(b"\n") {
                    whole.push(b'\n');
                }
                prop_assert_eq!(pointer.to_bytes(), whole.clone());
                prop_assert_eq!(Pointer::parse(&whole), Some(pointer));
            }
        }

        #[test]
        fn property_setting_a_pointer_is_read_back_and_leaves_no_other_file(
            cwd in line(), file in line(), id in "[^\0]{1,20}"
        ) {
            // [P2, P4]
            let storage = MemorySessionStorage::new();
            let pointers = Pointers::new(&storage, DIR);
            let terminal = TerminalId::new(&id).unwrap();
            let (cwd, file) = (Path::new(OsStr::from_bytes(&cwd)), Path::new(OsStr::from_bytes(&file)));
            pointers.set(&terminal, cwd, file).unwrap();
            prop_assert_eq!(pointers.get(&terminal).unwrap(), Some(Pointer::new(cwd, file).unwrap()));
            let names = storage.list_files(Path::new(DIR), "*").unwrap();
            prop_assert_eq!(names.len(), 1);
            prop_assert!(!is_temporary(names[0].file_name().unwrap()));
        }
    }
}
