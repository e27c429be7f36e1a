//! From a question to passages: queries, their vectors, the search, and the
//! steps after it.

use super::{AskedQuestion, OpenCorpus, RemoteChunks, Retrieval, SearchableQuestion, searches};
use crate::{
    ChunkTable, Component, Context, Error, Hit, Passage, PassageStep, PassagesWithRemarks, PipelineConfig,
    chunk::Chunker,
    corpus::{Corpus, Query, VectorSearch},
    index::{DenseIndex, OpenIndex},
    python::{caller, on_behalf_of_blocking},
    query::{QueryWriter, SearchQuery, WrittenQueries, vectors},
    retrieve::{Retriever, SearchOutput, reciprocal_rank, reciprocal_rank_of_passages},
    trace,
};
use models::{Embedder, Matrix, trace::in_span};
use std::sync::Arc;
use tokio::runtime::{Handle, RuntimeFlavor};
use tracing::Span;

/// The constant of reciprocal rank fusion, used if a question has several queries.
const FUSION_K: u32 = 60;
/// Raise when hits of several queries are joined in another way. It is part of
/// the keys of retrievals that join hits.
pub const FUSION_VERSION: u32 = 1;

/// The limits of a small corpus, in chunks and in numbers of all their vectors.
/// Searching it takes about as long as handing the search to another thread.
const FEW_CHUNKS: usize = 10_000;
const FEW_NUMBERS: usize = 1 << 20;
/// The limit for the bytes of all queries: a query may be a long conversation.
const FEW_BYTES: usize = 8 << 10;

/// The stages of a pipeline from question to passages: the query writer, the search itself
/// (`stages`), and the stages after it (`steps`).
pub(super) struct Search {
    pub(super) chunks: ChunkAccess,
    /// Makes the vectors of queries, if a stage compares them.
    pub(super) embedder: Option<Embedder>,
    pub(super) retriever_compares: bool,
    /// Whether the retriever searches chunks, and not an index of the user's own.
    pub(super) searches_chunks: bool,
    /// Whether a step may compare the vector of the question.
    pub(super) steps_compare: bool,
    pub(super) query: Box<dyn QueryWriter>,
    pub(super) rewrites_question: bool,
    /// Retriever and chunker.
    pub(super) stages: SearchStages,
    /// Reranking and refining, in their order.
    pub(super) steps: Vec<StageStep>,
    pub(super) names: StageNames,
}

/// What is searched: here, or in another process.
pub(super) enum ChunkAccess {
    Here(OpenCorpus),
    Remote(Arc<dyn RemoteChunks>),
}

/// A whole stage between retrieval and answer, such as `refine` with all items of its list.
pub(super) struct StageStep {
    /// The stage that it belongs to, and its component.
    pub(super) stage: &'static str,
    pub(super) name: String,
    pub(super) runner: Box<dyn PassageStep>,
    /// Whether it must run where the chunks are.
    pub(super) reads_chunks: bool,
}

/// The names of the stages, for traces.
pub(super) struct StageNames {
    pub(super) embedder: String,
    /// None where the question is searched as it is asked.
    pub(super) query: Option<String>,
    pub(super) retriever: trace::RetrieverSpan,
}

impl StageNames {
    pub(super) fn of(config: &PipelineConfig, embedder: Option<&str>) -> Self {
        let retriever = config.search_retriever();
        let name = retriever.name().to_owned();
        let top_k = retriever.limit().and_then(|top_k| i64::try_from(top_k).ok());
        Self {
            embedder: embedder.unwrap_or_default().to_owned(),
            query: (!config.query.is_nothing()).then(|| config.query.name().to_owned()),
            retriever: trace::RetrieverSpan { name, top_k },
        }
    }
}

impl Search {
    pub(super) fn corpus(&self) -> Option<&OpenCorpus> {
        match &self.chunks {
            ChunkAccess::Here(corpus) => Some(corpus),
            ChunkAccess::Remote(_) => None,
        }
    }

