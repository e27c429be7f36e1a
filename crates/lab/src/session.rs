//! A session: an experiment together with its store, models and corpus.
//! `prepare` finds every mistake before work or money is spent; `run` does
//! what is not done yet.

mod cluster;
mod golden;
mod publish;
mod questions;
mod search;
mod versions;

use crate::{
    Error, budget,
    engine::{Cluster, Engine, Local, Outcome, Remote, required, stored},
    error_chain,
    estimate::CostEstimate,
    plan::{Inputs, Plan, PlanSummary},
    progress::Progress,
    results::Results,
    spec::{Experiment, RayEngineSpec},
    task::{Execution, Material, Models},
    trial::{self, Trial},
};
use eval::Question;
use futures::{StreamExt, stream};
pub use golden::{Golden, LoadedCorpus, Manifest, write_whole};
use models::{Budget, Caps, Client, CpuBudget, Identity, Lessor, Library, ModelDirectory, PullOptions, provider};
use questions::{Corpus, read_corpus};
use rag::load::{self, Rejected, Source, SourceFile};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};
use store::{ArtifactStore, EventLog, Journal, Key, SharedJournal};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

/// Files of a corpus that are read at once to learn their keys.
const READS: usize = 16;

/// The identity of a PDF library that is not there.
pub(crate) const NO_LIBRARY: &str = "none";

/// Looks up an environment variable by name.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Joins the cluster that an experiment names.
pub type Connect = Arc<dyn Fn(&RayEngineSpec) -> Result<Arc<dyn Cluster>, String> + Send + Sync>;

/// What a session is given by whoever starts it: libraries read no environment.
#[derive(Clone)]
pub struct Setup {
    /// Where models and libraries are.
    pub directory: ModelDirectory,
    /// Looks up an environment variable by name.
    pub environment: Environment,
    /// Options for object stores (`aws_access_key_id`, …).
    pub store_options: Vec<(String, String)>,
    /// What a run may cost in US dollars, instead of what the file says.
    pub budget_usd: Option<f64>,
    /// Ends the run.
    pub cancel: CancellationToken,
    /// The live table.
    pub progress: Progress,
    /// Gives shares of the models' limits and of the budget, where other
    /// processes share them.
    pub lessor: Option<Arc<dyn Lessor>>,
    /// The budget that is shared so, by name, with its caps.
    pub allowance: Option<(String, Caps)>,
    /// Where models come from that are missing on a worker; none are pulled
    /// if left out.
    pub pull: Option<PullOptions>,
    /// Joins a cluster, for a program that can.
    pub connect: Option<Connect>,
    /// The folder for what must be on a local disk, instead of a `.reverie`
    /// beside the experiment file, where the store is an object store.
    pub local_folder: Option<PathBuf>,
}

/// An experiment with its store and models.
pub struct Session {
    /// The experiment.
    pub experiment: Arc<Experiment>,
    setup: Setup,
    context: provider::Context,
    store: ArtifactStore,
    journal: SharedJournal,
    /// One for all calls, also those that write questions. Its time began
    /// with the session.
    budget: Budget,
    root: PathBuf,
    /// The cluster's workers, once they are needed.
    remote: OnceCell<Remote>,
}

/// An experiment that was checked as a whole and can run.
pub struct Prepared {
    /// The trials.
    pub trials: Vec<Trial>,
    /// What would run.
    pub plan: Arc<Plan>,
    /// The golden questions, evidence anchored.
    pub questions: Vec<Question>,
    /// Documents that were read.
    pub documents: usize,
    /// The bytes of their text.
    pub text_bytes: usize,
    /// Files that gave no document.
    pub rejected: Vec<Rejected>,
    /// The run's id: that of its plan.
    pub run: String,
    /// What tasks share.
    pub execution: Arc<Execution>,
    pub(crate) sources: Arc<Sources>,
}

/// What else a plan is made from.
#[derive(Debug)]
pub(crate) struct Sources {
    identities: BTreeMap<String, Identity>,
    files: Vec<(SourceFile, Key)>,
    pdf_library: String,
}

