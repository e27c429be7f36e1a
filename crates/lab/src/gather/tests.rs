//! What is gathered of the tasks of a trial: passages, answers, scores, and why they are missing.

use super::{
    price::tests::{ALL, Fixture, GENERATES},
    *,
};
use crate::artifact::{self, AnswerRow, ArtifactTable, NoAnswer, PassageRow, ScoreRow};
use rag::{
    Answer, Passage,
    python::{Failure, FailureKind},
};

fn failure(stage: &str) -> Failure {
    Failure {
        stage: stage.to_owned(),
        function: "answer".to_owned(),
        file: "own.py".to_owned(),
        kind: FailureKind::Raised,
        message: "ValueError: no".to_owned(),
        traceback: None,
    }
}

/// Keeps a table as the output of a task.
async fn keep<T: ArtifactTable>(fixture: &mut Fixture, id: TaskId, rows: &[T]) {
    let name = fixture.plan.tasks[id].artifact();
    fixture.prepared.run_context.store.replace(&name, artifact::encode(rows).unwrap()).await.unwrap();
    fixture.outcome.outputs.insert(id, name);
}

fn score_row(question: &str, score: Score) -> ScoreRow {
    ScoreRow { question: question.to_owned(), scored: Scored::plain(score) }
}

fn answer_row(question: &str, answer: Result<&str, NoAnswer>) -> AnswerRow {
    let answer = answer.map(|text| Answer { text: text.to_owned(), seconds: 2.0, ..Answer::default() });
    AnswerRow { question: question.to_owned(), answer }
}

fn no_answer(reason: &str) -> NoAnswer {
    NoAnswer { reason: reason.to_owned(), function: None, budget: false }
}

/// The tasks that score a trial that generates.
fn scoring(fixture: &Fixture) -> Vec<TaskId> {
    fixture.plan.trials[0].scores[0].1.clone()
}

#[tokio::test]
async fn scores_of_a_failed_task_are_missing_for_its_reason() {
    type Fail = fn(&mut PlanOutcome, TaskId);
    let table: [(&str, Fail, Missing); 3] = [
        ("a provider", |_, _| {}, Missing::ProviderError("down".to_owned())),
        ("the budget", |outcome, id| _ = outcome.over_budget.insert(id), Missing::Budget("down".to_owned())),
        (
            "a function, which counts before the budget",
            |outcome, id| {
                outcome.over_budget.insert(id);
                outcome.failed_functions.insert(id, (id, failure("metric")));
            },
            Missing::FunctionError(Box::new(failure("metric"))),
        ),
    ];
    for (case, fail, expected) in table {
        let mut fixture = Fixture::new(GENERATES, ALL, None).await;
        let shards = scoring(&fixture);
        assert_eq!(shards.len(), 1);
        fixture.outcome.failed.insert(shards[0], "down".to_owned());
        fail(&mut fixture.outcome, shards[0]);
        let found = read_scores(&fixture.prepared, &fixture.plan, &fixture.outcome, &shards).await.unwrap();
        let mut questions: Vec<&str> = found.keys().map(String::as_str).collect();
        questions.sort_unstable();
        assert_eq!(questions, ["q0", "q1", "q2", "q3"], "{case}");
        assert!(found.values().all(|scored| scored.score == Score::Missing(expected.clone())), "{case}: {found:?}");
    }
}

#[tokio::test]
async fn scores_of_a_task_that_ended_well_are_those_of_its_table() {
    let mut fixture = Fixture::new(GENERATES, ALL, None).await;
    let shards = scoring(&fixture);
    let missing = Score::Missing(Missing::NotFinite("NaN".to_owned()));
    keep(&mut fixture, shards[0], &[score_row("q0", Score::Value(0.5)), score_row("q2", missing.clone())]).await;
    let found = read_scores(&fixture.prepared, &fixture.plan, &fixture.outcome, &shards).await.unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!((&found["q0"].score, &found["q2"].score), (&Score::Value(0.5), &missing));
    let nothing = read_scores(&fixture.prepared, &fixture.plan, &fixture.outcome, &[]).await.unwrap();
    assert!(nothing.is_empty());
}

async fn gathered(fixture: &Fixture) -> TrialResult {
    let prepared = &fixture.prepared;
    price::load(prepared, &fixture.plan, &fixture.outcome).await.unwrap();
    let part = RunPart { trials: &prepared.trials, plan: &prepared.plan, only_stored: false, keeps_rows: false };
    let metrics = metrics(&prepared.run_context.experiment);
    let mut known = enriched::EnrichedCache::new();
    gather_trial(prepared, part, &fixture.outcome, 0, &metrics, &mut known).await.unwrap()
}

