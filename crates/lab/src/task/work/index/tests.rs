//! Dense indexes of shards of which an earlier index has the most.

use super::*;
use crate::{
    artifact::encode_vectors,
    layout::Format,
    plan::{Outputs, Task},
    progress::Progress,
    spec::Experiment,
    task::{CallTurn, RunContext, fixture},
};
use std::{fs, sync::Mutex};
use store::Key;

const DIMENSIONS: usize = 20;

struct Bench {
    folder: tempfile::TempDir,
    run_context: RunContext,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = "name = \"x\"\n[corpus]\nsource = \"d\"\n[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n";
        let run_context = fixture::run_context(folder.path(), Experiment::parse(text, ".").unwrap(), Vec::new());
        Self { folder, run_context }
    }

    /// Stores a shard of this number of vectors, and returns its name.
    async fn put(&self, shard: &str, vectors: usize) -> String {
        self.put_of_length(shard, vectors, DIMENSIONS).await
    }

    async fn put_of_length(&self, shard: &str, vectors: usize, columns: usize) -> String {
        let name = layout::artifact(&Key::of_bytes(shard.as_bytes()), Format::Parquet);
        let value = |place: usize| (shard.len() * 7 + shard.as_bytes()[0] as usize + place) as f32 / 100.0;
        let matrix = Matrix { columns, data: (0..vectors * columns).map(value).collect() };
        self.run_context.store.put(&name, encode_vectors(&matrix).unwrap()).await.unwrap();
        name
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.folder.path().join("store").join(name)).unwrap();
    }

    fn kept(&self) -> PathBuf {
        self.folder.path().join("scratch").join(layout::DENSE_INDEXES)
    }

    /// The kept files with this ending.
    fn kept_files(&self, ending: &str) -> Vec<PathBuf> {
        let files = fs::read_dir(self.kept()).into_iter().flatten().map(|entry| entry.unwrap().path());
        files.filter(|path| path.extension().is_some_and(|it| it == ending)).collect()
    }

    /// The bytes of an index of these shards. `name` is that of the task.
    async fn index(&self, name: &str, shards: &[String]) -> Result<Vec<u8>, Error> {
        let from: Vec<usize> = (0..shards.len()).collect();
        let mut inputs = Outputs::new();
        for (id, shard) in shards.iter().enumerate() {
            inputs.insert(id, shard.clone());
        }
        let work = IndexWork::from_vectors(IndexKind::Dense, from);
        let key = Key::of_bytes(name.as_bytes());
        let task = Task { key, work: work.clone().into(), rows: None, label: String::new(), trials: Vec::new() };
        let (progress, usage, calls) = (Progress::default(), Mutex::default(), Mutex::default());
        let context = TaskContext {
            task: &task,
            inputs: &inputs,
            partial: false,
            turn: CallTurn::default(),
            run_context: &self.run_context,
            progress: &progress,
            usage_by_question: &usage,
            calls: &calls,
        };
        work.run(&context).await?;
        Ok(fs::read(self.folder.path().join("store").join(context.artifact_name())).unwrap())
    }

    /// The bytes of an index that is made of the shards alone.
    async fn index_anew(&self, name: &str, shards: &[String]) -> Vec<u8> {
        let aside = self.folder.path().join("aside");
        fs::rename(self.kept(), &aside).unwrap();
        let index = self.index(name, shards).await.unwrap();
        fs::remove_dir_all(self.kept()).unwrap();
        fs::rename(&aside, self.kept()).unwrap();
        index
    }
}

#[tokio::test]
async fn vectors_of_known_shards_are_taken_from_the_last_index() {
    let bench = Bench::new();
    let mut shards = Vec::new();
    for place in 0..40 {
        shards.push(bench.put(&"x".repeat(place + 1), place % 4).await);
    }
    bench.index("first", &shards).await.unwrap();
    // One is changed, one is removed, one is added at the front, two change places.
    let old = shards.clone();
    shards[9] = bench.put("changed", 2).await;
    shards.remove(21);
    shards.insert(0, bench.put("added", 3).await);
    shards.swap(30, 31);
    let expected = bench.index_anew("anew", &shards).await;
    old.iter().for_each(|name| bench.remove(name));
    assert!(bench.index("second", &shards).await.unwrap() == expected, "byte for byte");
    assert_eq!((bench.kept_files("dense").len(), bench.kept_files("content").len()), (1, 1), "it replaces the first");
    DenseIndex::open(&bench.kept_files("dense")[0]).unwrap().verify().unwrap();
    // All shards are known.
    assert!(bench.index("again", &shards).await.unwrap() == expected);
}

#[tokio::test]
async fn nothing_is_taken_from_a_damaged_index() {
    let bench = Bench::new();
    let mut shards = Vec::new();
    for place in 0..40 {
        shards.push(bench.put(&"x".repeat(place + 1), 2).await);
    }
    let first = bench.index("first", &shards).await.unwrap();
    let kept = bench.kept_files("dense").remove(0);
    let mut bytes = first.clone();
    bytes[100] ^= 1;
    fs::remove_file(&kept).unwrap();
    fs::write(&kept, bytes).unwrap();
    assert!(bench.index("second", &shards).await.unwrap() == first);
    fs::write(&bench.kept_files("content")[0], "nonsense").unwrap();
    assert!(bench.index("third", &shards).await.unwrap() == first);
    bench.remove(&shards[5]);
    assert!(bench.index("fourth", &shards).await.unwrap() == first, "the third is kept");
}

#[tokio::test]
async fn an_index_of_few_shards_is_not_kept() {
    let bench = Bench::new();
    let shards = vec![bench.put("a", 3).await, bench.put("b", 0).await];
    bench.index("first", &shards).await.unwrap();
    assert!(!bench.kept().exists());
}

#[tokio::test]
async fn an_index_whose_vectors_have_another_length_is_set_aside() {
    let bench = Bench::new();
    let mut shards = Vec::new();
    for place in 0..40 {
        shards.push(bench.put(&"x".repeat(place + 1), 2).await);
    }
    bench.index("first", &shards).await.unwrap();
    // The artifacts were removed, and the model gives other vectors now. Half of the shards are new.
    for (place, shard) in shards.iter_mut().enumerate() {
        bench.remove(shard);
        let name = "x".repeat(place + 1 + 60 * (place % 2));
        *shard = bench.put_of_length(&name, 2, 24).await;
    }
    let index = bench.index("second", &shards).await.unwrap();
    assert_eq!(DenseIndex::from_bytes(&index).unwrap().dimensions(), 24);
    assert!(bench.index("third", &shards).await.unwrap() == index);
}
