//! What the triggers of a database do about the full-text index `[H1, H4]`. It reads them and changes none.

use rusqlite::Connection;

use crate::sql::{Token, tokens};

/// Which changes of `history` feed the index by themselves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Triggers {
    pub(crate) insert: bool,
    pub(crate) delete: bool,
    /// Whether all triggers of the tables that we write to are known, and do nothing else.
    pub(crate) only_feed_index: bool,
}

/// What the triggers that only feed the index say after their name.
const FEEDING: [&str; 4] = [
    "AFTER INSERT ON history BEGIN INSERT INTO history_fts(rowid, prompt) VALUES (new.id, new.prompt); END",
    "AFTER DELETE ON history BEGIN
     INSERT INTO history_fts(history_fts, rowid, prompt) VALUES ('delete', old.id, old.prompt); END",
    "AFTER UPDATE ON history BEGIN
     INSERT INTO history_fts(history_fts, rowid, prompt) VALUES ('delete', old.id, old.prompt);
     INSERT INTO history_fts(rowid, prompt) VALUES (new.id, new.prompt); END",
    "AFTER UPDATE OF prompt ON history BEGIN
     INSERT INTO history_fts(history_fts, rowid, prompt) VALUES ('delete', old.id, old.prompt);
     INSERT INTO history_fts(rowid, prompt) VALUES (new.id, new.prompt); END",
];

impl Triggers {
    pub(crate) fn read(conn: &Connection) -> rusqlite::Result<Self> {
        let mut found = Self { only_feed_index: true, ..Self::default() };
        let mut statement = conn.prepare(
            "SELECT sql, lower(tbl_name) = 'history' FROM sqlite_master WHERE type = 'trigger'
               AND (lower(tbl_name) = 'history' OR lower(tbl_name) GLOB 'history_fts*' OR lower(tbl_name) GLOB 'watcher_*')",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (sql, on_history): (String, bool) = (row.get(0)?, row.get(1)?);
            let tokens = tokens(&sql);
            found.only_feed_index &= on_history && is_known(&tokens);
            if on_history && feeds_index(&tokens) {
                let event = event(&tokens);
                found.insert |= event.is_some_and(|event| event.is_word("insert"));
                found.delete |= event.is_some_and(|event| event.is_word("delete"));
            }
        }
        Ok(found)
    }
}

/// After `CREATE TRIGGER name`: SQLite keeps no other words before it.
fn after_name(trigger: &[Token]) -> &[Token] {
    trigger.get(3..).unwrap_or_default()
}

fn is_known(trigger: &[Token]) -> bool {
    let said = after_name(trigger);
    let same = |(one, other): (&Token, &Token)| one == other || matches!(other, Token::Word(word) if one.names(word));
    FEEDING.iter().map(|sql| tokens(sql)).any(|known| known.len() == said.len() && said.iter().zip(&known).all(same))
}

/// The change that it waits for.
fn event(trigger: &[Token]) -> Option<&Token> {
    after_name(trigger).iter().find(|token| ["insert", "delete", "update"].iter().any(|event| token.is_word(event)))
}

/// Whether one of its statements writes into the index.
fn feeds_index(trigger: &[Token]) -> bool {
    let begin = trigger.iter().position(|token| token.is_word("begin")).unwrap_or(trigger.len());
    trigger[begin..].split(|token| *token == Token::Mark(';')).any(|statement| {
        let statement = statement.strip_prefix(&[Token::Word("begin".to_owned())]).unwrap_or(statement);
        let writes = statement.first().is_some_and(|first| first.is_word("insert") || first.is_word("replace"));
        let Some(into) = statement.iter().position(|token| token.is_word("into")) else { return false };
        writes && statement.get(into + 1).is_some_and(|table| table.names("history_fts"))
    })
}
