//! Embedding that continues after an interruption: every few seconds the
//! finished vectors of a long task are stored, and the next process that does
//! the task, on any machine, takes them from there.
//!
//! A part is an object `partial/parts/<task>/<from>-<to>-<digest>.parquet`:
//! the vectors of the texts from `from` to before `to`. It is written once and
//! never changes. When the task's artifact is there, its parts are removed;
//! parts of killed processes are removed by `reverie store gc`.

mod by_document;

pub(crate) use by_document::embed_documents;

use super::RunContext;
use crate::{
    Error,
    artifact::{decode_vectors, encode_vectors},
    error_chain,
    layout::{self, VectorPart},
};
use futures::{StreamExt, stream::FuturesOrdered};
use models::{Embedder, InputKind, Ledger, Matrix, ModelPlace, ledger};
use serde_json::json;
use std::time::{Duration, Instant};
use store::Key;

/// Texts in one call to a model of this process. Vectors may depend, within
/// rounding, on the other texts of their call, so the calls are the same
/// whether a task was interrupted or not.
const TEXTS_PER_CALL: usize = 64;
/// The same for a model at an endpoint, which splits a call itself.
const TEXTS_PER_SPLIT_CALL: usize = 256;
/// If a call to a model of this process takes less than this, a second call
/// runs beside it, so that no core waits for the last text of a call.
const SHORT_CALL: Duration = Duration::from_secs(2);

/// Vectors, how many of them were taken from parts, and whether there are parts
/// to remove.
pub(crate) struct EmbeddedTexts {
    pub(crate) matrix: Matrix,
    pub(crate) resumed: usize,
    pub(crate) has_parts: bool,
}

/// Embeds texts, and stores finished parts under the key `task`; without a key nothing is stored.
/// Calls `begun` once with the number of texts that are left, and `rows` each time with the number
/// of texts that were embedded.
pub(crate) async fn embed(
    cx: &RunContext,
    task: Option<&Key>,
    embedder: &Embedder,
    texts: &[String],
    kind: InputKind,
    begun: impl FnOnce(usize),
    rows: impl Fn(usize),
) -> Result<EmbeddedTexts, Error> {
    let (per_call, is_split) = match (embedder.identity().place(), embedder.batch_size()) {
        (ModelPlace::Here, _) => (TEXTS_PER_CALL, false),
        // The calls have the size that versions without parts gave them, so that answers of
        // those versions are found in the journal.
        (ModelPlace::Remote, size) if size > 0 && TEXTS_PER_SPLIT_CALL.is_multiple_of(size) => (size, true),
        (ModelPlace::Remote, _) => (TEXTS_PER_SPLIT_CALL, true),
    };
    let mut made = Checkpoint::resume(cx, task, texts.len(), per_call, |_| usize::MAX).await;
    begun(texts.len() - made.resumed);
    if made.matrix.columns == 0 {
        made.matrix.columns = embedder.dimensions();
    }
    let mut begun_to = made.resumed;
    let mut at_once = if is_split { embedder.concurrency().max(1) } else { 1 };
    let mut calls = FuturesOrdered::new();
    let mut failure = None;
    loop {
        while failure.is_none() && calls.len() < at_once && begun_to < texts.len() {
            let (from, to) = (begun_to, texts.len().min(begun_to + per_call));
            begun_to = to;
            calls.push_back(async move {
                let started = Instant::now();
                let (embedded, used) = ledger::measure(embedder.embed(&texts[from..to], kind)).await;
                (embedded, used, started.elapsed())
            });
        }
        // Calls that have begun are waited for, because they may have been paid.
        let Some((embedded, used, took)) = calls.next().await else { break };
        match embedded {
            Ok(matrix) if failure.is_none() => {
                made.add(&matrix, &used);
                rows(matrix.rows());
            }
            Ok(_) => {}
            Err(error) => _ = failure.get_or_insert(error),
        }
        if !is_split {
            at_once = if took < SHORT_CALL { 2 } else { 1 };
        }
        made.keep_if_due(failure.is_some()).await;
    }
    failure.map_or_else(|| Ok(made.finish()), |error| Err(error.into()))
}

/// The vectors of a task that are made so far, of which parts are stored now and then.
struct Checkpoint<'a> {
    /// Where parts are stored; none if they are not.
    parts: Option<Parts<'a>>,
    /// How many vectors there will be.
    total: usize,
    matrix: Matrix,
    resumed: usize,
    has_parts: bool,
    /// How many of the vectors are stored.
    kept: usize,
    kept_at: Instant,
    /// Usage of the calls for unstored vectors.
    used: Ledger,
    interval: Duration,
}

