//! One pipeline: turns a question into queries, hits, passages and an answer.
//! The command `query` and the service call all of it; tasks of a run, which
//! handle many questions at once, call its steps.

mod question;
mod search;

pub use question::{AskedQuestion, SearchableQuestion, searches};
pub(crate) use search::SearchStages;
pub use search::{FUSION_VERSION, chunks_left_by_filter, find, find_deeper};

use crate::{
    Answer, ChunkTable, Component, Context, Error, Models, Passage, PassagesWithRemarks, PipelineConfig,
    corpus::{Corpus, Query, VectorSearch},
    generate::Generator,
    index::{DatabaseIndex, DenseIndex, OpenIndex},
    query::{SearchQuery, vectors},
    trace,
};
use async_trait::async_trait;
use futures::{FutureExt, Stream, StreamExt, channel::mpsc, future, stream};
use models::{AnswerPiece, Matrix, Message, PieceDivider, trace::in_span};
use search::{ChunkAccess, Search, StageNames, StageStep};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError};

/// A [`Corpus`] that owns what is searched; clones share it.
#[derive(Clone)]
pub struct OpenCorpus {
    /// The chunks.
    pub table: Arc<ChunkTable>,
    /// The indexes of the searchable chunks, at most one of each kind.
    pub indexes: Vec<Arc<OpenIndex>>,
    /// How its vectors are searched.
    pub vector_search: VectorSearch,
}

impl OpenCorpus {
    /// Borrows it for a search.
    pub fn corpus(&self) -> Corpus<'_> {
        Corpus { table: &self.table, indexes: &self.indexes, vector_search: self.vector_search }
    }
}

/// An event while a question is answered.
#[derive(Debug, Clone, PartialEq)]
pub enum PipelineEvent {
    /// Why the question was searched unchanged, or with fewer queries than its
    /// component wanted to write. Comes before the passages, if at all.
    Fallback(String),
    /// What a step between retrieval and answer did that the passages do not
    /// show, such as a further search. Comes before the passages, if at all.
    Remark(String),
    /// The passages, best first; citation `[1]` is the first. Comes once,
    /// before any part of the answer.
    PassagesFound(Vec<Passage>),
    /// A piece of the answer's text. When the answer comes, the pieces since
    /// the last [`AnswerPiece::Restart`] are together the whole text.
    Piece(AnswerPiece),
    /// The answer. Comes last; never if the pipeline has no generator.
    Answered(Answer),
}

/// The passages and the answer of a pipeline for a question.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct QueryResult {
    /// The passages, best first.
    pub passages: Vec<Passage>,
    /// The answer, if the pipeline has a generator.
    pub answer: Option<Answer>,
    /// As [`PipelineEvent::Fallback`].
    pub fallback: Option<String>,
    /// As [`PipelineEvent::Remark`].
    pub remarks: Vec<String>,
}

/// The passages for a question, and how it was searched.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Retrieval {
    /// The passages, best first.
    pub passages: Vec<Passage>,
    /// The standalone question, which later stages get.
    pub standalone: String,
    /// As [`PipelineEvent::Fallback`].
    pub fallback: Option<String>,
    /// As [`PipelineEvent::Remark`].
    pub remarks: Vec<String>,
}

/// The stages of one pipeline, and the corpus that they search.
pub struct Pipeline {
    finder: Finder,
    generator: Option<Box<dyn Generator>>,
    generator_name: String,
}

/// Finds passages: here, or in another process.
enum Finder {
    Here(Box<Search>),
    Remote(Arc<dyn RemoteRetrieval>),
}

/// The chunks and indexes of a pipeline in another process, which searches them. The
/// methods also fail if that process cannot be reached.
#[async_trait]
pub trait RemoteChunks: Send + Sync {
    /// As [`Pipeline::find`].
    async fn find(&self, searches: &[SearchQuery], vectors: Option<&Matrix>) -> Result<PassagesWithRemarks, Error>;

