//! What every metric of the registry must do.

use super::testing::{
    FakeJudge, answer, judged_by, judged_by_all, passage, question_with_evidence, sample, score, unjudged,
};
use super::*;
use crate::dataset::{Attack, AttackKind};
use std::collections::HashSet;

fn build(config: &MetricConfig) -> Box<dyn Metric> {
    config.build(&judged_by(FakeJudge::new()).context()).unwrap()
}

/// An answer that cites, and whose wording leaves open whether it answers, so
/// that every judge has something to decide.
const DOUBTFUL: &str = "The red fox [1]. The sources do not say more.";

fn full_question() -> Question {
    let attack = Attack { kind: AttackKind::Instruction, look_for: vec!["nothing of that".to_owned()] };
    Question {
        reference: Some("The red fox.".to_owned()),
        attack: Some(attack),
        ..question_with_evidence(&[(0, 10), (50, 90)])
    }
}

#[test]
fn every_score_is_in_its_range() {
    let question = full_question();
    let passages =
        [passage("a.txt", 0, 40), passage("a.txt", 0, 40), passage("b.txt", 0, 10), passage("a.txt", 45, 95)];
    for config in MetricConfig::examples() {
        let metric = build(&config);
        let (low, high) = config.range();
        for text in ["The red fox [1].", "nothing of that kind", "ü — 🦊 «x» \u{0} []] [1][1", "the"] {
            for n in 0..=passages.len() {
                let answer = answer(text);
                let scored = score(&*metric, &sample(&question, &passages[..n], Some(&answer)));
                if let Score::Value(value) = scored.score {
                    assert!(value.is_finite() && value >= low && value <= high, "{} {value}", config.name());
                } else {
                    assert!(n == 0, "{} gave {:?} for {text}", config.name(), scored.score);
                }
            }
        }
    }
}

#[test]
fn what_is_missing_gives_a_typed_reason() {
    let full = full_question();
    let passages = [passage("a.txt", 0, 40)];
    let answer = answer("The red fox.");
    for config in MetricConfig::examples() {
        let metric = build(&config);
        let reason =
            |question: &Question, answer: Option<&Answer>| match score(&*metric, &sample(question, &passages, answer))
                .score
            {
                Score::Missing(missing) => Some(missing),
                Score::Value(_) => None,
            };
        let name = config.name();
        let without_answer = reason(&full, None);
        assert_eq!(matches!(without_answer, Some(Missing::EmptyInput(_))), config.needs().answer, "{name}");
        let no_reference = Question { reference: None, ..full.clone() };
        let without_reference = reason(&no_reference, Some(&answer));
        assert_eq!(matches!(without_reference, Some(Missing::NotApplicable(_))), config.needs().reference, "{name}");
        let no_evidence = Question { evidence: Vec::new(), ..full.clone() };
        let without_evidence = reason(&no_evidence, Some(&answer));
        assert_eq!(matches!(without_evidence, Some(Missing::NotApplicable(_))), config.needs().evidence, "{name}");
    }
}

#[test]
fn a_system_that_refuses_or_finds_nothing_never_scores_better_than_the_worst_value() {
    let question = full_question();
    let found = [passage("a.txt", 0, 40)];
    for config in MetricConfig::examples().iter().filter(|config| config.needs_answer()) {
        let name = config.name();
        let of = |text: &str, passages: &[Passage]| {
            // A refusal makes no statement, and no judge supports it.
            let fake = FakeJudge::new().statements(&[]).verdicts(&"0".repeat(40)).ratings(&"0".repeat(9));
            let metric = config.build(&judged_by(fake).context()).unwrap();
            let answer = Answer { citations: Vec::new(), ..answer(text) };
            super::testing::wait(config.score(&*metric, &sample(&question, passages, Some(&answer)))).score
        };
        for (text, passages) in [(rag::generate::NO_ANSWER, &found[..]), ("", &found[..]), ("", &[])] {
            let score = of(text, passages);
            assert!(
                !matches!(score, Score::Missing(Missing::EmptyInput(_))),
                "{name}, {text:?}: {score:?}, so that no winner could ever be named"
            );
        }
        if ["faithfulness", "response_groundedness", "citation_precision", "citation_recall"].contains(&name) {
            for (text, passages) in [(rag::generate::NO_ANSWER, &found[..]), ("", &found[..]), ("The red fox.", &[])] {
                assert_eq!(of(text, passages), Score::Value(0.0), "{name}, {text:?}");
            }
        }
    }
    let noise = MetricConfig::with_defaults("noise_sensitivity").unwrap();
    assert_eq!(noise.worst(), 1.0, "less is better");
}

