//! Where in a JSON value something is, as a JSON pointer: what an error about one number of many says.

use std::fmt;

/// The steps from the outermost value to one inside it.
#[derive(Debug, Default)]
pub(crate) struct Place(Vec<String>);

impl Place {
    /// One step further in: a key, or the number of an item.
    pub(crate) fn enter(&mut self, step: impl Into<String>) {
        self.0.push(step.into());
    }

    /// One step back.
    pub(crate) fn leave(&mut self) {
        self.0.pop();
    }

    /// The last step.
    pub(crate) fn last(&self) -> Option<&str> {
        self.0.last().map(String::as_str)
    }

    /// How many steps in.
    pub(crate) fn depth(&self) -> usize {
        self.0.len()
    }
}

/// `/items/3/weight`; `the value` for the outermost.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("the value");
        }
        self.0.iter().try_for_each(|step| write!(f, "/{}", step.replace('~', "~0").replace('/', "~1")))
    }
}
