//! Builds a plan: which tasks a trial needs, stage by stage.

use super::{
    Plan, PlannedFiles,
    blocks::parts_of_blocks,
    graph::{CorpusInputs, PlanInputs, ReplyContents, TaskId, TrialTasks},
    ranges::{QuestionShard, Ranges},
    trial::{PipelineTrial, Trial, TrialKind},
    work::{self, KeyContext, QueryTasks, ScoredKey, Task, Work},
};
use eval::MetricConfig;
use rag::{
    Axis, Choice, Component, PipelineConfig,
    enrich::EnrichConfig,
    index::{IndexKind, Indexes, MadeFrom},
    parse::ParseConfig,
};
use std::{collections::BTreeMap, ops::Range};
use store::Key;

/// What indexes are made from, shard by shard.
#[derive(Clone, Copy)]
struct IndexSource<'a> {
    documents: &'a [TaskId],
    chunks: &'a [TaskId],
    /// What is searched in place of the chunks' texts.
    enriched: Option<&'a [TaskId]>,
}

impl<'a> IndexSource<'a> {
    /// The shards of a part of the corpus.
    fn part(&self, shards: Range<usize>) -> Self {
        let of = |tasks: &'a [TaskId]| tasks.get(shards.clone()).unwrap_or_default();
        Self { documents: of(self.documents), chunks: of(self.chunks), enriched: self.enriched.map(of) }
    }

    fn shards(&self) -> impl Iterator<Item = (TaskId, Option<TaskId>)> {
        let enriched = |i: usize| self.enriched.and_then(|enriched| enriched.get(i).copied());
        self.chunks.iter().enumerate().map(move |(i, &chunks)| (chunks, enriched(i)))
    }
}

/// A trial's answer tasks.
pub(super) struct AnswerTasks {
    /// The key of everything that decides the answers, except the questions.
    pub(super) stem: Key,
    /// The tasks, each with the number of the range in which its answers are scored: see `ranges`.
    pub(super) shards: Vec<(usize, TaskId)>,
}

/// What the metrics of a trial look at.
pub(super) struct ScoredTasks<'a> {
    pub(super) passages: TaskId,
    /// The tasks of its answers, each with the number of the range in which they are scored.
    pub(super) answers: &'a [(usize, TaskId)],
    /// What the replies hold, if the trial is a system.
    pub(super) replies: Option<ReplyContents>,
    pub(super) key: ScoredKey<'a>,
    /// The number of the parser that makes the trial's documents.
    pub(super) parser: usize,
}

impl Plan {
    /// Only the parsing of files, which is the first part of every plan: by the parsers of the trials, or by all of the
    /// experiment if there are no trials.
    pub fn loading(inputs: &PlanInputs<'_>) -> Self {
        let mut plan = Self::default();
        plan.load(inputs);
        plan
    }

    /// The parsing of files, and nothing else so far.
    fn begin(inputs: &PlanInputs<'_>) -> Self {
        let mut plan = match inputs.loading {
            Some(loading) => loading.clone(),
            None => Self::loading(inputs),
        };
        plan.ranges = Ranges::new(inputs.questions);
        plan.other_ranges = inputs.views.others().map(Ranges::new).collect();
        plan
    }

    /// Only what the pipelines of trials search: their chunks and indexes. Also returns where these are for each trial that
    /// is a pipeline.
    pub(crate) fn of_corpora(inputs: &PlanInputs<'_>) -> (Self, Vec<CorpusInputs>) {
        let mut plan = Self::begin(inputs);
        let pipelines =
            inputs.trials.iter().filter_map(|trial| Some(PipelineTrial { trial, pipeline: trial.pipeline()? }));
        let corpora = pipelines.map(|trial| plan.corpus(inputs, trial, None).0).collect();
        (plan, corpora)
    }

