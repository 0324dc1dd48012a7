//! What differs from run to run gets a name that does not: ids and times that were made, and the directory they were made in.
//!
//! What the script itself holds is known and stays; every other id and time was made during the run.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use regex::{Captures, Regex};
use session_core::Timestamp;

use crate::conformance::script::{ROOT_PREFIX, temporary_root};

use super::value::{Document, Node, Value};

/// What is still to be numbered: a value, or one key of an object.
enum Part {
    Value(Node),
    Key(Node, usize),
}

/// Names for what was made during the run of one script.
#[derive(Debug)]
pub(super) struct Normaliser {
    ids: HashSet<String>,
    times: HashSet<String>,
    file_times: HashSet<String>,
    millis: HashSet<i64>,
}

static TIME: LazyLock<Regex> = LazyLock::new(|| pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"));
static FILE_TIME: LazyLock<Regex> = LazyLock::new(|| pattern(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z"));
/// Runs of letters and digits: an id is a whole one, or a whole run of digits is a time.
static WORD: LazyLock<Regex> = LazyLock::new(|| pattern("[0-9A-Za-z]+"));
static ID: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(?:[0-9a-f]{16}|[0-9a-f]{8}|id\d+)$"));
static SET_ASIDE: LazyLock<Regex> = LazyLock::new(|| pattern(r#"(\.invalid-)[^/"\s]+"#));

/// The directory that a script runs in: one with [`ROOT_PREFIX`] among the temporary files.
static ROOT: LazyLock<Regex> = LazyLock::new(|| {
    let parent = temporary_root();
    pattern(&format!("{}/{ROOT_PREFIX}[0-9A-Za-z]+", regex::escape(&parent.to_string_lossy())))
});
/// The same directory in the name of a directory for sessions.
static ENCODED_ROOT: LazyLock<Regex> = LazyLock::new(|| {
    let encoded = temporary_root().to_string_lossy().trim_start_matches('/').replace(['/', '\\', ':'], "-");
    pattern(&format!("{}-{ROOT_PREFIX}[0-9A-Za-z]+", regex::escape(&encoded)))
});

#[expect(clippy::expect_used, reason = "the patterns are constants")]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a valid pattern")
}

impl Normaliser {
    /// Knows what a script holds.
    pub(super) fn new(script: &Document) -> Self {
        let mut known =
            Self { ids: HashSet::new(), times: HashSet::new(), file_times: HashSet::new(), millis: HashSet::new() };
        let mut script = script.clone();
        for value in script.values_mut() {
            match value {
                Value::Text(text) => known.learn(text),
                Value::Number(number) => known.learn(number),
                Value::Object(members) => members.iter().for_each(|(key, _)| known.learn(key)),
                _ => {}
            }
        }
        known
    }

    fn learn(&mut self, text: &str) {
        for word in WORD.find_iter(text).map(|word| word.as_str()) {
            if ID.is_match(word) {
                self.ids.insert(word.to_owned());
            }
            if word.len() == 13
                && let Ok(millis) = word.parse()
            {
                self.millis.insert(millis);
            }
        }
        for time in TIME.find_iter(text).map(|time| time.as_str()) {
            self.times.insert(time.to_owned());
            self.file_times.insert(time.replace([':', '.'], "-"));
            self.millis.extend(Timestamp::parse(time).map(Timestamp::millis));
        }
        self.file_times.extend(FILE_TIME.find_iter(text).map(|time| time.as_str().to_owned()));
    }

    /// Names the root and the times in every text and number of `document`.
    pub(super) fn name_places_and_times(&self, document: &mut Document) {
        for value in document.values_mut() {
            match value {
                Value::Text(text) => *text = self.text(text),
                Value::Object(members) => members.iter_mut().for_each(|(key, _)| *key = self.text(key)),
                Value::Number(number) if self.is_made_millis(number) => *value = Value::Text("Tms".to_owned()),
                _ => {}
            }
        }
    }

    fn is_made_millis(&self, number: &str) -> bool {
        let now_and_then = 1_400_000_000_000..2_000_000_000_000;
        let value = number.parse::<f64>().ok().filter(|value| value.fract() == 0.0 && value.abs() < 1e15);
        #[expect(clippy::cast_possible_truncation, reason = "a whole number below 1e15")]
        value
            .map(|value| value as i64)
            .is_some_and(|value| now_and_then.contains(&value) && !self.millis.contains(&value))
    }

    fn text(&self, text: &str) -> String {
        let text = ROOT.replace_all(text, "<ROOT>");
        let text = ENCODED_ROOT.replace_all(&text, "<EROOT>");
        let text = SET_ASIDE.replace_all(&text, "${1}FT");
        let unless = |known: &HashSet<String>, name: &str, found: &str| {
            if known.contains(found) { found.to_owned() } else { name.to_owned() }
        };
        let text = FILE_TIME.replace_all(&text, |found: &Captures<'_>| unless(&self.file_times, "FT", &found[0]));
        TIME.replace_all(&text, |found: &Captures<'_>| unless(&self.times, "T", &found[0])).into_owned()
    }

    /// Names ids that were made `id1`, `id2`… by first appearance in `nodes`, the members of objects in the order of their
    /// keys.
    pub(super) fn number_ids(&self, document: &mut Document, nodes: &[Node]) {
        let mut seen = HashMap::new();
        let mut rest: Vec<Part> = nodes.iter().rev().map(|node| Part::Value(*node)).collect();
        while let Some(part) = rest.pop() {
            let values = document.values_mut();
            match part {
                Part::Key(node, n) => {
                    if let Value::Object(members) = &mut values[node] {
                        members[n].0 = self.ids_named(&members[n].0, &mut seen);
                    }
                }
                Part::Value(node) => match &mut values[node] {
                    Value::Text(text) => *text = self.ids_named(text, &mut seen),
                    Value::Array(items) => rest.extend(items.iter().rev().map(|item| Part::Value(*item))),
                    Value::Object(members) => {
                        members.sort();
                        for (n, (_, value)) in members.iter().enumerate().rev() {
                            rest.extend([Part::Value(*value), Part::Key(node, n)]);
                        }
                    }
                    _ => {}
                },
            }
        }
    }

    fn ids_named(&self, text: &str, seen: &mut HashMap<String, String>) -> String {
        let name = |found: &Captures<'_>| {
            let word = &found[0];
            if self.ids.contains(word) || !ID.is_match(word) {
                return word.to_owned();
            }
            let next = format!("id{}", seen.len() + 1);
            seen.entry(word.to_owned()).or_insert(next).clone()
        };
        WORD.replace_all(text, name).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_script_holds_stays() {
        let script =
            Document::parse(r#"{"ops":["0f0f0f0f at 2026-01-01T00:00:09.000Z",{"t":1767225600000}]}"#).unwrap();
        let normaliser = Normaliser::new(&script);
        let root = temporary_root().join(format!("{ROOT_PREFIX}7k")).to_string_lossy().into_owned();
        let mut got = Document::parse(
            &r#"[{"b":"aaaaaaaa","a":"bbbbbbbb 0f0f0f0f"},
                "ROOT/s/2026-03-01T00-00-00-000Z_aaaaaaaa.jsonl","--ENCODED-new--",
                "2026-01-01T00:00:09.000Z 2026-03-01T00:00:09.000Z 2026-01-01T00-00-09-000Z x.invalid-7.y",
                1767225600000,1767225609000,1767225600001,12]"#
                .replace("ENCODED", &root[1..].replace('/', "-"))
                .replace("ROOT", &root),
        )
        .unwrap();
        normaliser.name_places_and_times(&mut got);
        let nodes = got.items(Document::ROOT).to_vec();
        normaliser.number_ids(&mut got, &nodes);
        let shown: Vec<String> = nodes.iter().map(|node| got.shown(*node)).collect();
        assert_eq!(
            shown,
            [
                r#"{"a":"id1 0f0f0f0f","b":"id2"}"#,
                r#""<ROOT>/s/FT_id2.jsonl""#,
                r#""--<EROOT>-new--""#,
                r#""2026-01-01T00:00:09.000Z T 2026-01-01T00-00-09-000Z x.invalid-FT""#,
                "1767225600000",
                "1767225609000",
                r#""Tms""#,
                "12",
            ]
        );
    }
}