    /// As [`Pipeline::step`].
    async fn step(&self, step: usize, query: Query<'_>, passages: Vec<Passage>) -> Result<PassagesWithRemarks, Error>;
}

/// All of a pipeline's retrieval in another process. It also fails if that process
/// cannot be reached.
#[async_trait]
pub trait RemoteRetrieval: Send + Sync {
    /// As [`Pipeline::retrieve_question`].
    async fn retrieve_question(&self, question: AskedQuestion<'_>, at_most: usize) -> Result<Retrieval, Error>;
}

impl Pipeline {
    /// Makes the stages.
    ///
    /// # Errors
    /// Settings that cannot work, or a model that is missing.
    pub fn new(config: &PipelineConfig, corpus: OpenCorpus, models: &dyn Models) -> Result<Self, Error> {
        Self::with_chunks(config, ChunkAccess::Here(corpus), models)
    }

    /// Makes the stages of a pipeline whose chunks and indexes are in another
    /// process. Stages that look at chunks run there.
    ///
    /// # Errors
    /// As [`Pipeline::new`].
    pub fn with_remote_chunks(
        config: &PipelineConfig,
        chunks: Arc<dyn RemoteChunks>,
        models: &dyn Models,
    ) -> Result<Self, Error> {
        Self::with_chunks(config, ChunkAccess::Remote(chunks), models)
    }

    /// Makes the generator of a pipeline that searches in another process.
    ///
    /// # Errors
    /// As [`Pipeline::new`].
    pub fn with_remote_retrieval(
        config: &PipelineConfig,
        retrieval: Arc<dyn RemoteRetrieval>,
        models: &dyn Models,
    ) -> Result<Self, Error> {
        Self::with_finder(config, Finder::Remote(retrieval), &context(config, models))
    }

    fn with_chunks(config: &PipelineConfig, chunks: ChunkAccess, models: &dyn Models) -> Result<Self, Error> {
        let cx = context(config, models);
        let retriever_compares = config.search_retriever().compares_question();
        let steps_compare = config.passage_stages().iter().any(|(_, stage)| stage.compares_question());
        let embedder = config.embedder.as_deref().filter(|_| retriever_compares || steps_compare);
        let steps = config.passage_stages().into_iter().map(|(axis, stage)| {
            let (name, reads_chunks) = (stage.name().to_owned(), stage.reads_chunks());
            Ok(StageStep { stage: axis.stage(), name, runner: stage.step(&cx)?, reads_chunks })
        });
        let search = Search {
            chunks,
            names: StageNames::of(config, embedder),
            embedder: embedder.map(|name| models.embedder(name)).transpose()?,
            retriever_compares,
            searches_chunks: config.retriever.existing_index().is_none(),
            steps_compare,
            query: config.query.build(&cx)?,
            rewrites_question: config.query.rewrites_question(),
            stages: SearchStages::new(config, &cx)?,
            steps: steps.collect::<Result<_, Error>>()?,
        };
        Self::with_finder(config, Finder::Here(Box::new(search)), &cx)
    }

    fn with_finder(config: &PipelineConfig, finder: Finder, cx: &Context<'_>) -> Result<Self, Error> {
        let generator = config.prompted_generator();
        let generator_name = generator.as_ref().map(|generator| generator.name().to_owned()).unwrap_or_default();
        Ok(Self { finder, generator: generator.map(|generator| generator.build(cx)).transpose()?, generator_name })
    }

    /// The passages for a question, best first.
    ///
    /// # Errors
    /// If a model fails, or an index is missing.
    pub async fn retrieve(&self, question: &str, history: &[Message]) -> Result<Vec<Passage>, Error> {
        Ok(self.retrieve_question(AskedQuestion { text: question, history, filter: None }, usize::MAX).await?.passages)
    }

    /// At most `at_most` passages for a question, with remarks, and no answer.
    ///
    /// # Errors
    /// If a model fails, or an index is missing.
    pub async fn retrieve_detailed(
        &self,
        question: &str,
        history: &[Message],
        at_most: usize,
    ) -> Result<QueryResult, Error> {
        Ok(self
            .retrieve_question(AskedQuestion { text: question, history, filter: None }, at_most)
            .await?
            .into_query_result(question))
    }

    /// What is searched; none if that is in another process.
    pub fn corpus(&self) -> Option<&OpenCorpus> {
        match &self.finder {
            Finder::Here(search) => search.corpus(),
            Finder::Remote(_) => None,
        }
    }

