//! Vectors of `scripts/`: operations on session managers, and what each must give.

use std::collections::HashSet;

use super::difference::{Texts, first_difference};
use super::normal::Normaliser;
use super::value::{Document, Node, Value};
use super::{Driver, Vector, ask};

pub(super) fn check(vector: &Vector, driver: &mut Driver<'_>) -> Result<(), String> {
    let parts = ["setup", "env", "ops"].map(|key| format!(r#""{key}":{}"#, vector.raw(key)));
    let script = format!("{{{}}}", parts.join(","));
    let (mut got, ok) = ask(driver, &format!(r#"{{"cmd":"script","script":{script}}}"#))?;
    let script = Document::parse(&script)?;
    let mut want = vector.document.clone();
    expand(&mut want);
    let ops = vector.items("ops").iter().map(|op| name_of(&vector.document, *op)).collect::<Vec<_>>();
    let (wanted, results) = (vector.items("expect").to_vec(), got.items(ok).to_vec());
    if wanted.len() != ops.len() || results.len() != ops.len() {
        return Err(format!("{} operations, {} expectations, {} results", ops.len(), wanted.len(), results.len()));
    }

    check_title_slots(&got, &results)?;
    let normaliser = Normaliser::new(&script);
    normaliser.name_places_and_times(&mut got);
    // Only what is compared takes part in numbering the ids.
    let compared: Vec<usize> = (0..ops.len()).filter(|n| compares_result(&want, wanted[*n])).collect();
    for n in &compared {
        reduce(&ops[*n], &mut want, wanted[*n]);
        reduce(&ops[*n], &mut got, results[*n]);
    }
    let pick = |nodes: &[Node]| compared.iter().map(|n| nodes[*n]).collect::<Vec<_>>();
    normaliser.number_ids(&mut want, &pick(&wanted));
    normaliser.number_ids(&mut got, &pick(&results));

    let kept = kept_lines(&script);
    for (n, op) in ops.iter().enumerate() {
        check_one(&want, wanted[n], &got, results[n], &format!("op {n} {op}"), &kept)?;
    }
    Ok(())
}

fn name_of(document: &Document, op: Node) -> String {
    document.get(op, "op").and_then(|name| document.text(name)).unwrap_or_default().to_owned()
}

fn compares_result(want: &Document, wanted: Node) -> bool {
    want.get(wanted, "result").is_some()
}

fn check_one(
    want: &Document,
    wanted: Node,
    got: &Document,
    result: Node,
    at: &str,
    kept: &HashSet<String>,
) -> Result<(), String> {
    if let Some(error) = want.get(wanted, "error") {
        let kind = got.get(result, "error").map(|error| got.get(error, "kind").and_then(|kind| got.text(kind)));
        let fits = match (want.text(error), kind) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(want), Some(kind)) => kind.is_some_and(|kind| letters(kind) == letters(want)),
        };
        let complain = || format!("{at}: want error {}, got {}", want.shown(error), got.shown(result));
        return fits.then_some(()).ok_or_else(complain);
    }
    let Some(value) = want.get(wanted, "result") else { return Ok(()) };
    let other = got.get(result, "result").ok_or_else(|| format!("{at}: got {}", got.shown(result)))?;
    let exact = want.get(wanted, "exact").is_some();
    let texts = if exact { Texts::Exact } else { Texts::Lines(kept) };
    first_difference((want, value), (got, other), at, texts).map_or(Ok(()), Err)
}

/// An error's kind without its spelling: `Deleted` and `session_deleted` keep only their letters, in lower case.
fn letters(kind: &str) -> String {
    kind.chars().filter(char::is_ascii_alphabetic).map(|c| c.to_ascii_lowercase()).collect()
}

/// Lines that the script supplied: they must stay as they are.
fn kept_lines(script: &Document) -> HashSet<String> {
    let mut kept = HashSet::new();
    let mut keep = |node: Option<Node>| {
        if let Some(text) = node.and_then(|node| script.text(node)) {
            kept.extend(text.split('\n').map(str::to_owned));
        }
    };
    let files = script.get(Document::ROOT, "setup").and_then(|setup| script.get(setup, "files"));
    for (_, text) in files.map_or(&[][..], |files| script.members(files)) {
        keep(Some(*text));
    }
    for op in script.get(Document::ROOT, "ops").map_or(&[][..], |ops| script.items(ops)) {
        if matches!(name_of(script, *op).as_str(), "writeFile" | "appendFile") {
            keep(script.get(*op, "args").and_then(|args| script.items(args).get(1).copied()));
        }
    }
    kept
}

/// A title slot is 256 bytes with its newline, whatever it holds.
fn check_title_slots(got: &Document, results: &[Node]) -> Result<(), String> {
    for (n, result) in results.iter().enumerate() {
        let snap = got.get(*result, "result").and_then(|snap| got.get(snap, "text"));
        let Some(text) = snap.and_then(|text| got.text(text)) else { continue };
        let slot = text.split('\n').next().filter(|line| line.starts_with(r#"{"type":"title""#));
        if let Some(slot) = slot.filter(|slot| slot.len() != 255) {
            return Err(format!("op {n}: the title slot has {} bytes, not 256", slot.len() + 1));
        }
    }
    Ok(())
}

/// Leaves of a result what counts: no lock files in listings, two lines of a pointer, name and size of a blob.
fn reduce(op: &str, document: &mut Document, item: Node) {
    let Some(result) = document.get(item, "result") else { return };
    match op {
        "ls" => {
            let is_lock = |item: &Node| {
                let name = document.text(*item).unwrap_or_default().trim_end_matches('/');
                [".lock", ".lck"].iter().any(|end| name.ends_with(end))
            };
            let items = document.items(result).iter().filter(|item| !is_lock(item)).copied().collect();
            if matches!(document.at(result), Value::Array(_)) {
                document.values_mut()[result] = Value::Array(items);
            }
        }
        "pointers" => {
            for (_, pointer) in document.members(result).to_vec() {
                if let Value::Text(text) = &mut document.values_mut()[pointer] {
                    *text = text.trim_end_matches('\n').split('\n').take(2).collect::<Vec<_>>().join("\n");
                }
            }
        }
        "blobs" => {
            for blob in document.items(result).to_vec() {
                if let Value::Object(members) = &mut document.values_mut()[blob] {
                    members.retain(|(key, _)| key == "name" || key == "size");
                }
            }
        }
        _ => {}
    }
}

/// `{"$repeat": [text, n]}` and `{"$join": [text, …]}` become the text that they stand for.
pub(super) fn expand(document: &mut Document) {
    // What is inside a value stands behind it: from the end on, parts are texts before they are joined.
    for node in (0..document.values_mut().len()).rev() {
        let text = if let Some(repeat) = document.get(node, "$repeat") {
            let [text, times] = document.items(repeat) else { continue };
            let (Some(text), Some(times)) = (document.text(*text), document.integer(*times)) else { continue };
            text.repeat(usize::try_from(times).unwrap_or(usize::MAX))
        } else if let Some(join) = document.get(node, "$join") {
            document.items(join).iter().filter_map(|part| document.text(*part)).collect()
        } else {
            continue;
        };
        document.values_mut()[node] = Value::Text(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_written_out() {
        let mut document = Document::parse(r#"[{"$join":["a",{"$repeat":["bc",2]},{"$join":["d"]}]},1]"#).unwrap();
        expand(&mut document);
        assert_eq!(document.shown(Document::ROOT), r#"["abcbcd",1]"#);
    }
}
