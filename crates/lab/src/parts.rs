//! A trial in several processes, which messages and the documentation call a
//! graph: each process opens one part of the trial and asks the others for the
//! rest, so that every part has machines and replicas of its own.
//!
//! | part | holds | asks |
//! |---|---|---|
//! | encoder | the embedding models | |
//! | reranker | the rerank models | |
//! | llm | the chat models | |
//! | vector store | chunks and indexes; runs the retriever, and every step that looks at chunks | the models, for such steps |
//! | retriever | the query component and all other steps | encoder, vector store, reranker, llm |
//! | qa | the generator | retriever, llm |
//! | gateway | nothing | qa, retriever, encoder, reranker, vector store |
//!
//! The code of the stages is that of the whole pipeline: a part only gets models ([`models`]) and
//! chunks ([`calls`]) that are elsewhere. How a request reaches a part is up to the caller: see
//! [`PartTransport`].

mod calls;
mod models;
pub(crate) mod wire;

pub(crate) use self::models::{chat, embedder, reranker};
pub(crate) use calls::PartClient;
pub(crate) use wire::{PartReply, PartRequest, WireMatrix};

use ::models::ModelKind;
use futures::stream::BoxStream;
use rag::{InputSize, PipelineConfig};
use std::collections::BTreeSet;

/// A part of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Makes vectors.
    Encoder,
    /// Searches with the trial's retriever, and returns the text around a passage.
    VectorStore,
    /// Finds passages for questions: it asks the vector store, which runs the trial's retriever.
    Retriever,
    /// Scores passages.
    Reranker,
    /// Writes.
    Llm,
    /// Answers questions from passages.
    Qa,
    /// Receives the requests of clients.
    Gateway,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Encoder, Self::VectorStore, Self::Retriever, Self::Reranker, Self::Llm, Self::Qa, Self::Gateway];

    /// The name, as programs write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Encoder => "encoder",
            Self::VectorStore => "vector_store",
            Self::Retriever => "retriever",
            Self::Reranker => "reranker",
            Self::Llm => "llm",
            Self::Qa => "qa",
            Self::Gateway => "gateway",
        }
    }

    /// The part of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.name() == name)
    }

    /// Whether it holds the models of a kind.
    pub(crate) fn holds(self, kind: ModelKind) -> bool {
        match kind {
            ModelKind::Embedding => self == Self::Encoder,
            ModelKind::Rerank => self == Self::Reranker,
            ModelKind::Chat => self == Self::Llm,
            ModelKind::Ocr | ModelKind::Library => false,
        }
    }
}

/// The names of the models of a kind that a pipeline asks.
pub(crate) fn models_of_kind(pipeline: &PipelineConfig, kind: ModelKind) -> BTreeSet<&str> {
    let asked = pipeline.values().flat_map(|(_, value)| value.estimate_calls(InputSize::default()));
    asked.filter(|ask| ask.kind == kind).map(|ask| ask.model).collect()
}

/// Why a part gave no reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartUnavailable {
    /// Its process ended. What it was asked may have been done.
    Died(String),
    /// It takes no more requests now.
    Busy(String),
    /// Anything else.
    Failed(String),
}

/// How one part calls the others.
pub trait PartTransport: Send + Sync {
    /// Asks a part, which replies as [`crate::RunPipeline::reply`] does: once, or several times if
    /// it `streams`. Dropping the replies ends its work.
    fn call(&self, part: Part, streams: bool, request: Vec<u8>)
    -> BoxStream<'static, Result<Vec<u8>, PartUnavailable>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_found_by_its_name_and_no_other_name_is_a_part() {
        let names = Part::ALL.map(Part::name);
        assert_eq!(names, ["encoder", "vector_store", "retriever", "reranker", "llm", "qa", "gateway"]);
        for part in Part::ALL {
            assert_eq!(Part::named(part.name()), Some(part));
        }
        for name in ["", "Encoder", "vector store", "judge"] {
            assert_eq!(Part::named(name), None);
        }
    }

    #[test]
    fn models_of_each_kind_are_in_one_part_and_those_of_libraries_in_none() {
        let holders = |kind| Part::ALL.into_iter().filter(|part| part.holds(kind)).map(Part::name).collect::<Vec<_>>();
        assert_eq!(holders(ModelKind::Embedding), ["encoder"]);
        assert_eq!(holders(ModelKind::Rerank), ["reranker"]);
        assert_eq!(holders(ModelKind::Chat), ["llm"]);
        assert_eq!(holders(ModelKind::Library), [""; 0]);
    }

    #[test]
    fn the_models_of_a_kind_are_those_that_a_stage_of_the_pipeline_asks_each_once() {
        let pipeline = |settings: serde_json::Value| serde_json::from_value::<PipelineConfig>(settings).unwrap();
        let of = |pipeline: &PipelineConfig, kind| {
            models_of_kind(pipeline, kind).into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        let rich = pipeline(serde_json::json!({
            "chunker": { "sentence": {} }, "retriever": { "bm25": {} }, "embedder": "small",
            "query": { "hyde": { "model": "gpt" } }, "reranker": { "cross_encoder": { "model": "ranker" } },
            "generator": { "compact": { "model": "gpt" } },
        }));
        assert_eq!(of(&rich, ModelKind::Chat), ["gpt"]);
        assert_eq!(of(&rich, ModelKind::Rerank), ["ranker"]);
        let bare = pipeline(serde_json::json!({ "chunker": { "sentence": {} }, "retriever": { "bm25": {} } }));
        for kind in [ModelKind::Chat, ModelKind::Rerank, ModelKind::Embedding] {
            assert_eq!(of(&bare, kind), [""; 0]);
        }
    }
}
