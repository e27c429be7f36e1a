//! An open experiment: with its workspace, models and budget. `prepare` checks and plans it, `run` runs it; everything
//! else that can be done with it is a function over a session, in a file of its own.

mod cluster;
pub(crate) mod used_databases;
pub(crate) mod used_models;

pub(crate) use cluster::pull_missing;

use crate::{
    Error,
    engine::{Engine, Local},
    error_chain,
    own_files::own_files,
    progress::Progress,
    results::Results,
    setup::Setup,
    spec::Experiment,
    steering::Steering,
    task::ModelHandles,
    workspace::Workspace,
};
use models::{Budget, Caps, Client, provider};
use rag::load::Source;
use std::{path::Path, sync::Arc};
use tokio::sync::OnceCell;

/// An experiment with its workspace, models and budget.
pub struct Session {
    /// The experiment.
    pub experiment: Arc<Experiment>,
    setup: Setup,
    context: provider::ModelContext,
    workspace: Workspace,
    /// One budget for all calls, including those that write questions. Its time begins with the
    /// session.
    budget: Budget,
    /// Set when the first plan is executed: the workers that load the documents do the run too.
    engine: Arc<OnceCell<Engine>>,
}

impl Session {
    /// Opens the store and the journal of an experiment. What its calls cost counts for the total of the experiment.
    ///
    /// # Errors
    /// If the store cannot be used.
    pub fn open(experiment: Experiment, setup: Setup) -> Result<Self, Error> {
        let workspace = Workspace::open(&experiment, &setup)?;
        let session = Self::of(experiment, setup, workspace);
        // A service is not a start of the experiment.
        if !session.setup.control.forgets_answers {
            let (total, journal) = (session.experiment.evaluate.budget.total, session.workspace.journal().clone());
            session.budget.count_total(total, journal, &session.experiment.name);
        }
        Ok(session)
    }

    /// Opens an experiment's store for reading: nothing in it is made or
    /// changed, so it may be a folder that cannot be written to. Temporary
    /// files go into `overlay`, a folder that the caller removes afterwards;
    /// paid answers are lost with it.
    ///
    /// # Errors
    /// [`Error::NoRun`] if there is no store; or it cannot be read.
    pub fn open_to_read(experiment: Experiment, setup: Setup, overlay: &Path) -> Result<Self, Error> {
        let workspace = Workspace::open_to_read(&experiment, &setup, overlay)?;
        Ok(Self::of(experiment, setup, workspace))
    }

    /// [`Session::open_to_read`] for the experiment of a bundle.
    pub(crate) fn open_bundle(experiment: Experiment, setup: Setup, overlay: &Path) -> Result<Self, Error> {
        let workspace = Workspace::open_bundle(&experiment, &setup, overlay)?;
        Ok(Self::of(experiment, setup, workspace))
    }

    /// The same workspace with another experiment.
    pub(crate) fn with_experiment(self, experiment: Experiment) -> Self {
        Self::of(experiment, self.setup, self.workspace)
    }

    /// A session of another plan of the same run: with the same store, budget and engine.
    pub(crate) fn with_plan(&self, experiment: Arc<Experiment>) -> Self {
        self.beside(experiment, self.setup.clone(), self.engine.clone())
    }

    /// A session of a changed experiment that plans on this machine, while this one runs.
    pub(crate) fn planning_session(&self, experiment: &Experiment) -> Self {
        let mut experiment = experiment.clone();
        experiment.engine.ray = None;
        let mut setup = self.setup.clone();
        // Its work is not shown, and is not paused.
        (setup.control.progress, setup.control.steering) = (Progress::default(), Steering::default());
        self.beside(Arc::new(experiment), setup, Arc::default())
    }

    fn beside(&self, experiment: Arc<Experiment>, setup: Setup, engine: Arc<OnceCell<Engine>>) -> Self {
        let (context, workspace, budget) = (self.context.clone(), self.workspace.clone(), self.budget.clone());
        Self { experiment, setup, context, workspace, budget, engine }
    }

    fn of(experiment: Experiment, setup: Setup, workspace: Workspace) -> Self {
        let file_caps = experiment.evaluate.budget.run();
        let budget = match (&setup.cluster.shared_budget, &setup.cluster.lessor) {
            (Some((name, caps)), Some(lessor)) => Budget::shared(name.clone(), *caps, lessor.clone()),
            _ => Budget::new(Caps { usd: setup.budget_usd.or(file_caps.usd), ..file_caps }),
        };
        let context = setup.context(experiment.engine.local.cores);
        let (experiment, engine) = (Arc::new(experiment), Arc::default());
        Self { experiment, setup, context, workspace, budget, engine }
    }

    /// The results of the last finished run of this experiment; in an object
    /// store, also of a run of another machine.
    ///
    /// # Errors
    /// If there is none, or it cannot be read.
    pub async fn latest(&self) -> Result<Results, Error> {
        let run = self.workspace.latest_run(&self.experiment.name).await?;
        self.workspace.results(&run).await
    }

    /// Where the corpus is; none if its address is a mistake.
    pub(crate) fn corpus_source(&self, mistakes: &mut Vec<String>) -> Option<Source> {
        let corpus = &self.experiment.corpus;
        match Source::parse(&self.corpus_address(), &corpus.include, &corpus.exclude, &self.setup.store_options) {
            Ok(source) => Some(source.with_links(corpus.links).without(own_files(&self.experiment))),
            Err(error) => {
                mistakes.push(error_chain(&error));
                None
            }
        }
    }

    /// The address of the corpus: a path on this machine, or a URL.
    pub(crate) fn corpus_address(&self) -> String {
        let source = &self.experiment.corpus.source;
        if store::is_url(source) { source.clone() } else { self.experiment.path(source).display().to_string() }
    }

    /// The live table of its runs.
    pub fn progress(&self) -> &Progress {
        &self.setup.control.progress
    }

    /// The store, the journal and the folders of runs.
    pub fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    pub(crate) fn setup(&self) -> &Setup {
        &self.setup
    }

    pub(crate) fn context(&self) -> &provider::ModelContext {
        &self.context
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The models, behind the journal and the budget.
    pub(crate) fn models(&self) -> ModelHandles {
        self.models_of(&self.experiment)
    }

    /// The models of an experiment that shares this one's journal and budget.
    pub(crate) fn models_of(&self, experiment: &Experiment) -> ModelHandles {
        let client = match self.setup.control.forgets_answers {
            true => Client::new(None),
            false => Client::sharing(self.workspace.journal().clone()),
        };
        let client = self.setup.control.attach(client, &self.budget);
        let client = match &self.setup.cluster.lessor {
            Some(lessor) => client.with_lessor(lessor.clone()),
            None => client,
        };
        let client = if self.setup.control.sends_batches { client.with_batches() } else { client };
        ModelHandles::new(experiment.models.clone(), self.context.clone(), client)
    }

    /// What executes plans: this machine, or the cluster that the experiment
    /// names, which is joined when it is first needed.
    pub(crate) async fn engine(&self) -> Result<&Engine, Error> {
        let spec = &self.experiment.engine;
        let open = || async {
            Ok(match &spec.ray {
                Some(ray) => Engine::Remote(cluster::join(self, ray).await?),
                None => Engine::Local(Local {
                    cores: self.context.cpu.cores(),
                    tasks: spec.local.tasks,
                    embeds_elsewhere: self.experiment.embeds_elsewhere(),
                }),
            })
        };
        self.engine.get_or_try_init(open).await
    }
}
