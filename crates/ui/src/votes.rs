//! Votes between two answers, and labels for judges: what people say on pages about what a run has found.

use crate::{blocking::blocking, error::PageError, recent::RecentlyOpened};
use eval::statistics::Random;
use lab::{
    LabelDesk, LabelError, LabelLine, LabelRequest, NextBallot, QuestionLabels, RunAnswers, Session, Side, VoteDesk,
    VoteError, VoteLine, VoteRequest, VoteStanding, layout::RunFileName,
};
use serde::Serialize;
use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::SystemTime,
};

/// The most runs whose answers are kept in memory.
const MOST_RUNS: usize = 2;

/// The votes and labels of a session.
pub(crate) struct VotePages {
    session: Arc<Session>,
    votes: Arc<VoteDesk>,
    labels: Arc<LabelDesk>,
    /// By the run's id: when its results were written, and its answers.
    answers: RecentlyOpened<String, (Option<SystemTime>, Arc<RunAnswers>)>,
    /// Only one run is read at a time, because all its answers are in memory then.
    reading: tokio::sync::Mutex<()>,
}

/// A vote that was recorded. Only now the page may know the trials.
#[derive(Serialize)]
pub(crate) struct RecordedVote {
    number: u64,
    by: String,
    /// The trial on the left.
    left: String,
    /// The trial on the right.
    right: String,
}

impl VotePages {
    pub(crate) fn new(session: Arc<Session>) -> Self {
        Self {
            votes: Arc::new(VoteDesk::new(lab::votes_path(&session.experiment))),
            labels: Arc::new(LabelDesk::new(lab::labels_path(&session.experiment))),
            session,
            answers: RecentlyOpened::new(MOST_RUNS),
            reading: tokio::sync::Mutex::default(),
        }
    }

    /// The answers of a run, read again if its results have changed.
    async fn answers(&self, run: &str) -> Result<Arc<RunAnswers>, PageError> {
        let results = RunFileName::Results.within(&self.session.workspace().run_folder(run));
        let changed = results.metadata().and_then(|file| file.modified()).ok();
        let name = run.to_owned();
        let known = || self.answers.get(&name).filter(|(when, _)| *when == changed).map(|(_, answers)| answers);
        if let Some(answers) = known() {
            return Ok(answers);
        }
        let _one = self.reading.lock().await;
        if let Some(answers) = known() {
            return Ok(answers);
        }
        let answers = Arc::new(RunAnswers::load(&self.session, run).await?);
        self.answers.insert(name, (changed, answers.clone()));
        Ok(answers)
    }

    pub(crate) async fn next(&self, run: &str, by: String) -> Result<NextBallot, PageError> {
        let (votes, answers) = (self.votes.clone(), self.answers(run).await?);
        let next = blocking(move || {
            // The keys of a new hasher are random.
            let mut random = Random::new(RandomState::new().hash_one(lab::now_ms()));
            votes.next(&answers, &by, &mut random)
        });
        Ok(next.await??)
    }

    /// Records a vote. When this returns, it is on the disk.
    pub(crate) async fn vote(&self, run: &str, by: String, request: VoteRequest) -> Result<RecordedVote, PageError> {
        let (votes, answers) = (self.votes.clone(), self.answers(run).await?);
        let line = blocking(move || votes.vote(&answers, &by, request)).await?.map_err(|error| match error {
            VoteError::Invalid(reason) => PageError::invalid(reason),
            VoteError::Failed(error) => error.into(),
        })?;
        let VoteLine { number, by, trial_a, trial_b, side_a, .. } = line;
        let (left, right) = if side_a == Side::Left { (trial_a, trial_b) } else { (trial_b, trial_a) };
        Ok(RecordedVote { number, by, left, right })
    }

    pub(crate) async fn standing(&self, run: &str) -> Result<VoteStanding, PageError> {
        let (votes, answers) = (self.votes.clone(), self.answers(run).await?);
        Ok(blocking(move || votes.standing(&answers)).await??)
    }

    pub(crate) async fn labels(&self, run: &str, question: String) -> Result<QuestionLabels, PageError> {
        let record = lab::record_of(&self.session, run).await?;
        let (session, labels) = (self.session.clone(), self.labels.clone());
        Ok(blocking(move || labels.of_question(&session, &record, &question)).await??)
    }

    /// Records a label. When this returns, it is on the disk.
    pub(crate) async fn label(&self, by: String, request: LabelRequest) -> Result<LabelLine, PageError> {
        let record = lab::record_of(&self.session, &request.run).await?;
        let line = self.labels.label(&self.session, &record, &by, request).await;
        line.map_err(|error| match error {
            LabelError::Invalid(reason) => PageError::invalid(reason),
            LabelError::Failed(error) => error.into(),
        })
    }
}
