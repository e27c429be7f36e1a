//! A worker of the remote engine: runs the same tasks with the same code in
//! another process. It has no plan; each unit brings what it needs.

use crate::{
    Error,
    action::Action,
    engine::unit::{TaskReply, Unit, UnitReply, UnitTask, WorkerActivity, WorkerOrders, WorkerSetup},
    layout,
    parser_needs::{NO_LIBRARY, prepare_parsers},
    plan::{Outputs, QuestionViews},
    progress::Progress,
    session::{Session, pull_missing, used_models},
    setup::{ClusterSetup, Setup},
    spec::{BudgetSpec, Experiment},
    task::{self, ModelHandles, RunContext, RunInputs},
};
use eval::Question;
use rag::load::Source;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};
use store::EventLog;

/// Executes units of tasks.
pub struct Worker {
    session: Session,
    source: Source,
    models: Arc<ModelHandles>,
    progress: Progress,
    run_contexts: Mutex<HashMap<(String, String), Arc<RunContext>>>,
}

impl Worker {
    /// Opens the store, and checks that this machine is like the one on which
    /// the plan was made: the same store, models and PDF library. Otherwise
    /// the same keys would stand for other contents.
    ///
    /// # Errors
    /// [`Error::Refused`] with everything that differs.
    pub async fn open(driver: &WorkerSetup, setup: Setup) -> Result<Self, Error> {
        let mut experiment = Experiment::parse(&driver.experiment, driver.base.clone()).map_err(|errors| {
            Error::Refused(errors.into_iter().map(|error| format!("experiment:{error}")).collect())
        })?;
        experiment.store.clone_from(&driver.store);
        experiment.corpus.source.clone_from(&driver.source);
        experiment.engine.local.cores = Some(driver.cores.max(1));
        // The driver divides the budget of the run. What all starts spend is counted in the store, by each worker.
        let total = experiment.evaluate.budget.total;
        experiment.evaluate.budget = BudgetSpec { total, ..BudgetSpec::default() };
        let cluster = ClusterSetup { shared_budget: driver.budget.clone(), ..setup.cluster };
        let mut setup = Setup { budget_usd: None, cluster, ..setup };
        setup.control.sends_batches = true;
        let progress = setup.control.progress.clone();
        let session = Session::open(experiment, setup)?;
        let mut mistakes = Vec::new();
        if !session.workspace().store().exists(&driver.probe).await? {
            mistakes.push(format!(
                "the store {} is not the same one here as for the driver: use an object store (s3://…), or a folder \
                 that all nodes share",
                driver.store
            ));
        }
        let not_pulled = pull_missing(&session, &driver.pdf_library).await;
        let library = prepare_parsers(&session.context().directory, &[], [], &mut mistakes)?;
        if driver.pdf_library != NO_LIBRARY && library != driver.pdf_library {
            mistakes.push(format!(
                "the PDF library differs from the driver's or is missing: {}, with the same version of reverie everywhere",
                Action::PullPdfLibrary
            ));
        }
        let identities = used_models::identities(&session, &mut mistakes).await;
        for (name, identity) in &driver.identities {
            if identities.get(name).is_some_and(|here| here != identity) {
                mistakes.push(format!("models.{name}: its files differ from the driver's: pull it anew"));
            }
        }
        if !mistakes.is_empty() {
            mistakes.extend(not_pulled);
        }
        let source = session.corpus_source(&mut mistakes);
        let Some(source) = source.filter(|_| mistakes.is_empty()) else { return Err(Error::Refused(mistakes)) };
        // Sends paid answers that could not be sent before: other workers would pay for them again.
        // What cannot be sent now stays here.
        let _ = session.workspace().journal().flush().await;
        let models = Arc::new(session.models());
        progress.watch(models.client());
        Ok(Self { session, source, models, progress, run_contexts: Mutex::default() })
    }

