//! Components: what the rest of the system knows of them, and what they are
//! built from. Plan, keys, estimates and checks of the experiment file ask a
//! component for its needs, never for its name.

use crate::{
    Error, IndexPlace, PipelineConfig,
    analysis::{Language, TextAnalysis},
    database::ExistingIndexSettings,
    index::{IndexKind, Indexes},
};
use models::{Chat, Embedder, JsonService, ModelKind, Reranker, ServiceHandle, provider::ModelContext};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};
use store::registry::ReadSettingsFile;

/// Tokens of the instructions around a question and its passages, for estimates.
pub const INSTRUCTION_TOKENS: u64 = 200;

/// The size of a component's input, for estimates: a question with its
/// passages, or a shard of documents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InputSize {
    /// Tokens of the question, or of the documents' texts.
    pub text_tokens: u64,
    /// The number of passages.
    pub passages: u64,
    /// Tokens of all passages together.
    pub passage_tokens: u64,
}

/// Tokens of a passage if its size is unknown.
const PASSAGE_TOKENS: u64 = 256;

impl InputSize {
    /// Sets the number of passages, and their size to [`PASSAGE_TOKENS`].
    pub(crate) fn with_passages(self, passages: usize) -> Self {
        Self { passages: passages as u64, ..self }.with_passage_size(PASSAGE_TOKENS)
    }

    /// Sets the size of a passage, in tokens.
    pub(crate) fn with_passage_size(self, tokens: u64) -> Self {
        Self { passage_tokens: self.passages.saturating_mul(tokens), ..self }
    }

    pub(crate) fn multiply_passage_size(self, times: u64) -> Self {
        Self { passage_tokens: self.passage_tokens.saturating_mul(times), ..self }
    }

    pub(crate) fn limit_passages(self, passages: usize) -> Self {
        let kept = self.passages.min(passages as u64);
        let passage_tokens = self.passage_tokens.saturating_mul(kept) / self.passages.max(1);
        Self { passages: kept, passage_tokens, ..self }
    }

    /// Estimates the chunks of its text for a chunk `size` and an `overlap`, in
    /// tokens. Chunks end with a sentence and with their document, so they are
    /// assumed to be 75 % full. A chunker whose chunks are emptier than that passes a
    /// smaller `size`.
    pub(crate) fn cut_into_chunks(self, size: u64, overlap: u64) -> Self {
        let new = size.saturating_sub(overlap).max(1);
        let passages = self.text_tokens.saturating_mul(4).div_ceil(new.saturating_mul(3));
        Self { passages, passage_tokens: self.text_tokens.saturating_mul(size.max(1)).div_ceil(new), ..self }
    }

    pub(crate) fn limit_tokens(self, tokens: usize) -> Self {
        Self { passage_tokens: self.passage_tokens.min(tokens as u64), ..self }
    }
}

/// A model that a component asks, and the most that it asks for one item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelCalls<'a> {
    /// The model's name in the experiment.
    pub model: &'a str,
    /// What kind of model it must be.
    pub kind: ModelKind,
    /// The number of calls.
    pub calls: u64,
    /// Tokens that the model reads, over all calls.
    pub prompt_tokens: u64,
    /// Tokens that the model writes, over all calls.
    pub completion_tokens: u64,
}

/// Why a file that settings name cannot be read or used.
pub type FileError = Box<dyn std::error::Error + Send + Sync>;

/// What a component's settings say about its needs and effects. Each `Config`
/// implements this. The defaults are those of a component that needs nothing, except
/// that [`reads_chunks`](Self::reads_chunks) defaults to true for a component without parts.
///
/// A component that consists of others, such as a list of steps, names them in
/// [`parts`](Self::parts). Every default combines what the parts say, so that
/// neither an enum of components nor a list forwards methods itself.
pub trait Component: Send + Sync {
    /// The components that it consists of, in the order in which they run.
    fn parts(&self) -> Vec<&dyn Component> {
        Vec::new()
    }

    /// [`parts`](Self::parts), to change their settings.
    fn parts_mut(&mut self) -> Vec<&mut dyn Component> {
        Vec::new()
    }

