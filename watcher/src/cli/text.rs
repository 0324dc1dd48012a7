//! Text in so many columns: cut, wrapped, padded; and numbers as people read them. It prints nothing and cleans nothing.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The beginning of a text that fits `width` columns, with an ellipsis when something is missing.
pub(crate) fn fit(text: &str, width: usize) -> Cow<'_, str> {
    if text.width() <= width {
        return Cow::Borrowed(text);
    }
    let mut used = 0;
    let mut fitting = String::new();
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used >= width {
            break;
        }
        fitting.push(c);
    }
    fitting.push('…');
    Cow::Owned(fitting)
}

/// The columns that a text takes when it is printed: cleaned.
pub(crate) fn width(text: &str) -> usize {
    super::output::clean(text).width()
}

/// A text with the home as `~` wherever a path begins with it. Within quotes it stays: no shell would read the sign there.
pub(crate) fn with_tilde(text: &str, home: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(home) {
        let (before, behind) = (&rest[..at], &rest[at + home.len()..]);
        let begins = before.chars().next_back().or(shown.chars().next_back());
        let begins = begins.is_none_or(|c| c.is_whitespace() || "(`:[".contains(c));
        let ends = behind.chars().next().is_none_or(|c| c.is_whitespace() || "/)`:];,".contains(c));
        shown.push_str(before);
        shown.push_str(if begins && ends { "~" } else { home });
        rest = behind;
    }
    shown + rest
}

/// The first line of a text that has something in it, outer blanks taken off.
pub(crate) fn first_line(text: &str) -> &str {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default()
}

/// A line in pieces of at most `width` columns, broken at spaces where there are any. An empty line is one empty piece.
pub(crate) fn wrap(line: &str, width: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut start, mut used, mut space) = (0, 0, None);
    for (at, c) in line.char_indices() {
        if at < start {
            continue;
        }
        let wide = c.width().unwrap_or(0);
        if used + wide > width && at > start {
            // A space near the start is an indentation, not a place to break.
            let inside = |space: &usize| !line[start..*space].trim().is_empty();
            let end = if c == ' ' { at } else { space.filter(inside).unwrap_or(at) };
            pieces.push(line[start..end].trim_end());
            let rest = &line[end..];
            start = end + rest.len() - rest.trim_start_matches(' ').len();
            used = line.get(start..at).map_or(0, UnicodeWidthStr::width);
            space = None;
        }
        if at >= start {
            used += wide;
            if c == ' ' {
                space = Some(at);
            }
        }
    }
    pieces.push(&line[start..]);
    pieces
}

/// Bytes in a unit that gives up to three digits: `812 B`, `4.1 kB`, `12 MB`.
pub(crate) fn size(bytes: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "three digits are shown")]
    let bytes = bytes as f64;
    scaled(bytes, " ", &["B", "kB", "MB", "GB", "TB"])
}

/// A count in a unit that gives up to three digits: `812`, `4.1k`, `12M`.
pub(crate) fn count(number: f64) -> String {
    scaled(number, "", &["", "k", "M", "G", "T"])
}

fn scaled(number: f64, space: &str, units: &[&str]) -> String {
    let mut rest = number;
    let mut unit = 0;
    while rest >= 999.5 && unit + 1 < units.len() {
        rest /= 1000.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && rest < 9.95);
    format!("{rest:.digits$}{space}{}", units[unit])
}

/// Money in dollars: cents where they say something, `<$0.01` for less; empty for none.
pub(crate) fn money(dollars: f64) -> String {
    match dollars {
        0.0 => String::new(),
        dollars if dollars > 0.0 && dollars < 0.01 => "<$0.01".to_owned(),
        dollars => format!("${dollars:.2}"),
    }
}

/// `1 session`, `2 sessions`.
pub(crate) fn plural(count: usize, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

/// `1 entry`, `2 entries`.
pub(crate) fn entries(count: usize) -> String {
    if count == 1 { "1 entry".to_owned() } else { format!("{count} entries") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_home_is_shown_where_a_path_begins_with_it() {
        let shown = |text: &str| with_tilde(text, "/home/u");
        assert_eq!(shown("/home/u/a: no (/home/u) `x /home/u/b`"), "~/a: no (~) `x ~/b`");
        for whole in ["/home/user/a", "/mnt/home/u/a", "'/home/u/it'", "\"/home/u\"", "x=/home/u/a"] {
            assert_eq!(shown(whole), whole);
        }
    }

    #[test]
    fn numbers_are_short() {
        for (number, text) in [(0.0, "0"), (999.0, "999"), (999.6, "1.0k"), (4123.0, "4.1k"), (12_345_678.0, "12M")] {
            assert_eq!(count(number), text);
        }
        assert_eq!((size(0), size(4100)), ("0 B".to_owned(), "4.1 kB".to_owned()));
        assert_eq!([money(0.0), money(0.004), money(1.239)], ["", "<$0.01", "$1.24"]);
    }

    #[test]
    fn lines_break_at_spaces_and_keep_their_indentation() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("    indented text", 12), ["    indented", "text"]);
        assert_eq!(wrap("unbreakable", 4), ["unbr", "eaka", "ble"]);
        assert_eq!(wrap("漢字漢字", 4), ["漢字", "漢字"]);
        assert_eq!(wrap("", 4), [""]);
    }

    proptest! {
        #[test]
        fn property_wrapping_loses_no_word_and_fits(line in "[ a-z漢é]{0,60}", width in 2_usize..20) {
            let pieces = wrap(&line, width);
            prop_assert!(pieces.iter().all(|piece| piece.trim_end().width() <= width), "{pieces:?}");
            let letters = |text: &str| text.chars().filter(|c| *c != ' ').collect::<String>();
            prop_assert_eq!(letters(&pieces.concat()), letters(&line));
        }
    }
}
