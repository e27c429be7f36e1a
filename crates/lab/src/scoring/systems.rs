//! Compares the scores of two systems on the questions that both answered.
//!
//! Rows are matched by the id of their question. If one of the tables has no
//! ids, they are matched by the text of the question.

use crate::results::{MetricComparison, RangedMetric, StoredScore, compare_metrics};
use eval::{Score, dataset::is_numbered_id};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};

/// The scores of one system's answers: what a comparison needs of them. It is read
/// from the data that `score` of the Python package returns
/// (`crates/python/src/bindings/scoring.rs`).
#[derive(Debug, Clone, Deserialize)]
pub struct ScoredAnswers {
    judges: Vec<String>,
    metrics: Vec<SystemMetric>,
    rows: Vec<SystemRow>,
}

#[derive(Debug, Clone, Deserialize)]
struct SystemMetric {
    name: String,
    judged: bool,
    range: (f64, f64),
}

#[derive(Debug, Clone, Deserialize)]
struct SystemRow {
    /// Where the row is in the scored file: [`super::RowScores::line`].
    row: usize,
    id: String,
    question: String,
    scores: BTreeMap<String, AnswerScore>,
}

#[derive(Debug, Clone, Deserialize)]
struct AnswerScore {
    value: Option<f64>,
    /// Whether there should be a value and there is none ([`eval::Missing::is_failure`]).
    #[serde(default)]
    failed: bool,
}

impl AnswerScore {
    fn score(&self) -> Score {
        self.value.map_or(StoredScore::Missing(self.failed), StoredScore::Value).score()
    }
}

/// Why two systems cannot be compared.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say it")]
pub enum CompareError {
    #[error("`{id}` is another question in the second: {first:?} in the first, {second:?} in the second")]
    OtherQuestion { id: String, first: String, second: String },
    #[error(
        "the two have no question in common: none of the {first} in the first has the {what} of one of the {second} in the \
         second"
    )]
    NoCommonQuestion { what: &'static str, first: usize, second: usize },
    #[error(
        "{metric} was judged by {first} in the first and by {second} in the second: a difference could be that of the \
         judges; score both with the same"
    )]
    OtherJudges { metric: String, first: String, second: String },
    #[error("the two have no metric in common: {first} in the first, {second} in the second")]
    NoCommonMetric { first: String, second: String },
    #[error(
        "{key:?} stands twice in the {system}, in rows {first} and {second}: give each question its own `question_id`"
    )]
    Twice { key: String, system: &'static str, first: usize, second: usize },
}

/// Rows by the id or the text of their question.
type ByQuestion<'a> = HashMap<&'a str, &'a SystemRow>;

impl ScoredAnswers {
    /// Compares two systems by each metric that they share. Differences are the
    /// first minus the second. A question that only one system answered counts
    /// in `n_total` and in nothing else.
    ///
    /// # Errors
    /// If the systems share no metric or no question, if a question appears
    /// twice in one table, if one id belongs to two different questions, or if
    /// a shared metric was judged by different judges.
    pub fn compare(&self, second: &Self) -> Result<Vec<MetricComparison>, CompareError> {
        let metrics = self.common_metrics(second)?;
        let by_id = self.has_ids() && second.has_ids();
        let (ours, theirs) = (self.by_question("first", by_id)?, second.by_question("second", by_id)?);
        let mut pairs: Vec<(Option<&SystemRow>, Option<&SystemRow>)> = Vec::with_capacity(self.rows.len());
        for row in &self.rows {
            let other = theirs.get(row.key(by_id)).copied();
            if let Some(other) = other.filter(|other| other.question != row.question) {
                let (id, first, second) = (row.id.clone(), row.question.clone(), other.question.clone());
                return Err(CompareError::OtherQuestion { id, first, second });
            }
            pairs.push((Some(row), other));
        }
        if pairs.iter().all(|(_, other)| other.is_none()) {
            let what = if by_id { "id" } else { "text" };
            let (first, second) = (self.rows.len(), second.rows.len());
            return Err(CompareError::NoCommonQuestion { what, first, second });
        }
        let only_second = second.rows.iter().filter(|row| !ours.contains_key(row.key(by_id)));
        pairs.extend(only_second.map(|row| (None, Some(row))));
        let scores = |i: usize| {
            let of = |row: Option<&SystemRow>| {
                let scored = row.and_then(|row| row.scores.get(&metrics[i].0));
                scored.map_or_else(|| StoredScore::Missing(false).score(), AnswerScore::score)
            };
            pairs.iter().map(|&(first, second)| (of(first), of(second))).unzip()
        };
        Ok(compare_metrics(&metrics, scores))
    }

    /// The metrics that the systems share, in the order of the first.
    fn common_metrics(&self, second: &Self) -> Result<Vec<RangedMetric>, CompareError> {
        let mut metrics = Vec::new();
        for metric in &self.metrics {
            let Some(other) = second.metrics.iter().find(|other| other.name == metric.name) else { continue };
            if metric.judged && self.judges != second.judges {
                let (first, second) = (self.judges.join(", "), second.judges.join(", "));
                return Err(CompareError::OtherJudges { metric: metric.name.clone(), first, second });
            }
            let range = (metric.range.0.min(other.range.0), metric.range.1.max(other.range.1));
            metrics.push((metric.name.clone(), range));
        }
        if metrics.is_empty() {
            let names = |of: &Self| of.metrics.iter().map(|metric| metric.name.clone()).collect::<Vec<_>>().join(", ");
            return Err(CompareError::NoCommonMetric { first: names(self), second: names(second) });
        }
        Ok(metrics)
    }

    /// Whether any row came with an id. Rows without ids are numbered.
    fn has_ids(&self) -> bool {
        self.rows.iter().any(|row| !is_numbered_id(&row.id, row.row))
    }

    fn by_question(&self, system: &'static str, by_id: bool) -> Result<ByQuestion<'_>, CompareError> {
        let mut found = ByQuestion::new();
        for row in &self.rows {
            let key = row.key(by_id);
            if let Some(earlier) = found.insert(key, row) {
                let (key, first, second) = (key.to_owned(), earlier.row, row.row);
                return Err(CompareError::Twice { key, system, first, second });
            }
        }
        Ok(found)
    }
}

impl SystemRow {
    fn key(&self, by_id: bool) -> &str {
        if by_id { &self.id } else { &self.question }
    }
}

#[cfg(test)]
mod tests;
