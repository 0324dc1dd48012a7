//! Values of rows that others wrote: SQLite lets anything stand in any column, and none of it keeps a prompt from being
//! recorded or found.

use rusqlite::{Row, types::ValueRef};

/// Text as it is, numbers in digits, bytes that are not UTF-8 as U+FFFD; nothing as empty.
pub(crate) fn text(row: &Row<'_>, index: usize) -> rusqlite::Result<String> {
    optional_text(row, index).map(Option::unwrap_or_default)
}

/// The same, and none for nothing.
pub(crate) fn optional_text(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<String>> {
    Ok(match row.get_ref(index)? {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
    })
}

/// A number without its fraction; 0 for what is none.
pub(crate) fn number(row: &Row<'_>, index: usize) -> rusqlite::Result<i64> {
    Ok(match row.get_ref(index)? {
        ValueRef::Integer(number) => number,
        #[allow(clippy::cast_possible_truncation, reason = "it saturates, and fractions of seconds are not wanted")]
        ValueRef::Real(number) => number.floor() as i64,
        _ => 0,
    })
}
