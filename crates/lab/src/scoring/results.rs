//! The scores of answers: by metric, by row, and what has to be known beside them.

use crate::{
    Error,
    budget::BudgetResult,
    results::{FunctionFailure, JudgeResult, QuestionResult, Results},
};
use eval::{Missing, MissingPlace, Score, Scored, statistics::Summary};
use models::Spending;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Resampling is seeded, so that the same scores give the same intervals.
pub(super) const SEED: u64 = 0x5EED;

/// One metric over all rows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricScores {
    /// Its name.
    pub name: String,
    /// Whether judges gave it.
    pub judged: bool,
    /// Whether each judge is qualified for it, by the judge's record.
    pub qualified: bool,
    /// Its least and greatest value.
    pub range: (f64, f64),
    /// Whether more is better.
    pub higher_is_better: bool,
    /// Mean, interval and counts.
    #[serde(flatten)]
    pub summary: Summary,
    /// How many rows have no score, by the reason in one word.
    pub missing: BTreeMap<String, usize>,
}

/// One row's scores.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RowScores {
    /// Its line in the file, from 1; in a Parquet file its row. If a program
    /// passed the rows, its number, from 0.
    pub line: usize,
    /// The question's id.
    pub id: String,
    /// The question.
    pub question: String,
    /// Scores by metric, each with what a person needs to check it.
    pub scores: BTreeMap<String, Scored>,
}

/// The results.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScoreResults {
    /// The file.
    pub file: String,
    /// The judges' names.
    pub judges: Vec<String>,
    /// The metrics, in the order asked for.
    pub metrics: Vec<MetricScores>,
    /// The rows, in the order of the file.
    pub rows: Vec<RowScores>,
    /// Calls and tokens by model.
    pub spending: BTreeMap<String, Spending>,
    /// The caps and the use of the budget, if there was one.
    pub budget: Option<BudgetResult>,
    /// Why not everything was scored, if the budget, the deadline or a person
    /// ended it early.
    pub partial: Option<String>,
    /// Scores that are missing because a provider failed.
    pub provider_errors: usize,
    /// Scores that are missing because a user's function failed.
    pub function_errors: usize,
    /// Entries of the journal that were damaged, so that their calls were
    /// made again.
    pub damaged_entries: u64,
    /// The metrics that compared places of passages and evidence that were not
    /// checked against documents.
    pub unchecked_places: Vec<String>,
}

impl ScoreResults {
    /// The scores of a trial of a run, in the form that scored answers of any system have, so that both can be
    /// compared. A row is a question of the run, and its number counts from 0.
    ///
    /// # Errors
    /// If there is no such trial.
    pub fn of_trial(run: &Results, trial: &str) -> Result<Self, Error> {
        let found = run.trial(trial)?;
        let questions: HashMap<&str, &str> =
            run.questions.iter().map(|question| (question.id.as_str(), question.question.as_str())).collect();
        let rows = found.questions.iter().enumerate().map(|(line, asked)| {
            let question = questions.get(asked.question.as_str()).copied().unwrap_or_default().to_owned();
            let scores = run.metrics.iter().map(|metric| (metric.name.clone(), score_of(asked, &metric.name)));
            RowScores { line, id: asked.question.clone(), question, scores: scores.collect() }
        });
        let rows: Vec<RowScores> = rows.collect();
        let metrics = run.metrics.iter().map(|metric| {
            let scores: Vec<Score> = rows.iter().map(|row| row.scores[&metric.name].score.clone()).collect();
            MetricScores {
                name: metric.name.clone(),
                judged: metric.judged,
                // A judged metric is in the objective only if its judges are qualified for it.
                qualified: metric.judged && (metric.objective || is_qualified(&run.judges)),
                range: metric.range,
                higher_is_better: metric.higher_is_better,
                missing: count_missing(&scores),
                summary: Summary::of(&scores, metric.range, SEED),
            }
        });
        let mut results = Self {
            file: format!("{trial} of run {}", run.run),
            judges: run.judges.iter().map(|judge| judge.judge.clone()).collect(),
            metrics: metrics.collect(),
            rows,
            spending: BTreeMap::new(),
            budget: None,
            partial: run.partial.clone(),
            provider_errors: 0,
            function_errors: 0,
            damaged_entries: 0,
            unchecked_places: Vec::new(),
        };
        results.count_errors();
        Ok(results)
    }

    /// Counts the scores that are missing because a provider or a function failed.
    pub(super) fn count_errors(&mut self) {
        self.provider_errors = self.count(|missing| matches!(missing, Missing::ProviderError(_)));
        self.function_errors = self.count(|missing| matches!(missing, Missing::FunctionError(_)));
    }

