//! Time, passed in.
//!
//! Nothing else in this crate asks the system for the time. Times in session files are ISO-8601 in UTC with milliseconds and
//! a `Z` `[F2, F3]`; in file names every `:` and `.` of that becomes `-` `[D3]`.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};

/// A point in time: milliseconds since 1970-01-01T00:00:00Z.
///
/// ```
/// use session_core::Timestamp;
/// let time = Timestamp::parse("2026-01-05T09:30:00.250Z").unwrap();
/// assert_eq!(time.millis(), 1_767_605_400_250);
/// assert_eq!(time.to_string(), "2026-01-05T09:30:00.250Z");
/// assert_eq!(time.file_name_form(), "2026-01-05T09-30-00-250Z");
/// assert_eq!(Timestamp::parse("yesterday"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The earliest and latest times that can be written: years −9999 to 9999, with a day to spare.
    const RANGE: std::ops::RangeInclusive<i64> = -377_705_023_201_000..=253_402_207_200_999;

    /// From milliseconds since 1970; none when the year would not have four digits.
    pub fn from_millis(millis: i64) -> Option<Self> {
        Self::RANGE.contains(&millis).then_some(Self(millis))
    }

    /// Milliseconds since 1970.
    pub fn millis(self) -> i64 {
        self.0
    }

    /// Whole seconds since 1970, rounded down.
    pub fn seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// Reads an ISO-8601 date and time with `Z` or an offset. None for everything else `[L8]`.
    pub fn parse(text: &str) -> Option<Self> {
        let time: jiff::Timestamp = text.parse().ok()?;
        Self::from_millis(time.as_millisecond())
    }

    /// The form that file names use: `2026-01-05T09-30-00-250Z` `[D3]`.
    pub fn file_name_form(self) -> String {
        self.to_string().replace([':', '.'], "-")
    }

    /// From the operating system's time, cut to milliseconds; times out of range become the nearest that fits.
    pub fn from_system(time: std::time::SystemTime) -> Self {
        let millis = match time.duration_since(std::time::UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
            Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
        };
        Self(millis.clamp(*Self::RANGE.start(), *Self::RANGE.end()))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(time) = jiff::Timestamp::from_millisecond(self.0) else {
            return f.write_str("1970-01-01T00:00:00.000Z");
        };
        write!(f, "{time:.3}")
    }
}

/// A source of time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The time now.
    fn now(&self) -> Timestamp;
}

/// The clock of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_system(std::time::SystemTime::now())
    }
}

/// A clock that a test drives.
///
/// ```
/// use session_core::{Clock, ManualClock, Timestamp};
/// let clock = ManualClock::at(Timestamp::from_millis(1_000).unwrap());
/// clock.advance_millis(500);
/// assert_eq!(clock.now().millis(), 1_500);
/// ```
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock that stands at `time`.
    pub fn at(time: Timestamp) -> Self {
        Self(AtomicI64::new(time.0))
    }

    /// Moves the clock on.
    pub fn advance_millis(&self, millis: i64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        let millis = self.0.load(Ordering::SeqCst);
        Timestamp(millis.clamp(*Timestamp::RANGE.start(), *Timestamp::RANGE.end()))
    }
}
