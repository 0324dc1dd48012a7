//! Text as search compares it: without case and without combining accents `[H6]`. For comparing only, never for storing.

use unicode_normalization::UnicodeNormalization as _;

/// Appends the folded form of `text` to `into`.
///
/// Letters lose their case and their accents of the block U+0300–U+036F, written as one character or as two. Marks of
/// other scripts carry meaning (Japanese が and か are different words) and stay.
pub(crate) fn fold_into(text: &str, into: &mut String) {
    if text.is_ascii() {
        into.push_str(text);
        let start = into.len() - text.len();
        into[start..].make_ascii_lowercase();
        return;
    }
    let mut rest = text;
    loop {
        let plain = rest.find(|c| !is_plain(c)).unwrap_or(rest.len());
        into.push_str(&rest[..plain]);
        rest = &rest[plain..];
        let Some(c) = rest.chars().next() else { return };
        rest = &rest[c.len_utf8()..];
        match c {
            '\0'..='\x7f' => into.push(c.to_ascii_lowercase()),
            '\u{300}'..='\u{36f}' => {}
            _ => {
                let parts = std::iter::once(c).nfd().filter(|part| !matches!(part, '\u{300}'..='\u{36f}'));
                into.extend(parts.flat_map(char::to_lowercase).filter(|part| !matches!(part, '\u{300}'..='\u{36f}')));
            }
        }
    }
}

/// What stays as it is. From U+2E80 to U+F8FF nothing has case or such an accent, and Hangul would fall apart into letters.
fn is_plain(c: char) -> bool {
    matches!(c, '\0'..='@' | '['..='\x7f' | '\u{2e80}'..='\u{f8ff}')
}

/// The folded form of `text`.
pub(crate) fn fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    fold_into(text, &mut folded);
    folded
}

/// White space as the harnesses trim it: Unicode's, with the byte order mark and without U+0085.
pub(crate) fn is_space(c: char) -> bool {
    c == '\u{feff}' || (c.is_whitespace() && c != '\u{85}')
}

/// A prompt without the white space around it `[H2]`.
pub(crate) fn trim(prompt: &str) -> &str {
    prompt.trim_matches(is_space)
}

/// Whether `c` belongs to a script that is written without spaces, where a word is always inside something `[H6]`.
pub(crate) fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{19e0}'..='\u{1aaf}'
        | '\u{2e80}'..='\u{303f}' | '\u{3040}'..='\u{31ff}' | '\u{3200}'..='\u{9fff}' | '\u{a9e0}'..='\u{a9ff}'
        | '\u{aa60}'..='\u{aa7f}' | '\u{ac00}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ff9f}'
        | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h6_case_and_accents_are_folded_however_they_are_written() {
        for (text, folded) in [
            ("Été", "ete"),
            ("E\u{301}te\u{301}", "ete"),
            ("Ångström", "angstrom"),
            ("ỆNG", "eng"),
            ("が か", "が か"),
            ("한국어", "한국어"),
            ("ÀB\u{327}c", "abc"),
        ] {
            assert_eq!(fold(text), folded, "{text}");
        }
    }
}
