//! Providers: the ways to run a model. Each has a file in `remote` or
//! `local`, and a line in the list here.

use crate::{CpuBudget, Error, Identity, ModelDirectory, ModelPlace, tokens::ModelTokenizer};
use std::{fmt, sync::Arc};

pub use crate::model::{EndpointLimits, Limits};

/// The list of all providers, passed on to another macro: in `registry` to make
/// the registries, in each folder to declare its modules.
macro_rules! every_provider {
    ($callback:ident $($argument:ident)?) => {
        $callback! {
            $($argument)?

            /// Which chat model, and its settings.
            pub enum ChatConfig builds ChatModel {
                /// A GGUF model in this process.
                Local => chat_local in local,
                /// An endpoint that speaks OpenAI's protocol.
                Openai => chat_openai in remote,
                /// Anthropic's Messages API.
                Anthropic => chat_anthropic in remote,
                /// Azure OpenAI.
                Azure => chat_azure in remote,
                /// Amazon Bedrock's Converse API.
                Bedrock => chat_bedrock in remote,
                /// Cohere.
                Cohere => chat_cohere in remote,
                /// Google's Gemini API.
                Gemini => chat_gemini in remote,
                /// Mistral.
                Mistral => chat_mistral in remote,
                /// An Ollama server.
                Ollama => chat_ollama in remote,
            }

            /// Which embedding model, and its settings.
            pub enum EmbeddingConfig builds EmbeddingModel {
                /// An ONNX model in this process.
                Local => embedding_local in local,
                /// Means of token vectors from a table, for tests that need speed.
                Static => embedding_static in local,
                /// An endpoint that speaks OpenAI's protocol.
                Openai => embedding_openai in remote,
            }

            /// Which rerank model, and its settings.
            pub enum RerankConfig builds RerankModel {
                /// An ONNX cross-encoder in this process.
                Local => rerank_local in local,
                /// An endpoint that speaks Jina's, Cohere's or TEI's protocol.
                // OpenAI's own protocol has no reranking. The provider is named like the one for other servers that
                // take a key and a `base_url` in OpenAI's manner.
                Openai => rerank_openai in remote,
            }
        }
    };
}

/// Declares the modules of the providers in one folder:
/// `every_provider!(modules remote)`.
macro_rules! modules {
    (remote: $module:ident in remote) => { pub(crate) mod $module; };
    (local: $module:ident in local) => { pub(crate) mod $module; };
    ($here:ident: $module:ident in $other:ident) => {};
    (
        $here:ident
        $(
            $(#[$meta:meta])*
            pub enum $Enum:ident builds $Model:ident {
                $( $(#[$variant_meta:meta])* $Variant:ident => $module:ident in $folder:ident, )+
            }
        )+
    ) => {
        $( $( modules! { $here: $module in $folder } )+ )+
    };
}

pub(crate) use {every_provider, modules};

/// What the list states about a provider.
pub(crate) trait Registration {
    /// `VERSION` of the provider's file: raised when the same settings give
    /// other answers.
    const VERSION: u32;
    /// Where its models compute, as its folder says.
    const PLACE: ModelPlace;
}

/// The trait of each provider's `Config`: it describes a model before it is
/// built, and builds it.
pub(crate) trait ModelSettings: Registration {
    /// The trait of the models.
    type Model: ?Sized;

    /// The identity of the model, without the provider's version. Fails if the settings cannot work, or the model's
    /// files are not here.
    fn base_identity(&self, cx: &ModelContext) -> Result<Identity, Error>;

    /// Makes the model. Fails if the settings cannot work, or something that the model needs is not here.
    fn build(&self, cx: &ModelContext) -> Result<Arc<Self::Model>, Error>;

    /// See [`ModelConfig::ready`](crate::ModelConfig::ready).
    async fn ready(&self, cx: &ModelContext) -> Result<(), Error>;

    /// What leaves this process for the model; none for a model in this process.
    fn endpoint_access(&self) -> Option<EndpointAccess> {
        None
    }

    /// See [`ModelConfig::tokenizer`](crate::ModelConfig::tokenizer).
    fn tokenizer(&self, cx: &ModelContext) -> Result<ModelTokenizer, Error>;

    /// Dollars per million tokens read and written; none if the settings do not state them.
    fn prices(&self) -> Option<(f64, f64)> {
        match Self::PLACE {
            ModelPlace::Here => Some((0.0, 0.0)),
            ModelPlace::Remote => None,
        }
    }

    /// The identity of the model, with the provider's version.
    fn identity(&self, cx: &ModelContext) -> Result<Identity, Error> {
        Ok(Self::versioned(self.base_identity(cx)?))
    }

    /// Adds the provider's version to an identity.
    fn versioned(description: Identity) -> Identity {
        description.of_version(Self::VERSION, Self::PLACE)
    }
}

/// The address of a model's endpoint, and the variables and headers that are sent
/// with each call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointAccess {
    /// The address in the settings, else the provider's own.
    pub address: String,
    /// The variable that replaces the provider's own address.
    pub address_variable: Option<&'static str>,
    /// The variables of the environment whose values are sent.
    pub variables: Vec<String>,
    /// Headers with values from the settings, by name.
    pub headers: Vec<(String, String)>,
    /// Parameters of the address of each call.
    pub query: Vec<(String, String)>,
    /// Fields of the body of each call that the settings add, as JSON.
    pub fields: Vec<(String, String)>,
}

/// What a model is built with. Clones share everything.
#[derive(Clone)]
pub struct ModelContext {
    /// Where model files and native libraries lie.
    pub directory: ModelDirectory,
    /// The cores that in-process models share.
    pub cpu: CpuBudget,
    /// Reads an environment variable. Libraries never do so by themselves. Asked
    /// for are keys, headers and the address of a default endpoint.
    pub environment: Environment,
}

/// Reads an environment variable, or says that it is not set.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

impl fmt::Debug for ModelContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("directory", &self.directory).field("cpu", &self.cpu).finish_non_exhaustive()
    }
}