    /// The plan of all trials.
    pub fn new(inputs: &PlanInputs<'_>) -> Self {
        let mut plan = Self::begin(inputs);
        let answered = inputs.experiment.evaluate.answered.unwrap_or(usize::MAX).min(inputs.questions.len());
        let all: Vec<usize> = (0..answered).collect();
        for (i, trial) in inputs.trials.iter().enumerate() {
            let asked = inputs.asked.and_then(|asked| asked.get(i)).unwrap_or(&all);
            let tasks = match &trial.kind {
                TrialKind::Pipeline(pipeline) => plan.pipeline(inputs, PipelineTrial { trial, pipeline }, asked),
                TrialKind::System(system) => plan.system(inputs, (trial, system), asked),
            };
            plan.trials.push(TrialTasks { id: trial.id.clone(), asked: asked.clone(), ..tasks });
        }
        plan.name_trials(inputs.trials);
        // `load` counted the loading tasks once; unshared, every trial would have its own.
        plan.unshared += plan.loading_by(0).len() * inputs.trials.len().saturating_sub(1);
        plan
    }

    /// Records for each task that runs a user's function which trials it is for.
    fn name_trials(&mut self, trials: &[Trial]) {
        if !self.tasks.iter().any(|task| task.work.describe().runs_function()) {
            return;
        }
        for (tasks, trial) in std::mem::take(&mut self.trials).into_iter().zip(trials) {
            for id in self.tasks_of(&tasks) {
                let task = &mut self.tasks[id];
                if task.work.describe().runs_function() {
                    task.trials.push(trial.id.clone());
                }
            }
            self.trials.push(tasks);
        }
    }

    /// Adds a task, unless it is there already.
    pub(super) fn add(
        &mut self,
        inputs: &PlanInputs<'_>,
        work: impl Into<Work>,
        label: impl FnOnce() -> String,
    ) -> TaskId {
        self.unshared += 1;
        let work = work.into();
        let key = work.describe().key(&KeyContext { tasks: &self.tasks, inputs });
        *self.seen.entry(key).or_insert_with(|| {
            let rows = work.describe().rows(inputs);
            self.tasks.push(Task { key, work, rows, label: label(), trials: Vec::new() });
            self.tasks.len() - 1
        })
    }

    fn load(&mut self, inputs: &PlanInputs<'_>) {
        let read = (0_u32..).zip(inputs.files.iter()).map(|(place, (file, _))| (file, Some(place)));
        let mut files: Vec<_> = read.chain(inputs.unread.iter().map(|file| (file, None))).collect();
        files.sort_by(|one, other| one.0.path.cmp(&other.0.path));
        let parts = parts_of_blocks(files.iter().map(|(listed, _)| (listed.path.as_str(), listed.bytes)));
        let read = |block: Vec<usize>| -> Box<[u32]> { block.into_iter().filter_map(|place| files[place].1).collect() };
        let blocks_of = |part: Vec<Vec<usize>>| part.into_iter().map(read).filter(|block| !block.is_empty()).collect();
        let parts: Vec<Vec<Box<[u32]>>> = parts.into_iter().map(blocks_of).collect();
        let mut first = 0;
        for part in &parts {
            self.parts.push(first..first + part.len());
            first += part.len();
        }
        let parsers = inputs.experiment.space.parsers();
        let wanted = |number: &usize| {
            // Other systems are asked about what the first parser reads.
            let by_systems = *number == 0 && inputs.trials.iter().any(|trial| trial.pipeline().is_none());
            let by_pipelines = || inputs.trials.iter().any(|trial| trial.reads_by(&inputs.experiment.space, *number));
            inputs.trials.is_empty() || by_systems || by_pipelines()
        };
        for number in 0..parsers.len().max(1) {
            let tasks = match wanted(&number) {
                true => self.load_by(inputs, parsers.get(number).copied(), parts.concat()),
                false => Vec::new(),
            };
            self.loading.push(tasks);
        }
    }

    /// The tasks that parse files, a task for each of these blocks, by a parser; by default if none is named.
    fn load_by(
        &mut self,
        inputs: &PlanInputs<'_>,
        parser: Option<&ParseConfig>,
        blocks: Vec<Box<[u32]>>,
    ) -> Vec<TaskId> {
        let parser = parser.filter(|parser| !parser.is_default());
        let load = |shard: Box<[u32]>| {
            let by = parser.map(|parser| format!(" by {}", parser.name())).unwrap_or_default();
            let label = match *shard {
                [place] => format!("load {}{by}", inputs.files[place as usize].0.path),
                _ => format!("load {} files{by}", shard.len()),
            };
            let files = PlannedFiles::new(inputs.files, shard);
            let described = files.iter().filter(|_| !inputs.metadata.is_empty());
            let known = described.filter_map(|(file, _)| inputs.metadata.get_key_value(&file.path));
            let metadata = known.map(|(path, known)| (path.clone(), known.clone())).collect();
            self.add(inputs, work::LoadWork { files, metadata, parser: parser.cloned().map(Box::new) }, || label)
        };
        blocks.into_iter().map(load).collect()
    }

