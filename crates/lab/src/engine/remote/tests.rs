//! The remote engine on a cluster inside this process, whose workers are real
//! ones and can be killed.

use super::*;
use crate::{
    cluster::{CallError, ClusterError, Resources},
    engine::unit::Unit,
    session::Session,
    setup::{ClusterSetup, Connect, Setup},
    spec::Experiment,
    worker::Worker,
};
use models::ModelDirectory;
use std::{collections::BTreeSet, path::Path};
use tokio::task::AbortHandle;

type TestResult = Result<(), Box<dyn std::error::Error>>;

/// Nodes are names; a worker is a real one in this process.
#[derive(Default)]
struct Inside {
    nodes: Vec<&'static str>,
    /// Nodes that can be had.
    more: Mutex<Vec<&'static str>>,
    had: Mutex<Vec<&'static str>>,
    /// How long each unit takes at least.
    delay: std::time::Duration,
    folder: std::path::PathBuf,
    workers: Mutex<HashMap<WorkerId, Arc<Worker>>>,
    calls: Mutex<HashMap<WorkerId, Vec<AbortHandle>>>,
    /// The worker that takes this many units dies with the last one.
    dies_at: Mutex<Option<usize>>,
    units: Mutex<Vec<(WorkerId, usize)>>,
    resources: Mutex<Vec<Resources>>,
}

#[async_trait]
impl Cluster for Inside {
    async fn nodes(&self) -> Result<Vec<ClusterNode>, ClusterError> {
        let node = |name: &&str| ClusterNode { id: (*name).to_owned(), name: (*name).to_owned(), cpus: 2.0 };
        Ok(self.nodes.iter().chain(&*self.had.lock().unwrap()).map(node).collect())
    }

    async fn set_caps(&self, _budget: &str, _caps: models::Caps) -> Result<(), ClusterError> {
        Ok(())
    }

    async fn start(
        &self,
        worker: WorkerId,
        node: Option<&str>,
        resources: &Resources,
        told: &[u8],
    ) -> Result<String, CallError> {
        // A worker for a whole node finds none with so much room.
        let got = if node.is_none() && resources.cpus == 2.0 {
            let more = self.more.lock().unwrap().pop();
            let Some(more) = more else { return std::future::pending().await };
            self.had.lock().unwrap().push(more);
            more
        } else {
            "somewhere"
        };
        self.resources.lock().unwrap().push(resources.clone());
        let told: WorkerSetup = serde_json::from_slice(told).unwrap();
        let opened = Worker::open(&told, setup(&self.folder)).await;
        let opened = opened.map_err(|error| CallError::Failed(error.to_string()))?;
        self.workers.lock().unwrap().insert(worker, Arc::new(opened));
        Ok(node.unwrap_or(got).to_owned())
    }

    async fn call(&self, worker: WorkerId, unit: Vec<u8>) -> Result<Vec<u8>, CallError> {
        let gone = || CallError::Died("killed".to_owned());
        let open = self.workers.lock().unwrap().get(&worker).cloned().ok_or_else(gone)?;
        let size = serde_json::from_slice::<Unit>(&unit).unwrap().tasks.len();
        self.units.lock().unwrap().push((worker, size));
        {
            let mut left = self.dies_at.lock().unwrap();
            if let Some(count) = left.as_mut() {
                *count -= 1;
                if *count == 0 {
                    *left = None;
                    self.workers.lock().unwrap().remove(&worker);
                    self.calls.lock().unwrap().remove(&worker).into_iter().flatten().for_each(|call| call.abort());
                    return Err(gone());
                }
            }
        }
        let delay = self.delay;
        let call = tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            open.run(&unit).await
        });
        self.calls.lock().unwrap().entry(worker).or_default().push(call.abort_handle());
        match call.await {
            Ok(reply) => reply.map_err(|error| CallError::Failed(error.to_string())),
            Err(_) => Err(gone()),
        }
    }

    async fn look(&self, worker: WorkerId, orders: Vec<u8>) -> Result<Vec<u8>, CallError> {
        let worker = self.workers.lock().unwrap().get(&worker).cloned();
        let worker = worker.ok_or_else(|| CallError::Died("killed".to_owned()))?;
        worker.look(&orders).map_err(|error| CallError::Failed(error.to_string()))
    }

    async fn stop(&self, worker: WorkerId) {
        self.workers.lock().unwrap().remove(&worker);
    }
}

