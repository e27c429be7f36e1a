//! One task: read inputs, call the stage, write the artifact. The same code
//! runs under every engine.

mod cache;
pub(crate) mod checkpoint;
mod corpus;
mod exclusive;
pub(crate) mod filling;
#[cfg(test)]
pub(crate) mod fixture;
mod handles;
mod kept_files;
mod kept_tables;
mod kept_vectors;
pub(crate) mod read;
mod row_failure;
mod rows;
pub(crate) mod systems;
mod usage;
mod vector_search;
mod work;

pub use kept_files::remove_orphaned_indexes;

pub(crate) use {
    corpus::{SHARDS_IN_MEMORY, chunk_table, connect, enriched_table, open_corpus, open_indexes},
    handles::{CallTurn, ModelHandles, TurnModels},
    rows::{
        answers_by_question, decode_matrix, passages_by_question, queries_by_question, scores_by_question,
        searchable_questions,
    },
    usage::{TaskCalls, TaskUsage, load_usage, usage_of},
    vector_search::{nearest_entries, recall_of_nearest},
};

use crate::{
    Error,
    clock::now_ms,
    layout,
    plan::{Outputs, QuestionViews, Task, TaskId, time::Components},
    progress::Progress,
    settlement,
    spec::Experiment,
};
use bytes::Bytes;
use cache::Cache;
use eval::Question;
use models::{Matrix, ledger};
use rag::{
    ChunkTable, PassagesWithRemarks,
    load::{Source, Unread},
    python::on_behalf_of,
};
pub(crate) use row_failure::{RowFailure, group_failures};
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};
use store::{ArtifactStore, Event, EventLog};
use systems::SystemHandles;
use work::{OutputContent, TaskContext, TaskOutput, doer};

/// What a task made.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct StoredOutput {
    /// The artifact's name in the store.
    pub artifact: String,
    /// Rows made.
    pub rows: usize,
    /// Rows without a result because a provider failed.
    pub errors: usize,
    /// Rows without a result because a user's function failed.
    #[serde(default)]
    pub function_errors: usize,
    /// Whether rows are missing, here or in an input. Such an output must not
    /// be stored under the task's key.
    pub partial: bool,
    /// Files that could not be read now.
    #[serde(default)]
    pub unread: Vec<Unread>,
    /// Whether nothing was done for it: another run made it in the meantime, or
    /// all its rows were there.
    #[serde(default)]
    pub shared: bool,
    /// Rows that an interrupted run or an earlier task had made.
    #[serde(default)]
    pub resumed: usize,
    /// Bytes of text behind the rows that were made now, if the time depends on them.
    #[serde(default)]
    pub bytes: u64,
    /// Why rows have no result.
    #[serde(default)]
    pub failures: Vec<RowFailure>,
}

/// Everything that tasks of a run share.
pub struct RunContext {
    /// The experiment.
    pub experiment: Arc<Experiment>,
    /// Artifacts.
    pub store: ArtifactStore,
    /// The corpus.
    pub source: Source,
    /// The questions, with the places of their evidence in the documents of the first parser.
    pub questions: Vec<Question>,
    /// The same for the other parsers.
    pub(crate) views: QuestionViews,
    /// The folder for temporary files on this machine.
    pub scratch: PathBuf,
    /// The run's id.
    pub run: String,
    components: Components,
    log: Option<EventLog>,
    models: Arc<ModelHandles>,
    systems: SystemHandles,
    tables: Cache<ChunkTable>,
    kept_tables: kept_tables::KeptTables,
    kept_vectors: kept_vectors::KeptVectors,
    indexes: corpus::IndexCache,
    /// The token vectors of all questions, by model.
    question_tokens: Cache<Vec<Matrix>>,
    /// What tasks used, by the names of their outputs.
    used: usage::UsageCache,
    /// The passages of trials, by question.
    passages: Cache<HashMap<String, PassagesWithRemarks>>,
}

/// What a run's tasks read: the corpus and the questions.
pub(crate) struct RunInputs {
    pub(crate) source: Source,
    pub(crate) questions: Vec<Question>,
    pub(crate) views: QuestionViews,
}

impl RunContext {
    /// Puts together what tasks share.
    pub(crate) fn new(
        experiment: Arc<Experiment>,
        store: ArtifactStore,
        inputs: RunInputs,
        scratch: PathBuf,
        run: String,
        log: EventLog,
        models: Arc<ModelHandles>,
    ) -> Self {
        let run_context = Self::for_queries(experiment, store, inputs.source, scratch, &run, models);
        Self { questions: inputs.questions, views: inputs.views, log: Some(log), ..run_context }
    }

