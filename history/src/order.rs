//! Whether newest first is the same as highest row id first, kept as one stored number.
//!
//! FTS5 hands out row ids in descending order as fast as it finds them; asking for `created_at` order makes it find and
//! fetch every match first, hundreds of times slower on a common word. So we store the highest row id that is out of
//! order ([`DISORDER`](crate::meta::DISORDER)): above it, both orders are the same. Nothing here guesses: what was not
//! looked at counts as out of order.

use rusqlite::Connection;

use crate::{
    meta,
    schema::{Form, Shape},
};

/// More rows than this are not looked at in passing; whoever needs the order then takes the exact way.
const IN_PASSING: usize = 2_000;

/// The row id above which row order is time order, as a reader may believe it now.
pub(crate) fn ordered_above(conn: &Connection, shape: &Shape) -> rusqlite::Result<i64> {
    if !shape.own || shape.form != Form::Plain || meta::get(conn, meta::FITS)? != Some(shape.version) {
        return Ok(i64::MAX);
    }
    let (Some(seen), Some(latest), Some(disorder)) =
        (meta::get(conn, meta::SEEN)?, meta::get(conn, meta::LATEST)?, meta::get(conn, meta::DISORDER)?)
    else {
        return Ok(i64::MAX);
    };
    let walked = walk(conn, Walked { seen, latest, disorder }, i64::MAX, IN_PASSING)?;
    Ok(walked.map_or(i64::MAX, |walked| walked.disorder))
}

/// Brings the stored numbers up to date inside the writer's transaction.
pub(crate) fn advance(conn: &Connection, shape: &Shape) -> rusqlite::Result<()> {
    advance_to(conn, shape, i64::MAX)
}

/// The same for the rows up to this one.
pub(crate) fn advance_to(conn: &Connection, shape: &Shape, last: i64) -> rusqlite::Result<()> {
    if shape.form != Form::Plain {
        return Ok(());
    }
    let before = Walked {
        seen: meta::get(conn, meta::SEEN)?.unwrap_or(0),
        latest: meta::get(conn, meta::LATEST)?.unwrap_or(i64::MIN),
        disorder: meta::get(conn, meta::DISORDER)?.unwrap_or(0),
    };
    if let Some(after) = walk(conn, before, last, usize::MAX)? {
        store(conn, after)?;
    }
    Ok(())
}

/// How far the rows were looked at, and what was found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Walked {
    seen: i64,
    latest: i64,
    disorder: i64,
}

pub(crate) fn store(conn: &Connection, walked: Walked) -> rusqlite::Result<()> {
    meta::set(conn, meta::SEEN, walked.seen)?;
    meta::set(conn, meta::LATEST, walked.latest)?;
    meta::set(conn, meta::DISORDER, walked.disorder)
}

/// Looks at all rows; for use outside the write lock.
pub(crate) fn walk_all(conn: &Connection) -> rusqlite::Result<Option<Walked>> {
    walk(conn, Walked { seen: 0, latest: i64::MIN, disorder: 0 }, i64::MAX, usize::MAX)
}

fn walk(conn: &Connection, mut from: Walked, last: i64, at_most: usize) -> rusqlite::Result<Option<Walked>> {
    let mut statement =
        conn.prepare_cached("SELECT id, created_at FROM history WHERE id > ? AND id <= ? ORDER BY id")?;
    let mut rows = statement.query([from.seen, last])?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        count += 1;
        if count > at_most {
            return Ok(None);
        }
        let id = row.get(0)?;
        // A time that is no number sorts after all numbers in SQLite; it is out of order for good.
        let created_at: Option<i64> = row.get(1).ok();
        match created_at {
            Some(time) if time >= from.latest => from.latest = time,
            _ => from.disorder = id,
        }
        from.seen = id;
    }
    Ok(Some(from))
}
