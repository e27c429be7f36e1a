//! The plan: the graph of content-addressed tasks that all trials share.
//!
//! A task's key is the hash of its component, the component's version and
//! resolved settings, the identity of the model it uses, and the keys of its
//! inputs. Equal keys are the same task, so a prefix that trials share is
//! planned once.

use crate::{
    artifact, blocks::file_blocks, estimate::CostEstimate, spec::Experiment, timing::TimeEstimate, trial::Trial,
};
use eval::{MetricConfig, Question, dataset::DatasetReport};
use models::Identity;
use rag::{
    chunk::ChunkerConfig,
    generate::GeneratorConfig,
    index::{BM25_VERSION, DENSE_VERSION, TOKENS_VERSION},
    load,
    load::{Rejected, SourceFile, Unread},
    rerank::RerankerConfig,
    retrieve::RetrieverConfig,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use store::{Key, KeyBuilder};

/// Questions answered by one task: small, so that a lost task loses little
/// and trials finish one after another.
const QUESTIONS_PER_TASK: usize = 8;

/// The kind of work a task does: the rows of the live table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operator {
    /// Files to documents.
    Load,
    /// Documents to chunks.
    Chunk,
    /// Chunks to vectors.
    Embed,
    /// Questions to vectors.
    EmbedQueries,
    /// Vectors and words to indexes.
    Index,
    /// Questions to passages.
    Retrieve,
    /// Passages to better ordered passages.
    Rerank,
    /// Passages to answers.
    Generate,
    /// Everything to scores.
    Score,
    /// The same, by a judge.
    Judge,
}

impl Operator {
    /// All, from upstream to downstream.
    pub const ALL: [Self; 10] = [
        Self::Load,
        Self::Chunk,
        Self::Embed,
        Self::EmbedQueries,
        Self::Index,
        Self::Retrieve,
        Self::Rerank,
        Self::Generate,
        Self::Score,
        Self::Judge,
    ];

    /// Whether its tasks mostly wait for models.
    pub(crate) fn waits(self) -> bool {
        matches!(self, Self::Generate | Self::Judge | Self::Rerank)
    }

    /// The name people read.
    pub fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Chunk => "chunk",
            Self::Embed => "embed",
            Self::EmbedQueries => "embed queries",
            Self::Index => "index",
            Self::Retrieve => "retrieve",
            Self::Rerank => "rerank",
            Self::Generate => "generate",
            Self::Score => "score",
            Self::Judge => "judge",
        }
    }
}

/// A task's place in its plan. Inputs always come before the tasks that use them.
pub type TaskId = usize;

/// What a retrieval looks at.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CorpusInputs {
    /// The chunks of all documents.
    pub chunks: Vec<TaskId>,
    /// The dense index.
    pub dense: Option<TaskId>,
    /// The BM25 index.
    pub bm25: Option<TaskId>,
    /// The token vectors of all chunks, if they are looked at.
    pub tokens: Vec<TaskId>,
    /// The questions' vectors.
    pub queries: Option<TaskId>,
}

impl CorpusInputs {
    pub(crate) fn all(&self) -> Vec<TaskId> {
        let indexes = self.dense.into_iter().chain(self.bm25).chain(self.queries);
        self.chunks.iter().copied().chain(indexes).chain(self.tokens.iter().copied()).collect()
    }
}

/// What a task does. Questions are given by their position in the dataset.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Parse files, which must still have the contents of these keys.
    Load(Vec<(SourceFile, Key)>),
    /// Cut one shard of documents.
    Chunk(ChunkerConfig, TaskId),
    /// Embed one shard of chunks with the named model.
    Embed(String, TaskId),
    /// Embed each token of one shard of chunks with the named model.
    EmbedTokens(String, TaskId),
    /// Embed all questions with the named model.
    EmbedQueries(String),
    /// Put vectors into a dense index.
    IndexDense(Vec<TaskId>),
    /// Put chunks into a BM25 index.
    IndexBm25(Vec<TaskId>),
    /// Retrieve for all questions.
    Retrieve(ChunkerConfig, RetrieverConfig, CorpusInputs),
    /// Rerank for all questions; the name is the trial's embedder.
    Rerank(RerankerConfig, Option<String>, TaskId, CorpusInputs),
    /// Answer some questions.
    Generate(GeneratorConfig, TaskId, Vec<usize>),
    /// Score some questions.
    Score(MetricConfig, TaskId, Vec<TaskId>, Vec<usize>),
}

