//! How long a user waits. Each retrieval (the work from a question to its passages, which trials
//! may share) is measured by itself, after the run's work is done, through the pipeline that the
//! service uses.
//!
//! For each retrieval, up to [`QUESTIONS`] questions are searched again within about [`SECONDS`]; all
//! retrievals together take about [`SECONDS_IN_ALL`]. Model calls are answered by the journal, so
//! that nothing is paid; they count with the seconds that the call, or its batch, took when it was
//! made. A measurement is stored once for a retrieval, whichever trials share it, so a repeated run
//! shows the same numbers. Pipelines with user functions are not measured, because that would call
//! the functions again, and neither are runs on a cluster: there the latency is that of the model
//! calls.

use super::{QuestionResult, price::TrialPrice};
use crate::{
    Error, PreparedRun, Session,
    engine::PlanOutcome,
    gather::RunPart,
    layout,
    plan::{CorpusInputs, Outputs, PipelineTrial, Plan, Trial, TrialTasks, work::Work},
    task::{CallTurn, open_corpus},
};
use eval::Question;
use models::ledger;
use rag::{Pipeline, PipelineConfig, pipeline::AskedQuestion};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{
    collections::{BTreeMap, HashSet},
    time::Instant,
};

/// The most questions that are searched again.
const QUESTIONS: usize = 30;
/// After this time no further question is searched again, once [`FEWEST`] are measured.
const SECONDS: f64 = 1.0;
/// The same for all retrievals of a run together: many retrievals have less time each.
const SECONDS_IN_ALL: f64 = 10.0;
/// The fewest questions that are measured, however long they take.
const FEWEST: usize = 3;
/// Searches before the measurement: only after some searches does a dense index make the copy that
/// speeds it up, as in a service.
const PROBES: usize = 6;

/// What was measured of a retrieval.
#[derive(Debug, Default, Serialize, Deserialize)]
struct MeasuredLatency {
    /// Seconds by question.
    seconds: BTreeMap<String, f64>,
}

/// Measures the retrievals of a part of a run that were not measured yet. A retrieval that cannot
/// be measured has no latency; the run goes on.
pub(crate) async fn measure(session: &Session, prepared: &PreparedRun, part: RunPart<'_>, outcome: &PlanOutcome) {
    if session.experiment.engine.ray.is_some() || session.workspace().is_reading() {
        return;
    }
    let mut seen = HashSet::new();
    let mut retrievals = Vec::new();
    let pipelines = part.trials.iter().map(Trial::as_pipeline).zip(&part.plan.trials);
    for (trial, tasks) in pipelines.filter_map(|(trial, tasks)| Some((trial?, tasks))) {
        let Some(name) = outcome.outputs.get(&tasks.passages).filter(|name| layout::is_artifact(name)) else {
            continue;
        };
        if seen.insert(name) && !prepared.questions.is_empty() && !runs_function(part.plan, tasks) {
            retrievals.push((trial, tasks, name));
        }
    }
    let seconds = SECONDS.min(SECONDS_IN_ALL / retrievals.len().max(1) as f64);
    for (trial, tasks, name) in retrievals {
        if let Err(error) = measure_one(prepared, part.plan, outcome, trial, tasks, name, seconds).await {
            let fields = json!({ "trial": trial.trial.id, "reason": crate::error_chain(&error) });
            prepared.run_context.log("latency_not_measured", fields);
        }
    }
}

fn runs_function(plan: &Plan, tasks: &TrialTasks) -> bool {
    let searches = |work: &Work| !matches!(work, Work::Generate(_) | Work::Score(_));
    let of_trial = plan.tasks_of(tasks);
    of_trial.into_iter().map(|id| &plan.tasks[id].work).any(|work| searches(work) && work.describe().runs_function())
}

