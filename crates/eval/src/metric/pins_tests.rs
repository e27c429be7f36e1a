//! What each metric of the registry asks its judge and what it scores, for
//! fixed samples, is pinned in `pins/metric.txt`: a prompt or a score that
//! changes needs a new `VERSION`.

use super::testing::{FakeJudge, answer, judged_by, passage, question_with_evidence, sample, score};
use super::*;
use crate::dataset::{Attack, AttackKind};
use serde_json::{Value, json};
use std::path::Path;
use store::testing::{Pin, check_pins};

const ANSWERS: [&str; 4] = [
    "The red fox jumps over 3 lazy dogs [1]. It sleeps in Berlin; mills grind rye [2]. The sources do not say more.",
    "the Red fox.",
    "The sources do not answer this question.",
    "ü — 🦊 «x» []] [1][1] </source> Nothing of that kind.",
];
const STATEMENTS: [&str; 3] = ["The fox is red.", "It jumps over three dogs.", "Berlin"];
/// Verdicts and ratings, so that each way of counting is taken.
const JUDGES: [(&str, &str); 3] = [("0101101", "1202"), ("1111111", "2222"), ("0000000", "0000")];

/// Everything that a metric says about the samples, and what it asked.
fn output(config: &MetricConfig) -> Value {
    let full = Question {
        reference: Some("The red fox jumps over three lazy dogs and sleeps in Berlin.".to_owned()),
        attack: Some(Attack { kind: AttackKind::Instruction, look_for: vec!["dogs [1]".to_owned()] }),
        ..question_with_evidence(&[(0, 10), (50, 90)])
    };
    let questions = [
        full.clone(),
        Question { reference: None, ..full.clone() },
        Question { evidence: Vec::new(), ..full.clone() },
        Question { answerable: false, ..full },
    ];
    let mut passages = [passage("a.txt", 0, 40), passage("b.txt", 0, 10), passage("a.txt", 45, 95)];
    passages[0].text = "The red fox jumps over three lazy dogs.".to_owned();
    passages[1].heading = Some("Mills > Rye".to_owned());
    let mut said = Vec::new();
    for probabilities in if config.needs_judge() { &[true, false][..] } else { &[true][..] } {
        for (verdicts, ratings) in if config.needs_judge() { &JUDGES[..] } else { &JUDGES[..1] } {
            for question in &questions {
                for text in ANSWERS {
                    for n in [0, 3] {
                        let fake = FakeJudge::new().statements(&STATEMENTS).verdicts(verdicts).ratings(ratings);
                        let fake = fake.question("Which fox jumps?").says("0.5");
                        let fake = if *probabilities { fake } else { fake.without_probabilities() };
                        let seen = fake.seen();
                        let metric = config.build(&judged_by(fake).context()).unwrap();
                        let answer = Answer { citations: vec![1, 2], ..answer(text) };
                        let scored = match config.applies(question) {
                            Ok(()) => score(&*metric, &sample(question, &passages[..n], Some(&answer))),
                            Err(missing) => Scored::missing(missing),
                        };
                        let requests = seen.lock().unwrap().clone();
                        said.push(json!([scored, requests]));
                    }
                }
            }
        }
    }
    said.into()
}

#[test]
fn metrics_are_pinned() {
    let pin = |config: &MetricConfig| {
        let input = json!([config, ANSWERS, STATEMENTS, JUDGES]);
        Pin::new(config.name(), config.version(), &input, &output(config)).unwrap()
    };
    let pins: Vec<Pin> = MetricConfig::examples().iter().map(pin).collect();
    assert_eq!(pins.len(), MetricConfig::NAMES.len());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("pins/metric.txt");
    let rewrite = std::env::var_os("REVERIE_WRITE_PINS").is_some();
    if let Err(reason) = check_pins(&file, &pins, &[], rewrite) {
        panic!("{reason}");
    }
}
