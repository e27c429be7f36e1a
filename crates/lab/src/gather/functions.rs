//! The failures of user functions, for their author: each with the trial, the
//! stage, the question and Python's traceback.

use crate::{
    artifact::NoAnswer,
    engine::PlanOutcome,
    plan::{Plan, Trial},
    results::FunctionFailure,
};
use eval::{Missing, Score, Scored};
use rag::{Answer, python::Failure};
use std::collections::HashMap;

/// A trial's failures: stages first, then answers, then scores. What is missing
/// because of an earlier failure is not listed again.
pub(super) fn of_trial(
    plan: &Plan,
    outcome: &PlanOutcome,
    trial: &Trial,
    answers: &HashMap<String, Result<Answer, NoAnswer>>,
    scores: &[(String, HashMap<String, Scored>)],
) -> Vec<FunctionFailure> {
    let failure_of = |label: &str, question: Option<&String>, failure: &Failure| FunctionFailure {
        trial: trial.id.clone(),
        label: label.to_owned(),
        question: question.cloned(),
        failure: failure.clone(),
    };
    let mut stages: Vec<_> = outcome
        .failed_functions
        .iter()
        .filter(|(id, (at, _))| *id == at && plan.tasks[**id].trials.contains(&trial.id))
        .collect();
    stages.sort_by_key(|(id, _)| **id);
    let stages = stages.into_iter().map(|(id, (_, failure))| failure_of(&plan.tasks[*id].label, None, failure));
    let mut rows = Vec::new();
    for (question, answer) in answers {
        if let Err(NoAnswer { function: Some(failure), .. }) = answer {
            rows.push(failure_of(trial.label(rag::Axis::Generator), Some(question), failure));
        }
    }
    for (metric, by_question) in scores {
        for (question, scored) in by_question {
            if let Score::Missing(Missing::FunctionError(failure)) = &scored.score
                && matches!(failure.stage.as_str(), "metric" | "judge")
            {
                rows.push(failure_of(metric, Some(question), failure));
            }
        }
    }
    rows.sort_by(|a, b| (&a.failure.stage, &a.label, &a.question).cmp(&(&b.failure.stage, &b.label, &b.question)));
    stages.chain(rows).collect()
}
