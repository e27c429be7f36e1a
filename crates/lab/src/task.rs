//! One task: read inputs, call the stage, write the artifact. The same code
//! runs under every engine.

mod cache;
mod checkpoint;
mod corpus;
mod exclusive;
mod handles;
pub(crate) mod read;
mod rows;
mod tokens;

pub(crate) use handles::Models;
pub(crate) use {
    corpus::open_corpus,
    rows::{answers_by_question, passages_by_question, scores_by_question},
};

use crate::{
    Error,
    artifact::{self, AnswerRow, DocumentRow, NoAnswer, PassageRow, ScoreRow, encode_vectors},
    engine::{Outputs, Turn},
    layout,
    plan::{Task, TaskId, Work},
    progress::Progress,
    spec::Experiment,
    timing::Components,
};
use bytes::Bytes;
use cache::Cache;
use corpus::{chunk_table, index_dense};
use eval::{Missing, Question, Sample, Scored, metric};
use futures::{StreamExt, stream};
use models::{Chat, InputKind, Matrix};
use rag::{
    Chunk, ChunkTable, Passage,
    index::{Bm25Index, DenseIndex, TokenIndex},
    load::{self, Rejected, Source, Unread},
    python::{caller, computing_for, on_behalf_of},
    retrieve::Query,
};
use serde::{Deserialize, Serialize};
use std::{
    path::PathBuf,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};
use store::{ArtifactStore, Event, EventLog};

/// Questions retrieved for between two looks at the progress table.
const QUESTIONS_PER_STEP: usize = 64;

/// What a task made.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Output {
    /// The artifact's name in the store.
    pub artifact: String,
    /// Rows made.
    pub rows: usize,
    /// Rows without a result because a provider failed.
    pub errors: usize,
    /// Rows without a result because a function of the user's own failed.
    #[serde(default)]
    pub function_errors: usize,
    /// Whether rows are missing, here or upstream, so that it must not be
    /// found under the task's key.
    pub partial: bool,
    /// Files that could not be read now.
    #[serde(default)]
    pub unread: Vec<Unread>,
    /// Whether another run made it meanwhile.
    #[serde(default)]
    pub shared: bool,
    /// Rows that an interrupted run had made.
    #[serde(default)]
    pub resumed: usize,
    /// Bytes of text that were read for the other rows, where that decides how
    /// long they take.
    #[serde(default)]
    pub bytes: u64,
}

/// Everything that tasks of a run share.
pub struct Execution {
    /// The experiment.
    pub experiment: Arc<Experiment>,
    /// Artifacts.
    pub store: ArtifactStore,
    /// The corpus.
    pub source: Source,
    /// The questions.
    pub questions: Vec<Question>,
    /// Where files may be put on this machine.
    pub scratch: PathBuf,
    /// The run's id.
    pub run: String,
    components: Components,
    log: Option<EventLog>,
    models: Arc<Models>,
    tables: Cache<ChunkTable>,
    dense: Cache<DenseIndex>,
    bm25: Cache<Bm25Index>,
    tokens: Cache<TokenIndex>,
    /// The token vectors of all questions, by model.
    question_tokens: Cache<Vec<Matrix>>,
}

/// What the tasks work on.
pub(crate) struct Material {
    pub(crate) source: Source,
    pub(crate) questions: Vec<Question>,
}

impl Execution {
    /// Puts together what tasks share.
    pub(crate) fn new(
        experiment: Arc<Experiment>,
        store: ArtifactStore,
        material: Material,
        scratch: PathBuf,
        run: String,
        log: EventLog,
        models: Arc<Models>,
    ) -> Self {
        let execution = Self::asking(experiment, store, material.source, scratch, &run, models);
        Self { questions: material.questions, log: Some(log), ..execution }
    }

