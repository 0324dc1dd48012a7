//! Our few stored numbers, by name. What a number means is told where it is used.

use rusqlite::{Connection, OptionalExtension as _};

/// The database was created by us: its triggers and journal mode are ours to choose.
pub(crate) const CREATED_BY_US: &str = "created_by_us";
/// The highest row id that was looked at when order and foreign rows were last brought up to date.
pub(crate) const SEEN: &str = "seen";
/// The highest `created_at` among the rows up to `SEEN`.
pub(crate) const LATEST: &str = "latest";
/// The highest row id whose `created_at` is lower than that of some row before it; 0 when there is none.
pub(crate) const DISORDER: &str = "disorder";
/// A hash of the owner's words for its table, to notice that it was built anew.
pub(crate) const HISTORY_SQL: &str = "history_sql";
/// The highest row id that the full-text index under construction holds.
pub(crate) const INDEXED: &str = "indexed";

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

pub(crate) fn remove(conn: &Connection, name: &str) -> rusqlite::Result<()> {
    conn.prepare_cached("DELETE FROM watcher_meta WHERE name = ?")?.execute([name])?;
    Ok(())
}
