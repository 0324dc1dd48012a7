//! Whether bytes are one JSON value, without recursion and without decoding.
//!
//! The judgement is that of RFC 8259, with one leniency: bytes inside texts may be invalid UTF-8 `[L1]`.

use std::fmt;

use crate::block::plain_run;

/// Why bytes are no JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    what: &'static str,
    offset: usize,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.what, self.offset)
    }
}

/// Checks that `bytes` is one JSON value with nothing but white space around it.
pub(crate) fn validate(bytes: &[u8]) -> Result<(), Fault> {
    Validator { bytes, at: 0, open: Vec::new() }.run()
}

struct Validator<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The brackets that are open: one byte each, so that a million levels cost a megabyte and no stack.
    open: Vec<u8>,
}

impl Validator<'_> {
    fn run(mut self) -> Result<(), Fault> {
        loop {
            self.blanks();
            let opened = self.value()?;
            if opened && !self.close_if_empty() {
                self.key_if_object()?;
                continue;
            }
            // A value has ended: close what ends with it, then go on behind the next comma.
            loop {
                self.blanks();
                let Some(&bracket) = self.open.last() else {
                    return if self.at == self.bytes.len() { Ok(()) } else { self.fault("something after the value") };
                };
                match self.peek() {
                    Some(b',') => {
                        self.at += 1;
                        self.key_if_object()?;
                        break;
                    }
                    Some(b'}') if bracket == b'{' => self.close(),
                    Some(b']') if bracket == b'[' => self.close(),
                    _ => return self.fault("neither a comma nor the end of the object or array"),
                }
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn fault<T>(&self, what: &'static str) -> Result<T, Fault> {
        Err(Fault { what, offset: self.at })
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn close(&mut self) {
        self.open.pop();
        self.at += 1;
    }

    fn close_if_empty(&mut self) -> bool {
        self.blanks();
        let empty = matches!((self.open.last(), self.peek()), (Some(b'{'), Some(b'}')) | (Some(b'['), Some(b']')));
        if empty {
            self.close();
        }
        empty
    }

    fn key_if_object(&mut self) -> Result<(), Fault> {
        if self.open.last() != Some(&b'{') {
            return Ok(());
        }
        self.blanks();
        if self.peek() != Some(b'"') {
            return self.fault("no key");
        }
        self.text()?;
        self.blanks();
        if self.peek() != Some(b':') {
            return self.fault("no colon after a key");
        }
        self.at += 1;
        Ok(())
    }

    /// Steps over a scalar or into an object or array; true when it is now inside one.
    fn value(&mut self) -> Result<bool, Fault> {
        match self.peek() {
            Some(bracket @ (b'{' | b'[')) => {
                self.open.push(bracket);
                self.at += 1;
                return Ok(true);
            }
            Some(b'"') => self.text()?,
            Some(b't') => self.word(b"true")?,
            Some(b'f') => self.word(b"false")?,
            Some(b'n') => self.word(b"null")?,
            Some(b'-' | b'0'..=b'9') => self.number()?,
            None => return self.fault("the end where a value should be"),
            Some(_) => return self.fault("no value"),
        }
        Ok(false)
    }

    fn word(&mut self, word: &[u8]) -> Result<(), Fault> {
        if !self.bytes[self.at..].starts_with(word) {
            return self.fault("no value");
        }
        self.at += word.len();
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Fault> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { self.fault("no digit") } else { Ok(()) }
    }

    fn number(&mut self) -> Result<(), Fault> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn text(&mut self) -> Result<(), Fault> {
        self.at += 1;
        loop {
            self.at += plain_run(&self.bytes[self.at..]);
            match self.peek() {
                None => return self.fault("a text without its closing quote"),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => match self.bytes.get(self.at + 1) {
                    Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
                    Some(b'u') if self.has_four_hex_digits() => self.at += 6,
                    _ => return self.fault("no escape"),
                },
                Some(_) => return self.fault("a control character inside a text"),
            }
        }
    }

    fn has_four_hex_digits(&self) -> bool {
        self.bytes.get(self.at + 2..self.at + 6).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    }
}
