//! Vectors of `catalog/`: session files, and what listing them or resolving a name among them must give.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use session_core::quote;

use super::difference::{Texts, first_difference};
use super::value::{Document, Node, Value};
use super::{Driver, Vector, shown};

pub(super) fn check(vector: &Vector, driver: &mut Driver<'_>, work: &Path) -> Result<(), String> {
    lay_out(vector, work)?;
    let mut expect = vector.document.clone();
    super::script::expand(&mut expect);
    let (calls, wanted) = (vector.items("calls"), vector.items("expect"));
    if calls.len() != wanted.len() {
        return Err(format!("{} calls, {} expectations", calls.len(), wanted.len()));
    }
    for (n, (call, want)) in calls.iter().zip(wanted).enumerate() {
        let answer = driver(&command(vector, *call, work));
        let mut got = Document::parse(&answer)?;
        for value in got.values_mut() {
            if let Value::Text(text) = value {
                *text = text.replace(&*work.to_string_lossy(), "<ROOT>");
            }
        }
        let name = vector.document.get(*call, "cmd").and_then(|cmd| vector.document.text(cmd)).unwrap_or_default();
        check_answer(&expect, *want, &got, &format!("call {n} {name}"))?;
    }
    Ok(())
}

/// Makes the files, links and times of a vector.
fn lay_out(vector: &Vector, work: &Path) -> Result<(), String> {
    let in_root = |node: Node| match vector.document.text(node) {
        Some(text) => Ok(text.replace("$ROOT", &work.to_string_lossy())),
        None => Err(format!("want a text, got {}", vector.document.shown(node))),
    };
    for (name, text) in vector.members("files") {
        let path = work.join(name);
        fs::create_dir_all(path.parent().unwrap_or(work)).map_err(shown)?;
        fs::write(path, in_root(*text)?).map_err(shown)?;
    }
    for (name, target) in vector.members("links") {
        let path = work.join(name);
        fs::create_dir_all(path.parent().unwrap_or(work)).map_err(shown)?;
        std::os::unix::fs::symlink(in_root(*target)?, path).map_err(shown)?;
    }
    for (name, seconds) in vector.members("mtimes") {
        let seconds = vector.document.integer(*seconds).ok_or("a time in whole seconds")?;
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        File::open(work.join(name)).and_then(|file| file.set_modified(time)).map_err(shown)?;
    }
    Ok(())
}

/// The call as a command, with the root in its texts.
fn command(vector: &Vector, call: Node, work: &Path) -> String {
    let members = vector.document.members(call).iter().map(|(key, value)| {
        let value = match vector.document.text(*value) {
            Some(text) => quote(&text.replace("$ROOT", &work.to_string_lossy())),
            None => vector.document.shown(*value),
        };
        format!("{}:{value}", quote(key))
    });
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

fn check_answer(want: &Document, wanted: Node, got: &Document, at: &str) -> Result<(), String> {
    let error = got.get(Document::ROOT, "error");
    if *want.at(wanted) == Value::Null {
        return Ok(());
    }
    if want.get(wanted, "error").is_some() {
        return error.map(drop).ok_or_else(|| format!("{at}: want an error, got {}", got.shown(Document::ROOT)));
    }
    let answer = got.get(Document::ROOT, "ok").ok_or_else(|| format!("{at}: {}", got.shown(Document::ROOT)))?;
    if want.get(wanted, "none").is_some() {
        let is_none = *got.at(answer) == Value::Null;
        return is_none.then_some(()).ok_or_else(|| format!("{at}: want none, got {}", got.shown(answer)));
    }
    let Value::Array(rows) = want.at(wanted) else { return check_row(want, wanted, got, answer, at) };
    let results = got.items(answer);
    if !matches!(got.at(answer), Value::Array(_)) || rows.len() != results.len() {
        let paths = |document: &Document, rows: &[Node]| {
            let path = |row: &Node| document.get(*row, "path").map(|path| document.shown(path)).unwrap_or_default();
            rows.iter().map(path).collect::<Vec<_>>().join(", ")
        };
        return Err(format!("{at}: want {}, got {}", paths(want, rows), paths(got, results)));
    }
    for (n, (row, result)) in rows.iter().zip(results).enumerate() {
        check_row(want, *row, got, *result, &format!("{at}[{n}]"))?;
    }
    Ok(())
}

/// The keys of the expectation; one that is null may be absent.
fn check_row(want: &Document, row: Node, got: &Document, result: Node, at: &str) -> Result<(), String> {
    for (key, value) in want.members(row) {
        let at = format!("{at}.{key}");
        match got.get(result, key) {
            None if *want.at(*value) == Value::Null => {}
            None => return Err(format!("{at}: missing, want {}", want.shown(*value))),
            Some(other) => first_difference((want, *value), (got, other), &at, Texts::Exact).map_or(Ok(()), Err)?,
        }
    }
    Ok(())
}
