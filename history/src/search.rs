//! Questions: the latest prompts, and those that hold the words of a query `[H3, H6]`. It only reads.
//!
//! FTS answers what it can see: words by their beginning. What it can't see is looked for in the prompts themselves,
//! newest first and only so many of them; a page says when there was more to look at.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension as _, Row, params_from_iter, types::Value};

use crate::{
    candidates,
    entry::{Entry, Page, RowId},
    limit::Limit,
    matcher::Matcher,
    order,
    query::{Query, Token, match_expression},
    schema::{Fts, Shape},
    scope::{Columns, Scope},
    value,
};

/// So many prompts are looked through for words that begin no word of the index.
const LOOK_THROUGH: usize = 200_000;
/// So many when the index knows every word of the query and only might have missed more.
const LOOK_FURTHER: usize = 10_000;

// `LIMIT ? + 0`: SQLite looks at the value of a plain `LIMIT ?`, and for 1 it takes sorting the whole table for cheaper than
// going along the index of times.

/// The order of a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// By time, latest first `[H3]`.
    #[default]
    Newest,
    /// By how well FTS thinks it fits; what only a look into the prompts found comes after that, latest first.
    Relevance,
}

/// What a search is limited to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchOptions {
    pub(crate) limit: Limit,
    pub(crate) scope: Scope,
    pub(crate) order: Order,
}

impl SearchOptions {
    /// At most so many entries, from everywhere, newest first.
    pub fn new(limit: impl Into<Limit>) -> Self {
        Self { limit: limit.into(), scope: Scope::default(), order: Order::default() }
    }

    /// Only submissions of this scope.
    #[must_use]
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// In this order.
    #[must_use]
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }
}

const RECORD: Columns = Columns { cwd: "s.cwd", session: Some("s.session"), at: "s.at" };

/// One question to one state of the database.
pub(crate) struct Search<'a> {
    conn: &'a Connection,
    shape: &'a Shape,
    scope: &'a Scope,
    limit: Limit,
}

impl<'a> Search<'a> {
    pub(crate) fn new(conn: &'a Connection, shape: &'a Shape, scope: &'a Scope, limit: Limit) -> Self {
        Self { conn, shape, scope, limit }
    }

