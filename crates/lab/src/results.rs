//! What a run found: scores with intervals, the winner, and everything a
//! person needs to check them.

mod answering;
mod baselines;
mod comparison;
mod cut_share;
mod difference;
mod equal;
#[cfg(test)]
pub(crate) mod fixture;
mod front;
mod judges;
mod loss;
mod losses;
mod objective;
mod parser_places;
mod rows;
mod stored;
mod trial;
mod verdict;
mod winner;
#[cfg(test)]
mod winner_tests;

pub use answering::Answering;
pub use comparison::MetricComparison;
pub(crate) use comparison::{RangedMetric, ScoreTable, ScoresByMetric, StoredScore, compare_metrics};
pub use cut_share::{CutShare, cut_share};
pub use difference::Difference;
pub(crate) use front::counts_money;
pub use judges::{JudgeResult, QualificationRecord};
pub use loss::{EvidenceChunk, EvidenceLoss, LossStep, QuestionLoss, RANKED_CHUNKS};
pub use losses::RIGHT_FROM;
pub(crate) use losses::{
    AnswerOutcome, EvidenceTrace, JudgedAnswer, SearchedEvidence, StagePassages, answer_metrics, count_losses,
    judge_answer,
};
pub(crate) use objective::contribution;
pub use parser_places::ParserPlaces;
pub(crate) use rows::QuestionRow;
pub(crate) use stored::{WITH_ROWS, named_row_files};
pub use trial::{
    EqualTrial, FunctionFailure, MetricResult, NotEnriched, QuestionResult, ReplyFindings, RetrievalCount, StoredRows,
    TrialResult, TrialUsage,
};
pub(crate) use verdict::nothing_retrieved;
pub(crate) use winner::choose;

use crate::{
    Error,
    budget::BudgetResult,
    search::{SearchResult, Stop, StopKind},
    steering::{Act, AppliedAct},
    warning::{Warning, WarningCode},
};
use eval::{Question, dataset::DatasetReport};
use models::Spending;
use rag::load::{Rejected, Unread};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything random in results is drawn from it, so that equal runs give equal results.
pub(crate) const SEED: u64 = 0x5EED;

/// Which trial is best, or why none is named. [`Results::verdict`] says the same
/// in words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Winner {
    /// The best trial: it was compared with others, and all of them are worse.
    Trial(String),
    /// The first by the objective. No winner is named, since others may be as
    /// good, or no other trial was asked all questions.
    Leads(String),
    /// Why not even the first trial can be named.
    Refused(String),
}

impl Winner {
    /// The trial's id, if there is a winner.
    pub fn trial(&self) -> Option<&str> {
        match self {
            Self::Trial(id) => Some(id),
            Self::Leads(_) | Self::Refused(_) => None,
        }
    }

    /// The id of the first trial by the objective, winner or not.
    pub fn first(&self) -> Option<&str> {
        match self {
            Self::Trial(id) | Self::Leads(id) => Some(id),
            Self::Refused(_) => None,
        }
    }
}

