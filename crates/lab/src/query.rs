//! Answers a new question with one trial of a finished run, as it was then.

mod replies;

use crate::{
    Error,
    action::Action,
    page_view::{CorpusPages, DocumentPages, has_drawn_pages},
    parts::{Part, PartClient, PartReply, PartRequest, PartTransport, models_of_kind},
    plan::{CorpusInputs, Outputs, Trial},
    record::{RunRecord, experiment_of},
    session::Session,
    spec::Experiment,
    task::{CallTurn, RunContext, open_corpus},
};
use futures::{StreamExt, future};
use models::{AnswerPiece, Embedder, InputKind, Message, ModelKind};
use rag::{
    Answer, Chunk, ChunkTable, Component, Corpus, Models, Passage, Pipeline, PipelineConfig, Query, Span, TableChunk,
    load::Source,
    pipeline::{AskedQuestion, PipelineEvent, QueryResult, Retrieval},
};
use serde::Serialize;
use std::{collections::BTreeSet, pin::pin, sync::Arc};
use tokio::sync::OnceCell;

/// A question, the passages that were found, and the answer.
#[derive(Debug, Clone, Serialize)]
pub struct TrialAnswer {
    /// The run whose trial answered.
    pub run: String,
    /// When that run finished, in milliseconds since 1970.
    pub run_time_ms: i64,
    /// The trial that answered.
    pub trial: Trial,
    /// The question.
    pub question: String,
    /// Why the query component failed or wrote less than it should: the question was searched as it
    /// was asked, or with fewer queries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query_fallback: Option<String>,
    /// What steps between retrieval and answer did that the passages do not
    /// show, such as further searches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// What was found, best first; citation `[1]` is the first.
    pub passages: Vec<Passage>,
    /// The answer, if the trial has a generator.
    pub answer: Option<Answer>,
}

/// Called with each event while a question is answered, by whichever thread works, so it must be
/// quick.
pub type OnEvent<'a> = &'a (dyn Fn(&PipelineEvent) + Send + Sync);

/// How many searches warm a dense index: only after some does it make the copy that speeds it up.
const WARM_UPS: usize = 6;
/// The query of these searches.
const WARM_UP: &str = "ready";

/// A trial of a finished run that can be asked. It has the settings that it had
/// in the run, and searches the documents that were read then.
pub struct RunPipeline {
    run_context: Arc<RunContext>,
    trial: Trial,
    config: PipelineConfig,
    inputs: CorpusInputs,
    outputs: Outputs,
    run: String,
    run_time_ms: i64,
    notes: Vec<String>,
    /// The documents themselves, if they can be reached.
    documents: Option<CorpusPages>,
    /// Its stages, once a question was asked.
    pipeline: OnceCell<Pipeline>,
    /// Which part of the trial this is, and a client of the others; none if it is the whole trial.
    part: Option<(Part, PartClient)>,
}

impl RunPipeline {
    /// Opens a trial of a run.
    ///
    /// # Errors
    /// If there is no such trial, what it searches is not in the store, or the
    /// model that embeds its questions is no longer the one that embedded the
    /// documents.
    pub async fn open(session: &Session, record: &RunRecord, trial: &str) -> Result<Self, Error> {
        Self::open_with(session, record, trial, None).await
    }

    /// Opens one part of a trial of a run, which asks the other parts for the rest. This process
    /// needs only the models of this part, and the files and keys of chat models, because every
    /// part that calls a chat model counts its tokens.
    ///
    /// # Errors
    /// As [`RunPipeline::open`].
    pub async fn open_part(
        session: &Session,
        record: &RunRecord,
        trial: &str,
        part: Part,
        others: Arc<dyn PartTransport>,
    ) -> Result<Self, Error> {
        Self::open_with(session, record, trial, Some((part, PartClient(others)))).await
    }

