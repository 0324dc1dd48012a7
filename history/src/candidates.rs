//! Pages for words that very many prompts hold `[H3]`.
//!
//! Before FTS5 hands out the first row for a beginning of a word, it gathers every row of every word that begins so,
//! unless the beginning is one of those that it keeps an index of: a common word in a million prompts costs tens of
//! milliseconds. So only the indexed letters are asked for, which is answered row by row, and the whole word is looked for
//! in these rows: first of every word in few rows, which is enough where all are common; then, so that a rare word leads to
//! the rows, of the common ones alone. It answers only when it is sure to give FTS5's own page.

use rusqlite::Connection;

use crate::query::Token;

/// The longest beginning that databases of ours have an index of.
const INDEXED_LETTERS: usize = 3;

/// When this way is taken, and when it is given up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// A word is common that so many prompts hold.
    common: usize,
    /// So many rows are looked at for each one wanted, while only beginnings lead to them.
    each: usize,
    /// So many rows are looked at.
    rows: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { common: 3_000, each: 10, rows: 2_000 }
    }
}

/// The latest rows, highest id first, that hold every token; none when FTS5 has to be asked for the whole words.
pub(crate) fn page(
    conn: &Connection,
    tokens: &[Token],
    limit: usize,
    bounds: Bounds,
) -> rusqlite::Result<Option<Vec<i64>>> {
    if let Some(page) = look(conn, tokens, limit, bounds.rows.min(limit * bounds.each), |_| Ok(true))? {
        return Ok(Some(page));
    }
    look(conn, tokens, limit, bounds.rows, |word| is_common(conn, word, bounds.common))
}

fn look(
    conn: &Connection,
    tokens: &[Token],
    limit: usize,
    rows_at_most: usize,
    is_shortened: impl Fn(&str) -> rusqlite::Result<bool>,
) -> rusqlite::Result<Option<Vec<i64>>> {
    let (mut asked, mut looked_for) = (Vec::new(), Vec::new());
    for token in tokens {
        let Some(phrase) = &token.phrase else { return Ok(None) };
        match token.words.as_slice() {
            [word] if word.is_ascii() && word.len() > INDEXED_LETTERS && is_shortened(word)? => {
                asked.push(format!("\"{}\"*", &word[..INDEXED_LETTERS]));
                looked_for.push(word.as_bytes());
            }
            _ => asked.push(phrase.clone()),
        }
    }
    if looked_for.is_empty() {
        return Ok(None);
    }
    let sql = "SELECT h.id, h.prompt FROM history_fts f CROSS JOIN history h ON h.id = f.rowid
               WHERE history_fts MATCH ? ORDER BY f.rowid DESC";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([asked.join(" AND ")])?;
    let mut found = Vec::new();
    for _ in 0..rows_at_most {
        let Some(row) = rows.next()? else { return Ok(Some(found)) };
        let Ok(text) = row.get_ref(1)?.as_bytes() else { return Ok(None) };
        // What FTS5 takes for a word is certain in ASCII alone.
        if !text.is_ascii() || text.contains(&0) {
            return Ok(None);
        }
        if looked_for.iter().all(|word| has_word_with(text, word)) {
            found.push(row.get(0)?);
            if found.len() >= limit {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

fn is_common(conn: &Connection, word: &str, common: usize) -> rusqlite::Result<bool> {
    let sql = "SELECT count(*) FROM (SELECT 1 FROM history_fts WHERE history_fts MATCH ? LIMIT ?)";
    let limit = i64::try_from(common).unwrap_or(i64::MAX);
    let count: i64 = conn.prepare_cached(sql)?.query_row((format!("\"{word}\""), limit), |row| row.get(0))?;
    Ok(count >= limit)
}

fn has_word_with(text: &[u8], beginning: &[u8]) -> bool {
    text.split(|byte| !byte.is_ascii_alphanumeric())
        .any(|word| word.len() >= beginning.len() && word[..beginning.len()].eq_ignore_ascii_case(beginning))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        place,
        query::{Query, match_expression},
    };

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// An answer is always the page of FTS5, in the same order `[H3]`.
        #[test]
        fn property_h3_a_page_of_candidates_is_the_page_of_the_index(
            prompts in prop::collection::vec("(form|forms|Formal|fork|log|login|logins|x|é)([ .](form|formed|login|y)){0,3}", 1..40),
            query in "(form|forma|login|logi|fo|y)( (form|log|login|fork)){0,2}",
            limit in 1..6_usize,
            each in 0..4_usize,
            rows in 1..60_usize,
        ) {
            let conn = Connection::open_in_memory().unwrap();
            place::fill(&conn).unwrap();
            for prompt in &prompts {
                conn.execute("INSERT INTO history(prompt) VALUES (?)", [prompt]).unwrap();
            }
            let Query::Tokens(tokens) = Query::parse(&query) else { panic!("there are tokens") };
            let page = page(&conn, &tokens, limit, Bounds { common: 2, each, rows }).unwrap();
            let mut statement = conn
                .prepare("SELECT rowid FROM history_fts WHERE history_fts MATCH ? ORDER BY rowid DESC LIMIT ?")
                .unwrap();
            let exact: Vec<i64> = statement
                .query_map((match_expression(&tokens), i64::try_from(limit).unwrap()), |row| row.get(0))
                .unwrap()
                .map(Result::unwrap)
                .collect();
            if let Some(page) = page {
                prop_assert_eq!(page, exact);
            }
        }
    }

    #[test]
    fn common_words_are_answered_row_by_row() {
        let conn = Connection::open_in_memory().unwrap();
        place::fill(&conn).unwrap();
        for n in 0..50 {
            conn.execute("INSERT INTO history(prompt) VALUES (?)", [format!("form number{n} forest login")]).unwrap();
        }
        let page = |query: &str, limit: usize, common: usize, each: usize| {
            let Query::Tokens(tokens) = Query::parse(query) else { panic!("there are tokens") };
            page(&conn, &tokens, limit, Bounds { common, each, rows: 20 }).unwrap()
        };
        assert_eq!(page("form login", 3, 10, 1), Some(vec![50, 49, 48]));
        assert_eq!(page("fores", 3, 99, 1), Some(vec![50, 49, 48]), "also while the word is being typed");
        assert_eq!(page("login number7", 3, 10, 5), Some(vec![8]), "the rare word leads to its row");
        assert_eq!(page("form login", 30, 10, 1), None, "no more rows than allowed are looked at");
        assert_eq!(page("number7", 3, 10, 5), None, "no word is common");
    }
}