fn setup(folder: &Path) -> Setup {
    Setup::new(ModelDirectory::new(folder.join("models"), Vec::new()), Arc::new(|_| None))
}

fn corpus(folder: &Path) {
    std::fs::create_dir_all(folder.join("docs")).unwrap();
    let mut golden = String::new();
    for i in 0..40 {
        let text = format!("# Chapter {i}\n\nThe mill number {i} was built in {}. It grinds oats.\n\n", 1700 + i);
        std::fs::write(folder.join(format!("docs/{i:02}.md")), text.repeat(20)).unwrap();
        golden += &format!(
            "{{\"id\":\"q{i}\",\"question\":\"When was the mill number {i} built?\",\"reference\":\"{}\",\"evidence\":[{{\"document\":\"{i:02}.md\",\"quote\":\"The mill number {i} was built in {}.\"}}]}}\n",
            1700 + i,
            1700 + i
        );
    }
    std::fs::write(folder.join("golden.jsonl"), golden).unwrap();
}

fn experiment(folder: &Path, store: &str, rest: &str) -> Experiment {
    let text = format!(
        "name = \"mills\"\nstore = \"{store}\"\n[corpus]\nsource = \"docs\"\n[dataset]\npath = \"golden.jsonl\"\n[space]\nchunker = [{{ sentence = {{ chunk_size = 32, chunk_overlap = 0 }} }}, {{ sentence_window = {{ window_size = 1 }} }}]\nretriever = [{{ bm25 = {{ top_k = 1 }} }}, {{ bm25 = {{ top_k = 3 }} }}]\n{rest}"
    );
    Experiment::parse(&text, folder).unwrap()
}

/// Names and contents of all artifacts.
fn artifacts(folder: &Path) -> BTreeSet<(String, Vec<u8>)> {
    let mut found = BTreeSet::new();
    let mut open = vec![folder.join("artifacts")];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.insert((path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap()));
            }
        }
    }
    found
}

async fn run(experiment: Experiment, setup: Setup) -> Result<crate::Results, Error> {
    let session = Session::open(experiment, setup)?;
    let prepared = session.prepare().await?;
    session.run(&prepared).await
}

