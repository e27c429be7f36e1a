//! A planted case for each step, and the order of the steps.

use super::*;
use crate::results::MetricResult;
use eval::{Evidence, Missing, Score};
use serde_json::json;

const EVIDENCE: Span = Span { start: 100, end: 200 };

fn golden(spans: &[Option<Span>]) -> Question {
    let item = |span: &Option<Span>| Evidence { document: "a.md".to_owned(), quote: "quote".to_owned(), span: *span };
    Question { id: "q".to_owned(), evidence: spans.iter().map(item).collect(), ..Question::default() }
}

fn passage(start: usize, end: usize) -> Passage {
    Passage { document: "a.md".to_owned(), span: Span { start, end }, ..Passage::default() }
}

fn holding() -> Passage {
    passage(50, 250)
}

fn other() -> Passage {
    passage(900, 950)
}

fn known(is_read: bool, is_held: bool, is_candidate: bool) -> SearchedEvidence {
    SearchedEvidence { is_read, is_held, is_candidate, ..SearchedEvidence::default() }
}

fn answer(verdict: AnswerOutcome) -> JudgedAnswer<'static> {
    JudgedAnswer { verdict, generator: "compact", citations: &[], dropped_passages: 0 }
}

const WRONG: AnswerOutcome = AnswerOutcome::Wrong { declines: false };

