//! What a session used: sums over its assistant messages and task results `[T10]`.

use crate::json::{Json, JsonKind};
use crate::message::{Message, Role};

/// Sums of tokens, requests and money.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Tokens sent.
    pub input: f64,
    /// Tokens received.
    pub output: f64,
    /// Tokens read from a cache.
    pub cache_read: f64,
    /// Tokens written to a cache.
    pub cache_write: f64,
    /// Requests that count as premium; may be fractions.
    pub premium_requests: f64,
    /// Money, in the unit that the harness counts in (US dollars).
    pub cost: f64,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input += other.input;
        self.output += other.output;
        self.cache_read += other.cache_read;
        self.cache_write += other.cache_write;
        self.premium_requests += other.premium_requests;
        self.cost += other.cost;
    }
}

/// Whether what should be a number was one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UsageShape {
    Good,
    Malformed,
}

impl Usage {
    /// What one message used; nothing for messages that use nothing.
    pub fn of(message: Message<'_>) -> Self {
        let mut usage = Self::default();
        usage.add_message(message);
        usage
    }

    /// Adds what one message used. A number that is missing counts as 0; one that is no number counts as 0 and makes the
    /// shape malformed `[L8a]`.
    pub(crate) fn add_message(&mut self, message: Message<'_>) -> UsageShape {
        match message.role() {
            Role::Assistant => match message.json().get("usage") {
                Some(usage) => self.add(usage),
                None => UsageShape::Malformed,
            },
            Role::ToolResult if message.tool_name().as_deref() == Some("task") => {
                match message.json().get("details").and_then(|details| details.get("usage")) {
                    Some(usage) => self.add(usage),
                    None => UsageShape::Good,
                }
            }
            _ => UsageShape::Good,
        }
    }

    fn add(&mut self, usage: Json<'_>) -> UsageShape {
        if usage.kind() != JsonKind::Object {
            return UsageShape::Malformed;
        }
        let mut shape = UsageShape::Good;
        let mut add = |sum: &mut f64, value: Option<Json<'_>>| match value.map(Json::number) {
            None => {}
            Some(Some(number)) if number.is_finite() => *sum += number,
            Some(_) => shape = UsageShape::Malformed,
        };
        add(&mut self.input, usage.get("input"));
        add(&mut self.output, usage.get("output"));
        add(&mut self.cache_read, usage.get("cacheRead"));
        add(&mut self.cache_write, usage.get("cacheWrite"));
        add(&mut self.premium_requests, usage.get("premiumRequests"));
        match usage.get("cost") {
            Some(cost) if cost.kind() == JsonKind::Object => add(&mut self.cost, cost.get("total")),
            Some(_) => shape = UsageShape::Malformed,
            None => {}
        }
        shape
    }
}