    async fn open_with(
        session: &Session,
        record: &RunRecord,
        trial: &str,
        part: Option<(Part, PartClient)>,
    ) -> Result<Self, Error> {
        let (trial, inputs, artifacts) = record.trial_inputs(trial)?;
        let config = trial.runnable()?.clone();
        let experiment = experiment_of(&session.experiment, record)?;
        let mut outputs = Outputs::new();
        for id in inputs.all() {
            let Some(name) = artifacts.get(&id) else {
                return Err(Error::table(format!("{}: its record is damaged; run again", record.title())));
            };
            outputs.insert(id, name.clone());
        }
        if let Some(name) =
            session.workspace().store().first_missing(inputs.all().iter().map(|id| &outputs[id])).await?
        {
            return Err(Error::Unusable(format!(
                "trial `{}` of {} has no index in the store ({name} is not there): it was not indexed in that run, or \
                 {} removed it; {} makes what is missing",
                trial.id,
                record.title(),
                Action::CollectGarbage,
                Action::Run
            )));
        }
        let notes = check_models(session, record, &experiment, trial, part.as_ref().map(|(part, _)| *part))?;
        // A question needs none of the corpus' files, which may be gone.
        let source = Source::parse(&session.workspace().root().display().to_string(), &[], &[], &[])?;
        let models = session.models_of(&experiment);
        let models = Arc::new(match &part {
            Some((part, others)) => models.of_part(*part, others.clone(), record.provenance()?.identities.clone()),
            None => models,
        });
        let run = record.id().to_owned();
        let (store, scratch) = (session.workspace().store().clone(), session.workspace().scratch_folder());
        let run_context = RunContext::for_queries(Arc::new(experiment), store, source, scratch, &run, models);
        Ok(Self {
            run_context: Arc::new(run_context),
            trial: trial.clone(),
            config,
            inputs: inputs.clone(),
            outputs,
            run,
            run_time_ms: record.time_ms(),
            notes,
            documents: CorpusPages::of(session),
            pipeline: OnceCell::new(),
            part,
        })
    }

    /// The trial.
    pub fn trial(&self) -> &Trial {
        &self.trial
    }

    /// The run's id.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// What differs from the run: models that have changed since.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Answers a question.
    ///
    /// # Errors
    /// If the store or a model fails.
    pub async fn query(&self, question: &str) -> Result<TrialAnswer, Error> {
        self.query_with(question.into(), None).await
    }

    /// Whether it uses the messages before a question; if not, a question is answered as if there
    /// were none.
    pub fn reads_history(&self) -> bool {
        !self.config.query.is_nothing()
    }

    /// [`RunPipeline::query`] for a question that may come after messages and may have
    /// a filter of its own, as golden questions may. It also passes on what happens on
    /// the way: the passages that were found, and pieces of the answer's text while it
    /// is written. Watching does not change the answer. Dropping the future ends the
    /// work.
    ///
    /// # Errors
    /// As [`RunPipeline::query`].
    pub async fn query_with(
        &self,
        question: AskedQuestion<'_>,
        on_event: Option<OnEvent<'_>>,
    ) -> Result<TrialAnswer, Error> {
        rag::python::on_behalf_of(self.caller(), self.answer(question, on_event)).await
    }

    /// Makes its stages ready, so that the first question need not wait for the
    /// index and the model that embeds it.
    ///
    /// # Errors
    /// As [`RunPipeline::query`].
    pub async fn warm(&self) -> Result<(), Error> {
        match self.part {
            None => {
                // The model is loaded while chunks and indexes are.
                let (loaded, pipeline) = future::join(self.warm_embedder(), self.pipeline()).await;
                let pipeline = pipeline?;
                loaded?;
                for _ in 0..WARM_UPS {
                    pipeline.retrieve_detailed(WARM_UP, &[], 1).await?;
                }
            }
            Some((Part::VectorStore, _)) => {
                let pipeline = self.pipeline().await?;
                for _ in 0..WARM_UPS {
                    pipeline.warm_up(WARM_UP).await?;
                }
            }
            Some((Part::Encoder, _)) => self.warm_embedder().await?,
            Some((Part::Reranker, _)) => {
                for name in models_of_kind(&self.config, ModelKind::Rerank) {
                    self.run_context.models().reranker(name)?.rerank(WARM_UP, &[WARM_UP.to_owned()]).await?;
                }
            }
            Some((Part::Retriever | Part::Qa, _)) => {
                self.pipeline().await?;
            }
            // Chat models need no warming.
            Some((Part::Llm | Part::Gateway, _)) => {}
        }
        Ok(())
    }

