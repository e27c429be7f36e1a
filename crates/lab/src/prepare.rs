//! Checks and plans an experiment: [`Session::prepare`] finds every mistake before work or money is
//! spent. Its only work is to parse the corpus and, if there are none yet, to generate golden questions.

mod corpus_summary;
mod even_sample;
pub(crate) mod facts;
mod parsed_corpora;
pub(crate) mod questions;
pub(crate) mod searched;
mod shard_summaries;
pub(crate) mod systems;
pub(crate) mod text_sample;

pub use crate::warning::LostEvidence;
pub(crate) use corpus_summary::lost_evidence;

use crate::{
    Error, budget,
    corpus::{CorpusSurvey, load, survey},
    error_chain,
    healing::run_context,
    plan::{GivenReplies, Plan, PlanInputs, QuestionViews, Trial, trial},
    prepare::questions::{DatasetQuestions, import, read_questions},
    qualification::check_judges,
    session::{
        Session, used_databases,
        used_models::{identities, used_models},
    },
    task::{CallTurn, RunContext},
    warning::{self, RunFacts, Warning},
    workspace::ClaimedArtifacts,
};
use eval::{Question, dataset::DatasetReport};
use models::Identity;
use rag::{
    Component, PipelineConfig,
    load::{Rejected, Unread, similar_names},
};
use searched::check_search;
use std::{collections::BTreeMap, sync::Arc};
use text_sample::TextSample;

/// The most pairs of similar names that are told.
const SIMILAR_NAMES: usize = 3;

/// An experiment that was checked as a whole and can run.
pub struct PreparedRun {
    /// The trials.
    pub trials: Vec<Trial>,
    /// What would run.
    pub plan: Arc<Plan>,
    /// The golden questions, with the places of their evidence.
    pub questions: Vec<Question>,
    /// Documents that were read.
    pub documents: usize,
    /// The bytes of their text.
    pub text_bytes: usize,
    /// Files that gave no document.
    pub rejected: Vec<Rejected>,
    /// Files that could not be read now: the next run reads them.
    pub unread: Vec<Unread>,
    /// Some pairs of documents whose names differ only in case, or in how their letters are put together.
    pub similar_names: Vec<(String, String)>,
    /// Questions that are left out of this run, since their evidence stands in
    /// a file that could not be read.
    pub left_out: Vec<String>,
    /// Questions that are left out because the documents have changed: their evidence stood in them in an earlier run.
    pub lost_questions: Vec<Question>,
    /// What the dataset holds, and which of its file's columns are not used;
    /// none where there is no dataset.
    pub dataset: Option<DatasetReport>,
    /// Other runs that use the same object store now: what each of them
    /// finishes is shared, what it is doing is not.
    pub concurrent_runs: usize,
    /// The warnings that are known before the run.
    pub warnings: Vec<Warning>,
    /// The run's id: that of its plan.
    pub run: String,
    /// What tasks share.
    pub run_context: Arc<RunContext>,
    pub(crate) sources: ModelsAndCorpus,
    /// A sample of the documents, for estimates of tokens and chunks.
    pub(crate) text_sample: Arc<TextSample>,
    /// The facts for warnings that are known before the run.
    pub(crate) facts: RunFacts,
}

/// A plan's models and corpus.
#[derive(Debug)]
pub(crate) struct ModelsAndCorpus {
    pub(crate) identities: BTreeMap<String, Identity>,
    /// The answers that exist already, by system.
    pub(crate) given: BTreeMap<String, GivenReplies>,
    pub(crate) corpus: CorpusSurvey,
    /// The questions for each parser after the first.
    pub(crate) views: QuestionViews,
}

impl ModelsAndCorpus {
    /// Models, and no corpus.
    #[cfg(test)]
    pub(crate) fn of_models(identities: BTreeMap<String, Identity>) -> Self {
        let corpus = CorpusSurvey { pdf_library: "none".to_owned(), ..CorpusSurvey::default() };
        Self { identities, given: BTreeMap::new(), corpus, views: QuestionViews::NONE }
    }

    /// A plan for trials. `asked` holds the places of each trial's questions; without it, each is
    /// asked those of the experiment.
    pub(crate) fn plan(
        &self,
        session: &Session,
        trials: &[Trial],
        questions: &[Question],
        asked: Option<&[Vec<usize>]>,
    ) -> Arc<Plan> {
        Arc::new(Plan::new(&PlanInputs {
            trials,
            identities: &self.identities,
            given: &self.given,
            questions,
            views: &self.views,
            asked,
            ..self.corpus.plan_inputs(&session.experiment)
        }))
    }
}

impl Session {
    /// Checks everything that can be checked before work or money is spent,
    /// parses the corpus, and plans.
    ///
    /// # Errors
    /// [`Error::Refused`] with all mistakes.
    pub async fn prepare(&self) -> Result<PreparedRun, Error> {
        let mut claimed = ClaimedArtifacts::new(self.workspace());
        let prepared = check_and_plan(self, &mut claimed).await;
        claimed.end().await;
        prepared
    }
}

/// Says before a run that no call will be paid.
fn warn_of_total(session: &Session) {
    let Some(total) = session.budget().total() else { return };
    for cap in total.used_up() {
        session.setup().control.progress.warn(budget::used_up(&total, cap));
    }
}

