//! The arguments of a script's operation: written out, then read by position.

use std::collections::HashMap;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use session_core::{Items, Json, JsonText, Members, quote};

use super::Failure;

/// What stands for something else in a script's values.
#[derive(Debug)]
pub(super) struct Names {
    /// What `$ROOT` stands for.
    pub(super) root: String,
    /// What was saved by `as`: JSON.
    pub(super) saved: HashMap<String, String>,
}

/// Texts may be joined from texts that are; each level takes a stack frame, so there is an end to it.
const MOST_JOINS: u8 = 32;

/// The arguments of one operation.
#[derive(Debug)]
pub(super) struct Arguments(Vec<Option<JsonText>>);

impl Arguments {
    pub(super) fn read(args: Option<Json<'_>>, names: &Names) -> Result<Self, Failure> {
        let args = args.into_iter().flat_map(Json::items);
        let read = args.map(|arg| match arg.text() {
            Some(text) if text == "$undefined" => Ok(None),
            _ => Ok(Some(JsonText::parse(&names.expand(arg)?)?)),
        });
        Ok(Self(read.collect::<Result<_, Failure>>()?))
    }

    /// The argument at a position; none when it is absent, undefined or null.
    pub(super) fn maybe(&self, n: usize) -> Option<&JsonText> {
        self.0.get(n)?.as_ref().filter(|arg| !arg.view().is_null())
    }

    pub(super) fn json(&self, n: usize) -> Result<&JsonText, Failure> {
        self.maybe(n).ok_or_else(|| Failure::input(format!("argument {n} is missing")))
    }

    pub(super) fn maybe_text(&self, n: usize) -> Result<Option<String>, Failure> {
        let Some(arg) = self.maybe(n) else { return Ok(None) };
        let text = arg.view().text().ok_or_else(|| Failure::input(format!("argument {n} is no text")))?;
        Ok(Some(text.into_owned()))
    }

    pub(super) fn text(&self, n: usize) -> Result<String, Failure> {
        self.maybe_text(n)?.ok_or_else(|| Failure::input(format!("argument {n} is missing")))
    }

    pub(super) fn path(&self, n: usize) -> Result<PathBuf, Failure> {
        Ok(PathBuf::from(self.text(n)?))
    }

    pub(super) fn maybe_bool(&self, n: usize) -> Result<Option<bool>, Failure> {
        let Some(arg) = self.maybe(n) else { return Ok(None) };
        arg.view().bool().map(Some).ok_or_else(|| Failure::input(format!("argument {n} is neither true nor false")))
    }

    pub(super) fn integer(&self, n: usize) -> Result<i64, Failure> {
        let number = self.json(n)?.view().integer();
        number.ok_or_else(|| Failure::input(format!("argument {n} is no whole number")))
    }
}

