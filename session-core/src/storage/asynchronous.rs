//! A storage in async code `[S1]`: the same calls under the same names, carried out where blocking is allowed. No logic.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::{OpenMode, SessionStorage, StorageWriter};
use crate::error::{Error, ErrorKind, Result};

/// The async form of a storage that is shared by an [`Arc`]; every storage has it.
///
/// Each call runs on tokio's threads for blocking work, with the promises and errors of the call of the same name of
/// [`SessionStorage`]. A future that is dropped before it is done takes nothing back: the call is carried out or was never
/// begun.
///
/// ```
/// use std::sync::Arc;
/// use session_core::storage::{AsyncSessionStorage, MemorySessionStorage, OpenMode};
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let storage = Arc::new(MemorySessionStorage::new());
/// let mut writer = storage.open_writer("/x.jsonl", OpenMode::Append).await?;
/// writer.write_line("{}").await?;
/// writer.fsync().await?;
/// assert_eq!(storage.read_text("/x.jsonl").await?, "{}\n");
/// # Ok::<(), session_core::Error>(()) }).unwrap();
/// ```
pub trait AsyncSessionStorage {
    /// See [`SessionStorage::exists`].
    fn exists(&self, path: impl Into<PathBuf>) -> impl Future<Output = Result<bool>> + Send;
    /// See [`SessionStorage::read_text`].
    fn read_text(&self, path: impl Into<PathBuf>) -> impl Future<Output = Result<String>> + Send;
    /// See [`SessionStorage::read_text_prefix`].
    fn read_text_prefix(&self, path: impl Into<PathBuf>, bytes: u64) -> impl Future<Output = Result<String>> + Send;
    /// See [`SessionStorage::write_text`].
    fn write_text(&self, path: impl Into<PathBuf>, text: impl Into<String>) -> impl Future<Output = Result<()>> + Send;
    /// See [`SessionStorage::rename`].
    fn rename(&self, from: impl Into<PathBuf>, to: impl Into<PathBuf>) -> impl Future<Output = Result<()>> + Send;
    /// See [`SessionStorage::unlink`].
    fn unlink(&self, path: impl Into<PathBuf>) -> impl Future<Output = Result<()>> + Send;
    /// See [`SessionStorage::open_writer`].
    fn open_writer(
        &self,
        path: impl Into<PathBuf>,
        mode: OpenMode,
    ) -> impl Future<Output = Result<AsyncStorageWriter>> + Send;
}

impl<S: SessionStorage + ?Sized + 'static> AsyncSessionStorage for Arc<S> {
    fn exists(&self, path: impl Into<PathBuf>) -> impl Future<Output = Result<bool>> + Send {
        on(self, path, S::exists)
    }

    fn read_text(&self, path: impl Into<PathBuf>) -> impl Future<Output = Result<String>> + Send {
        on(self, path, S::read_text)
    }

    fn read_text_prefix(&self, path: impl Into<PathBuf>, bytes: u64) -> impl Future<Output = Result<String>> + Send {
        on(self, path, move |storage, path| storage.read_text_prefix(path, bytes))
    }

    fn write_text(&self, path: impl Into<PathBuf>, text: impl Into<String>) -> impl Future<Output = Result<()>> + Send {
        let text = text.into();
        on(self, path, move |storage, path| storage.write_text(path, &text))
    }

    fn rename(&self, from: impl Into<PathBuf>, to: impl Into<PathBuf>) -> impl Future<Output = Result<()>> + Send {
        let to = to.into();
        on(self, from, move |storage, from| storage.rename(from, &to))
    }

    fn unlink(&self, path: impl Into<PathBuf>) -> impl Future<Output = Result<()>> + Send {
        on(self, path, S::unlink)
    }

    fn open_writer(
        &self,
        path: impl Into<PathBuf>,
        mode: OpenMode,
    ) -> impl Future<Output = Result<AsyncStorageWriter>> + Send {
        on(self, path, move |storage, path| {
            let writer = storage.open_writer(path, mode)?;
            Ok(AsyncStorageWriter { writer: Arc::new(Mutex::new(Some(writer))), path: path.into() })
        })
    }
}

/// The async form of a [`StorageWriter`]. What was begun by a future that was then dropped still happens, before or after the
/// next call, never at the same time.
#[derive(Debug)]
pub struct AsyncStorageWriter {
    /// None once it is closed.
    writer: Arc<Mutex<Option<Box<dyn StorageWriter>>>>,
    path: PathBuf,
}