    /// Executes a unit: tasks that wait for models run at the same time, tasks that compute one
    /// after the other. The reply holds the result of each task.
    ///
    /// # Errors
    /// If the unit cannot be read, or its questions are not in the store.
    pub async fn run(&self, unit: &[u8]) -> Result<Vec<u8>, Error> {
        let unit: Unit = serde_json::from_slice(unit).map_err(Error::table)?;
        let run_context = self.run_context(&unit).await?;
        let embeds_elsewhere = run_context.experiment.embeds_elsewhere();
        let waits = unit.tasks.first().is_some_and(|task| task.task.operator().waits_where(embeds_elsewhere));
        let tasks = if waits {
            futures::future::join_all(unit.tasks.iter().map(|task| self.task(task, &run_context))).await
        } else {
            let mut replies = Vec::with_capacity(unit.tasks.len());
            for task in &unit.tasks {
                replies.push(self.task(task, &run_context).await);
            }
            replies
        };
        let client = self.models.client();
        // Paid answers are stored before the driver can end the run.
        client.drain(|_| ()).await;
        let (spending, budget) = (client.meter().report(), client.budget().report());
        serde_json::to_vec(&UnitReply { tasks, spending, budget, activity: self.activity() }).map_err(Error::table)
    }

    /// Takes what people have changed, and returns what this worker is doing, for the driver's live tables. Both are bytes
    /// that the driver and its workers understand.
    ///
    /// # Errors
    /// If the orders cannot be read.
    pub fn look(&self, orders: &[u8]) -> Result<Vec<u8>, Error> {
        let WorkerOrders { is_paused, caps } = serde_json::from_slice(orders).map_err(Error::table)?;
        let steering = &self.session.setup().control.steering;
        if steering.is_paused() != is_paused {
            steering.set_paused(is_paused);
        }
        // Requests carry them, so a budget actor that was restarted learns them again.
        if let Some(caps) = caps.filter(|caps| *caps != self.session.budget().caps()) {
            self.session.budget().set_caps(caps);
        }
        serde_json::to_vec(&self.activity()).map_err(Error::table)
    }

    fn activity(&self) -> WorkerActivity {
        WorkerActivity {
            rows: self.progress.take_rows(),
            expected: self.progress.take_expected(),
            models: self.progress.models(),
        }
    }

    async fn task(&self, unit: &UnitTask, run_context: &RunContext) -> TaskReply {
        let started = Instant::now();
        let inputs: Outputs = unit.inputs.iter().map(|(id, name)| (*id, name.clone())).collect();
        let result = task::execute(&unit.task, &inputs, unit.partial, unit.turn, run_context, &self.progress).await;
        TaskReply { result: result.map_err(Into::into), seconds: started.elapsed().as_secs_f64() }
    }

    /// The state that the tasks of a run share. It is kept because it holds opened indexes.
    async fn run_context(&self, unit: &Unit) -> Result<Arc<RunContext>, Error> {
        let key = (unit.run.clone(), unit.questions.clone());
        let known = |run_contexts: &HashMap<_, Arc<RunContext>>| run_contexts.get(&key).cloned();
        if let Some(run_context) = known(&self.run_contexts.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(run_context);
        }
        let workspace = self.session.workspace();
        let bytes = workspace.store().get(&unit.questions).await?;
        let bytes = bytes.ok_or_else(|| Error::table(format!("{} is not in the store", unit.questions)))?;
        let (questions, views): (Vec<Question>, QuestionViews) =
            serde_json::from_slice(&bytes).map_err(Error::table)?;
        let log = layout::worker_log(workspace.root(), &unit.run);
        let run_context = Arc::new(RunContext::new(
            self.session.experiment.clone(),
            workspace.store().clone(),
            RunInputs { source: self.source.clone(), questions, views },
            workspace.scratch_folder(),
            unit.run.clone(),
            EventLog::open(log)?,
            self.models.clone(),
        ));
        let mut run_contexts = self.run_contexts.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(run_contexts.entry(key.clone()).or_insert(run_context).clone())
    }
}