    fn pipeline(&mut self, inputs: &PlanInputs<'_>, trial: PipelineTrial<'_>, asked: &[usize]) -> TrialTasks {
        let queries = self.write_queries(inputs, trial);
        // The task that writes the standalone questions: follow-ups, rewritten so that they need no
        // earlier messages. Without conversations, every question stands alone as it is.
        let standalone = queries.filter(|_| inputs.has_turns() && trial.pipeline.query.rewrites_question());
        let (corpus, enriched) = self.corpus(inputs, trial, standalone);
        let recall = self.measure_recall(inputs, trial, &corpus);
        let mut passages = self.retrieve(inputs, trial, &corpus, queries);
        for (axis, stage) in trial.pipeline.passage_stages() {
            // Without prompt and generator: they are not part of the key, and may hold the content of a file.
            let pipeline = Box::new(PipelineConfig { prompt: None, generator: None, ..trial.pipeline.clone() });
            let corpus = corpus.clone();
            let queries = queries.filter(|_| stage.searches_again()).or(standalone);
            let label = || format!("{} {}", axis.stage(), trial.label(axis));
            passages = self.add(inputs, work::ApplyStageWork { axis, pipeline, passages, corpus, queries }, label);
        }
        let answers = self.generate(inputs, trial, (passages, standalone), asked);
        let metrics = inputs.experiment.evaluate.metrics.iter().filter(|_| !inputs.questions.is_empty());
        let generator = trial.pipeline.generator.as_ref();
        let without_passages = generator.is_some_and(|generator| !generator.reads_passages());
        let scored = ScoredTasks {
            passages,
            answers: answers.as_ref().map_or(&[][..], |answers| &answers.shards),
            replies: None,
            key: ScoredKey::Pipeline { passages, without_passages, answers: answers.as_ref().map(|made| &made.stem) },
            parser: inputs.experiment.space.parser_number(&trial.pipeline.parse),
        };
        let score = |metric: &MetricConfig| (metric.clone(), self.score(inputs, metric, &scored, asked));
        let scores = metrics.map(score).collect();
        let answers = answers.into_iter().flat_map(|answers| answers.shards).map(|(_, id)| id).collect();
        TrialTasks { corpus, enriched, queries, passages, answers, recall, scores, ..TrialTasks::default() }
    }

