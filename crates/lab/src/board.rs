//! What a leaderboard says, as plain data: the order of the trials, where each
//! stands, the columns and their numbers, who may be the best, what is missing
//! or left out and why, and which trial answers.
//!
//! The terminal, the report page, Python and trackers lay this data out. They
//! decide nothing themselves and add no words of their own.

mod approximation;
mod columns;
mod effects;
mod finalists;
mod losses;
mod note;
mod notes;
mod standing;
#[cfg(test)]
mod tests;
mod turns;

pub use crate::number::{count, counted, size};
pub use columns::{Cell, CellScores, Column, ColumnKind};
pub use effects::Effect;
pub use finalists::{FinalistSpace, NoFinalists, inline_toml};
pub use losses::{FoundElsewhere, LostQuestions};
pub use note::{About, Note};
pub use standing::TrialStanding;

pub(crate) use columns::varying;

use crate::{
    clock::utc,
    plan::{SystemTrial, TrialKind, trial::SYSTEM},
    results::{Answering, LossStep, Results, TrialResult, count_losses},
    warning::{Warning, WarningCode},
};
use columns::{cells, columns};
use losses::lost_questions;
use notes::{corpus, notes, work};
use rag::Axis;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use standing::{label, place};
use std::collections::BTreeMap;

/// The content of a leaderboard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Board {
    /// The experiment's name.
    pub experiment: String,
    /// The run's id.
    pub run: String,
    /// When it finished, in words.
    pub finished: String,
    /// How much was read, asked and tried, in words.
    pub corpus: String,
    /// How many tasks this run executed, and how many it took from the store, in words.
    pub work: String,
    /// Why these results are not all that the experiment asks for, if the
    /// budget ended the run early.
    pub partial: Option<String>,
    /// Shown in place of a verdict if there are no golden questions.
    pub unscored: Option<String>,
    /// The best trial, where the verdict names one: all others are worse.
    pub winner: Option<String>,
    /// The first trial by the objective, winner or not. None if there are no
    /// scores, or if missing scores could change the order.
    #[serde(default)]
    pub leads: Option<String>,
    /// Why no winner is named.
    pub no_winner: Option<String>,
    /// The trial that answers for the run; none if there are no trials.
    pub answering: Option<Answering>,
    /// Who may be the best, in sentences that begin with a small letter and
    /// have no full stop.
    pub verdict: Vec<String>,
    /// Groups of trials that cannot be told apart, the best group first. Empty if no
    /// trial leads, and if there is one group only or one for each trial.
    pub groups: Vec<Vec<String>>,
    /// The trials that no other beats on quality, cost and latency together. Empty
    /// if no trial leads, and if there is only one such trial.
    pub front: Vec<String>,
    /// What each axis changes if trials are equal otherwise.
    #[serde(default)]
    pub effects: Vec<Effect>,
    /// The run's warnings, the gravest first.
    #[serde(default)]
    pub warnings: Vec<Warning>,
    /// The warning codes that the run was checked for. None for a run of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looked_for: Option<Vec<WarningCode>>,
    /// Other remarks, in the order in which they are shown.
    pub notes: Vec<Note>,
    /// Files that gave no document.
    pub rejected: Vec<RejectedFile>,
    /// The metrics whose mean compares trials.
    pub objective: Vec<String>,
    /// The columns of the table.
    pub columns: Vec<Column>,
    /// The trials, best first.
    pub rows: Vec<BoardRow>,
}

/// One trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BoardRow {
    /// Its id.
    pub id: String,
    /// Its value on each axis, as a short label.
    pub labels: BTreeMap<String, String>,
    /// Its value on each axis, with all settings, as in the lists of `[space]`.
    pub settings: BTreeMap<String, Value>,
    /// Its standing.
    pub standing: TrialStanding,
    /// Its standing in a word or two; empty where there is nothing to say.
    pub label: String,
    /// Its standing in a sentence.
    pub place: String,
    /// Its group, from 1.
    pub group: Option<usize>,
    /// Whether it may be as good as the trial that leads.
    pub tied: bool,
    /// Whether no other trial beats it on quality, cost and latency together.
    pub front: bool,
    /// The share of resamples of the questions in which that is so, in [0, 1]; none if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub front_share: Option<f64>,
    /// The probability that a trial as good as the best one falls behind as far as this one did; for
    /// a tied trial, see [`TrialResult::p_value`].
    pub p_value: Option<f64>,
    /// The mean difference from the trial that leads, in standard deviations.
    pub effect_size: Option<f64>,
    /// About how many questions in all would separate it from the trial that leads.
    pub questions_needed: Option<usize>,
    /// Why a search stopped it.
    pub stopped: Option<String>,
    /// The number of questions for each step at which golden evidence was lost, and for each way in
    /// which the other questions ended. A step without questions is left out. Empty in runs of
    /// earlier versions.
    #[serde(default)]
    pub losses: BTreeMap<LossStep, usize>,
    /// Where the evidence of the questions that it lost can be found. None if it lost nothing, and in runs of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<LostQuestions>,
    /// One for each of the board's columns.
    pub cells: Vec<Cell>,
}

/// A file that gave no document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectedFile {
    /// Its path below the corpus' root.
    pub path: String,
    /// Why.
    pub reason: String,
}

