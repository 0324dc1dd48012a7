//! Nesting of any depth in a bit a level.

/// The open brackets, one bit each: 1 for an object.
#[derive(Debug, Default)]
pub(crate) struct Brackets {
    /// Levels beyond the first 64, filled words.
    below: Vec<u64>,
    top: u64,
    depth: u64,
}

impl Brackets {
    pub(crate) fn clear(&mut self) {
        self.below.clear();
        self.top = 0;
        self.depth = 0;
    }

    pub(crate) fn depth(&self) -> u64 {
        self.depth
    }

    pub(crate) fn push(&mut self, bracket: u8) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.below.push(self.top);
        }
        self.top = self.top << 1 | u64::from(bracket == b'{');
        self.depth += 1;
    }

    pub(crate) fn top_is_object(&self) -> bool {
        self.depth > 0 && self.top & 1 == 1
    }

    /// Takes the last bracket off; false when `close` does not close it.
    pub(crate) fn pop(&mut self, close: u8) -> bool {
        if self.depth == 0 || self.top_is_object() != (close == b'}') {
            return false;
        }
        self.depth -= 1;
        self.top >>= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.top = self.below.pop().unwrap_or_default();
        }
        true
    }
}