    pub(super) async fn retrieve_question(&self, asked: AskedQuestion<'_>, at_most: usize) -> Result<Retrieval, Error> {
        let writing = self.names.query.as_deref().map_or_else(Span::none, |name| trace::stage("query", name));
        let WrittenQueries { queries, fallback } =
            in_span(writing, self.query.write(asked.text, asked.history)).await?;
        let question = SearchableQuestion::new(self.rewrites_question, asked, queries);
        let QuestionVectors { searches, standalone } = self.embed(&question).await?;
        let searching = trace::retrieval(&self.names.retriever, &question.standalone, question.queries.len());
        let find = async {
            match &self.chunks {
                ChunkAccess::Here(corpus) => self.find(corpus, question.queries.clone(), searches).await,
                ChunkAccess::Remote(chunks) => chunks.find(&question.queries, searches.as_ref()).await,
            }
        };
        let PassagesWithRemarks { mut passages, mut remarks, .. } = in_span(searching.clone(), find).await?;
        trace::record_output(&searching, &passages);
        drop(searching);
        let nothing = Arc::new(ChunkTable::default());
        for (at_step, step) in self.steps.iter().enumerate() {
            let query = question.for_steps(standalone.as_deref(), None);
            let span = trace::stage(step.stage, &step.name);
            trace::record_input(&span, &passages);
            let refined = async {
                match &self.chunks {
                    ChunkAccess::Here(corpus) => step.runner.run_with_remarks(query, corpus.corpus(), passages).await,
                    ChunkAccess::Remote(chunks) if step.reads_chunks => chunks.step(at_step, query, passages).await,
                    ChunkAccess::Remote(_) => {
                        step.runner.run_with_remarks(query, Corpus::exact(&nothing, &[]), passages).await
                    }
                }
            };
            let refined = in_span(span.clone(), refined).await?;
            passages = refined.passages;
            trace::record_output(&span, &passages);
            remarks.extend(refined.remarks);
        }
        passages.truncate(at_most);
        let fallback = fallback.map(|fallback| fallback.reason);
        Ok(Retrieval { passages, standalone: question.standalone, fallback, remarks })
    }

    /// The vectors of a question's searches, if the retriever compares vectors,
    /// and that of its standalone text, if a step may compare it.
    async fn embed(&self, question: &SearchableQuestion) -> Result<QuestionVectors, Error> {
        let Some(embedder) = &self.embedder else { return Ok(QuestionVectors::default()) };
        let embedding = trace::stage("embed", &self.names.embedder);
        let embed = async {
            let mut texts = if self.retriever_compares { question.queries.clone() } else { Vec::new() };
            let n_searches = texts.len();
            let mut row = question.standalone_query().filter(|_| self.retriever_compares);
            if row.is_none() && self.steps_compare {
                texts.push(question.standalone.as_str().into());
                row = Some(n_searches);
            }
            let mut matrix = vectors(embedder, &texts).await?;
            let standalone = row.filter(|_| self.steps_compare).map(|row| matrix.row(row).to_vec());
            matrix.data.truncate(n_searches * matrix.columns);
            Ok(QuestionVectors { searches: self.retriever_compares.then_some(matrix), standalone })
        };
        in_span(embedding, embed).await
    }

    pub(super) async fn find(
        &self,
        corpus: &OpenCorpus,
        queries: Vec<SearchQuery>,
        vectors: Option<Matrix>,
    ) -> Result<PassagesWithRemarks, Error> {
        Ok(self.stages.search(corpus.corpus(), vec![queries], vectors).await?.pop().unwrap_or_default())
    }
}

/// The vectors of one question.
#[derive(Default)]
struct QuestionVectors {
    /// A row for each search.
    searches: Option<Matrix>,
    /// The vector of the standalone text.
    standalone: Option<Vec<f32>>,
}

/// Retriever and chunker of a trial, which turn queries into passages. Part of
/// [`Search`], for a question, and of [`Searcher`](crate::Searcher), for a step that
/// searches again.
pub(crate) struct SearchStages {
    /// Turns the hits of the retriever into passages ([`Chunker::context`]).
    chunker: Arc<dyn Chunker>,
    retriever: Arc<dyn Retriever>,
    /// Whether they only compute; a user's own function may take long.
    computes: bool,
}

