//! Which records of judges count, and which metrics may choose by them.

use super::*;
use crate::record::fixture::{session, text};
use eval::{Evidence, MetricConfig, verdict::VerdictKind};
use rag::INSTRUCTION_TOKENS;
use serde_json::json;

const SPACE: &str = "chunker = \"sentence\"\nretriever = \"bm25\"\ngenerator = { compact = { model = \"gpt\" } }";

fn case(kind: VerdictKind, question: usize, against: usize, item: usize) -> Case {
    let text = |bytes: usize| "x".repeat(bytes);
    Case { kind, question: text(question), against: text(against), item: text(item), label: true }
}

fn golden(words: &[&str]) -> Vec<Question> {
    let question = |word: &&str| Question {
        id: (*word).to_owned(),
        question: format!("What is {word}?"),
        reference: Some(format!("{word} is a thing")),
        evidence: vec![Evidence { document: "a".into(), quote: format!("{word} stands here"), span: None }],
        ..Question::default()
    };
    words.iter().map(question).collect()
}

/// A record of a model that is qualified for these kinds.
fn record_for(model: &Identity, time_ms: i64, kinds: &[(VerdictKind, bool)]) -> QualificationRecord {
    let kind = |&(kind, qualified): &(VerdictKind, bool)| {
        let kind = json!({ "kind": kind, "n": 60, "unreadable": 0, "qualified": qualified, "reason": "as planted" });
        serde_json::from_value(kind).unwrap()
    };
    QualificationRecord {
        judge: "strict".to_owned(),
        model: model.clone(),
        cases: "abc".to_owned(),
        n_cases: 60,
        time_ms,
        kinds: kinds.iter().map(kind).collect(),
    }
}

async fn keep(session: &Session, record: &QualificationRecord) {
    let bytes = serde_json::to_vec(record).unwrap();
    session.workspace().keep_qualification(&record_name(&record.model), bytes).await.unwrap();
}

fn identity_of(session: &Session, name: &str) -> Identity {
    session.experiment.models[name].identity(session.context()).unwrap()
}

#[test]
fn cases_are_planted_where_none_are_labelled_and_as_many_as_asked_for() {
    let one = [case(VerdictKind::Correct, 1, 1, 1)];
    for (asked, labelled, expected) in [
        (None, &one[..0], 60),
        (None, &one[..], 0),
        (Some(7), &one[..0], 7),
        (Some(7), &one[..], 7),
        (Some(0), &one[..0], 0),
    ] {
        assert_eq!(planted_count(asked, labelled), expected, "{asked:?}, {} labelled", labelled.len());
    }
}

#[test]
fn equal_questions_give_equal_cases_and_no_question_gives_none() {
    let questions = golden(&["alpha", "beta", "gamma", "delta"]);
    assert_eq!(planted_cases(&questions, 4), planted_cases(&questions, 4));
    for kind in VerdictKind::ALL {
        let of_kind = |n: usize| planted_cases(&questions, n).iter().filter(|case| case.kind == *kind).count();
        assert_eq!([of_kind(0), of_kind(4), of_kind(6)], [0, 4, 6], "{kind:?}");
    }
    assert!(planted_cases(&[], 4).is_empty());
    assert!(planted_cases(&questions[..1], 4).is_empty(), "nothing to be wrong about");
}

#[test]
fn each_judge_is_asked_once_about_each_case_in_its_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let session = session(folder.path(), &text(SPACE, "metrics = [\"recall\"]"));
    let cases = [case(VerdictKind::Correct, 10, 20, 13), case(VerdictKind::Supported, 0, 3, 0)];
    // No tokenizer is known for the judges: texts of 10, 20 and 13 letters are estimated as 3, 5 and 3 tokens, and one
    // of 3 letters as 1.
    let read = 2 * INSTRUCTION_TOKENS + 12;
    let judges = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
    for names in [&["gpt"][..], &["gpt", "strict"]] {
        let found = qualify_cost(&session, &judges(names), &cases).unwrap();
        assert_eq!(found.models.iter().map(|model| model.model.as_str()).collect::<Vec<_>>(), names);
        for model in &found.models {
            assert_eq!((model.calls, model.prompt_tokens, model.completion_tokens), (2, read, 120));
        }
        let dollars = names.len() as f64 * (read as f64 * 2.0 + 120.0 * 8.0) / 1e6;
        assert!((found.cost_usd.unwrap() - dollars).abs() < 1e-12, "{found:?}");
    }
    let nothing = qualify_cost(&session, &judges(&["gpt"]), &[]).unwrap();
    assert_eq!((nothing.calls, nothing.cost_usd), (0, Some(0.0)));
    let unpriced = qualify_cost(&session, &judges(&["unpriced"]), &cases).unwrap();
    assert_eq!((unpriced.calls, unpriced.cost_usd), (2, None));
}

#[test]
fn all_judges_that_the_experiment_lacks_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let session = session(folder.path(), &text(SPACE, "metrics = [\"recall\"]"));
    let judges = ["other", "gpt", "third"].map(str::to_owned);
    let Err(Error::Refused(mistakes)) = qualify_cost(&session, &judges, &[]) else { panic!("a refusal") };
    let lacking = |name: &str| format!("there is no model `{name}` in the experiment file: add [models.{name}]");
    assert_eq!(mistakes, [lacking("other"), lacking("third")]);
}

