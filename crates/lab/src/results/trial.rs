//! What was measured of one trial.

use super::QuestionLoss;
use crate::{
    plan::Trial,
    search::{Stop, StopKind},
};
use eval::{Scored, statistics::Summary};
use models::Ledger;
use rag::{Answer, Passage, python::Failure, query::SearchQuery};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use store::Key;

/// The description of a metric for the leaderboard: its name, range and direction, without scores.
/// It is made before anything runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricResult {
    /// Its name.
    pub name: String,
    /// Whether a judge gave its scores.
    pub judged: bool,
    /// Whether it takes part in choosing the winner.
    pub objective: bool,
    /// Its least and greatest value.
    pub range: (f64, f64),
    /// Whether more is better.
    pub higher_is_better: bool,
    /// Whether it compares answers with references.
    #[serde(default)]
    pub correctness: bool,
}

/// A trial's results for one question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QuestionResult {
    /// The question's id.
    pub question: String,
    /// What was searched, if a component wrote it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queries: Vec<SearchQuery>,
    /// Why the query component failed or wrote less than it should: the question was searched as it
    /// was asked, or with fewer queries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query_fallback: Option<String>,
    /// What steps between retrieval and answer did that the passages do not
    /// show: what they searched for again, or why they could not do their work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// The retrieved passages, best first.
    pub passages: Vec<Passage>,
    /// The answer.
    pub answer: Option<Answer>,
    /// Why there is no answer.
    pub error: Option<String>,
    /// The id under which a system's own tracing knows its reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Scores by metric.
    pub scores: BTreeMap<String, Scored>,
    /// The step at which its evidence was lost. None if the files that show it are no longer in the
    /// store, and in results of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<QuestionLoss>,
}

/// One trial's numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialResult {
    /// The trial.
    pub trial: Trial,
    /// The mean of the objective's metrics.
    pub objective: Option<Summary>,
    /// Mean, interval and counts by metric.
    pub metrics: BTreeMap<String, Summary>,
    /// Median seconds that a user waits: for the whole answer, or for the
    /// passages if the trial has no generator. Retrievals are measured one at a
    /// time, apart from the run; model calls count with the seconds that they
    /// took when they were made.
    pub latency_p50: Option<f64>,
    /// 95th percentile of the same.
    pub latency_p95: Option<f64>,
    /// Tokens read and written per question by all stages, on average.
    pub tokens: Option<f64>,
    /// Dollars for all questions: what the calls of all stages cost, whether
    /// this run made them or found their answers. None if that is not known: a
    /// model has no price, or an earlier version did not count the calls.
    #[serde(default)]
    pub cost_usd: Option<f64>,
    /// Dollars for making the chunks and indexes that are searched. None if the cost
    /// is not known.
    #[serde(default)]
    pub index_cost_usd: Option<f64>,
    /// The tokens of the index calls.
    #[serde(default)]
    pub index_tokens: u64,
    /// The share of the nearest chunks that its approximate index finds, over the questions; none if its index is exact,
    /// or if written queries were searched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index_recall: Option<Summary>,
    /// The bytes of the index over its vectors, with the vectors; none if it compares none, or if the database that holds
    /// them does not report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index_bytes: Option<u64>,
    /// What the calls used, by model.
    #[serde(default)]
    pub usage: TrialUsage,
    /// The chunks for which its `enrich` component wrote nothing usable; none if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_enriched: Option<NotEnriched>,
    /// The probability that a trial as good as the best one falls behind as far
    /// as this one did, corrected for having chosen the best by the same
    /// scores. For a tied trial: the probability of differences like those
    /// within the first group if all trials of the group were equal.
    pub p_value: Option<f64>,
    /// Whether it may be as good as the trial that leads: both are in group 1.
    pub tied: bool,
    /// Its group, from 1. Group 1 is the set that holds the best trial with 95 % confidence
    /// ([`eval::statistics::confidence_sets`]); the next groups are made the
    /// same way from the rest. None without scores.
    #[serde(default)]
    pub group: Option<usize>,
    /// The objective over the questions of the split `test`, on which nothing
    /// was chosen; none if the dataset is not split.
    #[serde(default)]
    pub test: Option<Summary>,
    /// About how many questions in all would exclude it from group 1, if the
    /// differences and their spread stay as they are. None for trials that are
    /// not tied, and if that takes more than 10,000 questions.
    #[serde(default)]
    pub questions_needed: Option<usize>,
    /// The mean difference from the trial that leads, in standard deviations of
    /// the differences (Cohen's d); negative if this trial is behind.
    #[serde(default)]
    pub effect_size: Option<f64>,
    /// Whether no other trial is at least as good in quality, cost and
    /// latency and better in one of them.
    #[serde(default)]
    pub front: bool,
    /// The share of resamples of the questions in which it is on this front, in [0, 1]: from 0.95 on it is on it with 95 %
    /// confidence. None for a trial without scores or that was stopped, and in results of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub front_share: Option<f64>,
    /// The trial before it on the leaderboard that it equals on every question; none if there is
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equal_to: Option<EqualTrial>,
    /// The number of questions, and of those for which it retrieved nothing. None if it retrieves
    /// nothing by design, if its retrieval failed, or if an earlier version made these results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retrieval: Option<RetrievalCount>,
    /// What is known of the replies of a system that is not ours; none for a pipeline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replies: Option<ReplyFindings>,
    /// Why it was not asked all questions, if a search stopped it.
    #[serde(default)]
    pub stopped: Option<Stop>,
    /// The file of its rows, as long as `questions` lacks something of them; none if `questions` has them whole. They
    /// are missing in what [`Results::read_head`](super::Results::read_head) reads. Otherwise they lack passages, and
    /// the texts of answers, of hypothetical passages and of explanations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<StoredRows>,
    /// Per question, in the order of the dataset.
    #[serde(default)]
    pub questions: Vec<QuestionResult>,
    /// Tasks that failed, and why.
    pub failures: Vec<String>,
    /// Failures of user functions: whole stages, answers, scores.
    #[serde(default)]
    pub function_failures: Vec<FunctionFailure>,
}