impl SearchStages {
    /// Makes the stages of a pipeline. Fails if settings cannot work or a model is
    /// missing.
    pub(crate) fn new(config: &PipelineConfig, cx: &Context<'_>) -> Result<Self, Error> {
        Ok(Self {
            chunker: config.chunker.build(cx)?.into(),
            retriever: config.search_retriever().build(cx)?.into(),
            computes: !(config.chunker.runs_function() || config.retriever.runs_function()),
        })
    }

    /// The passages of questions. Each has one search or several; `vectors` has
    /// a row for each search of all questions, in order.
    ///
    /// A search computes and would block the other tasks of its thread. The search
    /// of one question stays on its thread, and the runtime moves the other tasks
    /// (`block_in_place`): waking another thread twice would take a tenth of the
    /// time of a search in 100,000 chunks. A batch and a user's function get a
    /// thread of their own.
    pub(crate) async fn search(
        &self,
        corpus: Corpus<'_>,
        questions: Vec<Vec<SearchQuery>>,
        vectors: Option<Matrix>,
    ) -> Result<Vec<PassagesWithRemarks>, Error> {
        if self.computes && is_small(&corpus) && is_short(&questions) {
            return find(&*self.chunker, &*self.retriever, &corpus, &searches(&questions, vectors.as_ref())).await;
        }
        let runtime = Handle::current();
        if self.computes && questions.len() == 1 && runtime.runtime_flavor() == RuntimeFlavor::MultiThread {
            let searches = searches(&questions, vectors.as_ref());
            let found = find(&*self.chunker, &*self.retriever, &corpus, &searches);
            #[expect(
                clippy::disallowed_methods,
                reason = "a client waits, and a thread that sleeps would wake up late"
            )]
            return tokio::task::block_in_place(|| runtime.block_on(found));
        }
        let (chunker, retriever) = (self.chunker.clone(), self.retriever.clone());
        let (table, indexes, vector_search) = (corpus.table.clone(), corpus.indexes.to_vec(), corpus.vector_search);
        // The labels of the trials that this search is for: they stand before the lines that a user's function prints.
        let (caller, span) = (caller(), Span::current());
        let found = tokio::task::spawn_blocking(models::ledger::carry(move || {
            let _entered = span.entered();
            let (corpus, queries) =
                (Corpus { table: &table, indexes: &indexes, vector_search }, searches(&questions, vectors.as_ref()));
            let found = find(&*chunker, &*retriever, &corpus, &queries);
            on_behalf_of_blocking(&caller, || runtime.block_on(found))
        }));
        let failed =
            |error: tokio::task::JoinError| Error::Failed { component: "retrieval", reason: error.to_string() };
        found.await.map_err(failed)?
    }
}

/// Whether queries are short enough to be searched on the request's own thread.
fn is_short(questions: &[Vec<SearchQuery>]) -> bool {
    let bytes = |query: &SearchQuery| query.words.len() + query.text.len();
    questions.iter().flatten().map(bytes).sum::<usize>() <= FEW_BYTES
}

fn is_small(corpus: &Corpus<'_>) -> bool {
    let chunks = corpus.table.searchable().len();
    let dimensions = |index: &Arc<OpenIndex>| index.get::<DenseIndex>().map_or(0, DenseIndex::dimensions);
    // A search that waits for a database is no work for this thread.
    !matches!(corpus.vector_search, VectorSearch::Database(_))
        && chunks <= FEW_CHUNKS
        && corpus.indexes.iter().all(|index| chunks * dimensions(index) <= FEW_NUMBERS)
}

