//! With what code the process ends: the one table. It decides nothing else.

use std::fmt;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what was asked.
    Done,
    /// It failed; the message says why.
    Failed,
    /// The command line or the settings file can't be understood.
    Usage,
    /// What was asked for is not there: no such session, no running watcher.
    NotFound,
    /// Another watcher works on this agent directory.
    AlreadyRunning,
    /// It was not done: another process writes the session, or nobody said yes.
    Refused,
    /// Another process has the session, or has just written to it.
    Held,
}

impl Exit {
    /// The table as the help shows it.
    pub(crate) const TABLE: &str = "\
Exit codes:
  0  done
  1  failed; the message says why
  2  the command line or the settings file can't be understood
  3  what was asked for is not there: no such session, no running watcher
  4  another watcher works on this agent directory
  5  not done: another process writes the session, or it was not confirmed
  6  not saved: another process has the session, or has just written to it";

    /// How a command ended that failed with this error.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        use session_core::ErrorKind::{Busy, HeldElsewhere, Locked};
        match (error.downcast_ref::<Refusal>(), error.downcast_ref::<session_core::Error>()) {
            (Some(refusal), _) => refusal.exit,
            // Somebody took the session between our look at it and our work.
            (None, Some(error)) if matches!(error.kind(), Busy | HeldElsewhere | Locked) => Self::Refused,
            _ => Self::Failed,
        }
    }

    /// The number.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::AlreadyRunning => 4,
            Self::Refused => 5,
            Self::Held => 6,
        }
    }
}

/// An error that ends the process with a code of its own.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) exit: Exit,
    message: String,
}

impl Refusal {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}
