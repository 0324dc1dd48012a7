//! Listing in async code: the same calls on threads where blocking is allowed. No logic.

use std::path::PathBuf;

use super::{Catalog, Listing, SessionInfo};
use crate::error::Result;
use crate::storage::blocking;

impl Catalog {
    /// [`list`](Self::list) on a thread where blocking is allowed.
    pub async fn list_async(&self, cwd: Option<PathBuf>, dir: Option<PathBuf>) -> Result<Listing<SessionInfo>> {
        let catalog = self.clone();
        let place = dir.clone().or_else(|| cwd.clone()).unwrap_or_default();
        blocking(&place, move || catalog.list(cwd.as_deref(), dir.as_deref())).await
    }

    /// [`list_all`](Self::list_all) on a thread where blocking is allowed.
    pub async fn list_all_async(&self) -> Result<Listing<SessionInfo>> {
        let catalog = self.clone();
        blocking(&self.agent.sessions(), move || catalog.list_all()).await
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::storage::{MemorySessionStorage, SessionStorage};
    use crate::{AgentDir, Environment};

    #[test]
    fn listing_waits_elsewhere() {
        let storage = Arc::new(MemorySessionStorage::new());
        storage.ensure_dir(Path::new("/agent/sessions/--w--")).unwrap();
        let header = "{\"type\":\"session\",\"version\":3,\"id\":\"15c0000000000001\",\"timestamp\":\"2026-01-05T09:30:00.000Z\",\"cwd\":\"/w\"}\n";
        storage.write_text(Path::new("/agent/sessions/--w--/x.jsonl"), header).unwrap();
        let catalog = Catalog::new(AgentDir::at("/agent").unwrap(), Environment::new("/w")).with_storage(storage);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (all, here) = runtime.block_on(async {
            (catalog.list_all_async().await.unwrap(), catalog.list_async(Some("/w".into()), None).await.unwrap())
        });
        assert_eq!((all.sessions.len(), here.sessions.len()), (1, 1));
    }
}
