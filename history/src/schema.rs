//! The forms of the database: the one that we create `[H1]`, the ones that we know `[H4]`, and how to tell them apart.

use rusqlite::{Connection, OptionalExtension as _};

use crate::{
    triggers::Triggers,
    words::{has_short_prefixes, is_word_index},
};

/// Every table and index of ours in a database begins with this; [`detach`](crate::HistoryStorage::detach) removes what
/// does, the tables that callers of [`apply`](crate::HistoryStorage::apply) made included.
pub const TABLE_PREFIX: &str = "watcher_";

/// The harness's part of a database that we create.
const HISTORY: &str = "
CREATE TABLE history(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  prompt TEXT NOT NULL,
  created_at INTEGER NOT NULL DEFAULT (CAST(strftime('%s','now') AS INTEGER)),
  cwd TEXT
);
CREATE INDEX idx_history_created_at ON history(created_at DESC);
";

const FTS: &str = "USING fts5(prompt, content='history', content_rowid='id', prefix='1 2 3', \
                   tokenize='unicode61 remove_diacritics 2')";

const INSERT_TRIGGER: &str = "
CREATE TRIGGER history_ai AFTER INSERT ON history BEGIN
  INSERT INTO history_fts(rowid, prompt) VALUES (new.id, new.prompt);
END;
";

const OTHER_TRIGGERS: &str = "
CREATE TRIGGER history_ad AFTER DELETE ON history BEGIN
  INSERT INTO history_fts(history_fts, rowid, prompt) VALUES ('delete', old.id, old.prompt);
END;
CREATE TRIGGER history_au AFTER UPDATE OF prompt ON history BEGIN
  INSERT INTO history_fts(history_fts, rowid, prompt) VALUES ('delete', old.id, old.prompt);
  INSERT INTO history_fts(rowid, prompt) VALUES (new.id, new.prompt);
END;
";

/// Our tables. Row ids are plain integers: a foreign key, view or trigger that names `history` would be rewritten, or
/// break, when the owner renames its table `[H2a]`.
const OWN: &str = "
CREATE TABLE IF NOT EXISTS watcher_meta(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS watcher_submission(
  id INTEGER PRIMARY KEY,
  row INTEGER NOT NULL,
  prompt_hash INTEGER NOT NULL,
  at INTEGER NOT NULL,
  cwd TEXT,
  session TEXT,
  key BLOB,
  origin INTEGER NOT NULL,
  uses INTEGER
);
CREATE UNIQUE INDEX IF NOT EXISTS watcher_submission_key ON watcher_submission(key) WHERE key IS NOT NULL;
CREATE INDEX IF NOT EXISTS watcher_submission_row ON watcher_submission(row, at);
CREATE INDEX IF NOT EXISTS watcher_submission_at ON watcher_submission(at);
CREATE INDEX IF NOT EXISTS watcher_submission_cwd ON watcher_submission(cwd, at) WHERE cwd IS NOT NULL;
CREATE INDEX IF NOT EXISTS watcher_submission_session ON watcher_submission(session, at) WHERE session IS NOT NULL;
CREATE INDEX IF NOT EXISTS watcher_submission_ours ON watcher_submission(prompt_hash, at) WHERE origin = 0;
CREATE INDEX IF NOT EXISTS watcher_submission_told ON watcher_submission(prompt_hash, at) WHERE key IS NULL;
CREATE TABLE IF NOT EXISTS watcher_alias(key BLOB PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS watcher_import(first INTEGER PRIMARY KEY, last INTEGER NOT NULL);
";

/// The names of the tables in that.
const OWN_TABLES: [&str; 4] = ["watcher_meta", "watcher_submission", "watcher_alias", "watcher_import"];

/// What the `history` table looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Nothing at all is in the database yet.
    Empty,
    /// The form of `[H1]`.
    Plain,
    /// Prompts are unique, uses are counted, the session is known `[H4]`.
    Counted,
    /// Something else that has `id` and `prompt` at least: read, never altered.
    Unknown { created_at: bool, cwd: bool },
    /// No `history` table among others, or one without `id` and `prompt`.
    Alien,
}

/// What the full-text index looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fts {
    /// There is none.
    Missing,
    /// Words, with the tokenizer that `query` thinks of.
    Words,
    /// A table of that name that we can't ask or feed, e.g. with another tokenizer's idea of a word.
    Other,
}

/// All that the statements of this crate need to know about the form of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) form: Form,
    pub(crate) fts: Fts,
    /// Whether the index has one of its own for beginnings of up to three letters, as ours have.
    pub(crate) short_prefixes: bool,
    pub(crate) triggers: Triggers,
    /// Whether our own tables are there, all of them.
    pub(crate) own: bool,
    /// SQLite's number of the schema, another one after every change of it.
    pub(crate) version: i64,
}

