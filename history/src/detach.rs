//! Taking everything of ours away again `[H5a]`. What the owner has, it keeps.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, Row};

use crate::{
    copy,
    error::{Error, Result},
    index,
    schema::{TABLE_PREFIX, has_table},
    tombstone,
    writer::Writer,
};

/// What a detachment took away, or would.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detached {
    tables: Vec<String>,
    forgotten: Option<PathBuf>,
    kept: Vec<PathBuf>,
}

impl Detached {
    /// The tables, the caller's own among them.
    pub fn tables(&self) -> &[String] {
        &self.tables
    }

    /// The list of deleted prompts, when there was one. Without it, whatever still holds such a prompt can bring it back.
    pub fn forgotten(&self) -> Option<&Path> {
        self.forgotten.as_deref()
    }

    /// Files beside the history that were kept because they hold prompts: copies from first contacts and databases that
    /// were moved aside.
    pub fn kept(&self) -> &[PathBuf] {
        &self.kept
    }
}

/// What a detachment would take away from the history at `path`.
pub(crate) fn plan(conn: &Connection, path: &Path) -> rusqlite::Result<Detached> {
    let tables = tables(conn)?.into_iter().map(|(name, _)| name).collect();
    let list = Some(tombstone::file_of(path)).filter(|list| list.exists());
    Ok(Detached { tables, forgotten: list, kept: copy::kept_beside(path) })
}

pub(crate) fn detach(writer: &mut Writer) -> Result<Detached> {
    let path = writer.database.path.clone();
    let tables = drop_tables(writer).map_err(|error| Error::sqlite(&path, error))?;
    let list = tombstone::file_of(&path);
    let forgotten = match fs::remove_file(&list) {
        Ok(()) => Some(list),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(Error::io(&list, "the list of deleted prompts can't be removed", error)),
    };
    Ok(Detached { tables, forgotten, kept: copy::kept_beside(&path) })
}

fn drop_tables(writer: &mut Writer) -> rusqlite::Result<Vec<String>> {
    let mut dropped = Vec::new();
    while let Some((name, kind)) = tables(&writer.database.conn)?.into_iter().next() {
        let some = match kind {
            Kind::Ordinary => Some("DELETE FROM {} WHERE rowid IN (SELECT rowid FROM {} LIMIT 500)"),
            // Without row ids there is no cheap way to delete a part.
            Kind::WithoutRowId | Kind::Virtual => None,
        };
        if kind == Kind::Virtual {
            index::discard(&mut writer.database, &name)?;
        } else {
            drop_table(writer, &name, some)?;
        }
        dropped.push(name);
    }
    Ok(dropped)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Virtual,
    Ordinary,
    WithoutRowId,
}

/// Virtual tables first: their shadow tables go with them.
fn tables(conn: &Connection) -> rusqlite::Result<Vec<(String, Kind)>> {
    let mut statement = conn.prepare_cached(
        "SELECT name, type = 'virtual', wr FROM pragma_table_list
         WHERE schema = 'main' AND type IN ('table', 'virtual') AND substr(name, 1, ?2) = ?1
         ORDER BY type = 'virtual' DESC, name",
    )?;
    let table = |row: &Row<'_>| {
        let kind = match (row.get(1)?, row.get(2)?) {
            (true, _) => Kind::Virtual,
            (false, true) => Kind::WithoutRowId,
            (false, false) => Kind::Ordinary,
        };
        Ok((row.get(0)?, kind))
    };
    statement.query_map((TABLE_PREFIX, i64::try_from(TABLE_PREFIX.len()).unwrap_or(0)), table)?.collect()
}

/// Drops a table, emptied before by as many runs of `some` as it takes.
fn drop_table(writer: &mut Writer, name: &str, some: Option<&str>) -> rusqlite::Result<()> {
    let quoted = format!("\"{}\"", name.replace('"', "\"\""));
    let some = some.map(|some| some.replace("{}", &quoted));
    loop {
        let slice;
        {
            let (transaction, _, begun) = writer.database.begin()?;
            slice = begun;
            // Another process may be detaching too.
            if !has_table(&transaction, name)? {
                return Ok(());
            }
            let mut empty = some.is_none();
            while let Some(some) = &some
                && !empty
                && !slice.is_over()
            {
                empty = transaction.prepare_cached(some)?.execute([])? == 0;
            }
            if empty {
                transaction.execute_batch(&format!("DROP TABLE {quoted}"))?;
                return transaction.commit();
            }
            transaction.commit()?;
        }
        writer.database.learn(&slice);
        writer.database.rest();
    }
}
