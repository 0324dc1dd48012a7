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
        if let Some(time) = Self::parse_own_form(text.as_bytes()) {
            return Some(time);
        }
        let time: jiff::Timestamp = text.parse().ok()?;
        Self::from_millis(time.as_millisecond())
    }

    /// The one form that is written, `2026-01-05T09:30:00.250Z`, read without the general parser: each line has one.
    fn parse_own_form(text: &[u8]) -> Option<Self> {
        let [
            y1,
            y2,
            y3,
            y4,
            b'-',
            m1,
            m2,
            b'-',
            d1,
            d2,
            b'T',
            h1,
            h2,
            b':',
            i1,
            i2,
            b':',
            s1,
            s2,
            b'.',
            f1,
            f2,
            f3,
            b'Z',
        ] = text
        else {
            return None;
        };
        let number = |digits: &[&u8]| {
            digits
                .iter()
                .try_fold(0_i64, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + i64::from(**digit - b'0')))
        };
        let (year, month, day) = (number(&[y1, y2, y3, y4])?, number(&[m1, m2])?, number(&[d1, d2])?);
        let (hour, minute, second) = (number(&[h1, h2])?, number(&[i1, i2])?, number(&[s1, s2])?);
        // Days 29 to 31 and leap seconds are left to the general parser.
        if !(1..=12).contains(&month) || !(1..=28).contains(&day) || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        // Days since 1970-01-01, counted in years that begin with March, so that a leap day ends its year.
        let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
        let days =
            365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + (153 * month + 2) / 5 + day
                - 719_469;
        Self::from_millis((((days * 24 + hour) * 60 + minute) * 60 + second) * 1000 + number(&[f1, f2, f3])?)
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn property_own_form_reads_as_the_general_parser_reads_it(millis in -62_135_596_800_000_i64..253_402_207_200_000) {
            let time = Timestamp::from_millis(millis).unwrap();
            let text = time.to_string();
            let general: jiff::Timestamp = text.parse().unwrap();
            prop_assert_eq!(general.as_millisecond(), millis);
            prop_assert_eq!(Timestamp::parse(&text), Some(time));
            if let Some(own) = Timestamp::parse_own_form(text.as_bytes()) {
                prop_assert_eq!(own, time);
            }
        }
    }
}
