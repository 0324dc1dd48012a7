//! Looks into prompts themselves for what FTS can't see `[H6]`: the inside of a word, scripts without spaces, punctuation.

use memchr::memmem::Finder;
use regex::Regex;

use crate::{fold::fold_into, query::Token};

/// Decides whether a prompt holds every token of a query.
pub(crate) struct Matcher {
    tests: Vec<Test>,
    folded: String,
}

enum Test {
    Inside(Box<Finder<'static>>),
    Joined(Box<Regex>),
    /// A token so long that its pattern passes the size limit of `regex`: no prompt holds it.
    Never,
}

impl Matcher {
    pub(crate) fn new(tokens: &[Token]) -> Self {
        // The longest is the rarest, as a rule: a prompt that lacks it needs no second look.
        let mut sorted: Vec<&Token> = tokens.iter().collect();
        sorted.sort_by_key(|token| std::cmp::Reverse(token.words.iter().map(String::len).sum::<usize>()));
        let tests = sorted.into_iter().map(|token| Test::new(&token.words)).collect();
        Self { tests, folded: String::new() }
    }

    /// Words joined by punctuation in the query stand next to each other in the prompt; the first may be the end of a
    /// longer word, the last the beginning of one `[H3]`.
    pub(crate) fn matches(&mut self, prompt: &str) -> bool {
        self.folded.clear();
        fold_into(prompt, &mut self.folded);
        self.tests.iter().all(|test| match test {
            Test::Inside(finder) => finder.find(self.folded.as_bytes()).is_some(),
            Test::Joined(regex) => regex.is_match(&self.folded),
            Test::Never => false,
        })
    }
}

impl Test {
    fn new(words: &[String]) -> Self {
        if let [word] = words {
            return Self::Inside(Box::new(Finder::new(word).into_owned()));
        }
        let escaped: Vec<String> = words.iter().map(|word| regex::escape(word)).collect();
        let pattern = escaped.join(r"[^\p{Alphabetic}\p{N}]+");
        Regex::new(&pattern).map_or(Self::Never, |regex| Self::Joined(Box::new(regex)))
    }
}
