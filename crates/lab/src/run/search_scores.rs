//! The scores that a search has read so far. A step reads only its own outputs, so steps do not
//! become slower during a search.

use crate::{
    Error, PreparedRun,
    engine::PlanOutcome,
    gather::read_scores,
    plan::{Plan, TrialTasks},
    results::{MetricResult, contribution},
    track::{ScorePoint, score_point},
};
use eval::Score;
use std::collections::{BTreeMap, HashMap, HashSet};

/// A trial's score by a metric at a question.
#[derive(Debug, Clone, Copy, PartialEq)]
enum KnownScore {
    /// The metric was not asked of it, or does not apply.
    None,
    Value(f64),
    /// There should be one. `retry` says that asking again may give it.
    Failed {
        retry: bool,
    },
}

impl From<&Score> for KnownScore {
    fn from(score: &Score) -> Self {
        match score {
            Score::Value(value) => Self::Value(*value),
            Score::Missing(missing) if missing.is_failure() => Self::Failed { retry: missing.can_be_retried() },
            Score::Missing(_) => Self::None,
        }
    }
}

/// The scores of a search's trials.
pub(super) struct SearchScores<'a> {
    prepared: &'a PreparedRun,
    metrics: Vec<MetricResult>,
    /// Where each question is in the dataset.
    places: HashMap<&'a str, usize>,
    /// trial × metric × question
    scores: Vec<Vec<Vec<KnownScore>>>,
    /// The outputs that were read, for each metric of a trial.
    read: HashSet<(usize, usize, String)>,
}

impl<'a> SearchScores<'a> {
    pub(super) fn new(prepared: &'a PreparedRun, metrics: Vec<MetricResult>) -> Self {
        let places = prepared.questions.iter().enumerate().map(|(i, question)| (question.id.as_str(), i)).collect();
        let of_trial = vec![vec![KnownScore::None; prepared.questions.len()]; metrics.len()];
        let scores = vec![of_trial; prepared.trials.len()];
        Self { prepared, metrics, places, scores, read: HashSet::new() }
    }

    /// Reads a trial's new scores.
    ///
    /// # Errors
    /// If the store fails, or an output is damaged.
    pub(super) async fn read(
        &mut self,
        trial: usize,
        (plan, tasks): (&Plan, &TrialTasks),
        outcome: &PlanOutcome,
    ) -> Result<(), Error> {
        for (metric, (_, shards)) in tasks.scores.iter().enumerate() {
            let output = |id: &usize| outcome.outputs.get(id).map(|name| (trial, metric, name.clone()));
            // Tasks of a trial that a person stopped have neither an output nor a failure.
            let is_new = |id: &&usize| match output(id) {
                Some(name) => !self.read.contains(&name),
                None => outcome.failed.contains_key(*id),
            };
            let new: Vec<usize> = shards.iter().filter(is_new).copied().collect();
            for (question, scored) in read_scores(self.prepared, plan, outcome, &new).await? {
                if let Some(&place) = self.places.get(question.as_str()) {
                    self.scores[trial][metric][place] = KnownScore::from(&scored.score);
                }
            }
            self.read.extend(new.iter().filter_map(output));
        }
        Ok(())
    }

    /// Whether a score at this question failed, and asking again may give it.
    pub(super) fn can_be_retried(&self, trial: usize, question: usize) -> bool {
        self.scores[trial].iter().any(|scores| scores[question] == KnownScore::Failed { retry: true })
    }

    /// What these questions contribute to a trial's objective.
    pub(super) fn contributions(
        &self,
        trial: usize,
        questions: &[usize],
        weights: &BTreeMap<String, Vec<f64>>,
    ) -> Vec<Option<f64>> {
        let of_question = |&question: &usize| {
            contribution(&self.metrics, weights, question, |metric| match self.scores[trial][metric][question] {
                KnownScore::Value(value) => Some(value),
                KnownScore::None | KnownScore::Failed { .. } => None,
            })
        };
        questions.iter().map(of_question).collect()
    }

    /// A trial's means so far.
    pub(super) fn means(&self, trial: usize) -> impl Iterator<Item = ScorePoint> {
        self.metrics.iter().zip(&self.scores[trial]).filter_map(move |(metric, scores)| {
            let value = |score: &KnownScore| if let KnownScore::Value(value) = score { Some(*value) } else { None };
            let values: Vec<f64> = scores.iter().filter_map(value).collect();
            let failed = scores.iter().filter(|score| matches!(score, KnownScore::Failed { .. })).count();
            let trial = self.prepared.trials[trial].id.clone();
            let questions = values.len() + failed;
            score_point((trial, metric.name.clone()), questions, &values, metric.range)
        })
    }
}
