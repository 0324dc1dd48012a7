//! What a session is called in a short list, and how long ago something was `[R1]`.

use std::path::Path;

use crate::clock::Timestamp;

/// The longest short name, in characters.
const SHORT: usize = 40;
const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// The first line of a text, without control characters and outer blanks; none when nothing is left.
pub(super) fn first_line(text: &str) -> Option<String> {
    let line = text.split('\n').next().unwrap_or_default();
    let line: String = line.chars().filter(|c| !c.is_control()).collect();
    let line = line.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

/// The file's name without `.jsonl`.
pub(super) fn stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_suffix(".jsonl").unwrap_or(&name).to_owned()
}

/// A name in at most 40 characters, `…` at the end of a cut one.
pub(super) fn shortened(name: &str) -> String {
    match name.char_indices().nth(SHORT) {
        None => name.to_owned(),
        Some(_) => name.chars().take(SHORT - 1).chain(['…']).collect(),
    }
}

/// How long before `now` something was: `just now`, `5m ago`, `3h ago`, `6d ago`, then the date (UTC).
///
/// ```
/// use session_core::{Timestamp, time_ago};
/// let at = |text| Timestamp::parse(text).unwrap();
/// let now = at("2026-01-10T12:00:00Z");
/// assert_eq!(time_ago(at("2026-01-10T11:59:01Z"), now), "just now");
/// assert_eq!(time_ago(at("2026-01-10T09:00:01Z"), now), "2h ago");
/// assert_eq!(time_ago(at("2026-01-03T12:00:00Z"), now), "2026-01-03");
/// ```
pub fn time_ago(time: Timestamp, now: Timestamp) -> String {
    // A time to come is a clock that runs ahead.
    let seconds = now.millis().saturating_sub(time.millis()).div_euclid(1000);
    match seconds {
        ..MINUTE => "just now".to_owned(),
        MINUTE..HOUR => format!("{}m ago", seconds / MINUTE),
        HOUR..DAY => format!("{}h ago", seconds / HOUR),
        _ if seconds < 7 * DAY => format!("{}d ago", seconds / DAY),
        _ => {
            let text = time.to_string();
            text.split_once('T').map_or(text.clone(), |(date, _)| date.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_go_from_minutes_to_dates() {
        // [R1]
        let now = Timestamp::parse("2026-03-10T00:00:00.000Z").unwrap();
        for (seconds_ago, text) in [
            (-3600, "just now"),
            (0, "just now"),
            (59, "just now"),
            (60, "1m ago"),
            (3599, "59m ago"),
            (3600, "1h ago"),
            (86_399, "23h ago"),
            (86_400, "1d ago"),
            (7 * 86_400 - 1, "6d ago"),
            (7 * 86_400, "2026-03-03"),
            (400 * 86_400, "2025-02-03"),
        ] {
            let then = Timestamp::from_millis(now.millis() - seconds_ago * 1000).unwrap();
            assert_eq!(time_ago(then, now), text);
        }
    }

    proptest! {
        #[test]
        fn property_names_are_one_clean_line_of_at_most_40_characters(text in "[\\PC\\n\\t\u{1b}\u{85} ]{0,80}") {
            // [R1]
            if let Some(line) = first_line(&text) {
                prop_assert!(!line.chars().any(char::is_control) && line == line.trim() && !line.is_empty());
                let short = shortened(&line);
                prop_assert!(short.chars().count() <= 40);
                prop_assert!(short == line || short.ends_with('…') && line.starts_with(short.trim_end_matches('…')));
            } else {
                let first = text.split('\n').next().unwrap();
                prop_assert!(first.chars().all(|c| c.is_control() || c.is_whitespace()));
            }
        }
    }
}