/// The passages of questions. Each question is searched with one query or
/// several; the hits of several are joined by reciprocal rank fusion. A remark
/// names a filter if all chunks that pass it were found.
///
/// # Errors
/// If the retriever fails.
pub async fn find(
    chunker: &dyn Chunker,
    retriever: &dyn Retriever,
    corpus: &Corpus<'_>,
    questions: &[Vec<Query<'_>>],
) -> Result<Vec<PassagesWithRemarks>, Error> {
    let queries = questions.concat();
    let mut found = match retriever.search(&queries, corpus).await? {
        SearchOutput::Hits(found) => found,
        SearchOutput::Passages(found) => return join_passages(corpus, questions, found),
    };
    let remarks = queries.iter().zip(&mut found).map(|(query, hits)| apply_filter(query, hits, corpus));
    let remarks = remarks.collect::<Result<Vec<_>, Error>>()?;
    let (mut found, mut remarks) = (found.into_iter(), remarks.into_iter());
    let joined = questions.iter().map(|queries| {
        let hits = join(found.by_ref().take(queries.len()).collect());
        let mut notes: Vec<String> = remarks.by_ref().take(queries.len()).flatten().collect();
        notes.dedup();
        PassagesWithRemarks { remarks: notes, ..chunker.context(hits, corpus.table).into() }
    });
    Ok(joined.collect())
}

/// Joins the passages of each question's queries, for a retriever that finds passages of its own. With a filter, only
/// passages that overlap a chunk which passes it are kept; where there are no chunks to search, the retriever has followed
/// the filter itself. A remark counts the passages that are in no document.
fn join_passages(
    corpus: &Corpus<'_>,
    questions: &[Vec<Query<'_>>],
    found: Vec<Vec<Passage>>,
) -> Result<Vec<PassagesWithRemarks>, Error> {
    let mut found = found.into_iter();
    let joined = questions.iter().map(|queries| {
        let mut lists = Vec::with_capacity(queries.len());
        for (query, mut passages) in queries.iter().zip(found.by_ref()) {
            if let Some(filter) = query.filter.filter(|_| !corpus.table.searchable().is_empty()) {
                let passing = corpus.table.entries_passing(filter)?;
                let passes = |row: &u32| corpus.entry(*row).is_some_and(|entry| passing.has(entry));
                passages.retain(|passage| passage.rows.iter().any(passes));
            }
            lists.push(passages);
        }
        let longest = lists.iter().map(Vec::len).max().unwrap_or_default();
        let mut passages = match lists.len() {
            0 | 1 => lists.pop().unwrap_or_default(),
            _ => reciprocal_rank_of_passages(lists, FUSION_K),
        };
        passages.truncate(longest);
        let (all, unplaced) = (passages.len(), passages.iter().filter(|passage| passage.span.is_empty()).count());
        let remark = (unplaced > 0).then(|| {
            format!("{unplaced} of the {all} passages of the retriever stand in no document, so no evidence is found in them")
        });
        Ok(PassagesWithRemarks { remarks: remark.into_iter().collect(), ..passages.into() })
    });
    joined.collect()
}

/// Searches each question down to rank `depth`, deeper than [`find`] does, to find the rank of a chunk
/// that was not retrieved ([`Retriever::retrieve_deeper`]).
///
/// Returns the hits of each question, best first. The hits of several queries are joined as in [`find`],
/// but all of them are kept.
///
/// # Errors
/// If the retriever fails.
pub async fn find_deeper(
    retriever: &dyn Retriever,
    corpus: &Corpus<'_>,
    questions: &[Vec<Query<'_>>],
    depth: usize,
) -> Result<Vec<Vec<Hit>>, Error> {
    let queries = questions.concat();
    let mut found = retriever.retrieve_deeper(&queries, corpus, depth).await?;
    for (query, hits) in queries.iter().zip(&mut found) {
        apply_filter(query, hits, corpus)?;
    }
    let mut found = found.into_iter();
    Ok(questions.iter().map(|queries| join_all(found.by_ref().take(queries.len()).collect())).collect())
}

/// The beginning of the remark about a filter that no chunk passes.
const NONE_PASSES: &str = "no chunk passes the filter ";
/// The text before the numbers in the remark about a filter that leaves few chunks. [`ALL_TAKEN`] follows them.
const FEW_LEFT: &str = " leaves ";
const ALL_TAKEN: &str = " chunks, and all of them were taken";

/// How many chunks passed a filter, read from the remark of [`find`] that all of them were found; `None` for any
/// other remark.
pub fn chunks_left_by_filter(remark: &str) -> Option<usize> {
    if remark.starts_with(NONE_PASSES) {
        return Some(0);
    }
    let (_, numbers) = remark.strip_suffix(ALL_TAKEN)?.rsplit_once(FEW_LEFT)?;
    numbers.split_once(" of ")?.0.parse().ok()
}

/// Removes hits that do not pass the query's filter, because a user's own retriever does not see the
/// filter. Returns a remark if all chunks that pass the filter were found.
fn apply_filter(query: &Query<'_>, hits: &mut Vec<Hit>, corpus: &Corpus<'_>) -> Result<Option<String>, Error> {
    let Some(filter) = query.filter else { return Ok(None) };
    let passing = corpus.table.entries_passing(filter)?;
    hits.retain(|hit| corpus.entry(hit.row).is_some_and(|entry| passing.has(entry)));
    let (left, all) = (passing.passing(), passing.all());
    let is_narrow = left < all && hits.len() == left;
    Ok(is_narrow.then(|| match left {
        0 => format!("{NONE_PASSES}{filter}, so nothing was found"),
        _ => format!("the filter {filter}{FEW_LEFT}{left} of {all}{ALL_TAKEN}"),
    }))
}

/// Joins the lists into one that is as long as the longest of them.
fn join(lists: Vec<Vec<Hit>>) -> Vec<Hit> {
    let longest = lists.iter().map(Vec::len).max().unwrap_or_default();
    let mut hits = join_all(lists);
    hits.truncate(longest);
    hits
}

/// Joins the lists into one that has all their rows.
fn join_all(mut lists: Vec<Vec<Hit>>) -> Vec<Hit> {
    match lists.len() {
        0 | 1 => lists.pop().unwrap_or_default(),
        _ => reciprocal_rank(&lists.iter().map(Vec::as_slice).collect::<Vec<_>>(), FUSION_K),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A search that ends only when another task of the runtime lets it.
    struct Waits(std::sync::Mutex<std::sync::mpsc::Receiver<()>>);

    #[async_trait::async_trait]
    impl Retriever for Waits {
        async fn retrieve(&self, queries: &[Query<'_>], _: &Corpus<'_>) -> Result<Vec<Vec<Hit>>, Error> {
            let told = self.0.lock().unwrap().recv_timeout(std::time::Duration::from_secs(60));
            told.map_err(|error| Error::Failed { component: "test", reason: error.to_string() })?;
            Ok(vec![Vec::new(); queries.len()])
        }
    }

    /// Searches for texts while another task runs on the same threads.
    async fn search_beside_another_task(texts: &[String]) -> Result<Vec<PassagesWithRemarks>, Error> {
        let (ends, told) = std::sync::mpsc::channel();
        let stages = SearchStages {
            chunker: crate::chunk::ChunkerConfig::defaults().swap_remove(0).build(&Context::default())?.into(),
            retriever: Arc::new(Waits(std::sync::Mutex::new(told))),
            computes: true,
        };
        let (begun, begins) = tokio::sync::oneshot::channel::<()>();
        let other = tokio::spawn(async move {
            let _ = begins.await;
            // Once more through the queue of tasks.
            tokio::task::yield_now().await;
            ends.send(())
        });
        let fixture = crate::retrieve::tests::Fixture::new();
        let questions = texts.iter().map(|text| vec![SearchQuery::from(text.as_str())]).collect();
        let _ = begun.send(());
        let found = stages.search(fixture.corpus(), questions, None).await;
        other.await.unwrap().unwrap();
        found
    }

    #[test]
    fn a_search_that_computes_for_long_holds_up_no_other_task() {
        let long = "owl ".repeat(FEW_BYTES);
        let one_thread = || tokio::runtime::Builder::new_current_thread().build().unwrap();
        let pool = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        for texts in [vec![long.clone()], vec![long.clone(), long]] {
            for runtime in [one_thread(), pool()] {
                let texts = texts.clone();
                // As a task, and not on the thread that waits for the runtime.
                let found = runtime.block_on(async move {
                    tokio::spawn(async move { search_beside_another_task(&texts).await.map(|found| found.len()) }).await
                });
                assert!(matches!(found, Ok(Ok(1 | 2))), "{found:?}");
            }
        }
    }

    #[tokio::test]
    async fn a_filter_that_leaves_no_more_chunks_than_were_found_is_remarked_once_with_its_numbers() {
        let mut fixture = crate::retrieve::tests::Fixture::new();
        // The four chunks that are searched are on pages 1 to 4.
        let on_page = |chunk: crate::TableChunk<'_>| crate::Chunk { page: Some(chunk.number), ..chunk.to_chunk() };
        fixture.table = Arc::new(ChunkTable::new(fixture.table.chunks().map(on_page).collect()));
        let chunker = crate::chunk::ChunkerConfig::defaults().swap_remove(0).build(&Context::default()).unwrap();
        let settings = serde_json::json!({ "dense": { "top_k": 2 } });
        let retriever: crate::retrieve::RetrieverConfig = serde_json::from_value(settings).unwrap();
        let retriever = retriever.build(&Context::default()).unwrap();
        let found = async |last_page: u32, n_queries: usize| {
            let filter = serde_json::json!({ "page": { "le": last_page } });
            let filter: crate::Filter = serde_json::from_value(filter).unwrap();
            let query = Query { filter: Some(&filter), ..fixture.query("cat", &[1.0, 0.0]) };
            let questions = [vec![query; n_queries]];
            let mut found = find(&*chunker, &*retriever, &fixture.corpus(), &questions).await.unwrap();
            let PassagesWithRemarks { passages, remarks, .. } = found.pop().unwrap();
            (passages.len(), remarks)
        };
        let remark = |left: u32| {
            format!(r#"the filter {{"page":{{"le":{left}}}}} leaves {left} of 4 chunks, and all of them were taken"#)
        };
        assert_eq!(found(1, 1).await, (1, vec![remark(1)]));
        assert_eq!(found(2, 1).await, (2, vec![remark(2)]));
        assert_eq!(chunks_left_by_filter(&remark(2)), Some(2));
        let (passages, nothing) = found(0, 1).await;
        assert_eq!((passages, chunks_left_by_filter(&nothing[0])), (0, Some(0)));
        let of_a_name = r#"the filter {"name":"he leaves 9 of 9"} leaves 1 of 4 chunks, and all of them were taken"#;
        assert_eq!(chunks_left_by_filter(of_a_name), Some(1));
        assert_eq!(chunks_left_by_filter("it leaves 2 of 4 chunks"), None);
        assert_eq!(found(2, 3).await, (2, vec![remark(2)]), "three queries with one filter");
        assert_eq!(found(3, 1).await, (2, Vec::new()), "one of three was not taken");
        assert_eq!(found(4, 1).await, (2, Vec::new()), "every chunk passes");
    }

    #[test]
    fn hits_of_several_queries_are_joined_and_no_row_comes_twice() {
        let hits = |rows: &[u32]| rows.iter().map(|&row| Hit { row, score: 1.0 }).collect::<Vec<_>>();
        let joined: Vec<u32> = join(vec![hits(&[1, 2]), hits(&[2, 3])]).iter().map(|hit| hit.row).collect();
        assert_eq!(joined, [2, 1]);
        assert_eq!(join(vec![hits(&[4, 5])]), hits(&[4, 5]));
        assert!(join(Vec::new()).is_empty());
        let all: Vec<u32> = join_all(vec![hits(&[1, 2]), hits(&[2, 3])]).iter().map(|hit| hit.row).collect();
        assert_eq!(all, [2, 1, 3]);
    }
}