async fn measure_one(
    prepared: &PreparedRun,
    plan: &Plan,
    outcome: &PlanOutcome,
    trial: PipelineTrial<'_>,
    tasks: &TrialTasks,
    name: &str,
    seconds_for_all: f64,
) -> Result<(), Error> {
    let run_context = &prepared.run_context;
    let kept = layout::latency(name);
    if run_context.store.exists(&kept).await? {
        return Ok(());
    }
    let inputs = CorpusInputs { question_vectors: None, ..tasks.corpus.clone() };
    let mut outputs = Outputs::new();
    for id in inputs.all() {
        outputs.insert(id, outcome.outputs.get(&id).cloned().unwrap_or_else(|| plan.tasks[id].artifact()));
    }
    // An input may be removed from the store although its results are there.
    if run_context.store.first_missing(outputs.values()).await?.is_some() {
        return Ok(());
    }
    let (corpus, _) = open_corpus(run_context, &outputs, &inputs, Some(&trial.pipeline.index)).await?;
    let models = run_context.models().in_turn(CallTurn::default());
    let config = PipelineConfig { prompt: None, generator: None, ..trial.pipeline.clone() };
    let pipeline = Pipeline::new(&config, corpus, &models)?;
    let mut measured = MeasuredLatency::default();
    let sample = sample(&prepared.questions);
    let search = async |question: &Question| {
        let Question { question: text, turns: history, filter, .. } = question;
        pipeline.retrieve_question(AskedQuestion { text, history, filter: filter.as_ref() }, usize::MAX).await
    };
    let work = async {
        // The query can be any word: only that there is a search matters.
        for _ in 0..PROBES {
            pipeline.warm_up("ready").await?;
        }
        // Loads what is loaded with the first question.
        if let Some(first) = sample.first() {
            search(first).await?;
        }
        let began = Instant::now();
        for question in sample {
            if measured.seconds.len() >= FEWEST && began.elapsed().as_secs_f64() > seconds_for_all {
                break;
            }
            let (found, seconds) = ledger::time(search(question)).await;
            found?;
            measured.seconds.insert(question.id.clone(), seconds);
        }
        Ok::<_, Error>(())
    };
    ledger::replay(work).await?;
    run_context.store.replace(&kept, serde_json::to_vec(&measured).map_err(Error::table)?).await?;
    Ok(())
}

/// Some of the questions, spread over the dataset.
fn sample(questions: &[Question]) -> Vec<&Question> {
    let taken = questions.len().min(QUESTIONS);
    (0..taken).map(|i| &questions[i * questions.len() / taken]).collect()
}

