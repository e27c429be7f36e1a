//! The protocols of chat models behind endpoints: what each provider's file states, and the speaker that sends requests
//! and reads answers.

mod openai;
mod speaker;
#[cfg(feature = "providers")]
mod translator;

pub(super) use openai::{Differences, SchemaForm};
pub(super) use speaker::{ChatReply, ChatTarget, Speaker};

use crate::Error;
use openai::OpenAi;
#[cfg(feature = "providers")]
use translator::Translator;

/// The protocol of a provider.
#[derive(Debug, Clone, Copy)]
pub(super) enum Protocol {
    /// OpenAI's protocol, with some differences.
    OpenAi(Differences),
    /// A protocol of its own, through `genai`.
    Translated(Translation),
}

/// A protocol that `genai` knows.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "providers"), expect(dead_code, reason = "whoever reads it is not compiled"))]
pub(crate) struct Translation {
    pub(crate) protocol: GenaiProtocol,
    /// The path of a call below the base URL.
    pub(crate) path: fn(&str) -> String,
    /// The path of a call whose answer is streamed.
    pub(crate) stream_path: fn(&str) -> String,
    /// Whether answers can be held to a schema; otherwise the instructions ask for it.
    pub(crate) takes_schema: bool,
    /// Which settings of `extra` can be sent.
    pub(crate) extra: Extra,
}

/// The protocol of a [`Translation`].
#[derive(Debug, Clone, Copy)]
pub(crate) enum GenaiProtocol {
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

impl Protocol {
    /// # Errors
    /// If this program was built without the protocol.
    pub(super) fn check_compiled(self, model: &str) -> Result<(), Error> {
        match self {
            Self::Translated(_) if cfg!(not(feature = "providers")) => Err(not_compiled(model)),
            _ => Ok(()),
        }
    }

    /// The speaker of this protocol.
    ///
    /// # Errors
    /// If the settings of the model do not fit the protocol, or this program was built without it.
    pub(super) fn speaker(self, model: &ChatTarget<'_>) -> Result<Box<dyn Speaker>, Error> {
        match self {
            Self::OpenAi(differences) => Ok(Box::new(OpenAi::new(differences, model)?)),
            #[cfg(feature = "providers")]
            Self::Translated(translation) => Ok(Box::new(Translator::new(translation, model)?)),
            #[cfg(not(feature = "providers"))]
            Self::Translated(_) => Err(not_compiled(model.name())),
        }
    }
}

fn not_compiled(model: &str) -> Error {
    Error::bad_settings(
        model,
        "this program was built without Anthropic, Gemini and Bedrock: build it with \
         `cargo build --release --features providers`, or use an OpenAI-compatible address with `chat.openai`",
    )
}
