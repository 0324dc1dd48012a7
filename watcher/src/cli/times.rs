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

/// How long ago, in one unit: `3m`.
pub(crate) fn ago(now: i64, then: i64) -> String {
    let seconds = (now - then).max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}