    fn corpus(
        &mut self,
        inputs: &PlanInputs<'_>,
        trial: PipelineTrial<'_>,
        standalone: Option<TaskId>,
    ) -> (CorpusInputs, Vec<TaskId>) {
        let pipeline = trial.pipeline;
        let documents = &self.loading_by(inputs.experiment.space.parser_number(&pipeline.parse)).to_vec();
        let chunker = trial.label(Axis::Chunker);
        let label = match writes_nothing(&pipeline.enrich) {
            true => chunker.to_owned(),
            false => format!("{chunker} with {}", trial.label(Axis::Enrich)),
        };
        let embedder = pipeline.embedder.as_deref();
        let chunk = |&documents: &TaskId| {
            let embedder = trial.embedder_of(&pipeline.chunker);
            let work = work::ChunkWork { chunker: pipeline.chunker.clone(), embedder, documents };
            self.add(inputs, work, || format!("chunk with {chunker}"))
        };
        let chunks: Vec<TaskId> = documents.iter().map(chunk).collect();
        let enriched = self.enrich(inputs, trial, documents, &chunks);
        let texts = IndexSource { documents, chunks: &chunks, enriched: enriched.as_deref() };
        // Only an index that compares tokens, with a vector for each, is in shards. Others are in the parts of the corpus.
        let (in_shards, in_parts): (Indexes, Indexes) =
            pipeline.indexes().into_iter().partition(|kind| kind.compares_tokens());
        let (of_dense, in_parts): (Indexes, Indexes) = in_parts.into_iter().partition(|kind| kind.is_of_dense_index());
        let mut indexes: BTreeMap<IndexKind, Vec<TaskId>> = BTreeMap::new();
        for kind in in_parts {
            for part in self.parts.clone() {
                let file = self.index(inputs, trial, kind, texts.part(part), &label);
                indexes.entry(kind).or_default().extend(file);
            }
        }
        indexes.retain(|_, files| !files.is_empty());
        let dense = indexes.get(&IndexKind::Dense).cloned().unwrap_or_default();
        for kind in of_dense {
            let label = || format!("{} of {label}", trial.label(Axis::Index));
            let task = match pipeline.index.graph() {
                None => {
                    let index = pipeline.index.clone();
                    self.add(inputs, work::FillIndexWork { index, chunks: chunks.clone(), dense: dense.clone() }, label)
                }
                graph => {
                    let work = work::IndexWork { graph, ..work::IndexWork::from_vectors(kind, dense.clone()) };
                    self.add(inputs, work, label)
                }
            };
            indexes.insert(kind, vec![task]);
        }
        let question_vectors = self.embed_questions(inputs, trial, standalone);
        for (kind, model) in in_shards.into_iter().zip(embedder) {
            // Each shard is a file of the index. No task joins them, so a killed run keeps those that
            // are done.
            let embed = |(chunks, enriched)| {
                let work = work::EmbedTokensWork { model: model.to_owned(), chunks, enriched };
                self.add(inputs, work, || format!("embed tokens with {model} on {label}"))
            };
            indexes.insert(kind, texts.shards().map(embed).collect());
        }
        (CorpusInputs { chunks, indexes, question_vectors }, enriched.unwrap_or_default())
    }

    /// Plans a file of an index; none if it needs an embedder and there is none.
    fn index(
        &mut self,
        inputs: &PlanInputs<'_>,
        trial: PipelineTrial<'_>,
        kind: IndexKind,
        texts: IndexSource<'_>,
        label: &str,
    ) -> Option<TaskId> {
        let title = kind.title();
        if let MadeFrom::Texts(_) = kind.made_from() {
            let from = texts.enriched.unwrap_or(texts.chunks).to_vec();
            let analysis = Some(trial.pipeline.text_analysis());
            let work = work::IndexWork { kind, from, enriched: texts.enriched.is_some(), analysis, graph: None };
            return Some(self.add(inputs, work, || format!("{title} of {label}")));
        }
        let (model, enricher) = (trial.pipeline.embedder.as_deref()?, &trial.pipeline.enrich);
        let label = match enricher.makes_vectors() {
            true => format!("{label} with {}", trial.label(Axis::Enrich)),
            false => label.to_owned(),
        };
        let task_label = || format!("embed {model} on {label}");
        let from = if enricher.makes_vectors() {
            let embed = |(&documents, &chunks): (&TaskId, &TaskId)| {
                let (enricher, model) = (enricher.clone(), model.to_owned());
                self.add(inputs, work::EmbedInContextWork { enricher, model, documents, chunks }, task_label)
            };
            texts.documents.iter().zip(texts.chunks).map(embed).collect()
        } else {
            let embed = |(chunks, enriched)| {
                self.add(inputs, work::EmbedWork { model: model.to_owned(), chunks, enriched }, task_label)
            };
            texts.shards().map(embed).collect()
        };
        let work = work::IndexWork::from_vectors(kind, from);
        Some(self.add(inputs, work, || format!("{title} of {model} on {label}")))
    }

    /// What is searched in place of the chunks' texts, shard by shard; none if the texts themselves
    /// are searched.
    fn enrich(
        &mut self,
        inputs: &PlanInputs<'_>,
        trial: PipelineTrial<'_>,
        documents: &[TaskId],
        chunks: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        let enricher = &trial.pipeline.enrich;
        if writes_nothing(enricher) || trial.pipeline.indexes().is_empty() {
            return None;
        }
        let enrich = |(&documents, &chunks): (&TaskId, &TaskId)| {
            let embedder = trial.embedder_of(enricher);
            let work = work::EnrichWork { enricher: enricher.clone(), embedder, documents, chunks };
            let label = || format!("enrich {} with {}", trial.label(Axis::Chunker), trial.label(Axis::Enrich));
            self.add(inputs, work, label)
        };
        Some(documents.iter().zip(chunks).map(enrich).collect())
    }