fn on(cluster: &Arc<Inside>, folder: &Path) -> Setup {
    let joined = cluster.clone();
    let connect: Connect = Arc::new(move |_| Ok(joined.clone() as Arc<dyn Cluster>));
    Setup { cluster: ClusterSetup { connect: Some(connect), ..ClusterSetup::default() }, ..setup(folder) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_makes_the_same_artifacts_and_results_although_a_worker_dies() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path();
    corpus(path);
    let local = run(experiment(path, "local", ""), setup(path)).await?;
    let cluster = Arc::new(Inside {
        nodes: vec!["a", "b", "c"],
        folder: path.to_owned(),
        dies_at: Mutex::new(Some(4)),
        ..Inside::default()
    });
    let remote = run(experiment(path, "remote", "[engine]\nray = {}\n"), on(&cluster, path)).await?;
    assert_eq!(artifacts(&path.join("local")), artifacts(&path.join("remote")));
    assert!(!artifacts(&path.join("local")).is_empty());
    // Latency is measured, and on each side anew.
    let without_latency = |trials: &[crate::results::TrialResult]| {
        let without = |trial: &crate::results::TrialResult| crate::results::TrialResult {
            latency_p50: None,
            latency_p95: None,
            ..trial.clone()
        };
        trials.iter().map(without).collect::<Vec<_>>()
    };
    assert_eq!(without_latency(&local.trials), without_latency(&remote.trials));
    assert_eq!((local.winner.clone(), local.executed), (remote.winner.clone(), remote.executed));
    let units = cluster.units.lock().unwrap().clone();
    let workers: BTreeSet<WorkerId> = units.iter().map(|(worker, _)| *worker).collect();
    assert!(workers.len() >= 3, "work was spread: {units:?}");

    // Another run finds everything, on the same engine or the other.
    let again = run(experiment(path, "remote", ""), setup(path)).await?;
    assert_eq!((again.executed, without_latency(&again.trials)), (0, without_latency(&remote.trials)));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_with_settings_has_workers_of_its_own() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path();
    corpus(path);
    let cluster = Arc::new(Inside { nodes: vec!["a"], folder: path.to_owned(), ..Inside::default() });
    let rest = "[engine.ray.stages]\nretrieve = { gpus = 0.5, memory_mib = 100, min = 2, max = 2 }\n";
    run(experiment(path, "store", rest), on(&cluster, path)).await?;
    let resources = cluster.resources.lock().unwrap().clone();
    let pool: Vec<_> = resources.iter().filter(|resources| resources.gpus == 0.5).collect();
    assert_eq!(pool.len(), 2, "{resources:?}");
    assert_eq!(pool[0].memory, Some(100 << 20));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_can_grow_does_while_tasks_wait() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path();
    corpus(path);
    let cluster = Arc::new(Inside {
        nodes: vec!["a"],
        more: Mutex::new(vec!["b"]),
        delay: std::time::Duration::from_secs(1),
        folder: path.to_owned(),
        ..Inside::default()
    });
    let results = run(experiment(path, "store", "[engine]\nray = {}\n"), on(&cluster, path)).await?;
    assert!(results.trials.iter().all(|trial| trial.failures.is_empty()));
    assert_eq!(*cluster.had.lock().unwrap(), ["b"]);
    let workers: BTreeSet<WorkerId> = cluster.units.lock().unwrap().iter().map(|(worker, _)| *worker).collect();
    assert_eq!(workers.len(), 2, "one for each node, and none where there is no node");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_that_wants_a_whole_node_finds_room_beside_the_nodes_worker() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path();
    corpus(path);
    let cluster = Arc::new(Inside { nodes: vec!["a"], folder: path.to_owned(), ..Inside::default() });
    let rest = "[engine.ray.stages]\nretrieve = { cpus = 1.5, max = 1 }\nembed = { cpus = 4 }\n";
    run(experiment(path, "store", rest), on(&cluster, path)).await?;
    let resources = cluster.resources.lock().unwrap().clone();
    assert!(resources.iter().any(|resources| resources.cpus == 0.0), "the node's own: {resources:?}");
    assert!(resources.iter().any(|resources| resources.cpus == 1.5), "{resources:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_that_see_another_store_are_refused_with_advice() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path();
    corpus(path);
    let cluster = Arc::new(Inside { nodes: vec!["a"], folder: path.to_owned(), ..Inside::default() });
    let session = Session::open(experiment(path, "store", "[engine]\nray = {}\n"), on(&cluster, path))?;
    let probe = Session::open(experiment(path, "elsewhere", ""), setup(path))?;
    let told = WorkerSetup {
        experiment: session.experiment.text.clone(),
        base: path.to_owned(),
        store: path.join("elsewhere").display().to_string(),
        source: path.join("docs").display().to_string(),
        probe: "probes/1".to_owned(),
        pdf_library: "none".to_owned(),
        identities: BTreeMap::new(),
        budget: None,
        cores: 1,
    };
    let Err(error) = Worker::open(&told, setup(path)).await else { return Err("it was opened".into()) };
    assert!(error.to_string().contains("a folder that all nodes share"), "{error}");
    probe.workspace().store().put("probes/1", "seen").await?;
    assert!(Worker::open(&told, setup(path)).await.is_ok());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_without_a_cluster_says_which_one_can() -> TestResult {
    let folder = tempfile::tempdir()?;
    corpus(folder.path());
    let outcome = run(experiment(folder.path(), "store", "[engine]\nray = {}\n"), setup(folder.path())).await;
    let Err(Error::Refused(mistakes)) = outcome else { return Err("it ran".into()) };
    assert!(mistakes[0].contains("Python package"), "{mistakes:?}");
    Ok(())
}