/// An object or array that is being written out, and whether something of it was.
enum Open<'j> {
    Object(Members<'j>),
    Array(Items<'j>),
}

impl Names {
    /// `value` with everything written out that stands for something else. What does not keeps its spelling.
    pub(super) fn expand(&self, value: Json<'_>) -> Result<String, Failure> {
        self.expand_within(value, 0)
    }

    /// The same, inside so many texts that are joined.
    fn expand_within(&self, value: Json<'_>, joins: u8) -> Result<String, Failure> {
        let mut out = String::new();
        let mut open: Vec<Open<'_>> = Vec::new();
        let mut next = Some(value);
        loop {
            if let Some(value) = next.take() {
                open.extend(self.write(value, joins, &mut out)?);
            }
            let Some(innermost) = open.last_mut() else { return Ok(out) };
            let comma = if out.ends_with(['{', '[']) { "" } else { "," };
            match innermost {
                Open::Object(members) => {
                    if let Some(member) = members.next() {
                        out.push_str(comma);
                        out.push_str(&quote(&member.key().replace("$ROOT", &self.root)));
                        out.push(':');
                        next = Some(member.value);
                    } else {
                        out.push('}');
                        open.pop();
                    }
                }
                Open::Array(items) => {
                    next = items.next();
                    if next.is_some() {
                        out.push_str(comma);
                    } else {
                        out.push(']');
                        open.pop();
                    }
                }
            }
        }
    }

    /// Writes a value; of an object or array that stands for itself only its opening bracket.
    fn write<'j>(&self, value: Json<'j>, joins: u8, out: &mut String) -> Result<Option<Open<'j>>, Failure> {
        use session_core::JsonKind::{Array, Object, Text};
        let spelled = || String::from_utf8_lossy(value.raw());
        match value.kind() {
            Text => out.push_str(&self.named(&spelled())?),
            Array => {
                out.push('[');
                return Ok(Some(Open::Array(value.items())));
            }
            Object => {
                let Some(text) = self.special(value, joins)? else {
                    out.push('{');
                    return Ok(Some(Open::Object(value.members())));
                };
                out.push_str(&text);
            }
            _ => out.push_str(&spelled()),
        }
        Ok(None)
    }

    /// A text: a name that was saved, or one that may hold the root.
    fn named(&self, spelled: &str) -> Result<String, Failure> {
        if let Some(name) = spelled.strip_prefix("\"$").and_then(|name| name.strip_suffix('"'))
            && !name.starts_with("ROOT")
        {
            let saved = self.saved.get(name);
            return saved.cloned().ok_or_else(|| Failure::input(format!("nothing was saved as {name}")));
        }
        let root = quote(&self.root);
        Ok(spelled.replace("$ROOT", &root[1..root.len() - 1]))
    }

    /// `{"$b64": n}`, `{"$repeat": [text, n]}` and `{"$join": [value, …]}` as texts.
    fn special(&self, value: Json<'_>, joins: u8) -> Result<Option<String>, Failure> {
        let Some(first) = value.members().next() else { return Ok(None) };
        let count = |number: Option<Json<'_>>| {
            let count = number.and_then(Json::integer).and_then(|count| usize::try_from(count).ok());
            count.ok_or_else(|| Failure::input(format!("{value:?} has no count")))
        };
        let inside = |part: Json<'_>| {
            let text = self.expand_within(part, joins + 1)?;
            let inside = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).map(str::to_owned);
            inside.ok_or_else(|| Failure::input(format!("{part:?} is no text")))
        };
        if joins > MOST_JOINS {
            return Err(Failure::input("too many joins inside each other"));
        }
        let text = match &*first.key() {
            "$b64" => base64_text(count(Some(first.value))?),
            "$repeat" => {
                let mut parts = first.value.items();
                let text = parts.next().ok_or_else(|| Failure::input("nothing to repeat"))?;
                inside(text)?.repeat(count(parts.next())?)
            }
            "$join" => first.value.items().map(inside).collect::<Result<String, Failure>>()?,
            _ => return Ok(None),
        };
        Ok(Some(format!("\"{text}\"")))
    }
}

/// So many characters of base64.
fn base64_text(len: usize) -> String {
    let bytes = std::iter::successors(Some(0_u8), |byte| Some(byte.wrapping_add(7)));
    let bytes: Vec<u8> = bytes.take(len.div_ceil(4) * 3).collect();
    let mut text = STANDARD.encode(bytes);
    text.truncate(len);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_out() {
        let saved = HashMap::from([("a".to_owned(), "\"A\"".to_owned())]);
        let names = Names { root: "/r".to_owned(), saved };
        for (value, want) in [
            (
                r#"[1.0,"$a","$ROOT/x",{"k$ROOT":[{}],"\u0061":"\ud83d"}]"#,
                r#"[1.0,"A","/r/x",{"k/r":[{}],"a":"\ud83d"}]"#,
            ),
            (r#"{"$b64":8}"#, r#""AAcOFRwj""#),
            (r#"[{"$repeat":["ab",2]},[]]"#, r#"["abab",[]]"#),
            (r#"{"$join":["\ud83d",{"$repeat":["$ROOT",1]},"$a"]}"#, r#""\ud83d/rA""#),
        ] {
            let value = JsonText::parse(value).unwrap();
            assert_eq!(names.expand(value.view()).unwrap(), want);
        }
        let deep = format!("{}1{}", r#"{"$join":["#.repeat(10_000), "]}".repeat(10_000));
        for wrong in [&*deep, r#""$b""#, r#"{"$join":[1]}"#, r#"{"$repeat":["a",-1]}"#] {
            assert!(names.expand(JsonText::parse(wrong).unwrap().view()).is_err());
        }
    }

    #[test]
    fn depth_is_only_length() {
        let names = Names { root: String::new(), saved: HashMap::new() };
        let deep = format!("{}{}", "[".repeat(2_000), "]".repeat(2_000));
        assert_eq!(names.expand(JsonText::parse(&deep).unwrap().view()).unwrap(), deep);
    }

    #[test]
    fn absent_arguments() {
        let names = Names { root: String::new(), saved: HashMap::new() };
        let args = JsonText::parse(r#"["$undefined",null,"x",7]"#).unwrap();
        let args = Arguments::read(Some(args.view()), &names).unwrap();
        assert!(args.maybe(0).is_none() && args.maybe(1).is_none() && args.maybe(4).is_none());
        assert_eq!((args.text(2).unwrap(), args.integer(3).unwrap()), ("x".to_owned(), 7));
        assert!(args.text(0).is_err() && args.text(3).is_err() && args.integer(2).is_err());
    }
}