/// One stage call on one shard.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Task {
    /// What it is, for ever.
    pub key: Key,
    /// The kind of work.
    pub operator: Operator,
    /// The work.
    pub work: Work,
    /// What it needs, each before it in the plan.
    pub inputs: Vec<TaskId>,
    /// How many rows it will make, where that is known.
    pub rows: Option<usize>,
    /// What people read in errors and in the event log.
    pub label: String,
    /// The trials that it is for, where it runs a function of the user's own.
    #[serde(default)]
    pub trials: Vec<String>,
}

impl Task {
    fn new(key: Key, operator: Operator, work: Work, inputs: Vec<TaskId>, label: String) -> Self {
        Self { key, operator, work, inputs, rows: None, label, trials: Vec::new() }
    }

    /// Whether it calls a function of the user's own.
    pub(crate) fn runs_function(&self) -> bool {
        match &self.work {
            Work::Chunk(chunker, _) => matches!(chunker, ChunkerConfig::Python(_)),
            Work::Retrieve(_, retriever, _) => matches!(retriever, RetrieverConfig::Python(_)),
            Work::Rerank(reranker, ..) => matches!(reranker, RerankerConfig::Python(_)),
            Work::Generate(generator, ..) => matches!(generator, GeneratorConfig::Python(_)),
            Work::Score(metric, ..) => matches!(metric, MetricConfig::Python(_)),
            _ => false,
        }
    }

    /// The name of its artifact in the store.
    pub fn artifact(&self) -> String {
        let hex = self.key.hex();
        let extension = match self.work {
            Work::IndexDense(_) => "dense",
            Work::IndexBm25(_) => "bm25",
            Work::EmbedTokens(..) => "tokens",
            _ => "parquet",
        };
        format!("artifacts/{}/{hex}.{extension}", &hex[..2])
    }
}

/// Where a trial's results are in the plan.
#[derive(Debug, Clone)]
pub struct TrialTasks {
    /// Its passages.
    pub passages: TaskId,
    /// Its answers, in shards.
    pub answers: Vec<TaskId>,
    /// Its scores, in the order of the experiment's metrics.
    pub scores: Vec<(MetricConfig, TaskId)>,
}

/// All tasks of all trials, each once.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// The tasks; inputs first.
    pub tasks: Vec<Task>,
    /// The trials' results, in the order of the trials.
    pub trials: Vec<TrialTasks>,
    /// How many tasks the trials would need without sharing.
    pub unshared: usize,
    seen: HashMap<Key, TaskId>,
}

/// What a plan costs, for people and programs.
#[derive(Debug, Clone, Serialize)]
pub struct PlanSummary {
    /// Trials.
    pub trials: usize,
    /// The same, one by one, in the order of the grid.
    pub combinations: Vec<PlannedTrial>,
    /// Per operator.
    pub operators: Vec<OperatorPlan>,
    /// The search that asks for a part of this, unless it is a grid.
    pub search: Option<String>,
    /// What is left to run should cost, beside the budget.
    pub cost: Option<CostEstimate>,
    /// The questions and the columns of their file that are not used.
    pub dataset: Option<DatasetReport>,
    /// Files that gave no document.
    pub rejected: Vec<Rejected>,
    /// Files that cannot be read now.
    pub unread: Vec<Unread>,
    /// Questions that are left out, since their evidence stands in such a file.
    pub left_out: Vec<String>,
    /// How long that should take, from what this machine did before.
    pub time: Option<TimeEstimate>,
}

/// One trial of a plan.
#[derive(Debug, Clone, Serialize)]
pub struct PlannedTrial {
    /// Its id.
    pub trial: String,
    /// What stands for its value on each axis.
    pub labels: BTreeMap<String, String>,
    /// Whether all that it needs is in the store.
    pub stored: bool,
}

/// One operator's share of a plan.
#[derive(Debug, Clone, Serialize)]
pub struct OperatorPlan {
    /// The operator.
    pub operator: Operator,
    /// Tasks if every trial were run on its own.
    pub planned: usize,
    /// Of these, different ones.
    pub unique: usize,
    /// Of these, already in the store.
    pub stored: usize,
    /// What the unique tasks are, for operators with few kinds.
    pub detail: Vec<String>,
}