    /// Estimates the calls to its models for one item, at most. The models are
    /// the same for every item, in the same order, because they are part of keys.
    fn estimate_calls(&self, item: InputSize) -> Vec<ModelCalls<'_>> {
        let calls = self.parts().into_iter().scan(item, |item, part| {
            let calls = part.estimate_calls(*item);
            *item = part.estimate_output(*item);
            Some(calls)
        });
        calls.flatten().collect()
    }

    /// Estimates the input of the next stage, at most. A retriever sets the
    /// number of hits, a chunker the size of a passage; a later stage changes both.
    fn estimate_output(&self, item: InputSize) -> InputSize {
        self.parts().into_iter().fold(item, |item, part| part.estimate_output(item))
    }

    /// Estimates the searchable chunks that a chunker cuts texts into, and their
    /// tokens together.
    fn estimate_chunks(&self, item: InputSize) -> InputSize {
        match self.parts()[..] {
            [part] => part.estimate_chunks(item),
            _ => item.cut_into_chunks(PASSAGE_TOKENS, 0),
        }
    }

    /// The names of the models that it asks.
    fn models(&self) -> Vec<&str> {
        self.estimate_calls(InputSize::default()).into_iter().map(|ask| ask.model).collect()
    }

    /// The models of the catalogue that it runs by itself, without an entry under `[models]`.
    fn catalogue_models(&self) -> Vec<&'static str> {
        self.parts().into_iter().flat_map(|part| part.catalogue_models()).collect()
    }

    /// How the networks that it runs by itself compute on this machine, if its result depends on that.
    fn precisions(&self) -> Vec<&'static str> {
        self.parts().into_iter().flat_map(|part| part.precisions()).collect()
    }

    /// The indexes that it searches.
    fn indexes(&self) -> Indexes {
        self.parts().into_iter().flat_map(|part| part.indexes()).collect()
    }

    /// Whether it reads the vectors of chunks themselves, besides searching them.
    fn reads_chunk_vectors(&self) -> bool {
        self.parts().into_iter().any(|part| part.reads_chunk_vectors())
    }

    /// The index of the user's own that it searches, if it does: it needs no chunks then.
    fn existing_index(&self) -> Option<&dyn ExistingIndexSettings> {
        self.parts().into_iter().find_map(|part| part.existing_index())
    }

    /// Whether it compares the vector of a question with other vectors.
    fn compares_question(&self) -> bool {
        self.existing_index().is_some_and(is_collection)
            || self.indexes().into_iter().any(IndexKind::compares_vectors)
            || self.parts().into_iter().any(|part| part.compares_question())
    }

    /// How the texts of its indexes are cut into terms; `None` if this component does not decide it.
    fn text_analysis(&self) -> Option<TextAnalysis> {
        self.parts().into_iter().find_map(|part| part.text_analysis())
    }

    /// The language whose rules it applies to all texts; none if it detects the language of each text, or has no
    /// rules of a language.
    fn named_language(&self) -> Option<Language> {
        let of_words = self.text_analysis().and_then(|analysis| analysis.named_language());
        of_words.or_else(|| self.parts().into_iter().find_map(|part| part.named_language()))
    }

    /// Whether it needs the trial's embedder.
    fn needs_embedder(&self) -> bool {
        self.existing_index().is_some_and(is_collection)
            || self.indexes().into_iter().any(IndexKind::embeds)
            || self.parts().into_iter().any(|part| part.needs_embedder())
    }

    /// Whether it makes the vectors of chunks itself, with the trial's embedder.
    fn makes_vectors(&self) -> bool {
        self.parts().into_iter().any(|part| part.makes_vectors())
    }

    /// Whether it calls a user's function.
    fn runs_function(&self) -> bool {
        self.parts().into_iter().any(|part| part.runs_function())
    }

    /// The setting that limits its passages: `top_k` of a retriever, `top_n` of a
    /// reranker.
    fn limit(&self) -> Option<usize> {
        self.parts().into_iter().filter_map(|part| part.limit()).min()
    }

    /// Changes [`limit`](Self::limit), if it has one, and raises `candidates` to it.
    fn set_limit(&mut self, passages: usize) {
        self.parts_mut().into_iter().for_each(|part| part.set_limit(passages));
    }

    /// The setting that limits the tokens of a searchable chunk.
    fn chunk_size(&self) -> Option<usize> {
        self.parts().into_iter().filter_map(|part| part.chunk_size()).max()
    }

    /// How many hits the retriever should find for it instead of `top_k`; none if
    /// `top_k` is enough.
    fn candidates(&self, top_k: usize) -> Option<usize> {
        self.parts().into_iter().filter_map(|part| part.candidates(top_k)).max()
    }

    /// Whether it rewrites the question so that it stands alone: later stages
    /// get the rewritten question.
    fn rewrites_question(&self) -> bool {
        self.parts().into_iter().any(|part| part.rewrites_question())
    }

    /// Whether it is a step that searches again, with queries of its own.
    fn searches_again(&self) -> bool {
        self.parts().into_iter().any(|part| part.searches_again())
    }

    /// Whether it reads passages. The stages before a generator that reads none
    /// make no difference.
    fn reads_passages(&self) -> bool {
        self.parts().into_iter().all(|part| part.reads_passages())
    }

    /// The fields of documents that it reads; each must be in at least one document.
    fn fields(&self) -> Vec<&str> {
        self.parts().into_iter().flat_map(|part| part.fields()).collect()
    }

    /// Whether it puts whole documents in the place of passages. Trials with it
    /// show what retrieval is worth.
    fn reads_documents(&self) -> bool {
        self.parts().into_iter().any(|part| part.reads_documents())
    }

    /// Whether it reads chunks or indexes besides its passages, so that it must
    /// run where these are. Only a step that returns false may run elsewhere. A component
    /// without parts reads chunks unless it overrides this: a forgotten override costs time,
    /// but no wrong result.
    fn reads_chunks(&self) -> bool {
        let parts = self.parts();
        parts.is_empty() || parts.into_iter().any(|part| part.reads_chunks())
    }

    /// Whether it changes nothing, so that it need not run.
    fn is_nothing(&self) -> bool {
        let parts = self.parts();
        !parts.is_empty() && parts.into_iter().all(|part| part.is_nothing())
    }

    /// The names of settings that do not affect its output; they are not part of
    /// keys. Empty for a list of several components: the list (`refine`) overrides
    /// [`Choice::settings_for_key`] and leaves out those of each component.
    fn settings_outside_key(&self) -> &'static [&'static str] {
        match self.parts()[..] {
            [part] => part.settings_outside_key(),
            _ => &[],
        }
    }

    /// Reads the files that the settings name. Their contents are part of the
    /// settings from then on, and of every key. `read` gets each path as the
    /// settings write it.
    ///
    /// # Errors
    /// The error of `read`, or what is wrong with a file.
    fn read_files(&mut self, read: ReadSettingsFile<'_>) -> Result<(), FileError> {
        self.parts_mut().into_iter().try_for_each(|part| part.read_files(read))
    }
}