    /// The same for who asks a finished run: there are no golden questions, and
    /// no log is written.
    pub(crate) fn asking(
        experiment: Arc<Experiment>,
        store: ArtifactStore,
        source: Source,
        scratch: PathBuf,
        run: &str,
        models: Arc<Models>,
    ) -> Self {
        let (run, questions, log) = (run.to_owned(), Vec::new(), None);
        let components = Components::of(&experiment);
        // A few corpora stay in memory: trials that share one follow each other.
        let (tables, dense, bm25) = (Cache::new(4), Cache::new(8), Cache::new(4));
        let (tokens, question_tokens) = (Cache::new(4), Cache::new(4));
        Self {
            experiment,
            store,
            source,
            questions,
            scratch,
            run,
            components,
            log,
            models,
            tables,
            dense,
            bm25,
            tokens,
            question_tokens,
        }
    }

    /// Adds a line to the event log. A log that fails never fails a run.
    pub fn log(&self, kind: &str, fields: serde_json::Value) {
        let Some(log) = &self.log else { return };
        let fields = match fields {
            serde_json::Value::Object(map) => map,
            other => serde_json::Map::from_iter([("value".to_owned(), other)]),
        };
        let _ = log.append(&Event { fields, ..Event::new(now_ms(), kind) });
    }

    /// The names of what tasks are made of.
    pub(crate) fn components(&self) -> &Components {
        &self.components
    }

    async fn read(&self, outputs: &Outputs, id: TaskId) -> Result<Bytes, Error> {
        let name = outputs.get(&id).ok_or_else(|| Error::table(format!("the output of task {id} is not known")))?;
        self.artifact(name).await
    }

    /// The bytes of an artifact. One that is damaged is set aside.
    pub(crate) async fn artifact(&self, name: &str) -> Result<Bytes, Error> {
        let found = self.store.read(name).await?;
        let found =
            found.ok_or_else(|| Error::table(format!("{name} is gone from the store; run again to make it anew")))?;
        if !found.is_checked
            && let Some(problem) = layout::problem(name, found.content.clone())
        {
            return Err(self.store.set_aside(name, &problem).await.into());
        }
        Ok(found.content)
    }

    async fn write(&self, task: &Task, bytes: Bytes, partial: bool) -> Result<String, Error> {
        let name = self.name(task, partial);
        self.store.put(&name, bytes).await?;
        Ok(name)
    }

    /// What a task's output is called: that of one that lacks something must
    /// not be found under the task's key.
    fn name(&self, task: &Task, partial: bool) -> String {
        if partial { layout::partial(&self.run, now_ms(), &task.artifact()) } else { task.artifact() }
    }

    /// The handles of the experiment's models.
    pub fn models(&self) -> &Models {
        &self.models
    }
}

pub(crate) fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

/// Runs something that computes on a blocking thread.
pub(crate) async fn compute<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Error::Task { label: "a computation".to_owned(), reason: error.to_string() })
}

/// Executes one task; functions of the user's own are told for which trials.
pub(crate) async fn execute(
    task: &Task,
    inputs: &Outputs,
    partial: bool,
    turn: Turn,
    cx: &Execution,
    progress: &Progress,
) -> Result<Output, Error> {
    let caller = (!task.trials.is_empty()).then(|| trials(&task.trials).into());
    let made = make(task, inputs, partial, turn, cx, progress);
    // What is made of partial inputs is this run's own.
    if partial || !exclusive::applies(task) {
        return on_behalf_of(caller, made).await;
    }
    on_behalf_of(caller, alone(task, made, cx, progress)).await
}

/// A list of trials that stays short.
fn trials(trials: &[String]) -> String {
    match trials {
        [first, second, _, _, rest @ ..] => format!("{first}, {second} and {} more", rest.len() + 2),
        few => few.join(", "),
    }
}

/// Makes a task's output, unless another run does so or has done so meanwhile.
async fn alone(
    task: &Task,
    made: impl Future<Output = Result<Output, Error>>,
    cx: &Execution,
    progress: &Progress,
) -> Result<Output, Error> {
    let _alone = exclusive::take(task, cx, progress).await;
    let artifact = task.artifact();
    if cx.store.exists(&artifact).await? {
        let rows = task.rows.unwrap_or_default();
        return Ok(Output { artifact, rows, shared: true, ..Output::default() });
    }
    made.await
}

