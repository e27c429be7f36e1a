//! Which questions, answers and judgements a measurement of noise asks for, and what that should cost.

use super::*;
use crate::{
    QuestionResult,
    plan::trial,
    record::fixture::{self, UNREACHABLE, endpoint, finish, provenance, session, session_with},
    results::fixture as planted,
};
use rag::{Answer, INSTRUCTION_TOKENS, Passage, Span};

const SPACE: &str = "chunker = \"sentence\"\nretriever = \"bm25\"\ngenerator = [{ compact = { model = \"gpt\", max_tokens = \
    40 } }]";
const METRICS: &str = "metrics = [\"token_f1\", \"answer_accuracy\", \"recall\"]\njudge = \"strict\"";

/// An experiment file whose models answer "owl".
fn text(space: &str, evaluate: &str) -> String {
    fixture::text(space, evaluate).replace(UNREACHABLE, &endpoint("owl"))
}

fn design(questions: usize, answers: usize, judgements: usize) -> NoiseDesign {
    NoiseDesign { questions, answers, judgements }
}

fn passage(text: &str) -> Passage {
    Passage {
        document: "a.txt".to_owned(),
        span: Span { start: 0, end: text.len() },
        text: text.to_owned(),
        score: 1.0,
        page: None,
        book: None,
        heading: None,
        rows: vec![0],
        parts: Vec::new(),
    }
}

/// The results of a run of this session's experiment: questions `a` to `e`, of which the first `referenced` have a
/// reference answer, one passage of 400 bytes and an answer of 80 bytes each.
fn results(session: &Session, referenced: usize) -> Results {
    let mut results = planted::results(1);
    let question = results.trials[0].questions[0].clone();
    for (i, question) in results.questions.iter_mut().enumerate() {
        // 12 bytes of question and 8 of reference.
        question.question = format!("Why is it {i}?")[..12].to_owned();
        question.reference = (i < referenced).then(|| "For fun.".to_owned());
    }
    let asked = results.questions.iter().map(|asked| QuestionResult {
        question: asked.id.clone(),
        passages: vec![passage(&"x".repeat(400))],
        answer: Some(Answer { text: "y".repeat(80), ..Answer::default() }),
        ..question.clone()
    });
    let asked: Vec<QuestionResult> = asked.collect();
    let trials = trial::grid(&session.experiment);
    results.trials = trials.into_iter().map(|trial| TrialResult::uncompared(trial, asked.clone())).collect();
    results
}

/// A session that finished a run of an experiment with this space.
async fn finished(folder: &std::path::Path, space: &str, referenced: usize) -> Session {
    let session = session(folder, &text(space, METRICS));
    finish(&session, &results(&session, referenced), &provenance(&session)).await;
    session
}

#[test]
fn a_design_has_at_least_two_questions_one_answer_and_one_judgement() {
    let table = [
        ((2, 1, 1), true),
        ((1, 1, 1), false),
        ((0, 1, 1), false),
        ((2, 0, 1), false),
        ((2, 1, 0), false),
        ((0, 0, 0), false),
        ((50, 3, 3), true),
    ];
    for ((questions, answers, judgements), holds) in table {
        assert_eq!(design(questions, answers, judgements).check().is_ok(), holds, "{questions} {answers} {judgements}");
    }
    let error = design(1, 9, 9).check().unwrap_err().to_string();
    assert_eq!(error, "at least 2 questions, 1 answer and 1 judgement are needed");
}

