//! The full-text index as a whole: built beside the history and put in its place, or taken away, both in slices `[H5]`.

use rusqlite::{Connection, config::DbConfig, types::ToSqlOutput};

use crate::{
    database::Database,
    meta,
    schema::{self, Fts, Shape, has_table},
    slice::Slice,
};

/// The index under construction; it takes the real name when it is complete.
const UNDER_CONSTRUCTION: &str = "watcher_fts";
/// An index that was replaced, on its way out.
const REPLACED: &str = "watcher_old_fts";
/// So many rows of an index's own tables are deleted by one statement; a row of `_data` is about a page.
const ROWS_AT_ONCE: usize = 500;

/// The statement that makes an index of the same form as this one, under construction.
pub(crate) fn sql_like(sql: &str) -> String {
    // The name comes first in what SQLite keeps of the statement; ASCII letters are as long in lower case.
    match sql.to_ascii_lowercase().find("history_fts") {
        Some(at) => format!("{}{UNDER_CONSTRUCTION}{}", &sql[..at], &sql[at + "history_fts".len()..]),
        None => sql.to_owned(),
    }
}

/// The statement that makes the index of a database that has none.
pub(crate) fn sql_of_ours() -> String {
    schema::fts_sql(UNDER_CONSTRUCTION)
}

/// Builds an index and puts it in its place when it is complete: others see none (or the old one) or all of it. One that
/// stood there is replaced. After a crash, a first index is built on from where it was, a replacement from the beginning.
pub(crate) fn build(database: &mut Database, sql: &str) -> rusqlite::Result<()> {
    database.unhurried(|database| {
        if database.shape()?.fts != Fts::Missing {
            set_aside(database)?;
        }
        while !build_in_slices(database, sql)? {
            set_aside(database)?;
        }
        clear_away(database).map(drop)
    })
}

/// Takes away an index that was replaced and is still there; says whether there was one.
pub(crate) fn clear_away(database: &mut Database) -> rusqlite::Result<bool> {
    let is_there = has_table(&database.conn, REPLACED)?;
    if is_there {
        discard(database, REPLACED)?;
    }
    Ok(is_there)
}

/// Takes away an unfinished index: whoever is building it begins anew.
fn set_aside(database: &mut Database) -> rusqlite::Result<()> {
    clear_away(database)?;
    {
        let (transaction, ..) = database.begin()?;
        if has_table(&transaction, UNDER_CONSTRUCTION)? && !has_table(&transaction, REPLACED)? {
            meta::keep_fit(&transaction, || rename(&transaction, UNDER_CONSTRUCTION, REPLACED))?;
            meta::remove(&transaction, meta::INDEXED)?;
        }
        transaction.commit()?;
    }
    clear_away(database).map(drop)
}

/// False when rows went away, or got other numbers, whose words the new index has.
fn build_in_slices(database: &mut Database, sql: &str) -> rusqlite::Result<bool> {
    let replaces = database.shape()?.fts;
    loop {
        let slice;
        {
            let (transaction, shape, begun) = database.begin()?;
            slice = begun;
            if begun_for_another(&transaction, &shape)? {
                return Ok(false);
            }
            if shape.fts != replaces || !shape.is_known() {
                // Another process was faster, or its owner has changed the database.
                drop(transaction);
                set_aside(database)?;
                return Ok(true);
            }
            let done = build_slice(&transaction, sql, &slice)?;
            if done {
                if !has_as_many_rows(&transaction)? {
                    return Ok(false);
                }
                meta::keep_fit(&transaction, || {
                    if replaces != Fts::Missing {
                        rename(&transaction, "history_fts", REPLACED)?;
                    }
                    rename(&transaction, UNDER_CONSTRUCTION, "history_fts")?;
                    if shape.triggers.insert { Ok(()) } else { schema::create_insert_trigger(&transaction) }
                })?;
                meta::remove(&transaction, meta::INDEXED)?;
                transaction.commit()?;
                return Ok(true);
            }
            transaction.commit()?;
        }
        database.learn(&slice);
        database.rest();
    }
}

/// Whether somebody has changed the schema since the unfinished index was worked on: its rows may be others now.
fn begun_for_another(conn: &Connection, shape: &Shape) -> rusqlite::Result<bool> {
    Ok(has_table(conn, UNDER_CONSTRUCTION)? && meta::get(conn, meta::INDEXED_FOR)? != Some(shape.version))
}

fn has_as_many_rows(conn: &Connection) -> rusqlite::Result<bool> {
    conn.query_row("SELECT (SELECT count(*) FROM watcher_fts_docsize) = (SELECT count(*) FROM history)", [], |row| {
        row.get(0)
    })
}

fn build_slice(conn: &Connection, sql: &str, slice: &Slice) -> rusqlite::Result<bool> {
    let begun = has_table(conn, UNDER_CONSTRUCTION)?;
    let mut indexed: i64 = if begun { meta::get(conn, meta::INDEXED)? } else { None }.unwrap_or(i64::MIN);
    if !begun {
        meta::keep_fit(conn, || conn.execute_batch(sql))?;
        meta::set(conn, meta::INDEXED_FOR, schema::version(conn)?)?;
    }
    let mut select = conn.prepare_cached("SELECT id, prompt FROM history WHERE id > ? ORDER BY id")?;
    let mut insert = conn.prepare("INSERT INTO watcher_fts(rowid, prompt) VALUES (?, ?)")?;
    let mut rows = select.query([indexed])?;
    while let Some(row) = rows.next()? {
        indexed = row.get(0)?;
        insert.execute((indexed, ToSqlOutput::Borrowed(row.get_ref(1)?)))?;
        if slice.is_over() {
            meta::set(conn, meta::INDEXED, indexed)?;
            return Ok(false);
        }
    }
    Ok(true)
}

/// Empties an index's own large tables in slices, then drops it: a million prompts dropped at once would keep the owner
/// waiting.
pub(crate) fn discard(database: &mut Database, name: &str) -> rusqlite::Result<()> {
    let quoted = name.replace('"', "\"\"");
    // Virtual tables of callers may be of another kind.
    let mut statements = Vec::new();
    for part in ["data", "docsize"] {
        if has_table(&database.conn, &format!("{name}_{part}"))? {
            let table = format!("\"{quoted}_{part}\"");
            statements.push(format!("DELETE FROM {table} WHERE id IN (SELECT id FROM {table} LIMIT {ROWS_AT_ONCE})"));
        }
    }
    loop {
        let slice;
        {
            let (transaction, _, begun) = database.begin()?;
            slice = begun;
            // Another process may have come first.
            if !has_table(&transaction, name)? {
                return Ok(());
            }
            let mut left = true;
            while left && !slice.is_over() {
                left = false;
                for statement in &statements {
                    left |= transaction.execute(statement, [])? > 0;
                }
            }
            if !left {
                meta::keep_fit(&transaction, || transaction.execute_batch(&format!("DROP TABLE \"{quoted}\"")))?;
                return transaction.commit();
            }
            transaction.commit()?;
        }
        database.learn(&slice);
        database.rest();
    }
}

/// The owner's insert trigger names an index that is missing at this moment; SQLite's older way of renaming looks at the
/// table alone.
fn rename(conn: &Connection, from: &str, to: &str) -> rusqlite::Result<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_LEGACY_ALTER_TABLE, true)?;
    let renamed = conn.execute_batch(&format!("ALTER TABLE {from} RENAME TO {to}"));
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_LEGACY_ALTER_TABLE, false)?;
    renamed
}
