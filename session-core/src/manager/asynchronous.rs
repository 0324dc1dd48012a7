//! What blocks for long, in async code `[W3]`: opening and flushing on threads where blocking is allowed. No logic.

use std::path::PathBuf;

use super::{Host, SessionManager, State};
use crate::error::Result;
use crate::storage::blocking;

impl SessionManager {
    /// [`open`](Self::open) on a thread where blocking is allowed.
    pub async fn open_async(host: Host, file: PathBuf, dir: Option<PathBuf>) -> Result<Self> {
        blocking(&file.clone(), move || Self::open(&host, &file, dir.as_deref())).await
    }

    /// [`continue_recent`](Self::continue_recent) on a thread where blocking is allowed.
    pub async fn continue_recent_async(host: Host, cwd: PathBuf, dir: Option<PathBuf>) -> Result<Self> {
        blocking(&cwd.clone(), move || Self::continue_recent(&host, &cwd, dir.as_deref())).await
    }

    /// [`flush`](Self::flush) with the wait for the medium on a thread where blocking is allowed. A future that is dropped
    /// before it is done promises nothing, and takes nothing back.
    pub async fn flush_async(&mut self) -> Result<()> {
        self.hand_over()?;
        let writer = match &mut self.state {
            State::OnDisk(disk) => disk.take_writer(),
            _ => None,
        };
        let Some(mut writer) = writer else { return Ok(()) };
        let (writer, synced) = blocking(&self.file, move || {
            let synced = writer.flush().and_then(|()| writer.fsync());
            Ok((writer, synced))
        })
        .await?;
        if let State::OnDisk(disk) = &mut self.state {
            disk.put_back(writer, synced.is_ok());
        }
        synced.map_err(|error| self.keep(error))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::storage::MemorySessionStorage;
    use crate::{AgentDir, Environment, JsonText};

    #[test]
    fn flushing_and_opening_wait_elsewhere() {
        fn send<T: Send>(value: T) -> T {
            value
        }
        let host = Host::new(AgentDir::at("/agent").unwrap(), Environment::new("/w"))
            .with_storage(Arc::new(MemorySessionStorage::new()));
        let mut session = SessionManager::create(&host, Path::new("/w"), None).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let message = JsonText::parse(r#"{"role":"assistant","content":[]}"#).unwrap();
        runtime.block_on(send(async {
            session.flush_async().await.unwrap();
            session.append_message(&message).unwrap();
            session.append_message(&message).unwrap();
            session.flush_async().await.unwrap();
            session.append_message(&message).unwrap();
            let file = session.file().unwrap().to_owned();
            session.close().unwrap();
            let again = SessionManager::open_async(host, file, None).await.unwrap();
            assert_eq!(again.session().entries().len(), 3);
        }));
    }
}