/// A component as one value of an axis of the search space.
pub trait Choice: Component {
    /// The component's name, as it is written in a file.
    fn name(&self) -> &str;

    /// The version of its algorithm: part of every task key.
    fn version(&self) -> u32;

    /// Name and settings, as they are written in a file.
    fn value(&self) -> Value;

    /// Name and settings, without settings that do not affect the output.
    fn settings_for_key(&self) -> Value {
        without_settings(self.value(), self.name(), self.settings_outside_key())
    }

    /// Checks the settings, as far as that is possible without models.
    ///
    /// # Errors
    /// What is wrong with them.
    fn check(&self) -> Result<(), Error>;

    /// The components of this stage, with the docs of their files; none if the
    /// values of the axis are no components.
    fn docs() -> Vec<(&'static str, String)>
    where
        Self: Sized,
    {
        Vec::new()
    }
}

/// Removes the settings with these names from the name and settings of a component.
pub fn without_settings(mut value: Value, name: &str, left_out: &[&str]) -> Value {
    if let Some(settings) = value.get_mut(name).and_then(Value::as_object_mut) {
        left_out.iter().for_each(|&name| drop(settings.remove(name)));
    }
    value
}

/// Hands out models by their names in the experiment. Each method fails if there is
/// no model of this name, or the model cannot be made.
pub trait Models: Send + Sync {
    /// A chat model.
    fn chat(&self, name: &str) -> Result<Chat, Error>;

    /// An embedding model.
    fn embedder(&self, name: &str) -> Result<Embedder, Error>;

    /// A rerank model.
    fn reranker(&self, name: &str) -> Result<Reranker, Error>;

    /// Reads variables of the environment, for components that call a database or another program; none where no such
    /// component can work.
    fn model_context(&self) -> Option<&ModelContext> {
        None
    }

