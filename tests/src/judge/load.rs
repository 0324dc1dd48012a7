//! Vectors of `load/`: a session file, and what opening it must give. Neither the file nor the blobs may change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use session_core::quote;

use crate::conformance::Object;

use super::difference::{Texts, first_difference};
use super::value::{Document, Node, Value};
use super::{Driver, Vector, ask, shown};

pub(super) fn check(vector: &Vector, driver: &mut Driver<'_>, work: &Path) -> Result<(), String> {
    let name = vector.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let (name, leaf) = name.split_once('@').map_or((name.as_str(), false), |(name, _)| (name, true));
    let source = vector.path.with_file_name(format!("{name}.jsonl"));
    let file = work.join("files").join(format!("{name}.jsonl"));
    fs::create_dir(work.join("files")).map_err(shown)?;
    fs::copy(&source, &file).map_err(|error| format!("{}: {error}", source.display()))?;
    let mut command =
        Object::new().with("cmd", quote(if leaf { "context" } else { "open" })).with("file", quoted(&file));
    if leaf {
        command.add("leaf", vector.raw("leaf"));
    }
    if let Some(folder) = vector.get("blobs").and_then(|node| vector.document.text(node)) {
        let blobs = work.join("blobs");
        fs::create_dir(&blobs).map_err(shown)?;
        copy_files(&vector.path.with_file_name(folder), &blobs)?;
        command.add("blobs", quoted(&blobs));
    }
    let before = snapshot(work)?;
    let answer = ask(driver, &command.to_string());
    if snapshot(work)? != before {
        return Err("the file, its folder or the blobs were changed".to_owned());
    }
    let (mut got, ok) = answer?;
    if leaf {
        let want = vector.get("context").ok_or("the vector has no context")?;
        return same(&vector.document, want, &got, ok, "context");
    }
    if stands_for_ids_in_order(vector) {
        rename_ids(&mut got, ok);
    }
    let data = fs::read(&source).map_err(shown)?;
    for (key, want) in vector.document.members(Document::ROOT) {
        if matches!(key.as_str(), "blobs" | "defectsMay") {
            continue;
        }
        let value = got.get(ok, key).ok_or_else(|| format!("{key}: missing"))?;
        if key == "defects" {
            check_defects(vector, *want, &got, value, &data)?;
        } else {
            same(&vector.document, *want, &got, value, key)?;
        }
    }
    Ok(())
}

fn same(want: &Document, a: Node, got: &Document, b: Node, at: &str) -> Result<(), String> {
    let none = std::collections::HashSet::new();
    first_difference((want, a), (got, b), at, Texts::Lines(&none)).map_or(Ok(()), Err)
}

fn quoted(path: &Path) -> String {
    quote(&path.to_string_lossy())
}

fn copy_files(from: &Path, to: &Path) -> Result<(), String> {
    // A vector without the folder has no blobs: git keeps no empty folders.
    let Ok(listing) = fs::read_dir(from) else { return Ok(()) };
    for item in listing {
        let item = item.map_err(shown)?;
        fs::copy(item.path(), to.join(item.file_name())).map_err(shown)?;
    }
    Ok(())
}

/// Every file below a folder with its content.
fn snapshot(folder: &Path) -> Result<BTreeMap<std::path::PathBuf, Option<Vec<u8>>>, String> {
    let mut files = BTreeMap::new();
    let mut rest = vec![folder.to_owned()];
    while let Some(folder) = rest.pop() {
        for item in fs::read_dir(folder).map_err(shown)? {
            let path = item.map_err(shown)?.path();
            if path.is_dir() {
                files.insert(path.clone(), None);
                rest.push(path);
            } else {
                let content = fs::read(&path).map_err(shown)?;
                files.insert(path, Some(content));
            }
        }
    }
    Ok(files)
}

/// Whether the expected ids read `id1`, `id2`…: they stand for the ids in the order in which they came.
fn stands_for_ids_in_order(vector: &Vector) -> bool {
    let ids = vector.items("ids");
    let is_number =
        |id: &str| id.strip_prefix("id").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    !ids.is_empty() && ids.iter().all(|id| vector.document.text(*id).is_some_and(is_number))
}

fn rename_ids(got: &mut Document, ok: Node) {
    let Some(ids) = got.get(ok, "ids") else { return };
    let mut names = HashMap::new();
    for (n, id) in got.items(ids).iter().enumerate() {
        if let Some(id) = got.text(*id) {
            names.insert(id.to_owned(), format!("id{}", n + 1));
        }
    }
    let rename = |text: &mut String| {
        if let Some(name) = names.get(text) {
            text.clone_from(name);
        }
    };
    for value in got.values_mut() {
        match value {
            Value::Text(text) => rename(text),
            Value::Object(members) => members.iter_mut().for_each(|(key, _)| rename(key)),
            _ => {}
        }
    }
}

/// Exactly these lines; an array among them: at least one of it. `defectsMay` lists lines that may be reported besides. Each
/// offset is that of its line.
fn check_defects(vector: &Vector, want: Node, got: &Document, defects: Node, data: &[u8]) -> Result<(), String> {
    let starts = line_starts(data);
    let mut reported = BTreeSet::new();
    for defect in got.items(defects) {
        let field = |key| got.get(*defect, key).and_then(|node| got.integer(node));
        let line = field("line").ok_or_else(|| format!("defects: no line in {}", got.shown(*defect)))?;
        let index = usize::try_from(line).ok().and_then(|line| line.checked_sub(1));
        let start =
            index.and_then(|index| starts.get(index)).ok_or_else(|| format!("defects: there is no line {line}"))?;
        let offset = field("offset").ok_or_else(|| format!("defects: no offset in {}", got.shown(*defect)))?;
        let behind_bom = line == 1 && offset == 3 && data.starts_with(b"\xef\xbb\xbf");
        if offset != *start && !behind_bom {
            return Err(format!("defects: line {line}: want offset {start}, got {offset}"));
        }
        reported.insert(line);
    }
    let vector_lines = |node: Node| match vector.document.at(node) {
        Value::Array(items) => items.iter().filter_map(|item| vector.document.integer(*item)).collect(),
        _ => vector.document.integer(node).into_iter().collect::<BTreeSet<_>>(),
    };
    let mut allowed: BTreeSet<u64> = vector.get("defectsMay").map(vector_lines).unwrap_or_default();
    for line in vector.document.items(want) {
        let group = vector_lines(*line);
        if group.is_disjoint(&reported) {
            return Err(format!("defects: line {group:?} is not reported, but {reported:?}"));
        }
        allowed.extend(group);
    }
    match reported.difference(&allowed).next() {
        Some(line) => Err(format!("defects: line {line} is reported, nothing is wrong there")),
        None => Ok(()),
    }
}

/// The offset of each physical line.
fn line_starts(data: &[u8]) -> Vec<u64> {
    let ends = data.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at as u64 + 1);
    std::iter::once(0).chain(ends).filter(|start| *start < data.len() as u64).collect()
}
