//! From a question to passages: queries, their vectors, the search, and the
//! steps after it.

use super::{ChunksElsewhere, Found, OpenCorpus};
use crate::{
    Choice, ChunkTable, Component, Error, Hit, Passage, PassageStep, PipelineConfig,
    chunk::Chunker,
    index::{DenseIndex, OpenIndex},
    python::{caller, computing_for},
    query::{QueryWriter, SearchQuery, Written, standalone, vectors},
    retrieve::{Corpus, Query, Retriever, reciprocal_rank},
    trace,
};
use models::{Embedder, Matrix, Message, trace::within};
use std::sync::Arc;
use tracing::Span;

/// The constant of reciprocal rank fusion, used if a question has several queries.
const FUSION_K: u32 = 60;
/// Raise when hits of several queries are joined in another way. It is part of
/// the keys of retrievals that join hits.
pub const FUSION_VERSION: u32 = 1;

/// So few chunks, with so many numbers in all their vectors, are searched in
/// less time than it takes to hand a search to another thread and back, or in
/// little more.
const FEW_CHUNKS: usize = 10_000;
const FEW_NUMBERS: usize = 1 << 20;

/// The stages from question to passages.
pub(super) struct Search {
    pub(super) chunks: Chunks,
    /// Makes the vectors of queries, if a stage compares them.
    pub(super) embedder: Option<Embedder>,
    pub(super) chunker: Arc<dyn Chunker>,
    pub(super) query: Box<dyn QueryWriter>,
    pub(super) rewrites_question: bool,
    pub(super) retriever: Arc<dyn Retriever>,
    /// Whether no function of the user's own searches, which may take long.
    pub(super) computes_here: bool,
    pub(super) steps: Vec<Step>,
    pub(super) names: Names,
}

/// What is searched: here, or in another process.
pub(super) enum Chunks {
    Here(OpenCorpus),
    Elsewhere(Arc<dyn ChunksElsewhere>),
}

/// A stage between retrieval and answer.
pub(super) struct Step {
    /// The stage that it belongs to, and its component.
    pub(super) stage: &'static str,
    pub(super) name: String,
    pub(super) does: Box<dyn PassageStep>,
    /// Whether it must run where the chunks are.
    pub(super) reads_chunks: bool,
}

/// What the stages are called, for those who trace them.
pub(super) struct Names {
    pub(super) embedder: String,
    /// None where the question is searched as it is asked.
    pub(super) query: Option<String>,
    pub(super) retriever: trace::Named,
}

impl Names {
    pub(super) fn of(config: &PipelineConfig, embedder: Option<&str>) -> Self {
        let retriever = config.searching();
        let name = retriever.name().to_owned();
        let top_k = retriever.value()[&name]["top_k"].as_i64();
        Self {
            embedder: embedder.unwrap_or_default().to_owned(),
            query: (!config.query.is_nothing()).then(|| config.query.name().to_owned()),
            retriever: trace::Named { name, top_k },
        }
    }
}

impl Search {
    pub(super) fn corpus(&self) -> Option<&OpenCorpus> {
        match &self.chunks {
            Chunks::Here(corpus) => Some(corpus),
            Chunks::Elsewhere(_) => None,
        }
    }

    pub(super) async fn found(&self, question: &str, history: &[Message], at_most: usize) -> Result<Found, Error> {
        let writing = self.names.query.as_deref().map_or_else(Span::none, |name| trace::stage("query", name));
        let Written { mut queries, fallback } = within(writing, self.query.write(question, history)).await?;
        let alone = if self.rewrites_question { standalone(question, history, &queries) } else { question }.to_owned();
        let n_queries = queries.len();
        let filter = queries.first().and_then(|query| query.filter.clone());
        // Later stages compare passages with the question itself.
        let asked = SearchQuery::from(question);
        let at = queries.iter().position(|query| *query == asked).unwrap_or_else(|| {
            queries.push(asked);
            n_queries
        });
        let vectors = Arc::new(match &self.embedder {
            Some(embedder) => {
                let span = trace::stage("embed", &self.names.embedder);
                Some(within(span, vectors(embedder, &queries)).await?)
            }
            None => None,
        });
        queries.truncate(n_queries);
        let searching = trace::retrieval(&self.names.retriever, &alone, n_queries);
        let mut passages = match &self.chunks {
            Chunks::Here(corpus) => within(searching.clone(), self.find(corpus, queries, vectors.clone())).await?,
            Chunks::Elsewhere(chunks) => {
                let of_queries = |matrix: &Matrix| Matrix {
                    columns: matrix.columns,
                    data: matrix.data[..matrix.columns * n_queries].to_vec(),
                };
                let vectors = (*vectors).as_ref().map(of_queries);
                within(searching.clone(), chunks.find(&queries, vectors.as_ref())).await?
            }
        };
        trace::left(&searching, &passages);
        drop(searching);
        let mut remarks = Vec::new();
        if alone != question {
            remarks.push(format!("the question is searched as: {alone}"));
        }
        let nothing = ChunkTable::default();
        for (at_step, step) in self.steps.iter().enumerate() {
            let query = Query { filter: filter.as_ref(), ..query(&alone, &vectors, at) };
            let span = trace::stage(step.stage, &step.name);
            trace::given(&span, &passages);
            let refined = async {
                match &self.chunks {
                    Chunks::Here(corpus) => step.does.run_told(query, corpus.corpus(), passages).await,
                    Chunks::Elsewhere(chunks) if step.reads_chunks => chunks.step(at_step, query, passages).await,
                    Chunks::Elsewhere(_) => {
                        step.does.run_told(query, Corpus { table: &nothing, indexes: &[] }, passages).await
                    }
                }
            };
            let refined = within(span.clone(), refined).await?;
            passages = refined.passages;
            trace::left(&span, &passages);
            remarks.extend(refined.remarks);
        }
        passages.truncate(at_most);
        Ok(Found { passages, alone, fallback: fallback.map(|fallback| fallback.reason), remarks })
    }

