//! Who else has a file open for writing: what Linux tells in `/proc` `[W6]`.
//!
//! Processes of other users cannot be looked into and are passed over; so are processes that end meanwhile.

use std::fs;
use std::io;
use std::path::Path;

use super::{FileIdentity, FileSessionStorage, Holder, SessionStorage};
use crate::error::{Error, Result};

pub(super) fn writers_of(path: &Path, lock: &Path) -> Result<Vec<Holder>> {
    let Some(file) = FileSessionStorage.identity(path)? else {
        return Ok(Vec::new());
    };
    let lock = FileSessionStorage.identity(lock)?;
    let processes = match fs::read_dir("/proc") {
        Ok(processes) => processes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("list the processes", Path::new("/proc"), error)),
    };
    let own = std::process::id();
    let pids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut holders = Vec::new();
    for pid in pids.filter(|pid| *pid != own) {
        let (mut writes, mut ours) = (false, false);
        for (descriptor, identity) in open_files(pid) {
            writes |= identity == file && is_for_writing(pid, &descriptor);
            ours |= Some(identity) == lock;
        }
        if writes {
            let command = fs::read(format!("/proc/{pid}/comm")).ok();
            let command = command.map(|name| String::from_utf8_lossy(name.trim_ascii_end()).into_owned());
            holders.push(Holder { pid, command, ours });
        }
    }
    holders.sort_by_key(|holder| holder.pid);
    Ok(holders)
}

/// The open files of a process that have a path, as descriptor and identity.
fn open_files(pid: u32) -> impl Iterator<Item = (String, FileIdentity)> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok();
    descriptors.into_iter().flatten().flatten().filter_map(|entry| {
        // Sockets and pipes have no path; asking for more than their name would be for nothing.
        let target = fs::read_link(entry.path()).ok()?;
        if !target.is_absolute() {
            return None;
        }
        let identity = FileSessionStorage.identity(&entry.path()).ok()??;
        Some((entry.file_name().into_string().ok()?, identity))
    })
}

fn is_for_writing(pid: u32, descriptor: &str) -> bool {
    // A line of the form `flags:	0102001`, octal; the last two bits are the access mode, 0 for reading only.
    let Ok(info) = fs::read_to_string(format!("/proc/{pid}/fdinfo/{descriptor}")) else {
        return false;
    };
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).is_some_and(|flags| flags & 0o3 != 0)
}
