//! A session: an experiment together with its store, models and corpus.
//! `prepare` finds every mistake before work or money is spent; `run` does
//! what is not done yet.

mod cluster;
mod golden;
mod kept;
mod publish;
mod questions;
mod search;
mod versions;

use crate::{
    Error, budget,
    engine::{Cluster, Engine, Local, Outcome, Remote, again, required, stored},
    error_chain,
    estimate::CostEstimate,
    frozen::Frozen,
    layout::{self, RunFile},
    plan::{Inputs, Plan, PlanSummary, PlannedTrial, TrialTasks},
    progress::Progress,
    results::Results,
    spec::{Experiment, RayEngineSpec},
    task::{Execution, Material, Models, now_ms, read},
    trial::{self, Trial},
};
use eval::{Dataset, Question, dataset::DatasetReport};
use futures::{StreamExt, stream};
pub use golden::{Golden, LoadedCorpus, Manifest};
use kept::Kept;
use models::{Budget, Caps, Client, CpuBudget, Identity, Lessor, Library, ModelDirectory, PullOptions, provider};
use questions::{Corpus, read_corpus};
use rag::{
    Axis, Item,
    load::{self, Rejected, Source, SourceFile, Unread},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};
use store::{ArtifactStore, EventLog, Journal, Key, SharedJournal, upkeep::Claim};
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
    /// The files of runs on this machine.
    local: ArtifactStore,
    journal: SharedJournal,
    /// One for all calls, also those that write questions. Its time began
    /// with the session.
    budget: Budget,
    root: PathBuf,
    /// Where a session writes that was opened to read.
    scratch: Option<PathBuf>,
    /// What it uses of the store, once it does.
    claim: tokio::sync::Mutex<Option<Claim>>,
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
    /// Files that could not be read now: the next run reads them.
    pub unread: Vec<Unread>,
    /// Questions that are left out of this run, since their evidence stands in
    /// a file that could not be read.
    pub left_out: Vec<String>,
    /// What the file of questions holds, and which of its columns are not used;
    /// none where there is no dataset.
    pub dataset: Option<DatasetReport>,
    /// Other runs that use the same object store now: what each of them
    /// finishes is shared, what it is doing is not.
    pub alongside: usize,
    /// The run's id: that of its plan.
    pub run: String,
    /// What tasks share.
    pub execution: Arc<Execution>,
    pub(crate) sources: Arc<Sources>,
}

/// What else a plan is made from.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) identities: BTreeMap<String, Identity>,
    pub(crate) files: Vec<(SourceFile, Key)>,
    /// Files that could not be read now.
    unread: Vec<SourceFile>,
    pdf_library: String,
    /// When the files were looked at, in milliseconds since 1970.
    pub(crate) read_ms: i64,
}

/// What is at a corpus' address.
#[derive(Default)]
struct CorpusFiles {
    /// The files, with the keys of their contents.
    files: Vec<(SourceFile, Key)>,
    /// Links that leave the corpus, and the like.
    rejected: Vec<Rejected>,
    /// What could not be read or listed now.
    unread: Vec<Unread>,
    /// The files among them.
    absent: Vec<SourceFile>,
}

impl Session {
    /// Opens the store and the journal of an experiment.
    ///
    /// # Errors
    /// If the store cannot be used.
    pub fn open(experiment: Experiment, setup: Setup) -> Result<Self, Error> {
        let kept = Kept::open(&experiment, &setup)?;
        Ok(Self::of(experiment, setup, kept))
    }

