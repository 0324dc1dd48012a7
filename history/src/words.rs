//! The form of a full-text index, told from the statement that made it `[H1, H4]`.

use crate::sql::{Token, tokens};

/// Whether it holds the words of the prompts, all of them and nothing else, as `query` thinks of words.
pub(crate) fn is_word_index(sql: &str) -> bool {
    let Some(form) = Form::of(sql) else { return false };
    let is = |option: &str, allowed: &[&str]| form.option(option).is_none_or(|value| allowed.contains(&value));
    form.columns == ["prompt"]
        && form.option("content") == Some("history")
        && is("content_rowid", &["id", "rowid"])
        && is("detail", &["full"])
        && is("columnsize", &["1"])
        && form.option("tokenize").is_none_or(|tokenizer| {
            let mut words = tokenizer.split_whitespace();
            words.next() == Some("unicode61")
                && matches!(
                    (words.next(), words.next(), words.next()),
                    (None, ..) | (Some("remove_diacritics"), _, None)
                )
        })
}

/// Whether it keeps indexes of its own for beginnings of one, two and three letters, as ours do.
pub(crate) fn has_short_prefixes(sql: &str) -> bool {
    let form = Form::of(sql);
    let prefixes: Vec<&str> =
        form.iter().filter_map(|form| form.option("prefix")).flat_map(str::split_whitespace).collect();
    ["1", "2", "3"].iter().all(|length| prefixes.contains(length))
}

struct Form {
    columns: Vec<String>,
    options: Vec<(String, String)>,
}

impl Form {
    fn of(sql: &str) -> Option<Self> {
        let tokens = tokens(sql);
        let using = tokens.iter().position(|token| token.is_word("using"))?;
        let [module, Token::Mark('('), arguments @ .., Token::Mark(')')] = &tokens[using + 1..] else { return None };
        if !module.names("fts5") {
            return None;
        }
        let mut form = Self { columns: Vec::new(), options: Vec::new() };
        for argument in arguments.split(|token| *token == Token::Mark(',')) {
            let said = |tokens: &[Token]| tokens.iter().map(Token::text).collect::<Vec<_>>().join(" ").to_lowercase();
            match argument {
                [name, Token::Mark('='), value @ ..] => form.options.push((name.text(), said(value))),
                column => form.columns.push(said(column)),
            }
        }
        Some(form)
    }

    fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(option, _)| option == name).map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h4_an_index_of_words_is_told_from_others() {
        let index = |arguments: &str| format!("CREATE VIRTUAL TABLE history_fts USING fts5({arguments})");
        for (arguments, words) in [
            ("prompt, content='history', content_rowid='id'", true),
            ("\"prompt\", content = \"history\", content_rowid=id, prefix='1 2 3', tokenize='unicode61'", true),
            ("prompt, content=history, tokenize = 'unicode61 remove_diacritics 2', detail=full", true),
            ("prompt, content=history, tokenize=\"unicode61 remove_diacritics '0'\"", true),
            ("prompt UNINDEXED, content=history", false),
            ("prompt, session, content=history", false),
            ("prompt, content=history_old", false),
            ("prompt, content=history, detail=none", false),
            ("prompt, content=history, columnsize=0", false),
            ("prompt, content=history, tokenize='porter unicode61'", false),
            ("prompt, content=history, tokenize='unicode61 tokenchars ''-'''", false),
            ("prompt, content=history, tokenize='unicode61 remove_diacritics 1 separators x'", false),
            ("prompt", false),
        ] {
            assert_eq!(is_word_index(&index(arguments)), words, "{arguments}");
        }
        assert!(!is_word_index("CREATE VIRTUAL TABLE history_fts USING fts4(prompt, content='history')"));
        assert!(!is_word_index("CREATE TABLE history_fts(prompt)"));
        assert!(
            has_short_prefixes(&index("prompt, prefix='1 2 3 4'")) && !has_short_prefixes(&index("prompt, prefix=2"))
        );
    }
}
