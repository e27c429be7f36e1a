//! One task: read inputs, call the stage, write the artifact. The same code
//! runs under every engine.

mod cache;
mod corpus;
mod handles;
mod rows;

pub(crate) use handles::Models;
pub(crate) use {
    corpus::open_corpus,
    rows::{answers_by_question, passages_by_question, scores_by_question},
};

use crate::{
    Error,
    artifact::{self, AnswerRow, DocumentRow, PassageRow, ScoreRow, encode_vectors},
    engine::{Outputs, Turn},
    plan::{Task, TaskId, Work},
    progress::Progress,
    spec::Experiment,
};
use bytes::Bytes;
use cache::Cache;
use corpus::{chunk_table, index_dense};
use eval::{Missing, Question, Sample, Scored, metric};
use futures::{StreamExt, stream};
use models::{Chat, Embedder, InputKind, Matrix};
use rag::{
    Chunk, ChunkTable, Passage,
    index::{Bm25Index, DenseIndex},
    load::{self, Rejected, Source},
    retrieve::Query,
};
use serde::{Deserialize, Serialize};
use std::{
    path::PathBuf,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};
use store::{ArtifactStore, Event, EventLog};

/// Texts embedded between two looks at the progress table.
const TEXTS_PER_STEP: usize = 256;

