//! One pipeline: turns a question into queries, hits, passages and an answer.
//! Queries call all of it; tasks, which handle many questions at once, call its
//! steps.

use crate::{
    Answer, Choice, ChunkTable, Component, Context, Error, Hit, Models, Passage, PassageStep, PipelineConfig,
    chunk::Chunker,
    generate::Generator,
    index::{IndexKind, OpenIndex},
    python::{caller, computing_for},
    query::{QueryWriter, SearchQuery, Written, standalone, vectors},
    retrieve::{Corpus, Query, Retriever, reciprocal_rank},
    trace,
};
use futures::{FutureExt, Stream, StreamExt, channel::mpsc, future, stream};
use models::{Embedder, Matrix, Message, Piece, Pieces, trace::within};
use std::sync::{Arc, Mutex, PoisonError};
use tracing::Span;

/// The constant of reciprocal rank fusion, used if a question has several queries.
const FUSION_K: u32 = 60;
/// Raise when hits of several queries are joined in another way. It is part of
/// the keys of retrievals that join hits.
pub const FUSION_VERSION: u32 = 1;

/// Everything that can be searched, opened and shared.
#[derive(Clone)]
pub struct OpenCorpus {
    /// The chunks.
    pub table: Arc<ChunkTable>,
    /// The indexes of the searchable chunks, at most one of each kind.
    pub indexes: Vec<Arc<OpenIndex>>,
}

impl OpenCorpus {
    /// The same, borrowed.
    pub fn corpus(&self) -> Corpus<'_> {
        Corpus { table: &self.table, indexes: &self.indexes }
    }
}

/// An event while a question is answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Why the question was searched as it was asked, or with less than its
    /// component wanted to write. Comes before the passages, if at all.
    Fallback(String),
    /// What a step between retrieval and answer did that the passages do not
    /// show, such as a further search. Comes before the passages, if at all.
    Remark(String),
    /// The passages, best first; citation `[1]` is the first. Comes once,
    /// before any part of the answer.
    Found(Vec<Passage>),
    /// A piece of the answer's text. When the answer comes, the pieces since
    /// the last [`Piece::Restart`] are together the whole text.
    Piece(Piece),
    /// The answer. Comes last; never if the pipeline has no generator.
    Answered(Answer),
}

/// What a pipeline made of a question.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Whole {
    /// The passages, best first.
    pub passages: Vec<Passage>,
    /// The answer, if the pipeline has a generator.
    pub answer: Option<Answer>,
    /// As [`Event::Fallback`].
    pub fallback: Option<String>,
    /// As [`Event::Remark`].
    pub remarks: Vec<String>,
}

/// What was found for a question.
struct Found {
    passages: Vec<Passage>,
    /// The question as later stages are asked.
    alone: String,
    /// As [`Event::Fallback`].
    fallback: Option<String>,
    /// As [`Event::Remark`].
    remarks: Vec<String>,
}

/// The stages of one pipeline, and the corpus that they search.
pub struct Pipeline {
    corpus: OpenCorpus,
    /// Makes the vectors of queries, if a stage compares them.
    embedder: Option<Embedder>,
    chunker: Arc<dyn Chunker>,
    query: Box<dyn QueryWriter>,
    rewrites_question: bool,
    retriever: Arc<dyn Retriever>,
    steps: Vec<Step>,
    generator: Option<Box<dyn Generator>>,
    names: Names,
}

/// A step between retrieval and answer.
struct Step {
    stage: &'static str,
    name: String,
    step: Box<dyn PassageStep>,
}

/// What the stages are called, for those who trace them.
struct Names {
    embedder: String,
    /// None where the question is searched as it is asked.
    query: Option<String>,
    retriever: trace::Named,
    generator: String,
}

impl Names {
    fn of(config: &PipelineConfig, embedder: Option<&str>) -> Self {
        let retriever = config.searching();
        let name = retriever.name().to_owned();
        let top_k = retriever.value()[&name]["top_k"].as_i64();
        Self {
            embedder: embedder.unwrap_or_default().to_owned(),
            query: (!config.query.is_nothing()).then(|| config.query.name().to_owned()),
            retriever: trace::Named { name, top_k },
            generator: config.generator.as_ref().map(|generator| generator.name().to_owned()).unwrap_or_default(),
        }
    }
}

