//! The forms of the database: the one that we create `[H1]`, the ones that we know `[H4]`, and how to tell them apart.

use rusqlite::{Connection, OptionalExtension as _};

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

/// How an index of ours says which beginnings it keeps.
const PREFIXES: &str = "prefix='1 2 3'";

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
CREATE INDEX IF NOT EXISTS watcher_submission_row ON watcher_submission(row);
CREATE INDEX IF NOT EXISTS watcher_submission_at ON watcher_submission(at);
CREATE INDEX IF NOT EXISTS watcher_submission_cwd ON watcher_submission(cwd, at) WHERE cwd IS NOT NULL;
CREATE INDEX IF NOT EXISTS watcher_submission_session ON watcher_submission(session, at) WHERE session IS NOT NULL;
CREATE INDEX IF NOT EXISTS watcher_submission_ours ON watcher_submission(prompt_hash, at) WHERE origin = 0;
CREATE TABLE IF NOT EXISTS watcher_import(first INTEGER PRIMARY KEY, last INTEGER NOT NULL);
";

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

/// Which changes of `history` feed the index by themselves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Triggers {
    pub(crate) insert: bool,
    pub(crate) delete: bool,
    /// Whether all triggers of the tables that we write to are known, and do nothing else.
    pub(crate) only_feed_index: bool,
}

/// What the triggers that only feed the index end with, without spaces and quotes.
const FEEDING: [&str; 4] = [
    "AFTERINSERTONHISTORYBEGININSERTINTOHISTORY_FTS(ROWID,PROMPT)VALUES(NEW.ID,NEW.PROMPT);END",
    "AFTERDELETEONHISTORYBEGIN\
     INSERTINTOHISTORY_FTS(HISTORY_FTS,ROWID,PROMPT)VALUES(DELETE,OLD.ID,OLD.PROMPT);END",
    "AFTERUPDATEONHISTORYBEGIN\
     INSERTINTOHISTORY_FTS(HISTORY_FTS,ROWID,PROMPT)VALUES(DELETE,OLD.ID,OLD.PROMPT);\
     INSERTINTOHISTORY_FTS(ROWID,PROMPT)VALUES(NEW.ID,NEW.PROMPT);END",
    "AFTERUPDATEOFPROMPTONHISTORYBEGIN\
     INSERTINTOHISTORY_FTS(HISTORY_FTS,ROWID,PROMPT)VALUES(DELETE,OLD.ID,OLD.PROMPT);\
     INSERTINTOHISTORY_FTS(ROWID,PROMPT)VALUES(NEW.ID,NEW.PROMPT);END",
];

/// All that the statements of this crate need to know about the form of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) form: Form,
    pub(crate) fts: Fts,
    /// Whether the index has one of its own for beginnings of up to three letters, as ours have.
    pub(crate) short_prefixes: bool,
    pub(crate) triggers: Triggers,
    /// Whether our own tables are there.
    pub(crate) own: bool,
    /// The owner's words for its table; what changes when it builds the table anew.
    pub(crate) history_sql: String,
}

impl Shape {
    pub(crate) fn read(conn: &Connection) -> rusqlite::Result<Self> {
        let table = |name: &str| -> rusqlite::Result<Option<String>> {
            conn.query_row("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", [name], |row| row.get(0))
                .optional()
        };
        let history_sql = table("history")?;
        let fts_sql = table("history_fts")?;
        let short_prefixes = fts_sql.as_ref().is_some_and(|sql| sql.contains(PREFIXES));
        let fts = match fts_sql {
            None => Fts::Missing,
            Some(sql) if is_word_index(&sql) => Fts::Words,
            Some(_) => Fts::Other,
        };
        let form = if history_sql.is_some() {
            form(conn)?
        } else {
            let things: i64 = conn.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))?;
            if things == 0 { Form::Empty } else { Form::Alien }
        };
        Ok(Self {
            form,
            fts,
            short_prefixes,
            triggers: triggers(conn)?,
            own: table("watcher_submission")?.is_some() && table("watcher_meta")?.is_some(),
            history_sql: history_sql.unwrap_or_default(),
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

fn triggers(conn: &Connection) -> rusqlite::Result<Triggers> {
    let mut found = Triggers { only_feed_index: true, ..Triggers::default() };
    let mut statement = conn.prepare(
        "SELECT upper(sql), lower(tbl_name) = 'history' FROM sqlite_master
         WHERE type = 'trigger' AND (lower(tbl_name) = 'history' OR lower(tbl_name) GLOB 'watcher_*')",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (sql, on_history): (String, bool) = (row.get(0)?, row.get(1)?);
        let bare = sql.replace(|letter: char| letter.is_whitespace() || "'\"`[]".contains(letter), "");
        found.only_feed_index &= on_history && FEEDING.iter().any(|end| bare.ends_with(end));
        let Some((head, body)) = sql.split_once("BEGIN") else { continue };
        if !on_history || !body.contains("HISTORY_FTS") {
            continue;
        }
        for word in head.split_whitespace() {
            found.insert |= word == "INSERT";
            found.delete |= word == "DELETE";
        }
    }
    Ok(found)
}

fn is_word_index(sql: &str) -> bool {
    let sql = sql.to_lowercase();
    let content = sql.replace(['"', '\'', ' '], "");
    sql.contains("fts5")
        && content.contains("content=history")
        && !content.contains("detail=none")
        && !content.contains("detail=column")
        && (!sql.contains("tokenize") || sql.contains("unicode61"))
        && !sql.contains("porter")
        && !sql.contains("tokenchars")
        && !sql.contains("separators")
}

fn form(conn: &Connection) -> rusqlite::Result<Form> {
    let mut columns = Vec::new();
    let mut statement = conn.prepare("SELECT name, pk, upper(type) FROM pragma_table_info('history')")?;
    let mut rows = statement.query([])?;
    let mut integer_key = false;
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        integer_key |= name == "id" && row.get::<_, i64>(1)? == 1 && row.get::<_, String>(2)? == "INTEGER";
        columns.push(name);
    }
    let unique: bool = conn.query_row(
        "SELECT EXISTS(SELECT 1 FROM pragma_index_list('history') AS i WHERE i.\"unique\" AND
           (SELECT group_concat(name) FROM pragma_index_info(i.name)) = 'prompt')",
        [],
        |row| row.get(0),
    )?;
    columns.sort_unstable();
    let names: Vec<&str> = columns.iter().map(String::as_str).collect();
    Ok(match (names.as_slice(), unique, integer_key) {
        (["created_at", "cwd", "id", "prompt"], false, true) => Form::Plain,
        (["created_at", "cwd", "id", "prompt", "session_id", "use_count"], true, true) => Form::Counted,
        _ if integer_key && names.contains(&"prompt") => {
            Form::Unknown { created_at: names.contains(&"created_at"), cwd: names.contains(&"cwd") }
        }
        _ => Form::Alien,
    })
}

/// Whether there is a table of this name, virtual or not.
pub(crate) fn has_table(conn: &Connection, name: &str) -> rusqlite::Result<bool> {
    conn.query_row("SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?)", [name], |row| {
        row.get(0)
    })
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