impl Session {
    /// Opens the store and the journal of an experiment.
    ///
    /// # Errors
    /// If the store cannot be used.
    pub fn open(experiment: Experiment, setup: Setup) -> Result<Self, Error> {
        let root = setup.local_folder.clone().filter(|_| is_url(&experiment)).unwrap_or_else(|| root(&experiment));
        let store = ArtifactStore::open(&Self::store_address(&experiment), &setup.store_options)?;
        std::fs::create_dir_all(&root).map_err(|source| Error::file("create", &root, source))?;
        let local = Arc::new(Journal::open(root.join(Journal::FILE))?);
        let journal =
            if store.is_remote() { SharedJournal::new(local, store.clone()) } else { SharedJournal::from(local) };
        let file_caps = experiment.evaluate.budget;
        let budget = match (&setup.allowance, &setup.lessor) {
            (Some((name, caps)), Some(lessor)) => Budget::leased(name.clone(), *caps, lessor.clone()),
            _ => Budget::new(Caps { usd: setup.budget_usd.or(file_caps.usd), ..file_caps }),
        };
        let cpu = experiment.engine.local.cores.map_or_else(CpuBudget::machine, CpuBudget::new);
        let context =
            provider::Context { directory: setup.directory.clone(), cpu, environment: setup.environment.clone() };
        let (experiment, remote) = (Arc::new(experiment), OnceCell::new());
        Ok(Self { experiment, setup, context, store, journal, budget, root, remote })
    }

    /// Where an experiment's store is: a folder or a URL.
    pub fn store_address(experiment: &Experiment) -> String {
        if is_url(experiment) { experiment.store.clone() } else { root(experiment).display().to_string() }
    }

    /// Where an experiment's journal of model calls is.
    pub fn journal_path(experiment: &Experiment) -> PathBuf {
        root(experiment).join(Journal::FILE)
    }

    /// The journal of model calls; machines share it if the store is an object
    /// store.
    pub fn journal(&self) -> &SharedJournal {
        &self.journal
    }

    /// The folder of a run.
    pub fn run_folder(&self, run: &str) -> PathBuf {
        self.root.join("runs").join(run)
    }

    /// The results of the last finished run of this experiment, on whatever
    /// machine if the store is an object store.
    ///
    /// # Errors
    /// If there is none, or it cannot be read.
    pub async fn latest(&self) -> Result<Results, Error> {
        self.fetch_latest().await?;
        let pointer = self.root.join("runs").join(format!("{}.latest", self.experiment.name));
        let run = std::fs::read_to_string(&pointer).map_err(|_| {
            let name = &self.experiment.name;
            Error::NotFound(format!(
                "`{name}` has no finished run in {}: start one with `reverie run`",
                self.store.location()
            ))
        })?;
        Results::read(&self.run_folder(run.trim()))
    }

    /// Whether a model of the experiment can be used, as far as that can be
    /// told without asking it.
    pub(crate) async fn ready(&self, name: &str) -> Result<(), Error> {
        let Some(config) = self.experiment.models.get(name) else {
            return Err(Error::Refused(vec![format!(
                "there is no model `{name}` in the experiment file: add [models.{name}]"
            )]));
        };
        Ok(config.ready(&self.context).await?)
    }

    pub(crate) fn environment(&self) -> &Environment {
        &self.setup.environment
    }

    pub(crate) fn progress(&self) -> &Progress {
        &self.setup.progress
    }

    pub(crate) fn context(&self) -> &provider::Context {
        &self.context
    }

    /// The folder for what must be on a local disk.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where artifacts are.
    pub(crate) fn store(&self) -> &ArtifactStore {
        &self.store
    }

    /// The models, behind the journal and the budget.
    pub(crate) fn models(&self) -> Models {
        let client = Client::sharing(self.journal.clone())
            .with_budget(self.budget.clone())
            .with_cancellation(self.setup.cancel.clone());
        let client = match &self.setup.lessor {
            Some(lessor) => client.with_lessor(lessor.clone()),
            None => client,
        };
        Models::new(self.experiment.models.clone(), self.context.clone(), client)
    }

    /// Checks everything that can be checked before work or money is spent,
    /// parses the corpus, and plans.
    ///
    /// # Errors
    /// [`Error::Refused`] with all mistakes.
    pub async fn prepare(&self) -> Result<Prepared, Error> {
        self.reach_store().await?;
        let experiment = &self.experiment;
        let mut mistakes = budget::unpriced(&self.budget.caps(), &experiment.models, &self.used_models());
        mistakes.extend(self.check_judges());
        let identities = self.identities(&mut mistakes).await;
        let source = self.source(&mut mistakes);
        let (files, unlisted) = match &source {
            Some(source) => self.files(source, &mut mistakes).await,
            None => Default::default(),
        };
        let pdf_library = self.bind_pdf_library(&files, &mut mistakes)?;
        let mut imported = self.import(&mut mistakes).await?;
        let to_generate = imported.is_none();
        let Some(source) = source.filter(|_| mistakes.is_empty()) else { return Err(Error::Refused(mistakes)) };

        let trials = trial::grid(experiment);
        let loaded = self.load(source.clone(), &files, &pdf_library).await?;
        let dataset = imported.get_or_insert_default();
        let corpus = read_corpus(&loaded, dataset, &mut mistakes).await?;
        if corpus.documents == 0 {
            let reasons = corpus.rejected.iter().map(|rejected| format!("  {}: {}", rejected.path, rejected.reason));
            let list = reasons.collect::<Vec<_>>().join("\n");
            mistakes.push(format!("the corpus `{}` holds no readable document:\n{list}", experiment.corpus.source));
        }
        let questions = if to_generate && mistakes.is_empty() {
            self.generate(&loaded).await?
        } else {
            imported.unwrap_or_default().questions
        };
        mistakes.extend(self.check_search(questions.len()));
        if !mistakes.is_empty() {
            return Err(Error::Refused(mistakes));
        }
        let inputs = Inputs {
            experiment,
            trials: &trials,
            identities: &identities,
            files: &files,
            pdf_library: &pdf_library,
            questions: &questions,
            asked: None,
        };
        let plan = Arc::new(Plan::new(&inputs));
        let run = format!("{}-{}", experiment.name, plan.key().short());
        let execution = Arc::new(self.execution(source, questions.clone(), &run)?);
        let Corpus { documents, text_bytes, mut rejected } = corpus;
        rejected.extend(unlisted);
        let sources = Arc::new(Sources { identities, files, pdf_library });
        Ok(Prepared { trials, plan, questions, documents, text_bytes, rejected, run, execution, sources })
    }

