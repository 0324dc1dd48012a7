//! Which prompts to export or delete. It only selects; what is done with them is elsewhere.

use regex::Regex;
use rusqlite::{Connection, params_from_iter, types::Value};

use crate::{
    entry::{Entry, RowId},
    error::{Error, ErrorKind, Result},
    limit::Limit,
    schema::Shape,
    scope::Scope,
    search::Search,
};

/// A choice of prompts: all of them, until narrowed.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    rows: Option<Vec<RowId>>,
    pattern: Option<Regex>,
    scope: Scope,
}

impl Selection {
    /// Everything.
    pub fn all() -> Self {
        Self::default()
    }

    /// Only these rows.
    pub fn rows(rows: impl IntoIterator<Item = RowId>) -> Self {
        Self { rows: Some(rows.into_iter().collect()), ..Self::default() }
    }

    /// Only prompts in which this regular expression (of the `regex` crate) is found.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a pattern that is none.
    pub fn matching(mut self, pattern: &str) -> Result<Self> {
        let regex = Regex::new(pattern)
            .map_err(|error| Error::new(ErrorKind::Invalid, std::path::Path::new(pattern), error.to_string()))?;
        self.pattern = Some(regex);
        Ok(self)
    }

    /// Only prompts of this scope.
    #[must_use]
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// The rows, oldest id first.
    pub(crate) fn ids(&self, conn: &Connection, shape: &Shape) -> rusqlite::Result<Vec<i64>> {
        let search = Search::new(conn, shape, &self.scope, Limit::MAX);
        let mut found = Vec::new();
        let mut consider = |id: i64, prompt: &str| -> rusqlite::Result<()> {
            let fits = self.pattern.as_ref().is_none_or(|pattern| pattern.is_match(prompt));
            if fits && search.is_in_scope(id)? {
                found.push(id);
            }
            Ok(())
        };
        let (condition, values): (&str, Vec<Vec<Value>>) = match &self.rows {
            None => ("1", vec![Vec::new()]),
            Some(rows) => ("id = ?", rows.iter().map(|row| vec![row.get().into()]).collect()),
        };
        let mut statement = conn.prepare(&format!("SELECT id, prompt FROM history WHERE {condition} ORDER BY id"))?;
        for values in values {
            let mut rows = statement.query(params_from_iter(values))?;
            while let Some(row) = rows.next()? {
                let bytes = row.get_ref(1)?;
                let bytes = bytes.as_bytes_or_null().ok().flatten().unwrap_or_default();
                consider(row.get(0)?, &String::from_utf8_lossy(bytes))?;
            }
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// The entries, oldest id first.
    pub(crate) fn entries(&self, conn: &Connection, shape: &Shape) -> rusqlite::Result<Vec<Entry>> {
        let ids = self.ids(conn, shape)?;
        Search::new(conn, shape, &self.scope, Limit::MAX).load(&ids)
    }
}
