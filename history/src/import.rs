//! Prompts from elsewhere: another history database, lines, JSON lines. The same source twice adds nothing the second
//! time. An import takes no part in folding and claims nothing `[H2]`.

use std::{
    io::BufRead,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::{
    bulk::Bulk,
    database::{Database, Mode},
    error::{Error, ErrorKind, Result},
    fold::trim,
    known::{Rows, Texts},
    ledger::prompt_hash,
    slice::Slice,
    submission::{Recorded, Submission},
    writer::Writer,
};

/// So many prompts are handed to the writer at a time.
pub(crate) const BATCH: usize = 2_000;

/// Where prompts are imported from.
pub struct Import<'a>(Source<'a>);

enum Source<'a> {
    Database(PathBuf),
    Lines(PathBuf, Box<dyn BufRead + Send + 'a>),
    JsonLines(PathBuf, Box<dyn BufRead + Send + 'a>),
}

impl<'a> Import<'a> {
    /// Another history database, of any form that we can read. It is only read.
    pub fn database(path: impl Into<PathBuf>) -> Self {
        Self(Source::Database(path.into()))
    }

    /// One prompt a line. `name` stands for the source in errors. Lines carry no time: those that the history holds
    /// already are skipped, the others get the time of the import.
    pub fn lines(name: impl Into<PathBuf>, lines: impl BufRead + Send + 'a) -> Self {
        Self(Source::Lines(name.into(), Box::new(lines)))
    }

    /// One JSON value a line: a text, or an object with `prompt` and, where known, `created_at` (seconds since 1970),
    /// `cwd`, `session`, `use_count`. What [`export`](crate::HistoryStorage::export) writes.
    pub fn json_lines(name: impl Into<PathBuf>, lines: impl BufRead + Send + 'a) -> Self {
        Self(Source::JsonLines(name.into(), Box::new(lines)))
    }
}

/// One prompt of a source.
#[derive(Debug, Clone)]
pub(crate) struct Incoming {
    pub(crate) submission: Submission,
    pub(crate) uses: i64,
}

/// How far an import has come, and at its end what it did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Imported {
    /// Prompts read from the source.
    pub read: usize,
    /// Prompts that made a new row, or counted one up.
    pub added: usize,
    /// Prompts that were there already.
    pub known: usize,
    /// Prompts that are empty, were deleted on purpose, or were submitted where nothing is recorded.
    pub refused: usize,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Text(String),
    Object {
        prompt: String,
        created_at: Option<i64>,
        cwd: Option<String>,
        #[serde(alias = "session_id")]
        session: Option<String>,
        use_count: Option<i64>,
    },
}

impl Line {
    fn incoming(self) -> Incoming {
        match self {
            Self::Text(prompt) => Incoming { submission: Submission::new(prompt), uses: 1 },
            Self::Object { prompt, created_at, cwd, session, use_count } => Incoming {
                submission: Submission { prompt, cwd, session, created_at, key: None, formerly: None, heard: false },
                uses: use_count.unwrap_or(1).max(1),
            },
        }
    }
}

impl Import<'_> {
    /// Hands the prompts over in batches, in the order of the source (a database's by time). A prompt without a time
    /// that `known` holds is left out and counted.
    pub(crate) fn read(
        self,
        known: &mut Texts,
        now: i64,
        mut take: impl FnMut(Vec<Incoming>, usize) -> Result<()>,
    ) -> Result<()> {
        let mut batch = Vec::with_capacity(BATCH);
        let mut skipped = 0;
        let mut hand_over = |incoming: Option<Incoming>| -> Result<()> {
            let last = incoming.is_none();
            if let Some(mut incoming) = incoming {
                if incoming.submission.created_at.is_none() {
                    let prompt = trim(&incoming.submission.prompt);
                    if !prompt.is_empty() && !known.insert(prompt_hash(prompt)) {
                        skipped += 1;
                        return Ok(());
                    }
                    incoming.submission.created_at = Some(now);
                }
                batch.push(incoming);
            }
            if batch.len() >= BATCH || last {
                take(std::mem::take(&mut batch), std::mem::take(&mut skipped))?;
            }
            Ok(())
        };
        match self.0 {
            Source::Database(path) => read_database(&path, |incoming| hand_over(Some(incoming)))?,
            Source::Lines(path, lines) => {
                each_line(&path, lines, |_, line| hand_over(Some(Line::Text(line.to_owned()).incoming())))?;
            }
            Source::JsonLines(path, lines) => each_line(&path, lines, |number, line| {
                if line.trim().is_empty() {
                    return Ok(());
                }
                let line: Line = serde_json::from_str(line).map_err(|error| {
                    let message = format!("this is neither a text nor an object with a `prompt`: {error}");
                    Error::at_line(&path, number, message)
                })?;
                hand_over(Some(line.incoming()))
            })?,
        }
        hand_over(None)
    }
}