    /// Does what is not done yet and puts the results together.
    ///
    /// # Errors
    /// [`Error::Interrupted`] after a cancellation, with everything finished kept.
    pub async fn run(&self, prepared: &Prepared) -> Result<Results, Error> {
        let folder = self.run_folder(&prepared.run);
        let write = |name: &str, text: &[u8]| {
            let path = folder.join(name);
            std::fs::write(&path, text).map_err(|source| Error::file("write", &path, source))
        };
        write("experiment.toml", self.experiment.text.as_bytes())?;
        let execution = &prepared.execution;
        execution.log(
            "run_started",
            serde_json::json!({
                "run": prepared.run, "trials": prepared.trials.len(), "tasks": prepared.plan.tasks.len(),
                "dataset": self.dataset_version(prepared), "corpus": self.corpus_version(prepared),
            }),
        );
        for rejected in &prepared.rejected {
            execution.log(
                "document_rejected",
                serde_json::json!({ "path": rejected.path, "reason": rejected.reason.to_string() }),
            );
        }
        let searched = self.search(prepared).await;
        if let Err(error) = &searched
            && !matches!(error, Error::Interrupted)
        {
            execution.log("run_failed", serde_json::json!({ "error": error_chain(error) }));
        }
        let (outcome, results) = searched?;
        let json = serde_json::to_vec(&results).map_err(Error::table)?;
        write("results.json", &json)?;
        let pointer = self.root.join("runs").join(format!("{}.latest", self.experiment.name));
        std::fs::write(&pointer, &prepared.run).map_err(|source| Error::file("write", &pointer, source))?;
        if let Some(budget) = results.budget.as_ref().filter(|budget| budget.reached.is_some()) {
            execution.log("budget_reached", serde_json::json!(budget));
        }
        if results.damaged_entries > 0 {
            execution.log("journal_damaged", serde_json::json!({ "entries": results.damaged_entries }));
        }
        execution.log(
            "run_finished",
            serde_json::json!({
                "executed": outcome.executed, "reused": outcome.reused, "failed": outcome.failed.len(),
                "provider_errors": outcome.provider_errors, "repeated": outcome.repeated, "winner": results.winner, "partial": results.partial,
            }),
        );
        self.publish(prepared, &outcome).await?;
        Ok(results)
    }

