//! Whether two JSON texts hold the same value, however they are spelled.
//!
//! A program that rewrites state in its own spelling changed nothing: the order of keys, `1.0` for `1`, `1e3` for `1000`,
//! escapes and white space do not count. Integers are compared digit by digit, never as floats: beyond 2^53 two different
//! ones are the same float, and saving one over the other must not be lost. A fraction has more than one shortest spelling
//! (`0.3` and `0.29999999999999999`, or a tie): it is the float that it is read as. Nothing here recurses.

use std::collections::BTreeMap;

use session_core::{Json, JsonKind};

/// Whether `a` and `b` are the same value. Of repeated keys the last counts `[L8]`; lone surrogates read as U+FFFD.
pub(crate) fn same(a: Json<'_>, b: Json<'_>) -> bool {
    let mut pairs = vec![(a, b)];
    while let Some((a, b)) = pairs.pop() {
        if a.raw() == b.raw() {
            continue;
        }
        if a.kind() != b.kind() {
            return false;
        }
        let equal = match a.kind() {
            JsonKind::Text => a.text() == b.text(),
            JsonKind::Number => same_number(a.raw(), b.raw()),
            JsonKind::Array => same_length(a, b, &mut pairs),
            JsonKind::Object => same_keys(a, b, &mut pairs),
            JsonKind::Bool | JsonKind::Null => false,
        };
        if !equal {
            return false;
        }
    }
    true
}

fn same_length<'a>(a: Json<'a>, b: Json<'a>, pairs: &mut Vec<(Json<'a>, Json<'a>)>) -> bool {
    let (mut a, mut b) = (a.items(), b.items());
    loop {
        match (a.next(), b.next()) {
            (Some(a), Some(b)) => pairs.push((a, b)),
            (None, None) => return true,
            _ => return false,
        }
    }
}

fn same_keys<'a>(a: Json<'a>, b: Json<'a>, pairs: &mut Vec<(Json<'a>, Json<'a>)>) -> bool {
    let members = |json: Json<'a>| -> BTreeMap<_, _> { json.members().map(|m| (m.key(), m.value)).collect() };
    let (a, mut b) = (members(a), members(b));
    if a.len() != b.len() {
        return false;
    }
    a.into_iter().all(|(key, value)| match b.remove(&key) {
        Some(other) => {
            pairs.push((value, other));
            true
        }
        None => false,
    })
}

fn same_number(a: &[u8], b: &[u8]) -> bool {
    let (Some(x), Some(y)) = (decimal(a), decimal(b)) else { return false };
    // What is too small for a float reads as zero.
    let float = |raw| std::str::from_utf8(raw).ok()?.parse::<f64>().ok().filter(|float| *float != 0.0);
    x == y || x.is_float() && y.is_float() && float(a).is_some_and(|float_a| Some(float_a) == float(b))
}

/// A decimal number: sign, digits without zeros at either end, and the power of ten of the last digit.
#[derive(Debug, PartialEq, Eq)]
struct Decimal {
    negative: bool,
    digits: Vec<u8>,
    exponent: i64,
}

/// No float needs more digits to be told from all others.
const FLOAT_DIGITS: usize = 17;

impl Decimal {
    /// Whether it is a fraction that somebody may have written for a float.
    fn is_float(&self) -> bool {
        self.exponent < 0 && self.digits.len() <= FLOAT_DIGITS
    }
}

/// The value of a JSON number, exactly; zero has no sign, since JavaScript writes `-0` as `0`. None when the exponent is
/// beyond reason: such numbers are only the same when they are spelled the same.
fn decimal(raw: &[u8]) -> Option<Decimal> {
    let (negative, raw) = match raw.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, raw),
    };
    let (mantissa, exponent) = match raw.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(at) => (&raw[..at], std::str::from_utf8(&raw[at + 1..]).ok()?.parse::<i32>().ok()?),
        None => (raw, 0),
    };
    let mut exponent = i64::from(exponent);
    let mut digits = Vec::with_capacity(mantissa.len());
    let mut fraction = false;
    for &byte in mantissa {
        match byte {
            b'.' => fraction = true,
            digit => {
                exponent -= i64::from(fraction);
                digits.push(digit);
            }
        }
    }
    let last = digits.iter().rposition(|digit| *digit != b'0');
    let Some(last) = last else { return Some(Decimal { negative: false, digits: Vec::new(), exponent: 0 }) };
    exponent += i64::try_from(digits.len() - 1 - last).ok()?;
    digits.truncate(last + 1);
    let first = digits.iter().position(|digit| *digit != b'0').unwrap_or(0);
    digits.drain(..first);
    Some(Decimal { negative, digits, exponent })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use session_core::JsonText;

    fn same(a: &str, b: &str) -> bool {
        super::same(JsonText::parse(a).unwrap().view(), JsonText::parse(b).unwrap().view())
    }

    #[test]
    fn spelling_does_not_count() {
        for (a, b) in [
            ("1", "1.0"),
            ("1e3", "1000"),
            ("1.5e+2", "150"),
            ("-0.0", "0"),
            ("1e22", "10000000000000000000000"),
            ("0.001", "1E-3"),
            ("0.3", "0.29999999999999999"),
            ("1905768861279725.3", "1905768861279725.2"),
            (r#""é/""#, r#""\u00e9\/""#),
            (r#"{"a":1,"b":[true,null]}"#, r#"{ "b" : [ true , null ], "a" : 1.0 }"#),
            (r#"{"a":0,"a":1}"#, r#"{"\u0061":1}"#),
            ("[]", "[ ]"),
        ] {
            assert!(same(a, b) && same(b, a), "{a} {b}");
        }
    }

    #[test]
    fn values_do() {
        for (a, b) in [
            ("9007199254740992", "9007199254740993"),
            ("18446744073709551615", "18446744073709551616.0"),
            ("1", "-1"),
            ("1e400", "1e401"),
            ("0.3", "0.30000000000000004"),
            ("0.3", "0.300000000000000001"),
            ("1e-400", "2e-400"),
            ("9007199254740993.0", "9007199254740992.5"),
            ("1", r#""1""#),
            ("[1]", "[1,1]"),
            ("[1,2]", "[2,1]"),
            (r#"{"a":1}"#, r#"{"a":1,"b":null}"#),
            (r#"{"a":1}"#, r#"{"b":1}"#),
            ("null", "false"),
            ("true", "false"),
        ] {
            assert!(!same(a, b) && !same(b, a), "{a} {b}");
        }
    }

    #[test]
    fn depth_is_only_long() {
        let deep = |end: &str| format!("{}{end}{}", "[".repeat(3_000), "]".repeat(3_000));
        assert!(same(&deep("1"), &deep("1.0")));
        assert!(!same(&deep("1"), &deep("2")));
    }

    proptest! {
        #[test]
        fn property_floats_are_the_same_in_every_spelling(value in any::<f64>().prop_filter("finite", |v| v.is_finite())) {
            let plain = format!("{value}");
            let scientific = format!("{value:e}");
            prop_assert!(same(&plain, &scientific), "{} {}", plain, scientific);
            prop_assert!(same(&plain, &serde_json::to_string(&value).unwrap()));
        }

        #[test]
        fn property_integers_are_the_same_only_when_equal(a in any::<i128>(), near in -1_i128..=1) {
            let b = a.saturating_add(near);
            prop_assert_eq!(same(&a.to_string(), &b.to_string()), a == b);
            prop_assert_eq!(same(&format!("{a}.0"), &b.to_string()), a == b);
        }
    }
}