    /// At most `at_most` passages for a question, and the standalone question,
    /// which later stages get.
    ///
    /// # Errors
    /// If a model fails, or an index is missing.
    pub async fn retrieve_question(&self, question: AskedQuestion<'_>, at_most: usize) -> Result<Retrieval, Error> {
        match &self.finder {
            Finder::Here(search) => search.retrieve_question(question, at_most).await,
            Finder::Remote(retrieval) => retrieval.retrieve_question(question, at_most).await,
        }
    }

    /// The passages that these searches find for one question, joined. `vectors`
    /// has a row for each search if the retriever compares vectors.
    ///
    /// # Errors
    /// If an index is missing, or the chunks are in another process.
    pub async fn find(
        &self,
        searches: Vec<SearchQuery>,
        vectors: Option<Matrix>,
    ) -> Result<PassagesWithRemarks, Error> {
        let (search, corpus) = self.local_search()?;
        search.find(corpus, searches, vectors).await
    }

    /// The passages of many questions, each with its searches. `vectors` has a row for each search of all questions, in
    /// order, if the retriever compares vectors ([`Pipeline::query_vectors`]).
    ///
    /// # Errors
    /// As [`Pipeline::find`].
    pub async fn find_each(
        &self,
        questions: Vec<Vec<SearchQuery>>,
        vectors: Option<Matrix>,
    ) -> Result<Vec<PassagesWithRemarks>, Error> {
        let (search, corpus) = self.local_search()?;
        search.stages.search(corpus.corpus(), questions, vectors).await
    }

    /// The vectors of searches, a row for each; none if the retriever compares no vectors.
    ///
    /// # Errors
    /// If the model fails.
    pub async fn query_vectors(&self, queries: &[SearchQuery]) -> Result<Option<Matrix>, Error> {
        let (search, _) = self.local_search()?;
        match search.embedder.as_ref().filter(|_| search.retriever_compares) {
            Some(embedder) => Ok(Some(vectors(embedder, queries).await?)),
            None => Ok(None),
        }
    }

    /// Searches once to warm up caches, with an arbitrary vector.
    ///
    /// # Errors
    /// As [`Pipeline::find`].
    pub async fn warm_up(&self, words: &str) -> Result<(), Error> {
        let (search, corpus) = self.local_search()?;
        // There is nothing to load for an index of the user's own, and a call may cost money.
        if !search.searches_chunks {
            return Ok(());
        }
        let dimensions = |index: &Arc<OpenIndex>| {
            let here = index.get::<DenseIndex>().map(DenseIndex::dimensions);
            here.or_else(|| index.get::<DatabaseIndex>().map(|index| index.filled().dimensions))
        };
        let dimensions = corpus.indexes.iter().find_map(dimensions).filter(|dimensions| *dimensions > 0);
        let vector = dimensions.map(|columns| {
            let mut data = vec![0.0; columns];
            data[0] = 1.0;
            Matrix { columns, data }
        });
        search.find(corpus, vec![words.into()], vector).await.map(drop)
    }

    /// Runs a whole stage between retrieval and answer, such as `refine` with all items of
    /// its list. `step` is the stage's place in [`PipelineConfig::passage_stages`], from 0.
    ///
    /// # Errors
    /// If a model fails, there is no such stage, or the chunks are in another process.
    pub async fn step(
        &self,
        step: usize,
        query: Query<'_>,
        passages: Vec<Passage>,
    ) -> Result<PassagesWithRemarks, Error> {
        let (search, corpus) = self.local_search()?;
        let missing = || Error::Failed { component: "pipeline", reason: format!("there is no stage {step}") };
        search.steps.get(step).ok_or_else(missing)?.runner.run_with_remarks(query, corpus.corpus(), passages).await
    }

    fn local_search(&self) -> Result<(&Search, &OpenCorpus), Error> {
        let reason = "its chunks are in another process".to_owned();
        match &self.finder {
            Finder::Here(search) => search.corpus().map(|corpus| (&**search, corpus)),
            Finder::Remote(_) => None,
        }
        .ok_or(Error::Failed { component: "pipeline", reason })
    }

    /// The passages for a question, and the answer if the pipeline has a
    /// generator: [`Pipeline::answer`] without a stream.
    ///
    /// # Errors
    /// If a model fails, or an index is missing.
    pub async fn answer_detailed(&self, question: AskedQuestion<'_>) -> Result<QueryResult, Error> {
        let found = self.retrieve_question(question, usize::MAX).await?;
        let answer = match &self.generator {
            Some(generator) => {
                let span = trace::stage("generate", &self.generator_name);
                trace::record_input(&span, &found.passages);
                Some(in_span(span, generator.generate(&found.standalone, &found.passages)).await?)
            }
            None => None,
        };
        Ok(QueryResult { answer, ..found.into_query_result(question.text) })
    }

