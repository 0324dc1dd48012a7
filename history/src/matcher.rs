//! Looks into prompts themselves for what FTS can't see `[H6]`: the inside of a word, scripts without spaces, punctuation.

use memchr::memmem::Finder;

use crate::{
    fold::fold_into,
    query::{Token, is_word},
};

/// Decides whether a prompt holds every token of a query.
pub(crate) struct Matcher {
    tests: Vec<Test>,
    folded: String,
}

/// The first word, and the others that have to follow it.
struct Test {
    first: Finder<'static>,
    others: Vec<String>,
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
        self.tests.iter().all(|test| test.is_in(&self.folded))
    }
}

impl Test {
    fn new(words: &[String]) -> Self {
        let (first, others) = words.split_first().map_or(("", &[][..]), |(first, others)| (first.as_str(), others));
        Self { first: Finder::new(first).into_owned(), others: others.to_vec() }
    }

    fn is_in(&self, text: &str) -> bool {
        let mut from = 0;
        while let Some(at) = self.first.find(&text.as_bytes()[from..]) {
            let after = from + at + self.first.needle().len();
            if follow(&self.others, &text[after..]) {
                return true;
            }
            // It may begin again inside itself, as `aba` in `ababa`.
            from += at + text[from + at..].chars().next().map_or(1, char::len_utf8);
        }
        false
    }
}

/// Whether these words come next, each after something that is no part of a word.
fn follow(words: &[String], mut text: &str) -> bool {
    words.iter().all(|word| {
        let next = text.trim_start_matches(|c| !is_word(c));
        let is_next = next.len() < text.len() && next.starts_with(word.as_str());
        if is_next {
            text = &next[word.len()..];
        }
        is_next
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Query;

    #[test]
    fn h3_joined_words_follow_each_other() {
        let matches = |query: &str, text: &str| {
            let Query::Tokens(tokens) = Query::parse(query) else { panic!("there are tokens") };
            Matcher::new(&tokens).matches(text)
        };
        for (query, text, expected) in [
            ("form.tsx", "open LoginForm - tsxes", true),
            ("form.tsx", "formtsx", false),
            ("form.tsx", "form or tsx", false),
            ("form.tsx", "formal form.tsx", true),
            ("aba.c", "ababa.c", true),
            ("a.a.b", "a.a.a.b", true),
            ("é.ñ", "é é, ñ", true),
            ("%", "100 %", true),
            ("x", "", false),
        ] {
            assert_eq!(matches(query, text), expected, "{query} in {text}");
        }
    }
}
