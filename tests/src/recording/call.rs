//! Calls of a storage as values.

use std::path::PathBuf;
use std::time::SystemTime;

use session_core::ErrorKind;
use session_core::storage::OpenMode;

/// One opened writer; calls through it name it, because its file's path may have come to mean another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle(pub(super) u64);

/// A call of the storage or of a handle that it gave out, as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the call of its name, its fields that call's arguments")]
pub enum Call {
    EnsureDir { dir: PathBuf },
    Stat { path: PathBuf },
    ReadDir { dir: PathBuf },
    OpenReader { path: PathBuf },
    ReadAt { path: PathBuf, offset: u64, len: usize },
    OpenWriter { path: PathBuf, mode: OpenMode, handle: Handle },
    CreateNew { path: PathBuf, handle: Handle },
    Write { path: PathBuf, handle: Handle, bytes: Vec<u8> },
    Flush { path: PathBuf, handle: Handle },
    Fsync { path: PathBuf, handle: Handle },
    Close { path: PathBuf, handle: Handle },
    WriteAt { path: PathBuf, offset: u64, bytes: Vec<u8> },
    Rename { from: PathBuf, to: PathBuf },
    Unlink { path: PathBuf },
    RemoveTree { dir: PathBuf },
    Copy { from: PathBuf, to: PathBuf },
    SyncDir { dir: PathBuf },
    SetModified { path: PathBuf, time: SystemTime },
    OpenLock { path: PathBuf },
    Acquire { path: PathBuf },
    Release { path: PathBuf },
    WritersOf { path: PathBuf },
}

/// The kind of a [`Call`], for counting and for faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is the call of its name")]
pub enum CallKind {
    EnsureDir,
    Stat,
    ReadDir,
    OpenReader,
    ReadAt,
    OpenWriter,
    CreateNew,
    Write,
    Flush,
    Fsync,
    Close,
    WriteAt,
    Rename,
    Unlink,
    RemoveTree,
    Copy,
    SyncDir,
    SetModified,
    OpenLock,
    Acquire,
    Release,
    WritersOf,
}

impl Call {
    /// Its kind.
    pub fn kind(&self) -> CallKind {
        match self {
            Self::EnsureDir { .. } => CallKind::EnsureDir,
            Self::Stat { .. } => CallKind::Stat,
            Self::ReadDir { .. } => CallKind::ReadDir,
            Self::OpenReader { .. } => CallKind::OpenReader,
            Self::ReadAt { .. } => CallKind::ReadAt,
            Self::OpenWriter { .. } => CallKind::OpenWriter,
            Self::CreateNew { .. } => CallKind::CreateNew,
            Self::Write { .. } => CallKind::Write,
            Self::Flush { .. } => CallKind::Flush,
            Self::Fsync { .. } => CallKind::Fsync,
            Self::Close { .. } => CallKind::Close,
            Self::WriteAt { .. } => CallKind::WriteAt,
            Self::Rename { .. } => CallKind::Rename,
            Self::Unlink { .. } => CallKind::Unlink,
            Self::RemoveTree { .. } => CallKind::RemoveTree,
            Self::Copy { .. } => CallKind::Copy,
            Self::SyncDir { .. } => CallKind::SyncDir,
            Self::SetModified { .. } => CallKind::SetModified,
            Self::OpenLock { .. } => CallKind::OpenLock,
            Self::Acquire { .. } => CallKind::Acquire,
            Self::Release { .. } => CallKind::Release,
            Self::WritersOf { .. } => CallKind::WritersOf,
        }
    }

    /// The path it is about; of a rename or copy the one that it comes from.
    pub fn path(&self) -> &PathBuf {
        match self {
            Self::EnsureDir { dir } | Self::ReadDir { dir } | Self::RemoveTree { dir } | Self::SyncDir { dir } => dir,
            Self::Rename { from, .. } | Self::Copy { from, .. } => from,
            Self::Stat { path }
            | Self::OpenReader { path }
            | Self::ReadAt { path, .. }
            | Self::OpenWriter { path, .. }
            | Self::CreateNew { path, .. }
            | Self::Write { path, .. }
            | Self::Flush { path, .. }
            | Self::Fsync { path, .. }
            | Self::Close { path, .. }
            | Self::WriteAt { path, .. }
            | Self::Unlink { path }
            | Self::SetModified { path, .. }
            | Self::OpenLock { path }
            | Self::Acquire { path }
            | Self::Release { path }
            | Self::WritersOf { path } => path,
        }
    }
}

impl CallKind {
    /// Whether it can change what is on disk, or whether that survives.
    pub fn is_change(self) -> bool {
        use CallKind::{
            CreateNew, EnsureDir, Fsync, OpenWriter, RemoveTree, Rename, SetModified, SyncDir, Unlink, Write, WriteAt,
        };
        matches!(
            self,
            EnsureDir
                | OpenWriter
                | CreateNew
                | Write
                | Fsync
                | WriteAt
                | Rename
                | Unlink
                | RemoveTree
                | Self::Copy
                | SyncDir
                | SetModified
        )
    }

    /// Whether it fails on a full disk.
    pub fn needs_room(self) -> bool {
        matches!(self, Self::EnsureDir | Self::OpenWriter | Self::CreateNew | Self::Write | Self::Copy)
    }
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It worked.
    Done,
    /// It failed and changed nothing.
    Failed(ErrorKind),
    /// A write that failed after this many of its bytes.
    Short(usize),
}

/// A call and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What was asked for.
    pub call: Call,
    /// How it ended.
    pub outcome: Outcome,
}
