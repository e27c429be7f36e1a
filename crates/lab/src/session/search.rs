//! Runs a search: what its strategy asks for, step by step, each step a plan
//! like any other. What a step made is in the store, so that a search that
//! was interrupted decides the same again and goes on where it was.

use super::{Prepared, Session};
use crate::{
    Error,
    engine::Outcome,
    plan::{Inputs, Plan},
    results::Results,
    search::{Problem, SearchResult, Seen, Stop, Strategy},
    spec::EvaluateSpec,
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

impl Session {
    fn places(&self, questions: &[Question]) -> Places {
        let answered = self.experiment.evaluate.answered.unwrap_or(usize::MAX).min(questions.len());
        let is_test = |i: &usize| questions[*i].split == Some(Split::Test);
        let (held_back, compared) = (0..answered).partition(is_test);
        Places { compared, held_back }
    }

    /// Why a search cannot work here, before anything is spent.
    pub(super) fn check_search(&self, questions: &[Question]) -> Option<String> {
        let search = &self.experiment.search;
        let reason = if search.is_exhaustive() {
            return None;
        } else if questions.is_empty() {
            "needs golden questions to compare trials by"
        } else if self.places(questions).compared.is_empty() {
            "needs golden questions to compare trials by, and all that are answered are of the split `test`"
        } else if self.experiment.evaluate.objective.is_empty() {
            "needs metrics to compare trials by: see `objective` under [evaluate]"
        } else {
            return None;
        };
        Some(format!("search.{}: {reason}", search.name()))
    }

    /// Does what the experiment's search asks for, and puts the results together.
    pub(super) async fn search(&self, prepared: &Prepared) -> Result<(Outcome, Results), Error> {
        let search = &self.experiment.search;
        if search.is_exhaustive() {
            return self.execute_and_gather(prepared).await;
        }
        let Places { compared: mut order, held_back } = self.places(&prepared.questions);
        let weights = Weights::of(&self.experiment.evaluate, &prepared.questions, &order);
        let problem = Problem {
            trials: prepared.trials.iter().map(|trial| trial.labels.clone()).collect(),
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
            let part = self.part(prepared, &asked, &order, &[]);
            prepared.execution.log(
                "search_step",
                serde_json::json!({
                    "strategy": search.name(), "trials": part.trials.len(), "answers": asked.iter().sum::<usize>(),
                }),
            );
            let (outcome, results) = self.execute_and_gather(&part).await?;
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
        let asked: Vec<usize> = seen.iter().map(Vec::len).collect();
        let is_over = last.as_ref().is_some_and(|(_, results)| results.partial.is_none());
        if is_over && !held_back.is_empty() {
            let part = self.part(prepared, &asked, &order, &held_back);
            let (outcome, results) = self.execute_and_gather(&part).await?;
            executed += outcome.executed;
            last = Some((outcome, results));
        }
        let Some((mut outcome, mut results)) = last else {
            return Err(Error::Refused(vec![format!("search.{} asked for nothing", search.name())]));
        };
        outcome.executed = executed;
        results.executed = executed;
        results.searched(self.search_result(&problem, prepared, strategy.as_ref(), &seen));
        Ok((outcome, results))
    }

    fn search_result(
        &self,
        problem: &Problem,
        prepared: &Prepared,
        strategy: &dyn Strategy,
        seen: &[Seen],
    ) -> SearchResult {
        let id = |trial: usize| prepared.trials[trial].id.clone();
        let stops: BTreeMap<String, Stop> =
            strategy.stops(seen).into_iter().map(|(trial, stop)| (id(trial), stop)).collect();
        SearchResult {
            strategy: self.experiment.search.name().to_owned(),
            answers: seen.iter().map(Vec::len).sum(),
            all_answers: problem.answers(),
            stops,
        }
    }

    /// The trials that are asked anything, and a plan for what they are asked:
    /// so many of the questions in this order, and who is asked all of them is
    /// asked the last ones too.
    fn part(&self, prepared: &Prepared, asked: &[usize], order: &[usize], last: &[usize]) -> Prepared {
        let chosen = || prepared.trials.iter().zip(asked).filter(|(_, asked)| **asked > 0);
        let trials: Vec<Trial> = chosen().map(|(trial, _)| trial.clone()).collect();
        let questions =
            chosen().map(|(_, &n)| if n < order.len() { order[..n].to_vec() } else { [order, last].concat() });
        let questions: Vec<Vec<usize>> = questions.collect();
        let inputs = Inputs {
            experiment: &self.experiment,
            trials: &trials,
            identities: &prepared.sources.identities,
            files: &prepared.sources.files,
            unread: &prepared.sources.unread,
            pdf_library: &prepared.sources.pdf_library,
            questions: &prepared.questions,
            asked: Some(&questions),
        };
        let plan = Arc::new(Plan::new(&inputs));
        Prepared {
            plan,
            trials,
            questions: prepared.questions.clone(),
            documents: prepared.documents,
            text_bytes: prepared.text_bytes,
            rejected: prepared.rejected.clone(),
            unread: prepared.unread.clone(),
            left_out: prepared.left_out.clone(),
            dataset: prepared.dataset.clone(),
            alongside: prepared.alongside,
            run: prepared.run.clone(),
            execution: prepared.execution.clone(),
            sources: prepared.sources.clone(),
        }
    }
}
