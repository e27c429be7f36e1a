//! The protocols that `genai` speaks, as the file of each provider states them.

/// A protocol that `genai` knows.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "providers"), expect(dead_code, reason = "whoever reads it is not compiled"))]
pub(crate) struct Translation {
    pub(crate) language: Language,
    /// The path of a call below the base URL.
    pub(crate) path: fn(&str) -> String,
    /// The path of a call whose answer is streamed.
    pub(crate) stream_path: fn(&str) -> String,
    /// Whether answers can be held to a schema; otherwise the instructions ask for it.
    pub(crate) takes_schema: bool,
    /// Which settings of `extra` can be sent.
    pub(crate) extra: Extra,
}

/// The protocol's owner.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Language {
    Anthropic,
    Gemini,
    BedrockConverse,
}

/// Which settings of `extra` can be sent, besides `reasoning_effort`.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "providers"), expect(dead_code, reason = "whoever reads it is not compiled"))]
pub(crate) enum Extra {
    Nothing,
    /// All except these, which a request sets itself.
    AllBut(&'static [&'static str]),
}