    /// Answers a question. The stream ends after an error, and does nothing
    /// unless it is polled.
    pub fn answer<'a>(
        &'a self,
        question: AskedQuestion<'a>,
    ) -> impl Stream<Item = Result<PipelineEvent, Error>> + Send + 'a {
        self.answer_from(question, usize::MAX)
    }

    /// [`Pipeline::answer`] from at most `at_most` passages.
    pub fn answer_from<'a>(
        &'a self,
        question: AskedQuestion<'a>,
        at_most: usize,
    ) -> impl Stream<Item = Result<PipelineEvent, Error>> + Send + 'a {
        let (sender, events) = mpsc::unbounded();
        let work = async move {
            // Events are dropped once the receiver is gone.
            let send = |event: Result<PipelineEvent, Error>| drop(sender.unbounded_send(event));
            if let Err(error) = self.run(question, at_most, &|event| send(Ok(event))).await {
                send(Err(error));
            }
        };
        stream::select(events, work.into_stream().filter_map(|()| future::ready(None)))
    }

    async fn run(
        &self,
        question: AskedQuestion<'_>,
        at_most: usize,
        send: &(dyn Fn(PipelineEvent) + Send + Sync),
    ) -> Result<(), Error> {
        let found = self.retrieve_question(question, at_most).await?;
        let alone = found.standalone.clone();
        let QueryResult { passages, fallback, remarks, .. } = found.into_query_result(question.text);
        fallback.into_iter().for_each(|reason| send(PipelineEvent::Fallback(reason)));
        remarks.into_iter().for_each(|remark| send(PipelineEvent::Remark(remark)));
        send(PipelineEvent::PassagesFound(passages.clone()));
        let Some(generator) = &self.generator else { return Ok(()) };
        let on_piece = |piece| send(PipelineEvent::Piece(piece));
        let span = trace::stage("generate", &self.generator_name);
        trace::record_input(&span, &passages);
        send(PipelineEvent::Answered(in_span(span, stream_answer(&**generator, &alone, &passages, &on_piece)).await?));
        Ok(())
    }
}

impl Retrieval {
    /// The result without an answer. If a component replaced `question`, a
    /// remark says what was searched.
    pub fn into_query_result(self, question: &str) -> QueryResult {
        let Self { passages, standalone, fallback, mut remarks } = self;
        if standalone != question {
            remarks.insert(0, format!("the question is searched as: {standalone}"));
        }
        QueryResult { passages, answer: None, fallback, remarks }
    }
}

fn context<'a>(config: &'a PipelineConfig, models: &'a dyn Models) -> Context<'a> {
    Context { models: Some(models), embedder: config.embedder.as_deref(), pipeline: Some(config) }
}

