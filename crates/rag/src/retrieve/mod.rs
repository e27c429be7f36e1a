//! `retrieve`: a query becomes hits.

mod existing;
mod fusion;
mod placing;

pub use existing::IndexMetric;

pub(crate) use fusion::{reciprocal_rank, reciprocal_rank_of_passages};

use crate::{
    AxisValue, Error, Hit, Passage,
    analysis::TextAnalysis,
    chunk::WAITS,
    component::{components, default_candidates, ensure},
    corpus::{Corpus, Query, VectorSearch},
    filter::Filter,
    index::{Bm25Index, DatabaseIndex, DenseIndex, GraphIndex, Saturation},
};
use async_trait::async_trait;
use databases::{DatabaseQuery, RecordFilter, SearchOptions};
use futures::FutureExt;
use rayon::prelude::*;
use std::collections::HashSet;

components! {
    /// Which retriever, and its settings.
    #[derive(schemars::JsonSchema)]
    pub enum RetrieverConfig builds Box<dyn Retriever>, each crate::Component {
        Dense => dense,
        Bm25 => bm25,
        Hybrid => hybrid,
        Mmr => mmr,
        Pgvector => pgvector,
        Chroma => chroma,
        Qdrant => qdrant,
        Milvus => milvus,
        Elasticsearch => elasticsearch,
        Http => http,
        Python => python,
        None => none,
    }
}

impl AxisValue for RetrieverConfig {
    fn unused() -> Option<Self> {
        Self::nothing()
    }
}

/// What a retriever found: a list for each query, best first.
#[derive(Debug, Clone, PartialEq)]
pub enum SearchOutput {
    /// Chunks.
    Hits(Vec<Vec<Hit>>),
    /// Passages of the retriever's own. A passage that stands in no document has an empty span and no rows.
    Passages(Vec<Vec<Passage>>),
}