/// What planning looks at besides the experiment.
pub struct Inputs<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// The trials.
    pub trials: &'a [Trial],
    /// The identities of all models, by name.
    pub identities: &'a BTreeMap<String, Identity>,
    /// The files, with the keys of their bytes.
    pub files: &'a [(SourceFile, Key)],
    /// Files that could not be read now: they are left out, and nothing else
    /// goes to another task for that.
    pub unread: &'a [SourceFile],
    /// The identity of the PDF library.
    pub pdf_library: &'a str,
    /// The golden questions, evidence anchored.
    pub questions: &'a [Question],
    /// For each trial, which questions it answers, and in which order; all
    /// that the experiment wants answered if left out.
    pub asked: Option<&'a [Vec<usize>]>,
}

impl Plan {
    /// Only the parsing of files, which everything else starts from.
    pub fn loading(inputs: &Inputs<'_>) -> Self {
        let mut plan = Self::default();
        plan.load(inputs);
        plan
    }

    /// The plan of all trials.
    pub fn new(inputs: &Inputs<'_>) -> Self {
        let mut plan = Self::default();
        let documents = plan.load(inputs);
        let answered = inputs.experiment.evaluate.answered.unwrap_or(usize::MAX).min(inputs.questions.len());
        let all: Vec<usize> = (0..answered).collect();
        for (i, trial) in inputs.trials.iter().enumerate() {
            let asked = inputs.asked.and_then(|asked| asked.get(i)).unwrap_or(&all);
            let tasks = plan.trial(inputs, trial, &documents, asked);
            plan.trials.push(tasks);
        }
        plan.name_trials(inputs.trials);
        // What every trial needs, loading and all, had it been alone.
        plan.unshared += documents.len() * inputs.trials.len().saturating_sub(1);
        plan
    }

    /// The tasks that hold what a person wants to see.
    pub fn sinks(&self) -> Vec<TaskId> {
        let of_trial = |trial: &TrialTasks| {
            let scores = trial.scores.iter().map(|(_, id)| *id);
            std::iter::once(trial.passages).chain(trial.answers.iter().copied()).chain(scores).collect::<Vec<_>>()
        };
        let mut sinks: Vec<_> = self.trials.iter().flat_map(of_trial).collect();
        if self.trials.is_empty() {
            sinks = (0..self.tasks.len()).collect();
        }
        sinks.sort_unstable();
        sinks.dedup();
        sinks
    }

    /// Notes for each function of the user's own which trials it is for.
    fn name_trials(&mut self, trials: &[Trial]) {
        if !self.tasks.iter().any(Task::runs_function) {
            return;
        }
        for (tasks, trial) in std::mem::take(&mut self.trials).into_iter().zip(trials) {
            for id in self.reached(&tasks) {
                let task = &mut self.tasks[id];
                if task.runs_function() {
                    task.trials.push(trial.id.clone());
                }
            }
            self.trials.push(tasks);
        }
    }

    /// All tasks that a trial needs, each once.
    fn reached(&self, trial: &TrialTasks) -> Vec<TaskId> {
        let mut seen = vec![false; self.tasks.len()];
        let scores = trial.scores.iter().map(|(_, id)| *id);
        let mut open: Vec<_> = trial.answers.iter().copied().chain(scores).chain([trial.passages]).collect();
        let mut reached = Vec::new();
        while let Some(id) = open.pop() {
            if !std::mem::replace(&mut seen[id], true) {
                reached.push(id);
                open.extend(&self.tasks[id].inputs);
            }
        }
        reached
    }

    /// The identity of the whole plan: that of all its tasks.
    pub fn key(&self) -> Key {
        let keys: Vec<_> = self.tasks.iter().map(|task| task.key).collect();
        KeyBuilder::new("plan").field("tasks", &keys).finish()
    }