    pub(super) async fn find(
        &self,
        corpus: &OpenCorpus,
        queries: Vec<SearchQuery>,
        vectors: Arc<Option<Matrix>>,
    ) -> Result<Vec<Passage>, Error> {
        if self.computes_here && is_small(corpus) {
            let searched = [queries_of(&queries, &vectors)];
            let mut found = find(&*self.chunker, &*self.retriever, &corpus.corpus(), &searched).await?;
            return Ok(found.pop().unwrap_or_default());
        }
        let (corpus, chunker, retriever) = (corpus.clone(), self.chunker.clone(), self.retriever.clone());
        let (caller, runtime) = (caller(), tokio::runtime::Handle::current());
        let span = Span::current();
        // A search computes, and a user's function may take long.
        let found = tokio::task::spawn_blocking(models::ledger::carry(move || {
            let _entered = span.entered();
            let (searched, corpus) = ([queries_of(&queries, &vectors)], corpus.corpus());
            let found = find(&*chunker, &*retriever, &corpus, &searched);
            computing_for(&caller, || runtime.block_on(found))
        }));
        let failed =
            |error: tokio::task::JoinError| Error::Failed { component: "retrieval", reason: error.to_string() };
        Ok(found.await.map_err(failed)??.pop().unwrap_or_default())
    }
}

fn is_small(corpus: &OpenCorpus) -> bool {
    let chunks = corpus.table.searchable().len();
    let dimensions = |index: &Arc<OpenIndex>| index.get::<DenseIndex>().map_or(0, DenseIndex::dimensions);
    chunks <= FEW_CHUNKS && corpus.indexes.iter().all(|index| chunks * dimensions(index) <= FEW_NUMBERS)
}

/// The queries with their vectors.
fn queries_of<'a>(queries: &'a [SearchQuery], vectors: &'a Option<Matrix>) -> Vec<Query<'a>> {
    let with_vector =
        |(i, one): (usize, &'a SearchQuery)| Query { filter: one.filter.as_ref(), ..query(&one.words, vectors, i) };
    queries.iter().enumerate().map(with_vector).collect()
}

fn query<'a>(text: &'a str, vectors: &'a Option<Matrix>, row: usize) -> Query<'a> {
    Query { text, embedding: vectors.as_ref().map(|matrix| matrix.row(row)), tokens: None, filter: None }
}

/// The passages of questions. Each question is searched with one query or
/// several; the hits of several are joined by reciprocal rank fusion.
///
/// # Errors
/// If the retriever fails.
pub async fn find(
    chunker: &dyn Chunker,
    retriever: &dyn Retriever,
    corpus: &Corpus<'_>,
    questions: &[Vec<Query<'_>>],
) -> Result<Vec<Vec<Passage>>, Error> {
    let queries = questions.concat();
    let mut found = retriever.retrieve(&queries, corpus).await?;
    // A retriever of the user's own knows of no filter.
    for (query, hits) in queries.iter().zip(&mut found) {
        if let Some(filter) = query.filter {
            let passing = corpus.table.passing(filter)?;
            hits.retain(|hit| corpus.entry(hit.row).is_some_and(|entry| passing.mask[entry as usize]));
        }
    }
    let mut found = found.into_iter();
    let joined = questions.iter().map(|queries| join(found.by_ref().take(queries.len()).collect()));
    Ok(joined.map(|hits| chunker.context(hits, corpus.table)).collect())
}

/// Joins the lists into one, as long as the longest.
fn join(mut lists: Vec<Vec<Hit>>) -> Vec<Hit> {
    match lists.len() {
        0 | 1 => lists.pop().unwrap_or_default(),
        _ => {
            let longest = lists.iter().map(Vec::len).max().unwrap_or_default();
            let mut hits = reciprocal_rank(&lists.iter().map(Vec::as_slice).collect::<Vec<_>>(), FUSION_K);
            hits.truncate(longest);
            hits
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_of_several_queries_are_joined_and_no_row_comes_twice() {
        let hits = |rows: &[u32]| rows.iter().map(|&row| Hit { row, score: 1.0 }).collect::<Vec<_>>();
        let joined: Vec<u32> = join(vec![hits(&[1, 2]), hits(&[2, 3])]).iter().map(|hit| hit.row).collect();
        assert_eq!(joined, [2, 1]);
        assert_eq!(join(vec![hits(&[4, 5])]), hits(&[4, 5]));
        assert!(join(Vec::new()).is_empty());
    }
}