    /// What a plan costs and how much of it is in the store.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn summary(&self, prepared: &Prepared) -> Result<PlanSummary, Error> {
        let stored = stored(&prepared.plan, &self.store).await?;
        let mut summary = prepared.plan.summary(&|id| stored[id]);
        let (to_run, _) = required(&prepared.plan, &stored);
        let search = &self.experiment.search;
        summary.search = (!search.is_exhaustive()).then(|| search.name().to_owned());
        summary.cost = Some(CostEstimate::of(&self.experiment, self.budget.caps(), prepared, &to_run));
        Ok(summary)
    }

    async fn execute(&self, plan: &Arc<Plan>, execution: &Arc<Execution>) -> Result<Outcome, Error> {
        let (progress, cancel) = (&self.setup.progress, &self.setup.cancel);
        let Some(ray) = &self.experiment.engine.ray else {
            let engine = Local { cores: self.context.cpu.cores(), tasks: self.experiment.engine.local.tasks };
            return engine.execute(plan, execution, progress, cancel).await;
        };
        let remote = self.remote.get_or_try_init(|| self.join(ray)).await?;
        remote.execute(plan, execution, progress, cancel).await
    }

    fn execution(&self, source: Source, questions: Vec<Question>, run: &str) -> Result<Execution, Error> {
        let folder = self.run_folder(run);
        std::fs::create_dir_all(&folder).map_err(|source| Error::file("create", &folder, source))?;
        let log = EventLog::open(folder.join("events.jsonl"))?;
        let scratch = self.root.join("scratch");
        Ok(Execution::new(
            self.experiment.clone(),
            self.store.clone(),
            Material { source, questions },
            scratch,
            run.to_owned(),
            log,
            Arc::new(self.models()),
        ))
    }

    /// The names of the models that the experiment uses.
    fn used_models(&self) -> BTreeSet<String> {
        let experiment = &self.experiment;
        let space = &experiment.space;
        let generate = experiment.dataset.as_ref().and_then(|dataset| dataset.generate.as_ref());
        let named = space
            .reranker
            .iter()
            .filter_map(|reranker| reranker.model())
            .chain(space.generator.iter().map(|generator| generator.model()))
            .chain(space.embedder.iter().map(String::as_str))
            .chain(generate.map(|generate| generate.model.as_str()));
        let needs: Vec<_> = experiment.evaluate.metrics.iter().map(eval::MetricConfig::needs).collect();
        let judged = needs.iter().any(|needs| needs.judge);
        let judges = experiment.evaluate.judges.iter().filter(|_| judged).map(String::as_str);
        let embedder = experiment.evaluate.embedder.as_deref().filter(|_| needs.iter().any(|needs| needs.embedder));
        named.chain(judges).chain(embedder).map(str::to_owned).collect()
    }

    pub(crate) async fn identities(&self, mistakes: &mut Vec<String>) -> BTreeMap<String, Identity> {
        let mut identities = BTreeMap::new();
        for name in self.used_models() {
            let Some(config) = self.experiment.models.get(&name) else { continue };
            let ready = config.ready(&self.context).await;
            match ready.and_then(|()| config.identity(&self.context)) {
                Ok(identity) => _ = identities.insert(name, identity),
                Err(error) => mistakes.push(format!("models.{name}: {}", error_chain(&error))),
            }
        }
        identities
    }

    pub(crate) fn source(&self, mistakes: &mut Vec<String>) -> Option<Source> {
        let corpus = &self.experiment.corpus;
        let address = if corpus.source.contains("://") {
            corpus.source.clone()
        } else {
            self.experiment.path(&corpus.source).display().to_string()
        };
        match Source::parse(&address, &corpus.include, &corpus.exclude, &self.setup.store_options) {
            Ok(source) => Some(source),
            Err(error) => {
                mistakes.push(error_chain(&error));
                None
            }
        }
    }

    /// The corpus' files with the keys of their bytes. A file that cannot be
    /// read has a key of its own and is reported by the load task.
    async fn files(&self, source: &Source, mistakes: &mut Vec<String>) -> (Vec<(SourceFile, Key)>, Vec<Rejected>) {
        let limits = &self.experiment.corpus.limits;
        match source.survey().await {
            Ok(listing) => {
                let reads = listing.files.into_iter().map(|file| {
                    let (source, limits) = (source.clone(), limits.clone());
                    async move {
                        let key = match source.read(&file, &limits).await {
                            Ok(bytes) => Key::of_bytes(&bytes),
                            Err(reason) => Key::of_bytes(format!("unreadable: {reason}").as_bytes()),
                        };
                        (file, key)
                    }
                });
                (stream::iter(reads).buffered(READS).collect().await, listing.unreadable)
            }
            Err(error) => {
                mistakes.push(error_chain(&error));
                Default::default()
            }
        }
    }

    pub(crate) fn bind_pdf_library(
        &self,
        files: &[(SourceFile, Key)],
        mistakes: &mut Vec<String>,
    ) -> Result<String, Error> {
        let is_pdf =
            |path: &str| Path::new(path).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("pdf"));
        match self.setup.directory.library(Library::Pdfium) {
            Ok(path) => {
                if let Err(error) = load::bind_pdfium(&path) {
                    mistakes.push(error.to_string());
                }
                let bytes = std::fs::read(&path).map_err(|source| Error::file("read", &path, source))?;
                Ok(Key::of_bytes(&bytes).hex())
            }
            Err(error) => {
                if files.iter().any(|(file, _)| is_pdf(&file.path)) {
                    mistakes.push(format!("the corpus holds PDF files: {}", error_chain(&error)));
                }
                Ok(NO_LIBRARY.to_owned())
            }
        }
    }
}

/// The folder for what must be on a local disk: the store itself unless it is
/// an object store.
fn root(experiment: &Experiment) -> PathBuf {
    if is_url(experiment) { experiment.path(".reverie") } else { experiment.path(&experiment.store) }
}

fn is_url(experiment: &Experiment) -> bool {
    experiment.store.contains("://")
}
