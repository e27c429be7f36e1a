//! Tests of metrics from prompts.

use super::super::MetricConfig;
use super::super::testing::{FakeJudge, answer, judged_by, passage, question, sample, score};
use super::*;
use crate::{Score, Scored};
use store::registry::SettingsFileError;

fn of(template: &str, output: PromptOutput) -> Config {
    Config { template: template.to_owned(), output, ..Config::default() }
}

fn run(config: &Config, fake: FakeJudge) -> Scored {
    let question = question("What is APT?", Some("A manager of packages."));
    let passages = [passage("a.txt", 0, 10)];
    let metric = config.build(&judged_by(fake).context()).unwrap();
    score(&*metric, &sample(&question, &passages, Some(&answer("A <b>tool</b> [1]."))))
}

fn refused(config: &Config) -> String {
    config.build(&judged_by(FakeJudge::new()).context()).err().unwrap().to_string()
}

fn choice() -> PromptOutput {
    PromptOutput::Choice(
        [("poor", 0.0), ("good", 1.0), ("fair", 0.5)].map(|(label, score)| (label.to_owned(), score)).into(),
    )
}

#[test]
fn each_output_is_read_as_its_kind() {
    let yes_no =
        |verdict: &str| run(&of("{answer} So?", PromptOutput::YesNo), FakeJudge::new().verdicts(verdict)).score;
    assert_eq!((yes_no("1"), yes_no("0")), (Score::Value(1.0), Score::Value(0.0)));
    let number = |reply: &str| {
        let output = PromptOutput::Number { min: 1.0, max: 5.0 };
        run(&of("{answer}", output), FakeJudge::new().replies(&[reply])).score
    };
    assert_eq!(number(r#"{"reason": "so", "number": 3.5}"#), Score::Value(3.5));
    assert!(matches!(number(r#"{"reason": "so", "number": 6}"#), Score::Missing(Missing::JudgeUnparsable(_))));
    for fake in [FakeJudge::new(), FakeJudge::new().without_probabilities()] {
        let scored = run(&of("{answer}", choice()), fake.ratings("2"));
        assert_eq!((&scored.score, &scored.detail["label"]), (&Score::Value(0.5), &json!("fair")));
    }
    let unread = run(&of("{answer}", choice()), FakeJudge::new().ratings("?").without_probabilities());
    assert!(matches!(unread.score, Score::Missing(Missing::JudgeUnparsable(_))), "{:?}", unread.score);
}

#[test]
fn ranges_are_those_of_the_output() {
    assert_eq!(of("", PromptOutput::YesNo).describe().range, None);
    assert_eq!(of("", PromptOutput::Number { min: -1.0, max: 5.0 }).describe().range, Some((-1.0, 5.0)));
    assert_eq!(of("", choice()).describe().range, Some((0.0, 1.0)));
}

#[test]
fn places_are_filled_and_decide_what_is_needed() {
    let fake = FakeJudge::new();
    let seen = fake.seen();
    run(&of("Q: {question}\nA: {answer}\nWrite {{answer}} and {\"a\": 1}.", PromptOutput::YesNo), fake);
    let prompt = seen.lock().unwrap()[0].messages[1].content.clone();
    assert_eq!(
        prompt,
        "Q: <question>\nWhat is APT?\n</question>\nA: <answer>\nA <b>tool</b>.\n</answer>\nWrite {answer} and {\"a\": 1}. \
         Answer with one word: Yes or No."
    );
    let needs = of("{question} {passages}", PromptOutput::YesNo).describe().needs;
    assert!(needs.passages && !needs.answer && !needs.reference && needs.judge);
}

#[test]
fn a_sample_cannot_close_the_tags_of_the_file() {
    let fake = FakeJudge::new();
    let seen = fake.seen();
    run(&of("<B>\n{answer}\n</B>\nSo?", PromptOutput::YesNo), fake);
    let prompt = seen.lock().unwrap()[0].messages[1].content.clone();
    assert!(prompt.contains("A &lt;b>tool&lt;/b>."), "{prompt}");
}

#[test]
fn what_cannot_work_is_refused_with_what_to_do() {
    for (config, part) in [
        (of("", PromptOutput::YesNo), "`file` is missing"),
        (of("Is it good?", PromptOutput::YesNo), "shows the judge nothing"),
        (of("{anwser}", PromptOutput::YesNo), "{anwser}, which stands for nothing"),
        (Config { file: "x".into(), ..of("{answer}", PromptOutput::YesNo) }, "exclude each other"),
        (Config { file: "x.txt".into(), ..Config::default() }, "x.txt is empty, or was not read"),
        (of("{answer}", PromptOutput::Number { min: 1.0, max: 1.0 }), "`min` must be below `max`"),
        (of("{answer}", PromptOutput::Choice([("a".to_owned(), 1.0)].into())), "2 to 9 labels"),
        (of("{answer}", PromptOutput::Choice([("a".to_owned(), 1.0), ("b".to_owned(), 1.0)].into())), "the same score"),
    ] {
        let reason = refused(&config);
        assert!(reason.contains(part), "{reason}");
    }
}

#[test]
fn a_file_becomes_part_of_the_settings() {
    let named = |file: &str| MetricConfig::Prompt(Config { file: file.to_owned(), ..Config::default() });
    let loaded = |file: &str, content: &str| {
        let mut metric = named(file);
        let read = |path: &str| {
            assert_eq!(path, file);
            Ok(content.to_owned())
        };
        metric.load(&read).unwrap();
        metric
    };
    assert!(named("a.txt").check().is_err());
    let first = loaded("a.txt", "{answer} So?");
    assert!(first.check().is_ok() && first.needs().answer);
    assert_eq!(first, loaded("b/c.txt", "{answer} So?"), "a file that is moved is the same prompt");
    assert_ne!(first, loaded("a.txt", "{answer} Really?"), "a file that changes is another");
    let failed = named("a.txt").load(&|path| Err(SettingsFileError::NotInBundle(path.to_owned())));
    let told = "metric prompt: a.txt is not in the bundle, which holds what its experiment needs";
    assert_eq!(failed.unwrap_err().to_string(), told);
    assert!(named("a.txt").load(&|_| Ok(" ".to_owned())).is_err());
}

#[test]
fn the_detail_names_the_prompt_by_its_content() {
    let scored = run(&of("{answer}", PromptOutput::YesNo), FakeJudge::new());
    assert_eq!(scored.detail["template"], Key::of_bytes(b"{answer}").short());
}