impl AsyncStorageWriter {
    /// See [`StorageWriter::write_line`].
    pub async fn write_line(&mut self, line: impl Into<Vec<u8>>) -> Result<()> {
        let line = line.into();
        self.with(move |writer| writer.write_line(&line)).await
    }

    /// See [`StorageWriter::flush`].
    pub async fn flush(&mut self) -> Result<()> {
        self.with(|writer| writer.flush()).await
    }

    /// See [`StorageWriter::fsync`].
    pub async fn fsync(&mut self) -> Result<()> {
        self.with(|writer| writer.fsync()).await
    }

    /// See [`StorageWriter::error`].
    pub async fn error(&self) -> Option<Error> {
        self.with(|writer| writer.error().cloned().map_or(Ok(()), Err)).await.err()
    }

    /// See [`StorageWriter::close`].
    pub async fn close(self) -> Result<()> {
        let writer = self.writer.clone();
        blocking(&self.path, move || {
            let open = writer.lock().unwrap_or_else(PoisonError::into_inner).take();
            open.map_or(Ok(()), StorageWriter::close)
        })
        .await
    }

    async fn with(&self, work: impl FnOnce(&mut dyn StorageWriter) -> Result<()> + Send + 'static) -> Result<()> {
        let (writer, path) = (self.writer.clone(), self.path.clone());
        blocking(&self.path, move || match writer.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            Some(writer) => work(&mut **writer),
            None => Err(Error::new(ErrorKind::Closed, "the writer was closed").at(path)),
        })
        .await
    }
}

fn on<S: SessionStorage + ?Sized + 'static, T: Send + 'static>(
    storage: &Arc<S>,
    path: impl Into<PathBuf>,
    work: impl FnOnce(&S, &Path) -> Result<T> + Send + 'static,
) -> impl Future<Output = Result<T>> + Send {
    let (storage, path) = (storage.clone(), path.into());
    async move {
        let place = path.clone();
        blocking(&place, move || work(&storage, &path)).await
    }
}

pub(crate) async fn blocking<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(Error::new(ErrorKind::Closed, "the async runtime is shutting down").at(path)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{FileSessionStorage, MemorySessionStorage};

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    async fn the_same_calls<S: SessionStorage + ?Sized + 'static>(storage: Arc<S>, dir: &Path) {
        let path = dir.join("x");
        assert!(!storage.exists(&path).await.unwrap());
        assert_eq!(storage.read_text(&path).await.unwrap_err().kind(), ErrorKind::NotFound);
        storage.write_text(&path, "aé").await.unwrap();
        assert_eq!(storage.read_text_prefix(&path, 2).await.unwrap(), "a");
        let mut writer = storage.open_writer(&path, OpenMode::Append).await.unwrap();
        writer.write_line("b").await.unwrap();
        writer.flush().await.unwrap();
        writer.fsync().await.unwrap();
        assert!(writer.error().await.is_none());
        writer.close().await.unwrap();
        storage.rename(&path, dir.join("y")).await.unwrap();
        assert_eq!(storage.read_text(dir.join("y")).await.unwrap(), "aéb\n");
        storage.unlink(dir.join("y")).await.unwrap();
        assert!(!storage.exists(dir.join("y")).await.unwrap());
    }

    #[test]
    fn every_storage_has_the_async_form() {
        // [S1]
        let dir = tempfile::tempdir().unwrap();
        run(the_same_calls(Arc::new(FileSessionStorage::new()), dir.path()));
        let erased: Arc<dyn SessionStorage> = Arc::new(MemorySessionStorage::new());
        run(the_same_calls(erased, Path::new("/")));
    }

    #[test]
    fn futures_are_send_and_a_dropped_one_breaks_nothing() {
        fn send<T: Send>(value: T) -> T {
            value
        }
        run(async {
            let storage = Arc::new(MemorySessionStorage::new());
            let mut writer = send(storage.open_writer("/x", OpenMode::Append)).await.unwrap();
            drop(send(writer.write_line("never polled")));
            writer.write_line("kept").await.unwrap();
            assert_eq!(send(storage.read_text("/x")).await.unwrap(), "kept\n");
        });
    }
}