    /// Counts per operator. `stored` says which tasks are in the store.
    pub fn summary(&self, stored: &dyn Fn(TaskId) -> bool) -> PlanSummary {
        let mut planned: BTreeMap<Operator, usize> = BTreeMap::new();
        for trial in &self.trials {
            for id in self.reached(trial) {
                *planned.entry(self.tasks[id].operator).or_default() += 1;
            }
        }
        let operators = Operator::ALL
            .into_iter()
            .filter_map(|operator| {
                let ids: Vec<_> = (0..self.tasks.len()).filter(|&id| self.tasks[id].operator == operator).collect();
                let mut detail: Vec<String> = ids.iter().map(|&id| self.tasks[id].label.clone()).collect();
                detail.sort();
                detail.dedup();
                (!ids.is_empty()).then(|| OperatorPlan {
                    operator,
                    planned: planned.get(&operator).copied().unwrap_or(ids.len()),
                    unique: ids.len(),
                    stored: ids.iter().filter(|&&id| stored(id)).count(),
                    detail,
                })
            })
            .collect();
        PlanSummary {
            trials: self.trials.len(),
            combinations: Vec::new(),
            operators,
            search: None,
            cost: None,
            time: None,
            dataset: None,
            rejected: Vec::new(),
            unread: Vec::new(),
            left_out: Vec::new(),
        }
    }

    fn add(&mut self, task: Task) -> TaskId {
        self.unshared += 1;
        *self.seen.entry(task.key).or_insert_with(|| {
            self.tasks.push(task);
            self.tasks.len() - 1
        })
    }

    fn builder(&self, kind: &str, inputs: &[TaskId]) -> KeyBuilder {
        let keys: Vec<_> = inputs.iter().map(|&id| self.tasks[id].key).collect();
        KeyBuilder::new(kind).field("tables", &artifact::VERSION).field("inputs", &keys)
    }

    fn load(&mut self, inputs: &Inputs<'_>) -> Vec<TaskId> {
        let read = inputs.files.iter().map(|file| (&file.0, Some(file)));
        let mut files: Vec<_> = read.chain(inputs.unread.iter().map(|file| (file, None))).collect();
        files.sort_by(|one, other| one.0.path.cmp(&other.0.path));
        let blocks = file_blocks(files.iter().map(|(listed, _)| listed.bytes));
        let shards = blocks.into_iter().map(|block| files[block].iter().filter_map(|(_, file)| *file).collect());
        shards
            .filter(|shard: &Vec<&(SourceFile, Key)>| !shard.is_empty())
            .map(|shard| {
                let names: Vec<_> = shard.iter().map(|(file, key)| (&file.path, key)).collect();
                let key = self
                    .builder("load", &[])
                    .field("version", &load::VERSION)
                    .field("limits", &inputs.experiment.corpus.limits)
                    .field("pdf", inputs.pdf_library)
                    .field("files", &names)
                    .finish();
                let label = match names.as_slice() {
                    [(path, _)] => format!("load {path}"),
                    many => format!("load {} files", many.len()),
                };
                let rows = Some(shard.len());
                let files = shard.into_iter().cloned().collect();
                self.add(Task { rows, ..Task::new(key, Operator::Load, Work::Load(files), vec![], label) })
            })
            .collect()
    }

    fn trial(&mut self, inputs: &Inputs<'_>, trial: &Trial, documents: &[TaskId], asked: &[usize]) -> TrialTasks {
        let corpus = self.corpus(inputs, trial, documents);
        let mut passages = self.retrieve(inputs, trial, &corpus);
        if trial.reranker != none() {
            passages = self.rerank(inputs, trial, passages, &corpus);
        }
        let answers = self.generate(inputs, trial, passages, asked);
        let metrics = &inputs.experiment.evaluate.metrics;
        let scores = metrics
            .iter()
            .filter(|_| !inputs.questions.is_empty())
            .map(|metric| (metric.clone(), self.score(inputs, metric, passages, &answers, asked)))
            .collect();
        TrialTasks { passages, answers, scores }
    }

