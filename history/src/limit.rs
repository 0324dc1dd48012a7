//! How many entries a question may bring back `[H3]`. It refuses to be out of range.

/// A number of entries, always within `0..=1000` `[H3]`: smaller and larger numbers are taken to the nearest bound.
///
/// ```
/// use history::Limit;
/// assert_eq!(Limit::from(-3).get(), 0);
/// assert_eq!(Limit::from(20).get(), 20);
/// assert_eq!(Limit::from(5000_usize), Limit::MAX);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Limit(u16);

impl Limit {
    /// The most that one question brings back.
    pub const MAX: Self = Self(1000);

    /// The number.
    pub fn get(self) -> usize {
        usize::from(self.0)
    }

    pub(crate) fn sql(self) -> i64 {
        i64::from(self.0)
    }
}

impl From<i64> for Limit {
    fn from(number: i64) -> Self {
        Self(u16::try_from(number.clamp(0, 1000)).unwrap_or(0))
    }
}

impl From<i32> for Limit {
    fn from(number: i32) -> Self {
        Self::from(i64::from(number))
    }
}

impl From<usize> for Limit {
    fn from(number: usize) -> Self {
        Self::from(i64::try_from(number).unwrap_or(i64::MAX))
    }
}