/// Everything a run found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The format of this structure: 1, or 2 without the rows of its trials.
    pub version: u32,
    /// The experiment's name.
    pub experiment: String,
    /// The run's id.
    pub run: String,
    /// When it finished, in milliseconds since 1970.
    pub time_ms: i64,
    /// Documents read.
    pub documents: usize,
    /// Bytes of their text.
    pub text_bytes: usize,
    /// Files that gave no document.
    pub rejected: Vec<Rejected>,
    /// Files that could not be read in this run. The results lack them, and the
    /// next run reads them.
    #[serde(default)]
    pub unread: Vec<Unread>,
    /// What the file of questions holds, and which of its columns are not used.
    #[serde(default)]
    pub dataset: Option<DatasetReport>,
    /// Questions that were left out because their evidence is in `unread`.
    #[serde(default)]
    pub left_out: Vec<String>,
    /// Questions that were left out because the documents have changed: their evidence stood in them in an earlier run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost_questions: Vec<Question>,
    /// Where the evidence of the questions is in the documents of each parser after the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parser_places: Vec<ParserPlaces>,
    /// The metrics, in the order of the experiment file.
    pub metrics: Vec<MetricResult>,
    /// The metrics whose mean chooses the winner.
    pub objective: Vec<String>,
    /// The questions.
    pub questions: Vec<Question>,
    /// The trials, best first; those without an objective last.
    pub trials: Vec<TrialResult>,
    /// The winner.
    pub winner: Winner,
    /// What the leaderboard says in sentences: who may be the best. It is not the verdict of
    /// a judge.
    #[serde(default)]
    pub verdict: Vec<String>,
    /// Tasks executed by this run.
    pub executed: usize,
    /// Tasks taken from the store.
    pub reused: usize,
    /// Tasks that were handed out again because a worker of the cluster died.
    #[serde(default)]
    pub repeated: usize,
    /// Answers or verdicts missing because a provider failed.
    pub provider_errors: usize,
    /// Stages, answers and scores that are missing because a user's function
    /// failed, counted for each trial.
    #[serde(default)]
    pub function_errors: usize,
    /// Calls and tokens by model, of this run.
    pub spending: BTreeMap<String, Spending>,
    /// How many answers a search asked for, and why it stopped trials; none for a grid.
    #[serde(default)]
    pub search: Option<SearchResult>,
    /// The caps and the use of the budget, if the run had one.
    #[serde(default)]
    pub budget: Option<BudgetResult>,
    /// Why these results are only a part of what the experiment asks for, if
    /// the budget ended the run early.
    #[serde(default)]
    pub partial: Option<String>,
    /// Damaged entries of the journal, whose calls were made again.
    #[serde(default)]
    pub damaged_entries: u64,
    /// The judges, and how they did on labelled cases.
    #[serde(default)]
    pub judges: Vec<JudgeResult>,
    /// What people did to the run while it went on, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acts: Vec<AppliedAct>,
    /// The run's warnings, the gravest first, without those that the experiment file ignores.
    #[serde(default)]
    pub warnings: Vec<Warning>,
    /// The warning codes that the run was checked for: all but the ignored ones. On a cluster and in an interrupted
    /// run, codes that need the chunks are left out too. None for a run of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looked_for: Option<Vec<WarningCode>>,
}

/// The error for a trial that does not exist.
pub(crate) fn no_such_trial<'a>(id: &str, known: impl Iterator<Item = &'a str>) -> Error {
    let known: Vec<&str> = known.collect();
    Error::NotFound(format!("there is no trial `{id}`; there are {}", known.join(", ")))
}

impl Results {
    /// Each trial's contributions to the objective, by its id: one for each
    /// question, in the order of the dataset, on a scale from 0 to 1. None where a
    /// metric with a weight has no score.
    ///
    /// `weights` holds a weight for each question by the metric's name. A search
    /// computes them for its own scores: with them, metrics that are asked of
    /// different numbers of questions count the same. Otherwise the map is empty,
    /// because a metric that is not in it has the weight 1.
    pub fn contributions(&self, weights: &BTreeMap<String, Vec<f64>>) -> BTreeMap<String, Vec<Option<f64>>> {
        let scores = |trial: &TrialResult| objective::question_scores(trial, &self.metrics, weights);
        self.trials.iter().map(|trial| (trial.trial.id.clone(), scores(trial))).collect()
    }

    /// Ranks the trials again; those that a search stopped come last.
    pub(crate) fn apply_search(&mut self, search: SearchResult) {
        for trial in self.trials.iter_mut().filter(|trial| !trial.is_stopped_by_person()) {
            trial.stopped = search.stops.get(&trial.trial.id).cloned();
        }
        self.search = Some(search);
        self.winner = choose(&mut self.trials, &self.metrics, &self.objective, &self.questions);
        self.verdict = self.describe();
    }

    /// Takes the trials that people stopped out of the comparison. `questions` says how many each was asked.
    pub(crate) fn apply_stops(&mut self, stopped: &BTreeMap<String, String>, questions: &BTreeMap<String, usize>) {
        for act in &mut self.acts {
            let Act::StopTrial { trial } = &act.act else { continue };
            // Between the act and the end of the tasks in flight, its last scores came.
            if !act.refused && stopped.contains_key(trial) && !questions.contains_key(trial) {
                act.outcome = Some(format!("{trial} had all its scores by then, so it is compared like the others"));
            }
        }
        let mut changed = false;
        for trial in &mut self.trials {
            let id = &trial.trial.id;
            let Some((by, questions)) = stopped.get(id).zip(questions.get(id).copied()) else { continue };
            let reason = format!("stopped by {by} after {}", crate::number::counted(questions, "question"));
            trial.stopped = Some(Stop { kind: StopKind::ByPerson, questions, reason });
            changed = true;
        }
        if changed {
            self.winner = choose(&mut self.trials, &self.metrics, &self.objective, &self.questions);
            self.verdict = self.describe();
        }
    }