/// What a task made.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Output {
    /// The artifact's name in the store.
    pub artifact: String,
    /// Rows made.
    pub rows: usize,
    /// Rows without a result because a provider failed.
    pub errors: usize,
    /// Whether rows are missing, here or upstream, so that it must not be
    /// found under the task's key.
    pub partial: bool,
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
    log: EventLog,
    models: Arc<Models>,
    tables: Cache<ChunkTable>,
    dense: Cache<DenseIndex>,
    bm25: Cache<Bm25Index>,
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
        let Material { source, questions } = material;
        // A few corpora stay in memory: trials that share one follow each other.
        let (tables, dense, bm25) = (Cache::new(4), Cache::new(8), Cache::new(4));
        Self { experiment, store, source, questions, scratch, run, log, models, tables, dense, bm25 }
    }

    /// Adds a line to the event log. A log that fails never fails a run.
    pub fn log(&self, kind: &str, fields: serde_json::Value) {
        let fields = match fields {
            serde_json::Value::Object(map) => map,
            other => serde_json::Map::from_iter([("value".to_owned(), other)]),
        };
        let _ = self.log.append(&Event { fields, ..Event::new(now_ms(), kind) });
    }

    async fn read(&self, outputs: &Outputs, id: TaskId) -> Result<Bytes, Error> {
        let name = outputs.get(&id).ok_or_else(|| Error::table(format!("the output of task {id} is not known")))?;
        let bytes = self.store.get(name).await?;
        bytes.ok_or_else(|| Error::table(format!("{name} is gone from the store; run again to make it anew")))
    }

    async fn write(&self, task: &Task, bytes: Bytes, partial: bool) -> Result<String, Error> {
        let name = if partial {
            format!("partial/{}/{}-{}", self.run, now_ms(), task.artifact().replace('/', "-"))
        } else {
            task.artifact()
        };
        self.store.put(&name, bytes).await?;
        Ok(name)
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

/// Executes one task.
pub(crate) async fn execute(
    task: &Task,
    inputs: &Outputs,
    partial: bool,
    turn: Turn,
    cx: &Execution,
    progress: &Progress,
) -> Result<Output, Error> {
    let rows = |count: usize| progress.rows(task.operator, count);
    let (bytes, count, errors) = match &task.work {
        Work::Load(files) => {
            let mut made = Vec::with_capacity(files.len());
            for file in files {
                made.push(load_file(cx, file).await?);
                rows(1);
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
            let chunker = chunker.build(())?;
            let chunks = compute(move || {
                use rayon::prelude::*;
                let per_document = documents.par_iter().map(|row| match row {
                    DocumentRow::Document(document) => chunker.chunk(document),
                    DocumentRow::Rejected(_) => Ok(Vec::new()),
                });
                per_document.collect::<Result<Vec<Vec<Chunk>>, _>>().map(|chunks| chunks.concat())
            })
            .await??;
            rows(chunks.len());
            (artifact::encode(&chunks)?, chunks.len(), 0)
        }
        Work::Embed(model, chunks) => {
            let chunks: Vec<Chunk> = artifact::decode(cx.read(inputs, *chunks).await?)?;
            let texts: Vec<String> =
                chunks.into_iter().filter(|chunk| chunk.searchable).map(|chunk| chunk.text).collect();
            let matrix = embed(&cx.models.embedder(model)?, &texts, InputKind::Document, rows).await?;
            (encode_vectors(&matrix)?, texts.len(), 0)
        }
        Work::EmbedQueries(model) => {
            let texts: Vec<String> = cx.questions.iter().map(|question| question.question.clone()).collect();
            let matrix = embed(&cx.models.embedder(model)?, &texts, InputKind::Query, rows).await?;
            (encode_vectors(&matrix)?, texts.len(), 0)
        }
        Work::IndexDense(vectors) => {
            let count = index_dense(cx, inputs, vectors, &task.artifact()).await?;
            rows(count);
            return Ok(Output { artifact: task.artifact(), rows: count, errors: 0, partial: false });
        }
        Work::IndexBm25(chunks) => {
            let table = chunk_table(cx, inputs, chunks).await?;
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
            let made = compute(move || {
                let queries: Vec<Query<'_>> = questions
                    .iter()
                    .enumerate()
                    .map(|(i, (_, text))| Query {
                        text,
                        embedding: corpus.queries.as_ref().map(|matrix| matrix.row(i)),
                    })
                    .collect();
                let found = retriever.retrieve(&queries, &corpus.corpus())?;
                let mut made = Vec::new();
                for ((id, _), hits) in questions.iter().zip(found) {
                    made.extend(passage_rows(id, chunker.context(hits, &corpus.table)));
                }
                Ok::<_, rag::Error>(made)
            })
            .await??;
            rows(cx.questions.len());
            (artifact::encode(&made)?, cx.questions.len(), 0)
        }
        Work::Rerank(config, embedder, passages, corpus) => {
            let corpus = open_corpus(cx, inputs, corpus).await?;
            let mut passages = passages_by_question(cx, inputs, *passages).await?;
            let reranker = config.build(&cx.models.rerank_context(config, embedder.as_deref())?)?;
            let mut made = Vec::new();
            for (i, question) in cx.questions.iter().enumerate() {
                let query =
                    Query { text: &question.question, embedding: corpus.queries.as_ref().map(|matrix| matrix.row(i)) };
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
                let answer = answer.map_err(|error| crate::error_chain(&error));
                made.push(AnswerRow { question: question.id.clone(), answer });
            }
            let errors = made.iter().filter(|row| row.answer.is_err()).count();
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
                        Some(Err(error)) if needs.answer => Scored::missing(Missing::ProviderError(error.clone())),
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
            (artifact::encode(&made)?, made.len(), errors)
        }
    };
    let partial = partial || errors > 0;
    let artifact = cx.write(task, bytes, partial).await?;
    Ok(Output { artifact, rows: count, errors, partial })
}

/// Trials take turns, so that a large one does not hold up the others.
fn in_turn(chat: Chat, turn: Turn) -> Chat {
    chat.with_group(turn.group).with_priority(turn.priority)
}

async fn load_file(cx: &Execution, file: &load::SourceFile) -> Result<DocumentRow, Error> {
    let limits = cx.experiment.corpus.limits.clone();
    let path = file.path.clone();
    let parsed = match cx.source.read(file, &limits).await {
        Ok(bytes) => compute(move || load::parse(&path, &bytes, &limits)).await?,
        Err(reason) => Err(reason),
    };
    Ok(match parsed {
        Ok(document) => DocumentRow::Document(document),
        Err(reason) => DocumentRow::Rejected(Rejected { path: file.path.clone(), reason }),
    })
}

async fn embed(embedder: &Embedder, texts: &[String], kind: InputKind, rows: impl Fn(usize)) -> Result<Matrix, Error> {
    let mut all = Matrix { columns: embedder.dimensions(), data: Vec::new() };
    for step in texts.chunks(TEXTS_PER_STEP) {
        let matrix = embedder.embed(step, kind).await?;
        all.columns = matrix.columns;
        all.data.extend_from_slice(&matrix.data);
        rows(step.len());
    }
    Ok(all)
}

fn passage_rows(question: &str, passages: Vec<Passage>) -> impl Iterator<Item = PassageRow> {
    (1u32..).zip(passages).map(move |(rank, passage)| PassageRow { question: question.to_owned(), rank, passage })
}
