//! Where polling takes the place of events: how often, and on which file systems.

use std::path::Path;
use std::time::Duration;

use super::{Coverage, Source};

/// How often directories without events are looked at.
pub(crate) const INTERVAL: Duration = Duration::from_secs(2);

/// A source that gives no events, for a reason.
pub(crate) struct PollSource {
    reason: String,
}

impl PollSource {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

impl Source for PollSource {
    fn watch(&mut self, _: &Path) -> Coverage {
        Coverage::Polling(self.reason.clone())
    }

    fn forget(&mut self, _: &Path) {}
}

/// The name of the network file system that a directory is on; there, what other machines write makes no event.
#[cfg(target_os = "linux")]
pub(crate) fn network_file_system(dir: &Path) -> Option<&'static str> {
    // Magic numbers of linux/magic.h and of the file systems' own headers.
    const NETWORK: [(u32, &str); 9] = [
        (0x6969, "nfs"),
        (0x517b, "smb"),
        (0xff53_4d42, "cifs"),
        (0xfe53_4d42, "smb2"),
        (0x6573_5546, "fuse"),
        (0x0102_1997, "9p"),
        (0x5346_414f, "afs"),
        (0x00c3_6400, "ceph"),
        (0x0bd0_0bd0, "lustre"),
    ];
    let magic = rustix::fs::statfs(dir).ok()?.f_type;
    NETWORK.into_iter().find(|(number, _)| i128::from(magic) & 0xffff_ffff == i128::from(*number)).map(|(_, name)| name)
}

/// Not known elsewhere; the reconcile finds what events miss.
#[cfg(not(target_os = "linux"))]
pub(crate) fn network_file_system(_: &Path) -> Option<&'static str> {
    None
}