/// Generates an answer, and passes its text on in pieces while it is written.
async fn stream_answer(
    generator: &dyn Generator,
    question: &str,
    passages: &[Passage],
    on_piece: &(dyn Fn(AnswerPiece) + Send + Sync),
) -> Result<Answer, Error> {
    let pieces = Mutex::new(PieceDivider::default());
    let pieces = || pieces.lock().unwrap_or_else(PoisonError::into_inner);
    let on_text = |text: &str| pieces().grow(text).into_iter().for_each(on_piece);
    let answer = generator.generate_streaming(question, passages, Some(&on_text)).await?;
    pieces().end(&answer.text).into_iter().for_each(on_piece);
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{generate::OnText, generate::tests::ScriptedChat, retrieve};
    use async_trait::async_trait;
    use serde_json::json;

    /// Tells texts on the way to its answer.
    struct Teller {
        told: &'static [&'static str],
        answer: &'static str,
    }

    #[async_trait]
    impl Generator for Teller {
        async fn generate_streaming(
            &self,
            _question: &str,
            _passages: &[Passage],
            on_text: Option<OnText<'_>>,
        ) -> Result<Answer, Error> {
            for text in self.told {
                on_text.inspect(|on_text| on_text(text));
            }
            let (text, usage) = (self.answer.to_owned(), models::Usage::default());
            Ok(Answer { text, calls: 1, usage, ..Answer::default() })
        }
    }

    async fn told(told: &'static [&'static str], answer: &'static str) -> Vec<AnswerPiece> {
        let pieces = Mutex::new(Vec::new());
        let on_piece = |piece| pieces.lock().unwrap().push(piece);
        let answered = stream_answer(&Teller { told, answer }, "q", &[], &on_piece).await.unwrap();
        assert_eq!(answered.text, answer);
        pieces.into_inner().unwrap()
    }

    fn text(text: &str) -> AnswerPiece {
        AnswerPiece::Text(text.to_owned())
    }

    #[tokio::test]
    async fn pieces_end_with_the_answer_whatever_was_told_on_the_way() {
        let grown = told(&["The mill", "The mill", "The mill is old"], "The mill is old [2].").await;
        assert_eq!(grown, [text("The mill"), text(" is old"), text(" [2].")]);
        assert_eq!(told(&[], "The mill is old.").await, [text("The mill is old.")]);
        let other = told(&["The mill"], "It is old.").await;
        assert_eq!(other, [text("The mill"), AnswerPiece::Restart, text("It is old.")]);
        let cut = told(&["The mill is"], "The mill").await;
        assert_eq!(cut, [text("The mill is"), AnswerPiece::Restart, text("The mill")]);
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
        let script = ScriptedChat::new(4096, |_| "It ran [1].".to_owned());
        let pipeline = Pipeline::new(&config(more), corpus, &script).unwrap();
        let events: Vec<PipelineEvent> = pipeline.answer("cats running".into()).map(Result::unwrap).collect().await;
        let [PipelineEvent::PassagesFound(passages), pieces @ .., PipelineEvent::Answered(answer)] = events.as_slice()
        else {
            panic!("{events:?}");
        };
        assert_eq!(passages.len(), 1);
        assert_eq!(passages[0].text, "dogs and cats running");
        assert_eq!((answer.text.as_str(), answer.citations.as_slice()), ("It ran [1].", [1].as_slice()));
        let told: String = pieces
            .iter()
            .map(|piece| match piece {
                PipelineEvent::Piece(AnswerPiece::Text(text)) => text.as_str(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(told, answer.text);
        assert_eq!(pipeline.retrieve("cats running", &[]).await.unwrap(), *passages);
    }

    #[tokio::test]
    async fn a_filter_that_leaves_no_choice_is_remarked() {
        let remarks = async |conditions: serde_json::Value| {
            let corpus = retrieve::tests::Fixture::new().open();
            let script = ScriptedChat::new(4096, |_| String::new());
            let query = json!({ "query": { "filter": { "where": conditions } } });
            let pipeline = Pipeline::new(&config(query), corpus, &script).unwrap();
            let found = pipeline.retrieve_question("cats running".into(), usize::MAX).await.unwrap();
            (found.passages.len(), found.remarks)
        };
        let (found, told) = remarks(json!({ "path": "nowhere.md" })).await;
        assert_eq!((found, told.len()), (0, 1));
        assert!(told[0].starts_with(r#"no chunk passes the filter {"path":"nowhere.md"}"#), "{told:?}");
        assert_eq!(remarks(json!({ "path": { "ne": "nowhere.md" } })).await.1, [""; 0], "all of them pass");
    }

    #[tokio::test]
    async fn an_error_ends_the_stream_and_without_a_generator_there_is_no_answer() {
        let corpus = retrieve::tests::Fixture::new().open();
        let script = ScriptedChat::new(4096, |_| String::new());
        let pipeline = Pipeline::new(&config(json!({})), corpus.clone(), &script).unwrap();
        let events: Vec<_> = pipeline.answer("fox".into()).collect().await;
        assert!(
            matches!(events.as_slice(), [Ok(PipelineEvent::PassagesFound(passages))] if passages.len() == 1),
            "{events:?}"
        );
        let without = OpenCorpus { indexes: Vec::new(), ..corpus };
        let pipeline = Pipeline::new(&config(json!({})), without, &script).unwrap();
        let events: Vec<_> = pipeline.answer("fox".into()).collect().await;
        assert!(matches!(events.as_slice(), [Err(Error::NeedsIndex { .. })]), "{events:?}");
    }
}
