//! Who has a database open. Answered only where the system can tell; a guess is no answer.

use std::{fs, os::unix::fs::MetadataExt as _, path::Path, time::Duration};

/// Whether some process, this one included, has a file open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Occupancy {
    Free,
    /// The process that has it open.
    HeldBy(u32),
    Unknown,
}

/// A process that was just forked holds the files of its parent until it runs a program of its own. So whoever holds one is
/// believed after so many looks, so far apart.
const LOOKS: usize = 4;
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Whether any process has a file open.
pub(crate) fn of(path: &Path) -> Occupancy {
    let mut answer = beside(path, 0);
    for _ in 1..LOOKS {
        if !matches!(answer, Occupancy::HeldBy(_)) {
            break;
        }
        std::thread::sleep(BETWEEN_LOOKS);
        answer = beside(path, 0);
    }
    answer
}

/// Asks `/proc` for every process that we may look into, and passes over so many descriptors of this one. The database
/// file is private to its user, whose processes these are.
pub(crate) fn beside(path: &Path, mut ours: usize) -> Occupancy {
    let Ok(wanted) = fs::metadata(path) else { return Occupancy::Free };
    let Ok(processes) = fs::read_dir("/proc") else { return Occupancy::Unknown };
    if !Path::new("/proc/self/fd").is_dir() {
        return Occupancy::Unknown;
    }
    for process in processes.flatten() {
        let Some(id) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(descriptors) = fs::read_dir(process.path().join("fd")) else { continue };
        for descriptor in descriptors.flatten() {
            // `stat` through the link follows it to the open file itself, without opening it.
            let Ok(found) = fs::metadata(descriptor.path()) else { continue };
            if (found.dev(), found.ino()) != (wanted.dev(), wanted.ino()) {
                continue;
            }
            if id == std::process::id() && ours > 0 {
                ours -= 1;
            } else {
                return Occupancy::HeldBy(id);
            }
        }
    }
    Occupancy::Free
}