    /// The vectors of the standalone questions, if a stage compares them. The retriever does so only
    /// if no queries are written.
    fn embed_questions(
        &mut self,
        inputs: &PlanInputs<'_>,
        trial: PipelineTrial<'_>,
        standalone: Option<TaskId>,
    ) -> Option<TaskId> {
        let pipeline = trial.pipeline;
        let compares = pipeline.passage_stages().iter().any(|(_, stage)| stage.compares_question());
        let compares = compares || pipeline.query.is_nothing() && pipeline.retriever.compares_question();
        let model = pipeline.embedder.as_deref().filter(|_| compares && !inputs.questions.is_empty())?;
        let work =
            work::EmbedQueriesWork { model: model.to_owned(), queries: standalone, standalone: standalone.is_some() };
        Some(self.add(inputs, work, || format!("embed questions with {model}")))
    }

    /// The passages. `queries` is the task that writes the queries, if they are
    /// not the questions themselves.
    fn retrieve(
        &mut self,
        inputs: &PlanInputs<'_>,
        trial: PipelineTrial<'_>,
        corpus: &CorpusInputs,
        queries: Option<TaskId>,
    ) -> TaskId {
        let pipeline = trial.pipeline;
        let retriever = pipeline.search_retriever();
        // A retriever's key holds only the indexes that the retriever searches,
        // not those that other trials need.
        let mut indexes = retriever.indexes();
        let compares = retriever.compares_question();
        let index = Some(pipeline.index.clone()).filter(|index| compares && !index.is_flat());
        indexes.extend(index.iter().flat_map(Component::indexes));
        let written = queries
            .map(|queries| QueryTasks { queries, vectors: self.embed_written(inputs, trial, queries, compares) });
        let mut corpus = corpus.clone();
        corpus.indexes.retain(|kind, _| indexes.contains(kind));
        corpus.question_vectors = corpus.question_vectors.filter(|_| compares && written.is_none());
        let work = work::RetrieveWork {
            chunker: pipeline.chunker.clone(),
            embedder: trial.embedder_of(&retriever).or_else(|| trial.embedder_of(&pipeline.chunker)),
            retriever: Box::new(retriever),
            index: index.map(Box::new),
            corpus,
            written,
        };
        let by_index = match work.index {
            Some(_) => format!(" by {}", trial.label(Axis::Index)),
            None => String::new(),
        };
        self.add(inputs, work, || format!("retrieve {}{by_index}", trial.label(Axis::Retriever)))
    }

    /// The recall of an approximate index; none if it is exact, or if written queries are searched in place of the
    /// questions.
    fn measure_recall(
        &mut self,
        inputs: &PlanInputs<'_>,
        trial: PipelineTrial<'_>,
        corpus: &CorpusInputs,
    ) -> Option<TaskId> {
        let index = Some(&trial.pipeline.index).filter(|index| !index.is_flat())?;
        let is_compared = |kind: &IndexKind| *kind == IndexKind::Dense || kind.is_of_dense_index();
        let indexes = corpus.indexes.iter().filter(|(kind, _)| is_compared(kind));
        let work = work::MeasureRecallWork {
            index: index.clone(),
            indexes: indexes.map(|(kind, files)| (*kind, files.clone())).collect(),
            question_vectors: corpus.question_vectors?,
            chunks: trial.pipeline.search_retriever().limit()?,
        };
        Some(self.add(inputs, work, || format!("recall of {}", trial.label(Axis::Index))))
    }

    /// The queries to search with, unless they are the questions themselves.
    fn write_queries(&mut self, inputs: &PlanInputs<'_>, trial: PipelineTrial<'_>) -> Option<TaskId> {
        let writer = &trial.pipeline.query;
        if writer.is_nothing() || inputs.questions.is_empty() {
            return None;
        }
        let label = trial.label(Axis::Query);
        let work = work::WriteQueriesWork { writer: writer.clone(), embedder: trial.embedder_of(writer) };
        Some(self.add(inputs, work, || format!("write queries with {label}")))
    }

