//! The owner's SQL, cut into tokens as SQLite does it, so that no comment, text or quoted name is taken for something that
//! is done. It understands no statement.

/// One token; names and words are in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    /// A keyword, name or number without quotes.
    Word(String),
    /// A name in quotes of any kind.
    Name(String),
    /// A text in single quotes.
    Text(String),
    /// Anything else.
    Mark(char),
}

impl Token {
    /// Whether it is this word, as a keyword has to be written.
    pub(crate) fn is_word(&self, word: &str) -> bool {
        matches!(self, Self::Word(found) if found == word)
    }

    /// Whether it names this, with quotes or without.
    pub(crate) fn names(&self, name: &str) -> bool {
        matches!(self, Self::Word(found) | Self::Name(found) if found == name)
    }

    /// What it says, quotes aside.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Word(text) | Self::Name(text) | Self::Text(text) => text.clone(),
            Self::Mark(mark) => mark.to_string(),
        }
    }
}

/// The tokens of a statement, without its comments and white space.
pub(crate) fn tokens(sql: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = sql.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("--") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.find("*/").map_or(rest.len(), |end| end + 4)
        } else if let Some(close) = closing(first) {
            let (text, length) = quoted(rest, close);
            tokens.push(if close == '\'' { Token::Text(text) } else { Token::Name(text.to_lowercase()) });
            length
        } else if is_word(first) {
            let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..length].to_lowercase()));
            length
        } else {
            tokens.push(Token::Mark(first));
            first.len_utf8()
        };
        rest = rest[length..].trim_start();
    }
    tokens
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$' || !c.is_ascii()
}

fn closing(open: char) -> Option<char> {
    match open {
        '\'' | '"' | '`' => Some(open),
        '[' => Some(']'),
        _ => None,
    }
}

/// The text in quotes at the beginning, and how long it is with them; the closing quote stands for itself when doubled.
fn quoted(sql: &str, close: char) -> (String, usize) {
    let mut text = String::new();
    let mut letters = sql.char_indices().skip(1).peekable();
    while let Some((at, letter)) = letters.next() {
        if letter == close && (close == ']' || letters.next_if(|(_, next)| *next == close).is_none()) {
            return (text, at + 1);
        }
        text.push(letter);
    }
    (text, sql.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_comments_hide_what_is_in_them() {
        let word = |text: &str| Token::Word(text.to_owned());
        let name = |text: &str| Token::Name(text.to_owned());
        assert_eq!(
            tokens("INSERT/* \"x */INTO [My \"Table](`a``B`)--;\n'It''s', \"\"\"q\";/*"),
            [
                word("insert"),
                word("into"),
                name("my \"table"),
                Token::Mark('('),
                name("a`b"),
                Token::Mark(')'),
                Token::Text("It's".to_owned()),
                Token::Mark(','),
                name("\"q"),
                Token::Mark(';'),
            ]
        );
        for torn in ["'a", "[", "/", "-", "\"é''", "é'"] {
            assert_eq!(tokens(torn).len(), if torn == "é'" { 2 } else { 1 }, "{torn}");
        }
    }
}
