//! The types of entries `[F4, F5]`.

/// The type of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EntryKind {
    /// An agent message, stored as it is.
    Message,
    /// Another thinking level.
    ThinkingLevelChange,
    /// Another model for a role.
    ModelChange,
    /// What came before is summed up.
    Compaction,
    /// What an abandoned branch came to.
    BranchSummary,
    /// State of an extension, never sent to the model.
    Custom,
    /// A message of an extension, sent to the model.
    CustomMessage,
    /// A label on an entry.
    Label,
    /// Rules that were injected.
    TtsrInjection,
    /// What a sub-agent was started with.
    SessionInit,
    /// Another mode.
    ModeChange,
    /// Another service tier (interop).
    ServiceTierChange,
    /// Which MCP tools are selected (interop).
    McpToolSelection,
    /// A display name (pi).
    SessionInfo,
    /// The context starts anew here (interop).
    ResetBoundary,
    /// Any other type: kept, on the path, no effect `[F5]`.
    Other,
}

impl EntryKind {
    /// All types that mean something, in a fixed order.
    pub(crate) const KNOWN: [(Self, &'static str); 15] = [
        (Self::Message, "message"),
        (Self::ThinkingLevelChange, "thinking_level_change"),
        (Self::ModelChange, "model_change"),
        (Self::Compaction, "compaction"),
        (Self::BranchSummary, "branch_summary"),
        (Self::Custom, "custom"),
        (Self::CustomMessage, "custom_message"),
        (Self::Label, "label"),
        (Self::TtsrInjection, "ttsr_injection"),
        (Self::SessionInit, "session_init"),
        (Self::ModeChange, "mode_change"),
        (Self::ServiceTierChange, "service_tier_change"),
        (Self::McpToolSelection, "mcp_tool_selection"),
        (Self::SessionInfo, "session_info"),
        (Self::ResetBoundary, "reset_boundary"),
    ];

    /// The type that a file names so.
    pub fn of(name: &str) -> Self {
        Self::KNOWN.iter().find(|(_, known)| *known == name).map_or(Self::Other, |(kind, _)| *kind)
    }
}
