//! Times as people and programs read them. It knows no clock but what it is handed.

use session_core::Timestamp;

/// ISO 8601 in UTC, from seconds since 1970; empty when out of range.
pub(crate) fn iso(seconds: i64) -> String {
    seconds.checked_mul(1000).and_then(Timestamp::from_millis).map(|time| time.to_string()).unwrap_or_default()
}

/// ISO 8601 in UTC, from milliseconds since 1970.
pub(crate) fn iso_millis(millis: i64) -> String {
    Timestamp::from_millis(millis).map(|time| time.to_string()).unwrap_or_default()
}

/// Minutes in the local time zone: `2026-01-05 10:30`.
pub(crate) fn local(seconds: i64) -> String {
    match jiff::Timestamp::from_second(seconds) {
        Ok(time) => jiff::tz::TimeZone::system().to_datetime(time).strftime("%Y-%m-%d %H:%M").to_string(),
        Err(_) => "?".to_owned(),
    }
}

/// The same, of a time as ISO 8601; as it is when it is none.
pub(crate) fn local_text(text: &str) -> String {
    Timestamp::parse(text).map_or_else(|| text.to_owned(), |time| local(time.seconds()))
}

/// The day in the local time zone.
pub(crate) fn day(time: Timestamp) -> String {
    local(time.seconds()).chars().take(10).collect()
}

/// A time that a person names: a date, a date and time (local unless they say otherwise), or how long ago: `7d`, `12h`.
///
/// # Errors
/// What can be said instead.
pub(crate) fn named(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let ago = |unit: char, seconds: i64| {
        let number: i64 = text.strip_suffix(unit)?.parse().ok().filter(|number| *number >= 0)?;
        Timestamp::from_millis(now.millis().checked_sub(number.checked_mul(seconds)?.checked_mul(1000)?)?)
    };
    let units = [('m', 60), ('h', 3600), ('d', 86_400), ('w', 7 * 86_400)];
    let local = || {
        let time: jiff::civil::DateTime = text.parse().ok()?;
        let time = jiff::tz::TimeZone::system().to_timestamp(time).ok()?;
        Timestamp::from_millis(time.as_millisecond())
    };
    let exact = || Timestamp::from_millis(text.parse::<jiff::Timestamp>().ok()?.as_millisecond());
    let found = units.into_iter().find_map(|(unit, seconds)| ago(unit, seconds)).or_else(exact).or_else(local);
    found.ok_or_else(|| format!("{text:?} is no time; say 2026-01-05, 2026-01-05T09:30, or how long ago: 12h, 7d, 2w"))
}

/// How long ago, in one unit: `3m`.
pub(crate) fn ago(now: i64, then: i64) -> String {
    let seconds = now.saturating_sub(then).max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_named_in_three_ways() {
        let now = Timestamp::parse("2026-01-10T12:00:00Z").unwrap();
        let at = |text: &str| named(text, now).map(|time| time.to_string());
        assert_eq!(at("7d").unwrap(), "2026-01-03T12:00:00.000Z");
        assert_eq!(at("90m").unwrap(), "2026-01-10T10:30:00.000Z");
        assert_eq!(at("2026-01-05T09:30:00Z").unwrap(), "2026-01-05T09:30:00.000Z");
        assert!(at("2026-01-05").is_ok() && at("2026-01-05T09:30").is_ok());
        for text in ["", "d", "-1d", "yesterday", "99999999999999999w", "2026-13-01"] {
            assert!(at(text).is_err(), "{text}");
        }
    }
}
