//! Whether a database is well, and what can be mended in place `[H5]`. Checks run on a private copy, so that they never
//! keep the owner from writing.

use rusqlite::Connection;

use crate::{
    copy,
    database::Database,
    error::{Error, Result},
    index,
    schema::{Fts, Shape},
    writer::Writer,
};

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// What SQLite's `integrity_check` says about the file; empty when all is well. Mended only by a rebuild.
    pub file: Vec<String>,
    /// What FTS5's `integrity-check` says about the index; none when all is well. Mended by
    /// [`repair`](crate::HistoryStorage::repair).
    pub index: Option<String>,
}

impl Health {
    /// Whether nothing is wrong.
    pub fn is_well(&self) -> bool {
        self.file.is_empty() && self.index.is_none()
    }
}

/// Copies the database and checks the copy.
pub(crate) fn check(database: &Database) -> Result<Health> {
    let copy = copy::copy(&database.conn, &database.path)?;
    let run = || -> rusqlite::Result<Health> {
        let conn = Connection::open(&copy)?;
        let file = file(&conn)?;
        let index = match Shape::read(&conn)?.fts {
            Fts::Missing | Fts::Other => None,
            Fts::Words => conn
                .execute("INSERT INTO history_fts(history_fts, rank) VALUES ('integrity-check', 1)", [])
                .err()
                .map(|error| error.to_string()),
        };
        Ok(Health { file, index })
    };
    run().map_err(|error| Error::sqlite(&database.path, error))
}

/// What SQLite finds wrong with the file itself.
pub(crate) fn file(conn: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = conn.prepare("PRAGMA integrity_check")?;
    let lines: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    // SQLite asks FTS5 too and reports it in these words; that is the index's part.
    Ok(lines.into_iter().filter(|line| line != "ok" && !line.contains("history_fts")).collect())
}

/// Builds a broken index anew in the owner's form of it, in slices.
pub(crate) fn repair(writer: &mut Writer) -> Result<Health> {
    let now = writer.now();
    writer.make_ready(now)?;
    let health = check(&writer.database)?;
    if health.index.is_none() {
        return Ok(health);
    }
    let database = &mut writer.database;
    let path = database.path.clone();
    let sqlite = |error| Error::sqlite(&path, error);
    let sql: String = database
        .conn
        .query_row("SELECT sql FROM sqlite_master WHERE name = 'history_fts' COLLATE NOCASE", [], |row| row.get(0))
        .map_err(sqlite)?;
    index::build(database, &index::sql_like(&sql)).map_err(sqlite)?;
    check(database)
}
