//! Checks and plans an experiment: [`Session::prepare`] finds every mistake before work or money is
//! spent. It only parses the corpus, and generates golden questions if there are none yet.

pub(crate) mod questions;
pub(crate) mod searched;
mod vectors;

use crate::{
    Error, budget,
    corpus::{CorpusSurvey, load, survey},
    healing::execution,
    plan::{Plan, PlanInputs, Trial, trial},
    prepare::questions::{DatasetQuestions, import, read_questions},
    qualification::check_judges,
    session::{
        Session,
        used_models::{identities, used_models},
    },
    task::Execution,
    workspace::ClaimedArtifacts,
};
use eval::{Question, dataset::DatasetReport};
use models::Identity;
use rag::{
    Metadata,
    load::{Rejected, SourceFile, Unread},
};
use searched::check_search;
use std::{collections::BTreeMap, sync::Arc};
use store::Key;
use vectors::check_vectors;

/// An experiment that was checked as a whole and can run.
pub struct PreparedRun {
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
    pub(crate) sources: Sources,
}

/// The other inputs of a plan.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) identities: BTreeMap<String, Identity>,
    pub(crate) files: Vec<(SourceFile, Key)>,
    /// Files that could not be read now.
    unread: Vec<SourceFile>,
    /// What the corpus' table of metadata says, by document.
    metadata: BTreeMap<String, Metadata>,
    pdf_library: String,
    /// When the files were looked at, in milliseconds since 1970.
    pub(crate) read_ms: i64,
}

impl Sources {
    /// Models, and no corpus.
    #[cfg(test)]
    pub(crate) fn of_models(identities: BTreeMap<String, Identity>) -> Self {
        let (files, unread, metadata) = (Vec::new(), Vec::new(), BTreeMap::new());
        Self { identities, files, unread, metadata, pdf_library: "none".to_owned(), read_ms: 0 }
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
            experiment: &session.experiment,
            trials,
            identities: &self.identities,
            files: &self.files,
            unread: &self.unread,
            metadata: &self.metadata,
            pdf_library: &self.pdf_library,
            questions,
            asked,
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

async fn check_and_plan(session: &Session, claimed: &mut ClaimedArtifacts) -> Result<PreparedRun, Error> {
    session.workspace().reach().await?;
    let experiment = &session.experiment;
    let mut mistakes = budget::unpriced(&session.budget().caps(), &experiment.models, &used_models(experiment));
    mistakes.extend(check_judges(session).await?);
    let identities = identities(session, &mut mistakes).await;
    mistakes.extend(check_vectors(session, &identities));
    let found = survey(session, &mut mistakes).await?;
    let imported = import(session, &mut mistakes).await?;
    let Some(source) = found.source.clone().filter(|_| mistakes.is_empty()) else {
        return Err(Error::Refused(mistakes));
    };

    let loaded = load(session, claimed, source.clone(), &found).await?;
    let asked = read_questions(session, &loaded, imported, &found, &mut mistakes).await?;
    mistakes.extend(check_search(experiment, &asked.questions));
    if !mistakes.is_empty() {
        return Err(Error::Refused(mistakes));
    }
    let CorpusSurvey { read_ms, files, metadata, pdf_library, .. } = found;
    let sources = Sources { identities, files: files.files, unread: files.absent, metadata, pdf_library, read_ms };
    let DatasetQuestions { questions, report, corpus } = asked;
    let trials = trial::grid(experiment);
    let plan = sources.plan(session, &trials, &questions, None);
    let run = format!("{}-{}", experiment.name, plan.key().short());
    let execution = Arc::new(execution(session, source, questions.clone(), &run)?);
    Ok(PreparedRun {
        trials,
        plan,
        questions,
        documents: corpus.documents,
        text_bytes: corpus.text_bytes,
        rejected: corpus.rejected.into_iter().chain(files.rejected).collect(),
        unread: loaded.unread,
        left_out: corpus.left_out,
        dataset: experiment.dataset.as_ref().map(|_| report),
        alongside: claimed.others().await,
        run,
        execution,
        sources,
    })
}
