//! Scores the answers of any other system: a file, or rows of a program, with
//! questions, answers, passages and references, by the metrics of Reverie.
//!
//! When to use it: to measure a system that was not built here, or answers that are there already.
//! Nothing is retrieved or generated. Calls of judges go through the same journal, limits and
//! budget as those of a run, so scoring a file again costs nothing.
//!
//! A missing column is not the same as an empty value: without a column of
//! passages, metrics that look at passages do not apply; an empty list of
//! passages means that retrieval found nothing. A metric is refused before any
//! call if no row has what it needs.

mod results;
mod scorer;
mod systems;

pub use results::{MetricScores, RowScores, ScoreResults};
pub use scorer::{Scorer, ScoringMetric};
pub use systems::{CompareError, ScoredAnswers};

use results::{SEED, count_missing};

use crate::{
    Control, Error, Operator, Setup, answers_file,
    budget::BudgetResult,
    plan::{CostEstimate, model_load::score_of},
    qualification,
    results::JudgeResult,
    settlement::settle,
    spec::ScoringSpec,
};
use eval::{
    MetricConfig, Missing, Sample, Score, Scored,
    dataset::{AnsweredRow, RowError, read_answers},
    statistics::Summary,
};
use futures::{StreamExt, stream};
use rayon::prelude::*;
use serde_json::{Map, Value};
use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use store::Journal;

/// The number of rows that are scored at once, between two looks at the deadline
/// and two reports of progress.
const ROWS_AT_ONCE: usize = 256;

/// Answers that can be scored: read, checked, and not scored yet.
pub struct Scoring {
    scorer: Scorer,
    /// The file's name.
    file: String,
    rows: Vec<AnsweredRow>,
    /// Whether the places of passages and evidence were checked against documents.
    places_are_checked: bool,
    control: Control,
    deadline: Option<Duration>,
    /// What was scored before the interruption, if there was one.
    so_far: Mutex<Option<ScoreResults>>,
}

impl Scoring {
    /// Reads a file of answers (CSV, TSV, JSONL or Parquet) and checks
    /// everything that can be checked before money is spent. `documents` are
    /// those that passages and evidence of the file come from, none where they
    /// are not known.
    ///
    /// # Errors
    /// [`Error::Refused`] with all mistakes, those of the file with their lines.
    pub async fn open(
        spec: ScoringSpec,
        file: &Path,
        documents: &[rag::Document],
        setup: Setup,
    ) -> Result<Self, Error> {
        let bytes = std::fs::read(file)
            .map_err(|error| Error::Refused(vec![format!("{} cannot be read: {error}", file.display())]))?;
        let name = file.display().to_string();
        let rows = answers_file::read(&name, bytes, documents).map_err(Error::Refused)?;
        Self::of(spec, name, rows, !documents.is_empty(), setup).await
    }

    /// The same for answers that a program holds, with the columns of a file.
    /// `name` is what its rows are called in messages; `documents` are those
    /// that passages and evidence come from, none where they are not known.
    ///
    /// # Errors
    /// [`Error::Refused`] with all mistakes, those of rows with their numbers.
    pub async fn of_rows(
        spec: ScoringSpec,
        name: &str,
        rows: &[Map<String, Value>],
        documents: &[rag::Document],
        setup: Setup,
    ) -> Result<Self, Error> {
        let message = |error: RowError| format!("{name}, row {} (from 0): {error}", error.number);
        let rows = read_answers(rows, documents)
            .map_err(|faults| Error::Refused(faults.into_iter().map(message).collect()))?;
        Self::of(spec, name.to_owned(), rows, !documents.is_empty(), setup).await
    }

    async fn of(
        spec: ScoringSpec,
        name: String,
        rows: Vec<AnsweredRow>,
        places_are_checked: bool,
        mut setup: Setup,
    ) -> Result<Self, Error> {
        let mistakes = metrics_without_rows(&spec.evaluate.metrics, &rows);
        // A deadline ends the scoring alone, and not its caller.
        setup.control.cancel = setup.control.cancel.child_token();
        let control = setup.control.clone();
        let journal = |spec: &ScoringSpec| {
            let store = spec.base.join(&spec.store);
            std::fs::create_dir_all(&store).map_err(|source| Error::file("create", &store, source))?;
            Ok(Some(Arc::new(Journal::open(store.join(Journal::FILE))?)))
        };
        let scorer = Scorer::new(spec, setup, mistakes, journal).await?;
        Ok(Self { scorer, file: name, rows, places_are_checked, control, deadline: None, so_far: Mutex::default() })
    }

