//! JSON as a flat run of tokens, for passes over a whole value that would otherwise recurse.
//!
//! Keeps no stack: who needs to know where he is keeps his own. For valid JSON only; on anything else the tokens are
//! meaningless, but they end and never panic.

use std::ops::Range;

use super::text::end_of_text;

/// What a [`Token`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// `{`
    Object,
    /// `[`
    Array,
    /// `}` or `]`
    End,
    /// A member's key; the range is what stands between the quotes.
    Key,
    /// A text that is a value; the range is what stands between the quotes.
    Text,
    /// A number, `true`, `false` or `null`.
    Scalar,
}

/// A token and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) range: Range<usize>,
}

/// Iterator over the tokens of one JSON value.
#[derive(Clone, Debug)]
pub(crate) struct Tokens<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Tokens<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Where the next token is looked for: behind the last one, and behind the colon of a key.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Steps over the value that comes next.
    pub(crate) fn skip_value(&mut self) {
        let mut depth = 0_usize;
        for token in self.by_ref() {
            match token.kind {
                TokenKind::Object | TokenKind::Array => depth += 1,
                TokenKind::End => depth = depth.saturating_sub(1),
                TokenKind::Key => continue,
                TokenKind::Text | TokenKind::Scalar => {}
            }
            if depth == 0 {
                return;
            }
        }
    }

    fn is_blank(byte: u8) -> bool {
        matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
    }

    /// Steps over the colon behind a key; false when there is none.
    fn colon(&mut self) -> bool {
        let blanks = self.bytes[self.at..].iter().take_while(|&&byte| Self::is_blank(byte)).count();
        let found = self.bytes.get(self.at + blanks) == Some(&b':');
        if found {
            self.at += blanks + 1;
        }
        found
    }
}

impl Iterator for Tokens<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        loop {
            let start = self.at;
            let byte = *self.bytes.get(start)?;
            self.at += 1;
            let (kind, range) = match byte {
                b' ' | b'\t' | b'\r' | b'\n' | b',' | b':' => continue,
                b'"' => {
                    let Some(end) = end_of_text(self.bytes, self.at) else {
                        self.at = self.bytes.len();
                        return None;
                    };
                    self.at = end;
                    let kind = if self.colon() { TokenKind::Key } else { TokenKind::Text };
                    (kind, start + 1..end - 1)
                }
                b'{' => (TokenKind::Object, start..self.at),
                b'[' => (TokenKind::Array, start..self.at),
                b'}' | b']' => (TokenKind::End, start..self.at),
                _ => {
                    let rest = &self.bytes[self.at..];
                    let ends = |&byte: &u8| matches!(byte, b',' | b'}' | b']' | b':' | b'"') || Self::is_blank(byte);
                    self.at += rest.iter().position(ends).unwrap_or(rest.len());
                    (TokenKind::Scalar, start..self.at)
                }
            };
            return Some(Token { kind, range });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_token_and_its_place() {
        use TokenKind::{Array, End, Key, Object, Scalar, Text};
        let json = br#" {"a\"" : [1.0,"x:" ,null],"b":{}} "#;
        let tokens: Vec<Token> = Tokens::new(json).collect();
        let kinds: Vec<TokenKind> = tokens.iter().map(|token| token.kind).collect();
        assert_eq!(kinds, [Object, Key, Array, Scalar, Text, Scalar, End, Key, Object, End, End]);
        let raw: Vec<&[u8]> = tokens.iter().map(|token| &json[token.range.clone()]).collect();
        let want: [&[u8]; 11] = [b"{", br#"a\""#, b"[", b"1.0", b"x:", b"null", b"]", b"b", b"{", b"}", b"}"];
        assert_eq!(raw, want);
    }

    #[test]
    fn skipping_a_value() {
        for value in ["1", r#""x""#, "[]", r#"{"a":[{"b":"]"}]}"#] {
            let json = format!("[{value},true]");
            let mut tokens = Tokens::new(json.as_bytes());
            tokens.next();
            tokens.skip_value();
            assert_eq!(&json[tokens.position()..], ",true]", "{value}");
        }
    }

    proptest! {
        #[test]
        fn property_any_bytes_end(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Tokens::new(&bytes).count() <= bytes.len());
        }
    }
}