    /// A handle to a program that is no model, so that its calls have limits and retries, and are kept.
    fn service(&self, service: Arc<dyn JsonService>) -> Option<ServiceHandle> {
        let _ = service;
        None
    }
}

/// Models by their names, already made.
#[derive(Clone, Default)]
pub struct NamedModels {
    /// Chat models.
    pub chats: BTreeMap<String, Chat>,
    /// Embedding models.
    pub embedders: BTreeMap<String, Embedder>,
    /// Rerank models.
    pub rerankers: BTreeMap<String, Reranker>,
}

impl Models for NamedModels {
    fn chat(&self, name: &str) -> Result<Chat, Error> {
        named(&self.chats, name)
    }
    fn embedder(&self, name: &str) -> Result<Embedder, Error> {
        named(&self.embedders, name)
    }
    fn reranker(&self, name: &str) -> Result<Reranker, Error> {
        named(&self.rerankers, name)
    }
}

fn named<T: Clone>(models: &BTreeMap<String, T>, name: &str) -> Result<T, Error> {
    let missing = || Error::Failed { component: "model", reason: format!("there is none with the name `{name}`") };
    models.get(name).cloned().ok_or_else(missing)
}

/// Whether an existing index is in a database, which compares the vector of a question.
fn is_collection(index: &dyn ExistingIndexSettings) -> bool {
    matches!(index.place(), IndexPlace::Collection(_))
}

/// The models and the pipeline that components are built with. Without models, settings can still be checked.
#[derive(Clone, Copy, Default)]
pub struct Context<'a> {
    /// All models of the experiment.
    pub models: Option<&'a dyn Models>,
    /// The name of the trial's embedder.
    pub embedder: Option<&'a str>,
    /// The pipeline that a stage belongs to, for a step that searches again.
    pub pipeline: Option<&'a PipelineConfig>,
}

impl Context<'_> {
    /// The chat model of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn chat(&self, component: &'static str, name: &str) -> Result<Chat, Error> {
        self.models.ok_or(Error::Needs { component, part: "a chat model; name it in `model`" })?.chat(name)
    }

    /// The rerank model of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn reranker(&self, component: &'static str, name: &str) -> Result<Reranker, Error> {
        self.models.ok_or(Error::Needs { component, part: "a rerank model; name it in `model`" })?.reranker(name)
    }

    /// The trial's embedder.
    ///
    /// # Errors
    /// If there is none.
    pub fn embedder(&self, component: &'static str) -> Result<Embedder, Error> {
        let given = self.models.zip(self.embedder);
        let (models, name) = given.ok_or(Error::Needs { component, part: "the trial's embedder" })?;
        models.embedder(name)
    }
}

/// The default of the setting `candidates`, for retrievers and rerankers.
pub(crate) fn default_candidates(top_k: usize) -> usize {
    top_k.saturating_mul(4).max(20)
}

/// Refuses the settings of a component unless a condition holds: [`Error::Config`]
/// with the reason.
pub(crate) fn ensure(component: &'static str, holds: bool, reason: impl Into<String>) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(Error::Config { component, reason: reason.into() }) }
}

/// Checks the sampling settings of a component that a chat model writes for: at
/// least one token, and a temperature from 0 to 2.
pub(crate) fn check_sampling(component: &'static str, max_tokens: u32, temperature: f32) -> Result<(), Error> {
    ensure(component, max_tokens > 0, "max_tokens must be at least 1")?;
    let reason = format!("temperature is {temperature}, but must be between 0 and 2");
    ensure(component, (0.0..=2.0).contains(&temperature), reason)
}

/// The JSON Schema of an object with these properties and no others, all of them required.
pub(crate) fn object_schema<const N: usize>(properties: [(&str, Value); N]) -> Value {
    let names = properties.each_ref().map(|(name, _)| *name);
    let properties: Value = properties.into_iter().collect();
    json!({ "type": "object", "properties": properties, "required": names.as_slice(), "additionalProperties": false })
}

