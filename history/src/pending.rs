//! The answer to something that was queued: block for it, await it, or drop it. It never drives the work itself.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Condvar, Mutex, PoisonError},
    task::{Context, Poll, Waker},
};

use crate::error::Result;

/// Work that was queued to the writer. Dropping it changes nothing: the work is done all the same.
///
/// It is a future that any executor can poll, and [`wait`](Self::wait) blocks without one.
///
/// ```
/// # fn main() -> Result<(), history::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let store = history::HistoryStorage::open(dir.path().join("history.db"))?;
/// let first = store.add("needed on disk", None);
/// drop(store.add("will be written too", None));
/// first.wait()?;
/// async fn add(store: &history::HistoryStorage) -> Result<history::Outcome, history::Error> {
///     store.add("from async code", None).await
/// }
/// # Ok(())
/// # }
/// ```
pub struct Pending<T>(Arc<Slot<T>>);

struct Slot<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
}

enum State<T> {
    Waiting(Option<Waker>),
    Ready(Result<T>),
    Taken,
}

/// The writer's end. Dropped without an answer, it answers with `otherwise`.
pub(crate) struct Promise<T> {
    slot: Arc<Slot<T>>,
    otherwise: Option<crate::Error>,
}

pub(crate) fn pending<T>(otherwise: crate::Error) -> (Promise<T>, Pending<T>) {
    let slot = Arc::new(Slot { state: Mutex::new(State::Waiting(None)), filled: Condvar::new() });
    (Promise { slot: Arc::clone(&slot), otherwise: Some(otherwise) }, Pending(slot))
}

impl<T> Promise<T> {
    pub(crate) fn fulfil(mut self, result: Result<T>) {
        self.otherwise = None;
        self.fill(result);
    }

    /// Whether somebody still holds the other end.
    pub(crate) fn is_awaited(&self) -> bool {
        Arc::strong_count(&self.slot) > 1
    }

    fn fill(&self, result: Result<T>) {
        let mut state = self.slot.state.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *state, State::Ready(result));
        drop(state);
        self.slot.filled.notify_all();
        if let State::Waiting(Some(waker)) = before {
            waker.wake();
        }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        if let Some(error) = self.otherwise.take() {
            self.fill(Err(error));
        }
    }
}

impl<T> Pending<T> {
    /// Blocks until the work is committed or has failed.
    ///
    /// When this returns `Ok`, what was written survives the end of this process, however it ends `[H2]`.
    ///
    /// # Errors
    /// What kept the writer from doing it; nothing of it was written then.
    ///
    /// # Panics
    /// When the answer was taken already by polling it as a future.
    pub fn wait(self) -> Result<T> {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match std::mem::replace(&mut *state, State::Taken) {
                State::Ready(result) => return result,
                State::Taken => panic!("the answer was already taken by a poll"),
                State::Waiting(waker) => {
                    *state = State::Waiting(waker);
                    state = self.0.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Whether the answer is there: `wait` would return at once.
    pub fn is_ready(&self) -> bool {
        matches!(*self.0.state.lock().unwrap_or_else(PoisonError::into_inner), State::Ready(_))
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, State::Taken) {
            State::Ready(result) => Poll::Ready(result),
            State::Taken => panic!("polled after it was ready"),
            State::Waiting(_) => {
                *state = State::Waiting(Some(context.waker().clone()));
                Poll::Pending
            }
        }
    }
}

impl<T> std::fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending").field("ready", &self.is_ready()).finish()
    }
}