/// The seconds that a user of this trial waits, sorted: for passages, or for
/// answers if the trial has a generator.
pub(super) async fn of_trial(
    prepared: &PreparedRun,
    tasks: &TrialTasks,
    outcome: &PlanOutcome,
    questions: &[QuestionResult],
    price: &TrialPrice,
) -> Result<Vec<f64>, Error> {
    let store = &prepared.run_context.store;
    let kept = match outcome.outputs.get(&tasks.passages) {
        Some(name) => store.get(&layout::latency(name)).await?,
        None => None,
    };
    let measured: MeasuredLatency = kept.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    let mut retrievals: Vec<f64> = measured.seconds.values().copied().collect();
    retrievals.sort_by(f64::total_cmp);
    if tasks.answers.is_empty() {
        return Ok(retrievals);
    }
    let median = super::quantile(&retrievals, 0.5);
    let retrieval = |id: &str| {
        let of_calls = || price.search_seconds.get(id).copied().unwrap_or_default();
        measured.seconds.get(id).copied().or(median).unwrap_or_else(of_calls)
    };
    let whole = |found: &QuestionResult| Some(found.answer.as_ref()?.seconds + retrieval(&found.question));
    let mut seconds: Vec<f64> = questions.iter().filter_map(whole).collect();
    seconds.sort_by(f64::total_cmp);
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::price::tests::{ALL, Fixture, GENERATES};

    #[test]
    fn the_sample_is_spread_over_the_dataset() {
        let questions: Vec<Question> = (0..90).map(|i| Question { id: i.to_string(), ..Question::default() }).collect();
        let ids: Vec<&str> = sample(&questions).into_iter().map(|question| question.id.as_str()).collect();
        assert_eq!((ids.len(), ids[0], ids[1], ids[29]), (30, "0", "3", "87"));
        assert_eq!(sample(&questions[..2]).len(), 2);
        assert!(sample(&[]).is_empty());
    }

    /// What was measured of a retrieval, the seconds of each answer, and the seconds that users wait. There are four
    /// questions; one without an answer has none.
    type Case = (&'static str, &'static [(&'static str, f64)], [Option<f64>; 4], &'static [f64]);

    #[tokio::test]
    async fn a_user_waits_for_the_retrieval_and_the_answer() {
        let all = [Some(1.0), Some(2.0), Some(3.0), Some(4.0)];
        let table: [Case; 6] = [
            ("each has its own", &[("q0", 0.5), ("q1", 0.1), ("q2", 0.2), ("q3", 0.3)], all, &[1.5, 2.1, 3.2, 4.3]),
            // The median of three by nearest rank is the second.
            (
                "one that was not measured has the median",
                &[("q0", 0.5), ("q1", 0.1), ("q2", 0.2)],
                all,
                &[1.5, 2.1, 3.2, 4.2],
            ),
            ("without an answer nobody waits", &[("q0", 0.5), ("q1", 0.1)], [None, Some(2.0), None, None], &[2.1]),
            // The calls before the answer, as the price has them.
            ("nothing was measured", &[], all, &[1.25, 2.25, 3.25, 4.25]),
            ("nothing was answered", &[("q0", 0.5)], [None; 4], &[]),
            ("sorted by the wait", &[("q0", 9.0), ("q1", 0.0), ("q2", 0.0), ("q3", 0.0)], all, &[2.0, 3.0, 4.0, 10.0]),
        ];
        for (case, measured, answers, expected) in table {
            let mut fixture = Fixture::new(GENERATES, ALL, None).await;
            let tasks = fixture.plan.trials[0].clone();
            let passages = fixture.plan.tasks[tasks.passages].artifact();
            fixture.outcome.outputs.insert(tasks.passages, passages.clone());
            let store = &fixture.prepared.run_context.store;
            if !measured.is_empty() {
                let seconds = measured.iter().map(|(id, seconds)| ((*id).to_owned(), *seconds)).collect();
                let bytes = serde_json::to_vec(&MeasuredLatency { seconds }).unwrap();
                store.replace(&layout::latency(&passages), bytes).await.unwrap();
            }
            let empty = crate::results::fixture::results(1).trials[0].questions[0].clone();
            let question = |(i, seconds): (usize, &Option<f64>)| QuestionResult {
                question: format!("q{i}"),
                answer: seconds.map(|seconds| rag::Answer { seconds, ..rag::Answer::default() }),
                ..empty.clone()
            };
            let questions: Vec<QuestionResult> = answers.iter().enumerate().map(question).collect();
            let mut price = fixture.price().await;
            price.search_seconds = (0..4).map(|i| (format!("q{i}"), 0.25)).collect();
            let found = of_trial(&fixture.prepared, &tasks, &fixture.outcome, &questions, &price).await.unwrap();
            let is_close = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-12);
            assert!(is_close && found.len() == expected.len(), "{case}: {found:?}, not {expected:?}");

            // Without a generator they wait for what was measured, and nothing else.
            let retrieves = TrialTasks { answers: Vec::new(), ..tasks };
            let found = of_trial(&fixture.prepared, &retrieves, &fixture.outcome, &questions, &price).await.unwrap();
            let mut seconds: Vec<f64> = measured.iter().map(|(_, seconds)| *seconds).collect();
            seconds.sort_by(f64::total_cmp);
            assert_eq!(found, seconds, "{case}");
        }
    }

    #[test]
    fn a_quantile_is_the_value_of_the_nearest_rank() {
        let quantile = crate::gather::quantile;
        let sorted: Vec<f64> = (1..=20).map(f64::from).collect();
        for (share, expected) in [(0.0, 1.0), (0.05, 1.0), (0.051, 2.0), (0.5, 10.0), (0.95, 19.0), (1.0, 20.0)] {
            assert_eq!(quantile(&sorted, share), Some(expected), "{share}");
        }
        assert_eq!((quantile(&[], 0.5), quantile(&[7.0], 0.95)), (None, Some(7.0)));
        assert_eq!([0.5, 0.51].map(|share| quantile(&[1.0, 9.0], share)), [Some(1.0), Some(9.0)], "of an even number");
    }

    #[test]
    fn a_sample_holds_no_more_than_thirty_questions_once_each_from_the_first_on() {
        for (n, taken) in [(1, 1), (29, 29), (30, 30), (31, 30), (59, 30), (1_000, 30)] {
            let questions: Vec<Question> =
                (0..n).map(|i| Question { id: i.to_string(), ..Question::default() }).collect();
            let places: Vec<usize> = sample(&questions).iter().map(|question| question.id.parse().unwrap()).collect();
            assert_eq!((places.len(), places[0]), (taken, 0), "{n}");
            assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{n}: {places:?}");
            // The step between two is at most one more than the mean step.
            assert!(places.windows(2).all(|pair| pair[1] - pair[0] <= n / taken + 1), "{n}: {places:?}");
        }
    }

    #[tokio::test]
    async fn a_measurement_that_cannot_be_read_counts_as_none() {
        let mut fixture = Fixture::new(GENERATES, ALL, None).await;
        let tasks = fixture.plan.trials[0].clone();
        let passages = fixture.plan.tasks[tasks.passages].artifact();
        fixture.outcome.outputs.insert(tasks.passages, passages.clone());
        let retrieves = TrialTasks { answers: Vec::new(), ..tasks };
        let price = fixture.price().await;
        for bytes in ["{}", "cut o", ""] {
            fixture.prepared.run_context.store.replace(&layout::latency(&passages), bytes).await.unwrap();
            let found = of_trial(&fixture.prepared, &retrieves, &fixture.outcome, &[], &price).await.unwrap();
            assert!(found.is_empty(), "{bytes}: {found:?}");
        }
    }

    #[tokio::test]
    async fn only_a_function_that_searches_keeps_a_retrieval_from_being_measured() {
        let fixture = Fixture::new(GENERATES, ALL, None).await;
        assert!(!runs_function(&fixture.plan, &fixture.plan.trials[0]), "no function at all");
    }
}