/// Declares the settings of a component, each with its default: the struct with its derives, and its `Default`.
macro_rules! settings {
    (
        $(#[$meta:meta])*
        $visible:vis struct $Config:ident {
            $( $(#[$about:meta])* $visible_field:vis $field:ident: $Type:ty = $default:expr, )*
        }
    ) => {
        #[derive(Debug, Clone, PartialEq, ::serde::Serialize, ::serde::Deserialize, ::schemars::JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        $(#[$meta])*
        $visible struct $Config {
            $( $(#[$about])* $visible_field $field: $Type, )*
        }

        impl Default for $Config {
            fn default() -> Self {
                Self { $( $field: $default, )* }
            }
        }
    };
}
pub(crate) use settings;

/// Declares the settings of a database: its own, and those that all have. `$url` is the address if none is given.
macro_rules! database_settings {
    (
        $(#[$meta:meta])*
        $visible:vis struct $Config:ident at $url:literal {
            $($own:tt)*
        }
    ) => {
        $crate::component::settings! {
            $(#[$meta])*
            $visible struct $Config {
                $($own)*
                /// The address of the database, or `env:NAME` for a variable that holds it. An address with a password
                /// must be in a variable.
                pub url: String = $url.to_owned(),
                /// A name that stands for the address in keys, if a database has several addresses. Default: the
                /// address without user and password.
                pub identity: Option<String> = None,
                /// The most seconds that one call may take; building an index takes as long as it takes. Default 30.
                pub timeout_seconds: u64 = 30,
                /// The most calls at once. Default 64.
                pub concurrency: usize = 64,
                /// Whether a password or a key may be sent to another machine without TLS. Default false.
                pub plain: bool = false,
            }
        }

        impl $Config {
            /// How the database is reached, without a key of its own.
            fn address(&self) -> $crate::database::DatabaseConnection<'_> {
                $crate::database::DatabaseConnection {
                    url: &self.url,
                    api_key: None,
                    identity: self.identity.as_deref(),
                    timeout_seconds: self.timeout_seconds,
                    concurrency: self.concurrency,
                    plain: self.plain,
                }
            }
        }
    };
}
pub(crate) use database_settings;

/// [`Component::limit`] and [`Component::set_limit`] of a component with this
/// setting, inside its `impl`. `set_limit` raises `candidates` to the limit.
macro_rules! limited_by {
    ($setting:ident $(, $candidates:ident)?) => {
        fn limit(&self) -> Option<usize> {
            self.$setting.into()
        }
        fn set_limit(&mut self, passages: usize) {
            self.$setting = passages.into();
            $( self.$candidates = self.$candidates.map(|candidates| candidates.max(passages)); )?
        }
    };
}
pub(crate) use limited_by;

/// Declares the components of one stage: the registry of [`store::registry!`],
/// and [`Component`] and [`Choice`] for its enum. `each Trait` names
/// [`Component`] or a subtrait of it, which every `Config` of the stage implements.
macro_rules! components {
    (
        $(#[$meta:meta])*
        $visibility:vis enum $Enum:ident builds $built:ty, each $Settings:path {
            $( $Variant:ident => $module:ident ),+ $(,)?
        }
    ) => {
        store::registry! {
            $(#[$meta])*
            $visibility enum $Enum builds $built, from &$crate::Context<'_>, or $crate::Error {
                $( $Variant => $module ),+
            }
        }

        impl $crate::Component for $Enum {
            fn parts(&self) -> Vec<&dyn $crate::Component> {
                vec![self.settings()]
            }
            fn parts_mut(&mut self) -> Vec<&mut dyn $crate::Component> {
                vec![self.settings_mut()]
            }
        }

        impl $Enum {
            fn settings(&self) -> &dyn $Settings {
                match self { $( Self::$Variant(settings) => settings, )+ }
            }

            fn settings_mut(&mut self) -> &mut dyn $Settings {
                match self { $( Self::$Variant(settings) => settings, )+ }
            }

            /// The component that does nothing, with its default settings, if there is one.
            #[allow(dead_code, reason = "there are stages that cannot be left out")]
            pub(crate) fn nothing() -> Option<Self> {
                Self::defaults().into_iter().find(|component| $crate::Component::is_nothing(component))
            }
        }

        impl $crate::Choice for $Enum {
            fn name(&self) -> &str {
                Self::name(self)
            }
            fn version(&self) -> u32 {
                Self::version(self)
            }
            fn value(&self) -> serde_json::Value {
                serde_json::to_value(self).unwrap_or_default()
            }
            fn docs() -> Vec<(&'static str, String)> {
                Self::NAMES.iter().copied().zip(Self::docs()).collect()
            }
            fn check(&self) -> Result<(), $crate::Error> {
                // `build` checks the settings before it asks for models.
                match self.build(&$crate::Context::default()) {
                    Err($crate::Error::Needs { .. }) | Ok(_) => Ok(()),
                    Err(error) => Err(error),
                }
            }
        }
    };
}
pub(crate) use components;

#[cfg(test)]
mod tests {
    /// A default that ignores the parts would ignore the needs of the components in an enum or a list.
    #[test]
    fn every_default_of_the_trait_combines_what_the_parts_say() {
        let (_, rest) = include_str!("component.rs").split_once("pub trait Component").unwrap();
        let (body, _) = rest.split_once("\n}\n").unwrap();
        for method in body.split("\n    fn ").skip(1) {
            let name = method.split('(').next().unwrap();
            let combines = method.contains("self.parts") || method.contains("self.estimate_calls");
            assert!(combines || name.starts_with("parts"), "{name}");
        }
    }
}
