//! Searches again with the retriever of a trial, for steps that write queries of their own.

use crate::{
    Component, Context, Error, Filter, Passage, PipelineConfig,
    chunk::Chunker,
    index::IndexKind,
    pipeline::find,
    retrieve::{Corpus, Query, Retriever},
};
use models::{Embedder, InputKind};

/// The retriever of a trial, with what turns a text into a search.
pub struct Searcher {
    chunker: Box<dyn Chunker>,
    retriever: Box<dyn Retriever>,
    /// Makes the vectors of queries, if the retriever compares them.
    embedder: Option<Embedder>,
}

impl Searcher {
    /// That of the pipeline that a step belongs to.
    ///
    /// # Errors
    /// If there is no pipeline, or a model is missing.
    pub fn new(component: &'static str, cx: &Context<'_>) -> Result<Self, Error> {
        let pipeline: &PipelineConfig =
            cx.pipeline.ok_or(Error::Needs { component, part: "the retriever of a pipeline, to search again" })?;
        let retriever = pipeline.searching();
        let compares = retriever.indexes().into_iter().any(IndexKind::compares_vectors);
        Ok(Self {
            chunker: pipeline.chunker.build(cx)?,
            retriever: retriever.build(cx)?,
            embedder: if compares { Some(cx.embedder(component)?) } else { None },
        })
    }

    /// The passages for each of these texts, best first. Only chunks that pass
    /// the filter are found.
    ///
    /// # Errors
    /// If a model fails, or an index is missing.
    pub async fn search(
        &self,
        texts: &[String],
        corpus: Corpus<'_>,
        filter: Option<&Filter>,
    ) -> Result<Vec<Vec<Passage>>, Error> {
        let vectors = match &self.embedder {
            Some(embedder) => Some(embedder.embed(texts, InputKind::Query).await?),
            None => None,
        };
        let embedding = |row| vectors.as_ref().map(|matrix| matrix.row(row));
        let queries: Vec<Vec<Query<'_>>> = texts
            .iter()
            .enumerate()
            .map(|(row, text)| vec![Query { text, embedding: embedding(row), tokens: None, filter }])
            .collect();
        find(&*self.chunker, &*self.retriever, &corpus, &queries).await
    }
}
