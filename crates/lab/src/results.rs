//! What a run found: scores with intervals, the winner, and everything a
//! person needs to check them.

mod answering;
mod baselines;
mod comparison;
mod difference;
mod enriched;
#[cfg(test)]
pub(crate) mod fixture;
mod front;
mod functions;
mod latency;
mod objective;
mod price;
mod verdict;
mod winner;

use crate::{
    Error, Prepared, Session,
    budget::BudgetResult,
    engine::Outcome,
    layout::RunFile,
    plan::{Plan, TaskId},
    qualification::{JudgeResult, judges},
    run::Part,
    search::{SearchResult, Stop},
    spec::Experiment,
    task::{answers_by_question, now_ms, passages_by_question, queries_by_question, scores_by_question},
    trial::Trial,
};
use eval::{MetricConfig, Missing, Question, Score, Scored, dataset::DatasetReport, statistics::Summary};
use models::Spending;
use rag::{
    Answer, Passage, Refined,
    load::{Rejected, Unread},
    query::SearchQuery,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};
use winner::choose;

pub use answering::Answering;
pub use comparison::MetricComparison;
pub(crate) use comparison::{Kept, RangedMetric, compare_metrics};
pub(crate) use comparison::{ScoreTable, ScoresByMetric};
pub use difference::Difference;
pub use enriched::NotEnriched;
pub(crate) use front::counts_money;
pub use functions::FunctionFailure;
pub(crate) use latency::measure;
pub(crate) use objective::contribution;
pub use price::TrialUsage;

/// Everything random in results is drawn from it, so that equal runs give equal results.
const SEED: u64 = 0x5EED;

/// A metric as the leaderboard shows it.
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
    /// Whether it holds answers against references.
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
    /// Why the question was searched as it was asked, or with less than its
    /// component was to write.
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
    /// Scores by metric.
    pub scores: BTreeMap<String, Scored>,
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
    /// Tokens read and written for that.
    #[serde(default)]
    pub index_tokens: u64,
    /// What the calls used, by model.
    #[serde(default)]
    pub usage: TrialUsage,
    /// The chunks for which its `enrich` component wrote nothing usable; none if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_enriched: Option<NotEnriched>,
    /// The probability that a trial as good as the best one falls behind as far
    /// as this one did; the test includes that the best was chosen by the same
    /// scores. For a tied trial: the probability of differences like those
    /// within the first group if all trials of the group were equal.
    pub p_value: Option<f64>,
    /// Whether it may be as good as the trial that leads: both are in group 1.
    pub tied: bool,
    /// Its group, from 1. Group 1 is the set that holds the best trial with 95 %
    /// ([`eval::statistics::confidence_sets`]), the next groups are made the
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
    /// Why it was not asked all questions, if a search stopped it.
    #[serde(default)]
    pub stopped: Option<Stop>,
    /// Per question, in the order of the dataset.
    pub questions: Vec<QuestionResult>,
    /// Tasks that failed, and why.
    pub failures: Vec<String>,
    /// Failures of user functions: whole stages, answers, scores.
    #[serde(default)]
    pub function_failures: Vec<FunctionFailure>,
}

impl TrialResult {
    /// A trial's questions, before anything is scored, and before it is
    /// compared with other trials.
    fn uncompared(trial: Trial, questions: Vec<QuestionResult>) -> Self {
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
            usage: TrialUsage::default(),
            not_enriched: None,
            p_value: None,
            tied: false,
            group: None,
            test: None,
            questions_needed: None,
            effect_size: None,
            front: false,
            stopped: None,
            questions,
            failures: Vec::new(),
            function_failures: Vec::new(),
        }
    }
}

/// Which trial is best, or why none is named. [`Results::verdict`] says the same
/// in words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Winner {
    /// The best trial: it was compared with others, and all of them are worse.
    Trial(String),
    /// The first by the objective. No winner is named, since others may be as
    /// good, or nothing else was asked everything.
    Leads(String),
    /// Why there is none, and why not even the first is to be trusted.
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
    /// The format of this structure.
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
    /// Questions that were left out because their evidence is in such a file.
    #[serde(default)]
    pub left_out: Vec<String>,
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
    /// Who may be the best, in sentences, for people.
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
    /// The questions that a search asked, and why it stopped trials; none for a grid.
    #[serde(default)]
    pub search: Option<SearchResult>,
    /// What became of the budget, if the run had one.
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
}

/// The error of a trial that is not there.
pub(crate) fn no_such_trial<'a>(id: &str, known: impl Iterator<Item = &'a str>) -> Error {
    let known: Vec<&str> = known.collect();
    Error::NotFound(format!("there is no trial `{id}`; there are {}", known.join(", ")))
}