/// Finds chunks for queries. Deterministic: equal scores are ordered by row.
///
/// A retriever that asks no model computes without waiting. It is called on a
/// thread that may block; a small corpus is searched on the caller's own thread
/// instead, unless the retriever runs a user's function.
#[async_trait]
pub trait Retriever: Send + Sync {
    /// For each query at most `top_k` hits, best first.
    ///
    /// # Errors
    /// If an index is missing that its settings name, or a model fails.
    async fn retrieve(&self, queries: &[Query<'_>], corpus: &Corpus<'_>) -> Result<Vec<Vec<Hit>>, Error>;

    /// What is found for each query. A retriever whose passages are not chunks returns them here, and in
    /// [`Retriever::retrieve`] the chunks that they touch.
    ///
    /// # Errors
    /// As of [`Retriever::retrieve`].
    async fn search(&self, queries: &[Query<'_>], corpus: &Corpus<'_>) -> Result<SearchOutput, Error> {
        self.retrieve(queries, corpus).await.map(SearchOutput::Hits)
    }

    /// How many candidates each of its searches returns, for a retriever that then chooses its hits among them
    /// (`hybrid`, `mmr`). `None` for a retriever that returns the first hits of a single search.
    fn searched_candidates(&self) -> Option<usize> {
        None
    }

    /// Searches each query down to rank `depth`, to find the rank of a chunk that was not retrieved.
    ///
    /// Returns for each query all chunks that its searches find, best first. `top_k`, a limit on scores and the
    /// choice among candidates do not apply. By default it calls [`Retriever::retrieve`], for retrievers that
    /// cannot search deeper.
    ///
    /// # Errors
    /// As of [`Retriever::retrieve`].
    async fn retrieve_deeper(
        &self,
        queries: &[Query<'_>],
        corpus: &Corpus<'_>,
        depth: usize,
    ) -> Result<Vec<Vec<Hit>>, Error> {
        let _ = depth;
        self.retrieve(queries, corpus).await
    }

    /// [`Retriever::retrieve`] of a retriever that never waits.
    ///
    /// # Errors
    /// As of [`Retriever::retrieve`], and if it waits for a model after all.
    fn retrieve_now(&self, queries: &[Query<'_>], corpus: &Corpus<'_>) -> Result<Vec<Vec<Hit>>, Error> {
        let waits = || Err(Error::Failed { component: "retriever", reason: WAITS.to_owned() });
        self.retrieve(queries, corpus).now_or_never().unwrap_or_else(waits)
    }
}

/// Best first, equal scores by row.
fn sort(hits: &mut [Hit]) {
    hits.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.row.cmp(&b.row)));
}

/// The chunks that passages touch, each with the score of the first passage that does.
fn touched(passages: &[Passage]) -> Vec<Hit> {
    let mut seen = HashSet::new();
    let hits = passages.iter().flat_map(|passage| passage.rows.iter().map(|&row| Hit { row, score: passage.score }));
    hits.filter(|hit| seen.insert(hit.row)).collect()
}

/// The nearest chunks for each query, best first, equal scores by row.
async fn dense_search(
    component: &'static str,
    queries: &[Query<'_>],
    corpus: &Corpus<'_>,
    k: usize,
) -> Result<Vec<Vec<Hit>>, Error> {
    let vectors: Option<Vec<&[f32]>> = queries.iter().map(|query| query.embedding).collect();
    let vectors = vectors.ok_or(Error::Needs { component, part: "a vector of the question" })?;
    if let VectorSearch::Database(search) = corpus.vector_search {
        let database = corpus.index::<DatabaseIndex>(component)?;
        return database_search((database, search.options(k)), queries, &vectors, corpus).await;
    }
    let index = corpus.index::<DenseIndex>(component)?;
    let graph = match corpus.vector_search {
        VectorSearch::Graph { ef } => Some((corpus.index::<GraphIndex>(component)?, ef)),
        VectorSearch::Exact | VectorSearch::Database(_) => None,
    };
    let among_all = |vectors: &[&[f32]]| match graph {
        Some((graph, ef)) => graph.search(index, vectors, k, ef),
        None => index.search(vectors, k),
    };
    let among = |vector: &[f32], entries: &[u32]| match graph {
        Some((graph, ef)) => graph.search_among(index, vector, k, ef, entries),
        None => index.search_among(vector, k, entries),
    };
    if queries.iter().all(|query| query.filter.is_none()) {
        return Ok(among_all(&vectors)?.into_iter().map(|found| corpus.hits(found)).collect());
    }
    let one = |(query, vector): (&Query<'_>, &[f32])| {
        Ok(corpus.hits(match query.filter {
            Some(filter) => among(vector, &corpus.table.entries_passing(filter)?.entries())?,
            None => among_all(&[vector])?.pop().unwrap_or_default(),
        }))
    };
    queries.iter().zip(vectors).map(one).collect()
}

/// [`dense_search`] by a database that holds the vectors.
async fn database_search(
    (database, options): (&DatabaseIndex, SearchOptions),
    queries: &[Query<'_>],
    vectors: &[&[f32]],
    corpus: &Corpus<'_>,
) -> Result<Vec<Vec<Hit>>, Error> {
    let mut filters = Vec::with_capacity(queries.len());
    for query in queries {
        let passing = query.filter.map(|filter| corpus.table.entries_passing(filter)).transpose()?;
        filters.push((passing, query.filter.and_then(Filter::record_filter)));
    }
    let is_asked = |place: &usize| filters[*place].0.is_none() || filters[*place].1.is_some();
    let asked: Vec<usize> = (0..queries.len()).filter(is_asked).collect();
    let of = |&place: &usize| DatabaseQuery { vector: vectors[place], filter: filters[place].1.as_ref() };
    let found = database.search(&asked.iter().map(of).collect::<Vec<_>>(), &options).await?;
    let mut hits: Vec<Option<Vec<Hit>>> = vec![None; queries.len()];
    for (place, found) in asked.into_iter().zip(found) {
        hits[place] = found.map(|found| corpus.hits(found));
    }
    // A filter that the database has no words for, or that it cannot follow to its end, is answered exactly: from the
    // vectors, if they are here too, or by the database among the records that pass.
    let dense = corpus.indexes.iter().find_map(|index| index.get::<DenseIndex>());
    let mut left: Vec<(usize, RecordFilter)> = Vec::new();
    for (place, hits) in hits.iter_mut().enumerate().filter(|(_, hits)| hits.is_none()) {
        match (&filters[place].0, dense) {
            (None, _) => *hits = Some(Vec::new()),
            (Some(passing), Some(dense)) => {
                *hits = Some(corpus.hits(dense.search_among(vectors[place], options.top, &passing.entries())?));
            }
            (Some(passing), None) => left.push((place, RecordFilter::of_entries(&passing.entries()))),
        }
    }
    let among = left.iter().map(|(place, filter)| DatabaseQuery { vector: vectors[*place], filter: Some(filter) });
    let (among, exact): (Vec<_>, _) = (among.collect(), SearchOptions { exact: true, ..options });
    for (found, (place, _)) in database.search(&among, &exact).await?.into_iter().zip(&left) {
        hits[*place] = Some(corpus.hits(found.unwrap_or_default()));
    }
    Ok(hits.into_iter().map(Option::unwrap_or_default).collect())
}

/// Settings of a search by words: how texts are cut into terms, and how terms are weighed.
#[derive(Debug, Clone, PartialEq)]
struct WordSearch {
    analysis: TextAnalysis,
    saturation: Saturation,
}

/// The [`WordSearch`] of a retriever's settings.
macro_rules! word_search {
    ($config:expr) => {
        $crate::retrieve::WordSearch {
            analysis: $crate::analysis::TextAnalysis {
                language: $config.language,
                tokens: $config.tokens,
                stemmer: $config.stemmer,
                stop_words: $config.stop_words,
            },
            saturation: $crate::index::Saturation { k1: $config.k1, b: $config.b },
        }
    };
}
use word_search;

/// The largest `k1`. It keeps the weights of terms well within the range of an `f32`.
const MOST_K1: f32 = 1000.0;

fn check_word_search(component: &'static str, search: &WordSearch) -> Result<(), Error> {
    let Saturation { k1, b } = search.saturation;
    ensure(component, (0.0..=MOST_K1).contains(&k1), format!("k1 is {k1}, but must be from 0 to {MOST_K1}"))?;
    ensure(component, (0.0..=1.0).contains(&b), format!("b is {b}, but must be from 0 to 1"))
}

/// The chunks that share words with each query, best first, equal scores by row.
fn bm25_search(
    component: &'static str,
    queries: &[Query<'_>],
    corpus: &Corpus<'_>,
    k: usize,
    search: &WordSearch,
) -> Result<Vec<Vec<Hit>>, Error> {
    let index = corpus.index::<Bm25Index>(component)?;
    let reason = "the BM25 index was made with another `language`, `tokens`, `stemmer` or `stop_words`";
    ensure(component, index.fits(&search.analysis), reason)?;
    let one = |query: &Query<'_>| {
        let passing = query.filter.map(|filter| corpus.table.entries_passing(filter)).transpose()?;
        let passes = |entry: u32| passing.as_ref().is_none_or(|passing| passing.has(entry));
        Ok(corpus.hits(index.search_where(query.text, k, search.saturation, passes)))
    };
    match queries {
        // Handing it to another thread takes longer than most searches.
        [query] => Ok(vec![one(query)?]),
        queries => queries.par_iter().map(one).collect(),
    }
}

/// The methods of [`Component`](crate::Component) that follow from a retriever's `top_k`, inside their `impl`.
macro_rules! finds_top_k {
    ($( $candidates:ident )?) => {
        fn estimate_output(&self, item: $crate::InputSize) -> $crate::InputSize {
            item.with_passages(self.top_k)
        }
        $crate::component::limited_by!(top_k $(, $candidates)?);
    };
}
use finds_top_k;

fn check_top_k(component: &'static str, top_k: usize) -> Result<(), Error> {
    ensure(component, top_k > 0, "top_k must be at least 1")
}

/// The number of candidates: the setting, or its default.
fn check_candidates(component: &'static str, top_k: usize, candidates: Option<usize>) -> Result<usize, Error> {
    let candidates = candidates.unwrap_or_else(|| default_candidates(top_k));
    let reason = format!("candidates is {candidates}, but must be at least top_k, which is {top_k}");
    ensure(component, candidates >= top_k, reason).map(|()| candidates)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{
        Chunk, ChunkTable, Component as _, Context, Span,
        index::{OpenIndex, tests::open_text_indexes},
    };
    use models::Matrix;
    use std::sync::Arc;

    /// Five chunks, the first of them a parent that is not searched.
    pub(crate) struct Fixture {
        pub(crate) table: Arc<ChunkTable>,
        pub(crate) indexes: Vec<Arc<OpenIndex>>,
    }

    impl Fixture {
        pub(crate) fn new() -> Self {
            Self::with_vectors(&[[1.0, 0.0], [0.8, 0.6], [0.6, 0.8], [0.0, 1.0]])
        }

        /// Vectors of rows 1 to 4.
        pub(crate) fn with_vectors(vectors: &[[f32; 2]; 4]) -> Self {
            let texts = [
                "all",
                "the cat sat on the mat",
                "the dog chased the cat",
                "dogs and cats running",
                "a quick brown fox",
            ];
            let chunk = |(number, text): (u32, &str)| Chunk {
                document: "animals.txt".to_owned(),
                number,
                span: Span { start: 30 * number as usize, end: 30 * number as usize + text.len() },
                text: text.to_owned(),
                searchable: number > 0,
                level: u8::from(number > 0),
                parent: (number > 0).then_some(0),
                previous: None,
                next: None,
                page: None,
                book: None,
                heading: None,
                metadata: Default::default(),
                space: Default::default(),
            };
            let table = Arc::new(ChunkTable::new((0u32..).zip(texts).map(chunk).collect()));
            let dense = DenseIndex::from_matrix(&Matrix { columns: 2, data: vectors.concat() }).unwrap();
            Self { table, indexes: opened(dense, &texts[1..]) }
        }

        pub(crate) fn corpus(&self) -> Corpus<'_> {
            Corpus::exact(&self.table, &self.indexes)
        }

        pub(crate) fn open(self) -> crate::pipeline::OpenCorpus {
            crate::pipeline::OpenCorpus { table: self.table, indexes: self.indexes, vector_search: VectorSearch::Exact }
        }

        pub(crate) fn query<'a>(&self, text: &'a str, embedding: &'a [f32]) -> Query<'a> {
            Query { text, embedding: Some(embedding), tokens: None, filter: None }
        }
    }

    /// A dense index, and an index of each kind that is made from texts.
    pub(crate) fn opened(dense: DenseIndex, texts: &[&str]) -> Vec<Arc<OpenIndex>> {
        let mut indexes = open_text_indexes(texts);
        indexes.insert(0, Arc::new(OpenIndex::new(dense)));
        indexes
    }

    pub(crate) fn rows(hits: &[Hit]) -> Vec<u32> {
        hits.iter().map(|hit| hit.row).collect()
    }

    #[test]
    fn every_retriever_gives_at_most_top_k_sorted_searchable_rows_and_the_same_again() {
        let fixture = Fixture::with_vectors(&[[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]);
        let queries = [fixture.query("cat dog fox", &[1.0, 0.0]), fixture.query("zebra", &[0.0, -1.0])];
        // Without a file there is no function.
        let has_chunks = |config: &RetrieverConfig| !config.is_nothing() && config.existing_index().is_none();
        let searches = |config: &RetrieverConfig| has_chunks(config) && config.build(&Context::default()).is_ok();
        for config in RetrieverConfig::defaults().into_iter().filter(searches) {
            let name = config.name();
            let smaller = serde_json::json!({ name: { "top_k": 2 } });
            for config in [config, serde_json::from_value(smaller).unwrap()] {
                let most = crate::Choice::value(&config)[name]["top_k"].as_u64().unwrap();
                let retriever = config.build(&Context::default()).unwrap();
                let found = retriever.retrieve_now(&queries, &fixture.corpus()).unwrap();
                assert_eq!(found, retriever.retrieve_now(&queries, &fixture.corpus()).unwrap(), "{name}");
                assert_eq!(found.len(), 2, "{name}");
                for hits in &found {
                    assert!(hits.len() as u64 <= most, "{name}");
                    assert!(
                        hits.is_sorted_by(|a, b| a.score > b.score || (a.score == b.score && a.row < b.row)),
                        "{name}: {hits:?}"
                    );
                    assert!(hits.iter().all(|hit| fixture.table.chunk(hit.row).searchable), "{name}");
                    assert!(hits.iter().all(|hit| hit.score.is_finite()), "{name}");
                }
                let alone = retriever.retrieve_now(&queries[1..], &fixture.corpus()).unwrap();
                assert_eq!(alone[0], found[1], "{name}: a query does not depend on its batch");
                assert!(retriever.retrieve_now(&[], &fixture.corpus()).unwrap().is_empty(), "{name}");
            }
        }
    }

    #[test]
    fn a_deeper_search_finds_at_least_what_is_retrieved() {
        let fixture = Fixture::with_vectors(&[[1.0, 0.0], [0.9, 0.4], [0.5, 0.8], [-1.0, 0.0]]);
        let queries = [fixture.query("cat dog fox", &[1.0, 0.0]), fixture.query("zebra", &[0.0, -1.0])];
        for name in ["dense", "bm25", "hybrid", "mmr", "none"] {
            let settings = if name == "none" { serde_json::json!({}) } else { serde_json::json!({ "top_k": 1 }) };
            let config: RetrieverConfig = serde_json::from_value(serde_json::json!({ name: settings })).unwrap();
            let retriever = config.build(&Context::default()).unwrap();
            let found = retriever.retrieve_now(&queries, &fixture.corpus()).unwrap();
            let deeper = retriever.retrieve_deeper(&queries, &fixture.corpus(), 4).now_or_never().unwrap().unwrap();
            assert_eq!(deeper.len(), found.len(), "{name}");
            for (deeper, found) in deeper.iter().zip(&found) {
                let deeper = rows(deeper);
                assert!(rows(found).iter().all(|row| deeper.contains(row)), "{name}: {found:?} in {deeper:?}");
            }
            // Each of the four chunks that are searched shares a word with the first query.
            assert_eq!(deeper[0].len(), if name == "none" { 0 } else { 4 }, "{name}");
            let chooses = matches!(name, "hybrid" | "mmr");
            assert_eq!(retriever.searched_candidates(), chooses.then_some(20), "{name}");
        }
    }

    #[test]
    fn settings_survive_writing_and_unknown_ones_are_refused() {
        for config in RetrieverConfig::defaults().into_iter().filter(|config| !config.is_nothing()) {
            let text = serde_json::to_value(&config).unwrap();
            assert_eq!(serde_json::from_value::<RetrieverConfig>(text).unwrap(), config);
            let misspelt = serde_json::json!({ config.name(): { "topk": 2 } });
            assert!(serde_json::from_value::<RetrieverConfig>(misspelt).unwrap_err().to_string().contains("topk"));
        }
    }

    #[test]
    fn an_index_of_other_chunks_is_refused() {
        let fixture = Fixture::new();
        let other = DenseIndex::from_matrix(&Matrix { columns: 2, data: vec![1.0, 0.0] }).unwrap();
        let corpus = Corpus { indexes: &[Arc::new(OpenIndex::new(other))], ..fixture.corpus() };
        let retriever = RetrieverConfig::defaults()[0].build(&Context::default()).unwrap();
        let error = retriever.retrieve_now(&[fixture.query("cat", &[1.0, 0.0])], &corpus).unwrap_err();
        assert!(error.to_string().contains("other chunks"));
    }
}
