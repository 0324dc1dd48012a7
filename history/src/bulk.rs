//! Many rows at once, with the full-text index fed by us instead of by the triggers.
//!
//! A row that comes through a trigger makes FTS5 write its words out before the next one: SQLite opens a savepoint for the
//! statement, and FTS5 can't keep words in memory across one. Rows and words in statements of their own cost a third. So
//! for as long as a [`Bulk`] lives, this connection's triggers are switched off, which no other connection notices, and
//! the ledger does their work, as it does in databases that have none. Triggers that do anything else are never passed
//! over.

use rusqlite::{Connection, config::DbConfig};

use crate::{ledger::Ledger, schema::Shape, triggers::Triggers};

/// Fewer rows than this are not worth it: switching makes SQLite prepare its statements anew, twice.
const MANY: usize = 32;

/// Switched-off triggers, until it ends.
pub(crate) struct Bulk<'a> {
    ledger: Ledger<'a>,
    shape: Option<Shape>,
}

impl<'a> Bulk<'a> {
    /// Begins when so many rows are to come and the triggers are the known ones; else everything stays as it is.
    pub(crate) fn begin(ledger: Ledger<'a>, rows: usize) -> rusqlite::Result<Self> {
        let shape = ledger.shape();
        let shape = (rows >= MANY && shape.triggers.insert && shape.triggers.only_feed_index)
            .then(|| Shape { triggers: Triggers::default(), ..shape.clone() });
        if shape.is_some() {
            fire_triggers(ledger.conn(), false)?;
        }
        Ok(Self { ledger, shape })
    }

    /// The ledger to use meanwhile.
    pub(crate) fn ledger(&self) -> Ledger<'_> {
        self.shape.as_ref().map_or(self.ledger, |shape| self.ledger.with_shape(shape))
    }

    /// Switches the triggers on again. The transaction must not be committed when this fails.
    pub(crate) fn end(mut self) -> rusqlite::Result<()> {
        match self.shape.take() {
            Some(_) => fire_triggers(self.ledger.conn(), true),
            None => Ok(()),
        }
    }
}

impl Drop for Bulk<'_> {
    fn drop(&mut self) {
        if self.shape.is_some()
            && let Err(error) = fire_triggers(self.ledger.conn(), true)
        {
            tracing::error!(%error, "the triggers of this connection can't be switched on again");
        }
    }
}

fn fire_triggers(conn: &Connection, fire: bool) -> rusqlite::Result<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, fire).map(drop)
}