impl<'a> Checkpoint<'a> {
    /// Takes the first `usable(n)` of the `n` vectors that are stored.
    async fn resume(
        cx: &'a RunContext,
        task: Option<&Key>,
        total: usize,
        per_call: usize,
        usable: impl FnOnce(usize) -> usize,
    ) -> Self {
        let parts = task.map(|task| Parts::of(cx, task));
        let (mut matrix, has_parts) = match &parts {
            Some(parts) => parts.resume(total, per_call).await,
            None => (Matrix::default(), false),
        };
        let resumed = usable(matrix.rows()).min(matrix.rows());
        matrix.data.truncate(resumed * matrix.columns);
        if resumed > 0 {
            cx.log("task_resumed", json!({ "task": task, "rows": resumed, "of": total }));
        }
        let interval = Duration::from_secs_f64(cx.experiment.engine.local.checkpoint_seconds);
        let (kept_at, used) = (Instant::now(), Ledger::default());
        Self { parts, total, matrix, resumed, has_parts, kept: resumed, kept_at, used, interval }
    }

    /// Adds the next vectors.
    fn add(&mut self, matrix: &Matrix, used: &Ledger) {
        self.matrix.columns = matrix.columns;
        self.matrix.data.extend_from_slice(&matrix.data);
        self.used.merge(used);
    }

    /// Stores new vectors as a part, if some time has passed or the task ends early. The last vectors are stored with
    /// the whole output.
    async fn keep_if_due(&mut self, ends: bool) {
        let done = self.matrix.rows();
        let is_due = ends || self.kept_at.elapsed() >= self.interval;
        if let Some(parts) = self.parts.as_ref().filter(|_| is_due && self.kept < done && done < self.total) {
            parts.keep(&self.matrix, self.kept, done, &std::mem::take(&mut self.used)).await;
            self.has_parts = true;
            (self.kept, self.kept_at) = (done, Instant::now());
        }
    }

    fn finish(self) -> EmbeddedTexts {
        EmbeddedTexts { matrix: self.matrix, resumed: self.resumed, has_parts: self.has_parts }
    }
}

/// Removes a task's parts, once its artifact is stored.
pub(super) async fn remove(cx: &RunContext, task: &Key) {
    Parts::of(cx, task).remove().await;
}

/// The name of the usage of the calls that made a part.
fn usage_name(part: &str) -> String {
    format!("{part}.usage")
}

struct Parts<'a> {
    cx: &'a RunContext,
    folder: String,
}

impl<'a> Parts<'a> {
    fn of(cx: &'a RunContext, task: &Key) -> Self {
        Self { cx, folder: layout::parts(task) }
    }

    /// The vectors of the first texts, as far as complete parts reach, and
    /// whether there are any parts. Parts that cannot be read are embedded
    /// again.
    async fn resume(&self, n_texts: usize, per_call: usize) -> (Matrix, bool) {
        let mut all = Matrix::default();
        let names = match self.cx.store.list(&self.folder).await {
            Ok(names) => names,
            Err(error) => {
                self.log_failure("read", &error);
                return (all, false);
            }
        };
        let has_parts = !names.is_empty();
        let mut parts: Vec<(VectorPart, String)> =
            names.into_iter().filter_map(|name| Some((VectorPart::parse(&name)?, name))).collect();
        // If two parts begin at the same text, the longer one comes first.
        parts.sort_by(|(one, _), (other, _)| (one.from, other.to).cmp(&(other.from, one.to)));
        for (VectorPart { from, to, digest }, name) in parts {
            let ends_a_call = to == n_texts || to % per_call == 0;
            if from != all.rows() || to <= from || to > n_texts || !ends_a_call {
                continue;
            }
            match self.cx.store.get(&name).await {
                Ok(Some(bytes)) if Key::of_bytes(&bytes).short() == digest => match decode_vectors(bytes) {
                    Ok(part) if part.rows() == to - from && (all.columns == 0 || all.columns == part.columns) => {
                        all.columns = part.columns;
                        all.data.extend(part.data);
                        self.count_usage(&name).await;
                    }
                    Ok(_) => {}
                    Err(error) => self.log_failure("read", &error),
                },
                Ok(_) => {}
                Err(error) => self.log_failure("read", &error),
            }
        }
        (all, has_parts)
    }

