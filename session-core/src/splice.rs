//! Changing a line that we did not make: bytes are replaced, every other byte stays `[F6]`.
//!
//! Works on one JSON object and knows nothing of sessions.

use std::ops::Range;

use crate::json::{Json, Member, quote};

/// Replacements of byte ranges, made in one pass.
#[derive(Clone, Debug, Default)]
pub(crate) struct Edits {
    edits: Vec<(Range<usize>, Vec<u8>)>,
}

impl Edits {
    /// Replaces `range`; an empty range inserts. Ranges must not overlap.
    pub(crate) fn replace(&mut self, range: Range<usize>, with: impl Into<Vec<u8>>) {
        self.edits.push((range, with.into()));
    }

    /// Whether nothing would change.
    pub(crate) fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// The bytes with all replacements made.
    pub(crate) fn apply(mut self, bytes: &[u8]) -> Vec<u8> {
        self.edits.sort_by_key(|(range, _)| (range.start, range.end));
        let mut out = Vec::with_capacity(bytes.len() + self.edits.iter().map(|(_, with)| with.len()).sum::<usize>());
        let mut copied = 0;
        for (range, with) in self.edits {
            debug_assert!(range.start >= copied, "edits overlap");
            out.extend_from_slice(&bytes[copied..range.start]);
            out.extend_from_slice(&with);
            copied = range.end;
        }
        out.extend_from_slice(&bytes[copied..]);
        out
    }
}

/// What to do with one key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change<'a> {
    /// Give it this JSON value.
    Set(&'a [u8]),
    /// Take it out, each time it stands there.
    Remove,
}

/// The object with the named keys changed: of repeated keys the last is replaced; a new key is appended as the last one, in
/// the order of `changes`. `object` is one JSON object, white space around it allowed.
pub(crate) fn change_keys(object: &[u8], changes: &[(&str, Change<'_>)]) -> Vec<u8> {
    let start = object.len() - object.trim_ascii_start().len();
    let members: Vec<Member<'_>> = Json::new(object).members().collect();
    let mut removed = vec![false; members.len()];
    let mut edits = Edits::default();
    let mut appended = Vec::new();
    for (key, change) in changes {
        match change {
            Change::Set(value) => match members.iter().rfind(|member| member.is(key)) {
                Some(member) => edits.replace(shift(member.value_range(), start), *value),
                None => appended.push((*key, *value)),
            },
            Change::Remove => {
                for (gone, member) in removed.iter_mut().zip(&members) {
                    *gone |= member.is(key);
                }
            }
        }
    }
    remove_members(&members, &removed, start, &mut edits);
    let left = removed.iter().filter(|gone| !**gone).count();
    let end = members.last().map_or(1, |member| member.range.end) + start;
    let mut text = Vec::new();
    for (n, (key, value)) in appended.iter().enumerate() {
        if left + n > 0 {
            text.push(b',');
        }
        text.extend_from_slice(quote(key).as_bytes());
        text.push(b':');
        text.extend_from_slice(value);
    }
    if !text.is_empty() {
        edits.replace(end..end, text);
    }
    edits.apply(object)
}

/// Takes members out with the comma that each needs no more: the one before it, or for the first ones the one behind.
fn remove_members(members: &[Member<'_>], removed: &[bool], start: usize, edits: &mut Edits) {
    let first_kept = removed.iter().position(|gone| !gone);
    for (n, member) in members.iter().enumerate().filter(|(n, _)| removed[*n]) {
        let range = match first_kept {
            Some(kept) if n < kept => member.range.start..members[n + 1].range.start,
            _ if n == 0 => member.range.clone(),
            _ => members[n - 1].range.end..member.range.end,
        };
        edits.replace(shift(range, start), Vec::new());
    }
}

fn shift(range: Range<usize>, by: usize) -> Range<usize> {
    range.start + by..range.end + by
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn changed(object: &str, changes: &[(&str, Change<'_>)]) -> String {
        String::from_utf8(change_keys(object.as_bytes(), changes)).unwrap()
    }

    #[test]
    fn every_other_byte_stays() {
        // [F6] replaced (of repeated keys the last), removed, or appended as the last key
        let line = r#" { "a" : 1.0 ,"b":{"a":2}, "a": 1e3 } "#;
        assert_eq!(changed(line, &[("a", Change::Set(b"7"))]), r#" { "a" : 1.0 ,"b":{"a":2}, "a": 7 } "#);
        assert_eq!(changed(line, &[("c", Change::Set(b"7"))]), r#" { "a" : 1.0 ,"b":{"a":2}, "a": 1e3,"c":7 } "#);
        assert_eq!(changed(line, &[("a", Change::Remove)]), r#" { "b":{"a":2} } "#);
        assert_eq!(
            changed(line, &[("b", Change::Remove), ("c", Change::Set(b"[]"))]),
            r#" { "a" : 1.0, "a": 1e3,"c":[] } "#
        );
        assert_eq!(changed("{}", &[("x", Change::Set(b"1")), ("y", Change::Set(b"2"))]), r#"{"x":1,"y":2}"#);
        assert_eq!(changed(r#"{"x":1}"#, &[("x", Change::Remove)]), "{}");
        assert_eq!(changed(r#"{"x":1}"#, &[("x", Change::Remove), ("y", Change::Set(b"2"))]), r#"{"y":2}"#);
    }

    proptest! {
        #[test]
        fn property_changes_mean_what_they_say(
            keys in proptest::collection::vec("[abc]", 0..6),
            changes in proptest::collection::btree_map("[abcd]", any::<Option<u8>>(), 0..4),
        ) {
            let members: Vec<String> = keys.iter().enumerate().map(|(n, k)| format!(r#" "{k}" : {n}"#)).collect();
            let object = format!("{{{}}}", members.join(","));
            let values: Vec<(String, Option<String>)> = changes.iter().map(|(k, v)| (k.clone(), v.map(|v| v.to_string()))).collect();
            let list: Vec<(&str, Change<'_>)> = values
                .iter()
                .map(|(k, v)| (k.as_str(), v.as_ref().map_or(Change::Remove, |v| Change::Set(v.as_bytes()))))
                .collect();
            let after = changed(&object, &list);
            let mut want: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&object).unwrap();
            for (key, value) in &changes {
                match value {
                    Some(value) => { want.insert(key.clone(), (*value).into()); }
                    None => { want.remove(key); }
                }
            }
            let got: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&after).unwrap();
            prop_assert_eq!(got, want, "{} -> {}", object, after);
        }
    }
}
