//! Tests with an object store whose reads fail.

use super::*;
use crate::{
    plan::{
        Outputs, Task,
        work::{LoadWork, Work},
    },
    progress::Progress,
    spec::Experiment,
    task::{self, CallTurn, ModelHandles, RunContext, RunInputs},
};
use async_trait::async_trait;
use futures::stream::BoxStream;
use models::{Client, CpuBudget, ModelDirectory, provider};
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, memory::InMemory, path::Path,
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use store::{ArtifactStore, EventLog};

/// A store in memory that fails the next reads of one file.
#[derive(Debug)]
struct Failing {
    store: InMemory,
    file: &'static str,
    failures: AtomicUsize,
}

impl std::fmt::Display for Failing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("failing")
    }
}

#[async_trait]
impl ObjectStore for Failing {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let is_due = |left: usize| left.checked_sub(1);
        if location.as_ref() == self.file
            && self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, is_due).is_ok()
        {
            return Err(object_store::Error::Generic { store: "test", source: "the connection was reset".into() });
        }
        self.store.get_opts(location, options).await
    }
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.store.put_opts(location, payload, options).await
    }
    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.store.put_multipart_opts(location, options).await
    }
    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(locations)
    }
    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list(prefix)
    }
    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }
    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }
}

/// A corpus of two files, and the store that it lies in.
async fn corpus(failures: usize) -> (Source, Arc<Failing>, Vec<SourceFile>) {
    let failing =
        Arc::new(Failing { store: InMemory::new(), file: "docs/a.txt", failures: AtomicUsize::new(failures) });
    for name in ["docs/a.txt", "docs/b.txt"] {
        failing.put(&Path::from(name), format!("Words of {name}.").into()).await.unwrap();
    }
    let source = Source::of_store(failing.clone(), "docs", &[], &[]).unwrap();
    let files = source.list().await.unwrap();
    (source, failing, files)
}

#[tokio::test(start_paused = true)]
async fn a_read_that_fails_once_is_tried_again_and_one_that_always_fails_is_named() {
    let limits = ParseLimits::default();
    let (source, _, files) = corpus(1).await;
    assert_eq!(&content(&source, &files[0], &limits).await.unwrap().unwrap()[..], b"Words of docs/a.txt.");
    let (source, failing, files) = corpus(usize::MAX).await;
    let before = failing.failures.load(Ordering::SeqCst);
    let unread = content(&source, &files[0], &limits).await.unwrap_err();
    assert_eq!(unread.path, "a.txt");
    assert!(unread.reason.contains("reset") && unread.reason.contains("4 tries"), "{unread:?}");
    assert_eq!(before - failing.failures.load(Ordering::SeqCst), TRIES as usize);
    assert!(content(&source, &files[1], &limits).await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_not_there_is_not_asked_for_again() {
    let (source, failing, files) = corpus(0).await;
    failing.store.delete(&Path::from("docs/a.txt")).await.unwrap();
    let unread = content(&source, &files[0], &ParseLimits::default()).await.unwrap_err();
    assert!(!unread.reason.contains("tries"), "{unread:?}");
}

fn run_context(folder: &std::path::Path, source: Source) -> RunContext {
    let text = "name = \"x\"\n[corpus]\nsource = \"docs\"\n[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n";
    let experiment = Arc::new(Experiment::parse(text, folder).unwrap());
    let context = provider::ModelContext {
        directory: ModelDirectory::new(folder.to_owned(), Vec::new()),
        cpu: CpuBudget::new(1),
        environment: Arc::new(|_: &str| None),
    };
    let models = Arc::new(ModelHandles::new(BTreeMap::new(), context, Client::new(None)));
    RunContext::new(
        experiment,
        ArtifactStore::open(&folder.display().to_string(), &[], crate::layout::LAYOUT).unwrap(),
        RunInputs { source, questions: Vec::new(), views: Default::default() },
        folder.join("scratch"),
        "run".to_owned(),
        EventLog::open(folder.join("events.jsonl")).unwrap(),
        models,
    )
}

async fn load(run_context: &RunContext, files: &[SourceFile], keys: &[Key]) -> task::StoredOutput {
    let files: Vec<_> = files.iter().cloned().zip(keys.iter().copied()).collect();
    let task = Task {
        key: Key::of_bytes(b"the task"),
        work: Work::Load(LoadWork { files: files.into(), ..LoadWork::default() }),
        rows: None,
        label: "load".to_owned(),
        trials: vec![],
    };
    task::execute(&task, &Outputs::new(), false, CallTurn::default(), run_context, &Progress::default()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_file_that_cannot_be_read_is_no_artifact_and_the_next_run_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let (source, failing, files) = corpus(0).await;
    let mut keys = Vec::new();
    for file in &files {
        keys.push(key(&content(&source, file, &ParseLimits::default()).await.unwrap()));
    }
    let run_context = run_context(folder.path(), source);
    failing.failures.store(usize::MAX, Ordering::SeqCst);
    let output = load(&run_context, &files, &keys).await;
    assert!(output.partial && output.artifact.starts_with("partial/run/"), "{output:?}");
    assert_eq!((output.rows, output.unread.len(), output.unread[0].path.as_str()), (1, 1, "a.txt"));
    let log = std::fs::read_to_string(folder.path().join("events.jsonl")).unwrap();
    assert!(log.contains("document_unread") && log.contains("a.txt"), "{log}");

    failing.failures.store(1, Ordering::SeqCst);
    let output = load(&run_context, &files, &keys).await;
    assert_eq!((output.rows, output.partial, output.unread.len()), (2, false, 0));
    assert!(output.artifact.starts_with("artifacts/"), "{output:?}");
}

#[tokio::test(start_paused = true)]
async fn a_file_that_changed_is_not_stored_under_the_key_of_what_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (source, _, files) = corpus(0).await;
    let keys = [Key::of_bytes(b"other words"), Key::of_bytes(b"Words of docs/b.txt.")];
    let output = load(&run_context(folder.path(), source), &files, &keys).await;
    assert!(output.partial && output.unread[0].reason.contains("changed"), "{output:?}");
}