    /// Stores the vectors of the texts from `from` to before `to`. If that
    /// fails, an interruption costs more, but the run continues.
    async fn keep(&self, all: &Matrix, from: usize, to: usize, used: &Ledger) {
        let data = all.data[from * all.columns..to * all.columns].to_vec();
        let part = Matrix { columns: all.columns, data };
        let written = async {
            let bytes = encode_vectors(&part)?;
            let digest = Key::of_bytes(&bytes).short();
            let name = VectorPart { from, to, digest }.name(&self.folder);
            // Stored before the part, so that every stored part has its usage.
            self.cx.store.replace(&usage_name(&name), serde_json::to_vec(used).map_err(Error::table)?).await?;
            self.cx.store.put(&name, bytes).await?;
            Ok::<_, Error>(())
        };
        if let Err(error) = written.await {
            self.log_failure("write", &error);
        }
    }

    /// Counts the calls that made a part as calls of the task that uses it.
    async fn count_usage(&self, part: &str) {
        match self.cx.store.get(&usage_name(part)).await {
            Ok(Some(bytes)) => match serde_json::from_slice(&bytes) {
                Ok(used) => ledger::add(&used),
                Err(error) => self.log_failure("read", &error),
            },
            // Parts of earlier versions have none.
            Ok(None) => {}
            Err(error) => self.log_failure("read", &error),
        }
    }

    async fn remove(&self) {
        let removed = async {
            for name in self.cx.store.list(&self.folder).await? {
                self.cx.store.remove(&name).await?;
            }
            Ok::<_, store::Error>(())
        };
        if let Err(error) = removed.await {
            self.log_failure("remove", &error);
        }
    }

    fn log_failure(&self, operation: &str, error: &(dyn std::error::Error + 'static)) {
        let fields = json!({ "operation": operation, "parts": self.folder, "reason": error_chain(error) });
        self.cx.log("checkpoint_failed", fields);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Experiment,
        task::{ModelHandles, RunInputs},
    };
    use models::{Client, EmbeddingModel, Identity, Model, Usage, provider};
    use std::sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    };
    use store::{ArtifactStore, EventLog};

    /// Embeds a text as its length and its place in the call, until it was
    /// asked so many times.
    struct Counting {
        identity: Identity,
        calls: AtomicUsize,
        fails_after: usize,
        texts: Mutex<Vec<String>>,
    }

    impl Model for Counting {
        fn identity(&self) -> &Identity {
            &self.identity
        }
    }

    #[async_trait::async_trait]
    impl EmbeddingModel for Counting {
        fn dimensions(&self) -> usize {
            2
        }
        fn max_tokens(&self) -> usize {
            100
        }
        async fn embed(&self, texts: &[String], _kind: InputKind) -> Result<(Matrix, Usage), models::Error> {
            if self.calls.fetch_add(1, Ordering::SeqCst) >= self.fails_after {
                return Err(models::Error::Cancelled);
            }
            self.texts.lock().unwrap().extend_from_slice(texts);
            let row = |(i, text): (usize, &String)| [text.len() as f32 + 1.0, i as f32];
            Ok((Matrix { columns: 2, data: texts.iter().enumerate().flat_map(row).collect() }, Usage::default()))
        }
    }

    pub(super) struct Bench {
        _folder: tempfile::TempDir,
        client: Client,
        pub(super) cx: RunContext,
    }

