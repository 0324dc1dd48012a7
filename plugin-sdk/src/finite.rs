//! Finds numbers that JSON can't hold before they are written: `serde_json` turns NaN and infinities into `null` without a word.
//!
//! A serializer that writes nothing and knows where it is. What JSON text shows by itself is `value`'s to check.

use std::fmt::{self, Display};

use serde::ser::{self, Serialize};

use crate::place::Place;

/// Why a value can't be written: what and where.
#[derive(Debug)]
pub(crate) struct NotFinite(String);

impl Display for NotFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotFinite {}

impl ser::Error for NotFinite {
    fn custom<T: Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

/// Checks that every number in `value` is finite.
pub(crate) fn check<T: Serialize + ?Sized>(value: &T) -> Result<(), NotFinite> {
    value.serialize(&mut Checker::default())
}

#[derive(Default)]
struct Checker {
    place: Place,
}

impl Checker {
    fn within<T: Serialize + ?Sized>(&mut self, step: impl Into<String>, value: &T) -> Result<(), NotFinite> {
        self.place.enter(step);
        value.serialize(&mut *self)?;
        self.place.leave();
        Ok(())
    }

    fn number(&self, is_finite: bool, value: impl Display) -> Result<(), NotFinite> {
        if is_finite {
            return Ok(());
        }
        Err(NotFinite(format!("{} is {value}, which JSON can't hold; use an Option or a text for it", self.place)))
    }
}

/// The values inside a sequence, map or struct.
struct Inside<'c> {
    checker: &'c mut Checker,
    index: usize,
    key: String,
}

impl<'c> Inside<'c> {
    fn of(checker: &'c mut Checker) -> Self {
        Self { checker, index: 0, key: String::new() }
    }

    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotFinite> {
        let index = self.index;
        self.index += 1;
        self.checker.within(index.to_string(), value)
    }

    fn field<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) -> Result<(), NotFinite> {
        self.checker.within(key, value)
    }
}

macro_rules! nothing_to_check {
    ($($method:ident: $type:ty),* $(,)?) => {
        $(fn $method(self, _: $type) -> Result<(), NotFinite> {
            Ok(())
        })*
    };
}

impl<'c> ser::Serializer for &'c mut Checker {
    type Ok = ();
    type Error = NotFinite;
    type SerializeSeq = Inside<'c>;
    type SerializeTuple = Inside<'c>;
    type SerializeTupleStruct = Inside<'c>;
    type SerializeTupleVariant = Inside<'c>;
    type SerializeMap = Inside<'c>;
    type SerializeStruct = Inside<'c>;
    type SerializeStructVariant = Inside<'c>;

    nothing_to_check! {
        serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_i128: i128, serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64,
        serialize_u128: u128, serialize_char: char, serialize_str: &str, serialize_bytes: &[u8],
        serialize_unit_struct: &'static str,
    }

    fn serialize_f32(self, value: f32) -> Result<(), NotFinite> {
        self.number(value.is_finite(), value)
    }

    fn serialize_f64(self, value: f64) -> Result<(), NotFinite> {
        self.number(value.is_finite(), value)
    }

    fn serialize_none(self) -> Result<(), NotFinite> {
        Ok(())
    }

    fn serialize_unit(self) -> Result<(), NotFinite> {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), NotFinite> {
        value.serialize(self)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Result<(), NotFinite> {
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), NotFinite> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), NotFinite> {
        self.within(variant, value)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Inside<'c>, NotFinite> {
        Ok(Inside::of(self))
    }

    fn serialize_tuple(self, _: usize) -> Result<Inside<'c>, NotFinite> {
        Ok(Inside::of(self))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Inside<'c>, NotFinite> {
        Ok(Inside::of(self))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Inside<'c>, NotFinite> {
        Ok(Inside::of(self))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Inside<'c>, NotFinite> {
        Ok(Inside::of(self))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Inside<'c>, NotFinite> {
        Ok(Inside::of(self))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Inside<'c>, NotFinite> {
        Ok(Inside::of(self))
    }
}

macro_rules! items {
    ($($interface:ident: $method:ident),* $(,)?) => {
        $(impl ser::$interface for Inside<'_> {
            type Ok = ();
            type Error = NotFinite;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotFinite> {
                self.item(value)
            }

            fn end(self) -> Result<(), NotFinite> {
                Ok(())
            }
        })*
    };
}

items! {
    SerializeSeq: serialize_element,
    SerializeTuple: serialize_element,
    SerializeTupleStruct: serialize_field,
    SerializeTupleVariant: serialize_field,
}

macro_rules! fields {
    ($($interface:ident),* $(,)?) => {
        $(impl ser::$interface for Inside<'_> {
            type Ok = ();
            type Error = NotFinite;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), NotFinite> {
                self.field(key, value)
            }

            fn end(self) -> Result<(), NotFinite> {
                Ok(())
            }
        })*
    };
}

fields! { SerializeStruct, SerializeStructVariant }

impl ser::SerializeMap for Inside<'_> {
    type Ok = ();
    type Error = NotFinite;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), NotFinite> {
        // Only for the path; what can't be a key is refused where the JSON is made.
        self.key = match serde_json::to_value(key) {
            Ok(serde_json::Value::String(text)) => text,
            Ok(other) => other.to_string(),
            Err(_) => "?".to_owned(),
        };
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotFinite> {
        let key = std::mem::take(&mut self.key);
        self.checker.within(key, value)
    }

    fn end(self) -> Result<(), NotFinite> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::check;

    #[derive(serde::Serialize)]
    enum Shape {
        Circle(f64),
        Rect { w: f64, h: f32 },
    }

    #[test]
    fn says_where_the_number_is() {
        let at = |value: &dyn erased::Check| value.check().unwrap_err();
        assert_eq!(at(&f64::NAN), "the value is NaN, which JSON can't hold; use an Option or a text for it");
        assert!(at(&vec![1.0, f64::INFINITY]).starts_with("/1 is inf"));
        assert!(at(&BTreeMap::from([("a/b", vec![Some(f64::NEG_INFINITY)])])).starts_with("/a~1b/0 is -inf"));
        assert!(at(&vec![Shape::Circle(1.0), Shape::Circle(f64::NAN)]).starts_with("/1/Circle is NaN"));
        assert!(at(&Shape::Rect { w: 1.0, h: f32::NAN }).starts_with("/h is NaN"));
        assert!(check(&(1.5, Some(()), 'x', "y", u64::MAX, BTreeMap::from([(1, -0.0)]))).is_ok());
    }

    /// Only so that the test above reads as a table.
    mod erased {
        pub(super) trait Check {
            fn check(&self) -> Result<(), String>;
        }

        impl<T: serde::Serialize> Check for T {
            fn check(&self) -> Result<(), String> {
                super::check(self).map_err(|error| error.to_string())
            }
        }
    }
}
