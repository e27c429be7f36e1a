//! Runs a search step by step: each step is a plan of what the strategy asks for. Outputs are in
//! the store, so an interrupted search decides the same again and continues where it was.

use super::{Run, search_scores::SearchScores};
use crate::{
    Error, PreparedRun, Session,
    budget::BudgetResult,
    engine::PlanOutcome,
    gather::{RunPart, metrics},
    healing::Healing,
    plan::{Plan, Trial, ranges::Ranges},
    prepare::searched::QuestionOrder,
    results::Results,
    search::{SearchProblem, SearchResult, TrialScores},
    spec::EvaluateSpec,
    track::StepLog,
};
use eval::{MetricConfig, Question};
use serde_json::json;
use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

/// The weight of each metric of the objective at each question. With it, the mean over questions is
/// the mean of the metrics' means, even if the metrics are asked of different numbers of questions.
struct MetricWeights {
    /// By the metric's name, for each question of the dataset; 0 where the
    /// metric is not asked, and at questions that nothing is chosen by.
    by_metric: BTreeMap<String, Vec<f64>>,
    /// The largest difference that two trials can have at one question.
    width: f64,
}

impl MetricWeights {
    fn of(evaluate: &EvaluateSpec, questions: &[Question], compared: &[usize]) -> Self {
        let is_asked = |metric: &MetricConfig, i: usize| {
            let most = if metric.needs_judge() { evaluate.judged.unwrap_or(usize::MAX) } else { usize::MAX };
            let has_evidence = !metric.needs().evidence || !questions[i].evidence.is_empty();
            i < most && has_evidence && metric.applies(&questions[i]).is_ok()
        };
        let weights = |metric: &MetricConfig| {
            let asked: Vec<usize> = compared.iter().copied().filter(|&i| is_asked(metric, i)).collect();
            let mut weights = vec![0.0; questions.len()];
            for &i in &asked {
                weights[i] = compared.len() as f64 / asked.len() as f64;
            }
            (metric.label(), weights)
        };
        let chosen = evaluate.metrics.iter().filter(|metric| evaluate.objective.contains(&metric.label()));
        let by_metric: BTreeMap<String, Vec<f64>> = chosen.map(weights).collect();
        // An upper bound: as if one question had the largest weight of every metric.
        let largest = by_metric.values().map(|weights| weights.iter().copied().fold(0.0, f64::max));
        let widest = largest.sum::<f64>() / by_metric.len().max(1) as f64;
        Self { by_metric, width: if widest > 0.0 { widest } else { 1.0 } }
    }
}

/// Runs the experiment's search, and collects the results.
pub(super) async fn search(run: &mut Run<'_>) -> Result<(PlanOutcome, Results), Error> {
    let Run { session, prepared, .. } = *run;
    let (search, evaluate) = (&session.experiment.search, &session.experiment.evaluate);
    if search.is_exhaustive() {
        return run
            .execute_and_gather(RunPart {
                trials: &prepared.trials,
                plan: &prepared.plan,
                only_stored: false,
                keeps_rows: true,
            })
            .await;
    }
    let QuestionOrder { compared: order, held_back } = QuestionOrder::of(evaluate, &prepared.questions);
    let weights = MetricWeights::of(evaluate, &prepared.questions, &order);
    let problem = SearchProblem {
        trials: prepared.trials.iter().map(|trial| trial.labels.clone()).collect(),
        choices: prepared.trials.iter().map(Trial::choices).collect(),
        questions: order.len(),
        width: weights.width,
    };
    let is_system: Vec<bool> = prepared.trials.iter().map(|trial| trial.pipeline().is_none()).collect();
    let mut strategy =
        search.build_beside(&problem, &is_system).map_err(|error| Error::Refused(vec![error.to_string()]))?;
    let mut scores = SearchScores::new(prepared, metrics(&session.experiment));
    let mut seen: Vec<TrialScores> = vec![Vec::new(); problem.trials.len()];
    let mut executed = 0;
    let mut steps = StepLog::default();
    let mut is_within_budget = true;
    loop {
        let mut asked = strategy.next(&seen);
        let stopped = session.setup().control.steering.stopped_trials();
        for (number, trial) in prepared.trials.iter().enumerate() {
            if stopped.contains_key(&trial.id) {
                asked[number] = asked[number].min(seen[number].len());
            }
        }
        let can_be_retried = |trial, question| scores.can_be_retried(trial, question);
        let questions = step_questions(&asked, &seen, can_be_retried, (&order, prepared.plan.ranges()));
        if questions.iter().all(Vec::is_empty) {
            break;
        }
        executed += step(run, &asked, &questions, &mut scores).await?;
        let stepped = || (0..questions.len()).filter(|&trial| !questions[trial].is_empty());
        for trial in stepped() {
            seen[trial] = scores.contributions(trial, &order[..asked[trial]], &weights.by_metric);
        }
        let known = prepared.trials.iter().zip(&seen).map(|(trial, seen)| (trial.id.as_str(), seen.as_slice()));
        steps.log(&prepared.run_context, stepped().flat_map(|trial| scores.means(trial)), known);
        is_within_budget = BudgetResult::of(session.budget()).and_then(|budget| budget.partial()).is_none();
        if !is_within_budget {
            break;
        }
    }
    if seen.iter().all(Vec::is_empty) {
        return Err(Error::Refused(vec![format!("search.{} asked for nothing", search.name())]));
    }
    // One plan of everything that was asked: failed calls are made once more, and trials that were
    // asked all compared questions are asked those held back.
    let is_whole = |seen: &TrialScores| is_within_budget && seen.len() == order.len();
    let questions = |seen: &TrialScores| match is_whole(seen) {
        true => [&order[..], &held_back[..]].concat(),
        false => order[..seen.len()].to_vec(),
    };
    let (trials, plan) = plan_questions(session, prepared, &seen.iter().map(questions).collect::<Vec<_>>());
    let (mut outcome, mut results) =
        run.execute_and_gather(RunPart { trials: &trials, plan: &plan, only_stored: false, keeps_rows: true }).await?;
    outcome.executed += executed;
    results.executed = outcome.executed;
    let stops = strategy.stops(&seen).into_iter();
    results.apply_search(SearchResult {
        strategy: search.name().to_owned(),
        answers: seen.iter().map(Vec::len).sum(),
        all_answers: problem.answers(),
        stops: stops.map(|(trial, stop)| (prepared.trials[trial].id.clone(), stop)).collect(),
    });
    Ok((outcome, results))
}

