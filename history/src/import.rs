//! Prompts from elsewhere: another history database, lines, JSON lines. The same source twice adds nothing the second
//! time. An import takes no part in folding and claims nothing `[H2]`.

use std::{
    io::BufRead,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Deserializer, de};

use crate::{
    bulk::Bulk,
    copy,
    database::{Database, Mode},
    error::{Error, ErrorKind, Result},
    known::Known,
    place,
    submission::{Recorded, Submission},
    value,
    writer::Writer,
};

/// So many prompts are handed to the writer at a time.
pub(crate) const BATCH: usize = 2_000;
/// More uses than anybody had, and few enough that sums of them stay numbers.
const MOST_USES: i64 = u32::MAX as i64;
/// So long we wait for a source that somebody else keeps locked.
const PATIENCE: Duration = Duration::from_secs(5);

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
    /// `cwd`, `session`, `use_count`. Two of the same text, second and directory are two, as far as the history does not hold
    /// as many already. What [`export`](crate::HistoryStorage::export) writes.
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
    /// Of those that were added, the ones whose secrets were replaced.
    pub redacted: usize,
}

impl Imported {
    pub(crate) fn add(&mut self, other: Self) {
        self.read += other.read;
        self.added += other.added;
        self.known += other.known;
        self.refused += other.refused;
        self.redacted += other.redacted;
    }
}

/// One line of JSON that is an object.
#[derive(Deserialize)]
struct Object {
    prompt: Text,
    created_at: Option<i64>,
    cwd: Option<Text>,
    #[serde(alias = "session_id")]
    session: Option<Text>,
    use_count: Option<i64>,
}

/// A text in which half a surrogate pair, which JSON can hold and UTF-8 can't, is U+FFFD.
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Text;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a text")
            }

            fn visit_bytes<E: de::Error>(self, mut bytes: &[u8]) -> Result<Text, E> {
                let mut text = String::new();
                // The crate writes such a half as UTF-8 would be, if it could: in three bytes.
                while let Err(error) = std::str::from_utf8(bytes) {
                    let (good, bad) = bytes.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(good));
                    text.push('\u{fffd}');
                    bytes = &bad[bad.len().min(3)..];
                }
                text.push_str(&String::from_utf8_lossy(bytes));
                Ok(Text(text))
            }
        }
        deserializer.deserialize_bytes(Visitor)
    }
}

fn of_line(line: &str) -> serde_json::Result<Incoming> {
    if !line.trim_start().starts_with('{') {
        return serde_json::from_str(line).map(|Text(prompt)| of_text(prompt));
    }
    let object: Object = serde_json::from_str(line)?;
    let text = |text: Option<Text>| text.map(|Text(text)| text);
    Ok(Incoming {
        submission: Submission {
            cwd: text(object.cwd),
            session: text(object.session),
            created_at: object.created_at,
            ..Submission::new(object.prompt.0)
        },
        uses: object.use_count.unwrap_or(1),
    })
}

fn of_text(prompt: String) -> Incoming {
    Incoming { submission: Submission::new(prompt), uses: 1 }
}

impl Import<'_> {
    /// Hands the prompts over in batches, in the order of the source (a database's by time). What has to be copied to be
    /// read is copied to a file beside `history` for as long as it takes.
    pub(crate) fn read(self, history: &Path, mut take: impl FnMut(Vec<Incoming>) -> Result<()>) -> Result<()> {
        let mut batch = Vec::with_capacity(BATCH);
        let mut hand_over = |mut incoming: Incoming| -> Result<()> {
            incoming.uses = incoming.uses.clamp(1, MOST_USES);
            batch.push(incoming);
            if batch.len() >= BATCH { take(std::mem::take(&mut batch)) } else { Ok(()) }
        };
        match self.0 {
            Source::Database(path) => read_database(&path, history, &mut hand_over)?,
            Source::Lines(path, lines) => each_line(&path, lines, |_, line| hand_over(of_text(line.to_owned())))?,
            Source::JsonLines(path, lines) => each_line(&path, lines, |number, line| {
                let line = if number == 1 { line.trim_start_matches('\u{feff}') } else { line };
                if line.trim().is_empty() {
                    return Ok(());
                }
                let incoming = of_line(line).map_err(|error| {
                    let message = format!("this is neither a text nor an object with a `prompt`: {error}");
                    Error::at_line(&path, number, message)
                })?;
                hand_over(incoming)
            })?,
        }
        if batch.is_empty() { Ok(()) } else { take(batch) }
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

fn read_database(path: &Path, history: &Path, each: &mut dyn FnMut(Incoming) -> Result<()>) -> Result<()> {
    let path = &place::real(path)?;
    let sqlite = |error| Error::sqlite(path, error);
    let mut database = Database::open(path, Mode::Read, PATIENCE)?;
    let journal: String = database.conn.pragma_query_value(None, "journal_mode", |row| row.get(0)).map_err(sqlite)?;
    // Without a write-ahead log its owner, or this very store, could not write for as long as it is read.
    let copied = if journal == "wal" { None } else { Some(copy::copy(&database.conn, history)?) };
    if let Some(copied) = &copied {
        database = Database::open(copied, Mode::Read, PATIENCE)?;
    }
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
        let value = || -> rusqlite::Result<Incoming> {
            Ok(Incoming {
                submission: Submission {
                    created_at: Some(value::number(row, 1)?),
                    cwd: value::optional_text(row, 2)?,
                    session: value::optional_text(row, 3)?,
                    ..Submission::new(value::text(row, 0)?)
                },
                uses: value::number(row, 4)?,
            })
        };
        each(value().map_err(sqlite)?)?;
    }
    Ok(())
}

/// Records a batch in as many slices as it takes.
pub(crate) fn import_batch(writer: &mut Writer, batch: &[Incoming], known: &mut Known) -> Result<Imported> {
    let mut sum = Imported { read: batch.len(), ..Imported::default() };
    let mut waiting = batch.iter();
    while waiting.len() > 0 {
        writer.make_ready(writer.now())?;
        known.renew(&mut writer.database).map_err(|error| writer.database.error(error))?;
        writer.write(|ledger, slice| {
            if !known.catch_up(ledger.conn(), ledger.shape().version)? {
                // Its owner was faster: once more from what is there now.
                return Ok(());
            }
            let bulk = Bulk::begin(*ledger, waiting.len())?;
            let ledger = bulk.ledger();
            let (mut first, mut last) = (i64::MAX, i64::MIN);
            for incoming in waiting.by_ref() {
                let outcome = ledger.import(&incoming.submission, incoming.uses, known)?;
                match outcome.recorded() {
                    Recorded::Inserted | Recorded::Bumped => {
                        sum.added += 1;
                        sum.redacted += usize::from(!outcome.redacted().is_empty());
                    }
                    Recorded::Known => sum.known += 1,
                    _ => sum.refused += 1,
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
        writer.database.rest();
    }
    Ok(sum)
}