impl TrialResult {
    /// Whether a person stopped it, so that it is compared with no other trial.
    pub(crate) fn is_stopped_by_person(&self) -> bool {
        self.stopped.as_ref().is_some_and(|stop| stop.kind == StopKind::ByPerson)
    }

    /// A trial's questions, before anything is scored, and before it is
    /// compared with other trials.
    pub(crate) fn uncompared(trial: Trial, questions: Vec<QuestionResult>) -> Self {
        Self {
            trial,
            objective: None,
            metrics: BTreeMap::new(),
            latency_p50: None,
            latency_p95: None,
            tokens: None,
            cost_usd: Some(0.0),
            index_cost_usd: Some(0.0),
            index_tokens: 0,
            index_recall: None,
            index_bytes: None,
            usage: TrialUsage::default(),
            not_enriched: None,
            p_value: None,
            tied: false,
            group: None,
            test: None,
            questions_needed: None,
            effect_size: None,
            front: false,
            front_share: None,
            equal_to: None,
            retrieval: None,
            replies: None,
            stopped: None,
            rows: None,
            questions,
            failures: Vec::new(),
            function_failures: Vec::new(),
        }
    }

    /// How many passages the question at this place has.
    pub(crate) fn passages_at(&self, place: usize) -> usize {
        match &self.rows {
            Some(rows) => rows.passages.get(place).copied().unwrap_or_default(),
            None => self.questions.get(place).map_or(0, |question| question.passages.len()),
        }
    }
}

/// The file that has a trial's rows, and what is known of them without it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredRows {
    /// The file's name, in the folder `trials` of the run.
    pub file: String,
    /// The hash of passages and answers; none if there are none, or if the rows were not read.
    #[serde(skip)]
    pub(super) output: Option<Key>,
    /// How many passages each question has; empty if the rows were not read.
    #[serde(skip)]
    pub(super) passages: Vec<usize>,
}

/// What is known of the replies of a system.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplyFindings {
    /// Questions that it was asked, or that were looked for in answers that exist already.
    pub questions: usize,
    /// Questions without a reply, because the call failed or the answers have none.
    pub without_reply: usize,
    /// Passages of all replies.
    pub passages: usize,
    /// Passages that are in no document of the corpus.
    pub unanchored: usize,
    /// The versions that replies name, with the number of replies of each. Replies without a version are not counted.
    pub versions: BTreeMap<String, usize>,
    /// The version that it was asked in, as the run knows it; empty if no version is stated.
    pub version: String,
}

/// The number of questions that were searched, and of those for which no passage is left after the
/// last stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetrievalCount {
    /// Questions that were searched.
    pub questions: usize,
    /// Questions without any passage.
    pub empty: usize,
}

/// What a trial's calls used, by model, with the cost at the present prices. The
/// cost of a model without a price is what its calls cost when they were made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialUsage {
    /// The calls for all questions.
    pub questions: Ledger,
    /// The calls that made what is searched.
    pub index: Ledger,
    /// The operators whose calls are not known, because an earlier version made
    /// their outputs: tokens lack these, and the cost is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// The models that were called and have no price, by their names in the
    /// experiment: what their calls cost is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unpriced: Vec<String>,
}

/// Chunks that are searched by their own text only, although the enricher should have written more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotEnriched {
    /// How many.
    pub chunks: usize,
    /// Of how many.
    pub total: usize,
    /// The most frequent reason.
    pub reason: String,
}

/// One failure of a user's function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionFailure {
    /// The trial that lacks something because of it.
    pub trial: String,
    /// The metric, the generator or the task, as people read it.
    pub label: String,
    /// The question's id; none where a whole stage failed.
    pub question: Option<String>,
    /// The function and what it did.
    #[serde(flatten)]
    pub failure: Failure,
}

/// The trial that a later trial of the leaderboard equals on every question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EqualTrial {
    /// Its id.
    pub trial: String,
    /// Whether passages and answers are equal, and not only the scores of the objective.
    pub same_output: bool,
}