    fn of(experiment: Experiment, setup: Setup, kept: Kept) -> Self {
        let Kept { root, scratch, store, local, journal } = kept;
        let file_caps = experiment.evaluate.budget;
        let budget = match (&setup.allowance, &setup.lessor) {
            (Some((name, caps)), Some(lessor)) => Budget::shared(name.clone(), *caps, lessor.clone()),
            _ => Budget::new(Caps { usd: setup.budget_usd.or(file_caps.usd), ..file_caps }),
        };
        let cpu = experiment.engine.local.cores.map_or_else(CpuBudget::machine, CpuBudget::new);
        let context =
            provider::Context { directory: setup.directory.clone(), cpu, environment: setup.environment.clone() };
        let (experiment, remote, claim) = (Arc::new(experiment), OnceCell::new(), tokio::sync::Mutex::default());
        Self { experiment, setup, context, store, local, journal, budget, root, scratch, claim, remote }
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
        layout::run_folder(&self.root, run)
    }

    /// The results of the last finished run of this experiment, on whatever
    /// machine if the store is an object store.
    ///
    /// # Errors
    /// If there is none, or it cannot be read.
    pub async fn latest(&self) -> Result<Results, Error> {
        Results::read(&self.run_folder(&self.latest_run().await?))
    }

    /// The id of the last finished run, its folder on this machine.
    pub(crate) async fn latest_run(&self) -> Result<String, Error> {
        self.fetch_latest().await?;
        let pointer = self.root.join(layout::latest(&self.experiment.name));
        let run = std::fs::read_to_string(&pointer).map_err(|_| {
            let (experiment, place) = (self.experiment.name.clone(), self.store.location().to_string());
            Error::NoRun { experiment, what: "finished run", place }
        })?;
        for file in [RunFile::Results, RunFile::Frozen] {
            self.check_run_file(run.trim(), file).await?;
        }
        Ok(run.trim().to_owned())
    }

    /// Whether a model of the experiment can be used, as far as that can be
    /// told without asking it.
    pub(crate) async fn ready(&self, name: &str) -> Result<(), Error> {
        self.ready_in(&self.experiment, name).await
    }

