//! Runs a search: what its strategy asks for, step by step, each step a plan
//! like any other. What a step made is in the store, so that a search that
//! was interrupted decides the same again and goes on where it was.

use super::{Prepared, Session};
use crate::{
    Error,
    engine::Outcome,
    plan::{Inputs, Plan},
    results::Results,
    search::{Problem, SearchResult, Stop, Strategy},
    track::StepLog,
    trial::Trial,
};
use eval::statistics::Random;
use std::{collections::BTreeMap, sync::Arc};

/// The order of the questions: the same for every search over them.
const SEED: u64 = 0x0DE2;

impl Session {
    /// What the experiment's search will look at.
    pub(super) fn problem(&self, prepared: &Prepared) -> Problem {
        let answered = self.experiment.evaluate.answered.unwrap_or(usize::MAX);
        Problem {
            trials: prepared.trials.iter().map(|trial| trial.labels.clone()).collect(),
            questions: answered.min(prepared.questions.len()),
        }
    }

    /// Why a search cannot work here, before anything is spent.
    pub(super) fn check_search(&self, questions: usize) -> Option<String> {
        let search = &self.experiment.search;
        let reason = if search.is_exhaustive() {
            return None;
        } else if questions == 0 {
            "needs golden questions to compare trials by"
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
            let outcome = self.execute(&prepared.plan, &prepared.execution).await?;
            let results = Results::gather(self, prepared, &outcome).await?;
            return Ok((outcome, results));
        }
        let problem = self.problem(prepared);
        let mut strategy = search.build(&problem).map_err(|reason| Error::Refused(vec![reason]))?;
        let mut order: Vec<usize> = (0..problem.questions).collect();
        Random::new(SEED).shuffle(&mut order);

        let mut seen: Vec<Vec<f64>> = vec![Vec::new(); problem.trials.len()];
        let (mut executed, mut last) = (0, None);
        let mut steps = StepLog::default();
        loop {
            let asked = strategy.next(&seen);
            if asked.iter().zip(&seen).all(|(asked, seen)| *asked <= seen.len()) {
                break;
            }
            let part = self.part(prepared, &asked, &order);
            prepared.execution.log(
                "search_step",
                serde_json::json!({
                    "strategy": search.name(), "trials": part.trials.len(), "answers": asked.iter().sum::<usize>(),
                }),
            );
            let outcome = self.execute(&part.plan, &part.execution).await?;
            executed += outcome.executed;
            let results = Results::gather(self, &part, &outcome).await?;
            let scores = results.contributions();
            for ((trial, seen), &n) in prepared.trials.iter().zip(&mut seen).zip(&asked) {
                if let Some(scores) = scores.get(&trial.id) {
                    *seen = order[..n].iter().map(|&i| scores[i].unwrap_or_default()).collect();
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
        seen: &[Vec<f64>],
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

    /// The trials that are asked anything, and a plan for what they are asked.
    fn part(&self, prepared: &Prepared, asked: &[usize], order: &[usize]) -> Prepared {
        let chosen = || prepared.trials.iter().zip(asked).filter(|(_, asked)| **asked > 0);
        let trials: Vec<Trial> = chosen().map(|(trial, _)| trial.clone()).collect();
        let questions: Vec<Vec<usize>> = chosen().map(|(_, &n)| order[..n].to_vec()).collect();
        let inputs = Inputs {
            experiment: &self.experiment,
            trials: &trials,
            identities: &prepared.sources.identities,
            files: &prepared.sources.files,
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
            run: prepared.run.clone(),
            execution: prepared.execution.clone(),
            sources: prepared.sources.clone(),
        }
    }
}
