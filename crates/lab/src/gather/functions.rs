//! The failures of user functions, for their author: each with the trial, the
//! stage, the question and Python's traceback.

use crate::{
    artifact::NoAnswer,
    engine::PlanOutcome,
    plan::{Plan, Trial, trial::SYSTEM},
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
            let label = trial.label(rag::Axis::Generator);
            let label = if trial.pipeline().is_some() { label } else { trial.label_of(SYSTEM) };
            rows.push(failure_of(label, Some(question), failure));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::price::tests::{ALL, Fixture, GENERATES};
    use rag::python::FailureKind;

    fn failure(stage: &str, message: &str) -> Failure {
        Failure {
            stage: stage.to_owned(),
            function: "own".to_owned(),
            file: "own.py".to_owned(),
            kind: FailureKind::Raised,
            message: message.to_owned(),
            traceback: None,
        }
    }

    fn failed_score(failure: &Failure) -> Scored {
        Scored::missing(Missing::FunctionError(Box::new(failure.clone())))
    }

    /// The label, the question and the message of each failure.
    fn told(failures: Vec<FunctionFailure>) -> Vec<(String, String, String)> {
        let told = |it: FunctionFailure| (it.label, it.question.unwrap_or_default(), it.failure.message);
        failures.into_iter().map(told).collect()
    }

    fn expected(rows: &[[&str; 3]]) -> Vec<(String, String, String)> {
        rows.iter().map(|[label, question, text]| ((*label).into(), (*question).into(), (*text).into())).collect()
    }

    #[tokio::test]
    async fn a_stage_is_told_where_it_failed_and_not_where_that_was_felt() {
        let mut fixture = Fixture::new(GENERATES, ALL, None).await;
        let (trial, tasks) = (fixture.prepared.trials[0].clone(), fixture.plan.trials[0].clone());
        let (first, later) = (tasks.passages, tasks.answers[0]);
        fixture.plan.tasks[first].trials = vec![trial.id.clone()];
        fixture.plan.tasks[later].trials = vec![trial.id.clone()];
        let cause = failure("retriever", "no");
        fixture.outcome.failed_functions.insert(later, (first, cause.clone()));
        let none = (HashMap::new(), Vec::new());
        assert_eq!(of_trial(&fixture.plan, &fixture.outcome, &trial, &none.0, &none.1), []);
        fixture.outcome.failed_functions.insert(first, (first, cause));
        let found = of_trial(&fixture.plan, &fixture.outcome, &trial, &none.0, &none.1);
        assert!(found.iter().all(|found| found.trial == trial.id && found.question.is_none()));
        assert_eq!(told(found), expected(&[[fixture.plan.tasks[first].label.as_str(), "", "no"]]));
        let other = Trial { id: "t09".to_owned(), ..trial };
        assert_eq!(of_trial(&fixture.plan, &fixture.outcome, &other, &none.0, &none.1), [], "of another trial");
    }

    #[tokio::test]
    async fn stages_come_first_then_answers_and_scores_by_label_and_question() {
        let mut fixture = Fixture::new(GENERATES, ALL, None).await;
        let (trial, tasks) = (fixture.prepared.trials[0].clone(), fixture.plan.trials[0].clone());
        let (low, high) = (tasks.passages, tasks.answers[0]);
        assert!(low < high);
        for id in [high, low] {
            fixture.plan.tasks[id].trials = vec![trial.id.clone()];
            fixture.outcome.failed_functions.insert(id, (id, failure("retriever", "whole")));
        }
        let no_answer = |function: Option<Failure>| {
            Err(NoAnswer { reason: "failed".to_owned(), function: function.map(Box::new), budget: false })
        };
        let answers = HashMap::from([
            ("q2".to_owned(), no_answer(Some(failure("generator", "second")))),
            ("q1".to_owned(), no_answer(Some(failure("generator", "first")))),
            ("q0".to_owned(), no_answer(None)),
            ("q3".to_owned(), Ok(Answer::default())),
        ]);
        let of_metric = |stage: &str| failed_score(&failure(stage, stage));
        let scores = [
            (
                "tone".to_owned(),
                HashMap::from([("q1".to_owned(), of_metric("metric")), ("q0".to_owned(), of_metric("judge"))]),
            ),
            // The answer that it needs failed, and is told already.
            (
                "brief".to_owned(),
                HashMap::from([("q1".to_owned(), of_metric("generator")), ("q0".to_owned(), of_metric("metric"))]),
            ),
            (
                "recall".to_owned(),
                HashMap::from([("q1".to_owned(), Scored::missing(Missing::ProviderError("down".to_owned())))]),
            ),
        ];
        let found = of_trial(&fixture.plan, &fixture.outcome, &trial, &answers, &scores);
        let label = |id: usize| fixture.plan.tasks[id].label.as_str();
        let generator = trial.label(rag::Axis::Generator);
        let rows = [
            [label(low), "", "whole"],
            [label(high), "", "whole"],
            [generator, "q1", "first"],
            [generator, "q2", "second"],
            ["tone", "q0", "judge"],
            ["brief", "q0", "metric"],
            ["tone", "q1", "metric"],
        ];
        assert_eq!(told(found), expected(&rows), "by stage: generator, judge, metric");
    }
}