    /// What limits the numbers, one sentence each.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.metrics.iter().any(|metric| metric.judged) {
            let judges = self.judges.join(", ");
            let judged = || self.metrics.iter().filter(|metric| metric.judged);
            let open: Vec<&str> =
                judged().filter(|metric| !metric.qualified).map(|metric| metric.name.as_str()).collect();
            notes.push(match open.len() {
                0 => format!("* judged by {judges}, qualified on labelled data"),
                n if n == judged().count() => format!("* judged by {judges}, not qualified on labelled data"),
                _ => format!("* judged by {judges}, not qualified on labelled data for {}", open.join(", ")),
            });
        }
        if let Some(partial) = &self.partial {
            notes.push(format!("PARTIAL: {partial}"));
        }
        let unpaid = self.count(|missing| matches!(missing, Missing::Budget(_)));
        if unpaid > 0 {
            notes.push(format!("{unpaid} scores were not asked for, because of the budget: score again to go on"));
        }
        if self.provider_errors > 0 {
            let n = self.provider_errors;
            notes.push(format!("{n} scores are missing because a model failed: score again to ask for them"));
        }
        for (metric, unplaced) in self.unplaced() {
            notes.push(match unplaced {
                MissingPlace::Evidence => format!(
                    "`{metric}` has no scores, because the golden evidence has no place in a document: anchor the \
                     questions in the documents first"
                ),
                MissingPlace::Passages => format!(
                    "`{metric}` has no scores, because the passages have no place in a document: write each as an object \
                     with `text`, `document`, `start_byte` and `end_byte`"
                ),
            });
        }
        if !self.unchecked_places.is_empty() {
            let metrics: Vec<String> = self.unchecked_places.iter().map(|metric| format!("`{metric}`")).collect();
            notes.push(format!(
                "{}: the places were not checked, and a place in characters instead of bytes gives a wrong score: \
                 give the documents",
                metrics.join(", ")
            ));
        }
        if self.function_errors > 0 {
            notes.push(format!("{} scores are missing because a function of your own failed", self.function_errors));
        }
        if self.damaged_entries > 0 {
            let n = self.damaged_entries;
            notes.push(format!("{n} entries of the journal were damaged, and their calls made again"));
        }
        notes
    }

    /// The metrics that apply to no row, because evidence or passages have no
    /// place in a document.
    pub fn unplaced(&self) -> Vec<(&str, MissingPlace)> {
        let without = self.metrics.iter().filter(|metric| metric.summary.n_scored == 0);
        let unplaced = |name: &str| {
            self.rows.iter().filter_map(|row| row.scores.get(name)).find_map(|scored| match &scored.score {
                Score::Missing(missing) => missing.missing_place(),
                Score::Value(_) => None,
            })
        };
        without.filter_map(|metric| Some((metric.name.as_str(), unplaced(&metric.name)?))).collect()
    }

    /// Whether golden evidence without a place is why a metric has no scores.
    pub fn needs_anchoring(&self) -> bool {
        self.unplaced().iter().any(|(_, unplaced)| *unplaced == MissingPlace::Evidence)
    }

    fn count(&self, holds: impl Fn(&Missing) -> bool) -> usize {
        let scores = self.rows.iter().flat_map(|row| row.scores.values());
        scores.filter(|scored| matches!(&scored.score, Score::Missing(missing) if holds(missing))).count()
    }

    /// The failures of user functions.
    pub fn function_failures(&self) -> Vec<FunctionFailure> {
        let rows =
            self.rows.iter().flat_map(|row| row.scores.iter().map(move |(metric, scored)| (row, metric, scored)));
        let failures = rows.filter_map(|(row, metric, scored)| match &scored.score {
            Score::Missing(Missing::FunctionError(failure)) => Some(FunctionFailure {
                trial: String::new(),
                label: metric.clone(),
                question: Some(row.id.clone()),
                failure: (**failure).clone(),
            }),
            _ => None,
        });
        failures.collect()
    }
}

/// How many scores are missing, by the reason in one word.
pub(super) fn count_missing(scores: &[Score]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for score in scores {
        if let Score::Missing(reason) = score {
            *counts.entry(reason.name().to_owned()).or_default() += 1;
        }
    }
    counts
}

/// The score of a question. A stage that failed as a whole leaves none.
fn score_of(asked: &QuestionResult, metric: &str) -> Scored {
    let none = || Scored::plain(Score::Missing(Missing::NotAsked("the run has no score for this question".to_owned())));
    asked.scores.get(metric).cloned().unwrap_or_else(none)
}

/// Whether each judge was tried, and qualified for every kind of verdict that it was tried on.
fn is_qualified(judges: &[JudgeResult]) -> bool {
    let qualified = |judge: &JudgeResult| {
        judge.record.as_ref().is_some_and(|record| record.kinds.iter().all(|kind| kind.qualified))
    };
    !judges.is_empty() && judges.iter().all(qualified)
}

#[cfg(test)]
mod tests;
