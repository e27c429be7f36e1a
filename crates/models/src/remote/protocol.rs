//! The protocols of chat models behind endpoints: the statements of each provider's file, and the speaker that sends
//! requests and reads answers.

mod openai;
mod speaker;
mod translation;
#[cfg(feature = "providers")]
mod translator;

pub(super) use openai::{Differences, SchemaForm};
pub(super) use speaker::{ChatReply, ChatTarget, Speaker};
pub(super) use translation::{Extra, Language, Translation};

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
    Error::Config(format!(
        "{model}: this program was built without Anthropic, Gemini and Bedrock: build it with \
         `cargo build --release --features providers`, or use an OpenAI-compatible address with `chat.openai`"
    ))
}
