//! The columns of a leaderboard and their cells.

use crate::{
    plan::{Trial, trial::label_names},
    results::{MetricResult, Results, TrialResult},
};
use eval::{Missing, Score, statistics::Summary};
use rag::{Component, generate::GeneratorConfig};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// People do not notice a search that takes less time than this, in seconds.
const PERCEIVED: f64 = 0.1;

/// A column of a leaderboard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// What it holds.
    pub kind: ColumnKind,
    /// Its name, the same in all tables: an axis, a metric, `objective`,
    /// `test`, `index_recall`, `latency_p50`, `latency_p95`, `tokens`, `cost_usd`,
    /// `index_cost_usd` or `index_tokens`.
    pub name: String,
    /// What people read above it.
    pub title: String,
    /// Whether a judge gave its numbers.
    pub judged: bool,
    /// How many digits its numbers have after the point.
    pub digits: usize,
    /// Whether it is worth showing: an axis on which trials differ, or a number
    /// that some trial has.
    pub shown: bool,
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnKind {
    /// What trials have on an axis, in a word.
    Axis,
    /// The objective on the questions that trials are chosen by.
    Objective,
    /// The objective on the questions of the split `test`, on which nothing was chosen.
    Test,
    /// The mean of a metric.
    Metric,
    /// The share of the nearest chunks that an approximate index finds.
    IndexRecall,
    /// Seconds that a user waits for an answer, or for passages.
    Seconds,
    /// Tokens read and written for a question by all stages, or for the index.
    Tokens,
    /// Dollars for all questions, or for the index.
    Money,
}

/// What stands in a column for a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// Nothing is known.
    Empty,
    /// A word.
    Text(String),
    /// A number.
    Number(f64),
    /// A mean over questions.
    Scores(CellScores),
}

/// A mean over questions, with what is unknown about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellScores {
    /// The mean, its interval, and its bounds where scores are missing.
    #[serde(flatten)]
    pub summary: Summary,
    /// Why questions have no score, counted by reason. Only set where scores
    /// that should be there are missing, or where there are none at all.
    pub missing: Option<String>,
}

impl Cell {
    /// The mean, or the number.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Scores(scores) => scores.summary.mean,
            Self::Empty | Self::Text(_) => None,
        }
    }

    /// The word.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    fn of(number: Option<f64>) -> Self {
        number.map_or(Self::Empty, Self::Number)
    }
}

/// The names of the labels on which trials differ; others tell nothing.
pub(crate) fn varying<'a>(trials: impl IntoIterator<Item = &'a Trial>) -> Vec<String> {
    let trials: Vec<&Trial> = trials.into_iter().collect();
    let differs = |name: &String| trials.windows(2).any(|pair| pair[0].labels.get(name) != pair[1].labels.get(name));
    label_names(trials.iter().map(|trial| &trial.labels)).into_iter().filter(differs).collect()
}

/// All columns, including those that are not worth showing: tables for programs have them.
pub(super) fn columns(results: &Results) -> Vec<Column> {
    let varying = varying(results.trials.iter().map(|found| &found.trial));
    let split = results.trials.iter().any(|found| found.test.is_some());
    // Search times that nobody notices, and the tokens of a local embedder, are not shown.
    let is_noticed = |found: &TrialResult| {
        let asks_model = |generator: &GeneratorConfig| generator.model().is_some() || generator.runs_function();
        let generates =
            found.trial.pipeline().is_none_or(|pipeline| pipeline.generator.as_ref().is_some_and(asks_model));
        found.latency_p50.is_some_and(|seconds| generates || seconds >= PERCEIVED)
    };
    let waited = results.trials.iter().any(is_noticed);
    let writes = |found: &TrialResult| found.usage.questions.models().any(|(_, used)| used.completion_tokens > 0);
    let is_paid = |cost: Option<f64>| cost.is_some_and(|cost| cost > 0.0);
    let indexed = results.trials.iter().any(|found| is_paid(found.index_cost_usd));
    let seconds = digits_of_seconds(results);
    let paid = results.trials.iter().any(|found| is_paid(found.cost_usd));
    let asked = paid || results.trials.iter().any(writes);
    let column = |kind, name: &str, title: &str, digits, shown| Column {
        kind,
        name: name.to_owned(),
        title: title.to_owned(),
        judged: false,
        digits,
        shown,
    };
    let label = |name: &String| column(ColumnKind::Axis, name, name, 0, varying.contains(name));
    let labels = label_names(results.trials.iter().map(|found| &found.trial.labels));
    let mut columns: Vec<Column> = labels.iter().map(label).collect();
    columns.push(column(ColumnKind::Objective, "objective", "objective", 3, !results.objective.is_empty()));
    columns.push(column(ColumnKind::Test, "test", "on test questions", 3, split));
    let metric = |metric: &MetricResult| Column {
        judged: metric.judged,
        ..column(ColumnKind::Metric, &metric.name, &metric.name, 3, true)
    };
    columns.extend(results.metrics.iter().map(metric));
    let approximates = results.trials.iter().any(|found| found.index_recall.is_some());
    columns.push(column(ColumnKind::IndexRecall, "index_recall", "index recall", 3, approximates));
    columns.extend([
        column(ColumnKind::Seconds, "latency_p50", "s p50", seconds, waited),
        column(ColumnKind::Seconds, "latency_p95", "s p95", seconds, waited),
        column(ColumnKind::Tokens, "tokens", "tokens", 0, asked),
        column(ColumnKind::Money, "cost_usd", "$", 4, paid),
        column(ColumnKind::Money, "index_cost_usd", "index $", 4, indexed),
        column(ColumnKind::Tokens, "index_tokens", "index tokens", 0, false),
    ]);
    columns
}

