//! Copies of files and trees, and moves across file systems `[S1]`.
//!
//! A copy is made under a temporary name beside its place and renamed there when it is complete and synced, so that a crash
//! never leaves half of one under the real name. No link is followed into another place, and nothing that is no file,
//! directory or link is copied.

use std::fs::{self, File, FileTimes, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{create_private, make_private_dir, not_a, open_regular, sync_dir};
use crate::error::{Error, ErrorKind, Result};
use crate::storage::replacement::temporary_name;

/// Copies a file or tree to a path that must not exist.
pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    if fs::symlink_metadata(to).is_ok() {
        return Err(already_there(to));
    }
    // A link given as the source itself stands for what it leads to: a session file may be one.
    let source = fs::canonicalize(from).map_err(|error| Error::io("copy it", from, error))?;
    let copy = Unfinished::beside(to)?;
    copy_tree(&source, &copy.path)?;
    rename_to_nothing(&copy.path, to)?;
    copy.finished();
    sync_dir(parent(to))
}

/// Moves a file or tree to another file system: copy, sync, compare, rename into place, remove.
pub(super) fn move_across(from: &Path, to: &Path) -> Result<()> {
    Moving::copied(from, to)?.finish()
}

/// A move of which the copy is made and nothing shows yet.
struct Moving<'a> {
    from: &'a Path,
    to: &'a Path,
    before: Vec<Item>,
    copy: Unfinished,
}

impl<'a> Moving<'a> {
    fn copied(from: &'a Path, to: &'a Path) -> Result<Self> {
        let before = snapshot(from)?;
        let copy = Unfinished::beside(to)?;
        copy_tree(from, &copy.path)?;
        Ok(Self { from, to, before, copy })
    }

    fn finish(self) -> Result<()> {
        let Self { from, to, before, copy } = self;
        for item in before.iter().filter(|item| item.kind == Kind::File) {
            let (original, copied) = (from.join_below(&item.below), copy.path.join_below(&item.below));
            if !same_bytes(&original, &copied)? {
                return Err(changed(&original, "nothing was moved"));
            }
        }
        if snapshot(from)? != before {
            return Err(changed(from, "nothing was moved"));
        }
        fs::rename(&copy.path, to).map_err(|error| Error::io(&format!("move it to {}", to.display()), from, error))?;
        copy.finished();
        sync_dir(parent(to))?;
        // What was added in the last moment is only in the original: then both stay.
        if snapshot(from)? != before {
            return Err(changed(from, &format!("it stays, beside the copy at {}", to.display())));
        }
        let tree = before.first().is_some_and(|root| root.kind == Kind::Directory);
        let removed = if tree { fs::remove_dir_all(from) } else { fs::remove_file(from) };
        removed.map_err(|error| Error::io("remove what was moved away", from, error))?;
        sync_dir(parent(from))
    }
}

/// A copy under its temporary name; removed unless it is finished.
struct Unfinished {
    path: PathBuf,
    finished: bool,
}

impl Unfinished {
    fn beside(to: &Path) -> Result<Self> {
        let Some(name) = to.file_name() else {
            return Err(Error::new(ErrorKind::InvalidInput, "a copy cannot have this name").at(to));
        };
        Ok(Self { path: parent(to).join(temporary_name(name)), finished: false })
    }

    fn finished(mut self) {
        self.finished = true;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let removed = match fs::symlink_metadata(&self.path) {
            Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(&self.path),
            Ok(_) => fs::remove_file(&self.path),
            Err(_) => Ok(()),
        };
        if let Err(error) = removed {
            tracing::warn!(%error, path = %self.path.display(), "a temporary copy could not be removed; it is safe to delete");
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    Directory,
    Link,
}

/// One thing in a tree and what would tell that it changed.
#[derive(Debug, PartialEq, Eq)]
struct Item {
    below: PathBuf,
    kind: Kind,
    /// Identity, length and time; of a directory its identity alone.
    state: [i64; 5],
}

/// Everything at and below `root`, directories before what is in them, links not followed.
fn snapshot(root: &Path) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(below) = pending.pop() {
        let path = root.join_below(&below);
        let metadata = fs::symlink_metadata(&path).map_err(|error| Error::io("look at it", &path, error))?;
        let kind = kind(&metadata, &path)?;
        let identity = [metadata.dev().cast_signed(), metadata.ino().cast_signed()];
        let state = match kind {
            Kind::Directory => [identity[0], identity[1], 0, 0, 0],
            _ => [identity[0], identity[1], metadata.len().cast_signed(), metadata.mtime(), metadata.mtime_nsec()],
        };
        if kind == Kind::Directory {
            let failed = |error| Error::io("read the directory", &path, error);
            let entries = fs::read_dir(&path).map_err(failed)?;
            let names = entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>().map_err(failed)?;
            pending.extend(names.into_iter().map(|name| below.join(name)));
        }
        items.push(Item { below, kind, state });
    }
    // The order of a directory is nobody's promise.
    items.sort_by(|a, b| a.below.cmp(&b.below));
    Ok(items)
}

fn kind(metadata: &Metadata, path: &Path) -> Result<Kind> {
    match metadata.file_type() {
        kind if kind.is_file() => Ok(Kind::File),
        kind if kind.is_dir() => Ok(Kind::Directory),
        kind if kind.is_symlink() => Ok(Kind::Link),
        _ => Err(not_a("file, directory or link; it cannot be copied", path)),
    }
}

/// Copies what is at `from` to `to`, each file and directory synced.
fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    let items = snapshot(from)?;
    for item in &items {
        let (source, target) = (from.join_below(&item.below), to.join_below(&item.below));
        match item.kind {
            Kind::Directory => make_private_dir(&target)?,
            Kind::File => copy_file(&source, &target)?,
            Kind::Link => fs::read_link(&source)
                .and_then(|leads_to| std::os::unix::fs::symlink(leads_to, &target))
                .map_err(|error| Error::io("copy the link", &source, error))?,
        }
    }
    for item in items.iter().filter(|item| item.kind == Kind::Directory) {
        sync_dir(&to.join_below(&item.below))?;
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path) -> Result<()> {
    let mut source = open_regular(from, fs::OpenOptions::new().read(true), "copy")?;
    let mut target = create_private(to)?;
    let failed = |error| Error::io(&format!("copy it to {}", to.display()), from, error);
    io::copy(&mut source, &mut target).map_err(failed)?;
    let modified = source.metadata().and_then(|metadata| metadata.modified()).map_err(failed)?;
    target.set_times(FileTimes::new().set_modified(modified)).map_err(failed)?;
    target.sync_all().map_err(failed)
}

fn same_bytes(a: &Path, b: &Path) -> Result<bool> {
    const PIECE: usize = 64 * 1024;
    let open = |path: &Path| open_regular(path, fs::OpenOptions::new().read(true), "compare");
    let read = |file: &mut File, path: &Path, piece: &mut Vec<u8>| {
        piece.clear();
        file.take(PIECE as u64).read_to_end(piece).map_err(|error| Error::io("compare it", path, error))
    };
    let (mut file_a, mut file_b) = (open(a)?, open(b)?);
    let (mut piece_a, mut piece_b) = (Vec::new(), Vec::new());
    loop {
        read(&mut file_a, a, &mut piece_a)?;
        read(&mut file_b, b, &mut piece_b)?;
        if piece_a != piece_b {
            return Ok(false);
        }
        if piece_a.is_empty() {
            return Ok(true);
        }
    }
}

/// Renames to a name that must be free: by the kernel's word where it has one, else by a look before.
fn rename_to_nothing(from: &Path, to: &Path) -> Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => already_there(to),
        _ => Error::io("put the copy in place", to, error),
    };
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            if fs::symlink_metadata(to).is_ok() {
                return Err(already_there(to));
            }
            fs::rename(from, to).map_err(failed)
        }
        renamed => renamed.map_err(|error| failed(error.into())),
    }
}