    /// The questions for trials whose documents the parser with this number makes.
    pub(crate) fn questions_for(&self, parser: usize) -> &[Question] {
        self.views.of(parser, &self.questions)
    }

    /// The same for queries to a finished run: there are no golden questions,
    /// and no log is written.
    pub(crate) fn for_queries(
        experiment: Arc<Experiment>,
        store: ArtifactStore,
        source: Source,
        scratch: PathBuf,
        run: &str,
        models: Arc<ModelHandles>,
    ) -> Self {
        let (run, questions, log) = (run.to_owned(), Vec::new(), None);
        let systems = SystemHandles::new(&experiment, models.model_context().clone(), models.client().clone());
        let components = Components::of(&experiment);
        // A few corpora stay in memory, because trials with the same corpus run one after the other.
        let (tables, question_tokens) = (Cache::new(4), Cache::new(4));
        let kept_tables = kept_tables::KeptTables::new(&scratch);
        let kept_vectors = kept_vectors::KeptVectors::new(&scratch);
        Self {
            experiment,
            store,
            source,
            questions,
            views: QuestionViews::default(),
            scratch,
            run,
            components,
            log,
            models,
            systems,
            tables,
            kept_tables,
            kept_vectors,
            indexes: corpus::IndexCache::default(),
            question_tokens,
            used: usage::UsageCache::default(),
            passages: Cache::new(4),
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

    /// How many events could not be written, and why; for the person who watches.
    pub(crate) fn lost_events(&self) -> Option<String> {
        let log = self.log.as_ref()?;
        let (events, reason) = log.lost()?;
        let path = log.path().display();
        Some(format!("{events} events are missing in {path}, which trackers and `plan` read: {reason}"))
    }

    /// The names of the components that tasks run.
    pub(crate) fn components(&self) -> &Components {
        &self.components
    }

    pub(crate) async fn read(&self, outputs: &Outputs, id: TaskId) -> Result<Bytes, Error> {
        let name = outputs.get(&id).ok_or_else(|| Error::table(format!("the output of task {id} is not known")))?;
        self.artifact(name).await
    }

    /// The bytes of an artifact. A damaged artifact is set aside.
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

    /// The name of a task's output. A partial output must not be found under
    /// the task's key.
    pub(crate) fn name(&self, task: &Task, partial: bool) -> String {
        if partial { layout::partial(&self.run, now_ms(), &task.artifact()) } else { task.artifact() }
    }

    /// The handles of the experiment's systems.
    pub(crate) fn systems(&self) -> &SystemHandles {
        &self.systems
    }

    /// The handles of the experiment's models.
    pub fn models(&self) -> &ModelHandles {
        &self.models
    }
}

/// Executes one task. A user's function is told which trials it runs for.
pub(crate) async fn execute(
    task: &Task,
    inputs: &Outputs,
    partial: bool,
    turn: CallTurn,
    cx: &RunContext,
    progress: &Progress,
) -> Result<StoredOutput, Error> {
    let caller = (!task.trials.is_empty()).then(|| trials(&task.trials).into());
    let (usage, calls) = (Mutex::default(), Mutex::default());
    let (usage_by_question, calls) = (&usage, &calls);
    let made = run(TaskContext { task, inputs, partial, turn, run_context: cx, progress, usage_by_question, calls });
    // An output of partial inputs belongs to this run alone.
    if partial || !task.work.describe().is_exclusive() {
        return on_behalf_of(caller, made).await;
    }
    on_behalf_of(caller, run_exclusively(task, made, cx, progress)).await
}

/// A short list of trials.
fn trials(trials: &[String]) -> String {
    match trials {
        [first, second, _, _, rest @ ..] => format!("{first}, {second} and {} more", rest.len() + 2),
        few => few.join(", "),
    }
}

/// Makes a task's output, unless another run makes it now or has made it in the meantime.
async fn run_exclusively(
    task: &Task,
    made: impl Future<Output = Result<StoredOutput, Error>>,
    cx: &RunContext,
    progress: &Progress,
) -> Result<StoredOutput, Error> {
    let _lock = exclusive::acquire(task, cx, progress).await;
    let artifact = task.artifact();
    if cx.store.exists(&artifact).await? {
        let rows = task.rows.unwrap_or_default();
        return Ok(StoredOutput { artifact, rows, shared: true, ..StoredOutput::default() });
    }
    made.await
}

async fn run(context: TaskContext<'_>) -> Result<StoredOutput, Error> {
    let TaskContext { task, run_context: cx, .. } = context;
    let client = cx.models().client();
    let (made, mut all) = ledger::measure(doer(&task.work).run(&context)).await;
    let made = made.map_err(|error| settlement::cause(client, error))?;
    let TaskOutput { content, rows, errors, function_errors, unread, resumed, reused, has_parts, bytes, .. } = made;
    let TaskOutput { earlier, earlier_calls, failures, .. } = made;
    if errors > 0
        && let Some(failure) = client.failure()
    {
        // Rows are missing because answers could not be stored: no output.
        return Err(failure.into());
    }
    let partial = context.partial || errors + function_errors > 0 || !unread.is_empty();
    let artifact = match &content {
        OutputContent::Written(artifact) => artifact.clone(),
        OutputContent::Bytes(_) => cx.name(task, partial),
    };
    let mut questions = std::mem::take(&mut *context.usage_by_question.lock().unwrap_or_else(PoisonError::into_inner));
    for (question, used) in earlier {
        all.merge(&used);
        questions.entry(question).or_default().merge(&used);
    }
    if task.work.describe().counts_in_price() || !all.is_empty() {
        // Stored before the output, so that every stored output has its usage.
        let mut calls = std::mem::take(&mut *context.calls.lock().unwrap_or_else(PoisonError::into_inner));
        for (question, keys) in earlier_calls {
            calls.entry(question).or_default().extend(keys);
        }
        usage::keep(cx, &artifact, TaskUsage { all, questions, calls }).await?;
    }
    if let OutputContent::Bytes(bytes) = content {
        cx.store.put(&artifact, bytes).await?;
    }
    if has_parts {
        checkpoint::remove(cx, &task.key).await;
    }
    let shared = reused;
    Ok(StoredOutput { artifact, rows, errors, function_errors, partial, unread, shared, resumed, bytes, failures })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_to_three_trials_are_named_and_of_more_the_first_two() {
        let all = ["t1", "t2", "t3", "t4", "t5"].map(str::to_owned);
        let expected = ["", "t1", "t1, t2", "t1, t2, t3", "t1, t2 and 2 more", "t1, t2 and 3 more"];
        for (n, expected) in expected.into_iter().enumerate() {
            assert_eq!(trials(&all[..n]), expected);
        }
    }

    #[test]
    fn a_partial_output_is_not_found_under_the_key_of_its_task() {
        let folder = tempfile::tempdir().unwrap();
        let text = "name = \"x\"\n[corpus]\nsource = \"d\"\n[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n";
        let cx = fixture::run_context(folder.path(), Experiment::parse(text, ".").unwrap(), Vec::new());
        let work = crate::plan::work::LoadWork::default();
        let key = store::Key::of_bytes(b"task");
        let task = Task { key, work: work.into(), rows: None, label: String::new(), trials: Vec::new() };
        let hex = key.hex();
        let folder = &hex[..2];
        assert_eq!(cx.name(&task, false), format!("artifacts/{folder}/{hex}.parquet"));
        let partial = cx.name(&task, true);
        assert!(
            partial.starts_with("partial/run/") && partial.ends_with(&format!("-artifacts-{folder}-{hex}.parquet"))
        );
    }

    #[test]
    fn an_event_holds_fields_or_one_value() {
        let folder = tempfile::tempdir().unwrap();
        let text = "name = \"x\"\n[corpus]\nsource = \"d\"\n[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n";
        let cx = fixture::run_context(folder.path(), Experiment::parse(text, ".").unwrap(), Vec::new());
        cx.log("first", serde_json::json!({ "count": 3 }));
        cx.log("second", serde_json::json!(7));
        let log = std::fs::read_to_string(folder.path().join("events.jsonl")).unwrap();
        let events: Vec<Event> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let told: Vec<_> = events.iter().map(|event| (event.kind.as_str(), &event.fields)).collect();
        assert_eq!((told[0].0, &told[0].1["count"]), ("first", &3.into()));
        assert_eq!((told[1].0, &told[1].1["value"]), ("second", &7.into()));
        assert_eq!(cx.lost_events(), None);
    }
}
