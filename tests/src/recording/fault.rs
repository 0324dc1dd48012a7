//! Calls that fail on purpose.

use std::io;

use super::call::CallKind;

/// Which calls a fault meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The call with this number; the first call of a recording has number 1.
    Number(u64),
    /// Every call of this kind.
    Kind(CallKind),
    /// Every call that needs room on the disk.
    NeedsRoom,
    /// Every call.
    Any,
}

/// What happens to a call instead of its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It fails with this error and changes nothing.
    Error(io::ErrorKind),
    /// A write gets this many of its bytes to the disk, or all but one, whichever is less, and fails. Other calls fail with
    /// a full disk.
    Short(usize),
}

/// How often a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// The next so many calls that it meets.
    Next(u64),
    /// Until the faults are [cleared](super::RecordingStorage::clear_faults).
    Always,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    pub(super) target: Target,
    pub(super) failure: Failure,
    pub(super) times: Times,
}

/// The failure of this call, if one is due; counts it.
pub(super) fn due(faults: &mut [Fault], number: u64, kind: CallKind) -> Option<Failure> {
    let fault = faults.iter_mut().find(|fault| {
        let meets = match fault.target {
            Target::Number(target) => target == number,
            Target::Kind(target) => target == kind,
            Target::NeedsRoom => kind.needs_room(),
            Target::Any => true,
        };
        meets && fault.times != Times::Next(0)
    })?;
    if let Times::Next(left) = &mut fault.times {
        *left -= 1;
    }
    Some(fault.failure)
}