    /// The latest prompts of the scope, latest first.
    pub(crate) fn recent(&self) -> rusqlite::Result<Vec<Entry>> {
        if !self.shape.is_readable() || self.limit.get() == 0 {
            return Ok(Vec::new());
        }
        if self.scope.is_everywhere() {
            return self.collect(&self.latest(), vec![self.limit.sql().into()]);
        }
        let mut values = Vec::new();
        let mut parts = Vec::new();
        if self.shape.own {
            let condition = self.scope.condition(&RECORD, &mut values);
            values.push(self.limit.sql().into());
            parts.push(format!(
                "SELECT * FROM (SELECT s.row AS row, max(s.at) AS at, s.cwd, s.session FROM watcher_submission s
                 WHERE {condition} AND EXISTS (SELECT 1 FROM history WHERE id = s.row)
                 GROUP BY s.row ORDER BY max(s.at) DESC, s.row DESC LIMIT ? + 0)"
            ));
        }
        let columns = self.row_columns();
        let condition = self.scope.condition(&columns, &mut values);
        values.push(self.limit.sql().into());
        parts.push(format!(
            "SELECT * FROM (SELECT h.id AS row, {at} AS at, {cwd}, {session} FROM history h WHERE {condition}
             ORDER BY {at} DESC, h.id DESC LIMIT ? + 0)",
            at = columns.at,
            cwd = columns.cwd,
            session = columns.session.unwrap_or("NULL"),
        ));
        values.push(self.limit.sql().into());
        self.in_scope(&parts.join(" UNION ALL "), values)
    }

    /// The prompts that hold every token of the query.
    pub(crate) fn find(&self, query: &Query, order: Order) -> rusqlite::Result<Page> {
        let nothing = Page { entries: Vec::new(), stopped_early: false };
        let Query::Tokens(tokens) = query else { return Ok(nothing) };
        if !self.shape.is_readable() || self.limit.get() == 0 {
            return Ok(nothing);
        }
        let expression = match_expression(tokens).filter(|_| self.shape.fts == Fts::Words);
        let seen = match &expression {
            Some(expression) => self.indexed(tokens, expression, order)?,
            None => Vec::new(),
        };
        if seen.len() >= self.limit.get() {
            return Ok(Page { entries: self.load(&seen)?, stopped_early: false });
        }
        let budget = if expression.is_some() && self.all_known(tokens)? { LOOK_FURTHER } else { LOOK_THROUGH };
        let (looked, stopped_early) = self.look(tokens, budget)?;
        let mut rows = seen.clone();
        let indexed: HashSet<i64> = seen.into_iter().collect();
        rows.extend(looked.into_iter().filter(|row| !indexed.contains(row)));
        let mut entries = self.load(&rows)?;
        if order == Order::Newest {
            entries.sort_by_key(|entry| std::cmp::Reverse((entry.created_at, entry.id)));
        }
        entries.truncate(self.limit.get());
        Ok(Page { stopped_early: stopped_early && entries.len() < self.limit.get(), entries })
    }

    /// The rows of a page as FTS sees them.
    fn indexed(&self, tokens: &[Token], expression: &str, order: Order) -> rusqlite::Result<Vec<i64>> {
        if !self.scope.is_everywhere() {
            return self.indexed_in_scope(expression, order);
        }
        let ids = |sql: &str| -> rusqlite::Result<Vec<i64>> {
            self.conn.prepare_cached(sql)?.query_map((expression, self.limit.sql()), |row| row.get(0))?.collect()
        };
        if order == Order::Relevance {
            return ids("SELECT rowid FROM history_fts WHERE history_fts MATCH ? ORDER BY rank LIMIT ?");
        }
        let ordered_above = order::ordered_above(self.conn, self.shape)?;
        if ordered_above < i64::MAX {
            let quick = if self.shape.short_prefixes {
                candidates::page(self.conn, tokens, self.limit.get(), candidates::Bounds::default())?
            } else {
                None
            };
            let page = match quick {
                Some(page) => page,
                None => ids("SELECT rowid FROM history_fts WHERE history_fts MATCH ? ORDER BY rowid DESC LIMIT ?")?,
            };
            // A page that isn't full holds every match; its order is made when it is sorted.
            if page.len() < self.limit.get() || page.last().is_some_and(|lowest| *lowest > ordered_above) {
                return Ok(page);
            }
        }
        ids(&format!(
            "SELECT h.id FROM history_fts f JOIN history h ON h.id = f.rowid WHERE history_fts MATCH ?
             ORDER BY {} DESC, h.id DESC LIMIT ? + 0",
            self.shape.created_at()
        ))
    }

    fn indexed_in_scope(&self, expression: &str, order: Order) -> rusqlite::Result<Vec<i64>> {
        let mut values: Vec<Value> = vec![expression.to_owned().into()];
        let columns = self.row_columns();
        let mut parts = vec![format!(
            "SELECT h.id AS row, {at} AS at, m.fit FROM m JOIN history h ON h.id = m.row WHERE {condition}",
            at = columns.at,
            condition = self.scope.condition(&columns, &mut values),
        )];
        if self.shape.own {
            parts.push(format!(
                "SELECT s.row, s.at, m.fit FROM m JOIN watcher_submission s ON s.row = m.row WHERE {}",
                self.scope.condition(&RECORD, &mut values)
            ));
        }
        let (fit, by) = match order {
            Order::Newest => ("0", "max(at) DESC, row DESC"),
            Order::Relevance => ("rank", "min(fit), max(at) DESC, row DESC"),
        };
        values.push(self.limit.sql().into());
        let sql = format!(
            "WITH m(row, fit) AS MATERIALIZED (SELECT rowid, {fit} FROM history_fts WHERE history_fts MATCH ?)
             SELECT row FROM ({}) GROUP BY row ORDER BY {by} LIMIT ? + 0",
            parts.join(" UNION ALL ")
        );
        self.conn.prepare_cached(&sql)?.query_map(params_from_iter(values), |row| row.get(0))?.collect()
    }

    /// Whether each token begins some word of the index.
    fn all_known(&self, tokens: &[Token]) -> rusqlite::Result<bool> {
        let mut statement =
            self.conn.prepare_cached("SELECT rowid FROM history_fts WHERE history_fts MATCH ? LIMIT 1")?;
        let mut knows = |expression: &str| -> rusqlite::Result<bool> {
            Ok(statement.query_row([expression], |row| row.get::<_, i64>(0)).optional()?.is_some())
        };
        for phrase in tokens.iter().filter_map(|token| token.phrase.as_deref()) {
            // The whole word first: of a common one that is found at once, see `candidates`.
            if !knows(phrase.trim_end_matches('*'))? && !knows(phrase)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Looks into the prompts themselves, newest first; says whether some were left unseen.
    fn look(&self, tokens: &[Token], budget: usize) -> rusqlite::Result<(Vec<i64>, bool)> {
        let mut matcher = Matcher::new(tokens);
        let by_row = order::ordered_above(self.conn, self.shape)? == 0;
        let order = if by_row { String::new() } else { format!("{} DESC, ", self.shape.created_at()) };
        let mut statement =
            self.conn.prepare_cached(&format!("SELECT h.id, h.prompt FROM history h ORDER BY {order}h.id DESC"))?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        for _ in 0..budget {
            let Some(row) = rows.next()? else { return Ok((found, false)) };
            let text = row.get_ref(1)?;
            let fits = match text.as_bytes_or_null() {
                Ok(Some(bytes)) => match std::str::from_utf8(bytes) {
                    Ok(text) => matcher.matches(text),
                    Err(_) => matcher.matches(&String::from_utf8_lossy(bytes)),
                },
                _ => false,
            };
            if !fits {
                continue;
            }
            let id = row.get(0)?;
            if self.is_in_scope(id)? {
                found.push(id);
                if found.len() >= self.limit.get() {
                    return Ok((found, false));
                }
            }
        }
        Ok((found, rows.next()?.is_some()))
    }

    pub(crate) fn is_in_scope(&self, id: i64) -> rusqlite::Result<bool> {
        if self.scope.is_everywhere() {
            return Ok(true);
        }
        let mut values: Vec<Value> = vec![id.into()];
        let condition = self.scope.condition(&self.row_columns(), &mut values);
        let mut sql = format!("SELECT EXISTS (SELECT 1 FROM history h WHERE h.id = ? AND {condition})");
        if self.shape.own {
            values.push(id.into());
            let condition = self.scope.condition(&RECORD, &mut values);
            sql.push_str(" OR EXISTS (SELECT 1 FROM watcher_submission s WHERE s.row = ? AND ");
            sql.push_str(&condition);
            sql.push(')');
        }
        self.conn.prepare_cached(&sql)?.query_row(params_from_iter(values), |row| row.get(0))
    }

    /// The entries of these rows, in the same order.
    pub(crate) fn load(&self, rows: &[i64]) -> rusqlite::Result<Vec<Entry>> {
        let mut entries = Vec::with_capacity(rows.len());
        for row in rows {
            if self.scope.is_everywhere() {
                entries.extend(self.collect(&format!("{} WHERE h.id = ?", self.select()), vec![(*row).into()])?);
                continue;
            }
            let mut values = Vec::new();
            let mut parts = Vec::new();
            if self.shape.own {
                values.push((*row).into());
                parts.push(format!(
                    "SELECT s.row AS row, s.at AS at, s.cwd, s.session FROM watcher_submission s
                     WHERE s.row = ? AND {}",
                    self.scope.condition(&RECORD, &mut values)
                ));
            }
            let columns = self.row_columns();
            values.push((*row).into());
            parts.push(format!(
                "SELECT h.id AS row, {} AS at, {}, {} FROM history h WHERE h.id = ? AND {}",
                columns.at,
                columns.cwd,
                columns.session.unwrap_or("NULL"),
                self.scope.condition(&columns, &mut values)
            ));
            values.push(1.into());
            entries.extend(self.in_scope(&parts.join(" UNION ALL "), values)?);
        }
        Ok(entries)
    }

    /// Entries for records `(row, at, cwd, session)`, one a row, latest first.
    fn in_scope(&self, records: &str, values: Vec<Value>) -> rusqlite::Result<Vec<Entry>> {
        let sql = format!(
            "SELECT u.row, h.prompt, max(u.at), u.cwd, u.session, {uses}
             FROM (SELECT row, at, cwd, session FROM (SELECT 0 AS row, 0 AS at, '' AS cwd, '' AS session WHERE 0
                   UNION ALL {records})) u
             JOIN history h ON h.id = u.row GROUP BY u.row ORDER BY max(u.at) DESC, u.row DESC LIMIT ? + 0",
            uses = self.uses(),
        );
        self.collect(&sql, values)
    }

    fn latest(&self) -> String {
        format!("{} ORDER BY {} DESC, h.id DESC LIMIT ? + 0", self.select(), self.shape.created_at())
    }

    fn select(&self) -> String {
        let session = match (self.shape.is_counted(), self.shape.own) {
            (true, _) => "h.session_id",
            (false, true) => {
                "(SELECT s.session FROM watcher_submission s WHERE s.row = h.id ORDER BY s.at DESC, s.id DESC LIMIT 1)"
            }
            (false, false) => "NULL",
        };
        format!(
            "SELECT h.id, h.prompt, {}, {}, {session}, {} FROM history h",
            self.shape.created_at(),
            self.shape.cwd(),
            self.uses()
        )
    }

    fn uses(&self) -> &'static str {
        match (self.shape.is_counted(), self.shape.own) {
            (true, _) => "h.use_count",
            (false, true) => {
                "(SELECT sum(CASE s.origin WHEN 3 THEN ifnull(s.uses, 1) ELSE 1 END)
                  FROM watcher_submission s WHERE s.row = h.id)"
            }
            (false, false) => "1",
        }
    }

    fn row_columns(&self) -> Columns {
        let session = self.shape.is_counted().then_some("h.session_id");
        Columns { cwd: self.shape.cwd(), session, at: self.shape.created_at() }
    }

    fn collect(&self, sql: &str, values: Vec<Value>) -> rusqlite::Result<Vec<Entry>> {
        self.conn.prepare_cached(sql)?.query_map(params_from_iter(values), entry)?.collect()
    }
}

fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    Ok(Entry {
        id: RowId(row.get(0)?),
        prompt: value::text(row, 1)?,
        created_at: value::number(row, 2)?,
        cwd: value::optional_text(row, 3)?,
        session: value::optional_text(row, 4)?,
        use_count: u64::try_from(value::number(row, 5)?).unwrap_or(0).max(1),
    })
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;
    use crate::place;

    #[test]
    fn the_latest_prompts_are_found_along_the_index_whatever_their_number() {
        let conn = Connection::open_in_memory().unwrap();
        place::fill(&conn).unwrap();
        conn.execute_batch(
            "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 3000)
             INSERT INTO history(prompt, created_at) SELECT 'prompt ' || i, i FROM c",
        )
        .unwrap();
        let shape = Shape::read(&conn).unwrap();
        let scope = Scope::everywhere();
        let mut statement = conn.prepare(&Search::new(&conn, &shape, &scope, Limit::MAX).latest()).unwrap();
        for limit in [1, 20, 1] {
            statement.reset_status(StatementStatus::FullscanStep);
            let rows = statement.query_map([limit], |row| row.get::<_, i64>(0)).unwrap().count();
            assert_eq!(rows, usize::try_from(limit).unwrap());
            assert!(statement.get_status(StatementStatus::FullscanStep) < 50, "{limit}");
        }
    }
}