    /// The same with a deadline: once it has passed, nothing is begun or
    /// repeated any more, and the results are partial. Calls of models that
    /// are under way then are kept for the next time.
    pub fn with_deadline(mut self, deadline: Option<Duration>) -> Self {
        self.deadline = deadline;
        self
    }

    /// What was scored before [`Scoring::run`] was interrupted; none if it was
    /// not.
    pub fn so_far(&self) -> Option<ScoreResults> {
        self.so_far.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many rows there are.
    pub fn n_rows(&self) -> usize {
        self.rows.len()
    }

    /// The metrics, and to how many rows each applies.
    pub fn applicable(&self) -> Vec<(String, usize)> {
        let count =
            |config: &MetricConfig| self.rows.iter().filter(|row| why_not_applicable(config, row).is_none()).count();
        self.scorer.spec.evaluate.metrics.iter().map(|config| (config.label(), count(config))).collect()
    }

    /// The estimated cost. Answers that are in the journal already are not
    /// subtracted, so scoring a file again costs less.
    pub fn estimate(&self) -> CostEstimate {
        let (spec, caps) = (&self.scorer.spec, self.scorer.budget.caps());
        let pairs = spec.evaluate.metrics.iter().flat_map(|config| self.rows.iter().map(move |row| (config, row)));
        let asked = pairs.filter(|(config, row)| why_not_applicable(config, row).is_none());
        let count = |model: &str, text: &str| self.scorer.models.count_tokens(model, text);
        let loads = asked.flat_map(|(config, row)| score_of(&spec.evaluate, config, &sample(row), &count));
        CostEstimate::sum(&spec.models, caps, loads)
    }

    /// Scores every row by every metric.
    ///
    /// # Errors
    /// [`Error::Interrupted`] after a cancellation: what was paid is kept, and [`Scoring::so_far`] has what is scored.
    /// [`models::Error::Journal`] if replies of judges cannot be kept.
    pub async fn run(&self) -> Result<ScoreResults, Error> {
        let (scored, is_late) = self.score_until_deadline().await;
        let results = scored.and_then(|scored| self.finish(scored, is_late));
        settle(self.scorer.models.client(), &self.control.progress, results).await
    }

    /// What was scored, and whether the deadline ended it.
    async fn score_until_deadline(&self) -> (Result<Vec<Scored>, Error>, bool) {
        let mut scoring = std::pin::pin!(self.score_all());
        let Some(deadline) = self.deadline else { return (scoring.await, false) };
        match tokio::time::timeout(deadline, &mut scoring).await {
            Ok(scored) => (scored, false),
            Err(_) => {
                self.control.cancel.cancel();
                (scoring.await, true)
            }
        }
    }

    /// The results of scoring that has ended: all of them, or what there is.
    fn finish(&self, scored: Vec<Scored>, is_late: bool) -> Result<ScoreResults, Error> {
        let is_cancelled = |scored: &&Scored| matches!(scored.score, Score::Missing(Missing::Cancelled));
        let (all, cancelled) = (scored.len(), scored.iter().filter(is_cancelled).count());
        let mut results = self.results(scored);
        if cancelled == 0 {
            return Ok(results);
        }
        let made = format!("{} of {all} scores are there; score again to go on", all - cancelled);
        let deadline = self.deadline.filter(|_| is_late && self.scorer.models.client().failure().is_none());
        if let Some(deadline) = deadline {
            results.partial = Some(format!("the deadline of {} s was reached: {made}", deadline.as_secs_f64()));
            return Ok(results);
        }
        results.partial = Some(format!("it was interrupted: {made}"));
        *self.so_far.lock().unwrap_or_else(PoisonError::into_inner) = Some(results);
        Err(Error::Interrupted)
    }

    async fn score_all(&self) -> Result<Vec<Scored>, Error> {
        let configs = &self.scorer.spec.evaluate.metrics;
        let progress = &self.control.progress;
        progress.watch(self.scorer.models.client());
        progress.begin_tasks(configs.iter().map(|config| (operator(config), self.rows.len())));
        configs.iter().for_each(|config| progress.start(operator(config)));
        let mut scored = self.compute_all().await;
        let open: Vec<usize> = (0..scored.len()).filter(|at| scored[*at].is_none()).collect();
        // A row's metrics run side by side: a judge with a prompt cache reads their common texts once.
        let calls = open.iter().map(|at| self.ask(*at));
        let asked: Vec<Scored> = stream::iter(calls).buffered(self.width()?).collect().await;
        for (at, asked) in open.iter().zip(asked) {
            scored[*at] = Some(asked);
        }
        let scored: Vec<Scored> = scored.into_iter().flatten().collect();
        for (i, config) in configs.iter().enumerate() {
            let of_config = scored.iter().skip(i).step_by(configs.len());
            let failed = of_config.filter(|scored| {
                matches!(scored.score, Score::Missing(Missing::ProviderError(_) | Missing::FunctionError(_)))
            });
            progress.finish(operator(config), self.rows.len(), failed.count());
        }
        Ok(scored)
    }

    /// The score of a row by a metric that asks a model or a function. Scores are
    /// numbered row by row.
    async fn ask(&self, at: usize) -> Scored {
        let configs = &self.scorer.spec.evaluate.metrics;
        let (row, of_row) = (&self.rows[at / configs.len()], at % configs.len());
        let (config, metric) = (&configs[of_row], &self.scorer.metrics[of_row]);
        let is_cancelled = || self.control.cancel.is_cancelled();
        let mut scored = Scored::missing(Missing::Cancelled);
        if !is_cancelled() {
            scored = config.score(&**metric, &sample(row)).await;
        }
        // After a cancellation a function's process is killed, which is no failure of the function.
        if matches!(scored.score, Score::Missing(Missing::FunctionError(_))) && is_cancelled() {
            scored = Scored::missing(Missing::Cancelled);
        }
        self.control.progress.rows(operator(config), 1);
        scored
    }

    /// The scores of metrics that call no model and no function, row by row, on
    /// all cores; none for the others.
    async fn compute_all(&self) -> Vec<Option<Scored>> {
        let configs = &self.scorer.spec.evaluate.metrics;
        let of_row = |row| {
            configs.iter().zip(&self.scorer.metrics).map(move |(config, metric)| {
                match why_not_applicable(config, row) {
                    Some(missing) => Some(Scored::missing(missing)),
                    None if self.control.cancel.is_cancelled() => None,
                    None => config.compute(&**metric, &sample(row)),
                }
            })
        };
        let mut computed = Vec::with_capacity(self.rows.len() * configs.len());
        for rows in self.rows.chunks(ROWS_AT_ONCE) {
            computed.par_extend(rows.par_iter().flat_map_iter(of_row));
            let new = &computed[computed.len() - rows.len() * configs.len()..];
            for (i, config) in configs.iter().enumerate() {
                let made = new.iter().skip(i).step_by(configs.len()).flatten().count();
                // An operator that asks a model has not begun yet.
                if made > 0 {
                    self.control.progress.rows(operator(config), made);
                }
            }
            // A deadline may have passed.
            tokio::task::yield_now().await;
        }
        computed
    }

    /// How many scores are made at once: enough to keep the judges busy.
    fn width(&self) -> Result<usize, Error> {
        let functions = self.scorer.spec.evaluate.metrics.iter().map(MetricConfig::functions_at_once).sum();
        let mut width = self.scorer.spec.engine.tasks.max(functions);
        for judge in &self.scorer.spec.evaluate.judges {
            width = width.max(self.scorer.models.chat(judge)?.concurrency());
        }
        Ok(width)
    }

    /// The judges with their records, which are beside the journal.
    fn judges(&self) -> Vec<JudgeResult> {
        let spec = &self.scorer.spec;
        let root = spec.base.join(&spec.store);
        let record = |judge: &String| {
            let chat = self.scorer.models.chat(judge).ok()?;
            qualification::record(&root, chat.identity())
        };
        let judges = spec.evaluate.judges.iter();
        judges.map(|judge| JudgeResult { judge: judge.clone(), record: record(judge) }).collect()
    }

    /// The metrics whose scores depend on places of passages and evidence that were not checked against documents.
    fn unchecked_places(&self, metrics: &[MetricScores]) -> Vec<String> {
        let mut passages = self.rows.iter().flat_map(|row| row.passages.iter().flatten());
        if self.places_are_checked || passages.all(|passage| passage.span.is_empty()) {
            return Vec::new();
        }
        let scored = self.scorer.spec.evaluate.metrics.iter().zip(metrics);
        let scored = scored.filter(|(config, metric)| config.needs().evidence && metric.summary.n_scored > 0);
        scored.map(|(_, metric)| metric.name.clone()).collect()
    }

    fn results(&self, scored: Vec<Scored>) -> ScoreResults {
        let configs = &self.scorer.spec.evaluate.metrics;
        let mut scored = scored.into_iter();
        let rows: Vec<RowScores> = self
            .rows
            .iter()
            .map(|row| RowScores {
                line: row.line,
                id: row.question.id.clone(),
                question: row.question.question.clone(),
                scores: configs.iter().map(MetricConfig::label).zip(scored.by_ref()).collect(),
            })
            .collect();
        let judges = self.judges();
        let metrics: Vec<MetricScores> = configs.iter().map(|config| summary(config, &rows, &judges)).collect();
        let unchecked_places = self.unchecked_places(&metrics);
        let budget = BudgetResult::of(&self.scorer.budget);
        let mut results = ScoreResults {
            file: self.file.clone(),
            judges: self.scorer.spec.evaluate.judges.clone(),
            metrics,
            rows,
            spending: self.scorer.models.client().meter().by_model(),
            partial: budget.as_ref().and_then(BudgetResult::partial),
            budget,
            provider_errors: 0,
            function_errors: 0,
            unchecked_places,
            damaged_entries: self.scorer.journal.as_ref().map_or(0, |journal| journal.n_damaged()),
        };
        results.count_errors();
        results
    }
}

fn summary(config: &MetricConfig, rows: &[RowScores], judges: &[JudgeResult]) -> MetricScores {
    let name = config.label();
    let scores: Vec<Score> = rows.iter().filter_map(|row| Some(row.scores.get(&name)?.score.clone())).collect();
    MetricScores {
        judged: config.needs_judge(),
        qualified: config.needs_judge()
            && !judges.is_empty()
            && judges.iter().all(|judge| judge.objection(config).is_none()),
        range: config.range(),
        higher_is_better: config.higher_is_better(),
        missing: count_missing(&scores),
        summary: Summary::of(&scores, config.range(), SEED),
        name,
    }
}

fn operator(config: &MetricConfig) -> Operator {
    if config.needs_judge() { Operator::Judge } else { Operator::Score }
}

fn sample(row: &AnsweredRow) -> Sample<'_> {
    Sample {
        question: &row.question,
        passages: row.passages.as_deref().unwrap_or_default(),
        answer: row.answer.as_ref(),
        columns: Some(&row.columns),
    }
}