impl Board {
    /// What the leaderboard of these results says.
    pub fn of(results: &Results) -> Self {
        let (groups, front) = (groups(results), front(results));
        let (columns, lost) = (columns(results), lost_questions(results));
        Self {
            experiment: results.experiment.clone(),
            run: results.run.clone(),
            finished: utc(results.time_ms),
            corpus: corpus(results),
            work: work(results),
            partial: results.partial.clone(),
            unscored: unscored(results),
            winner: results.winner.trial().map(str::to_owned),
            leads: results.winner.first().map(str::to_owned),
            no_winner: results.no_winner(),
            answering: results.answering(None).ok(),
            verdict: results.verdict.clone(),
            warnings: results.warnings.clone(),
            looked_for: results.looked_for.clone(),
            notes: notes(results, &groups, &front),
            effects: effects::effects(results),
            groups,
            front,
            rejected: rejected(results),
            objective: results.objective.clone(),
            rows: results.trials.iter().zip(lost).map(|(trial, lost)| row(results, trial, lost, &columns)).collect(),
            columns,
        }
    }

    /// The title of a group of trials, counted from 1.
    pub fn group_title(&self, group: usize) -> String {
        let trials = match self.groups.get(group - 1).map_or(0, Vec::len) {
            1 => "1 trial".to_owned(),
            n => format!("{n} trials"),
        };
        match group {
            1 => format!("group 1: {trials}, the best among them with 95 % confidence"),
            _ => format!("group {group}: {trials}, worse than group {}", group - 1),
        }
    }

    /// A trial's row.
    pub fn row(&self, id: &str) -> Option<&BoardRow> {
        self.rows.iter().find(|row| row.id == id)
    }

    /// A row's cell in the column of this kind and name. The name alone is not
    /// enough, because a metric may have the name of another column.
    pub fn cell<'a>(&'a self, row: &'a BoardRow, kind: ColumnKind, name: &str) -> Option<&'a Cell> {
        let index = self.columns.iter().position(|column| column.kind == kind && column.name == name)?;
        row.cells.get(index)
    }

    /// The columns to show, each with its cell of a row.
    pub fn shown<'a>(&'a self, row: &'a BoardRow) -> impl Iterator<Item = (&'a Column, &'a Cell)> {
        self.columns.iter().zip(&row.cells).filter(|(column, _)| column.shown)
    }
}

fn row(results: &Results, trial: &TrialResult, lost: Option<LostQuestions>, columns: &[Column]) -> BoardRow {
    let standing = TrialStanding::of(results, trial);
    BoardRow {
        id: trial.trial.id.clone(),
        labels: trial.trial.labels.clone(),
        settings: settings(trial),
        standing,
        label: label(standing, trial),
        place: place(standing, trial),
        group: trial.group,
        tied: trial.tied,
        front: trial.front,
        front_share: trial.front_share,
        p_value: trial.p_value,
        effect_size: trial.effect_size,
        questions_needed: trial.questions_needed,
        stopped: trial.stopped.as_ref().map(|stop| stop.reason.clone()),
        losses: count_losses(trial.questions.iter().filter_map(|question| question.loss.as_ref())),
        lost,
        cells: cells(trial, columns),
    }
}

fn settings(trial: &TrialResult) -> BTreeMap<String, Value> {
    if let TrialKind::System(SystemTrial { system, parameters }) = &trial.trial.kind {
        let parameters = parameters.iter().map(|(name, value)| (format!("{SYSTEM}.{name}"), value.clone()));
        return parameters.chain([(SYSTEM.to_owned(), Value::from(system.as_str()))]).collect();
    }
    let Ok(Value::Object(mut whole)) = serde_json::to_value(&trial.trial) else { return BTreeMap::new() };
    let value = |axis: &str| Some((axis.to_owned(), with_short_floats(whole.remove(axis)?)));
    Axis::NAMES.iter().copied().filter_map(value).collect()
}

/// The same value, in which a number that was an `f32` has no more digits than it needs: 0.3, not 0.30000001192092896.
fn with_short_floats(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let wide = number.as_f64().unwrap_or_default();
            let short = Some(wide as f32).filter(|narrow| f64::from(*narrow) == wide);
            short.and_then(|narrow| narrow.to_string().parse::<f64>().ok()).map_or(Value::Number(number), Value::from)
        }
        Value::Array(items) => items.into_iter().map(with_short_floats).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, with_short_floats(value))).collect(),
        other => other,
    }
}

fn rejected(results: &Results) -> Vec<RejectedFile> {
    let file = |rejected: &rag::load::Rejected| RejectedFile {
        path: rejected.path.clone(),
        reason: crate::error_chain(&rejected.reason),
    };
    results.rejected.iter().map(file).collect()
}

fn unscored(results: &Results) -> Option<String> {
    let ids: Vec<&str> = results.trials.iter().map(|trial| trial.trial.id.as_str()).collect();
    results.questions.is_empty().then(|| {
        format!("everything is indexed by {}; without golden questions there is nothing to score", ids.join(", "))
    })
}

fn groups(results: &Results) -> Vec<Vec<String>> {
    let most = results.trials.iter().filter_map(|trial| trial.group).max().unwrap_or_default();
    if results.winner.first().is_none() || most < 2 || most == results.trials.len() {
        return Vec::new();
    }
    let of = |group| ids(results, |trial| trial.group == Some(group));
    (1..=most).map(of).collect()
}

fn front(results: &Results) -> Vec<String> {
    let front = ids(results, |trial| trial.front);
    if results.winner.first().is_none() || front.len() < 2 { Vec::new() } else { front }
}

fn ids(results: &Results, chosen: impl Fn(&TrialResult) -> bool) -> Vec<String> {
    results.trials.iter().filter(|trial| chosen(trial)).map(|trial| trial.trial.id.clone()).collect()
}
