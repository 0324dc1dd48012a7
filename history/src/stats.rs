//! Numbers for a status line. It reads them and judges nothing.

use rusqlite::Connection;

use crate::{
    meta,
    schema::{Form, Fts, Shape},
};

/// What is in a history.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Rows of the `history` table.
    pub prompts: u64,
    /// Submissions on record, folded ones included.
    pub submissions: u64,
    /// Times of the oldest and the latest row, in seconds since 1970.
    pub span: Option<(i64, i64)>,
    /// Whether there were rows once and there are none now: its owner emptied the history, so nobody should fill it from
    /// old sessions without being asked `[H5a]`.
    pub emptied: bool,
    /// The form of the `history` table.
    pub form: &'static str,
    /// Whether this crate created the database.
    pub created_by_us: bool,
    /// Whether there is a full-text index that search can use.
    pub indexed: bool,
    /// SQLite's name of the journal mode.
    pub journal: String,
}

/// The numbers as they were counted last, and in which state of the database.
#[derive(Debug, Default)]
pub(crate) struct Counted(Option<(i64, Stats)>);

impl Counted {
    pub(crate) fn read(&mut self, conn: &Connection, shape: &Shape) -> rusqlite::Result<Stats> {
        // Changes with each commit of another connection, and this one commits nothing.
        let version = conn.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if let Some((of, stats)) = &self.0
            && *of == version
        {
            return Ok(stats.clone());
        }
        let stats = Stats::read(conn, shape)?;
        self.0 = Some((version, stats.clone()));
        Ok(stats)
    }
}

impl Stats {
    fn read(conn: &Connection, shape: &Shape) -> rusqlite::Result<Self> {
        let count = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0));
        let number = |count: i64| u64::try_from(count).unwrap_or(0);
        let prompts = if shape.is_readable() { count("SELECT count(*) FROM history")? } else { 0 };
        let span = if prompts > 0 && shape.is_known() {
            let sql = "SELECT (SELECT min(created_at) FROM history), (SELECT max(created_at) FROM history)";
            conn.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).ok()
        } else {
            None
        };
        Ok(Self {
            prompts: number(prompts),
            submissions: if shape.own { number(count("SELECT count(*) FROM watcher_submission")?) } else { 0 },
            span,
            emptied: prompts == 0 && shape.is_known() && had_rows(conn)?,
            form: match shape.form {
                Form::Empty => "empty",
                Form::Plain => "plain",
                Form::Counted => "counted",
                Form::Unknown { .. } | Form::Alien => "unknown",
            },
            created_by_us: shape.own && meta::get(conn, meta::CREATED_BY_US)?.is_some(),
            indexed: shape.fts == Fts::Words,
            journal: conn.pragma_query_value(None, "journal_mode", |row| row.get(0))?,
        })
    }
}

/// `AUTOINCREMENT` remembers the highest row id that there ever was.
fn had_rows(conn: &Connection) -> rusqlite::Result<bool> {
    let counted: bool =
        conn.query_row("SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'sqlite_sequence')", [], |row| {
            row.get(0)
        })?;
    if !counted {
        return Ok(false);
    }
    conn.query_row("SELECT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'history' AND seq > 0)", [], |row| {
        row.get(0)
    })
}
