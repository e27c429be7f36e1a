//! Collects a run's [`Results`] from the artifacts of its tasks.

mod enriched;
mod facts;
mod functions;
mod index_size;
mod latency;
mod losses;
mod price;
mod replies;

pub(crate) use facts::{warnings, warnings_of_results};
pub(crate) use latency::measure;

use crate::{
    Error,
    budget::BudgetResult,
    clock::now_ms,
    engine::PlanOutcome,
    plan::{Plan, TaskId, Trial, TrialKind, work::Work},
    prepare::PreparedRun,
    qualification::judges,
    results::{
        MetricResult, ParserPlaces, QuestionResult, Results, RetrievalCount, SEED, TrialResult, WITH_ROWS, choose,
    },
    session::Session,
    spec::Experiment,
    task::{answers_by_question, passages_by_question, queries_by_question, scores_by_question},
    warning::looked_for,
};
use eval::{MetricConfig, Missing, Question, Score, Scored, statistics::Summary};
use rag::{Component, PassagesWithRemarks, load::Unread};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// What is executed and gathered at once: all of a run, or a step of a search.
#[derive(Clone, Copy)]
pub(crate) struct RunPart<'a> {
    pub(crate) trials: &'a [Trial],
    /// Their tasks.
    pub(crate) plan: &'a Arc<Plan>,
    /// Whether lost evidence is traced only with what earlier runs stored, without reading chunks or searching.
    pub(crate) only_stored: bool,
    /// Whether the rows of each trial go into a file of the run's folder, and only what statistics need of them stays
    /// here.
    pub(crate) keeps_rows: bool,
}

/// Collects the results of a part of a run.
pub(crate) async fn gather(
    session: &Session,
    prepared: &PreparedRun,
    part: RunPart<'_>,
    outcome: &PlanOutcome,
) -> Result<Results, Error> {
    let experiment = &session.experiment;
    let metrics = metrics(experiment);
    let mut trials = Vec::new();
    let mut known = enriched::EnrichedCache::new();
    price::load(prepared, part.plan, outcome).await?;
    for i in 0..part.trials.len() {
        let trial = gather_trial(prepared, part, outcome, i, &metrics, &mut known).await?;
        trials.push(match part.keeps_rows {
            true => session.workspace().keep_rows(&prepared.run, trial).await?,
            false => trial,
        });
    }
    let client = prepared.run_context.models().client();
    client.budget().look_at_total().await?;
    let budget = BudgetResult::of(client.budget());
    let winner = choose(&mut trials, &metrics, &experiment.evaluate.objective, &prepared.questions);
    let function_errors = trials.iter().map(|trial| trial.function_failures.len()).sum();
    let mut results = Results {
        version: WITH_ROWS,
        experiment: experiment.name.clone(),
        run: prepared.run.clone(),
        time_ms: now_ms(),
        documents: prepared.documents,
        text_bytes: prepared.text_bytes,
        rejected: prepared.rejected.clone(),
        unread: unread(prepared, outcome),
        dataset: prepared.dataset.clone(),
        left_out: prepared.left_out.clone(),
        lost_questions: prepared.lost_questions.clone(),
        parser_places: parser_places(prepared, part.trials),
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
        acts: Vec::new(),
        warnings: Vec::new(),
        // On a cluster, chunks and indexes are on other machines, so the warnings that need them are not looked for.
        looked_for: Some(looked_for(&experiment.warnings.ignore, experiment.engine.ray.is_none())),
    };
    results.verdict = results.describe();
    Ok(results)
}

/// Where the evidence is in the documents of each parser after the first, with the trials that read these.
fn parser_places(prepared: &PreparedRun, trials: &[Trial]) -> Vec<ParserPlaces> {
    let space = &prepared.run_context.experiment.space;
    let places = |(number, questions): (usize, &[Question])| {
        let reading = trials.iter().filter(|trial| trial.reads_by(space, number));
        ParserPlaces::new(reading.map(|trial| trial.id.clone()).collect(), questions)
    };
    (1..).zip(prepared.sources.views.others()).map(places).collect()
}