#[tokio::test]
async fn the_estimate_counts_each_answer_and_each_score_of_each_answer() {
    let folder = tempfile::tempdir().unwrap();
    let session = finished(folder.path(), SPACE, 5).await;
    // No tokenizer is known for the models: a question is estimated as 5 tokens, its passage as 89.
    let answer = INSTRUCTION_TOKENS + 5 + 89;
    // Each score takes two ratings. Each rating reads the question, a reference of 3 tokens, and an answer of 17.
    let rating = INSTRUCTION_TOKENS + (5 + 3) + 17;
    for (questions, answers, judgements) in [(2, 1, 1), (2, 3, 1), (2, 1, 3), (4, 3, 2), (5, 2, 2)] {
        let case = design(questions, answers, judgements);
        let found = noise_cost(&session, "t01", "answer_accuracy", case).await.unwrap();
        let answers = (questions * answers) as u64;
        let ratings = 2 * answers * judgements as u64;
        let models: Vec<(&str, u64, u64, u64)> = (found.models.iter())
            .map(|model| (model.model.as_str(), model.calls, model.prompt_tokens, model.completion_tokens))
            .collect();
        let expected =
            [("gpt", answers, answers * answer, answers * 40), ("strict", ratings, ratings * rating, ratings * 60)];
        assert_eq!(models, expected, "{case:?}");
        let tokens = (answers * answer + ratings * rating, answers * 40 + ratings * 60);
        let dollars = (tokens.0 as f64 * 2.0 + tokens.1 as f64 * 8.0) / 1e6;
        assert!((found.cost_usd.unwrap() - dollars).abs() < 1e-12, "{case:?}: {found:?}");
    }
}

#[tokio::test]
async fn a_metric_without_a_judge_costs_only_the_answers() {
    let folder = tempfile::tempdir().unwrap();
    let session = finished(folder.path(), SPACE, 5).await;
    let found = noise_cost(&session, "t01", "token_f1", design(3, 2, 7)).await.unwrap();
    assert_eq!(found.models.iter().map(|model| (model.model.as_str(), model.calls)).collect::<Vec<_>>(), [("gpt", 6)]);
}

#[tokio::test]
async fn only_questions_to_which_the_metric_applies_are_drawn() {
    // How many questions have a reference answer, how many are asked for, and how many are asked.
    for (referenced, asked_for, asked) in [(5, 5, 5), (5, 2, 2), (5, 99, 5), (3, 5, 3), (1, 5, 1), (0, 5, 0)] {
        let folder = tempfile::tempdir().unwrap();
        let session = finished(folder.path(), SPACE, referenced).await;
        let found = noise_cost(&session, "t01", "token_f1", design(asked_for, 1, 1)).await.unwrap();
        assert_eq!(found.calls, asked, "{referenced} of 5 have a reference, {asked_for} are asked for");
    }
}

#[tokio::test]
async fn the_drawn_questions_are_the_same_at_every_call_and_more_begin_with_fewer() {
    let folder = tempfile::tempdir().unwrap();
    let session = finished(folder.path(), SPACE, 5).await;
    let (results, experiment) = (results(&session, 5), session.experiment.clone());
    let mut drawn = Vec::new();
    for n in [2, 2, 4, 5] {
        let calls = plan_calls(&session, &results, &experiment, "t01", "token_f1", design(n, 1, 1)).await.unwrap();
        assert_eq!(calls.found.trial.id, "t01");
        drawn.push(calls.order);
    }
    assert_eq!(drawn[0], drawn[1]);
    assert!(drawn[2].starts_with(&drawn[0]) && drawn[3].starts_with(&drawn[2]), "{drawn:?}");
    drawn[3].sort_unstable();
    assert_eq!(drawn[3], [0, 1, 2, 3, 4], "each once");
}

#[tokio::test]
async fn what_cannot_be_measured_is_refused_with_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let session = finished(folder.path(), SPACE, 5).await;
    let all = design(5, 1, 1);
    let metric = noise_cost(&session, "t01", "fluency", all).await.unwrap_err();
    assert!(matches!(metric, Error::NotFound(_)));
    assert_eq!(metric.to_string(), "there is no metric `fluency`; there are token_f1, answer_accuracy, recall");
    let trial = noise_cost(&session, "t09", "token_f1", all).await.unwrap_err();
    assert_eq!(trial.to_string(), "there is no trial `t09`; there are t01");
    // The measurement itself refuses the same.
    assert_eq!(noise(&session, "t01", "fluency", all).await.unwrap_err().to_string(), metric.to_string());
    assert_eq!(noise(&session, "t09", "token_f1", all).await.unwrap_err().to_string(), trial.to_string());
}

