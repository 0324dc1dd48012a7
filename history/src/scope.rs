//! Which submissions a question is about `[H2a]`. It only builds conditions; `search` runs them.

use rusqlite::types::Value;

/// Which submissions a question is about: everything unless narrowed, and every narrowing adds to the others.
///
/// ```
/// use history::Scope;
/// let scope = Scope::below("/home/u/project").since(1_700_000_000);
/// # let _ = scope;
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    place: Place,
    session: Option<String>,
    since: Option<i64>,
    until: Option<i64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Anywhere,
    In(String),
    Below(String),
}

impl Scope {
    /// All of the history.
    pub fn everywhere() -> Self {
        Self::default()
    }

    /// What was submitted in this very directory, spelled as it was then: nothing is resolved, a slash at the end counts.
    pub fn directory(cwd: impl Into<String>) -> Self {
        Self { place: Place::In(cwd.into()), ..Self::default() }
    }

    /// What was submitted in this directory or in one below it; here a slash at the end does not count.
    pub fn below(cwd: impl Into<String>) -> Self {
        Self { place: Place::Below(cwd.into()), ..Self::default() }
    }

    /// What was submitted to this session.
    #[must_use]
    pub fn session(mut self, session: impl Into<String>) -> Self {
        self.session = Some(session.into());
        self
    }

    /// Not before this time (seconds since 1970).
    #[must_use]
    pub fn since(mut self, seconds: i64) -> Self {
        self.since = Some(seconds);
        self
    }

    /// Not after this time (seconds since 1970).
    #[must_use]
    pub fn until(mut self, seconds: i64) -> Self {
        self.until = Some(seconds);
        self
    }

    /// Whether nothing is narrowed.
    pub fn is_everywhere(&self) -> bool {
        *self == Self::default()
    }

    /// The condition on a record with these columns, its values added to `values`; false where a column is missing
    /// that the scope asks about.
    pub(crate) fn condition(&self, columns: &Columns, values: &mut Vec<Value>) -> String {
        let mut parts = vec!["1".to_owned()];
        match &self.place {
            Place::Anywhere => {}
            Place::In(cwd) => {
                parts.push(format!("{} = ?", columns.cwd));
                values.push(cwd.clone().into());
            }
            Place::Below(cwd) => {
                // '0' follows '/', so the half-open range holds exactly the paths that begin with `cwd/`.
                let stem = cwd.trim_end_matches('/');
                parts.push(format!("({0} = ? OR {0} = ? OR ({0} >= ? AND {0} < ?))", columns.cwd));
                values.push(cwd.clone().into());
                values.push(stem.to_owned().into());
                values.push(format!("{stem}/").into());
                values.push(format!("{stem}0").into());
            }
        }
        if let Some(session) = &self.session {
            match columns.session {
                Some(column) => {
                    parts.push(format!("{column} = ?"));
                    values.push(session.clone().into());
                }
                None => parts.push("0".to_owned()),
            }
        }
        for (bound, operator) in [(self.since, ">="), (self.until, "<=")] {
            if let Some(seconds) = bound {
                parts.push(format!("{} {operator} ?", columns.at));
                values.push(seconds.into());
            }
        }
        parts.join(" AND ")
    }
}

/// The names of the columns that a scope looks at.
pub(crate) struct Columns {
    pub(crate) cwd: &'static str,
    pub(crate) session: Option<&'static str>,
    pub(crate) at: &'static str,
}
