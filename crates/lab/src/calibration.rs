//! Compares a judge's scores with people's labels: how far they agree, and what
//! the means would be if people had scored everything.
//!
//! When to use it: where a judged metric matters and some answers were labelled
//! by hand. The labelled answers must be a random sample of all answers;
//! otherwise the corrected means describe only the labelled ones.
//!
//! Source of the correction: A. N. Angelopoulos et al., "PPI++: Efficient
//! Prediction-Powered Inference", 2023.

use crate::{Error, Results};
use eval::statistics::{Agreement, CorrectedMean, corrected_mean, mean};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const SEED: u64 = 0x5EED;

/// What a person said of one answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerLabel {
    /// The trial that answered, such as `t03`.
    pub trial: String,
    /// The question's id.
    pub question: String,
    /// The score, in the metric's range; `true` is its best, `false` its worst.
    pub label: LabelValue,
}

/// A score or a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum LabelValue {
    /// Right or wrong.
    Verdict(bool),
    /// A score.
    Score(f64),
}

/// A judge compared with people.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Calibration {
    /// The metric.
    pub metric: String,
    /// Labels that were used.
    pub n_labels: usize,
    /// How far judge and people agree on which half of the range a score is in.
    pub agreement: Option<Agreement>,
    /// The means, trial by trial.
    pub trials: Vec<CalibratedTrial>,
}

/// One trial's means.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CalibratedTrial {
    /// The trial.
    pub trial: String,
    /// Its labelled answers.
    pub n_labels: usize,
    /// Its answers that only the judge scored.
    pub n_judged: usize,
    /// The judge's mean over all.
    pub judged_mean: Option<f64>,
    /// The corrected mean; none with fewer than two labels.
    pub corrected: Option<CorrectedMean>,
}

impl Results {
    /// Compares a judged metric with labels.
    ///
    /// # Errors
    /// [`Error::Refused`] with every label that names no answer of this run or
    /// is out of the metric's range.
    pub fn calibrate(&self, metric: &str, labels: &[AnswerLabel]) -> Result<Calibration, Error> {
        let Some(described) = self.metrics.iter().find(|known| known.name == metric) else {
            let known: Vec<&str> = self.metrics.iter().map(|metric| metric.name.as_str()).collect();
            return Err(Error::NotFound(format!("there is no metric `{metric}`; there are {}", known.join(", "))));
        };
        let (low, high) = described.range;
        let mut mistakes = Vec::new();
        let mut by_trial: BTreeMap<&str, BTreeMap<&str, f64>> = BTreeMap::new();
        for (i, label) in labels.iter().enumerate() {
            let AnswerLabel { trial, question, label } = label;
            let value = match *label {
                LabelValue::Verdict(right) if right == described.higher_is_better => high,
                LabelValue::Verdict(_) => low,
                LabelValue::Score(value) => value,
            };
            if !(low..=high).contains(&value) {
                mistakes.push(format!("label {}: {value} is not between {low} and {high}", i + 1));
            }
            match self.trials.iter().find(|known| known.trial.id == *trial) {
                None => mistakes.push(format!("label {}: there is no trial `{trial}`", i + 1)),
                Some(known) if known.questions.iter().all(|known| known.question != *question) => {
                    mistakes.push(format!("label {}: there is no question `{question}`", i + 1));
                }
                Some(_) => {}
            }
            if by_trial.entry(trial).or_default().insert(question, value).is_some() {
                mistakes.push(format!("label {}: `{trial}` has two labels for `{question}`", i + 1));
            }
        }
        if labels.is_empty() {
            mistakes.push("there are no labels".to_owned());
        }
        Error::refuse(mistakes)?;
        let (mut pairs, mut trials) = (Vec::new(), Vec::new());
        for found in &self.trials {
            let labels = by_trial.get(found.trial.id.as_str());
            let (mut labelled, mut unlabelled) = (Vec::new(), Vec::new());
            for question in &found.questions {
                let Some(judge) = question.scores.get(metric).and_then(|scored| scored.score.value()) else { continue };
                match labels.and_then(|labels| labels.get(question.question.as_str())) {
                    Some(&person) => labelled.push((person, judge)),
                    None => unlabelled.push(judge),
                }
            }
            let all: Vec<f64> = labelled.iter().map(|pair| pair.1).chain(unlabelled.iter().copied()).collect();
            trials.push(CalibratedTrial {
                trial: found.trial.id.clone(),
                n_labels: labelled.len(),
                n_judged: unlabelled.len(),
                judged_mean: mean(&all),
                corrected: corrected_mean(&labelled, &unlabelled),
            });
            pairs.extend(labelled);
        }
        let middle = f64::midpoint(low, high);
        let class = |value: f64| if value >= middle { "high" } else { "low" }.to_owned();
        let classes: Vec<_> = pairs.iter().map(|&(person, judge)| (class(person), class(judge))).collect();
        Ok(Calibration {
            metric: metric.to_owned(),
            n_labels: pairs.len(),
            agreement: Agreement::of(&classes, SEED),
            trials,
        })
    }
}

#[cfg(test)]
mod tests;
