//! The registries of the providers that [`provider`](crate::provider) lists, and the settings of a model of any kind.
//!
//! A registry is an enum of settings, one variant for each provider of a kind of model. `store::registry!` makes it,
//! with the form in files (serde), the list `NAMES`, and the methods `name`, `version` and `build`.

use crate::{
    Catalogue, ChatModel, EmbeddingModel, EndpointAccess, Error, Identity, ModelKind, ModelLanguages, ModelPlace,
    ModelTokenizer, RerankModel, local,
    provider::{ModelContext, ModelSettings, Registration, every_provider},
    remote,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Declares the providers of one kind of model: a registry, and the methods
/// that work before a model is built.
macro_rules! providers {
    ($(
        $(#[$meta:meta])*
        pub enum $Enum:ident builds $Model:ident {
            $( $(#[$variant_meta:meta])* $Variant:ident => $module:ident in $folder:ident, )+
        }
    )+) => { $(
        store::registry! {
            $(#[$meta])*
            #[derive(schemars::JsonSchema)]
            pub enum $Enum builds Arc<dyn $Model>, from &ModelContext, or Error {
                $( $(#[$variant_meta])* $Variant => $module in $folder ),+
            }
        }

        $( impl Registration for $folder::$module::Config {
            const VERSION: u32 = $folder::$module::VERSION;
            const PLACE: ModelPlace = $folder::PLACE;
        } )+

        impl $Enum {
            /// Where the model computes.
            pub fn place(&self) -> ModelPlace {
                match self { $( Self::$Variant(_) => $folder::PLACE, )+ }
            }

            /// See [`ModelConfig::identity`].
            pub fn identity(&self, cx: &ModelContext) -> Result<Identity, Error> {
                match self { $( Self::$Variant(config) => config.identity(cx), )+ }
            }

            /// See [`ModelConfig::ready`].
            pub async fn ready(&self, cx: &ModelContext) -> Result<(), Error> {
                match self { $( Self::$Variant(config) => config.ready(cx).await, )+ }
            }

            /// See [`ModelConfig::endpoint_access`].
            pub fn endpoint_access(&self) -> Option<EndpointAccess> {
                match self { $( Self::$Variant(config) => config.endpoint_access(), )+ }
            }

            /// See [`ModelConfig::tokenizer`].
            pub fn tokenizer(&self, cx: &ModelContext) -> Result<ModelTokenizer, Error> {
                match self { $( Self::$Variant(config) => config.tokenizer(cx), )+ }
            }

            /// See [`ModelConfig::prices`].
            pub fn prices(&self) -> Option<(f64, f64)> {
                match self { $( Self::$Variant(config) => config.prices(), )+ }
            }
        }
    )+ };
}

every_provider!(providers);

/// A configured model of any kind: one entry of an experiment's `[models]`,
/// such as `embedding.local = { model = "all-minilm-l6-v2" }`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelConfig {
    /// Writes answers.
    Chat(ChatConfig),
    /// Maps texts to vectors.
    Embedding(EmbeddingConfig),
    /// Scores passages against a query.
    Rerank(RerankConfig),
}

/// Evaluates an expression for a model of any kind.
macro_rules! of_any_kind {
    ($model:expr, $config:ident => $result:expr) => {
        match $model {
            ModelConfig::Chat($config) => $result,
            ModelConfig::Embedding($config) => $result,
            ModelConfig::Rerank($config) => $result,
        }
    };
}

impl ModelConfig {
    /// The default settings of a model in this process, with this `model`; none for a
    /// library. Whether the model's files are here is checked later.
    pub fn local_default(kind: ModelKind, model: &str) -> Option<Self> {
        let model = model.to_owned();
        Some(match kind {
            ModelKind::Chat => Self::Chat(ChatConfig::Local(local::chat_local::Config { model, ..Default::default() })),
            ModelKind::Embedding => {
                Self::Embedding(EmbeddingConfig::Local(local::embedding_local::Config { model, ..Default::default() }))
            }
            ModelKind::Rerank => {
                Self::Rerank(RerankConfig::Local(local::rerank_local::Config { model, ..Default::default() }))
            }
            ModelKind::Ocr | ModelKind::Library => return None,
        })
    }

    /// Its kind.
    pub fn kind(&self) -> ModelKind {
        match self {
            Self::Chat(_) => ModelKind::Chat,
            Self::Embedding(_) => ModelKind::Embedding,
            Self::Rerank(_) => ModelKind::Rerank,
        }
    }

    /// Where the model computes.
    pub fn place(&self) -> ModelPlace {
        of_any_kind!(self, config => config.place())
    }

    /// The identity of the model. Cheap: never loads weights.
    ///
    /// # Errors
    /// If the settings cannot work, or the model's files are not here.
    pub fn identity(&self, cx: &ModelContext) -> Result<Identity, Error> {
        of_any_kind!(self, config => config.identity(cx))
    }

    /// Whether the model could be used now: its files and libraries are here,
    /// its key is set, its endpoint answers. The check costs no money.
    ///
    /// # Errors
    /// What is missing, and what to do about it.
    pub async fn ready(&self, cx: &ModelContext) -> Result<(), Error> {
        of_any_kind!(self, config => config.ready(cx).await)
    }

    /// What leaves this process for the model; none for a model in this process.
    pub fn endpoint_access(&self) -> Option<EndpointAccess> {
        of_any_kind!(self, config => config.endpoint_access())
    }

    /// The model's tokenizer, to count tokens without its weights and without a call. It estimates
    /// them for a remote model whose tokenizer is not known.
    ///
    /// # Errors
    /// If the settings cannot work, or the model's files are not here or cannot be read.
    pub fn tokenizer(&self, cx: &ModelContext) -> Result<ModelTokenizer, Error> {
        of_any_kind!(self, config => config.tokenizer(cx))
    }

    /// Dollars per million tokens read and written: (0, 0) for a model in this
    /// process, `None` if the settings do not state them.
    pub fn prices(&self) -> Option<(f64, f64)> {
        of_any_kind!(self, config => config.prices())
    }

    /// The languages that the model reads. Only known for models of the catalogue that run in this process.
    pub fn languages(&self) -> Option<ModelLanguages> {
        let model = match self {
            Self::Chat(ChatConfig::Local(config)) => &config.model,
            Self::Embedding(EmbeddingConfig::Local(config)) => &config.model,
            Self::Rerank(RerankConfig::Local(config)) => &config.model,
            Self::Chat(_) | Self::Embedding(_) | Self::Rerank(_) => return None,
        };
        Catalogue::embedded().find(model)?.languages
    }

    /// Whether the model runs in this process.
    pub fn is_here(&self) -> bool {
        self.place() == ModelPlace::Here
    }

    /// Whether it is a function of a program, which only that program can ask.
    pub fn is_function(&self) -> bool {
        let base_url = match self {
            Self::Chat(ChatConfig::Openai(config)) => &config.base_url,
            Self::Embedding(EmbeddingConfig::Openai(config)) => &config.base_url,
            _ => return false,
        };
        remote::is_function(base_url)
    }

    /// Where and how a price is written in an experiment file: a table under
    /// the model's name, and a setting in it.
    pub fn price_setting(&self) -> (String, &'static str) {
        let setting = match self {
            Self::Chat(_) => "price = { input = …, output = … }",
            Self::Embedding(_) | Self::Rerank(_) => "price = …",
        };
        // The name of the provider's module, such as `chat_openai`.
        let name = of_any_kind!(self, config => config.name());
        let provider = name.split_once('_').map_or(name, |(_, provider)| provider);
        (format!("{}.{provider}", self.kind().name()), setting)
    }
}

#[cfg(test)]
mod pins_tests;
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
        assert_eq!(experiment.models["minilm"].kind(), ModelKind::Embedding);
        assert_eq!(experiment.models["judge"].kind(), ModelKind::Chat);
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
    fn the_languages_of_a_model_of_the_catalogue_are_known_and_of_no_other() {
        let languages = |text: &str| toml::from_str::<ModelConfig>(text).expect("a model").languages();
        let local = |model: &str| languages(&format!("embedding.local = {{ model = \"{model}\" }}"));
        assert_eq!(local("all-minilm-l6-v2"), Some(ModelLanguages::English));
        assert_eq!(local("multilingual-e5-small"), Some(ModelLanguages::Many));
        assert_eq!(local("hf:intfloat/multilingual-e5-small"), None);
        assert_eq!(
            languages("embedding.openai = { model = \"all-minilm-l6-v2\" }"),
            None,
            "an endpoint may mean another"
        );
    }

    /// The settings of all providers, with models that are here.
    fn everyone(folder: &std::path::Path) -> Vec<ModelConfig> {
        local::testing::write_small_bert(&folder.join("embedder"), 0);
        local::testing::write_small_bert(&folder.join("reranker"), 1);
        crate::testing::write_tiny_model(&folder.join("static"), &["word"]).expect("a model");
        std::fs::write(folder.join("chat.gguf"), "weights").expect("a file");
        let settings = |kind: &str, name: &str| {
            let here = |file: &str| serde_json::json!({ "model": folder.join(file).display().to_string() });
            match (kind, name) {
                ("chat", "local") => here("chat.gguf"),
                ("embedding", "local") => here("embedder"),
                ("embedding", "static") => here("static"),
                ("rerank", "local") => here("reranker"),
                _ => serde_json::json!({ "model": "m", "base_url": "http://127.0.0.1:1/v1", "api_key_env": "" }),
            }
        };
        let read = |kind: &str, module: &str| {
            let name = module.split_once('_').map_or(module, |(_, name)| name);
            let written = serde_json::json!({ kind: { name: settings(kind, name) } });
            serde_json::from_value(written).expect("settings of every provider")
        };
        let chat = ChatConfig::NAMES.iter().map(|name| read("chat", name));
        let embedding = EmbeddingConfig::NAMES.iter().map(|name| read("embedding", name));
        let rerank = RerankConfig::NAMES.iter().map(|name| read("rerank", name));
        chat.chain(embedding).chain(rerank).collect()
    }

    fn description(config: &ModelConfig, cx: &ModelContext) -> (Identity, u32, String) {
        let (identity, version, name) = match config {
            ModelConfig::Chat(config) => (config.identity(cx), config.version(), config.name()),
            ModelConfig::Embedding(config) => (config.identity(cx), config.version(), config.name()),
            ModelConfig::Rerank(config) => (config.identity(cx), config.version(), config.name()),
        };
        (identity.unwrap_or_else(|error| panic!("{name}: {error}")), version, name.to_owned())
    }

    #[test]
    fn another_version_of_a_provider_is_another_model() {
        let folder = tempfile::tempdir().expect("a folder");
        let cx = remote::testing::context();
        for config in everyone(folder.path()) {
            let (identity, version, name) = description(&config, &cx);
            let place = config.place();
            assert_eq!(identity.place(), place, "{name}: what is kept of it says the same");
            assert_eq!(identity.clone().of_version(version, place), identity, "{name}: its version is part of it");
            let next = identity.clone().of_version(version + 1, place);
            assert_ne!(next, identity, "{name}");
            assert_ne!(next, identity.clone().of_version(version + 2, place), "{name}");
            assert_ne!(next.of_calls(), identity.of_calls(), "{name}: nor are its answers taken from the journal");
        }
    }

    #[test]
    fn the_answers_of_a_function_are_kept_as_those_of_an_endpoint() {
        let written = serde_json::json!({ "chat": { "openai": { "model": "mine", "base_url": "function:digest" } } });
        let config: ModelConfig = serde_json::from_value(written).expect("settings");
        let (identity, ..) = description(&config, &remote::testing::context());
        assert!(config.is_function() && identity.is_remote(), "{identity:?}");
    }

    #[test]
    fn a_model_has_the_identity_of_its_settings() {
        let folder = tempfile::tempdir().expect("a folder");
        let cx = remote::testing::context();
        for config in everyone(folder.path()) {
            let (identity, _, name) = description(&config, &cx);
            let built = match &config {
                ModelConfig::Chat(config) => config.build(&cx).map(|model| model.identity().clone()),
                ModelConfig::Embedding(config) => config.build(&cx).map(|model| model.identity().clone()),
                ModelConfig::Rerank(config) => config.build(&cx).map(|model| model.identity().clone()),
            };
            match built {
                Ok(built) => assert_eq!(built, identity, "{name}"),
                // Where ONNX Runtime is not here, their own tests are skipped too.
                Err(error) => assert_eq!(config.place(), ModelPlace::Here, "{name}: {error}"),
            }
        }
    }

    #[test]
    fn another_context_is_another_model_but_what_was_paid_is_found_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let cx = remote::testing::context();
        for config in everyone(folder.path()) {
            let ModelConfig::Chat(_) = &config else { continue };
            let (identity, _, name) = description(&config, &cx);
            let mut written = serde_json::to_value(&config).expect("settings");
            let provider = name.strip_prefix("chat_").expect("the kind");
            written["chat"][provider]["context_length"] = 77_777.into();
            let changed: ModelConfig = serde_json::from_value(written).expect("settings");
            let (changed, _, _) = description(&changed, &cx);
            assert_ne!(changed, identity, "{name}");
            assert_eq!(changed.of_calls() == identity.of_calls(), identity.is_remote(), "{name}");
        }
    }

    #[test]
    fn settings_of_endpoints_have_their_names_order_and_defaults() {
        let known = |kind: &str| {
            let misspelt = serde_json::json!({ kind: { "openai": { "modle": "m" } } });
            let error = serde_json::from_value::<ModelConfig>(misspelt).expect_err("misspelt").to_string();
            assert!(error.starts_with("unknown field `modle`, expected one of `model`"), "{error}");
            error.split('`').skip(3).step_by(2).collect::<Vec<_>>().join(" ")
        };
        let written = |config: &str| {
            let config: ModelConfig = serde_json::from_str(config).expect("settings");
            serde_json::to_string(&config).expect("JSON")
        };
        assert_eq!(
            known("chat"),
            "model base_url api_key_env headers plain_http query timeout_seconds connect_timeout_seconds max_response_bytes \
             concurrency limits price batch context_length omit extra"
        );
        assert_eq!(
            written(r#"{"chat":{"openai":{}}}"#),
            r#"{"chat":{"openai":{"model":"","base_url":"","headers":{},"timeout_seconds":120.0,"connect_timeout_seconds":5.0,"max_response_bytes":16777216,"limits":{},"price":{},"context_length":32768,"omit":[],"extra":{}}}}"#
        );
        assert_eq!(
            known("embedding"),
            "model base_url api_key_env headers plain_http timeout_seconds connect_timeout_seconds max_response_bytes \
             concurrency limits price batch batch_size dimensions max_tokens long_texts query_prefix document_prefix encoding"
        );
        assert_eq!(
            written(r#"{"embedding":{"openai":{}}}"#),
            r#"{"embedding":{"openai":{"model":"","base_url":"","headers":{},"timeout_seconds":60.0,"connect_timeout_seconds":5.0,"max_response_bytes":67108864,"limits":{},"batch_size":128,"max_tokens":8191,"query_prefix":"","document_prefix":"","encoding":"base64"}}}"#
        );
        assert_eq!(
            known("rerank"),
            "model base_url shape api_key_env headers plain_http timeout_seconds connect_timeout_seconds max_response_bytes \
             concurrency limits price"
        );
        assert_eq!(
            written(r#"{"rerank":{"openai":{}}}"#),
            r#"{"rerank":{"openai":{"model":"","base_url":"","shape":"jina","headers":{},"timeout_seconds":60.0,"connect_timeout_seconds":5.0,"max_response_bytes":16777216,"limits":{}}}}"#
        );
    }

    #[test]
    fn an_unknown_setting_is_named() {
        let error = toml::from_str::<ModelConfig>("chat.openai = { modle = \"m\" }").expect_err("misspelt").to_string();
        assert!(error.contains("modle"), "{error}");
    }
}