    async fn warm_embedder(&self) -> Result<(), Error> {
        if let Some((_, embedder)) = self.embedder()? {
            embedder.embed(&[WARM_UP.to_owned()], InputKind::Query).await?;
        }
        Ok(())
    }

    /// The other parts, if this is the gateway, which holds nothing itself.
    fn others(&self) -> Option<&PartClient> {
        self.part.as_ref().filter(|(part, _)| *part == Part::Gateway).map(|(_, others)| others)
    }

    /// What it searches: the settings, the parts of the corpus, and the names of their artifacts.
    pub(crate) fn searched(&self) -> (&PipelineConfig, &CorpusInputs, &Outputs) {
        (&self.config, &self.inputs, &self.outputs)
    }

    /// On whose behalf a user's functions run.
    pub(crate) fn caller(&self) -> Option<Arc<str>> {
        Some(self.trial.id.as_str().into())
    }

    pub(crate) fn run_context(&self) -> &RunContext {
        &self.run_context
    }

    /// Finds at most `at_most` passages for a question, without an answer.
    ///
    /// # Errors
    /// As [`RunPipeline::query`].
    pub async fn retrieve(&self, question: &str, history: &[Message], at_most: usize) -> Result<QueryResult, Error> {
        if let Some(others) = self.others() {
            let (question, history) = (question.to_owned(), history.to_vec());
            let request = PartRequest::Retrieve { question: question.clone(), history, filter: None, at_most };
            return Ok(others.ask::<Retrieval>(&request).await?.into_query_result(&question));
        }
        let found = async { Ok(self.pipeline().await?.retrieve_detailed(question, history, at_most).await?) };
        rag::python::on_behalf_of(self.caller(), found).await
    }

    /// Answers a question from at most `at_most` passages. All events are passed to `on_event`, the
    /// answer too.
    ///
    /// # Errors
    /// As [`RunPipeline::query`].
    pub async fn ask(
        &self,
        question: &str,
        history: &[Message],
        at_most: usize,
        on_event: impl Fn(PipelineEvent) + Send,
    ) -> Result<(), Error> {
        if let Some(others) = self.others() {
            return stream_answer(others, question, history, at_most, on_event).await;
        }
        let answering = async {
            let mut events = pin!(
                self.pipeline().await?.answer_from(AskedQuestion { text: question, history, filter: None }, at_most)
            );
            while let Some(event) = events.next().await {
                on_event(event?);
            }
            Ok(())
        };
        rag::python::on_behalf_of(self.caller(), answering).await
    }

    /// Whether it writes answers, besides finding passages.
    pub fn has_generator(&self) -> bool {
        self.config.prompted_generator().is_some()
    }

