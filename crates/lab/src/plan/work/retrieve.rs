//! Questions to passages.

use super::{DescribeWork, KeyContext, Sizes, component, searched_index};
use crate::{
    operator::Operator,
    plan::{
        graph::{CorpusInputs, PlanInputs, TaskId},
        model_load::ModelLoad,
    },
};
use rag::{
    Choice, Component, InputSize, chunk::ChunkerConfig, index::IndexKind, pipeline::FUSION_VERSION,
    retrieve::RetrieverConfig, vector_index::VectorIndexConfig,
};
use serde::{Deserialize, Serialize};
use store::Key;

/// Retrieves for all questions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RetrieveWork {
    /// Turns the hits into passages, which some chunkers make larger than the chunks.
    pub(crate) chunker: ChunkerConfig,
    pub(crate) retriever: Box<RetrieverConfig>,
    /// How vectors are indexed, if not exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) index: Option<Box<VectorIndexConfig>>,
    /// The trial's embedder, if the retriever or the chunker needs it.
    pub(crate) embedder: Option<String>,
    pub(crate) corpus: CorpusInputs,
    /// The queries to search with, if they are not the questions themselves, and their vectors.
    pub(crate) written: Option<QueryTasks>,
}

/// Queries that were written for the questions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct QueryTasks {
    pub(crate) queries: TaskId,
    pub(crate) vectors: Option<TaskId>,
}

/// The name of an index of the user's own among the identities of a run; none if the retriever searches no such index.
pub(crate) fn existing_index_name(retriever: &RetrieverConfig) -> Option<String> {
    let index = retriever.existing_index()?;
    Some(format!("retriever.{}:{}", retriever.name(), index.index_name()))
}

impl DescribeWork for RetrieveWork {
    fn operator(&self) -> Operator {
        Operator::RETRIEVE
    }

    fn inputs(&self) -> Vec<TaskId> {
        let written = self.written.iter().flat_map(|written| std::iter::once(written.queries).chain(written.vectors));
        self.corpus.all().into_iter().chain(written).collect()
    }

    fn key(&self, cx: &KeyContext<'_>) -> Key {
        let questions: Vec<_> = cx.inputs.questions.iter().map(|question| (&question.id, &question.question)).collect();
        let builder = component(cx.builder("retrieve", &self.inputs()), &*self.retriever);
        let mut builder = component(builder, &self.chunker).field("questions", &questions);
        if self.written.is_some() {
            builder = builder.field("fusion", &FUSION_VERSION);
        }
        if let Some(index) = &self.index {
            builder = searched_index(builder, index);
        }
        // What an index of the user's own holds is not known from the settings.
        if let Some(name) = existing_index_name(&self.retriever) {
            builder = builder.field("state", &cx.inputs.identities.get(&name));
        }
        // Datasets without filters keep the keys that they had before there were any.
        if cx.inputs.questions.iter().any(|question| question.filter.is_some()) {
            let filters: Vec<_> = cx.inputs.questions.iter().map(|question| &question.filter).collect();
            builder = builder.field("filters", &filters);
        }
        // If the retriever searches an embedder's vectors, the embedder is in
        // the keys of the inputs already.
        let embeds = self.retriever.indexes().into_iter().any(IndexKind::embeds);
        let embedder = self.embedder.as_deref().filter(|_| !embeds);
        cx.with_models(builder, &*self.retriever, embedder).finish()
    }

    fn rows(&self, inputs: &PlanInputs<'_>) -> Option<usize> {
        Some(inputs.questions.len())
    }

    fn is_exclusive(&self) -> bool {
        false
    }

    fn component(&self) -> Option<(&dyn Choice, Option<&str>)> {
        Some((&*self.retriever, self.embedder.as_deref()))
    }

    fn counts_in_price(&self) -> bool {
        self.embedder.is_some() || !self.retriever.models().is_empty() || !self.chunker.models().is_empty()
    }

    fn estimate_calls<'a>(&'a self, sizes: &Sizes<'a>) -> Vec<(&'a str, ModelLoad)> {
        sizes.of_questions(&*self.retriever, InputSize::default(), 0..sizes.questions.len())
    }

    fn estimate_output(&self, sizes: &Sizes<'_>) -> InputSize {
        sizes.passages_of(&self.chunker, self.retriever.estimate_output(InputSize::default()))
    }
}
