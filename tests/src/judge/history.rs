//! Vectors of `history/`: operations on a prompt store, what each gives, and what stands in the database at the end.

use std::path::Path;

use history::rusqlite::{Connection, types::Value as Cell};
use session_core::quote;

use super::difference::{Texts, first_difference};
use super::value::{Document, Node, Value};
use super::{Driver, Vector, ask, shown};

pub(super) fn check(vector: &Vector, driver: &mut Driver<'_>, work: &Path) -> Result<(), String> {
    let database = work.join("history.db");
    if let Some(sql) = vector.get("setup_sql").and_then(|node| vector.document.text(node)) {
        Connection::open(&database).and_then(|connection| connection.execute_batch(sql)).map_err(shown)?;
    }
    let path = quote(&database.to_string_lossy());
    let (got, ok) = ask(driver, &format!(r#"{{"cmd":"history","db":{path},"ops":{}}}"#, vector.raw("ops")))?;
    let (wanted, results) = (vector.items("expect"), got.items(ok));
    if wanted.len() != results.len() {
        return Err(format!("want {} results, got {}", wanted.len(), results.len()));
    }
    for (n, (want, result)) in wanted.iter().zip(results).enumerate() {
        check_rows(&vector.document, *want, &got, *result, &format!("op {n}"))?;
    }
    for query in vector.items("after_sql") {
        check_query(vector, *query, &database)?;
    }
    Ok(())
}

/// Rows compare by the keys of the expectation alone; where nothing is expected, only an error is wrong.
fn check_rows(want: &Document, wanted: Node, got: &Document, result: Node, at: &str) -> Result<(), String> {
    if got.get(result, "error").is_some() {
        return Err(format!("{at}: {}", got.shown(result)));
    }
    let Value::Array(rows) = want.at(wanted) else { return Ok(()) };
    let results = got.items(result);
    if !matches!(got.at(result), Value::Array(_)) || rows.len() != results.len() {
        return Err(format!("{at}: want {}, got {}", want.shown(wanted), got.shown(result)));
    }
    for (n, (row, result)) in rows.iter().zip(results).enumerate() {
        for (key, value) in want.members(*row) {
            let at = format!("{at}, row {n}.{key}");
            let other = got.get(*result, key).ok_or_else(|| format!("{at}: missing"))?;
            first_difference((want, *value), (got, other), &at, Texts::Exact).map_or(Ok(()), Err)?;
        }
    }
    Ok(())
}

fn check_query(vector: &Vector, query: Node, database: &Path) -> Result<(), String> {
    let part = |key| vector.document.get(query, key).ok_or_else(|| format!("after_sql without {key}"));
    let (sql, rows) = (part("sql")?, part("rows")?);
    let sql = vector.document.text(sql).unwrap_or_default();
    let got = Document::parse(&rows_of(sql, database).map_err(|error| format!("{sql}: {error}"))?)?;
    let difference = first_difference((&vector.document, rows), (&got, Document::ROOT), sql, Texts::Exact);
    difference.map_or(Ok(()), Err)
}

/// What a query gives, as JSON.
fn rows_of(sql: &str, database: &Path) -> Result<String, String> {
    let connection = Connection::open(database).map_err(shown)?;
    let mut statement = connection.prepare(sql).map_err(shown)?;
    let columns = statement.column_count();
    let mut rows = statement.query([]).map_err(shown)?;
    let mut lines = Vec::new();
    while let Some(row) = rows.next().map_err(shown)? {
        let cells = (0..columns).map(|column| {
            Ok(match row.get(column).map_err(shown)? {
                Cell::Null => "null".to_owned(),
                Cell::Integer(number) => number.to_string(),
                Cell::Real(number) => number.to_string(),
                Cell::Text(text) => quote(&text),
                Cell::Blob(_) => return Err("a blob has no form in a vector".to_owned()),
            })
        });
        lines.push(format!("[{}]", cells.collect::<Result<Vec<_>, String>>()?.join(",")));
    }
    Ok(format!("[{}]", lines.join(",")))
}