impl Pipeline {
    /// Makes the stages.
    ///
    /// # Errors
    /// Settings that cannot work, or a model that is missing.
    pub fn new(config: &PipelineConfig, corpus: OpenCorpus, models: &dyn Models) -> Result<Self, Error> {
        let cx =
            Context { models: Some(models), embedder: config.embedder.as_deref(), judges: &[], pipeline: Some(config) };
        let compares_vectors = config.indexes().into_iter().any(IndexKind::compares_vectors);
        let embedder = config.embedder.as_deref().filter(|_| compares_vectors);
        let steps = config.passage_stages().into_iter().map(|(axis, stage)| {
            Ok(Step { stage: axis.stage(), name: stage.name().to_owned(), step: stage.step(&cx)? })
        });
        Ok(Self {
            corpus,
            embedder: embedder.map(|name| models.embedder(name)).transpose()?,
            chunker: config.chunker.build(&cx)?.into(),
            query: config.query.build(&cx)?,
            rewrites_question: config.query.rewrites_question(),
            retriever: config.searching().build(&cx)?.into(),
            steps: steps.collect::<Result<_, Error>>()?,
            generator: config.answering().map(|generator| generator.build(&cx)).transpose()?,
            names: Names::of(config, embedder),
        })
    }

    /// The passages for a question, best first.
    ///
    /// # Errors
    /// If a model fails, or an index is missing.
    pub async fn retrieve(&self, question: &str, history: &[Message]) -> Result<Vec<Passage>, Error> {
        Ok(self.found(question, history, usize::MAX).await?.passages)
    }

    /// At most so many passages for a question, with what there is to tell about
    /// them, and no answer.
    ///
    /// # Errors
    /// If a model fails, or an index is missing.
    pub async fn retrieve_whole(&self, question: &str, history: &[Message], at_most: usize) -> Result<Whole, Error> {
        let Found { passages, fallback, remarks, .. } = self.found(question, history, at_most).await?;
        Ok(Whole { passages, answer: None, fallback, remarks })
    }

    /// What is searched.
    pub fn corpus(&self) -> &OpenCorpus {
        &self.corpus
    }

    /// The passages for a question, and the question as it stands alone: what
    /// later stages are asked.
    async fn found(&self, question: &str, history: &[Message], at_most: usize) -> Result<Found, Error> {
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
        let vectors = match &self.embedder {
            Some(embedder) => {
                let span = trace::stage("embed", &self.names.embedder);
                Some(within(span, vectors(embedder, &queries)).await?)
            }
            None => None,
        };
        let (corpus, chunker, retriever) = (self.corpus.clone(), self.chunker.clone(), self.retriever.clone());
        let (caller, runtime) = (caller(), tokio::runtime::Handle::current());
        let searching = trace::retrieval(&self.names.retriever, &alone, n_queries);
        let there = searching.clone();
        // A search computes, and a user's function may take long.
        let found = tokio::task::spawn_blocking(move || {
            let _entered = there.entered();
            let searched: Vec<Query<'_>> = (0..)
                .zip(&queries[..n_queries])
                .map(|(i, one)| Query { filter: one.filter.as_ref(), ..query(&one.words, &vectors, i) })
                .collect();
            let corpus = corpus.corpus();
            let found = find(&*chunker, &*retriever, &corpus, std::slice::from_ref(&searched));
            let found = computing_for(&caller, || runtime.block_on(found))?;
            Ok::<_, Error>((found, vectors))
        });
        let failed =
            |error: tokio::task::JoinError| Error::Failed { component: "retrieval", reason: error.to_string() };
        let found = async { found.await.map_err(failed)? };
        let (mut found, vectors) = within(searching.clone(), found).await?;
        let mut passages = found.pop().unwrap_or_default();
        trace::left(&searching, &passages);
        drop(searching);
        let mut remarks = Vec::new();
        if alone != question {
            remarks.push(format!("the question is searched as: {alone}"));
        }
        for Step { stage, name, step } in &self.steps {
            let query = Query { filter: filter.as_ref(), ..query(&alone, &vectors, at) };
            let span = trace::stage(stage, name);
            trace::given(&span, &passages);
            let refined = within(span.clone(), step.run_told(query, self.corpus.corpus(), passages)).await?;
            passages = refined.passages;
            trace::left(&span, &passages);
            remarks.extend(refined.remarks);
        }
        passages.truncate(at_most);
        Ok(Found { passages, alone, fallback: fallback.map(|fallback| fallback.reason), remarks })
    }

