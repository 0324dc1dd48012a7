//! A query as the user typed it, taken apart `[H3]`. Whatever it holds is text: nothing here can be a syntax error.

use std::collections::HashSet;

use crate::fold::{fold, is_space, is_unspaced};

/// What to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Query {
    /// Nothing was asked.
    Empty,
    /// Every token must be found.
    Tokens(Vec<Token>),
}

/// One piece between white space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    /// Folded words that punctuation joins; for a token of pure punctuation the folded token itself.
    pub(crate) words: Vec<String>,
    /// The phrase for FTS, when its tokenizer sees words where we do.
    pub(crate) phrase: Option<String>,
}

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let mut seen = HashSet::new();
        let pieces = text.split(|c| is_space(c) || c == '\0').filter(|piece| !piece.is_empty() && seen.insert(*piece));
        let pieces: Vec<&str> = pieces.collect();
        let mut tokens: Vec<Token> = pieces.iter().filter_map(|piece| Token::of_words(piece)).collect();
        if tokens.is_empty() {
            tokens = pieces.iter().map(|piece| Token::literal(piece)).collect();
        }
        if tokens.is_empty() { Self::Empty } else { Self::Tokens(tokens) }
    }
}

impl Token {
    fn of_words(piece: &str) -> Option<Self> {
        let folded = fold(piece);
        let words: Vec<String> =
            folded.split(|c: char| !is_word(c)).filter(|word| !word.is_empty()).map(str::to_owned).collect();
        if words.is_empty() {
            return None;
        }
        let phrase = (!piece.chars().any(is_unspaced)).then(|| format!("\"{}\"*", piece.replace('"', " ")));
        Some(Self { words, phrase })
    }

    fn literal(piece: &str) -> Self {
        Self { words: vec![fold(piece)], phrase: None }
    }
}

/// Letters, digits and the marks that belong to them make words; everything else only joins them.
pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric()
}

/// More words than anybody types: FTS5's time for an expression grows with the square of its length.
const MOST_WORDS: usize = 1_000;

/// The MATCH expression for tokens that all have a phrase, unless there are too many.
pub(crate) fn match_expression(tokens: &[Token]) -> Option<String> {
    if tokens.iter().map(|token| token.words.len()).sum::<usize>() > MOST_WORDS {
        return None;
    }
    let phrases: Option<Vec<&str>> = tokens.iter().map(|token| token.phrase.as_deref()).collect();
    phrases.map(|phrases| phrases.join(" AND "))
}
