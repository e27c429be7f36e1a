//! Searches again with the retriever of a trial, for steps that write queries of their own.

use crate::{
    Component, Context, Error, Filter, Passage, PipelineConfig,
    corpus::Corpus,
    pipeline::SearchStages,
    query::{SearchQuery, vectors},
};
use models::Embedder;

/// The retriever and chunker of a trial ([`SearchStages`]), and the embedder that makes the
/// vectors of its searches. Without the stages that follow in the trial: the step that
/// searches again is one of these.
pub(crate) struct Searcher {
    stages: SearchStages,
    /// Makes the vectors of queries, if the retriever compares them.
    embedder: Option<Embedder>,
}

impl Searcher {
    /// The searcher of the pipeline that a step belongs to. Fails if there is no
    /// pipeline, or a model is missing.
    pub(crate) fn new(component: &'static str, cx: &Context<'_>) -> Result<Self, Error> {
        let pipeline: &PipelineConfig =
            cx.pipeline.ok_or(Error::Needs { component, part: "the retriever of a pipeline, to search again" })?;
        let compares = pipeline.search_retriever().compares_question();
        let embedder = if compares { Some(cx.embedder(component)?) } else { None };
        Ok(Self { stages: SearchStages::new(pipeline, cx)?, embedder })
    }

    /// The passages for a text, best first, from chunks that pass the filter. Fails if
    /// a model fails, or an index is missing.
    pub(crate) async fn search(
        &self,
        text: &str,
        corpus: Corpus<'_>,
        filter: Option<&Filter>,
    ) -> Result<Vec<Passage>, Error> {
        let search = SearchQuery { filter: filter.cloned(), ..text.into() };
        let vectors = match &self.embedder {
            Some(embedder) => Some(vectors(embedder, std::slice::from_ref(&search)).await?),
            None => None,
        };
        let found = self.stages.search(corpus, vec![vec![search]], vectors).await?;
        Ok(found.into_iter().flat_map(|found| found.passages).collect())
    }
}