#[tokio::test]
async fn a_trial_that_generates_nothing_has_no_noise() {
    let folder = tempfile::tempdir().unwrap();
    let session =
        session(folder.path(), &text("chunker = \"sentence\"\nretriever = \"bm25\"", "metrics = [\"recall\"]"));
    finish(&session, &results(&session, 5), &provenance(&session)).await;
    let error = noise(&session, "t01", "recall", design(2, 1, 1)).await.unwrap_err();
    assert!(matches!(error, Error::Unusable(_)));
    assert_eq!(error.to_string(), "trial `t01` generates no answers, so there is nothing to repeat");
}

#[tokio::test]
async fn without_a_finished_run_there_is_nothing_to_measure() {
    let folder = tempfile::tempdir().unwrap();
    let session = session(folder.path(), &text(SPACE, METRICS));
    let error = noise_cost(&session, "t01", "token_f1", design(2, 1, 1)).await.unwrap_err();
    assert!(matches!(error, Error::NoRun { what: "finished run", .. }), "{error}");
}

#[tokio::test]
async fn a_metric_that_applies_to_no_question_has_too_few_scores() {
    let folder = tempfile::tempdir().unwrap();
    let session = finished(folder.path(), SPACE, 0).await;
    let error = noise(&session, "t01", "token_f1", design(5, 1, 1)).await.unwrap_err();
    assert!(matches!(error, Error::TooFewScores { scored: 0, asked: 0 }), "{error}");
}

#[tokio::test]
async fn a_cap_on_money_is_refused_where_the_generator_or_a_judge_has_no_price() {
    // The generator, the judge, and the models without a price.
    for (generator, judge, named) in [
        ("gpt", "strict", None),
        ("unpriced", "strict", Some("models.unpriced")),
        ("gpt", "unpriced", Some("models.unpriced")),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let text = text(&SPACE.replace("gpt", generator), &METRICS.replace("strict", judge));
        let session = session_with(folder.path(), &text, |setup| setup.budget_usd = Some(0.5));
        finish(&session, &results(&session, 5), &provenance(&session)).await;
        let found = noise_cost(&session, "t01", "answer_accuracy", design(2, 1, 1)).await;
        match named {
            None => assert!(found.is_ok(), "{found:?}"),
            Some(named) => {
                let error = found.unwrap_err();
                assert!(matches!(&error, Error::Refused(mistakes) if mistakes.len() == 1), "{error}");
                assert!(error.to_string().starts_with(named), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn the_variance_of_a_repeatable_system_is_that_between_its_questions() {
    let folder = tempfile::tempdir().unwrap();
    let session = session(folder.path(), &text(SPACE, METRICS));
    let mut results = results(&session, 4);
    // Every answer is "owl": right for two questions, wrong for two; the fifth has no reference.
    for (question, reference) in results.questions.iter_mut().zip(["owl", "duck", "owl", "duck"]) {
        question.reference = Some(reference.to_owned());
    }
    finish(&session, &results, &provenance(&session)).await;
    let found = noise(&session, "t01", "token_f1", design(9, 2, 3)).await.unwrap();
    assert_eq!((found.trial.as_str(), found.metric.as_str()), ("t01", "token_f1"));
    assert_eq!((found.used, found.left_out, found.n_questions), (4, 0, 5));
    // Means of 1, 0, 1 and 0: four squares of 0.5 over three degrees of freedom.
    assert!((found.noise.question - 1.0 / 3.0).abs() < 1e-12, "{found:?}");
    assert_eq!((found.noise.generation, found.noise.judge, found.noise.design), (0.0, 0.0, (4, 2, 3)));
    // For the run's five questions, for ten, for more answers and for more judgements: only questions make it smaller.
    let errors = [5.0, 10.0, 5.0, 5.0].map(|n| (1.0 / 3.0_f64 / n).sqrt());
    for (error, expected) in found.standard_errors.iter().zip(errors) {
        assert!((error - expected).abs() < 1e-12, "{found:?}");
    }
}