#[tokio::test]
async fn a_judge_has_the_record_of_its_own_model_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let metrics = "metrics = [\"token_f1\", \"faithfulness\"]\njudge = [\"strict\", \"gpt\"]";
    let session = session(folder.path(), &text(SPACE, metrics));
    let strict = identity_of(&session, "strict");
    let names = |judges: &[JudgeResult]| {
        judges.iter().map(|it| (it.judge.clone(), it.record.as_ref().map(|record| record.time_ms))).collect::<Vec<_>>()
    };
    let none = judges(&session).await.unwrap();
    assert_eq!(names(&none), [("strict".to_owned(), None), ("gpt".to_owned(), None)], "in the order of the file");

    keep(&session, &record_for(&strict, 7, &[])).await;
    let kept = judges(&session).await.unwrap();
    assert_eq!(names(&kept), [("strict".to_owned(), Some(7)), ("gpt".to_owned(), None)]);
    assert_eq!(record(session.workspace().root(), &strict).unwrap().time_ms, 7, "the same from the folder alone");
    assert_eq!(record(session.workspace().root(), &identity_of(&session, "gpt")), None);

    // A later one replaces it.
    keep(&session, &record_for(&strict, 9, &[])).await;
    assert_eq!(names(&judges(&session).await.unwrap())[0].1, Some(9));
}

#[tokio::test]
async fn a_record_of_another_model_and_one_that_cannot_be_read_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let metrics = "metrics = [\"token_f1\", \"faithfulness\"]\njudge = \"strict\"";
    let session = session(folder.path(), &text(SPACE, metrics));
    let strict = identity_of(&session, "strict");
    let other = Identity { revision: "another".to_owned(), ..strict.clone() };
    assert_ne!(record_name(&other), record_name(&strict), "another revision has its own file");
    let name = record_name(&strict);
    for bytes in [serde_json::to_vec(&record_for(&other, 7, &[])).unwrap(), b"{}".to_vec(), b"cut o".to_vec()] {
        session.workspace().keep_qualification(&name, bytes).await.unwrap();
        assert_eq!(judges(&session).await.unwrap()[0].record, None);
        assert_eq!(record(session.workspace().root(), &strict), None);
    }
}

/// Which kinds a judge has records of, and what is said of each metric.
#[tokio::test]
async fn a_judged_metric_chooses_only_where_every_judge_is_qualified_for_its_kind() {
    use VerdictKind::{Correct, Supported};
    let kind = |name: &str| {
        let metric: MetricConfig = serde_json::from_value(json!({ name: {} })).unwrap();
        metric.verdict().map(|(kind, _)| kind)
    };
    assert_eq!(kind("faithfulness"), Some(Supported));
    // The kinds of the record of each judge, none where there is no record, and the parts of each objection.
    type Record<'a> = Option<&'a [(VerdictKind, bool)]>;
    let table: [(&str, [Record<'_>; 2], &[&str]); 6] = [
        ("both", [Some(&[(Supported, true)]), Some(&[(Supported, true)])], &[]),
        ("neither was tried", [None, None], &["`strict` was never tried", "`gpt` was never tried"]),
        (
            "one was not tried",
            [Some(&[(Supported, true)]), None],
            &["`gpt` was never tried: run the qualification of `gpt`"],
        ),
        (
            "one failed",
            [Some(&[(Supported, false)]), Some(&[(Supported, true)])],
            &["`strict` is not qualified for `supported`: as planted"],
        ),
        (
            "another kind does not count",
            [Some(&[(Supported, true)]), Some(&[(Correct, true)])],
            &["`gpt` was tried on no case of `supported`"],
        ),
        ("other kinds may fail", [Some(&[(Correct, false), (Supported, true)]), Some(&[(Supported, true)])], &[]),
    ];
    for (case, records, expected) in table {
        let folder = tempfile::tempdir().unwrap();
        let metrics =
            "metrics = [\"token_f1\", \"faithfulness\"]\njudge = [\"strict\", \"gpt\"]\nobjective = [\"faithfulness\"]";
        let session = session(folder.path(), &text(SPACE, metrics));
        for (name, kinds) in ["strict", "gpt"].into_iter().zip(records) {
            if let Some(kinds) = kinds {
                keep(&session, &record_for(&identity_of(&session, name), 1, kinds)).await;
            }
        }
        let found = check_judges(&session).await.unwrap();
        assert_eq!(found.len(), expected.len(), "{case}: {found:?}");
        for (found, expected) in found.iter().zip(expected) {
            let begin = "evaluate.objective: `faithfulness` cannot choose a winner: ";
            assert!(found.starts_with(begin) && found.contains(expected), "{case}: {found}");
        }
    }
}

#[tokio::test]
async fn a_judged_metric_that_does_not_choose_needs_no_qualified_judge() {
    for objective in ["", "objective = [\"token_f1\"]\n"] {
        let folder = tempfile::tempdir().unwrap();
        let metrics = format!("metrics = [\"token_f1\", \"faithfulness\"]\njudge = \"strict\"\n{objective}");
        let session = session(folder.path(), &text(SPACE, &metrics));
        assert!(check_judges(&session).await.unwrap().is_empty(), "{objective}");
    }
}