    /// The text of a stretch of a document; none if it searches no such document.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn excerpt(&self, document: &str, span: Span) -> Result<Option<String>, Error> {
        if let Some(others) = self.others() {
            return Ok(others.ask(&PartRequest::Excerpt { document: document.to_owned(), span }).await?);
        }
        Ok(self.table().await?.excerpt(document, span))
    }

    /// Whether pages of a document can be drawn here: the address of the corpus can be used, and the document's name is that
    /// of a PDF or a picture.
    pub fn can_view(&self, document: &str) -> bool {
        self.documents.is_some() && has_drawn_pages(document)
    }

    /// A document, to look at its pages as it is now: it may have changed since it was indexed. None if it cannot be reached
    /// from here.
    ///
    /// # Errors
    /// If it cannot be read now.
    pub async fn open_document(&self, document: &str) -> Result<Option<DocumentPages>, Error> {
        match &self.documents {
            Some(documents) => documents.open(document).await,
            None => Ok(None),
        }
    }

    /// The first searchable chunk of a document that holds this byte.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn chunk_at(&self, document: &str, byte: usize) -> Result<Option<Chunk>, Error> {
        if let Some(others) = self.others() {
            return Ok(others.ask(&PartRequest::ChunkAt { document: document.to_owned(), byte }).await?);
        }
        let table = self.table().await?;
        let holds = |chunk: &TableChunk<'_>| chunk.searchable && chunk.span.start <= byte && byte < chunk.span.end;
        Ok(table.of_document(document).find(holds).map(|chunk| chunk.to_chunk()))
    }

    /// The embedder of its questions, by its name in the experiment; none where
    /// the trial compares no vectors.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn embedder(&self) -> Result<Option<(&str, Embedder)>, Error> {
        let models = self.run_context.models().in_turn(CallTurn::default());
        let named = self.config.embedder.as_deref();
        Ok(named.map(|name| Ok::<_, rag::Error>((name, models.embedder(name)?))).transpose()?)
    }

    /// Puts texts into the order of the trial's reranker, or, where it has none,
    /// of their similarity to the question: positions with scores, best first.
    /// None where the trial has neither reranker nor embedder.
    ///
    /// # Errors
    /// If a model fails.
    pub async fn rerank(&self, question: &str, texts: &[String]) -> Result<Option<Vec<(usize, f32)>>, Error> {
        let pipeline = &self.config;
        let models = self.run_context.models().in_turn(CallTurn::default());
        let Some(reranker) = pipeline.reranker.with_limit(texts.len()) else {
            let Some((_, embedder)) = self.embedder()? else { return Ok(None) };
            let query = embedder.embed(&[question.to_owned()], InputKind::Query).await?;
            let rows = embedder.embed(texts, InputKind::Document).await?;
            let similarity = |row: &[f32]| row.iter().zip(query.row(0)).map(|(a, b)| a * b).sum::<f32>();
            let mut scored: Vec<(usize, f32)> = rows.iter().map(similarity).enumerate().collect();
            scored.sort_by(|a, b| b.1.total_cmp(&a.1));
            return Ok(Some(scored));
        };
        let cx =
            rag::Context { models: Some(&models), embedder: pipeline.embedder.as_deref(), ..rag::Context::default() };
        let passages = texts.iter().enumerate().map(|(at, text)| Passage::of_text(at.to_string(), text.clone()));
        let query = Query { text: question, embedding: None, tokens: None, filter: None };
        let nothing = Arc::new(ChunkTable::default());
        let corpus = match self.others() {
            Some(others) if reranker.reads_chunks() => {
                let (question, texts) = (question.to_owned(), texts.to_vec());
                return Ok(others.ask(&PartRequest::Order { question, texts }).await?);
            }
            Some(_) => Corpus::exact(&nothing, &[]),
            None => self.pipeline().await?.corpus().ok_or_else(chunks_elsewhere)?.corpus(),
        };
        let ranked = reranker.build(&cx)?.rerank(query, corpus, passages.collect()).await?;
        Ok(Some(ranked.iter().filter_map(|passage| Some((passage.document.parse().ok()?, passage.score))).collect()))
    }

    async fn table(&self) -> Result<&ChunkTable, Error> {
        Ok(&self.pipeline().await?.corpus().ok_or_else(chunks_elsewhere)?.table)
    }

    pub(crate) async fn pipeline(&self) -> Result<&Pipeline, Error> {
        self.pipeline.get_or_try_init(|| self.build_pipeline()).await
    }

    async fn answer(&self, question: AskedQuestion<'_>, on_event: Option<OnEvent<'_>>) -> Result<TrialAnswer, Error> {
        let pipeline = self.pipeline().await?;
        let QueryResult { passages, answer, fallback, remarks } = match on_event {
            Some(on_event) => collect_answer(pipeline, question, on_event).await?,
            None => pipeline.answer_detailed(question).await?,
        };
        Ok(TrialAnswer {
            run: self.run.clone(),
            run_time_ms: self.run_time_ms,
            trial: self.trial.clone(),
            question: question.text.to_owned(),
            query_fallback: fallback,
            remarks,
            passages,
            answer,
        })
    }

    /// Opens what is searched and makes the stages, once.
    async fn build_pipeline(&self) -> Result<Pipeline, Error> {
        let Self { run_context, config, inputs, outputs, .. } = self;
        let models = run_context.models().for_questions();
        match &self.part {
            None | Some((Part::VectorStore, _)) => {
                let (corpus, _) = open_corpus(run_context, outputs, inputs, Some(&config.index)).await?;
                Ok(Pipeline::new(config, corpus, &models)?)
            }
            Some((Part::Retriever, others)) => {
                Ok(Pipeline::with_remote_chunks(config, Arc::new(others.clone()), &models)?)
            }
            Some((_, others)) => Ok(Pipeline::with_remote_retrieval(config, Arc::new(others.clone()), &models)?),
        }
    }
}