/// The digits of seconds that keep the fastest trials apart: a search takes milliseconds.
fn digits_of_seconds(results: &Results) -> usize {
    let known = results.trials.iter().filter_map(|found| found.latency_p50).filter(|seconds| *seconds > 0.0);
    match known.fold(f64::INFINITY, f64::min) {
        least if least < 0.01 => 4,
        least if least < 0.1 => 3,
        _ => 2,
    }
}

/// What a trial has in each column.
pub(super) fn cells(found: &TrialResult, columns: &[Column]) -> Vec<Cell> {
    let whole = |summary: &Option<Summary>| {
        let scores = |summary: &Summary| Cell::Scores(CellScores { summary: summary.clone(), missing: None });
        summary.as_ref().map_or(Cell::Empty, scores)
    };
    let cell = |column: &Column| match column.kind {
        ColumnKind::Axis => found.trial.labels.get(&column.name).cloned().map_or(Cell::Empty, Cell::Text),
        ColumnKind::Objective => whole(&found.objective),
        ColumnKind::Test => whole(&found.test),
        ColumnKind::IndexRecall if searches_exactly(found) => Cell::Number(1.0),
        ColumnKind::IndexRecall => whole(&found.index_recall),
        ColumnKind::Metric => of_metric(found, &column.name),
        ColumnKind::Seconds if column.name == "latency_p50" => Cell::of(found.latency_p50),
        ColumnKind::Seconds => Cell::of(found.latency_p95),
        // What the index of a system took is not known.
        ColumnKind::Tokens if column.name == "index_tokens" => {
            Cell::of(found.replies.is_none().then_some(found.index_tokens as f64))
        }
        ColumnKind::Tokens => Cell::of(found.tokens),
        ColumnKind::Money if column.name == "index_cost_usd" => Cell::of(found.index_cost_usd),
        ColumnKind::Money => Cell::of(found.cost_usd),
    };
    columns.iter().map(cell).collect()
}

/// Whether it compares all vectors with those of a question.
pub(super) fn searches_exactly(found: &TrialResult) -> bool {
    found.trial.pipeline().is_some_and(|pipeline| pipeline.compares_vectors() && pipeline.index.is_flat())
}

fn of_metric(found: &TrialResult, metric: &str) -> Cell {
    let Some(summary) = found.metrics.get(metric) else { return Cell::Empty };
    let lacks = summary.n_failed > 0 || summary.mean.is_none();
    Cell::Scores(CellScores { summary: summary.clone(), missing: lacks.then(|| missing(found, metric)) })
}

/// Why questions have no score by a metric, counted by reason.
fn missing(found: &TrialResult, metric: &str) -> String {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for question in &found.questions {
        if let Some(Score::Missing(missing)) = question.scores.get(metric).map(|scored| &scored.score) {
            let name = if matches!(missing, Missing::Budget(_)) { "not asked: budget" } else { missing.name() };
            *reasons.entry(name).or_default() += 1;
        }
    }
    let reasons: Vec<String> = reasons.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    format!("questions without a score: {}", reasons.join(", "))
}

#[cfg(test)]
#[path = "columns_tests.rs"]
mod tests;