fn already_there(path: &Path) -> Error {
    Error::new(ErrorKind::AlreadyExists, "there is something at this path already; nothing was copied").at(path)
}

fn changed(path: &Path, so: &str) -> Error {
    Error::new(ErrorKind::Changed, format!("changed while it was being moved to another file system; {so}")).at(path)
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}

trait JoinBelow {
    /// `join`, without the separator that joining an empty path would add.
    fn join_below(&self, below: &Path) -> PathBuf;
}

impl JoinBelow for Path {
    fn join_below(&self, below: &Path) -> PathBuf {
        if below.as_os_str().is_empty() { self.to_path_buf() } else { self.join(below) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_across_keeps_bytes_times_and_links_and_leaves_nothing_behind() {
        // [S1] The path that rename takes between file systems, run within one.
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("from");
        fs::create_dir_all(from.join("deep/er")).unwrap();
        fs::write(from.join("deep/er/a.log"), vec![7; 200_000]).unwrap();
        std::os::unix::fs::symlink("er/a.log", from.join("deep/link")).unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
        File::open(from.join("deep/er/a.log")).unwrap().set_modified(time).unwrap();

        let to = dir.path().join("to");
        move_across(&from, &to).unwrap();
        assert!(!from.exists());
        assert_eq!(fs::read(to.join("deep/link")).unwrap(), vec![7; 200_000]);
        assert_eq!(fs::read_link(to.join("deep/link")).unwrap(), Path::new("er/a.log"));
        assert_eq!(fs::metadata(to.join("deep/er/a.log")).unwrap().modified().unwrap(), time);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);

        let (file, taken) = (dir.path().join("file"), dir.path().join("taken"));
        fs::write(&file, "new").unwrap();
        fs::write(&taken, "old").unwrap();
        move_across(&file, &taken).unwrap();
        assert_eq!(fs::read_to_string(&taken).unwrap(), "new");
        assert!(!file.exists());
    }

    #[test]
    fn what_changes_during_a_move_is_not_moved() {
        // [S1]
        let changes: [fn(&Path); 3] = [
            |dir| fs::write(dir.join("a"), "A").unwrap(),
            |dir| fs::write(dir.join("new"), "").unwrap(),
            |dir| fs::rename(dir.join("a"), dir.join("b")).unwrap(),
        ];
        for change in changes {
            let dir = tempfile::tempdir().unwrap();
            let (from, to) = (dir.path().join("from"), dir.path().join("to"));
            fs::create_dir(&from).unwrap();
            fs::write(from.join("a"), "a").unwrap();
            let moving = Moving::copied(&from, &to).unwrap();
            change(&from);
            assert!(moving.finish().is_err());
            assert!(from.join("a").exists() || from.join("b").exists());
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "the copy is gone");
        }
    }

    #[test]
    fn what_cannot_be_copied_leaves_no_trace() {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("from");
        fs::create_dir(&from).unwrap();
        fs::write(from.join("a"), "a").unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, from.join("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let to = dir.path().join("to");
        assert_eq!(copy(&from, &to).unwrap_err().kind(), ErrorKind::NotAFile);
        assert_eq!(move_across(&from, &to).unwrap_err().kind(), ErrorKind::NotAFile);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(fs::read_dir(&from).unwrap().count(), 2);
    }
}