#[test]
fn a_judge_that_fails_is_a_provider_error() {
    let question = full_question();
    let passages = [passage("a.txt", 0, 40)];
    let answer = answer(DOUBTFUL);
    for config in MetricConfig::examples().iter().filter(|config| config.needs_judge()) {
        let metric = config.build(&judged_by(FakeJudge::new().failing()).context()).unwrap();
        let scored = score(&*metric, &sample(&question, &passages, Some(&answer)));
        assert!(
            matches!(scored.score, Score::Missing(Missing::ProviderError(_))),
            "{} {:?}",
            config.name(),
            scored.score
        );
    }
}

#[test]
fn scoring_twice_gives_the_same() {
    let question = full_question();
    let passages = [passage("a.txt", 0, 40)];
    let answer = answer(DOUBTFUL);
    for config in MetricConfig::examples() {
        let twice: Vec<Scored> =
            (0..2).map(|_| score(&*build(&config), &sample(&question, &passages, Some(&answer)))).collect();
        assert_eq!(twice[0], twice[1], "{}", config.name());
    }
}

#[test]
fn a_metric_is_refused_exactly_where_a_model_that_it_needs_is_missing() {
    for config in MetricConfig::examples() {
        assert_eq!(config.build(&unjudged().context()).is_err(), config.needs_judge(), "{}", config.name());
        let needs = config.needs();
        assert_eq!(
            config.build(&MetricContext::default()).is_err(),
            needs.judge || needs.embedder,
            "{}",
            config.name()
        );
    }
}

#[test]
fn settings_survive_json_and_unknown_ones_are_refused() {
    for config in MetricConfig::examples() {
        let json = serde_json::to_value(&config).unwrap();
        assert_eq!(serde_json::from_value::<MetricConfig>(json).unwrap(), config);
    }
    for config in MetricConfig::defaults() {
        let empty = serde_json::json!({ config.name(): {} });
        assert_eq!(serde_json::from_value::<MetricConfig>(empty).unwrap(), config);
        let unknown = serde_json::json!({ config.name(): { "no_such_setting": 1 } });
        assert!(serde_json::from_value::<MetricConfig>(unknown).is_err(), "{}", config.name());
    }
}

#[test]
fn a_metric_says_that_it_can_be_named_exactly_where_its_settings_have_a_name() {
    for config in MetricConfig::examples() {
        let named = serde_json::json!({ config.name(): { "name": "mine" } });
        let named = serde_json::from_value::<MetricConfig>(named);
        assert_eq!(config.can_be_named(), named.is_ok(), "{}", config.name());
    }
}

#[test]
fn default_metrics_and_preferred_ones_need_no_judge() {
    let names = |metrics: Vec<MetricConfig>| metrics.iter().map(MetricConfig::name).collect::<Vec<_>>();
    let defaults: Vec<MetricConfig> = MetricConfig::default_metrics().collect();
    assert_eq!(names(defaults), ["recall", "precision", "mrr", "ndcg", "hit_rate"]);
    let with_role = |role| names(MetricConfig::defaults().into_iter().filter(|m| m.objective_role() == role).collect());
    assert_eq!(with_role(ObjectiveRole::Preferred), ["ndcg", "token_f1", "answer_similarity"]);
    let excluded = with_role(ObjectiveRole::Excluded);
    assert!(["context_tokens", "attack_success", "personal_data"].iter().all(|name| excluded.contains(name)));
    for name in with_role(ObjectiveRole::Preferred) {
        assert!(MetricConfig::with_defaults(name).is_some_and(|metric| !metric.needs_judge()), "{name}");
    }
}