/// A part was asked for what another one holds.
fn chunks_elsewhere() -> Error {
    Error::Unusable("the chunks are in another part of the graph".into())
}

/// Passes on the events of an answer that another part writes.
async fn stream_answer(
    others: &PartClient,
    question: &str,
    history: &[Message],
    at_most: usize,
    on_event: impl Fn(PipelineEvent) + Send,
) -> Result<(), Error> {
    let request = PartRequest::Answer { question: question.to_owned(), history: history.to_vec(), at_most };
    let mut replies = pin!(others.stream_replies(&request));
    let mut found = false;
    while let Some(reply) = replies.next().await {
        on_event(match reply {
            PartReply::Fallback(reason) => PipelineEvent::Fallback(reason),
            PartReply::Remark(remark) => PipelineEvent::Remark(remark),
            PartReply::Found(passages) => {
                found = true;
                PipelineEvent::PassagesFound(passages)
            }
            PartReply::Text(text) => PipelineEvent::Piece(AnswerPiece::Text(text)),
            PartReply::Restart => PipelineEvent::Piece(AnswerPiece::Restart),
            PartReply::Answered(answer) => PipelineEvent::Answered(*answer),
            PartReply::Failed(failure) => return Err(failure.into()),
            PartReply::Replied(_) => continue,
        });
    }
    if found { Ok(()) } else { Err(Error::Remote("the part `qa` ended before it sent passages".into())) }
}

/// Checks that the trial's models are those of the run. Another embedder is an error, because its
/// vectors do not match those in the index; another model that ranks or answers gives a note.
fn check_models(
    session: &Session,
    record: &RunRecord,
    experiment: &Experiment,
    trial: &Trial,
    part: Option<Part>,
) -> Result<Vec<String>, Error> {
    let known = &record.provenance()?.identities;
    let embedder = trial.pipeline().and_then(|pipeline| pipeline.embedder.as_deref());
    let mut notes = Vec::new();
    for name in trial.models().collect::<BTreeSet<_>>() {
        let (Some(config), Some(then)) = (experiment.models.get(name), known.get(name)) else { continue };
        // Each part checks its own models.
        let is_elsewhere = part.is_some_and(|part| !part.holds(config.kind()));
        if is_elsewhere || config.identity(session.context())? == *then {
            continue;
        }
        if embedder == Some(name) {
            return Err(Error::Unusable(format!(
                "models.{name} is not what it was in {} (other files, or another version of reverie), so that its \
                 vectors do not fit those in the index: {} makes the index anew",
                record.title(),
                Action::Run
            )));
        }
        notes.push(format!("models.{name} is not what it was in the run: other files, or another version of reverie"));
    }
    Ok(notes)
}

/// Answers a question, passes on each event, and collects the result.
async fn collect_answer(
    pipeline: &Pipeline,
    question: AskedQuestion<'_>,
    on_event: OnEvent<'_>,
) -> Result<QueryResult, Error> {
    let mut whole = QueryResult::default();
    let mut events = pin!(pipeline.answer(question));
    while let Some(event) = events.next().await {
        let event = event?;
        on_event(&event);
        match event {
            PipelineEvent::Fallback(reason) => whole.fallback = Some(reason),
            PipelineEvent::Remark(remark) => whole.remarks.push(remark),
            PipelineEvent::PassagesFound(found) => whole.passages = found,
            PipelineEvent::Piece(_) => {}
            PipelineEvent::Answered(answer) => whole.answer = Some(answer),
        }
    }
    Ok(whole)
}