#[tokio::test]
async fn a_trial_has_the_passages_answers_and_scores_of_each_question_in_the_order_of_the_dataset() {
    let mut fixture = Fixture::new(GENERATES, ALL, None).await;
    let tasks = fixture.plan.trials[0].clone();
    let passage = |question: &str, rank: u32, text: &str| PassageRow {
        question: question.to_owned(),
        rank,
        passage: (rank > 0).then(|| Passage::of_text("a.txt".to_owned(), text.to_owned())),
        remarks: if rank == 0 { vec!["found nothing".to_owned()] } else { Vec::new() },
    };
    let passages = [passage("q3", 1, "three"), passage("q0", 1, "one"), passage("q0", 2, "two"), passage("q1", 0, "")];
    keep(&mut fixture, tasks.passages, &passages).await;
    let answers =
        [answer_row("q1", Ok("One.")), answer_row("q0", Ok("Zero.")), answer_row("q2", Err(no_answer("cut off")))];
    keep(&mut fixture, tasks.answers[0], &answers).await;
    let scores =
        [score_row("q2", Score::Value(0.0)), score_row("q0", Score::Value(1.0)), score_row("q1", Score::Value(0.5))];
    keep(&mut fixture, tasks.scores[0].1[0], &scores).await;

    let found = gathered(&fixture).await;
    let texts = |question: &QuestionResult| {
        question.passages.iter().map(|passage| passage.text.as_str()).collect::<Vec<_>>().join(" ")
    };
    let questions = found.questions.iter().map(|question| {
        let answer = question.answer.as_ref().map(|answer| answer.text.as_str());
        (question.question.as_str(), texts(question), answer, question.error.as_deref())
    });
    let expected = [
        ("q0", "one two".to_owned(), Some("Zero."), None),
        ("q1", String::new(), Some("One."), None),
        ("q2", String::new(), None, Some("cut off")),
        ("q3", "three".to_owned(), None, None),
    ];
    assert_eq!(questions.collect::<Vec<_>>(), expected);
    assert_eq!(found.questions[1].remarks, ["found nothing"]);
    let scores: Vec<Option<f64>> =
        found.questions.iter().map(|question| question.scores["recall"].score.value()).collect();
    assert_eq!(scores, [Some(1.0), Some(0.5), Some(0.0), None]);
    let not_asked = &found.questions[3].scores["recall"].score;
    assert!(matches!(not_asked, Score::Missing(Missing::NotAsked(_))), "{not_asked:?}");
    let summary = &found.metrics["recall"];
    assert_eq!((summary.mean, summary.n_scored, summary.n_failed), (Some(0.5), 3, 0));
    // Two answers took two seconds each, and no retrieval was measured.
    assert_eq!((found.latency_p50, found.latency_p95), (Some(2.0), Some(2.0)));
    assert!(found.failures.is_empty() && found.function_failures.is_empty());
}

#[tokio::test]
async fn tasks_that_failed_are_told_once_each_and_nothing_is_read_of_them() {
    let mut fixture = Fixture::new(GENERATES, ALL, None).await;
    let tasks = fixture.plan.trials[0].clone();
    let all = std::iter::once(tasks.passages).chain(tasks.answers.clone()).chain(tasks.scoring());
    let all: Vec<TaskId> = all.collect();
    fixture.outcome.failed.extend(all.iter().map(|id| (*id, "down".to_owned())));
    let found = gathered(&fixture).await;
    let labels: Vec<String> = all.iter().map(|&id| format!("{}: down", fixture.plan.tasks[id].label)).collect();
    assert_eq!(found.failures, labels);
    assert!(found.questions.iter().all(|question| question.passages.is_empty() && question.answer.is_none()));
    let summary = &found.metrics["recall"];
    assert_eq!((summary.mean, summary.n_failed, summary.worst, summary.best), (None, 4, Some(0.0), Some(1.0)));
    assert_eq!((found.latency_p50, found.latency_p95), (None, None));
}

#[test]
fn a_metric_is_described_by_what_it_needs_and_whether_it_chooses() {
    let text = "name = \"x\"\n[corpus]\nsource = \"d\"\n[dataset]\npath = \"g\"\n[models.gpt]\nchat.openai = { model = \
                \"m\", base_url = \"http://127.0.0.1:1/v1\" }\n[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n\
                generator = { compact = { model = \"gpt\" } }\n[evaluate]\njudge = \"gpt\"\nmetrics = [\"recall\", \
                \"token_f1\", \"faithfulness\", \"context_tokens\", { recall = { k = 3, name = \"early\" } }]\n\
                objective = [\"token_f1\", \"early\"]\n";
    let experiment = Experiment::parse(text, ".").unwrap_or_else(|errors| panic!("{errors:?}"));
    let found = metrics(&experiment);
    let found = found.iter().map(|metric| {
        let MetricResult { name, judged, objective, higher_is_better, correctness, .. } = metric;
        (name.as_str(), *judged, *objective, *higher_is_better, *correctness)
    });
    let expected = [
        ("recall", false, false, true, false),
        ("token_f1", false, true, true, true),
        ("faithfulness", true, false, true, false),
        ("context_tokens", false, false, false, false),
        ("early", false, true, true, false),
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_file_that_could_not_be_read_is_told_once() {
    let mut fixture = Fixture::new(GENERATES, ALL, None).await;
    let file = |path: &str, reason: &str| Unread { path: path.to_owned(), reason: reason.to_owned() };
    assert!(unread(&fixture.prepared, &fixture.outcome).is_empty());
    fixture.prepared.unread = vec![file("a.txt", "denied"), file("b.txt", "denied")];
    fixture.outcome.unread = vec![file("b.txt", "gone"), file("c.txt", "gone"), file("c.txt", "again")];
    let found = unread(&fixture.prepared, &fixture.outcome);
    let found: Vec<(&str, &str)> = found.iter().map(|file| (file.path.as_str(), file.reason.as_str())).collect();
    assert_eq!(found, [("a.txt", "denied"), ("b.txt", "denied"), ("c.txt", "gone")]);
}