    /// The same of a model of another experiment, such as that of a run.
    pub(crate) async fn ready_in(&self, experiment: &Experiment, name: &str) -> Result<(), Error> {
        let Some(config) = experiment.models.get(name) else {
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
        self.models_of(&self.experiment)
    }

    /// The models of an experiment that shares this one's journal and budget.
    pub(crate) fn models_of(&self, experiment: &Experiment) -> Models {
        let client = Client::sharing(self.journal.clone())
            .with_budget(self.budget.clone())
            .with_cancellation(self.setup.cancel.clone());
        let client = match &self.setup.lessor {
            Some(lessor) => client.with_lessor(lessor.clone()),
            None => client,
        };
        Models::new(experiment.models.clone(), self.context.clone(), client)
    }

    /// Checks everything that can be checked before work or money is spent,
    /// parses the corpus, and plans.
    ///
    /// # Errors
    /// [`Error::Refused`] with all mistakes.
    pub async fn prepare(&self) -> Result<Prepared, Error> {
        let prepared = self.check_and_plan().await;
        self.let_go().await;
        prepared
    }

    async fn check_and_plan(&self) -> Result<Prepared, Error> {
        self.reach_store().await?;
        let experiment = &self.experiment;
        let mut mistakes = budget::unpriced(&self.budget.caps(), &experiment.models, &self.used_models());
        mistakes.extend(self.check_judges());
        let identities = self.identities(&mut mistakes).await;
        let source = self.source(&mut mistakes);
        let read_ms = now_ms();
        let found = match &source {
            Some(source) => self.files(source, &mut mistakes).await,
            None => CorpusFiles::default(),
        };
        let pdf_library = self.bind_pdf_library(&found.files, &mut mistakes)?;
        let (mut imported, ignored) = self.import(&mut mistakes).await?;
        let to_generate = imported.is_none();
        let Some(source) = source.filter(|_| mistakes.is_empty()) else { return Err(Error::Refused(mistakes)) };

        let trials = trial::grid(experiment);
        let loaded = self.load(source.clone(), &found, &pdf_library).await?;
        let dataset = imported.get_or_insert_default();
        let mut report = DatasetReport::of(dataset, ignored);
        let corpus = read_corpus(&loaded, dataset, &mut mistakes).await?;
        let unread = loaded.unread.clone();
        if corpus.documents == 0 {
            let rejected = corpus.rejected.iter().chain(&found.rejected);
            let mut reasons: Vec<String> =
                rejected.map(|rejected| format!("  {}: {}", rejected.path, error_chain(&rejected.reason))).collect();
            reasons.extend(unread.iter().map(|unread| format!("  {}: cannot be read: {}", unread.path, unread.reason)));
            let list = reasons.join("\n");
            mistakes.push(format!("the corpus `{}` holds no readable document:\n{list}", experiment.corpus.source));
        }
        let questions = if to_generate && mistakes.is_empty() {
            let questions = self.generate(&loaded).await?;
            report = DatasetReport::of(&Dataset { questions: questions.clone() }, Vec::new());
            questions
        } else {
            imported.unwrap_or_default().questions
        };
        mistakes.extend(self.check_search(&questions));
        if !mistakes.is_empty() {
            return Err(Error::Refused(mistakes));
        }
        let inputs = Inputs {
            experiment,
            trials: &trials,
            identities: &identities,
            files: &found.files,
            unread: &found.absent,
            pdf_library: &pdf_library,
            questions: &questions,
            asked: None,
        };
        let plan = Arc::new(Plan::new(&inputs));
        let run = format!("{}-{}", experiment.name, plan.key().short());
        let execution = Arc::new(self.execution(source, questions.clone(), &run)?);
        let Corpus { documents, text_bytes, mut rejected, left_out } = corpus;
        rejected.extend(found.rejected);
        let sources = Arc::new(Sources { identities, files: found.files, unread: found.absent, pdf_library, read_ms });
        let dataset = experiment.dataset.as_ref().map(|_| report);
        let alongside = self.alongside().await;
        Ok(Prepared {
            trials,
            plan,
            questions,
            documents,
            text_bytes,
            rejected,
            unread,
            left_out,
            dataset,
            alongside,
            run,
            execution,
            sources,
        })
    }

    /// Does what is not done yet and puts the results together.
    ///
    /// # Errors
    /// [`Error::Interrupted`] after a cancellation, with everything finished kept.
    pub async fn run(&self, prepared: &Prepared) -> Result<Results, Error> {
        let results = self.run_to_end(prepared).await;
        // The list of its artifacts says now what a run needs that came to its end.
        self.let_go().await;
        results
    }

    async fn run_to_end(&self, prepared: &Prepared) -> Result<Results, Error> {
        self.write_run_file(&prepared.run, RunFile::Experiment, self.experiment.kept()).await?;
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
                serde_json::json!({ "path": rejected.path, "reason": error_chain(&rejected.reason) }),
            );
        }
        for unread in &prepared.unread {
            execution.log("document_unread", serde_json::json!({ "path": unread.path, "reason": unread.reason }));
        }
        if let Some(dataset) = &prepared.dataset {
            execution.log("dataset_read", serde_json::json!(dataset));
        }
        let searched = self.search(prepared).await;
        if let Err(error) = &searched
            && !matches!(error, Error::Interrupted)
        {
            execution.log("run_failed", serde_json::json!({ "error": error_chain(error) }));
        }
        let (outcome, results) = searched?;
        let json = serde_json::to_vec(&results).map_err(Error::table)?;
        let frozen = Frozen::of(self, prepared, &outcome).to_json()?;
        self.write_run_file(&prepared.run, RunFile::Frozen, frozen).await?;
        self.write_run_file(&prepared.run, RunFile::Results, json).await?;
        self.local.replace(&layout::latest(&self.experiment.name), prepared.run.clone()).await?;
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
                "provider_errors": outcome.provider_errors,
                "function_errors": results.function_errors, "repeated": outcome.repeated, "winner": results.winner, "partial": results.partial,
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
        let again = again(&prepared.plan, &stored, &self.store).await?;
        let (to_run, _) = required(&prepared.plan, &stored, &again);
        let search = &self.experiment.search;
        summary.search = (!search.is_exhaustive()).then(|| search.name().to_owned());
        summary.dataset.clone_from(&prepared.dataset);
        summary.rejected.clone_from(&prepared.rejected);
        summary.unread.clone_from(&prepared.unread);
        summary.left_out.clone_from(&prepared.left_out);
        let is_stored = |tasks: &TrialTasks| {
            let scores = tasks.scores.iter().map(|(_, id)| *id);
            tasks.answers.iter().copied().chain(scores).chain([tasks.passages]).all(|id| stored[id])
        };
        let trials = prepared.trials.iter().zip(&prepared.plan.trials);
        let combinations = trials.map(|(trial, tasks)| PlannedTrial {
            trial: trial.id.clone(),
            labels: trial.labels.clone(),
            stored: is_stored(tasks),
        });
        summary.combinations = combinations.collect();
        summary.time = Some(self.time(prepared, &to_run).await?);
        summary.cost = Some(CostEstimate::of(&self.experiment, self.budget.caps(), prepared, &to_run));
        Ok(summary)
    }

    async fn execute_once(&self, plan: &Arc<Plan>, execution: &Arc<Execution>) -> Result<Outcome, Error> {
        let (progress, cancel) = (&self.setup.progress, &self.setup.cancel);
        let Some(ray) = &self.experiment.engine.ray else {
            let engine = Local { cores: self.context.cpu.cores(), tasks: self.experiment.engine.local.tasks };
            return engine.execute(plan, execution, progress, cancel).await;
        };
        let remote = self.remote.get_or_try_init(|| self.join(ray)).await?;
        remote.execute(plan, execution, progress, cancel).await
    }

    fn execution(&self, source: Source, questions: Vec<Question>, run: &str) -> Result<Execution, Error> {
        let folder = layout::run_folder(self.workspace(), run);
        std::fs::create_dir_all(&folder).map_err(|source| Error::file("create", &folder, source))?;
        let log = EventLog::open(RunFile::Events.within(&folder))?;
        let scratch = layout::scratch_folder(self.workspace());
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
        let values = Axis::ALL.iter().flat_map(|&axis| space.on(axis));
        let asked: Vec<String> = values
            .flat_map(|value| {
                value.asks(Item::default()).into_iter().map(|ask| ask.model.to_owned()).collect::<Vec<_>>()
            })
            .collect();
        let named = asked.iter().map(String::as_str).chain(generate.map(|generate| generate.model.as_str()));
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
            Ok(source) => Some(source.with_links(corpus.links)),
            Err(error) => {
                mistakes.push(error_chain(&error));
                None
            }
        }
    }

    /// The corpus' files with the keys of their contents. A file that cannot be
    /// read is no part of this run's plan.
    async fn files(&self, source: &Source, mistakes: &mut Vec<String>) -> CorpusFiles {
        let limits = &self.experiment.corpus.limits;
        let listing = match source.survey().await {
            Ok(listing) => listing,
            Err(error) => {
                mistakes.push(error_chain(&error));
                return CorpusFiles::default();
            }
        };
        let reads = listing.files.into_iter().map(|file| {
            let (source, limits) = (source.clone(), limits.clone());
            async move {
                let key = read::content(&source, &file, &limits).await.map(|content| read::key(&content));
                (file, key)
            }
        });
        let mut found = CorpusFiles { rejected: listing.rejected, unread: listing.unread, ..CorpusFiles::default() };
        for (file, key) in stream::iter(reads).buffered(READS).collect::<Vec<_>>().await {
            match key {
                Ok(key) => found.files.push((file, key)),
                Err(unread) => {
                    found.unread.push(unread);
                    found.absent.push(file);
                }
            }
        }
        found
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
