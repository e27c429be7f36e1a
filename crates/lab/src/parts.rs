//! A trial in several processes: each opens one part of it and asks the others
//! for the rest, so that every part has machines and replicas of its own.
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
use rag::{Item, PipelineConfig};
use std::collections::BTreeSet;

/// A part of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Makes vectors.
    Encoder,
    /// Searches, and returns the text around a passage.
    VectorStore,
    /// Finds passages for questions.
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
            ModelKind::Library => false,
        }
    }
}

/// The names of the models of a kind that a pipeline asks.
pub(crate) fn models_of_kind(pipeline: &PipelineConfig, kind: ModelKind) -> BTreeSet<&str> {
    let asked = pipeline.values().flat_map(|(_, value)| value.estimate_calls(Item::default()));
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