    /// Marks results that lack trials: the best trial may be among those that are missing.
    pub(crate) fn mark_unfinished(&mut self, reason: String) {
        self.winner = Winner::Refused("not all trials are scored".to_owned());
        self.verdict = self.describe();
        self.partial = Some(reason);
    }

    /// One trial by its id.
    ///
    /// # Errors
    /// If there is no such trial.
    pub fn trial(&self, id: &str) -> Result<&TrialResult, Error> {
        let found = self.trials.iter().find(|result| result.trial.id == id);
        found.ok_or_else(|| no_such_trial(id, self.trials.iter().map(|result| result.trial.id.as_str())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::RunFileName;

    #[test]
    fn only_a_trial_that_won_is_the_winner_and_a_refusal_names_nobody() {
        let id = || "t02".to_owned();
        for (winner, trial, first, written) in [
            (Winner::Trial(id()), Some("t02"), Some("t02"), r#"{"trial":"t02"}"#),
            (Winner::Leads(id()), None, Some("t02"), r#"{"leads":"t02"}"#),
            (Winner::Refused(id()), None, None, r#"{"refused":"t02"}"#),
        ] {
            assert_eq!((winner.trial(), winner.first()), (trial, first), "{winner:?}");
            assert_eq!(serde_json::to_string(&winner).unwrap(), written);
            assert_eq!(serde_json::from_str::<Winner>(written).unwrap(), winner);
        }
    }

    #[test]
    fn a_trial_is_found_by_its_whole_id() {
        let results = fixture::results(3);
        assert_eq!(results.trial("t02").unwrap().trial.id, "t02");
        for id in ["t2", "t0", "", "t021", "T02"] {
            let error = results.trial(id).unwrap_err();
            assert!(matches!(error, Error::NotFound(_)), "{id}");
            assert_eq!(error.to_string(), format!("there is no trial `{id}`; there are t01, t02, t03"));
        }
    }

    #[test]
    fn results_are_read_as_they_were_written_and_what_is_damaged_names_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = RunFileName::Results.within(folder.path());
        let missing = Results::read(folder.path()).unwrap_err();
        assert_eq!(missing.to_string(), format!("read {} failed", path.display()));
        let mut results = fixture::results(2);
        fixture::score(&mut results, "recall", &[vec![Some(1.0); 5], vec![None; 5]]);
        std::fs::write(&path, serde_json::to_vec(&results).unwrap()).unwrap();
        assert_eq!(Results::read(folder.path()).unwrap(), results);
        for text in ["", "{}", "[1]", "{\"version\": 1"] {
            std::fs::write(&path, text).unwrap();
            let error = Results::read(folder.path()).unwrap_err();
            assert!(matches!(error, Error::Table(_)), "{text}");
            let (text, path) = (error.to_string(), path.display().to_string());
            assert!(text.contains(&path) && text.ends_with("; run again to make it anew"), "{text}");
        }
    }

    #[test]
    fn results_of_earlier_versions_lack_what_was_added_since() {
        let mut written = serde_json::to_value(fixture::results(1)).unwrap();
        let later =
            ["unread", "dataset", "left_out", "verdict", "repeated", "function_errors", "search", "budget", "partial"];
        for field in later.into_iter().chain(["damaged_entries", "judges", "warnings"]) {
            assert!(written.as_object_mut().unwrap().remove(field).is_some(), "{field}");
        }
        assert_eq!(serde_json::from_value::<Results>(written.clone()).unwrap(), fixture::results(1));
        for field in ["version", "trials", "winner", "questions"] {
            let mut cut = written.clone();
            cut.as_object_mut().unwrap().remove(field);
            assert!(serde_json::from_value::<Results>(cut).is_err(), "{field}");
        }
    }

    #[test]
    fn contributions_are_given_for_each_trial_by_its_id() {
        let mut results = fixture::results(2);
        fixture::score(&mut results, "recall", &[vec![Some(1.0); 5], vec![Some(0.25), None, None, None, None]]);
        results.metrics[0].objective = true;
        let found = results.contributions(&BTreeMap::new());
        assert_eq!(found.keys().collect::<Vec<_>>(), ["t01", "t02"]);
        assert_eq!(
            (found["t01"].as_slice(), found["t02"].as_slice()),
            (&[Some(1.0); 5][..], &[Some(0.25), None, None, None, None][..])
        );
        results.trials.clear();
        assert!(results.contributions(&BTreeMap::new()).is_empty());
    }
}