async fn make(
    task: &Task,
    inputs: &Outputs,
    partial: bool,
    turn: Turn,
    cx: &Execution,
    progress: &Progress,
) -> Result<Output, Error> {
    let rows = |count: usize| progress.rows(task.operator, count);
    let mut unread = Vec::new();
    let begun = |count: usize| progress.expect(task.operator, count);
    let (mut resumed, mut has_parts, mut read) = (0, false, 0);
    let mut function_errors = 0;
    // Of inputs that lack something other texts would be kept under the task's key.
    let kept = (!partial).then_some(&task.key);
    let (bytes, count, errors) = match &task.work {
        Work::Load(files) => {
            let mut made = Vec::with_capacity(files.len());
            for (file, key) in files {
                match load_file(cx, file, key).await? {
                    Ok(row) => made.push(row),
                    Err(reason) => unread.push(reason),
                }
                rows(1);
            }
            for Unread { path, reason } in &unread {
                cx.log("document_unread", serde_json::json!({ "path": path, "reason": reason }));
            }
            for row in &made {
                if let DocumentRow::Rejected(rejected) = row {
                    cx.log(
                        "document_rejected",
                        serde_json::json!({ "path": rejected.path, "reason": rejected.reason.to_string() }),
                    );
                }
            }
            (artifact::encode(&made)?, made.len(), 0)
        }
        Work::Chunk(chunker, documents) => {
            let documents: Vec<DocumentRow> = artifact::decode(cx.read(inputs, *documents).await?)?;
            read = documents
                .iter()
                .map(|row| match row {
                    DocumentRow::Document(document) => document.text.len() as u64,
                    DocumentRow::Rejected(_) => 0,
                })
                .sum();
            let chunker = chunker.build(())?;
            let (progress, operator, caller) = (progress.clone(), task.operator, caller());
            let chunks = compute(move || {
                use rayon::prelude::*;
                let per_document = documents.par_iter().map(|row| match row {
                    DocumentRow::Document(document) => computing_for(&caller, || chunker.chunk(document))
                        .inspect(|chunks| progress.rows(operator, chunks.len())),
                    DocumentRow::Rejected(_) => Ok(Vec::new()),
                });
                let per_document = per_document.collect::<Result<Vec<Vec<Chunk>>, _>>();
                // Moved and not copied: the chunks of a large book are most of its memory.
                per_document.map(|chunks| chunks.into_iter().flatten().collect::<Vec<Chunk>>())
            })
            .await??;
            (artifact::encode(&chunks)?, chunks.len(), 0)
        }
        Work::Embed(model, chunks) => {
            let chunks: Vec<Chunk> = artifact::decode(cx.read(inputs, *chunks).await?)?;
            let texts: Vec<String> =
                chunks.into_iter().filter(|chunk| chunk.searchable).map(|chunk| chunk.text).collect();
            let embedder = cx.models.embedder(model)?;
            let made = checkpoint::embed(cx, kept, &embedder, &texts, InputKind::Document, begun, rows).await?;
            (resumed, has_parts) = (made.resumed, made.has_parts);
            read = texts[resumed..].iter().map(|text| text.len() as u64).sum();
            (encode_vectors(&made.matrix)?, texts.len(), 0)
        }
        Work::EmbedTokens(model, chunks) => {
            let artifact = cx.name(task, partial);
            let count = tokens::embed_tokens(cx, inputs, (model, *chunks), &artifact, kept.copied(), rows).await?;
            return Ok(Output { artifact, rows: count, partial, ..Output::default() });
        }
        Work::EmbedQueries(model) => {
            let texts: Vec<String> = cx.questions.iter().map(|question| question.question.clone()).collect();
            let embedder = cx.models.embedder(model)?;
            let made = checkpoint::embed(cx, kept, &embedder, &texts, InputKind::Query, |_| {}, rows).await?;
            (resumed, has_parts) = (made.resumed, made.has_parts);
            (encode_vectors(&made.matrix)?, texts.len(), 0)
        }
        Work::IndexDense(vectors) => {
            let artifact = cx.name(task, partial);
            let count = index_dense(cx, inputs, vectors, &artifact, rows).await?;
            return Ok(Output { artifact, rows: count, partial, ..Output::default() });
        }
        Work::IndexBm25(chunks) => {
            let table = chunk_table(cx, inputs, chunks).await?;
            begun(table.searchable().len());
            let (bytes, count) = compute(move || {
                let texts: Vec<&str> = table.searchable().iter().map(|&row| table.chunk(row).text.as_str()).collect();
                (Bm25Index::build(&texts).to_bytes(), texts.len())
            })
            .await?;
            rows(count);
            (Bytes::from(bytes), count, 0)
        }
        Work::Retrieve(chunker, retriever, corpus) => {
            let corpus = open_corpus(cx, inputs, corpus).await?;
            let (chunker, retriever) = (chunker.build(())?, retriever.build(())?);
            let questions: Vec<(String, String)> =
                cx.questions.iter().map(|question| (question.id.clone(), question.question.clone())).collect();
            let (progress, operator, caller) = (progress.clone(), task.operator, caller());
            let made = compute(move || {
                let queries: Vec<Query<'_>> = questions
                    .iter()
                    .enumerate()
                    .map(|(i, (_, text))| Query {
                        text,
                        embedding: corpus.queries.as_ref().map(|matrix| matrix.row(i)),
                        tokens: None,
                    })
                    .collect();
                let mut made = Vec::new();
                for (queries, questions) in queries.chunks(QUESTIONS_PER_STEP).zip(questions.chunks(QUESTIONS_PER_STEP))
                {
                    let found = computing_for(&caller, || retriever.retrieve(queries, &corpus.corpus()))?;
                    for ((id, _), hits) in questions.iter().zip(found) {
                        made.extend(passage_rows(id, chunker.context(hits, &corpus.table)));
                    }
                    progress.rows(operator, questions.len());
                }
                Ok::<_, rag::Error>(made)
            })
            .await??;
            (artifact::encode(&made)?, cx.questions.len(), 0)
        }
        Work::Rerank(config, embedder, passages, corpus) => {
            let corpus = open_corpus(cx, inputs, corpus).await?;
            let mut passages = passages_by_question(cx, inputs, *passages).await?;
            let reranker = config.build(&cx.models.rerank_context(config, embedder.as_deref())?)?;
            let tokens = match embedder.as_deref().filter(|_| config.needs().tokens) {
                Some(embedder) => Some(tokens::of_questions(cx, embedder).await?),
                None => None,
            };
            let mut made = Vec::new();
            for (i, question) in cx.questions.iter().enumerate() {
                let query = Query {
                    text: &question.question,
                    embedding: corpus.queries.as_ref().map(|matrix| matrix.row(i)),
                    tokens: tokens.as_ref().and_then(|tokens| tokens.get(i)),
                };
                let ranked =
                    reranker.rerank(query, corpus.corpus(), passages.remove(&question.id).unwrap_or_default()).await?;
                made.extend(passage_rows(&question.id, ranked));
                rows(1);
            }
            (artifact::encode(&made)?, cx.questions.len(), 0)
        }
        Work::Generate(config, passages, questions) => {
            let passages = passages_by_question(cx, inputs, *passages).await?;
            let generator = config.build(in_turn(cx.models.chat(config.model())?, turn))?;
            let mut calls = Vec::with_capacity(questions.len());
            for &i in questions {
                let (question, generator, passages) = (&cx.questions[i], &generator, &passages);
                calls.push(async move {
                    let found = passages.get(&question.id).map_or(&[][..], Vec::as_slice);
                    let answer = generator.generate(&question.question, found).await;
                    rows(1);
                    (question, answer)
                });
            }
            // The model's own limit decides how many of these run at once.
            let answers = futures::future::join_all(calls).await;
            let mut made = Vec::with_capacity(answers.len());
            for (question, answer) in answers {
                if let Err(rag::Error::Model(models::Error::Cancelled)) = answer {
                    return Err(models::Error::Cancelled.into());
                }
                let answer = answer.map_err(|error| NoAnswer {
                    reason: crate::error_chain(&error),
                    function: crate::failed_function(&error.into()).cloned().map(Box::new),
                });
                made.push(AnswerRow { question: question.id.clone(), answer });
            }
            let failed = made.iter().filter_map(|row| row.answer.as_ref().err());
            function_errors = failed.clone().filter(|no_answer| no_answer.function.is_some()).count();
            let errors = failed.count() - function_errors;
            (artifact::encode(&made)?, made.len(), errors)
        }
        Work::Score(config, passages, answers, questions) => {
            let needs = config.needs();
            let context = cx.models.metric_context(&cx.experiment.evaluate, needs)?;
            let judges = context.judges.into_iter().map(|judge| in_turn(judge, turn)).collect();
            let metric = config.build(&metric::Context { judges, ..context })?;
            let passages = passages_by_question(cx, inputs, *passages).await?;
            let answers = answers_by_question(cx, inputs, answers).await?;
            let mut calls = Vec::with_capacity(questions.len());
            for &i in questions {
                let (question, metric) = (&cx.questions[i], &metric);
                let found = passages.get(&question.id).map_or(&[][..], Vec::as_slice);
                let answer = answers.get(&question.id);
                calls.push(async move {
                    let scored = match answer {
                        Some(Err(error)) if needs.answer => Scored::missing(error.missing()),
                        _ => {
                            let answer = answer.and_then(|answer| answer.as_ref().ok());
                            config.score(&**metric, &Sample { question, passages: found, answer }).await
                        }
                    };
                    rows(1);
                    ScoreRow { question: question.id.clone(), scored }
                });
            }
            let made: Vec<ScoreRow> = stream::iter(calls).buffered(cx.experiment.engine.local.tasks).collect().await;
            if made.iter().any(|row| matches!(row.scored.score, eval::Score::Missing(Missing::Cancelled))) {
                return Err(models::Error::Cancelled.into());
            }
            let failed = |row: &&ScoreRow| matches!(row.scored.score, eval::Score::Missing(Missing::ProviderError(_)));
            let errors = made.iter().filter(failed).count();
            let failed = |row: &&ScoreRow| matches!(row.scored.score, eval::Score::Missing(Missing::FunctionError(_)));
            function_errors = made.iter().filter(failed).count();
            (artifact::encode(&made)?, made.len(), errors)
        }
    };
    let partial = partial || errors + function_errors > 0 || !unread.is_empty();
    let artifact = cx.write(task, bytes, partial).await?;
    if has_parts {
        checkpoint::remove(cx, &task.key).await;
    }
    Ok(Output { artifact, rows: count, errors, function_errors, partial, unread, shared: false, resumed, bytes: read })
}

/// Trials take turns, so that a large one does not hold up the others.
fn in_turn(chat: Chat, turn: Turn) -> Chat {
    chat.with_group(turn.group).with_priority(turn.priority)
}

/// What became of a file, if it could be read.
async fn load_file(
    cx: &Execution,
    file: &load::SourceFile,
    key: &store::Key,
) -> Result<Result<DocumentRow, Unread>, Error> {
    let limits = cx.experiment.corpus.limits.clone();
    let path = file.path.clone();
    let parsed = match read::expected(&cx.source, file, key, &limits).await {
        Ok(Ok(bytes)) => compute(move || load::parse(&path, &bytes, &limits)).await?,
        Ok(Err(reason)) => Err(reason),
        Err(unread) => return Ok(Err(unread)),
    };
    Ok(Ok(match parsed {
        Ok(document) => DocumentRow::Document(document),
        Err(reason) => DocumentRow::Rejected(Rejected { path: file.path.clone(), reason }),
    }))
}

fn passage_rows(question: &str, passages: Vec<Passage>) -> impl Iterator<Item = PassageRow> {
    (1u32..).zip(passages).map(move |(rank, passage)| PassageRow { question: question.to_owned(), rank, passage })
}