    /// The passages for a question, and the answer if the pipeline has a
    /// generator: the result of [`Pipeline::answer`] as a whole.
    ///
    /// # Errors
    /// If a model fails, or an index is missing.
    pub async fn answer_whole(&self, question: &str, history: &[Message]) -> Result<Whole, Error> {
        let Found { passages, alone, fallback, remarks } = self.found(question, history, usize::MAX).await?;
        let answer = match &self.generator {
            Some(generator) => {
                let span = trace::stage("generate", &self.names.generator);
                trace::given(&span, &passages);
                Some(within(span, generator.generate(&alone, &passages)).await?)
            }
            None => None,
        };
        Ok(Whole { passages, answer, fallback, remarks })
    }

    /// Answers a question; `history` holds the earlier messages, oldest first.
    /// The stream ends after an error, and does nothing unless it is polled.
    pub fn answer<'a>(
        &'a self,
        question: &'a str,
        history: &'a [Message],
    ) -> impl Stream<Item = Result<Event, Error>> + Send + 'a {
        self.answer_from(question, history, usize::MAX)
    }

    /// [`Pipeline::answer`] from at most so many passages.
    pub fn answer_from<'a>(
        &'a self,
        question: &'a str,
        history: &'a [Message],
        at_most: usize,
    ) -> impl Stream<Item = Result<Event, Error>> + Send + 'a {
        let (sender, events) = mpsc::unbounded();
        let work = async move {
            // If nobody listens any more, the event is dropped.
            let tell = |event: Result<Event, Error>| drop(sender.unbounded_send(event));
            if let Err(error) = self.run(question, history, at_most, &|event| tell(Ok(event))).await {
                tell(Err(error));
            }
        };
        stream::select(events, work.into_stream().filter_map(|()| future::ready(None)))
    }

    async fn run(
        &self,
        question: &str,
        history: &[Message],
        at_most: usize,
        tell: &(dyn Fn(Event) + Send + Sync),
    ) -> Result<(), Error> {
        let Found { passages, alone, fallback, remarks } = self.found(question, history, at_most).await?;
        fallback.into_iter().for_each(|reason| tell(Event::Fallback(reason)));
        remarks.into_iter().for_each(|remark| tell(Event::Remark(remark)));
        tell(Event::Found(passages.clone()));
        let Some(generator) = &self.generator else { return Ok(()) };
        let on_piece = |piece| tell(Event::Piece(piece));
        let span = trace::stage("generate", &self.names.generator);
        trace::given(&span, &passages);
        tell(Event::Answered(within(span, written(&**generator, &alone, &passages, &on_piece)).await?));
        Ok(())
    }
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

