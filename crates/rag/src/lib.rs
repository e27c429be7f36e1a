//! The stages of a RAG pipeline, `parse → chunk → enrich → embed → index →
//! query → retrieve → rerank → refine → prompt → generate`, and the data that flows
//! between them; and systems, which are pipelines that are not ours, asked as they are. This crate knows nothing of
//! metrics or experiments.
//!
//! A stage is a folder and one line in the table below, which lists what can be
//! chosen; `index` has only a folder, because retrievers, rerankers and the axis `index`
//! (`vector_index`) decide which indexes are made. A component (a
//! chunker, a retriever, …) is one file in the folder and one line in its `mod.rs`.

pub mod analysis;
mod axes;
mod component;
mod corpus;
mod database;
pub mod fence;
pub mod filter;
pub mod index;
#[cfg(test)]
mod languages_tests;
mod lines;
pub mod load;
#[cfg(test)]
mod pins_tests;
pub mod pipeline;
pub mod python;
mod searcher;
mod stage;
pub mod system;
mod table;
mod trace;
mod types;

use serde::{Deserialize, Serialize};
use std::time::Duration;

axes::stages! {
    /// How files are read: by Reverie, or by a program or a function of yours; for all files or for some.
    Parse parse: parse::ParseConfig, in parse, Files => Documents;
    /// How a document is cut into chunks, which are what is searched.
    Chunker chunker: chunk::ChunkerConfig, in chunk, Documents => Chunks;
    /// What is searched beside a chunk's text. The answer is written from the text alone.
    Enrich enrich: enrich::EnrichConfig, in enrich, Chunks => Chunks;
    /// The model that makes vectors, by its name in the experiment.
    Embedder embedder: Option<embed::EmbedderName>, in embed, Chunks => Vectors;
    /// How vectors are indexed: exactly, or by an approximation that is faster for very many chunks.
    Index index: vector_index::VectorIndexConfig, in vector_index, Vectors => Vectors;
    /// What is searched for: the question as it was asked, or what a model makes of it.
    Query query: query::QueryConfig, in query, Questions => Queries;
    /// How chunks are found.
    Retriever retriever: retrieve::RetrieverConfig, in retrieve, Queries => Passages;
    /// How what was found is put into a better order.
    Reranker reranker: rerank::RerankerConfig, in rerank, Passages => Passages;
    /// What is done with the passages before the answer is written: one step, or a list of steps in their order.
    Refine refine: refine::RefineConfig, in refine, Passages => Passages;
    /// The instructions to the chat model. A path names a file of your own.
    // It does no work of its own: it replaces the generator's setting `prompt`, so it has the generator's input and
    // output.
    Prompt prompt: Option<prompt::PromptConfig>, in prompt, Passages => Answers;
    /// How the answer is written.
    Generator generator: Option<generate::GeneratorConfig>, in generate, Passages => Answers;
}

pub use axes::{ReadSpace, schema_of};
pub use component::{
    Choice, Component, Context, FileError, INSTRUCTION_TOKENS, InputSize, ModelCalls, Models, NamedModels,
    without_settings,
};
pub use corpus::{Corpus, DatabaseSearch, Query, VectorSearch};
pub use database::{ExistingCollectionSettings, ExistingIndexSettings, IndexPlace, SearchServiceSettings};
pub use filter::Filter;
pub use load::{Document, Format};
pub use pipeline::Pipeline;
pub use prompt::language_of_short_text;
pub(crate) use searcher::Searcher;
pub use stage::{AxisValue, Data, PassageStage, PassageStep, PassagesWithRemarks};
pub use table::{ChunkTable, ChunkTableWriter, TableChunk};
pub use types::{
    Answer, Chunk, Heading, Hit, MergedCells, Metadata, Page, Passage, ReadingProblem, ReadingProblemKind, Span, Table,
    TableFault,
};

/// Errors of stages, corpus sources and pipelines.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Settings that cannot work, alone or together.
    #[error("{component}: {reason}")]
    Config {
        /// The component, such as `chunker sentence`.
        component: &'static str,
        /// What is wrong and what to change.
        reason: String,
    },
    /// A component could not do its work.
    #[error("{component}: {reason}")]
    Failed {
        /// The component.
        component: &'static str,
        /// What happened.
        reason: String,
    },
    /// A user's function failed.
    #[error("{component}{}: {failure}", subject.as_ref().map(|subject| format!(": {subject}")).unwrap_or_default())]
    Function {
        /// The component.
        component: &'static str,
        /// What it was working on, such as a document's path.
        subject: Option<String>,
        /// What happened.
        failure: Box<python::Failure>,
    },
    /// Something that the component needs was not given.
    #[error("{component} needs {part}")]
    Needs {
        /// The component.
        component: &'static str,
        /// What is missing.
        part: &'static str,
    },
    /// An index that the component searches was not opened.
    #[error("{component} needs the {index}")]
    NeedsIndex {
        /// The component.
        component: &'static str,
        /// The missing index.
        index: &'static str,
    },
    /// A file of an index is not what was written.
    #[error("{path}: {reason}")]
    BadIndex {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// The corpus' address cannot be used.
    #[error("corpus source `{source_address}`: {reason}")]
    Source {
        /// The address as given.
        source_address: String,
        /// What is wrong and what to do.
        reason: String,
    },
    /// A model gave no answer.
    #[error(transparent)]
    Model(#[from] models::Error),
    /// A database of vectors failed.
    #[error(transparent)]
    Database(#[from] databases::Error),
    /// A part of the pipeline in another process gave no answer.
    #[error("{reason}")]
    Remote {
        /// What happened.
        reason: String,
        /// When another try may work, if one may.
        retry_after: Option<Duration>,
    },
}