/// Why a metric cannot apply to a row, whatever the answer is.
fn why_not_applicable(config: &MetricConfig, row: &AnsweredRow) -> Option<Missing> {
    let needs = config.needs();
    if let Err(missing) = config.applies(&row.question) {
        return Some(missing);
    }
    let reason = if needs.answer && row.answer.is_none() {
        "the row has no answer"
    } else if needs.passages && row.passages.is_none() {
        "the row does not tell what was retrieved"
    } else if needs.evidence && row.question.evidence.is_empty() {
        "the row has no golden evidence"
    } else {
        return None;
    };
    Some(Missing::NotApplicable(reason.to_owned()))
}

/// Metrics that apply to no row at all.
fn metrics_without_rows(configs: &[MetricConfig], rows: &[AnsweredRow]) -> Vec<String> {
    let mut mistakes = Vec::new();
    for config in configs {
        let reasons: Vec<Option<Missing>> = rows.iter().map(|row| why_not_applicable(config, row)).collect();
        if let Some(Some(reason)) = reasons.first()
            && reasons.iter().all(Option::is_some)
        {
            let needs = config.needs();
            let columns: Vec<&str> = [
                (needs.answer, "`answer` or `response`"),
                (needs.passages, "`contexts` or `retrieved_contexts`"),
                (needs.reference, "`reference` or `ground_truth`"),
                (needs.evidence, "`evidence`, with `document` and `span` in `contexts`"),
            ]
            .into_iter()
            .filter_map(|(is_needed, column)| is_needed.then_some(column))
            .collect();
            let label = config.label();
            mistakes.push(format!(
                "`{label}` applies to no row ({reason}): it needs the columns {}; leave it out, or add them",
                columns.join(", ")
            ));
        }
    }
    mistakes
}

#[cfg(test)]
mod tests;