/// The answer of a generator; its text is passed on in pieces while it is written.
async fn written(
    generator: &dyn Generator,
    question: &str,
    passages: &[Passage],
    on_piece: &(dyn Fn(Piece) + Send + Sync),
) -> Result<Answer, Error> {
    let pieces = Mutex::new(Pieces::default());
    let pieces = || pieces.lock().unwrap_or_else(PoisonError::into_inner);
    let onlooker = |text: &str| pieces().grow(text).into_iter().for_each(on_piece);
    let answer = generator.generate_watched(question, passages, Some(&onlooker)).await?;
    pieces().end(&answer.text).into_iter().for_each(on_piece);
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{generate::Onlooker, generate::tests::Script, retrieve};
    use async_trait::async_trait;
    use serde_json::json;

    /// Tells texts on the way to its answer.
    struct Teller {
        told: &'static [&'static str],
        answer: &'static str,
    }

    #[async_trait]
    impl Generator for Teller {
        async fn generate_watched(
            &self,
            _question: &str,
            _passages: &[Passage],
            onlooker: Option<Onlooker<'_>>,
        ) -> Result<Answer, Error> {
            for text in self.told {
                onlooker.inspect(|onlooker| onlooker(text));
            }
            let (text, usage) = (self.answer.to_owned(), models::Usage::default());
            Ok(Answer { text, citations: Vec::new(), dropped_passages: 0, calls: 1, usage, seconds: 0.0 })
        }
    }

    async fn told(told: &'static [&'static str], answer: &'static str) -> Vec<Piece> {
        let pieces = Mutex::new(Vec::new());
        let on_piece = |piece| pieces.lock().unwrap().push(piece);
        let answered = written(&Teller { told, answer }, "q", &[], &on_piece).await.unwrap();
        assert_eq!(answered.text, answer);
        pieces.into_inner().unwrap()
    }

    fn text(text: &str) -> Piece {
        Piece::Text(text.to_owned())
    }

    #[tokio::test]
    async fn pieces_end_with_the_answer_whatever_was_told_on_the_way() {
        let grown = told(&["The mill", "The mill", "The mill is old"], "The mill is old [2].").await;
        assert_eq!(grown, [text("The mill"), text(" is old"), text(" [2].")]);
        assert_eq!(told(&[], "The mill is old.").await, [text("The mill is old.")]);
        let other = told(&["The mill"], "It is old.").await;
        assert_eq!(other, [text("The mill"), Piece::Restart, text("It is old.")]);
        let cut = told(&["The mill is"], "The mill").await;
        assert_eq!(cut, [text("The mill is"), Piece::Restart, text("The mill")]);
    }

    fn config(more: serde_json::Value) -> PipelineConfig {
        let mut config = json!({ "chunker": { "sentence": {} }, "retriever": { "bm25": { "top_k": 2 } } });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(config).unwrap()
    }

    #[tokio::test]
    async fn a_question_is_searched_then_ordered_then_answered() {
        let corpus = retrieve::tests::Fixture::new().open();
        let more = json!({
            "reranker": { "none": { "top_n": 1 } }, "generator": { "compact": { "model": "any" } },
        });
        let script = Script::new(4096, |_| "It ran [1].".to_owned());
        let pipeline = Pipeline::new(&config(more), corpus, &script).unwrap();
        let events: Vec<Event> = pipeline.answer("cats running", &[]).map(Result::unwrap).collect().await;
        let [Event::Found(passages), pieces @ .., Event::Answered(answer)] = events.as_slice() else {
            panic!("{events:?}");
        };
        assert_eq!(passages.len(), 1);
        assert_eq!(passages[0].text, "dogs and cats running");
        assert_eq!((answer.text.as_str(), answer.citations.as_slice()), ("It ran [1].", [1].as_slice()));
        let told: String = pieces
            .iter()
            .map(|piece| match piece {
                Event::Piece(Piece::Text(text)) => text.as_str(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(told, answer.text);
        assert_eq!(pipeline.retrieve("cats running", &[]).await.unwrap(), *passages);
    }

    #[tokio::test]
    async fn an_error_ends_the_stream_and_without_a_generator_there_is_no_answer() {
        let corpus = retrieve::tests::Fixture::new().open();
        let script = Script::new(4096, |_| String::new());
        let pipeline = Pipeline::new(&config(json!({})), corpus.clone(), &script).unwrap();
        let events: Vec<_> = pipeline.answer("fox", &[]).collect().await;
        assert!(matches!(events.as_slice(), [Ok(Event::Found(passages))] if passages.len() == 1), "{events:?}");
        let without = OpenCorpus { indexes: Vec::new(), ..corpus };
        let pipeline = Pipeline::new(&config(json!({})), without, &script).unwrap();
        let events: Vec<_> = pipeline.answer("fox", &[]).collect().await;
        assert!(matches!(events.as_slice(), [Err(Error::NeedsIndex { .. })]), "{events:?}");
    }

    #[test]
    fn hits_of_several_queries_are_joined_and_no_row_comes_twice() {
        let hits = |rows: &[u32]| rows.iter().map(|&row| Hit { row, score: 1.0 }).collect::<Vec<_>>();
        let joined: Vec<u32> = join(vec![hits(&[1, 2]), hits(&[2, 3])]).iter().map(|hit| hit.row).collect();
        assert_eq!(joined, [2, 1]);
        assert_eq!(join(vec![hits(&[4, 5])]), hits(&[4, 5]));
        assert!(join(Vec::new()).is_empty());
    }
}