fn each_line(path: &Path, mut lines: impl BufRead, mut each: impl FnMut(u64, &str) -> Result<()>) -> Result<()> {
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = lines.read_until(b'\n', &mut line).map_err(|error| Error::io(path, "it can't be read", error))?;
        if read == 0 {
            break;
        }
        let text = std::str::from_utf8(&line).map_err(|error| Error::at_line(path, number, error.to_string()))?;
        each(number, text.trim_end_matches(['\n', '\r']))?;
    }
    Ok(())
}

fn read_database(path: &Path, mut each: impl FnMut(Incoming) -> Result<()>) -> Result<()> {
    let mut database = Database::open(path, Mode::Read, std::time::Duration::from_secs(5))?;
    let sqlite = |error| Error::sqlite(path, error);
    let (transaction, shape) = database.snapshot().map_err(sqlite)?;
    if !shape.is_readable() {
        return Err(Error::new(ErrorKind::UnknownSchema, path, "it has no `history` table with `id` and `prompt`"));
    }
    let sql = format!(
        "SELECT h.prompt, {at}, {cwd}, {session}, {uses} FROM history h ORDER BY {at}, h.id",
        at = shape.created_at(),
        cwd = shape.cwd(),
        session = if shape.is_counted() { "h.session_id" } else { "NULL" },
        uses = if shape.is_counted() { "h.use_count" } else { "1" },
    );
    let mut statement = transaction.prepare(&sql).map_err(sqlite)?;
    let mut rows = statement.query([]).map_err(sqlite)?;
    while let Some(row) = rows.next().map_err(sqlite)? {
        let Ok(Some(prompt)) = row.get_ref(0).map_err(sqlite)?.as_bytes_or_null() else { continue };
        let submission = Submission {
            prompt: String::from_utf8_lossy(prompt).into_owned(),
            created_at: Some(row.get(1).unwrap_or(0)),
            cwd: row.get(2).ok().flatten(),
            session: row.get(3).ok().flatten(),
            key: None,
            formerly: None,
            heard: false,
        };
        each(Incoming { submission, uses: row.get(4).unwrap_or(1) })?;
    }
    Ok(())
}

/// Records a batch in as many slices as it takes; how many were added, and how many were there.
pub(crate) fn import_batch(writer: &mut Writer, batch: &[Incoming], rows: &mut Rows) -> Result<(usize, usize)> {
    let (mut added, mut known) = (0, 0);
    let mut waiting = batch.iter();
    while waiting.len() > 0 {
        let began = Slice::begin();
        writer.write(|ledger, slice| {
            let bulk = Bulk::begin(*ledger, waiting.len())?;
            let ledger = bulk.ledger();
            if !ledger.shape().is_counted() {
                rows.catch_up(ledger.conn())?;
            }
            let (mut first, mut last) = (i64::MAX, i64::MIN);
            for incoming in waiting.by_ref() {
                let outcome = ledger.import(&incoming.submission, incoming.uses, rows)?;
                match outcome.recorded() {
                    Recorded::Inserted | Recorded::Bumped => added += 1,
                    Recorded::Known => known += 1,
                    _ => {}
                }
                if let (Recorded::Inserted, Some(row)) = (outcome.recorded(), outcome.row()) {
                    first = first.min(row.get());
                    last = last.max(row.get());
                }
                if slice.is_over() {
                    break;
                }
            }
            if first <= last {
                ledger.note_import(first, last)?;
            }
            bulk.end()
        })?;
        writer.database.rest(&began);
    }
    Ok((added, known))
}