    pub(super) fn bench() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store").to_string_lossy().into_owned();
        bench_at(folder, &store)
    }

    fn bench_at(folder: tempfile::TempDir, store: &str) -> Bench {
        let text = "name = \"x\"\n[corpus]\nsource = \"d\"\n[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n\
                    [engine.local]\ncheckpoint_seconds = 0.0\n";
        let experiment = Arc::new(Experiment::parse(text, ".").unwrap());
        let store = ArtifactStore::open(store, &[], layout::LAYOUT).unwrap();
        let client = Client::new(None);
        let source = rag::load::Source::parse(&folder.path().display().to_string(), &[], &[], &[]).unwrap();
        let context = provider::ModelContext {
            directory: models::ModelDirectory::new(folder.path().join("models"), Vec::new()),
            cpu: models::CpuBudget::new(1),
            environment: Arc::new(|_| None),
        };
        let models = Arc::new(ModelHandles::new(Default::default(), context, client.clone()));
        let log = EventLog::open(folder.path().join("events.jsonl")).unwrap();
        let material = RunInputs { source, questions: Vec::new(), views: Default::default() };
        let scratch = folder.path().join("scratch");
        let cx = RunContext::new(experiment, store, material, scratch, "x-1".to_owned(), log, models);
        Bench { _folder: folder, client, cx }
    }

    fn model(fails_after: usize) -> Arc<Counting> {
        let identity = Identity {
            provider: "test".to_owned(),
            model: "counting".to_owned(),
            revision: "1".to_owned(),
            parameters: serde_json::Value::Null,
        };
        Arc::new(Counting { identity, calls: AtomicUsize::new(0), fails_after, texts: Mutex::default() })
    }

    async fn embedded(bench: &Bench, model: &Arc<Counting>, texts: &[String]) -> Result<EmbeddedTexts, Error> {
        let key = Key::of_bytes(b"task");
        let embedder = bench.client.embedder(model.clone());
        embed(&bench.cx, Some(&key), &embedder, texts, InputKind::Document, |_| {}, |_| {}).await
    }

    fn texts() -> Vec<String> {
        (0..1000).map(|i| format!("{i} {}", "x".repeat(i % 17))).collect()
    }

    #[tokio::test]
    async fn an_interrupted_embedding_goes_on_where_it_was_and_gives_the_same_bytes() {
        goes_on(bench()).await;
    }

    #[tokio::test]
    async fn the_same_holds_in_an_object_store() {
        goes_on(bench_at(tempfile::tempdir().unwrap(), "memory:///x")).await;
    }

    async fn goes_on(bench: Bench) {
        let texts = texts();
        let whole = embedded(&self::bench(), &model(usize::MAX), &texts).await.unwrap();
        let (mut embeddings, mut tries) = (0, 0);
        let matrix = loop {
            let model = model(3);
            tries += 1;
            let made = embedded(&bench, &model, &texts).await;
            embeddings += model.texts.lock().unwrap().len();
            match made {
                Ok(made) => break made.matrix,
                Err(error) => assert!(tries < 9, "{error}"),
            }
        };
        assert_eq!(encode_vectors(&matrix).unwrap(), encode_vectors(&whole.matrix).unwrap());
        assert_eq!(embeddings, texts.len(), "nothing was embedded twice");
        let key = Key::of_bytes(b"task");
        assert!(!bench.cx.store.list("partial").await.unwrap().is_empty());
        remove(&bench.cx, &key).await;
        assert_eq!(bench.cx.store.list("partial").await.unwrap(), [""; 0]);
    }

    #[tokio::test]
    async fn parts_that_are_damaged_or_of_other_calls_are_embedded_again() {
        let texts = texts();
        let whole = embedded(&bench(), &model(usize::MAX), &texts).await.unwrap();
        let bench = bench();
        embedded(&bench, &model(5), &texts).await.map(|_| ()).unwrap_err();
        let store = &bench.cx.store;
        let mut names = store.list("partial").await.unwrap();
        names.retain(|name| VectorPart::parse(name).is_some());
        assert!(names.len() >= 3, "{names:?}");
        store.replace(&names[1], "damaged").await.unwrap();
        // Ends within a call, has another content than its name says, is no part.
        let folder = names[0].rsplit_once('/').unwrap().0.to_owned();
        let odd = encode_vectors(&Matrix { columns: 2, data: vec![9.0; 14] }).unwrap();
        let digest = Key::of_bytes(&odd).short();
        store.put(&format!("{folder}/000000000-000000007-{digest}.parquet"), odd.clone()).await.unwrap();
        store.put(&format!("{folder}/000000064-000000071-0123456789ab.parquet"), odd).await.unwrap();
        store.put(&format!("{folder}/note.txt"), "x").await.unwrap();
        let again = model(usize::MAX);
        let made = embedded(&bench, &again, &texts).await.unwrap();
        assert_eq!(made.matrix, whole.matrix);
        assert_eq!(made.resumed, VectorPart::parse(&names[0]).unwrap().to, "up to the damaged part");
    }

    #[tokio::test]
    async fn texts_of_an_input_that_lacks_something_are_kept_under_nobodys_key() {
        let (texts, bench) = (texts(), bench());
        let embedder = bench.client.embedder(model(3));
        let made = embed(&bench.cx, None, &embedder, &texts, InputKind::Document, |_| {}, |_| {}).await;
        assert!(made.is_err() && bench.cx.store.list("partial").await.unwrap().is_empty());
    }
}
