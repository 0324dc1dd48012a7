//! What has to be so before the first write, and again after the owner has changed its schema: a copy on first contact
//! `[H5a]`, our own tables, a full-text index, and records that point at the right rows.

use std::collections::HashMap;

use crate::{
    copy,
    database::Database,
    error::{Error, Result},
    index,
    ledger::prompt_hash,
    meta, order, place,
    schema::{self, Form, Fts, Shape},
    slice::Slice,
    storage::Notice,
};

/// Makes the database ready for a write. Takes the write lock only in slices.
pub(crate) fn prepare(database: &mut Database, now: i64) -> Result<Vec<Notice>> {
    let mut notices = Vec::new();
    let shape = database.shape().map_err(|error| database.error(error))?;
    match shape.form {
        Form::Unknown { .. } | Form::Alien => return Ok(notices),
        Form::Empty => fill_empty(database)?,
        Form::Plain | Form::Counted if !shape.own => notices.extend(first_contact(database, now)?),
        Form::Plain | Form::Counted => {}
    }
    let shape = database.shape().map_err(|error| database.error(error))?;
    if shape.fts == Fts::Missing && shape.is_known() {
        index::build(database, &index::sql_of_ours()).map_err(|error| database.error(error))?;
    } else if shape.own {
        index::clear_away(database).map_err(|error| database.error(error))?;
    }
    let shape = database.shape().map_err(|error| database.error(error))?;
    if meta::get(&database.conn, meta::HISTORY_SQL).map_err(|error| database.error(error))?
        != Some(prompt_hash(&shape.history_sql))
    {
        relink(database, &shape).map_err(|error| database.error(error))?;
    }
    Ok(notices)
}

/// An empty file, made by somebody who has not got further: ours to fill.
fn fill_empty(database: &mut Database) -> Result<()> {
    let path = database.path.clone();
    let sqlite = |error| Error::sqlite(&path, error);
    place::set_journal(&database.conn, &path).map_err(sqlite)?;
    let (transaction, shape) = database.begin().map_err(sqlite)?;
    if shape.form == Form::Empty {
        place::fill(&transaction).map_err(sqlite)?;
    }
    transaction.commit().map_err(sqlite)
}

/// A database that is not ours: a copy first, then our tables beside its own.
fn first_contact(database: &mut Database, now: i64) -> Result<Option<Notice>> {
    let path = database.path.clone();
    let sqlite = |error| Error::sqlite(&path, error);
    let any: bool =
        database.conn.query_row("SELECT EXISTS (SELECT 1 FROM history)", [], |row| row.get(0)).map_err(sqlite)?;
    let mut notice = None;
    if any {
        let temporary = copy::copy(&database.conn, &path)?;
        let name = copy::dated_name(&path, "before-watcher", now);
        temporary.persist_noclobber(&name).map_err(|error| Error::io(&name, "the copy can't be kept", error.error))?;
        tracing::info!(copy = %name.display(), "first contact with this history: a copy was made");
        notice = Some(Notice::Copied(name));
    }
    let walked = order::walk_all(&database.conn).map_err(sqlite)?;
    let (transaction, shape) = database.begin().map_err(sqlite)?;
    if shape.is_known() && !shape.own {
        let make = || -> rusqlite::Result<()> {
            schema::create_own(&transaction)?;
            meta::set(&transaction, meta::HISTORY_SQL, prompt_hash(&shape.history_sql))?;
            walked.map_or(Ok(()), |walked| order::store(&transaction, walked))
        };
        make().map_err(sqlite)?;
    }
    transaction.commit().map_err(sqlite)?;
    Ok(notice)
}

/// After the owner has built its table anew, rows may have other numbers: each record is led to the row that has its
/// prompt, the nearest in time; to none when there is none.
fn relink(database: &mut Database, shape: &Shape) -> rusqlite::Result<()> {
    let mut by_hash: HashMap<i64, Vec<(i64, i64)>> = HashMap::new();
    let mut records = Vec::new();
    {
        let conn = &database.conn;
        let mut statement = conn.prepare("SELECT id, row, prompt_hash, at FROM watcher_submission")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let record: (i64, i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
            by_hash.entry(record.2).or_default();
            records.push(record);
        }
        let mut statement = conn.prepare("SELECT id, CAST(prompt AS TEXT), created_at FROM history")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if let Some(candidates) = by_hash.get_mut(&prompt_hash(row.get_ref(1)?.as_str().unwrap_or_default())) {
                candidates.push((row.get(0)?, row.get(2).unwrap_or(0)));
            }
        }
    }
    let moved: Vec<(i64, i64)> = records
        .into_iter()
        .filter_map(|(id, row, hash, at)| {
            let candidates = &by_hash[&hash];
            if candidates.iter().any(|(candidate, _)| *candidate == row) {
                return None;
            }
            let nearest = candidates.iter().min_by_key(|(_, created_at)| created_at.abs_diff(at));
            Some((id, nearest.map_or(0, |(row, _)| *row)))
        })
        .filter(|(_, row)| *row != 0)
        .collect();
    let walked = order::walk_all(&database.conn)?;
    let renumbered = !moved.is_empty();
    let mut moved = moved.into_iter().peekable();
    loop {
        let slice;
        {
            let (transaction, now) = database.begin()?;
            slice = Slice::begin();
            let mut update = transaction.prepare_cached("UPDATE watcher_submission SET row = ?2 WHERE id = ?1")?;
            while !slice.is_over()
                && let Some(record) = moved.next()
            {
                update.execute(record)?;
            }
            drop(update);
            if moved.peek().is_none() {
                if renumbered {
                    transaction.execute("DELETE FROM watcher_import", [])?;
                }
                if let Some(walked) = walked {
                    order::store(&transaction, walked)?;
                }
                if now.history_sql == shape.history_sql {
                    meta::set(&transaction, meta::HISTORY_SQL, prompt_hash(&shape.history_sql))?;
                }
                return transaction.commit();
            }
            transaction.commit()?;
        }
        database.rest(&slice);
    }
}
