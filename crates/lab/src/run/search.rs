//! Runs a search: what its strategy asks for, step by step, each step a plan
//! like any other. What a step made is in the store, so that a search that
//! was interrupted decides the same again and goes on where it was.

use super::{Part, Run};
use crate::{
    Error, Prepared, Session,
    engine::Outcome,
    plan::Plan,
    results::Results,
    search::{Problem, SearchResult, Seen, Stop, Strategy},
    spec::{EvaluateSpec, Experiment},
    track::StepLog,
    trial::Trial,
};
use eval::{MetricConfig, Question, dataset::Split, statistics::Random};
use std::{collections::BTreeMap, sync::Arc};

/// The order of the questions: the same for every search over them.
const SEED: u64 = 0x0DE2;

/// How much each metric of the objective counts at a question, so that the
/// mean over all questions is the mean over metrics of their means, also where
/// they are asked of different numbers of questions.
struct Weights {
    /// By the metric's name, for each question of the dataset; 0 where the
    /// metric is not asked, and at questions that nothing is chosen by.
    by_metric: BTreeMap<String, Vec<f64>>,
    /// The largest difference that two trials can have at one question.
    width: f64,
}

impl Weights {
    fn of(evaluate: &EvaluateSpec, questions: &[Question], compared: &[usize]) -> Self {
        let is_asked = |metric: &MetricConfig, i: usize| {
            let most = if metric.judged() { evaluate.judged.unwrap_or(usize::MAX) } else { usize::MAX };
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
        // At a question that every metric is asked of.
        let largest = by_metric.values().map(|weights| weights.iter().copied().fold(0.0, f64::max));
        let widest = largest.sum::<f64>() / by_metric.len().max(1) as f64;
        Self { by_metric, width: if widest > 0.0 { widest } else { 1.0 } }
    }
}

/// Questions by their place in the dataset.
struct Places {
    /// Those that trials are compared by.
    compared: Vec<usize>,
    /// Those that nothing may be chosen by: who was asked all others is asked
    /// these at the end.
    held_back: Vec<usize>,
}

impl Places {
    fn of(evaluate: &EvaluateSpec, questions: &[Question]) -> Self {
        let answered = evaluate.answered.unwrap_or(usize::MAX).min(questions.len());
        let is_test = |i: &usize| questions[*i].split == Some(Split::Test);
        let (held_back, compared) = (0..answered).partition(is_test);
        Self { compared, held_back }
    }
}

/// Why a search cannot work here, before anything is spent.
pub(crate) fn check_search(experiment: &Experiment, questions: &[Question]) -> Option<String> {
    let search = &experiment.search;
    let reason = if search.is_exhaustive() {
        return None;
    } else if questions.is_empty() {
        "needs golden questions to compare trials by"
    } else if Places::of(&experiment.evaluate, questions).compared.is_empty() {
        "needs golden questions to compare trials by, and all that are answered are of the split `test`"
    } else if experiment.evaluate.objective.is_empty() {
        "needs metrics to compare trials by: see `objective` under [evaluate]"
    } else {
        return None;
    };
    Some(format!("search.{}: {reason}", search.name()))
}

/// Does what the experiment's search asks for, and puts the results together.
pub(super) async fn search(run: &mut Run<'_>) -> Result<(Outcome, Results), Error> {
    let Run { session, prepared, .. } = *run;
    let (search, evaluate) = (&session.experiment.search, &session.experiment.evaluate);
    if search.is_exhaustive() {
        return run.execute_and_gather(Part { trials: &prepared.trials, plan: &prepared.plan }).await;
    }
    let Places { compared: mut order, held_back } = Places::of(evaluate, &prepared.questions);
    let weights = Weights::of(evaluate, &prepared.questions, &order);
    let problem = Problem {
        trials: prepared.trials.iter().map(|trial| trial.labels.clone()).collect(),
        choices: prepared.trials.iter().map(Trial::choices).collect(),
        questions: order.len(),
        width: weights.width,
    };
    let mut strategy = search.build(&problem).map_err(|reason| Error::Refused(vec![reason]))?;
    Random::new(SEED).shuffle(&mut order);
    let mut seen: Vec<Seen> = vec![Vec::new(); problem.trials.len()];
    let (mut executed, mut last) = (0, None);
    let mut steps = StepLog::default();
    loop {
        let asked = strategy.next(&seen);
        if asked.iter().zip(&seen).all(|(asked, seen)| *asked <= seen.len()) {
            break;
        }
        let (outcome, results) = step(run, &asked, &order).await?;
        executed += outcome.executed;
        let scores = results.contributions(&weights.by_metric);
        for ((trial, seen), &n) in prepared.trials.iter().zip(&mut seen).zip(&asked) {
            if let Some(scores) = scores.get(&trial.id) {
                *seen = order[..n].iter().map(|&i| scores[i]).collect();
            }
        }
        let known = prepared.trials.iter().zip(&seen).map(|(trial, seen)| (trial.id.as_str(), seen.as_slice()));
        steps.log(&prepared.execution, &results, known);
        let ended = results.partial.is_some();
        last = Some((outcome, results));
        if ended {
            break;
        }
    }
    let is_over = last.as_ref().is_some_and(|(_, results)| results.partial.is_none());
    if is_over && !held_back.is_empty() {
        let asked: Vec<usize> = seen.iter().map(Vec::len).collect();
        let (trials, plan) = chosen(session, prepared, &asked, &order, &held_back);
        let (outcome, results) = run.execute_and_gather(Part { trials: &trials, plan: &plan }).await?;
        executed += outcome.executed;
        last = Some((outcome, results));
    }
    let Some((mut outcome, mut results)) = last else {
        return Err(Error::Refused(vec![format!("search.{} asked for nothing", search.name())]));
    };
    outcome.executed = executed;
    results.executed = executed;
    results.searched(search_result(search.name(), &problem, prepared, strategy.as_ref(), &seen));
    Ok((outcome, results))
}

/// Asks each trial as many questions as the strategy wants it asked by now.
async fn step(run: &mut Run<'_>, asked: &[usize], order: &[usize]) -> Result<(Outcome, Results), Error> {
    let Run { session, prepared, .. } = *run;
    let (trials, plan) = chosen(session, prepared, asked, order, &[]);
    let (strategy, answers) = (session.experiment.search.name(), asked.iter().sum::<usize>());
    let fields = serde_json::json!({ "strategy": strategy, "trials": trials.len(), "answers": answers });
    prepared.execution.log("search_step", fields);
    run.execute_and_gather(Part { trials: &trials, plan: &plan }).await
}

fn search_result(
    name: &str,
    problem: &Problem,
    prepared: &Prepared,
    strategy: &dyn Strategy,
    seen: &[Seen],
) -> SearchResult {
    let id = |trial: usize| prepared.trials[trial].id.clone();
    let stops: BTreeMap<String, Stop> =
        strategy.stops(seen).into_iter().map(|(trial, stop)| (id(trial), stop)).collect();
    SearchResult {
        strategy: name.to_owned(),
        answers: seen.iter().map(Vec::len).sum(),
        all_answers: problem.answers(),
        stops,
    }
}

/// The trials that are asked anything, and a plan for what they are asked: so
/// many of the questions in this order, and who is asked all of them is asked
/// the last ones too.
fn chosen(
    session: &Session,
    prepared: &Prepared,
    asked: &[usize],
    order: &[usize],
    last: &[usize],
) -> (Vec<Trial>, Arc<Plan>) {
    let chosen = || prepared.trials.iter().zip(asked).filter(|(_, asked)| **asked > 0);
    let trials: Vec<Trial> = chosen().map(|(trial, _)| trial.clone()).collect();
    let questions = chosen().map(|(_, &n)| if n < order.len() { order[..n].to_vec() } else { [order, last].concat() });
    let questions: Vec<Vec<usize>> = questions.collect();
    let plan = prepared.sources.plan(session, &trials, &prepared.questions, Some(&questions));
    (trials, plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn questions() -> Vec<Question> {
        let question = |id: &str, split| Question { id: id.to_owned(), split, ..Question::default() };
        vec![question("a", Some(Split::Tune)), question("b", Some(Split::Test)), question("c", None)]
    }

    fn experiment(rest: &str) -> Experiment {
        let space = "[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n";
        Experiment::parse(&format!("name = \"x\"\n[corpus]\nsource = \"d\"\n{space}{rest}"), ".").unwrap()
    }

    #[test]
    fn trials_are_compared_by_answered_questions_that_are_not_held_back() {
        let places = |answered| {
            let evaluate = EvaluateSpec { answered, ..experiment("").evaluate };
            let Places { compared, held_back } = Places::of(&evaluate, &questions());
            (compared, held_back)
        };
        assert_eq!(places(None), (vec![0, 2], vec![1]));
        assert_eq!(places(Some(2)), (vec![0], vec![1]));
        assert_eq!(places(Some(0)), (vec![], vec![]));
    }

    #[test]
    fn a_search_needs_questions_that_trials_may_be_compared_by() {
        let searched = experiment("[search]\nrandom = { share = 0.5 }\n");
        assert_eq!(check_search(&experiment(""), &[]), None);
        assert!(check_search(&searched, &[]).unwrap().starts_with("search.random: needs golden questions"));
        let held_back = check_search(&searched, &questions()[1..2]);
        assert!(held_back.unwrap().contains("all that are answered are of the split `test`"));
    }
}
