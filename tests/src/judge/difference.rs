//! Comparing what is wanted with what came: the first difference, with the place where it is.
//!
//! Objects must have the same keys in any order; numbers compare by value; a text of JSON lines compares line by line: a line
//! that a script supplied must be the same bytes, one that was made compares as JSON.

use std::collections::HashSet;

use super::value::{Document, Node, Value};

/// How texts compare.
#[derive(Clone, Copy, Debug)]
pub(super) enum Texts<'a> {
    /// The same bytes.
    Exact,
    /// Lines of JSON by their meaning, but these as they are.
    Lines(&'a HashSet<String>),
}

/// The first difference between two nodes, or none.
pub(super) fn first_difference(
    want: (&Document, Node),
    got: (&Document, Node),
    at: &str,
    texts: Texts<'_>,
) -> Option<String> {
    let ((want, want_root), (got, got_root)) = (want, got);
    let mut trail = Trail { steps: Vec::new(), start: at };
    let mut rest = vec![(want_root, got_root, None)];
    while let Some((a, b, place)) = rest.pop() {
        let differ = || Some(format!("{}: want {}, got {}", trail.name(place), want.shown(a), got.shown(b)));
        match (want.at(a), got.at(b)) {
            (Value::Object(wanted), Value::Object(present)) => {
                if let Some((key, value)) = wanted.iter().find(|(key, _)| got.get(b, key).is_none()) {
                    return Some(format!("{}.{key}: missing, want {}", trail.name(place), want.shown(*value)));
                }
                if let Some((key, value)) = present.iter().find(|(key, _)| want.get(a, key).is_none()) {
                    return Some(format!("{}.{key}: not wanted, got {}", trail.name(place), got.shown(*value)));
                }
                for (key, value) in wanted.iter().rev() {
                    if let Some(other) = got.get(b, key) {
                        rest.push((*value, other, Some(trail.step(place, format!(".{key}")))));
                    }
                }
            }
            (Value::Array(wanted), Value::Array(present)) => {
                if wanted.len() != present.len() {
                    let (wanted, present) = (wanted.len(), present.len());
                    return Some(format!(
                        "{}: want {wanted} items, got {present}: want {}, got {}",
                        trail.name(place),
                        want.shown(a),
                        got.shown(b)
                    ));
                }
                for (n, (value, other)) in wanted.iter().zip(present).enumerate().rev() {
                    rest.push((*value, *other, Some(trail.step(place, format!("[{n}]")))));
                }
            }
            (Value::Number(a), Value::Number(b)) if is_same_number(a, b) => {}
            (Value::Text(a), Value::Text(b)) => match texts {
                _ if a == b => {}
                Texts::Lines(kept) if holds_lines(a) => {
                    if let Some(difference) = difference_of_lines(a, b, &trail.name(place), kept) {
                        return Some(difference);
                    }
                }
                _ => return differ(),
            },
            (a, b) if a == b => {}
            _ => return differ(),
        }
    }
    None
}

/// Where a comparison is, as steps that know the one before: naming a place costs nothing until there is a difference.
struct Trail<'a> {
    steps: Vec<(Option<usize>, String)>,
    start: &'a str,
}

impl Trail<'_> {
    fn step(&mut self, from: Option<usize>, name: String) -> usize {
        self.steps.push((from, name));
        self.steps.len() - 1
    }

    fn name(&self, mut place: Option<usize>) -> String {
        let mut names = Vec::new();
        while let Some(step) = place {
            names.push(self.steps[step].1.as_str());
            place = self.steps[step].0;
        }
        names.push(self.start);
        names.reverse();
        names.concat()
    }
}

/// Numbers are the same when their values are, as near as sums of floating point numbers come.
fn is_same_number(a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    let (Ok(x), Ok(y)) = (a.parse::<f64>(), b.parse::<f64>()) else { return false };
    // Large integers differ although their nearest floating point numbers do not.
    if let (Ok(a), Ok(b)) = (a.parse::<i128>(), b.parse::<i128>())
        && a.abs().max(b.abs()) > 1 << 53
    {
        return a == b;
    }
    (x - y).abs() <= 1e-9 * x.abs().max(y.abs()).max(1.0)
}

