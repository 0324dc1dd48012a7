//! Runs every file of `tests/data/vectors`: a new vector is a file dropped in. Proves [H1]–[H4] and [H6] by example.

use std::{collections::HashMap, path::Path};

use history::{HistoryStorage, Scope, SearchOptions, rusqlite};
use serde_json::{Value, json};

#[test]
fn every_vector_has_the_right_answers() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/vectors");
    let mut names: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    names.sort();
    assert!(names.len() >= 22, "the vectors are missing");
    let failures: Vec<String> = names.iter().filter_map(|path| run(path).err()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn run(path: &Path) -> Result<(), String> {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let vector: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("history.db");
    if let Some(sql) = vector["setup_sql"].as_str() {
        rusqlite::Connection::open(&db).unwrap().execute_batch(sql).unwrap();
    }
    let mut stores: HashMap<String, HistoryStorage> = HashMap::new();
    let ops = vector["ops"].as_array().unwrap();
    let expect = vector["expect"].as_array().unwrap();
    assert_eq!(ops.len(), expect.len(), "{name}");
    for (number, (op, expect)) in ops.iter().zip(expect).enumerate() {
        let got = step(&db, &mut stores, op).map_err(|error| format!("{name} op {number}: {error}"))?;
        if let Some(rows) = expect.as_array() {
            compare(rows, got.as_array().map_or(&[][..], Vec::as_slice))
                .map_err(|difference| format!("{name} op {number} {op}: {difference}"))?;
        }
    }
    stores.clear();
    for check in vector["after_sql"].as_array().into_iter().flatten() {
        let rows = query(&db, check["sql"].as_str().unwrap());
        if rows != check["rows"] {
            return Err(format!("{name}: {}: want {}, got {rows}", check["sql"], check["rows"]));
        }
    }
    Ok(())
}

fn step(db: &Path, stores: &mut HashMap<String, HistoryStorage>, op: &Value) -> Result<Value, history::Error> {
    let name = op["store"].as_str().unwrap_or("main");
    if op["op"] == "reopen"
        && let Some(store) = stores.remove(name)
    {
        store.close()?;
    }
    if !stores.contains_key(name) {
        stores.insert(name.to_owned(), HistoryStorage::open(db)?);
    }
    let store = &stores[name];
    let cwd = op["cwd"].as_str();
    let scope = cwd.map_or_else(Scope::everywhere, Scope::directory);
    let limit = op["limit"].as_i64().unwrap_or(0);
    let entries = match op["op"].as_str().unwrap() {
        "add" => {
            store.add(op["prompt"].as_str().unwrap(), cwd).wait()?;
            return Ok(Value::Null);
        }
        "reopen" => return Ok(Value::Null),
        "recent" => store.recent(limit, &scope)?,
        "search" => {
            store.search(op["query"].as_str().unwrap(), &SearchOptions::new(limit).scope(scope))?.into_entries()
        }
        other => panic!("unknown op {other}"),
    };
    let rows = entries.iter().map(|entry| {
        json!({"prompt": entry.prompt(), "cwd": entry.cwd(), "created_at": entry.created_at(),
               "session": entry.session(), "use_count": entry.use_count()})
    });
    Ok(rows.collect())
}

fn compare(want: &[Value], got: &[Value]) -> Result<(), String> {
    if want.len() != got.len() {
        return Err(format!("want {} rows, got {}: {got:?}", want.len(), got.len()));
    }
    for (want, got) in want.iter().zip(got) {
        for (key, value) in want.as_object().unwrap() {
            if got[key] != *value {
                return Err(format!("want {want}, got {got}"));
            }
        }
    }
    Ok(())
}

fn query(db: &Path, sql: &str) -> Value {
    use rusqlite::types::Value as Cell;
    let conn = rusqlite::Connection::open(db).unwrap();
    let mut statement = conn.prepare(sql).unwrap();
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| {
        (0..columns)
            .map(|index| {
                Ok(match row.get(index)? {
                    Cell::Null => Value::Null,
                    Cell::Integer(number) => number.into(),
                    Cell::Real(number) => number.into(),
                    Cell::Text(text) => text.into(),
                    Cell::Blob(_) => panic!("a blob"),
                })
            })
            .collect::<rusqlite::Result<Vec<Value>>>()
    });
    let rows: Vec<Vec<Value>> = rows.unwrap().map(Result::unwrap).collect();
    json!(rows)
}