#[test]
fn metrics_are_found_by_name() {
    let names: HashSet<&str> = MetricConfig::NAMES.iter().copied().collect();
    assert_eq!(names.len(), MetricConfig::NAMES.len());
    for name in MetricConfig::NAMES {
        assert_eq!(MetricConfig::with_defaults(name).map(|config| config.name()), Some(*name));
    }
    assert!(MetricConfig::with_defaults("no_such_metric").is_none());
}

#[test]
fn settings_are_checked_without_models() {
    for config in MetricConfig::examples() {
        assert!(config.check().is_ok(), "{}", config.name());
    }
    let wrong = serde_json::json!({ "faithfulness": { "threshold": 2.0 } });
    assert!(serde_json::from_value::<MetricConfig>(wrong).unwrap().check().is_err());
    let empty: Vec<&str> =
        MetricConfig::defaults().iter().filter(|config| config.check().is_err()).map(MetricConfig::name).collect();
    assert_eq!(empty, ["rubric", "criteria", "prompt", "python"], "what is the user's to say has no default");
}

#[test]
fn a_panel_gives_every_judged_metric_its_majority() {
    let question = full_question();
    let passages = [passage("a.txt", 0, 40)];
    let answer = answer(DOUBTFUL);
    for config in MetricConfig::examples().iter().filter(|config| config.needs_judge()) {
        let name = config.name();
        let of = |judges: Vec<FakeJudge>| {
            let judges = judged_by_all(judges.into_iter().map(FakeJudge::chat));
            let metric = config.build(&judges.context()).unwrap();
            score(&*metric, &sample(&question, &passages, Some(&answer)))
        };
        let no = || FakeJudge::new().verdicts(&"0".repeat(40)).ratings(&"0".repeat(9));
        let (alone, other) = (of(vec![FakeJudge::new()]), of(vec![no()]));
        let most = of(vec![FakeJudge::new(), no(), FakeJudge::new()]);
        assert_eq!(most.score, alone.score, "{name}");
        let votes = most.detail["agreement"].as_f64().unwrap_or_else(|| panic!("{name}: {}", most.detail));
        let judges = most.detail["transcript"].as_array().unwrap().iter().filter(|call| call["judge"].is_string());
        assert!(votes >= 0.5 && judges.count() >= 3, "{name} {}", most.detail);
        let told = [&alone, &most].map(|scored| crate::explain(&scored.detail)).concat();
        assert!(
            !told.iter().any(|line| line.contains("\":") || line.contains("null")),
            "{name} is told as JSON: {told:#?}"
        );
        // Where the second judge would decide otherwise, two of them are divided.
        if other.score != alone.score {
            let divided = of(vec![FakeJudge::new(), no()]);
            assert!(matches!(divided.score, Score::Missing(Missing::JudgeUnparsable(_))), "{name} {:?}", divided.score);
        }
    }
}

/// Whether a JSON Schema lets the judge write free text, apart from the reason of a verdict.
fn holds_free_text(schema: &serde_json::Value) -> bool {
    let Some(fields) = schema.as_object() else { return false };
    let is_text = fields.get("type").is_some_and(|kind| kind == "string") && !fields.contains_key("enum");
    is_text || fields.iter().any(|(name, value)| name != "reason" && holds_free_text(value))
}

#[test]
fn every_text_that_a_judge_writes_is_asked_for_in_the_language_of_what_it_reads() {
    let question = full_question();
    let passages = [passage("a.txt", 0, 40)];
    let answer = answer(DOUBTFUL);
    let mut asked = HashSet::new();
    for config in MetricConfig::examples().iter().filter(|config| config.needs_judge()) {
        for fake in [FakeJudge::new(), FakeJudge::new().without_probabilities()] {
            let seen = fake.seen();
            let metric = config.build(&judged_by(fake).context()).unwrap();
            score(&*metric, &sample(&question, &passages, Some(&answer)));
            for request in seen.lock().unwrap().iter() {
                let prompt = &request.messages.last().unwrap().content;
                let writes = request.schema.as_ref().is_some_and(holds_free_text);
                assert!(!writes || prompt.contains("in the language of the text"), "{}: {prompt}", config.name());
                if writes {
                    asked.insert(config.name());
                }
            }
        }
    }
    assert!(asked.contains("faithfulness") && asked.contains("answer_relevancy") && asked.len() >= 6, "{asked:?}");
}

