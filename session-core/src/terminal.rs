//! Which terminal this is `[P1]`, as a name that is safe for a file `[P4]`.
//!
//! It asks nothing of the process itself: the terminal on standard input and the environment are handed in.
//! [`stdin_terminal`] is there for those who want this process's own.

use std::fmt;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::layout::Environment;

/// The id of a terminal: `pts-3`, `kitty-12`, `tmux-%3`…
///
/// ```
/// use std::path::Path;
/// use session_core::{Environment, TerminalId};
/// let environment = Environment::new("/").with_variable("TMUX_PANE", "%3");
/// let tmux = TerminalId::detect(None, &environment).unwrap();
/// assert_eq!(tmux.as_str(), "tmux-%3");
/// let device = TerminalId::detect(Some(Path::new("/dev/pts/3")), &environment).unwrap();
/// assert_eq!(device.as_str(), "pts-3");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TerminalId(Box<str>);

/// Variables that name a terminal, with the prefix of its id, in the order in which they count `[P1]`.
const VARIABLES: [(&str, &str); 4] =
    [("kitty", "KITTY_WINDOW_ID"), ("tmux", "TMUX_PANE"), ("apple", "TERM_SESSION_ID"), ("wt", "WT_SESSION")];

impl TerminalId {
    /// An id as somebody names it, on a command line or by the name of a pointer file.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when it is empty.
    pub fn new(id: &str) -> Result<Self> {
        if id.is_empty() {
            return Err(Error::new(ErrorKind::InvalidInput, "a terminal id is not empty"));
        }
        Ok(Self(id.into()))
    }

    /// The id of the terminal with this device on standard input, else the one that the environment tells; none when
    /// neither does, and then no pointer is written `[P1]`.
    pub fn detect(stdin: Option<&Path>, environment: &Environment) -> Option<Self> {
        if let Some(device) = stdin {
            let device = device.to_string_lossy();
            let name = device.strip_prefix("/dev/").unwrap_or(device.trim_start_matches('/'));
            return Self::new(&name.replace('/', "-")).ok();
        }
        let (prefix, value) =
            VARIABLES.iter().find_map(|(prefix, name)| Some((prefix, environment.variable(name)?)))?;
        Some(Self(format!("{prefix}-{}", value.to_string_lossy()).into()))
    }

    /// The id itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of its pointer file: the id, or its escaped form when it could leave the directory `[P4]`.
    ///
    /// An id with a `/`, a `\`, a control character or a leading `.` has those, and every `%`, as `%XX` of their UTF-8
    /// bytes. The name of a pointer file is an id whose file name it is.
    ///
    /// ```
    /// use session_core::TerminalId;
    /// let name = |id| TerminalId::new(id).unwrap().file_name();
    /// assert_eq!(name("tmux-%3"), "tmux-%3");
    /// assert_eq!(name("kitty-7/../8%"), "kitty-7%2F..%2F8%25");
    /// assert_eq!(name(".."), "%2E.");
    /// ```
    pub fn file_name(&self) -> String {
        let unsafe_char = |c: char| c == '/' || c == '\\' || c.is_control();
        if !self.0.starts_with('.') && !self.0.contains(unsafe_char) {
            return self.0.to_string();
        }
        let mut name = String::with_capacity(self.0.len() + 16);
        for (at, c) in self.0.char_indices() {
            if unsafe_char(c) || c == '%' || (at == 0 && c == '.') {
                let mut bytes = [0; 4];
                for byte in c.encode_utf8(&mut bytes).bytes() {
                    let _ = write!(name, "%{byte:02X}");
                }
            } else {
                name.push(c);
            }
        }
        name
    }
}

impl fmt::Display for TerminalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The device of the terminal on this process's standard input; none when that is no terminal.
pub fn stdin_terminal() -> Option<PathBuf> {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    let name = rustix::termios::ttyname(std::io::stdin(), Vec::new()).ok()?;
    Some(PathBuf::from(OsString::from_vec(name.into_bytes())))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_sign_of_a_terminal_counts() {
        // [P1]
        let all = [("WT_SESSION", "w"), ("TERM_SESSION_ID", "t"), ("TMUX_PANE", "%3"), ("KITTY_WINDOW_ID", "12")];
        for (set, id) in
            [(0, None), (1, Some("wt-w")), (2, Some("apple-t")), (3, Some("tmux-%3")), (4, Some("kitty-12"))]
        {
            let environment = all[..set]
                .iter()
                .fold(Environment::default(), |environment, (name, value)| environment.with_variable(name, value));
            let found = TerminalId::detect(None, &environment);
            assert_eq!(found.as_ref().map(TerminalId::as_str), id);
            for (device, id) in [("/dev/pts/3", "pts-3"), ("/dev/tty1", "tty1"), ("/x/tty", "x-tty")] {
                let found = TerminalId::detect(Some(Path::new(device)), &environment).unwrap();
                assert_eq!(found.as_str(), id);
            }
        }
        let empty = Environment::default().with_variable("KITTY_WINDOW_ID", "").with_variable("TMUX_PANE", "%1");
        assert_eq!(TerminalId::detect(None, &empty).unwrap().as_str(), "tmux-%1");
        assert!(TerminalId::new("").is_err());
    }

    fn unescape(name: &str) -> String {
        let mut bytes = Vec::new();
        let mut rest = name.as_bytes();
        while let Some((first, more)) = rest.split_first() {
            if *first == b'%' {
                bytes.push(u8::from_str_radix(std::str::from_utf8(&more[..2]).unwrap(), 16).unwrap());
                rest = &more[2..];
            } else {
                bytes.push(*first);
                rest = more;
            }
        }
        String::from_utf8(bytes).unwrap()
    }

    fn id_text() -> impl Strategy<Value = String> {
        prop_oneof![any::<String>(), r"[./\\%a\x00-\x1f\x7f\u{80}-\u{9f}]{1,12}"]
            .prop_filter("not empty", |id| !id.is_empty())
    }

    proptest! {
        #[test]
        fn property_no_id_leaves_the_directory(text in id_text()) {
            // [P4]
            let id = TerminalId::new(&text).unwrap();
            let name = id.file_name();
            prop_assert!(!name.starts_with('.') && !name.contains(['/', '\\']) && !name.contains(char::is_control));
            let path = Path::new("/d").join(&name);
            prop_assert_eq!(path.parent(), Some(Path::new("/d")));
            // Reading and writing agree, and so does whoever takes the file's name for an id.
            prop_assert_eq!(TerminalId::new(&name).unwrap().file_name(), name.clone());
            prop_assert!(name == text || unescape(&name) == text, "what is escaped can be read back");
        }
    }
}
