//! Providers: ways to run a model. One file each, one line here.

use crate::{ChatModel, CpuBudget, EmbeddingModel, Error, Identity, Kind, ModelDirectory, RerankModel};
use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

mod http;
mod limits;
mod llama;
pub(crate) mod onnx;
mod rate_headers;
mod refusal;
mod remote_chat;
#[cfg(feature = "providers")]
mod translated;

pub(crate) use http::estimated_tokens;
pub use limits::{EndpointLimits, Limits};
pub use rate_headers::RateHints;

/// Declares the providers of one kind of model: a registry, and what can be
/// said of a model before it is built. Each provider's `Config` has `identity`,
/// `ready` and `prices` besides `build`.
macro_rules! providers {
    (
        $(#[$meta:meta])*
        pub enum $Enum:ident builds $built:ty {
            $( $(#[$variant_meta:meta])* $Variant:ident => $module:ident ),+ $(,)?
        }
    ) => {
        store::registry! {
            $(#[$meta])*
            pub enum $Enum builds $built, from &Context, or Error {
                $( $(#[$variant_meta])* $Variant => $module ),+
            }
        }

        impl $Enum {
            /// What decides the model's answers. Cheap: never loads weights.
            ///
            /// # Errors
            /// If the settings cannot work, or the model's files are not here.
            pub fn identity(&self, cx: &Context) -> Result<Identity, Error> {
                match self { $( Self::$Variant(config) => config.identity(cx), )+ }
            }

            /// Whether the model could be used now: its files and libraries
            /// are here, its key is set, its endpoint answers. Costs nothing.
            ///
            /// # Errors
            /// What is missing, and what to do about it.
            pub async fn ready(&self, cx: &Context) -> Result<(), Error> {
                match self { $( Self::$Variant(config) => config.ready(cx).await, )+ }
            }

            /// Dollars per million tokens read and written, if the settings
            /// say so; nothing for what runs in this process.
            pub fn prices(&self) -> Option<(f64, f64)> {
                match self { $( Self::$Variant(config) => config.prices(), )+ }
            }
        }
    };
}

providers! {
    /// Which chat model, and its settings.
    pub enum ChatConfig builds Arc<dyn ChatModel> {
        /// A GGUF model in this process.
        Local => chat_local,
        /// An endpoint that speaks OpenAI's protocol.
        Openai => chat_openai,
        /// Anthropic's Messages API.
        Anthropic => chat_anthropic,
        /// Azure OpenAI.
        Azure => chat_azure,
        /// Amazon Bedrock's Converse API.
        Bedrock => chat_bedrock,
        /// Cohere.
        Cohere => chat_cohere,
        /// Google's Gemini API.
        Gemini => chat_gemini,
        /// Mistral.
        Mistral => chat_mistral,
        /// An Ollama server.
        Ollama => chat_ollama,
    }
}

providers! {
    /// Which embedding model, and its settings.
    pub enum EmbeddingConfig builds Arc<dyn EmbeddingModel> {
        /// An ONNX model in this process.
        Local => embedding_local,
        /// Vectors by table, for tests that need speed.
        Static => embedding_static,
        /// An endpoint that speaks OpenAI's protocol.
        Openai => embedding_openai,
    }
}

providers! {
    /// Which rerank model, and its settings.
    pub enum RerankConfig builds Arc<dyn RerankModel> {
        /// An ONNX cross-encoder in this process.
        Local => rerank_local,
        /// An endpoint that speaks Jina's, Cohere's or TEI's protocol.
        Openai => rerank_openai,
    }
}

/// What a model is built with. Clones share everything.
#[derive(Clone)]
pub struct Context {
    /// Where model files and native libraries lie.
    pub directory: ModelDirectory,
    /// The cores that in-process models share.
    pub cpu: CpuBudget,
    /// Reads an environment variable. Libraries never do so by themselves;
    /// only keys are asked for, by the names that the settings give.
    pub environment: Environment,
}

/// Reads an environment variable, or says that it is not set.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("directory", &self.directory).field("cpu", &self.cpu).finish_non_exhaustive()
    }
}

/// A configured model of any kind: one entry of an experiment's `[models]`,
/// such as `embedding.local = { model = "all-minilm-l6-v2" }`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelConfig {
    /// Answers in words.
    Chat(ChatConfig),
    /// Maps texts to vectors.
    Embedding(EmbeddingConfig),
    /// Scores passages against a query.
    Rerank(RerankConfig),
}

impl ModelConfig {
    /// What it is for.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Chat(_) => Kind::Chat,
            Self::Embedding(_) => Kind::Embedding,
            Self::Rerank(_) => Kind::Rerank,
        }
    }

    /// What decides the model's answers. Cheap: never loads weights.
    ///
    /// # Errors
    /// If the settings cannot work, or the model's files are not here.
    pub fn identity(&self, cx: &Context) -> Result<Identity, Error> {
        match self {
            Self::Chat(config) => config.identity(cx),
            Self::Embedding(config) => config.identity(cx),
            Self::Rerank(config) => config.identity(cx),
        }
    }

    /// Whether the model could be used now. Costs nothing.
    ///
    /// # Errors
    /// What is missing, and what to do about it.
    pub async fn ready(&self, cx: &Context) -> Result<(), Error> {
        match self {
            Self::Chat(config) => config.ready(cx).await,
            Self::Embedding(config) => config.ready(cx).await,
            Self::Rerank(config) => config.ready(cx).await,
        }
    }

    /// Dollars per million tokens read and written: (0, 0) for what runs in
    /// this process, `None` where the settings do not say.
    pub fn prices(&self) -> Option<(f64, f64)> {
        match self {
            Self::Chat(config) => config.prices(),
            Self::Embedding(config) => config.prices(),
            Self::Rerank(config) => config.prices(),
        }
    }

    /// Where a price is written in an experiment file, and how: a table under
    /// the model's name, and a setting in it.
    pub fn price_setting(&self) -> (String, &'static str) {
        let setting = match self {
            Self::Chat(_) => "price = { input = …, output = … }",
            Self::Embedding(_) | Self::Rerank(_) => "price = …",
        };
        // `{ kind: { provider: { … } } }`, as it is written.
        let written = serde_json::to_value(self).unwrap_or_default();
        let providers = written.as_object().and_then(|kinds| kinds.values().next()).and_then(|kind| kind.as_object());
        let provider = providers.and_then(|providers| providers.keys().next()).cloned().unwrap_or_default();
        (format!("{}.{provider}", self.kind().name()), setting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Experiment {
        models: std::collections::BTreeMap<String, ModelConfig>,
    }

    #[test]
    fn models_are_written_as_the_design_says() {
        let text = r#"
            [models.minilm]
            embedding.local = { model = "all-minilm-l6-v2" }
            [models.judge]
            chat.openai = { model = "m", base_url = "http://h/v1", api_key_env = "KEY", price = { input = 0.25 } }
        "#;
        let experiment: Experiment = toml::from_str(text).expect("the design's form");
        assert_eq!(experiment.models["minilm"].kind(), Kind::Embedding);
        assert_eq!(experiment.models["judge"].kind(), Kind::Chat);
        let again = toml::to_string(&experiment.models["judge"]).expect("it can be written");
        assert_eq!(toml::from_str::<ModelConfig>(&again).expect("it can be read again"), experiment.models["judge"]);
    }

    #[test]
    fn a_price_is_known_only_if_all_of_it_is_written() {
        let prices = |text: &str| toml::from_str::<ModelConfig>(text).expect("a model").prices();
        assert_eq!(prices("chat.openai = { price = { input = 0.25, output = 2 } }"), Some((0.25, 2.0)));
        assert_eq!(prices("chat.openai = { price = { input = 0.25 } }"), None);
        assert_eq!(prices("chat.openai = {}"), None);
        assert_eq!(prices("embedding.openai = { price = 0 }"), Some((0.0, 0.0)), "zero, because it is written");
        assert_eq!(prices("rerank.openai = {}"), None);
        assert_eq!(prices("chat.local = { model = \"m\" }"), Some((0.0, 0.0)), "what runs here is free");
    }

    #[test]
    fn an_unknown_setting_is_named() {
        let error = toml::from_str::<ModelConfig>("chat.openai = { modle = \"m\" }").expect_err("misspelt").to_string();
        assert!(error.contains("modle"), "{error}");
    }
}
