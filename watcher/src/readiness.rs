//! Tells a service manager that we are ready, as `sd_notify` does: a datagram to the socket that `$NOTIFY_SOCKET` names.

use std::io::Result;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;

use session_core::Environment;

/// Whom to tell; without a service manager nobody.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readiness(Option<PathBuf>);

impl Readiness {
    pub(crate) fn of(environment: &Environment) -> Self {
        Self(environment.variable("NOTIFY_SOCKET").map(PathBuf::from))
    }

    /// Changes are followed from now on.
    pub(crate) fn ready(&self) {
        self.tell("READY=1\nSTATUS=following changes");
    }

    /// The end has begun.
    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    fn tell(&self, message: &str) {
        let Some(path) = &self.0 else { return };
        let sent =
            address(path).and_then(|address| UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address));
        if let Err(error) = sent {
            tracing::warn!(%error, "the service manager can't be told");
        }
    }
}

fn address(path: &std::path::Path) -> Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    if let Some(name) = path.as_os_str().as_bytes().strip_prefix(b"@") {
        return <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name);
    }
    SocketAddr::from_pathname(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_manager_hears_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        Readiness::of(&Environment::new("/").with_variable("NOTIFY_SOCKET", &path)).ready();
        let mut buffer = [0; 64];
        let read = socket.recv(&mut buffer).unwrap();
        assert!(buffer[..read].starts_with(b"READY=1\n"));
        Readiness::of(&Environment::new("/")).ready();
    }
}
