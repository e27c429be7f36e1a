//! A question to trials of a finished run, for the page Ask: each answers as it would be served.

use crate::{error::PageError, recent::RecentlyOpened};
use lab::{RunPipeline, Session, TrialAnswer};
use serde::{Deserialize, Serialize};
use std::{sync::Arc, time::Instant};

/// The most trials that are kept ready.
const MOST_PIPELINES: usize = 4;
/// The most trials that a question is asked of at once.
const MOST_TRIALS: usize = 4;
/// The longest question, in characters.
const LONGEST_QUESTION: usize = 16_000;

/// A question of a page.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AskRequest {
    question: String,
    /// The trials that answer.
    trials: Vec<String>,
}

/// What one trial answered.
#[derive(Serialize)]
pub(crate) struct AskedTrial {
    trial: String,
    answer: Option<TrialAnswer>,
    /// Why there is no answer.
    error: Option<String>,
    /// How long it took, in seconds.
    seconds: f64,
}

/// The pipelines that were asked last, by their run and trial.
pub(crate) struct AskedPipelines {
    ready: RecentlyOpened<(String, String), Arc<RunPipeline>>,
}

impl Default for AskedPipelines {
    fn default() -> Self {
        Self { ready: RecentlyOpened::new(MOST_PIPELINES) }
    }
}

impl AskedPipelines {
    /// Asks trials of a run, one after another, so that their times say something.
    pub(crate) async fn ask(
        &self,
        session: &Session,
        run: &str,
        request: AskRequest,
    ) -> Result<Vec<AskedTrial>, PageError> {
        let AskRequest { question, trials } = request;
        if question.trim().is_empty() {
            return Err(PageError::invalid("the question is empty"));
        }
        if question.chars().count() > LONGEST_QUESTION {
            return Err(PageError::invalid(format!("the question has more than {LONGEST_QUESTION} characters")));
        }
        if trials.is_empty() || trials.len() > MOST_TRIALS {
            return Err(PageError::invalid(format!("name 1 to {MOST_TRIALS} trials")));
        }
        let mut asked = Vec::new();
        for trial in trials {
            let pipeline = self.pipeline(session, run, &trial).await;
            let began = Instant::now();
            let answered = match pipeline {
                Ok(pipeline) => pipeline.query(&question).await,
                Err(error) => Err(error),
            };
            let seconds = began.elapsed().as_secs_f64();
            let (answer, error) = match answered {
                Ok(answer) => (Some(answer), None),
                Err(error) => (None, Some(lab::error_chain(&error))),
            };
            asked.push(AskedTrial { trial, answer, error, seconds });
        }
        Ok(asked)
    }

    async fn pipeline(&self, session: &Session, run: &str, trial: &str) -> Result<Arc<RunPipeline>, lab::Error> {
        let name = (run.to_owned(), trial.to_owned());
        if let Some(pipeline) = self.ready.get(&name) {
            return Ok(pipeline);
        }
        let record = lab::record_of(session, run).await?;
        let pipeline = Arc::new(RunPipeline::open(session, &record, trial).await?);
        pipeline.warm().await?;
        self.ready.insert(name, pipeline.clone());
        Ok(pipeline)
    }
}