/// The metrics of an experiment, in its order.
pub(crate) fn metrics(experiment: &Experiment) -> Vec<MetricResult> {
    let describe = |metric: &MetricConfig| MetricResult {
        name: metric.label(),
        judged: metric.needs_judge(),
        objective: experiment.evaluate.objective.contains(&metric.label()),
        range: metric.range(),
        higher_is_better: metric.higher_is_better(),
        correctness: metric.needs().answer && metric.needs().reference,
    };
    experiment.evaluate.metrics.iter().map(describe).collect()
}

async fn gather_trial(
    prepared: &PreparedRun,
    part: RunPart<'_>,
    outcome: &PlanOutcome,
    index: usize,
    metrics: &[MetricResult],
    known: &mut enriched::EnrichedCache,
) -> Result<TrialResult, Error> {
    let RunPart { trials, plan, only_stored, .. } = part;
    let (trial, tasks) = (&trials[index], &plan.trials[index]);
    let (run_context, outputs) = (&prepared.run_context, &outcome.outputs);
    let failure = |id: &usize| outcome.failed.get(id);
    let answered: Vec<usize> = tasks.answers.iter().copied().filter(|id| failure(id).is_none()).collect();
    let replies = match &trial.kind {
        TrialKind::System(system) => Some(replies::read(prepared, outcome, tasks, system).await?),
        TrialKind::Pipeline(_) => None,
    };
    let retrieves = trial.pipeline().is_some_and(|pipeline| !pipeline.retriever.is_nothing());
    let searched = failure(&tasks.passages).is_none() && retrieves;
    let passages = match failure(&tasks.passages) {
        None => passages_by_question(run_context, outputs, tasks.passages).await?,
        Some(_) => Default::default(),
    };
    let mut queries = match tasks.queries.filter(|id| failure(id).is_none()) {
        Some(id) => queries_by_question(run_context, outputs, id).await?,
        None => Default::default(),
    };
    let mut answers = answers_by_question(run_context, outputs, &answered).await?;
    let writes_answers = tasks.replies.is_none_or(|replies| replies.answers);
    let mut scores = Vec::new();
    for (metric, shards) in &tasks.scores {
        scores.push((metric.label(), read_scores(prepared, plan, outcome, shards).await?));
    }
    let mut summaries = BTreeMap::new();
    for (metric, (name, by_question)) in metrics.iter().zip(&scores) {
        let in_order = prepared.questions.iter().filter_map(|question| by_question.get(&question.id));
        let in_order: Vec<Score> = in_order.map(|scored| scored.score.clone()).collect();
        summaries.insert(name.clone(), Summary::of(&in_order, metric.range, SEED));
    }
    let function_failures = functions::of_trial(plan, outcome, trial, &answers, &scores);
    let mut questions = Vec::new();
    for question in &prepared.questions {
        let (answer, error) = match answers.remove(&question.id) {
            Some(Ok(answer)) => (Some(answer).filter(|_| writes_answers), None),
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
        let PassagesWithRemarks { passages, remarks, .. } = passages.get(&question.id).cloned().unwrap_or_default();
        let rows = queries.remove(&question.id).unwrap_or_default();
        let query_fallback = rows.first().and_then(|row| row.fallback.clone());
        let queries = rows.into_iter().map(|row| row.query).collect();
        let id = question.id.clone();
        let trace = replies.as_ref().and_then(|replies| replies.traces.get(&id).cloned());
        let found = QuestionResult {
            question: id,
            queries,
            query_fallback,
            remarks,
            passages,
            answer,
            error,
            trace,
            scores,
            loss: None,
        };
        questions.push(found);
    }
    let traced = losses::TracedTrial::new(prepared, (plan, outcome), (trial, tasks), only_stored);
    traced.trace(metrics, &mut questions).await;
    let failed =
        [tasks.passages].into_iter().chain(tasks.answers.iter().copied()).chain(tasks.scoring()).chain(tasks.recall);
    let mut failures: Vec<String> =
        failed.filter_map(|id| Some(format!("{}: {}", plan.tasks[id].label, failure(&id)?))).collect();
    failures.dedup();
    let (price, seconds) = match &replies {
        Some(replies) => replies.price_and_seconds(prepared, (plan, outcome), tasks).await?,
        None => {
            let price = price::of_trial(prepared, plan, outcome, trial, index).await?;
            let seconds = latency::of_trial(prepared, tasks, outcome, &questions, &price).await?;
            (price, seconds)
        }
    };
    let index_recall = match tasks.recall.filter(|id| failure(id).is_none()) {
        Some(id) => {
            let found = scores_by_question(run_context, outputs, id).await?;
            let in_order = prepared.questions.iter().filter_map(|question| found.get(&question.id));
            let in_order: Vec<Score> = in_order.map(|scored| scored.score.clone()).collect();
            Some(Summary::of(&in_order, (0.0, 1.0), SEED))
        }
        None => None,
    };
    let retrieval = match &replies {
        Some(_) => replies::retrieval_count(&passages),
        None => searched.then(|| retrieval_count(&questions)),
    };
    Ok(TrialResult {
        metrics: summaries,
        latency_p50: quantile(&seconds, 0.5),
        latency_p95: quantile(&seconds, 0.95),
        tokens: price.tokens_per_question,
        cost_usd: price.cost_usd,
        index_cost_usd: price.index_cost_usd,
        index_tokens: price.usage.index.tokens(),
        index_recall,
        index_bytes: index_size::of_trial(run_context, (plan, outputs), trial, tasks).await?,
        usage: price.usage,
        not_enriched: enriched::of_trial(run_context, plan, outputs, &tasks.enriched, known).await?,
        failures,
        function_failures,
        retrieval,
        replies: replies.map(|replies| replies.findings(&questions)),
        ..TrialResult::uncompared(trial.clone(), questions)
    })
}

/// Counts all questions, and the questions that have no passage after the last stage.
fn retrieval_count(questions: &[QuestionResult]) -> RetrievalCount {
    let empty = questions.iter().filter(|question| question.passages.is_empty()).count();
    RetrievalCount { questions: questions.len(), empty }
}

/// The scores that these tasks made, by question. Where a task failed, the
/// reason stands in place of its scores.
pub(crate) async fn read_scores(
    prepared: &PreparedRun,
    plan: &Plan,
    outcome: &PlanOutcome,
    shards: &[TaskId],
) -> Result<HashMap<String, Scored>, Error> {
    let mut by_question = HashMap::new();
    for id in shards {
        let Some(reason) = outcome.failed.get(id) else {
            by_question.extend(scores_by_question(&prepared.run_context, &outcome.outputs, *id).await?);
            continue;
        };
        let missing = Scored::missing(match outcome.failed_functions.get(id) {
            Some((_, failure)) => Missing::FunctionError(Box::new(failure.clone())),
            None if outcome.over_budget.contains(id) => Missing::Budget(reason.clone()),
            None => Missing::ProviderError(reason.clone()),
        });
        if let Work::Score(work) = &plan.tasks[*id].work {
            let ids = work.questions.iter().map(|&i| prepared.questions[i].id.clone());
            by_question.extend(ids.map(|id| (id, missing.clone())));
        }
    }
    Ok(by_question)
}

/// The value below which a share of the sorted values lies (nearest rank).
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

/// Files that could not be read, while the run was prepared or while it ran.
fn unread(prepared: &PreparedRun, outcome: &PlanOutcome) -> Vec<Unread> {
    let mut unread = prepared.unread.clone();
    for more in &outcome.unread {
        if unread.iter().all(|known| known.path != more.path) {
            unread.push(more.clone());
        }
    }
    unread
}

#[cfg(test)]
mod tests;
