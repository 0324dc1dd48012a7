//! The caller's turn inside a transaction of ours. It may do what it likes there, except end the transaction.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use rusqlite::Connection;

use crate::writer::Failure;

/// Watches over the transactions of one connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turn {
    is_callers: Arc<AtomicBool>,
    was_rolled_back: Arc<AtomicBool>,
}

impl Turn {
    /// Begins to watch.
    pub(crate) fn of(conn: &mut Connection) -> rusqlite::Result<Self> {
        let turn = Self::default();
        let (is_callers, was_rolled_back) = (Arc::clone(&turn.is_callers), Arc::clone(&turn.was_rolled_back));
        conn.commit_hook(Some(move || is_callers.load(Ordering::SeqCst)))?;
        conn.rollback_hook(Some(move || was_rolled_back.store(true, Ordering::SeqCst)))?;
        Ok(turn)
    }

    /// Runs the caller's part. A panic of it is a failure like any other, and the thread lives on; so is ending the
    /// transaction: SQLite is told to make a rollback of a `COMMIT`, and after a rollback nothing is written.
    pub(crate) fn run<T>(
        &self,
        work: impl FnOnce() -> Result<T, Box<dyn std::error::Error + Send + Sync>>,
    ) -> Result<T, Failure> {
        self.was_rolled_back.store(false, Ordering::SeqCst);
        self.is_callers.store(true, Ordering::SeqCst);
        let result = catch_unwind(AssertUnwindSafe(work));
        self.is_callers.store(false, Ordering::SeqCst);
        match result {
            Err(_) => Err(Failure::Caller("the caller's part panicked".into())),
            Ok(Err(error)) => Err(Failure::Caller(error)),
            Ok(Ok(_)) if self.was_rolled_back.load(Ordering::SeqCst) => {
                Err(Failure::Caller("they ended the transaction, which is not theirs to end".into()))
            }
            Ok(Ok(value)) => Ok(value),
        }
    }
}
