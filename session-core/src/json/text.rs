//! Texts inside JSON: finding their end, decoding leniently, quoting.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

/// The position behind the closing quote of the text whose content starts at `from`.
pub(super) fn end_of_text(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// What stands between the quotes of a JSON text; invalid UTF-8 and lone surrogates become U+FFFD `[L1, L8]`.
pub(crate) fn decode(inner: &[u8]) -> Cow<'_, str> {
    if memchr(b'\\', inner).is_none() {
        return String::from_utf8_lossy(inner);
    }
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = memchr(b'\\', rest) {
        out.push_str(&String::from_utf8_lossy(&rest[..at]));
        let (decoded, used) = escape(&rest[at..]);
        out.push(decoded.unwrap_or(char::REPLACEMENT_CHARACTER));
        rest = &rest[at + used..];
    }
    out.push_str(&String::from_utf8_lossy(rest));
    Cow::Owned(out)
}

/// Like [`decode`], but none when something would have to become U+FFFD.
pub(crate) fn decode_lossless(inner: &[u8]) -> Option<Cow<'_, str>> {
    let text = std::str::from_utf8(inner).ok()?;
    if !text.contains('\\') {
        return Some(Cow::Borrowed(text));
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let (decoded, used) = escape(&rest.as_bytes()[at..]);
        out.push(decoded?);
        rest = rest.get(at + used..)?;
    }
    out.push_str(rest);
    Some(Cow::Owned(out))
}

/// Decodes the escape that `bytes` begins with: the character, or none when it stands for nothing, and its length.
fn escape(bytes: &[u8]) -> (Option<char>, usize) {
    let simple = match bytes.get(1) {
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(c @ (b'"' | b'\\' | b'/')) => char::from(*c),
        Some(b'u') => return unicode_escape(bytes),
        // No escape of JSON: only the backslash is bad, what follows stands for itself.
        _ => return (None, 1),
    };
    (Some(simple), 2)
}

fn unicode_escape(bytes: &[u8]) -> (Option<char>, usize) {
    let Some(first) = code_unit(bytes) else { return (None, 2) };
    if let Some(c) = char::from_u32(first) {
        return (Some(c), 6);
    }
    if (0xd800..0xdc00).contains(&first)
        && let Some(second @ 0xdc00..0xe000) = bytes.get(6..).and_then(code_unit)
    {
        return (char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)), 12);
    }
    (None, 6)
}

fn code_unit(bytes: &[u8]) -> Option<u32> {
    let digits = bytes.strip_prefix(b"\\u")?.get(..4)?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// The JSON with every lone surrogate escape replaced by that of U+FFFD, for decoders that refuse them.
pub(super) fn without_lone_surrogates(json: &str) -> Cow<'_, str> {
    let bytes = json.as_bytes();
    let mut out: Option<String> = None;
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr(b'\\', rest)) {
        at += found;
        let (decoded, used) = escape(&bytes[at..]);
        if decoded.is_none() && used == 6 {
            let out = out.get_or_insert_default();
            out.push_str(&json[copied..at]);
            out.push_str("\\ufffd");
            copied = at + used;
        }
        at += used;
    }
    match out {
        Some(mut out) => {
            out.push_str(&json[copied..]);
            Cow::Owned(out)
        }
        None => Cow::Borrowed(json),
    }
}

/// `text` as a JSON text, with its quotes. Control characters are escaped: the result never holds a line feed.
pub fn quote(text: &str) -> String {
    // Writing a `str` cannot fail; the empty JSON text is never used.
    serde_json::to_string(text).unwrap_or_else(|_| String::from("\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn surrogates() {
        // K8
        assert_eq!(decode(br"\ud83d"), "\u{fffd}");
        assert_eq!(decode(br"\udc00\ud83d"), "\u{fffd}\u{fffd}");
        assert_eq!(decode(br"\ud83d\ude00!"), "\u{1f600}!");
        assert_eq!(decode_lossless(br"\ud83d"), None);
        assert_eq!(decode(br"\x\u12"), "\u{fffd}x\u{fffd}12");
        assert_eq!(without_lone_surrogates(r#""\\ud83d \ud83d \ud83d\ude00""#), r#""\\ud83d \ufffd \ud83d\ude00""#);
    }

    proptest! {
        #[test]
        fn property_quote_then_decode(text in any::<String>()) {
            let quoted = quote(&text);
            prop_assert!(!quoted.contains('\n'));
            let inner = &quoted.as_bytes()[1..quoted.len() - 1];
            prop_assert_eq!(decode(inner), text.as_str());
            prop_assert_eq!(decode_lossless(inner).unwrap(), text.as_str());
        }
    }
}