#[test]
fn the_estimate_counts_the_calls_that_a_metric_makes() {
    // Four statements, claims or sentences for every text, and four passages.
    let texts = ["a one", "a two", "a three", "a four"];
    let question = Question { reference: Some("One it is. Two. Three. Four.".to_owned()), ..full_question() };
    let passages: Vec<Passage> = (0..4).map(|i| passage("a.txt", i * 50, i * 50 + 40)).collect();
    let cited = Answer {
        citations: vec![1, 2],
        ..answer("One [1][2]. Two is [1][2]. It may be unclear, or three [1][2]. Four [1][2].")
    };
    for config in MetricConfig::examples().iter().filter(|config| config.needs_judge()) {
        let asked = |verdicts: &str| {
            let fake = FakeJudge::new().statements(&texts).verdicts(verdicts);
            let seen = fake.seen();
            let metric = config.build(&judged_by(fake).context()).unwrap();
            score(&*metric, &sample(&question, &passages, Some(&cited)));
            let requests = seen.lock().unwrap();
            let writing = requests.iter().filter(|request| request.choices.is_empty()).count() as u64;
            (writing, requests.len() as u64 - writing)
        };
        let (name, told) = (config.name(), config.judge_calls(4));
        // Half of the statements are right; which verdicts there are decides
        // how often some metrics ask.
        let (writing, voting) = asked(&"0101".repeat(20));
        // What is written by the judge of a degree or a choice is a vote.
        assert!(writing <= told.writing + told.voting, "{name} writes {writing}, and tells {told:?}");
        let (made, told) = (writing + voting, told.writing + told.voting);
        assert!(made <= told && told <= 2 * made + 1, "{name} makes {made} calls, and tells {told}");
    }
}

#[test]
fn what_does_not_apply_to_an_unanswerable_question_says_so_and_asks_nobody() {
    let question = Question { answerable: false, reference: Some("Nobody knows.".to_owned()), ..full_question() };
    let passages = [passage("a.txt", 0, 40)];
    let of = |config: &MetricConfig, text: &str| {
        let fake = FakeJudge::new().statements(&[]);
        let seen = fake.seen();
        let metric = config.build(&judged_by(fake).context()).unwrap();
        let answer = answer(text);
        let scored = super::testing::wait(config.score(&*metric, &sample(&question, &passages, Some(&answer))));
        let asked = seen.lock().unwrap().len();
        (scored.score, asked)
    };
    let mut scored = Vec::new();
    for config in MetricConfig::examples() {
        let name = config.name();
        if config.applies(&question).is_ok() {
            scored.push(name);
            let declined = of(&config, rag::generate::NO_ANSWER).0;
            assert!(!declined.is_failure(), "{name}: {declined:?}, where declining is right");
            continue;
        }
        let (score, asked) = of(&config, "In 1712 [1].");
        assert!(
            matches!(&score, Score::Missing(Missing::NotApplicable(reason)) if reason.contains("unanswerable")),
            "{name}"
        );
        assert_eq!(asked, 0, "{name}");
    }
    for name in ["faithfulness", "response_groundedness", "citation_precision", "citation_recall", "abstention"] {
        assert!(scored.contains(&name), "{name} looks only at what was retrieved and answered");
    }
}

#[test]
fn the_metrics_of_ragas_that_ask_a_judge_are_judged_here_too() {
    for name in [
        "faithfulness",
        "answer_relevancy",
        "context_precision",
        "context_recall",
        "answer_correctness",
        "factual_correctness",
        "noise_sensitivity",
        "context_entity_recall",
        "context_relevance",
        "response_groundedness",
        "answer_accuracy",
        "rubric",
        "criteria",
    ] {
        assert!(MetricConfig::with_defaults(name).is_some_and(|config| config.needs_judge()), "{name}");
    }
}
