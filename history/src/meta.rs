//! Our few stored numbers, by name. What a number means is told where it is used.

use rusqlite::{Connection, OptionalExtension as _};

use crate::schema;

/// The database was created by us: its triggers and journal mode are ours to choose.
pub(crate) const CREATED_BY_US: &str = "created_by_us";
/// The highest row id that was looked at when order and foreign rows were last brought up to date.
pub(crate) const SEEN: &str = "seen";
/// The highest `created_at` among the rows up to `SEEN`.
pub(crate) const LATEST: &str = "latest";
/// The highest row id whose `created_at` is lower than that of some row before it; 0 when there is none.
pub(crate) const DISORDER: &str = "disorder";
/// The version of the schema for which our records, and what is known of the order, fit the rows: when anybody has changed
/// it since, the rows may have other numbers.
pub(crate) const FITS: &str = "fits";
/// The highest row id that the full-text index under construction holds.
pub(crate) const INDEXED: &str = "indexed";
/// The version of the schema that was built for: after a change of it by anybody else, it is begun anew.
pub(crate) const INDEXED_FOR: &str = "indexed_for";

pub(crate) fn get(conn: &Connection, name: &str) -> rusqlite::Result<Option<i64>> {
    conn.prepare_cached("SELECT value FROM watcher_meta WHERE name = ?")?.query_row([name], |row| row.get(0)).optional()
}

pub(crate) fn set(conn: &Connection, name: &str, value: i64) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "INSERT INTO watcher_meta(name, value) VALUES (?1, ?2)
         ON CONFLICT(name) DO UPDATE SET value = ?2 WHERE value <> ?2",
    )?
    .execute((name, value))?;
    Ok(())
}

/// Changes the schema ourselves, inside a transaction: what fitted the rows before fits them after.
pub(crate) fn keep_fit(conn: &Connection, change: impl FnOnce() -> rusqlite::Result<()>) -> rusqlite::Result<()> {
    let fits = schema::has_table(conn, "watcher_meta")? && get(conn, FITS)? == Some(schema::version(conn)?);
    change()?;
    if fits { set(conn, FITS, schema::version(conn)?) } else { Ok(()) }
}

pub(crate) fn remove(conn: &Connection, name: &str) -> rusqlite::Result<()> {
    conn.prepare_cached("DELETE FROM watcher_meta WHERE name = ?")?.execute([name])?;
    Ok(())
}