impl Results {
    /// Reads a run's results.
    ///
    /// # Errors
    /// If they are not there or of another version.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let path = RunFile::Results.within(folder);
        let bytes = std::fs::read(&path).map_err(|source| Error::file("read", &path, source))?;
        serde_json::from_slice(&bytes)
            .map_err(|error| Error::table(format!("{}: {error}; run again to make it anew", path.display())))
    }

    /// Each trial's contributions to the objective, by its id: one for each
    /// question, in the order of the dataset, on a scale from 0 to 1. `weights`
    /// holds a weight for each question by the metric's name; a metric that is
    /// not in it has the weight 1. None where a metric with a weight has no
    /// score.
    pub fn contributions(&self, weights: &BTreeMap<String, Vec<f64>>) -> BTreeMap<String, Vec<Option<f64>>> {
        let scores = |trial: &TrialResult| objective::question_scores(trial, &self.metrics, weights);
        self.trials.iter().map(|trial| (trial.trial.id.clone(), scores(trial))).collect()
    }

    /// Ranks the trials again, with the trials that a search stopped at the end.
    pub(crate) fn searched(&mut self, search: SearchResult) {
        for trial in &mut self.trials {
            trial.stopped = search.stops.get(&trial.trial.id).cloned();
        }
        self.search = Some(search);
        self.winner = choose(&mut self.trials, &self.metrics, &self.objective, &self.questions);
        self.verdict = self.describe();
    }

    /// Marks results that lack trials: the best of all may be among these.
    pub(crate) fn unfinished(&mut self, reason: String) {
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

    /// Reads what became of a part of a run.
    pub(crate) async fn gather(
        session: &Session,
        prepared: &Prepared,
        part: Part<'_>,
        outcome: &Outcome,
    ) -> Result<Self, Error> {
        let experiment = &session.experiment;
        let metrics = metrics(experiment);
        let mut trials = Vec::new();
        let mut known = enriched::Known::new();
        price::load(prepared, part.plan, outcome).await?;
        for i in 0..part.trials.len() {
            trials.push(gather_trial(prepared, part, outcome, i, &metrics, &mut known).await?);
        }
        let client = prepared.execution.models().client();
        let budget = BudgetResult::of(client.budget());
        let winner = choose(&mut trials, &metrics, &experiment.evaluate.objective, &prepared.questions);
        let function_errors = trials.iter().map(|trial| trial.function_failures.len()).sum();
        let mut results = Self {
            version: 1,
            experiment: experiment.name.clone(),
            run: prepared.run.clone(),
            time_ms: now_ms(),
            documents: prepared.documents,
            text_bytes: prepared.text_bytes,
            rejected: prepared.rejected.clone(),
            unread: unread(prepared, outcome),
            dataset: prepared.dataset.clone(),
            left_out: prepared.left_out.clone(),
            metrics,
            objective: experiment.evaluate.objective.clone(),
            questions: prepared.questions.clone(),
            trials,
            winner,
            verdict: Vec::new(),
            executed: outcome.executed,
            reused: outcome.reused,
            repeated: outcome.repeated,
            provider_errors: outcome.provider_errors,
            function_errors,
            spending: client.meter().by_model(),
            search: None,
            partial: budget.as_ref().and_then(BudgetResult::partial),
            budget,
            damaged_entries: session.workspace().journal().n_damaged(),
            judges: judges(session).await?,
        };
        results.verdict = results.describe();
        Ok(results)
    }
}

/// The metrics of an experiment, in its order.
pub(crate) fn metrics(experiment: &Experiment) -> Vec<MetricResult> {
    let evaluate = &experiment.evaluate;
    evaluate.metrics.iter().map(|metric| describe(metric, &evaluate.objective)).collect()
}

fn describe(metric: &MetricConfig, objective: &[String]) -> MetricResult {
    MetricResult {
        name: metric.label(),
        judged: metric.judged(),
        objective: objective.contains(&metric.label()),
        range: metric.range(),
        higher_is_better: metric.higher_is_better(),
        correctness: metric.needs().answer && metric.needs().reference,
    }
}

