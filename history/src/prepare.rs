//! What has to be so before the first write, and again after the owner has changed its schema: a copy on first contact
//! `[H5a]`, our own tables, a full-text index, and records that point at the right rows.

use std::collections::HashMap;

use rusqlite::Connection;

use crate::{
    copy,
    database::Database,
    error::{Error, ErrorKind, Result},
    index,
    ledger::{NO_ROW, prompt_hash},
    meta, order, place,
    schema::{self, Form, Fts, Shape, has_own, has_table},
    storage::Notice,
    value,
};

/// Makes the database ready for a write. Takes the write lock only in slices. Returns the form that it is ready in.
pub(crate) fn prepare(database: &mut Database, now: i64) -> Result<(Shape, Vec<Notice>)> {
    let mut notices = Vec::new();
    let path = database.path.clone();
    let sqlite = |error| Error::sqlite(&path, error);
    loop {
        let (shape, fits) = look(database).map_err(sqlite)?;
        match shape.form {
            Form::Unknown { .. } | Form::Alien => return Ok((shape, notices)),
            Form::Empty => fill_empty(database)?,
            Form::Plain | Form::Counted if !shape.own => notices.extend(first_contact(database, now)?),
            // Records first: an index that is in place too early would only be slow.
            Form::Plain | Form::Counted if !fits => relink(database).map_err(sqlite)?,
            Form::Plain | Form::Counted if shape.fts == Fts::Missing => {
                index::build(database, &index::sql_of_ours()).map_err(sqlite)?;
            }
            Form::Plain | Form::Counted => {
                if !index::clear_away(database).map_err(sqlite)? {
                    return Ok((shape, notices));
                }
            }
        }
    }
}

/// The form, and whether our records fit the rows; not when anybody has changed the schema, and with it maybe the rows.
fn look(database: &mut Database) -> rusqlite::Result<(Shape, bool)> {
    let (snapshot, shape) = database.snapshot()?;
    let fits = shape.own && meta::get(&snapshot, meta::FITS)? == Some(shape.version);
    Ok((shape, fits))
}

/// An empty file, made by somebody who has not got further: ours to fill.
fn fill_empty(database: &mut Database) -> Result<()> {
    let path = database.path.clone();
    let sqlite = |error| Error::sqlite(&path, error);
    place::set_journal(&database.conn, &path).map_err(sqlite)?;
    let (transaction, shape, _) = database.begin().map_err(sqlite)?;
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
        let name = copy::keep(copy::copy(&database.conn, &path)?, &path, "before-watcher", now)?;
        tracing::info!(copy = %name.display(), "first contact with this history: a copy was made");
        notice = Some(Notice::Copied(name));
    }
    let (walked, version) = {
        let (transaction, shape) = database.snapshot().map_err(sqlite)?;
        (order::walk_all(&transaction).map_err(sqlite)?, shape.version)
    };
    let (transaction, shape, _) = database.begin().map_err(sqlite)?;
    if shape.is_known() && !shape.own {
        let make = || -> rusqlite::Result<()> {
            // A rest of our tables may be there: whether its records fit the rows has to be seen.
            let records = has_table(&transaction, "watcher_submission")?;
            schema::create_own(&transaction)?;
            if records || shape.version != version {
                return Ok(());
            }
            meta::set(&transaction, meta::FITS, schema::version(&transaction)?)?;
            walked.map_or(Ok(()), |walked| order::store(&transaction, walked))
        };
        make().map_err(sqlite)?;
        if !has_own(&transaction).map_err(sqlite)? {
            let message = "something that is no table has the name of one of ours, `watcher_…`; rename or drop it";
            return Err(Error::new(ErrorKind::UnknownSchema, &path, message));
        }
    }
    transaction.commit().map_err(sqlite)?;
    Ok(notice)
}

/// After the owner has built its table anew, rows may have other numbers: each record is led to the row that has its
/// prompt, the nearest in time; to none when there is none.
fn relink(database: &mut Database) -> rusqlite::Result<()> {
    let (version, moved, walked) = {
        let (snapshot, shape) = database.snapshot()?;
        (shape.version, moved(&snapshot)?, order::walk_all(&snapshot)?)
    };
    let renumbered = !moved.is_empty();
    let mut moved = moved.into_iter().peekable();
    loop {
        let slice;
        {
            let (transaction, shape, begun) = database.begin()?;
            slice = begun;
            if shape.version != version {
                // It has been built anew once more: what was found out about it is void.
                return Ok(());
            }
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
                meta::set(&transaction, meta::FITS, version)?;
                return transaction.commit();
            }
            transaction.commit()?;
        }
        database.learn(&slice);
        database.rest();
    }
}

/// The records that point at a row with another prompt, with the rows that they belong to.
fn moved(conn: &Connection) -> rusqlite::Result<Vec<(i64, i64)>> {
    let mut by_hash: HashMap<i64, Vec<(i64, i64)>> = HashMap::new();
    let mut records = Vec::new();
    let mut statement = conn.prepare("SELECT id, row, prompt_hash, at FROM watcher_submission")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let record: (i64, i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        by_hash.entry(record.2).or_default();
        records.push(record);
    }
    if records.is_empty() {
        return Ok(Vec::new());
    }
    let mut statement = conn.prepare("SELECT id, prompt, created_at FROM history")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if let Some(candidates) = by_hash.get_mut(&prompt_hash(&value::text(row, 1)?)) {
            candidates.push((row.get(0)?, value::number(row, 2)?));
        }
    }
    let moved = records.into_iter().filter_map(|(id, row, hash, at)| {
        let candidates = &by_hash[&hash];
        if candidates.iter().any(|(candidate, _)| *candidate == row) {
            return None;
        }
        let nearest = candidates.iter().min_by_key(|(_, created_at)| created_at.abs_diff(at));
        Some((id, nearest.map_or(NO_ROW, |(row, _)| *row))).filter(|(_, to)| *to != row)
    });
    Ok(moved.collect())
}