/// Checks everything of an experiment except its documents and its questions: its budget, and whether its models,
/// systems and databases can be used. Returns their identities.
pub(crate) async fn check_models(
    session: &Session,
    mistakes: &mut Vec<String>,
) -> Result<BTreeMap<String, Identity>, Error> {
    let experiment = &session.experiment;
    session.budget().look_at_total().await?;
    let caps = budget::dollar_caps(session.budget());
    warn_of_total(session);
    mistakes.extend(budget::unpriced(&caps, &experiment.models, &used_models(experiment)));
    mistakes.extend(budget::unpriced_systems(&caps, &experiment.systems));
    mistakes.extend(check_judges(session).await?);
    let mut identities = identities(session, mistakes).await;
    identities.extend(systems::identities(session, mistakes).await);
    identities.extend(used_databases::identities(session, mistakes).await);
    mistakes.extend(check_vectors(session, &identities));
    Ok(identities)
}

async fn check_and_plan(session: &Session, claimed: &mut ClaimedArtifacts) -> Result<PreparedRun, Error> {
    session.workspace().probe_and_flush().await?;
    let experiment = &session.experiment;
    let mut mistakes = Vec::new();
    let identities = check_models(session, &mut mistakes).await?;
    check_trackers(session, &mut mistakes).await;
    let found = survey(session, &mut mistakes).await?;
    let imported = import(session, &mut mistakes).await?;
    let Some(source) = found.source.clone().filter(|_| mistakes.is_empty()) else {
        return Err(Error::Refused(mistakes));
    };

    let loaded = load(session, claimed, source.clone(), &found).await?;
    let asked = read_questions(session, &loaded, imported, &found, &mut mistakes).await?;
    mistakes.extend(check_search(experiment, &asked.questions));
    let given = systems::given(session, &asked.questions, &mut mistakes).await;
    Error::refuse(mistakes)?;
    let DatasetQuestions { questions, views, report, corpus } = asked;
    let sources = ModelsAndCorpus { identities, given, corpus: found, views: views.clone() };
    let trials = trial::grid(experiment);
    let plan = sources.plan(session, &trials, &questions, None);
    let run = format!("{}-{}", experiment.name, plan.key().short());
    let paths = sources.corpus.files.files.iter().map(|(file, _)| file.path.as_str());
    let similar_names = similar_names(paths, SIMILAR_NAMES);
    let similar_names = similar_names.into_iter().map(|(one, other)| (one.to_owned(), other.to_owned())).collect();
    let mut facts = facts::planned(experiment, &trials, &sources.identities, corpus.facts, &questions);
    facts.questions.lost = corpus.lost_evidence;
    let run_context = Arc::new(run_context(session, source, (questions.clone(), views), &run)?);
    Ok(PreparedRun {
        trials,
        plan,
        questions,
        documents: corpus.documents,
        text_bytes: corpus.text_bytes,
        text_sample: Arc::new(corpus.text_sample),
        rejected: corpus.rejected.into_iter().chain(sources.corpus.files.rejected.iter().cloned()).collect(),
        unread: loaded.unread,
        similar_names,
        left_out: corpus.left_out,
        lost_questions: corpus.lost_questions,
        dataset: experiment.dataset.as_ref().map(|_| report),
        concurrent_runs: claimed.others().await,
        warnings: warning::find(&facts, &experiment.warnings.ignore),
        run,
        run_context,
        sources,
        facts,
    })
}

/// Checks whether the Python packages that trackers need are there.
async fn check_trackers(session: &Session, mistakes: &mut Vec<String>) {
    for tracker in &session.experiment.track {
        let Some(package) = tracker.python_package() else { continue };
        let checked = tokio::task::spawn_blocking(move || rag::python::check_package(package)).await;
        if let Ok(Err(failure)) = checked {
            mistakes.push(format!("track.{}: {failure}", tracker.name()));
        }
    }
}

/// Checks whether enrichers that make vectors can make them with the embedders and the chunkers that they are combined
/// with. Returns the mistakes; models that cannot be used at all are reported elsewhere.
fn check_vectors(session: &Session, identities: &BTreeMap<String, Identity>) -> Vec<String> {
    let models = session.models();
    let in_turn = models.in_turn(CallTurn::default());
    let mut mistakes: Vec<String> = Vec::new();
    let wanted = session.experiment.space.combinations().filter(|pipeline| pipeline.enrich.makes_vectors());
    let mut seen: Vec<PipelineConfig> = Vec::new();
    for pipeline in wanted {
        let same = |other: &PipelineConfig| {
            (&other.enrich, &other.embedder, &other.chunker)
                == (&pipeline.enrich, &pipeline.embedder, &pipeline.chunker)
        };
        let known = |name: &str| identities.contains_key(name);
        if seen.iter().any(same) || !pipeline.embedder.as_deref().is_some_and(known) {
            continue;
        }
        if let Err(error) = rag::enrich::check(&pipeline, &in_turn) {
            let embedder = pipeline.embedder.as_deref().unwrap_or_default();
            let reason = error_chain(&Error::from(error));
            let mistake = format!("space.enrich: with the embedder `{embedder}`: {reason}");
            if !mistakes.contains(&mistake) {
                mistakes.push(mistake);
            }
        }
        seen.push(pipeline);
    }
    mistakes
}