    fn corpus(&mut self, inputs: &Inputs<'_>, trial: &Trial, documents: &[TaskId]) -> CorpusInputs {
        let needs = searched(trial).and(trial.reranker.needs());
        let chunker = &trial.chunker;
        let chunks: Vec<_> = documents
            .iter()
            .map(|&shard| {
                let key = component(self.builder("chunk", &[shard]), chunker.version(), chunker).finish();
                let label = format!("chunk with {}", trial.labels["chunker"]);
                let work = Work::Chunk(chunker.clone(), shard);
                self.add(Task::new(key, Operator::Chunk, work, vec![shard], label))
            })
            .collect();
        let dense = trial.embedder.as_ref().filter(|_| needs.dense).map(|embedder| {
            let label = format!("{embedder} on {}", trial.labels["chunker"]);
            let vectors: Vec<_> = chunks
                .iter()
                .map(|&shard| {
                    let key = self.builder("embed", &[shard]).field("model", &inputs.identities[embedder]).finish();
                    let work = Work::Embed(embedder.clone(), shard);
                    let label = format!("embed {label}");
                    self.add(Task::new(key, Operator::Embed, work, vec![shard], label))
                })
                .collect();
            let key = self.builder("index_dense", &vectors).field("version", &DENSE_VERSION).finish();
            let work = Work::IndexDense(vectors.clone());
            let label = format!("dense index of {label}");
            self.add(Task::new(key, Operator::Index, work, vectors, label))
        });
        let bm25 = needs.bm25.then(|| {
            let key = self.builder("index_bm25", &chunks).field("version", &BM25_VERSION).finish();
            let work = Work::IndexBm25(chunks.clone());
            let label = format!("BM25 index of {}", trial.labels["chunker"]);
            self.add(Task::new(key, Operator::Index, work, chunks.clone(), label))
        });
        let queries = trial.embedder.as_ref().filter(|_| needs.dense && !inputs.questions.is_empty()).map(|embedder| {
            let texts: Vec<_> = inputs.questions.iter().map(|question| &question.question).collect();
            let key = self
                .builder("embed_queries", &[])
                .field("model", &inputs.identities[embedder])
                .field("texts", &texts)
                .finish();
            let work = Work::EmbedQueries(embedder.clone());
            let (rows, label) = (Some(texts.len()), format!("embed questions with {embedder}"));
            self.add(Task { rows, ..Task::new(key, Operator::EmbedQueries, work, vec![], label) })
        });
        let embedder = trial.embedder.as_ref().filter(|_| needs.tokens);
        let tokens = embedder.map(|embedder| self.tokens(inputs, trial, embedder, &chunks)).unwrap_or_default();
        CorpusInputs { chunks, dense, bm25, tokens, queries }
    }

    /// The token vectors of all chunks, in shards of their own: of a run that
    /// is killed, those that are done stay.
    fn tokens(&mut self, inputs: &Inputs<'_>, trial: &Trial, embedder: &str, chunks: &[TaskId]) -> Vec<TaskId> {
        let shard = |&shard: &TaskId| {
            let builder = self.builder("embed_tokens", &[shard]).field("version", &TOKENS_VERSION);
            let key = builder.field("model", &inputs.identities[embedder]).finish();
            let work = Work::EmbedTokens(embedder.to_owned(), shard);
            let label = format!("embed tokens with {embedder} on {}", trial.labels["chunker"]);
            self.add(Task::new(key, Operator::Embed, work, vec![shard], label))
        };
        chunks.iter().map(shard).collect()
    }

    fn retrieve(&mut self, inputs: &Inputs<'_>, trial: &Trial, corpus: &CorpusInputs) -> TaskId {
        let (chunker, retriever) = (&trial.chunker, &trial.retriever);
        let questions: Vec<_> = inputs.questions.iter().map(|question| (&question.id, &question.question)).collect();
        // A retriever is keyed by what it searches, and by nothing else that
        // other trials happen to need.
        let needs = searched(trial);
        let corpus = CorpusInputs {
            chunks: corpus.chunks.clone(),
            dense: corpus.dense.filter(|_| needs.dense),
            bm25: corpus.bm25.filter(|_| needs.bm25),
            tokens: if needs.tokens { corpus.tokens.clone() } else { Vec::new() },
            queries: corpus.queries.filter(|_| needs.dense),
        };
        let input_ids = corpus.all();
        let builder = component(self.builder("retrieve", &input_ids), retriever.version(), retriever);
        let key = component(builder, chunker.version(), chunker).field("questions", &questions).finish();
        let label = format!("retrieve {}", trial.labels["retriever"]);
        let work = Work::Retrieve(chunker.clone(), retriever.clone(), corpus);
        let rows = Some(questions.len());
        self.add(Task { rows, ..Task::new(key, Operator::Retrieve, work, input_ids, label) })
    }