async fn gather_trial(
    prepared: &Prepared,
    part: Part<'_>,
    outcome: &Outcome,
    index: usize,
    metrics: &[MetricResult],
    known: &mut enriched::Known,
) -> Result<TrialResult, Error> {
    let Part { trials, plan } = part;
    let (trial, tasks) = (&trials[index], &plan.trials[index]);
    let (execution, outputs) = (&prepared.execution, &outcome.outputs);
    let failure = |id: &usize| outcome.failed.get(id);
    let answered: Vec<usize> = tasks.answers.iter().copied().filter(|id| failure(id).is_none()).collect();
    let passages = match failure(&tasks.passages) {
        None => passages_by_question(execution, outputs, tasks.passages).await?,
        Some(_) => Default::default(),
    };
    let mut queries = match tasks.queries.filter(|id| failure(id).is_none()) {
        Some(id) => queries_by_question(execution, outputs, id).await?,
        None => Default::default(),
    };
    let mut answers = answers_by_question(execution, outputs, &answered).await?;
    let mut scores = Vec::new();
    for (metric, shards) in &tasks.scores {
        scores.push((metric.label(), read_scores(prepared, plan, outcome, shards).await?));
    }
    let mut summaries = BTreeMap::new();
    for (metric, (name, by_question)) in metrics.iter().zip(&scores) {
        let in_order: Vec<Score> = prepared
            .questions
            .iter()
            .filter_map(|question| by_question.get(&question.id))
            .map(|scored| scored.score.clone())
            .collect();
        summaries.insert(name.clone(), Summary::of(&in_order, metric.range, SEED));
    }
    let function_failures = functions::of_trial(plan, outcome, trial, &answers, &scores);
    let mut questions = Vec::new();
    for question in &prepared.questions {
        let (answer, error) = match answers.remove(&question.id) {
            Some(Ok(answer)) => (Some(answer), None),
            Some(Err(error)) => (None, Some(error.reason)),
            None => (None, None),
        };
        let scores = scores
            .iter_mut()
            .map(|(name, by_question)| {
                let not_asked = || {
                    Scored::missing(Missing::NotAsked("limited by `answered` or `judged` under [evaluate]".to_owned()))
                };
                (name.clone(), by_question.remove(&question.id).unwrap_or_else(not_asked))
            })
            .collect();
        let Refined { passages, remarks, .. } = passages.get(&question.id).cloned().unwrap_or_default();
        let rows = queries.remove(&question.id).unwrap_or_default();
        let query_fallback = rows.first().and_then(|row| row.fallback.clone());
        let queries = rows.into_iter().map(|row| row.query).collect();
        let id = question.id.clone();
        let found = QuestionResult { question: id, queries, query_fallback, remarks, passages, answer, error, scores };
        questions.push(found);
    }
    let failed = std::iter::once(tasks.passages).chain(tasks.answers.iter().copied()).chain(tasks.scoring());
    let mut failures: Vec<String> =
        failed.filter_map(|id| Some(format!("{}: {}", plan.tasks[id].label, failure(&id)?))).collect();
    failures.dedup();
    let usage = price::of_trial(prepared, plan, outcome, trial, index).await?;
    let seconds = latency::of_trial(prepared, tasks, outcome, &questions, &usage).await?;
    Ok(TrialResult {
        metrics: summaries,
        latency_p50: quantile(&seconds, 0.5),
        latency_p95: quantile(&seconds, 0.95),
        tokens: usage.tokens_per_question,
        cost_usd: usage.cost_usd,
        index_cost_usd: usage.index_cost_usd,
        index_tokens: usage.of.index.tokens(),
        usage: usage.of,
        not_enriched: enriched::of_trial(execution, plan, outputs, &tasks.enriched, known).await?,
        failures,
        function_failures,
        ..TrialResult::uncompared(trial.clone(), questions)
    })
}

/// The scores that these tasks made, by question. Where a task failed, the
/// reason stands in place of its scores.
pub(crate) async fn read_scores(
    prepared: &Prepared,
    plan: &Plan,
    outcome: &Outcome,
    shards: &[TaskId],
) -> Result<HashMap<String, Scored>, Error> {
    let mut by_question = HashMap::new();
    for id in shards {
        let Some(reason) = outcome.failed.get(id) else {
            by_question.extend(scores_by_question(&prepared.execution, &outcome.outputs, *id).await?);
            continue;
        };
        let missing = Scored::missing(match outcome.failed_functions.get(id) {
            Some((_, failure)) => Missing::FunctionError(Box::new(failure.clone())),
            None if outcome.over_budget.contains(id) => Missing::Budget(reason.clone()),
            None => Missing::ProviderError(reason.clone()),
        });
        by_question.extend(asked(plan, *id).iter().map(|&i| (prepared.questions[i].id.clone(), missing.clone())));
    }
    Ok(by_question)
}

fn asked(plan: &Plan, id: usize) -> &[usize] {
    match &plan.tasks[id].work {
        crate::work::Work::Score(score) => &score.questions,
        _ => &[],
    }
}

/// The value below which a share of the sorted values lies (nearest rank).
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

/// Files that could not be read, while the run was prepared or while it ran.
fn unread(prepared: &Prepared, outcome: &Outcome) -> Vec<Unread> {
    let mut unread = prepared.unread.clone();
    for more in &outcome.unread {
        if unread.iter().all(|known| known.path != more.path) {
            unread.push(more.clone());
        }
    }
    unread
}