/// The questions of each trial's part in the next step: those that it is asked
/// for the first time, those that failed, and those that are scored together
/// with these. None for a trial that is not asked anything new.
fn step_questions(
    asked: &[usize],
    seen: &[TrialScores],
    can_be_retried: impl Fn(usize, usize) -> bool,
    (order, ranges): (&[usize], &Ranges),
) -> Vec<Vec<usize>> {
    let of_trial = |trial: usize| {
        let (known, all) = (seen[trial].len(), asked[trial]);
        if all <= known {
            return Vec::new();
        }
        let failed = order[..known].iter().filter(|&&question| can_be_retried(trial, question));
        let open = order[known..all].iter().chain(failed);
        let open: HashSet<usize> = open.map(|&question| ranges.range_of_scores(question)).collect();
        order[..all].iter().copied().filter(|&question| open.contains(&ranges.range_of_scores(question))).collect()
    };
    (0..asked.len()).map(of_trial).collect()
}

/// Asks each trial these questions, and reads the scores. Returns how many tasks
/// were executed.
async fn step(
    run: &mut Run<'_>,
    asked: &[usize],
    questions: &[Vec<usize>],
    scores: &mut SearchScores<'_>,
) -> Result<usize, Error> {
    let Run { session, prepared, .. } = *run;
    let (trials, plan) = plan_questions(session, prepared, questions);
    let (strategy, answers) = (session.experiment.search.name(), asked.iter().sum::<usize>());
    prepared
        .run_context
        .log("search_step", json!({ "strategy": strategy, "trials": trials.len(), "answers": answers }));
    let mut healing = Healing::new(session, &prepared.run_context, &plan);
    loop {
        let outcome = healing.execute(&mut run.claimed).await?;
        let read = async {
            let trials = (0..questions.len()).filter(|&trial| !questions[trial].is_empty());
            for (trial, tasks) in trials.zip(&plan.trials) {
                scores.read(trial, (&plan, tasks), &outcome).await?;
            }
            Ok(())
        };
        if healing.finish_reading(&outcome, read.await).await?.is_some() {
            return Ok(outcome.executed);
        }
    }
}

/// The trials that are asked anything, and a plan for these questions of each.
fn plan_questions(session: &Session, prepared: &PreparedRun, questions: &[Vec<usize>]) -> (Vec<Trial>, Arc<Plan>) {
    let chosen = prepared.trials.iter().zip(questions).filter(|(_, questions)| !questions.is_empty());
    let (trials, questions): (Vec<Trial>, Vec<Vec<usize>>) =
        chosen.map(|(trial, questions)| (trial.clone(), questions.clone())).unzip();
    let plan = prepared.sources.plan(session, &trials, &prepared.questions, Some(&questions));
    (trials, plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::ranges::question_order;

    #[test]
    fn a_step_asks_eliminated_trials_nothing_and_the_others_what_is_new_or_failed() {
        // Questions 0 to 63, 64 to 127 and so on of the order are scored together.
        let questions = (0..200).map(|i| Question { id: format!("q{i}"), ..Question::default() });
        let (ranges, order) = (Ranges::new(&questions.collect::<Vec<_>>()), question_order(200));
        let seen = vec![vec![Some(1.0); 70]; 3];
        // The first trial was eliminated. A question of the first two failed, and may have a score now.
        let failed = |trial: usize, question: usize| trial < 2 && question == order[3];
        let step = |asked: [usize; 3]| step_questions(&asked, &seen, failed, (&order, &ranges));
        let questions = step([70, 140, 140]);
        assert_eq!(questions[0], [0; 0], "nothing, although it has a question that failed");
        assert_eq!(questions[1], order[..140], "what failed is asked again, with what is scored together with it");
        assert_eq!(questions[2], order[64..140], "what is new, with what is scored together with it");
        assert_eq!(step([70, 70, 70]), vec![Vec::<usize>::new(); 3], "the search is over");
    }
}