    fn rerank(&mut self, inputs: &Inputs<'_>, trial: &Trial, passages: TaskId, corpus: &CorpusInputs) -> TaskId {
        let reranker = &trial.reranker;
        let models: Vec<_> = [reranker.model(), trial.embedder.as_deref().filter(|_| reranker.needs().embedder())]
            .into_iter()
            .flatten()
            .map(|model| &inputs.identities[model])
            .collect();
        let questions: Vec<_> = inputs.questions.iter().map(|question| &question.question).collect();
        let mut input_ids = corpus.all();
        input_ids.push(passages);
        let builder = component(self.builder("rerank", &input_ids), reranker.version(), reranker);
        let key = builder.field("models", &models).field("questions", &questions).finish();
        let label = format!("rerank {}", trial.labels["reranker"]);
        let work = Work::Rerank(reranker.clone(), trial.embedder.clone(), passages, corpus.clone());
        let rows = Some(questions.len());
        self.add(Task { rows, ..Task::new(key, Operator::Rerank, work, input_ids, label) })
    }

    fn generate(&mut self, inputs: &Inputs<'_>, trial: &Trial, passages: TaskId, asked: &[usize]) -> Vec<TaskId> {
        let Some(generator) = &trial.generator else { return Vec::new() };
        let identity = &inputs.identities[generator.model()];
        asked
            .chunks(QUESTIONS_PER_TASK)
            .map(|shard| {
                let questions: Vec<_> =
                    shard.iter().map(|&i| (&inputs.questions[i].id, &inputs.questions[i].question)).collect();
                let builder = component(self.builder("generate", &[passages]), generator.version(), generator);
                let key = builder.field("model", identity).field("questions", &questions).finish();
                let label = format!("generate {} for {}", trial.labels["generator"], trial.id);
                let rows = Some(shard.len());
                let work = Work::Generate(generator.clone(), passages, shard.to_vec());
                self.add(Task { rows, ..Task::new(key, Operator::Generate, work, vec![passages], label) })
            })
            .collect()
    }

    fn score(
        &mut self,
        inputs: &Inputs<'_>,
        metric: &MetricConfig,
        passages: TaskId,
        answers: &[TaskId],
        asked: &[usize],
    ) -> TaskId {
        let evaluate = &inputs.experiment.evaluate;
        let needs = metric.needs();
        let mut asked: Vec<usize> = if needs.answer { asked.to_vec() } else { (0..inputs.questions.len()).collect() };
        if needs.judge {
            // The same questions, whatever the order that a search asks in.
            asked.retain(|&i| i < evaluate.judged.unwrap_or(usize::MAX));
        }
        let questions: Vec<&Question> = asked.iter().map(|&i| &inputs.questions[i]).collect();
        let answers = if needs.answer { answers.to_vec() } else { Vec::new() };
        let judges = evaluate.judges.iter().filter(|_| needs.judge);
        let embedder = evaluate.embedder.iter().filter(|_| needs.embedder);
        let models: Vec<_> = judges.chain(embedder).map(|model| &inputs.identities[model]).collect();
        let mut input_ids = answers.clone();
        input_ids.push(passages);
        let builder = component(self.builder("score", &input_ids), metric.version(), metric);
        let key = builder.field("models", &models).field("questions", &questions).finish();
        let operator = if needs.judge { Operator::Judge } else { Operator::Score };
        let (count, work) = (asked.len(), Work::Score(metric.clone(), passages, answers, asked));
        let label = format!("score {}", metric.label());
        self.add(Task { rows: Some(count), ..Task::new(key, operator, work, input_ids, label) })
    }
}

/// What a trial's retriever searches.
fn searched(trial: &Trial) -> rag::retrieve::Needs {
    trial.retriever.build(()).map(|retriever| retriever.needs()).unwrap_or_default()
}

fn component(builder: KeyBuilder, version: u32, config: &impl Serialize) -> KeyBuilder {
    let builder = builder.field("version", &version);
    match serde_json::to_value(config) {
        // How long a function may take changes nothing of what it gives.
        Ok(mut value) if value.get("python").is_some() => {
            value["python"].as_object_mut().map(|settings| settings.remove("timeout_seconds"));
            builder.field("config", &value)
        }
        _ => builder.field("config", config),
    }
}

fn none() -> RerankerConfig {
    RerankerConfig::None(Default::default())
}
