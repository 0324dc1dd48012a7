//! Deleting prompts so that they stay away `[H5b]`: the list of deleted ones first, then rows, words and records, then
//! the traces in the file. It can't reach session files, which still hold the text.

use std::{collections::BTreeSet, path::PathBuf};

use rusqlite::params;

use crate::{
    copy,
    database::Database,
    error::{Error, Result},
    schema::Fts,
    selection::Selection,
    writer::Writer,
};

/// What a deletion did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deleted {
    rows: usize,
    sessions: BTreeSet<String>,
    log_truncated: bool,
    copies: Vec<PathBuf>,
}

impl Deleted {
    /// How many rows went.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The sessions that the prompts were submitted to, as far as that was recorded. Their files still hold the text.
    pub fn sessions(&self) -> impl Iterator<Item = &str> {
        self.sessions.iter().map(String::as_str)
    }

    /// Copies that were made of the history before, and corrupt ones that were moved aside: they may still hold the text.
    pub fn copies(&self) -> &[PathBuf] {
        &self.copies
    }

    /// Whether the write-ahead log was emptied. It is not while another process has the database open (or may have, where
    /// that can't be told): its old pages then keep the text until the log is written over, or the last process closes.
    pub fn log_truncated(&self) -> bool {
        self.log_truncated
    }
}

struct Doomed {
    id: i64,
    prompt: String,
    /// The latest time that it has anywhere, which may be ahead of the clock.
    latest: i64,
    keys: Vec<Vec<u8>>,
}

pub(crate) fn delete(writer: &mut Writer, selection: &Selection) -> Result<Deleted> {
    let now = writer.now();
    writer.make_ready(now)?;
    let mut deleted = Deleted::default();
    let doomed =
        find(&mut writer.database, selection, &mut deleted.sessions).map_err(|error| writer.database.error(error))?;
    if doomed.is_empty() {
        return Ok(deleted);
    }
    let forgotten =
        doomed.iter().map(|doomed| (doomed.prompt.as_str(), now.max(doomed.latest), doomed.keys.as_slice()));
    writer.guard.tombstones.add(&writer.database.conn, forgotten)?;
    let secure = |on: bool, database: &Database| {
        database.conn.pragma_update_and_check(None, "secure_delete", on, |_| Ok(())).map_err(|e| database.error(e))
    };
    secure(true, &writer.database)?;
    let result = remove(writer, &doomed, &mut deleted);
    secure(false, &writer.database)?;
    deleted.copies = copy::kept_beside(&writer.database.path);
    result.map(|()| deleted)
}

fn remove(writer: &mut Writer, doomed: &[Doomed], deleted: &mut Deleted) -> Result<()> {
    let mut waiting = doomed.iter();
    while waiting.len() > 0 {
        deleted.rows += writer.write(|ledger, slice| {
            let mut count = 0;
            for doomed in waiting.by_ref() {
                // The owner may have changed the row since it was chosen.
                if ledger.holds(doomed.id, &doomed.prompt)? {
                    ledger.remove(doomed.id)?;
                    ledger.forget(doomed.id)?;
                    count += 1;
                }
                if slice.is_over() {
                    break;
                }
            }
            Ok(count)
        })?;
        writer.database.rest();
    }
    let path = writer.database.path.clone();
    merge_index(&mut writer.database).map_err(|error| Error::sqlite(&path, error))?;
    deleted.log_truncated = truncate_log(&writer.database).map_err(|error| Error::sqlite(&path, error))?;
    Ok(())
}

fn find(
    database: &mut Database,
    selection: &Selection,
    sessions: &mut BTreeSet<String>,
) -> rusqlite::Result<Vec<Doomed>> {
    let (transaction, shape) = database.snapshot()?;
    if !shape.is_known() {
        return Ok(Vec::new());
    }
    let mut doomed = Vec::new();
    for entry in selection.entries(&transaction, &shape)? {
        sessions.extend(entry.session.clone());
        let (mut keys, mut latest) = (Vec::new(), entry.created_at);
        let sql = "SELECT key, session, at FROM watcher_submission WHERE row = ?";
        // Another process may be taking our tables away.
        let mut records = if shape.own { Some(transaction.prepare_cached(sql)?) } else { None };
        let mut rows = records.as_mut().map(|records| records.query([entry.id.get()])).transpose()?;
        while let Some(rows) = &mut rows
            && let Some(row) = rows.next()?
        {
            keys.extend(row.get::<_, Option<Vec<u8>>>(0)?);
            sessions.extend(row.get::<_, Option<String>>(1)?);
            latest = latest.max(row.get(2)?);
        }
        doomed.push(Doomed { id: entry.id.get(), prompt: entry.prompt, latest, keys });
    }
    Ok(doomed)
}

/// What FTS5's `optimize` does, in slices: deleted words leave the index when its parts are merged into one.
fn merge_index(database: &mut Database) -> rusqlite::Result<()> {
    let mut pages = -64;
    loop {
        let slice;
        {
            let (transaction, shape, begun) = database.begin()?;
            slice = begun;
            if shape.fts != Fts::Words {
                return Ok(());
            }
            while !slice.is_over() {
                let before = transaction.total_changes();
                transaction
                    .prepare_cached("INSERT INTO history_fts(history_fts, rank) VALUES ('merge', ?)")?
                    .execute(params![pages])?;
                // FTS5 documents that a merge which changed fewer than two rows had nothing left to do.
                if transaction.total_changes() - before < 2 {
                    return transaction.commit();
                }
                pages = 64;
            }
            transaction.commit()?;
        }
        database.learn(&slice);
        database.rest();
    }
}

/// Empties the write-ahead log when no other process has the database open: on a shared one our checkpoints are passive.
/// True as well where there is no such log.
fn truncate_log(database: &Database) -> rusqlite::Result<bool> {
    let conn = &database.conn;
    if !database.is_alone() {
        let (left, done): (i64, i64) =
            conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| Ok((row.get(1)?, row.get(2)?)))?;
        // Without a log both numbers are -1.
        return Ok(left == -1 && done == -1);
    }
    let patience: i64 = conn.pragma_query_value(None, "busy_timeout", |row| row.get(0))?;
    conn.pragma_update_and_check(None, "busy_timeout", 0, |_| Ok(()))?;
    let busy = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
    conn.pragma_update_and_check(None, "busy_timeout", patience, |_| Ok(()))?;
    Ok(busy? == 0)
}