impl Shape {
    pub(crate) fn read(conn: &Connection) -> rusqlite::Result<Self> {
        let made_by = |name: &str| -> rusqlite::Result<Option<String>> {
            let sql = "SELECT sql FROM sqlite_master WHERE type IN ('table', 'view') AND name = ? COLLATE NOCASE";
            conn.query_row(sql, [name], |row| row.get(0)).optional()
        };
        let fts_sql = made_by("history_fts")?;
        let short_prefixes = fts_sql.as_ref().is_some_and(|sql| has_short_prefixes(sql));
        let fts = match fts_sql {
            None => Fts::Missing,
            Some(sql) if is_word_index(&sql) => Fts::Words,
            Some(_) => Fts::Other,
        };
        let things: i64 = conn.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))?;
        Ok(Self {
            form: if things == 0 { Form::Empty } else { form(conn)? },
            fts,
            short_prefixes,
            triggers: Triggers::read(conn)?,
            own: has_own(conn)?,
            version: version(conn)?,
        })
    }

    /// Whether we may write to this database.
    pub(crate) fn is_known(&self) -> bool {
        matches!(self.form, Form::Empty | Form::Plain | Form::Counted)
    }

    /// Whether there is a `history` table that can be read.
    pub(crate) fn is_readable(&self) -> bool {
        matches!(self.form, Form::Plain | Form::Counted | Form::Unknown { .. })
    }

    pub(crate) fn is_counted(&self) -> bool {
        self.form == Form::Counted
    }

    pub(crate) fn created_at(&self) -> &'static str {
        if let Form::Unknown { created_at: false, .. } = self.form { "0" } else { "h.created_at" }
    }

    pub(crate) fn cwd(&self) -> &'static str {
        if let Form::Unknown { cwd: false, .. } = self.form { "NULL" } else { "h.cwd" }
    }
}

fn form(conn: &Connection) -> rusqlite::Result<Form> {
    let without_rowid: Option<bool> = conn
        .query_row(
            "SELECT wr FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name = 'history' COLLATE NOCASE",
            [],
            |row| row.get(0),
        )
        .optional()?;
    let Some(without_rowid) = without_rowid else { return Ok(Form::Alien) };
    let mut columns = Vec::new();
    let mut statement = conn.prepare("SELECT lower(name), pk, upper(type) FROM pragma_table_info('history')")?;
    let mut rows = statement.query([])?;
    let mut integer_key = false;
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        integer_key |= name == "id" && row.get::<_, i64>(1)? == 1 && row.get::<_, String>(2)? == "INTEGER";
        columns.push(name);
    }
    // A key with an index of its own is not the row id.
    let (mut own_key, mut unique) = (false, Vec::new());
    let mut statement = conn.prepare(
        "SELECT i.origin = 'pk', (SELECT lower(group_concat(name)) FROM pragma_index_info(i.name)), i.partial
         FROM pragma_index_list('history') AS i WHERE i.\"unique\"",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        own_key |= row.get::<_, bool>(0)?;
        let over: Option<String> = row.get(1)?;
        unique.push(over.filter(|_| !row.get(2).unwrap_or(true)).unwrap_or_default());
    }
    columns.sort_unstable();
    let names: Vec<&str> = columns.iter().map(String::as_str).collect();
    let unique: Vec<&str> = unique.iter().map(String::as_str).collect();
    let ours_to_write = integer_key && !own_key && !without_rowid;
    Ok(match (names.as_slice(), unique.as_slice()) {
        (["created_at", "cwd", "id", "prompt"], []) if ours_to_write => Form::Plain,
        (["created_at", "cwd", "id", "prompt", "session_id", "use_count"], ["prompt"]) if ours_to_write => {
            Form::Counted
        }
        _ if integer_key && (without_rowid || !own_key) && names.contains(&"prompt") => {
            Form::Unknown { created_at: names.contains(&"created_at"), cwd: names.contains(&"cwd") }
        }
        _ => Form::Alien,
    })
}

/// SQLite's number of the schema.
pub(crate) fn version(conn: &Connection) -> rusqlite::Result<i64> {
    conn.prepare_cached("PRAGMA schema_version")?.query_row([], |row| row.get(0))
}

/// Whether there is a table of this name, virtual or not.
pub(crate) fn has_table(conn: &Connection, name: &str) -> rusqlite::Result<bool> {
    conn.query_row("SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?)", [name], |row| {
        row.get(0)
    })
}

/// Whether all our tables are there: another process that detaches takes one after the other away.
pub(crate) fn has_own(conn: &Connection) -> rusqlite::Result<bool> {
    OWN_TABLES.into_iter().try_fold(true, |all, name| Ok(all && has_table(conn, name)?))
}

/// Makes an empty database ours, whole.
pub(crate) fn create(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch(HISTORY)?;
    conn.execute_batch(&fts_sql("history_fts"))?;
    conn.execute_batch(INSERT_TRIGGER)?;
    conn.execute_batch(OTHER_TRIGGERS)?;
    create_own(conn)
}

/// Adds our own tables.
pub(crate) fn create_own(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch(OWN)
}

/// The statement that makes the full-text index of a database that has none.
pub(crate) fn fts_sql(name: &str) -> String {
    format!("CREATE VIRTUAL TABLE {name} {FTS}")
}

/// Adds the one trigger that we may add to a database of someone else.
pub(crate) fn create_insert_trigger(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch(INSERT_TRIGGER)
}