fn holds_lines(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').starts_with('{') && text.contains('\n')
}

fn difference_of_lines(want: &str, got: &str, at: &str, kept: &HashSet<String>) -> Option<String> {
    let (wanted, present): (Vec<_>, Vec<_>) = (want.split('\n').collect(), got.split('\n').collect());
    for (n, (want, got)) in wanted.iter().zip(&present).enumerate() {
        if want == got {
            continue;
        }
        let at = format!("{at}: line {}", n + 1);
        let meanings = (!kept.contains(*want)).then(|| Some((meaning(want)?, meaning(got)?))).flatten();
        let difference = match &meanings {
            Some((a, b)) => {
                let none = HashSet::new();
                first_difference((a, Document::ROOT), (b, Document::ROOT), &at, Texts::Lines(&none))
            }
            None => Some(format!("{at}: want {}, got {}", short(want), short(got))),
        };
        if difference.is_some() {
            return difference;
        }
    }
    let (wanted, present) = (wanted.len() - 1, present.len() - 1);
    (wanted != present).then(|| format!("{at}: want {wanted} lines, got {present}"))
}

/// A line as JSON. A label entry that removes a label may lack `label`, or hold null or the empty text.
fn meaning(line: &str) -> Option<Document> {
    let mut document = Document::parse(line).ok()?;
    let is_label = document.get(Document::ROOT, "type").and_then(|kind| document.text(kind)) == Some("label");
    let label = document.get(Document::ROOT, "label").map(|label| document.at(label).clone());
    let removes = label.is_some_and(|label| label == Value::Null || label == Value::Text(String::new()));
    if is_label
        && removes
        && let Value::Object(members) = &mut document.values_mut()[Document::ROOT]
    {
        members.retain(|(key, _)| key != "label");
    }
    Some(document)
}

/// A text as JSON, cut around its middle when it is long.
pub(super) fn short(text: &str) -> String {
    let chars: Vec<char> = session_core::quote(text).chars().collect();
    if chars.len() <= 160 {
        return chars.into_iter().collect();
    }
    let (head, tail) = (chars[..110].iter().collect::<String>(), chars[chars.len() - 45..].iter().collect::<String>());
    format!("{head}…{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(want: &str, got: &str) -> Option<String> {
        let kept = HashSet::from(["{\"kept\":1}".to_owned()]);
        let (want, got) = (Document::parse(want).unwrap(), Document::parse(got).unwrap());
        first_difference((&want, Document::ROOT), (&got, Document::ROOT), "at", Texts::Lines(&kept))
    }

    #[test]
    fn the_same() {
        assert_eq!(difference(r#"{"a":[1,2.0],"b":null}"#, r#"{"b":null,"a":[1.0,2]}"#), None);
        assert_eq!(difference("30.3301977", "30.330197700000004"), None);
        assert_eq!(difference(r#""{\"a\":1}\n""#, r#""{ \"a\" : 1.0 }\n""#), None);
        let label = |rest: &str| session_core::quote(&format!("{{\"type\":\"label\"{rest}}}\n"));
        assert_eq!(difference(&label(""), &label(r#","label":null"#)), None);
        assert_eq!(difference(&label(r#","label":"""#), &label("")), None);
    }

    #[test]
    fn differences_name_their_place() {
        for (want, got, place) in [
            ("1", "2", "at"),
            ("1", "true", "at"),
            ("9007199254740993", "9007199254740992", "at"),
            (r#"{"a":{"b":[1,2]}}"#, r#"{"a":{"b":[1,3]}}"#, "at.a.b[1]"),
            (r#"{"a":1}"#, "{}", "at.a: missing"),
            ("{}", r#"{"a":1}"#, "at.a: not wanted"),
            ("[1]", "[]", "at: want 1 items, got 0"),
            (r#""{\"a\":1}\n""#, r#""{\"a\":2}\n""#, "at: line 1.a"),
            (r#""{\"kept\":1}\n""#, r#""{\"kept\": 1}\n""#, "at: line 1"),
            (r#""{\"a\":1}\n""#, r#""{\"a\":1}""#, "at: want 1 lines, got 0"),
            (r#""a""#, r#""b""#, "at"),
        ] {
            let difference = difference(want, got).unwrap();
            assert!(difference.starts_with(place), "{difference}");
        }
    }
}