/// A question with one piece of evidence, the passages after search, reranker and refiner, what is known of the search,
/// the answer, and the expected step and component.
struct Case {
    case: &'static str,
    stages: [Vec<Passage>; 3],
    searched: SearchedEvidence,
    answer: JudgedAnswer<'static>,
    expected: (LossStep, Option<&'static str>),
}

fn loss(
    question: &Question,
    stages: &[Vec<Passage>],
    searched: &[SearchedEvidence],
    answer: JudgedAnswer<'_>,
) -> QuestionLoss {
    let names =
        [(LossStep::RankedOut, "bm25"), (LossStep::RankedOut, "cross_encoder"), (LossStep::Dropped, "threshold")];
    let stage = |((step, component), passages)| StagePassages { step, component, passages };
    let stages: Vec<StagePassages<'_>> = names.into_iter().zip(stages.iter().map(Vec::as_slice)).map(stage).collect();
    EvidenceTrace { question, min_overlap: 0.5, parser: Some("ocr"), stages: &stages, searched, answer }.loss()
}

#[test]
fn each_step_is_named_where_the_evidence_was_lost_first() {
    let (held, gone) = (|| vec![other(), holding()], || vec![other()]);
    let all = || [held(), held(), held()];
    let none = || [gone(), gone(), gone()];
    let found = SearchedEvidence::default;
    let case = |case, stages, searched, answer, step, component| Case {
        case,
        stages,
        searched,
        answer,
        expected: (step, component),
    };
    let cases = [
        case("the file was not read", none(), known(false, false, false), answer(WRONG), LossStep::NotRead, None),
        case("no chunk holds it", none(), known(true, false, false), answer(WRONG), LossStep::CutApart, None),
        case("not among the hits", none(), known(true, true, false), answer(WRONG), LossStep::NotFound, Some("bm25")),
        case("a candidate", none(), known(true, true, true), answer(WRONG), LossStep::RankedOut, Some("bm25")),
        case(
            "the reranker",
            [held(), gone(), gone()],
            found(),
            answer(WRONG),
            LossStep::RankedOut,
            Some("cross_encoder"),
        ),
        case("the refiner", [held(), held(), gone()], found(), answer(WRONG), LossStep::Dropped, Some("threshold")),
        case(
            "the refiner keeps too little of it",
            [held(), held(), vec![passage(50, 149)]],
            found(),
            answer(WRONG),
            LossStep::Dropped,
            Some("threshold"),
        ),
        case(
            "the budget of the prompt",
            all(),
            found(),
            JudgedAnswer { dropped_passages: 1, ..answer(WRONG) },
            LossStep::CutFromPrompt,
            Some("compact"),
        ),
        case(
            "the budget left out another passage",
            [held(), held(), vec![holding(), other()]],
            found(),
            JudgedAnswer { dropped_passages: 1, ..answer(WRONG) },
            LossStep::AnsweredWrong,
            None,
        ),
        case(
            "more was left out than there is",
            all(),
            found(),
            JudgedAnswer { dropped_passages: 9, ..answer(WRONG) },
            LossStep::CutFromPrompt,
            Some("compact"),
        ),
        case("it declines", all(), found(), answer(AnswerOutcome::Wrong { declines: true }), LossStep::NotUsed, None),
        case(
            "it cites another passage only",
            all(),
            found(),
            JudgedAnswer { citations: &[1], ..answer(WRONG) },
            LossStep::NotUsed,
            None,
        ),
        case(
            "it cites the evidence too",
            all(),
            found(),
            JudgedAnswer { citations: &[1, 2], ..answer(WRONG) },
            LossStep::AnsweredWrong,
            None,
        ),
        case(
            "it cites no passage that there is",
            all(),
            found(),
            JudgedAnswer { citations: &[0, 7], ..answer(WRONG) },
            LossStep::AnsweredWrong,
            None,
        ),
        case("it cites nothing", all(), found(), answer(WRONG), LossStep::AnsweredWrong, None),
        case("no answer", all(), found(), answer(AnswerOutcome::Failed), LossStep::FailedCall, None),
        case("no generator", all(), found(), answer(AnswerOutcome::None), LossStep::InPassages, None),
        case("right", all(), found(), answer(AnswerOutcome::Right), LossStep::AnsweredRight, None),
        case(
            "right, but the evidence was lost",
            none(),
            known(true, true, false),
            answer(AnswerOutcome::Right),
            LossStep::RightWithoutEvidence,
            None,
        ),
        case(
            "a later step found it again",
            [gone(), gone(), held()],
            known(true, true, false),
            answer(AnswerOutcome::None),
            LossStep::InPassages,
            None,
        ),
        case(
            "the evidence was lost before a call failed",
            none(),
            known(true, true, false),
            answer(AnswerOutcome::Failed),
            LossStep::NotFound,
            Some("bm25"),
        ),
    ];
    let question = golden(&[Some(EVIDENCE)]);
    for Case { case, stages, searched, answer, expected } in cases {
        let found = loss(&question, &stages, &[searched], answer);
        assert_eq!((found.step, found.component.as_deref()), expected, "{case}");
        assert_eq!(found.evidence.len(), 1, "{case}");
        let is_before_the_answer =
            found.step <= LossStep::CutFromPrompt || found.step == LossStep::RightWithoutEvidence;
        assert_eq!(found.evidence[0].step.is_some(), is_before_the_answer, "{case}");
    }
}

#[test]
fn of_several_pieces_of_evidence_the_earliest_step_counts() {
    let second = Span { start: 500, end: 600 };
    let question = golden(&[Some(EVIDENCE), Some(second)]);
    let both = || vec![holding(), passage(480, 620)];
    let facts = [known(true, true, false), known(true, false, false)];
    // The second is dropped by the refiner; the first was there to the end.
    let found = loss(&question, &[both(), both(), vec![holding()]], &facts, answer(WRONG));
    assert_eq!((found.step, found.component.as_deref()), (LossStep::Dropped, Some("threshold")));
    assert_eq!((found.evidence[0].step, found.evidence[1].step), (None, Some(LossStep::Dropped)));
    // The second was cut apart, the first dropped by the refiner.
    let found = loss(&question, &[vec![holding()], vec![holding()], vec![other()]], &facts, answer(WRONG));
    assert_eq!((found.step, found.component), (LossStep::CutApart, None));
    assert_eq!(found.evidence[0].step, Some(LossStep::Dropped));
    // Evidence without a span is in no text.
    let question = golden(&[Some(EVIDENCE), None]);
    let found = loss(&question, &[both(), both(), both()], &facts, answer(WRONG));
    assert_eq!(found.step, LossStep::NotRead);
}

#[test]
fn two_passages_that_hold_half_each_hold_the_evidence() {
    let question = golden(&[Some(EVIDENCE)]);
    let halves = || vec![passage(60, 130), other(), passage(130, 170)];
    let found =
        loss(&question, &[halves(), halves(), halves()], &[known(true, false, false)], answer(AnswerOutcome::None));
    assert_eq!((found.step, found.evidence[0].rank), (LossStep::InPassages, Some(3)));
}

#[test]
fn a_rank_is_that_of_the_search_or_else_of_the_deeper_search() {
    let question = golden(&[Some(EVIDENCE)]);
    let chunk = EvidenceChunk {
        document: "a.md".to_owned(),
        number: 4,
        span: Span { start: 90, end: 210 },
        share: 1.0,
        shared_terms: vec!["mast".to_owned()],
    };
    let deeper = SearchedEvidence { rank: Some(37), depth: 80, chunk: Some(chunk.clone()), ..known(true, true, false) };
    let gone = || vec![other(), other()];
    let found = loss(&question, &[gone(), gone(), gone()], &[deeper], answer(WRONG));
    let item = &found.evidence[0];
    assert_eq!((item.rank, item.depth, item.searched, item.chunk.as_ref()), (Some(37), 80, 2, Some(&chunk)));
    assert_eq!(found.rank, Some(37));
    let found = loss(&question, &[vec![other(), holding()], gone(), gone()], &[], answer(WRONG));
    let item = &found.evidence[0];
    assert_eq!((item.rank, item.depth, item.searched, item.chunk.as_ref()), (Some(2), 0, 2, None));
    assert_eq!(found.rank, None, "the reranker lost it: a deeper search would not help");
}

#[test]
fn a_question_without_evidence_or_a_trial_without_passages_has_one_step_too() {
    let of = |question: &Question, stages: &[Vec<Passage>], verdict| loss(question, stages, &[], answer(verdict)).step;
    let (with, without) = (golden(&[Some(EVIDENCE)]), golden(&[]));
    let stages = [vec![other()]];
    for (verdict, no_evidence, no_passages) in [
        (AnswerOutcome::Right, LossStep::AnsweredRight, LossStep::RightWithoutEvidence),
        (WRONG, LossStep::NoEvidence, LossStep::NotSearched),
        (AnswerOutcome::None, LossStep::NoEvidence, LossStep::NotSearched),
        (AnswerOutcome::Failed, LossStep::FailedCall, LossStep::FailedCall),
    ] {
        assert_eq!(of(&without, &stages, verdict), no_evidence, "{verdict:?}");
        assert_eq!(of(&with, &[], verdict), no_passages, "{verdict:?}");
        assert_eq!(of(&without, &[], verdict), no_evidence, "{verdict:?}");
    }
}

fn metric(name: &str, range: (f64, f64), objective: bool, correctness: bool) -> MetricResult {
    MetricResult { name: name.to_owned(), judged: false, objective, range, higher_is_better: true, correctness }
}

#[test]
fn an_answer_is_right_by_the_metrics_of_the_objective_that_compare_it_with_a_reference() {
    let names = |metrics: &[MetricResult]| -> Vec<String> {
        answer_metrics(metrics).iter().map(|metric| metric.name.clone()).collect()
    };
    let unit = (0.0, 1.0);
    let both = [metric("recall", unit, true, false), metric("f1", unit, true, true), metric("em", unit, false, true)];
    assert_eq!(names(&both), ["f1"]);
    let unchosen =
        [metric("recall", unit, true, false), metric("f1", unit, false, true), metric("em", unit, false, true)];
    assert_eq!(names(&unchosen), ["f1", "em"], "none of the objective compares answers");
    assert!(names(&[metric("recall", unit, true, false)]).is_empty());
}

#[test]
fn an_answer_is_right_if_its_mean_score_is_at_least_half_of_the_best() {
    let value = Score::Value;
    let missing = |missing: Missing| Score::Missing(missing);
    let down = || missing(Missing::ProviderError("down".to_owned()));
    /// A metric's range and its score.
    type RangedScore = ((f64, f64), Score);
    let cases: [(&str, Vec<RangedScore>, AnswerOutcome); 10] = [
        ("at the threshold", vec![((0.0, 1.0), value(0.5))], AnswerOutcome::Right),
        ("below it", vec![((0.0, 1.0), value(0.49))], WRONG),
        ("the mean of two", vec![((0.0, 1.0), value(0.3)), ((0.0, 1.0), value(0.7))], AnswerOutcome::Right),
        ("levels from 1 to 5", vec![((1.0, 5.0), value(3.0))], AnswerOutcome::Right),
        ("levels from 1 to 5, below the middle", vec![((1.0, 5.0), value(2.0))], WRONG),
        ("a cosine of 0.2 is not half right", vec![((-1.0, 1.0), value(0.2))], WRONG),
        (
            "one failed, and the other counts",
            vec![((0.0, 1.0), down()), ((0.0, 1.0), value(1.0))],
            AnswerOutcome::Right,
        ),
        ("failed", vec![((0.0, 1.0), down())], AnswerOutcome::Failed),
        ("not asked", vec![((0.0, 1.0), missing(Missing::NotAsked("limit".to_owned())))], AnswerOutcome::None),
        ("no metric", Vec::new(), AnswerOutcome::None),
    ];
    for (case, scores, expected) in cases {
        let metrics: Vec<MetricResult> =
            (0..).zip(&scores).map(|(i, (range, _))| metric(&format!("m{i}"), *range, true, true)).collect();
        let by_name =
            metrics.iter().zip(scores).map(|(metric, (_, score))| (metric.name.clone(), Scored::plain(score)));
        let by_name: BTreeMap<String, Scored> = by_name.collect();
        let chosen: Vec<&MetricResult> = metrics.iter().collect();
        assert_eq!(judge_answer(&chosen, &by_name, || false), expected, "{case}");
    }
    let lower = MetricResult { higher_is_better: false, ..metric("wrong_statements", (0.0, 1.0), true, true) };
    let scores = BTreeMap::from([("wrong_statements".to_owned(), Scored::plain(value(0.9)))]);
    assert_eq!(judge_answer(&[&lower], &scores, || true), AnswerOutcome::Wrong { declines: true });
}

#[test]
fn every_step_is_written_by_its_name_and_read_again() {
    for step in LossStep::ALL {
        assert_eq!(serde_json::to_value(step).unwrap(), json!(step.name()));
        assert_eq!(serde_json::from_value::<LossStep>(json!(step.name())).unwrap(), *step);
        assert!(!step.title().is_empty() && step.meaning().ends_with('.'), "{step:?}");
    }
    assert!(LossStep::ALL.is_sorted(), "in the order of the pipeline");
    let lost = LossStep::ALL.iter().filter(|step| step.is_loss()).count();
    assert_eq!(lost, 8);
}

#[test]
fn losses_are_read_as_they_were_written_and_what_is_not_known_is_left_out() {
    let loss = QuestionLoss {
        step: LossStep::NotFound,
        component: Some("bm25".to_owned()),
        rank: None,
        evidence: vec![EvidenceLoss { step: Some(LossStep::NotFound), searched: 5, ..EvidenceLoss::default() }],
    };
    let written = serde_json::to_value(&loss).unwrap();
    let expected =
        json!({ "step": "not_found", "component": "bm25", "evidence": [{ "step": "not_found", "searched": 5 }] });
    assert_eq!(written, expected);
    assert_eq!(serde_json::from_value::<QuestionLoss>(written).unwrap(), loss);
}

#[test]
fn questions_are_counted_by_their_steps() {
    let of = |step| QuestionLoss { step, component: None, rank: None, evidence: Vec::new() };
    let losses = [of(LossStep::NotFound), of(LossStep::AnsweredRight), of(LossStep::NotFound)];
    let counts = count_losses(losses.iter());
    assert_eq!(counts, BTreeMap::from([(LossStep::NotFound, 2), (LossStep::AnsweredRight, 1)]));
}