    /// The vectors of written queries, if the retriever compares vectors.
    fn embed_written(
        &mut self,
        inputs: &PlanInputs<'_>,
        trial: PipelineTrial<'_>,
        queries: TaskId,
        compares: bool,
    ) -> Option<TaskId> {
        let model = trial.pipeline.embedder.as_deref().filter(|_| compares)?;
        let work = work::EmbedQueriesWork { model: model.to_owned(), queries: Some(queries), standalone: false };
        Some(self.add(inputs, work, || format!("embed queries of {} with {model}", trial.label(Axis::Query))))
    }

    fn generate(
        &mut self,
        inputs: &PlanInputs<'_>,
        trial: PipelineTrial<'_>,
        (passages, queries): (TaskId, Option<TaskId>),
        asked: &[usize],
    ) -> Option<AnswerTasks> {
        let generator = trial.pipeline.prompted_generator()?;
        let embedder = trial.embedder_of(&generator);
        let keys = KeyContext { tasks: &self.tasks, inputs };
        let stem = work::GenerateWork::stem(&keys, &generator, embedder.as_deref(), (passages, queries));
        let shards = self.ranges.to_answer(asked);
        let answer = |shard: QuestionShard| {
            let (generator, embedder) = (generator.clone(), embedder.clone());
            let part = self.ranges.part_to_answer(&shard, &stem);
            let (scored_with, questions) = (shard.range_of_scores(), shard.questions);
            let work = work::GenerateWork { generator, embedder, passages, queries, questions, part };
            let id =
                self.add(inputs, work, || format!("generate {} for {}", trial.label(Axis::Generator), trial.trial.id));
            (scored_with, id)
        };
        Some(AnswerTasks { stem, shards: shards.into_iter().map(answer).collect() })
    }

    /// The scores of a metric, in shards.
    pub(super) fn score(
        &mut self,
        inputs: &PlanInputs<'_>,
        metric: &MetricConfig,
        scored: &ScoredTasks<'_>,
        asked: &[usize],
    ) -> Vec<TaskId> {
        let evaluate = &inputs.experiment.evaluate;
        let needs = metric.needs();
        // A pipeline's passages are there for all questions at once; a system has passages only where it was asked.
        let in_ranges = needs.answer || scored.replies.is_some();
        let mut questions = if in_ranges { asked.to_vec() } else { (0..inputs.questions.len()).collect() };
        if needs.judge {
            questions.retain(|&i: &usize| i < evaluate.judged.unwrap_or(usize::MAX));
        }
        let (passages, replies, parser) = (scored.passages, scored.replies, scored.parser);
        let without_passages = matches!(scored.key, ScoredKey::Pipeline { without_passages: true, .. });
        let work = |questions, answers, part| {
            let metric = metric.clone();
            work::ScoreWork { metric, passages, answers, questions, parser, without_passages, replies, part }
        };
        let label = || format!("score {}", metric.label());
        if !in_ranges {
            return vec![self.add(inputs, work(questions, Vec::new(), None), label)];
        }
        let keys = KeyContext { tasks: &self.tasks, inputs };
        let stem = work::ScoreWork::stem(&keys, metric, scored.key);
        let shards = self.ranges.to_score(&questions);
        let score = |shard: QuestionShard| {
            let ranges = parser.checked_sub(1).and_then(|other| self.other_ranges.get(other)).unwrap_or(&self.ranges);
            let part = ranges.part_to_score(&shard, &stem);
            let of_range = |(range, id): &(usize, TaskId)| (*range == shard.range).then_some(*id);
            let answers = scored.answers.iter().filter_map(of_range).collect();
            self.add(inputs, work(shard.questions, answers, Some(part)), label)
        };
        shards.into_iter().map(score).collect()
    }
}

/// Whether the chunks' texts are searched as they are.
fn writes_nothing(enricher: &EnrichConfig) -> bool {
    enricher.is_nothing() || enricher.makes_vectors()
}
