//! Documents that a program holds, evidence that moved, and the files of generated questions.

use super::*;
use eval::{Evidence, Question};
use rag::Span;
use serde_json::json;

fn document(path: &str, text: &str) -> Document {
    rag::load::parse(path, text.as_bytes(), &rag::load::ParseLimits::default()).unwrap()
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn passages_of_a_large_corpus_are_a_sample_at_equal_distances() {
    let kept = |passages: u32, most: usize| {
        let mut sample = PassageSample::new(most);
        (0..passages).for_each(|number| sample.add(Chunk { number, ..Chunk::default() }));
        sample.kept.into_iter().map(|passage| passage.number).collect::<Vec<_>>()
    };
    assert_eq!(kept(4, 4), [0, 1, 2, 3], "a small corpus is taken as a whole");
    assert_eq!(kept(5, 4), [0, 2, 4]);
    assert_eq!(kept(9, 4), [0, 4, 8]);
    for passages in 0..200 {
        let kept = kept(passages, 16);
        let step = kept.get(1).copied().unwrap_or(1);
        assert!(kept.len() <= 16 && (0..passages).step_by(step as usize).eq(kept.iter().copied()), "{passages}");
    }
}

#[tokio::test]
async fn a_word_is_found_in_the_first_document_that_holds_it_whatever_the_case() {
    let held = [document("b.txt", "An OWL hoots at Night."), document("a.txt", "The owl sleeps. Ärger!")];
    let documents = Documents::Held(&held);
    let found = documents.find_words(&words(&["owl", "Sleeps", "ärger", "bat", "night"])).await.unwrap();
    let pair = |word: &str, path: &str| (word.to_owned(), path.to_owned());
    let expected = [pair("Sleeps", "a.txt"), pair("night", "b.txt"), pair("owl", "b.txt"), pair("ärger", "a.txt")];
    assert_eq!(found, expected, "by the word as it was given");
    assert!(documents.find_words(&[]).await.unwrap().is_empty());
    assert!(Documents::Held(&[]).find_words(&words(&["owl"])).await.unwrap().is_empty());
    // A part of a word counts too.
    assert_eq!(documents.find_words(&words(&["oot"])).await.unwrap(), [pair("oot", "b.txt")]);
}

#[tokio::test]
async fn passages_hold_every_sentence_of_every_document_once() {
    let sentence = |i: usize| format!("The mill number {i} grinds oats on the hill beside the river every morning.");
    let long: Vec<String> = (0..60).map(sentence).collect();
    let held = [document("long.txt", &long.join(" ")), document("short.txt", &sentence(99))];
    let passages = Documents::Held(&held).passages().await.unwrap();
    let of = |path: &str| passages.iter().filter(|passage| passage.document == path).collect::<Vec<_>>();
    assert!(of("long.txt").len() > 1, "it is cut: {}", of("long.txt").len());
    assert_eq!(of("short.txt").len(), 1);
    for text in &long {
        assert_eq!(of("long.txt").iter().filter(|passage| passage.text.contains(text)).count(), 1, "{text}");
    }
    assert!(Documents::Held(&[]).passages().await.unwrap().is_empty());
}

/// The document of a piece of evidence, its quote and its span.
type Quote<'a> = (&'a str, &'a str, Option<(usize, usize)>);

fn question(id: &str, evidence: &[Quote<'_>]) -> Question {
    let evidence = evidence.iter().map(|(document, quote, span)| Evidence {
        document: (*document).to_owned(),
        quote: (*quote).to_owned(),
        span: span.map(|(start, end)| Span { start, end }),
    });
    Question { id: id.to_owned(), question: format!("{id}?"), evidence: evidence.collect(), ..Question::default() }
}

#[tokio::test]
async fn evidence_is_found_where_it_is_now_and_what_is_lost_keeps_its_old_place() {
    let held = [document("a.txt", "A new beginning. An owl hoots."), document("b.txt", "Bats fly.")];
    let mut dataset = Dataset {
        questions: vec![
            question("moved", &[("a.txt", "An owl hoots.", Some((0, 13)))]),
            question("same", &[("b.txt", "Bats fly.", Some((0, 9)))]),
            question("lost", &[("b.txt", "Ducks swim.", Some((3, 14)))]),
            question("new", &[("b.txt", "fly", None)]),
            question("partly", &[("b.txt", "fly", None), ("b.txt", "Ducks swim.", None)]),
            question("none", &[]),
        ],
    };
    let found = Documents::Held(&held).anchor(&mut dataset).await.unwrap();
    let spans: Vec<Option<(usize, usize)>> = (dataset.questions.iter())
        .flat_map(|question| &question.evidence)
        .map(|evidence| evidence.span.map(|span| (span.start, span.end)))
        .collect();
    assert_eq!(spans, [Some((17, 30)), Some((0, 9)), Some((3, 14)), Some((5, 8)), Some((5, 8)), None]);
    assert_eq!(found.evidence, 6);
    let lost: Vec<&str> = found.lost.iter().map(|lost| lost.question.as_str()).collect();
    assert_eq!(lost, ["lost", "partly"]);
    let changed: Vec<&str> = found.difference.changed.iter().map(|changed| changed.id.as_str()).collect();
    assert_eq!(changed, ["moved", "new", "partly"]);
    assert_eq!((found.moved(), found.difference.unchanged), (2, 3), "of `partly` some is not found");
}

#[tokio::test]
async fn without_documents_everything_is_lost_and_nothing_changes() {
    let mut dataset = Dataset { questions: vec![question("a", &[("a.txt", "owl", Some((1, 4)))])] };
    let before = dataset.clone();
    let found = Documents::Held(&[]).anchor(&mut dataset).await.unwrap();
    assert_eq!((dataset, found.lost.len(), found.moved()), (before, 1, 0));
    let found = Documents::Held(&[]).anchor(&mut Dataset::default()).await.unwrap();
    assert_eq!((found.evidence, found.lost.len(), found.difference.unchanged), (0, 0, 0));
}

/// A generated dataset with these questions and rejections.
fn golden(questions: &[&str], rejected: &[&str]) -> Golden {
    let rejection = |document: &&str| {
        let rejection = json!({ "reason": "too_short", "document": document, "span": { "start": 0, "end": 3 } });
        serde_json::from_value(rejection).unwrap()
    };
    let mut generated = GeneratedQuestions::default();
    generated.dataset.questions.extend(questions.iter().map(|id| question(id, &[])));
    generated.rejected.extend(rejected.iter().map(rejection));
    let manifest = GoldenManifest {
        version: generated.dataset.version(),
        previous: None,
        created_ms: 1,
        model: Identity { provider: "test".into(), model: "m".into(), revision: "1".into(), parameters: json!({}) },
        options: GenerateOptions::default(),
        corpus: Key::of_bytes(b"corpus"),
        passages: 3,
        entities: 0,
        attempts: 4,
        kinds: BTreeMap::new(),
        lacking: BTreeMap::new(),
        rejected: BTreeMap::new(),
        personas: Vec::new(),
    };
    Golden { generated, manifest }
}

fn read_manifest(path: &Path) -> GoldenManifest {
    serde_json::from_slice(&std::fs::read(path.with_extension("manifest.json")).unwrap()).unwrap()
}

fn lines(path: &Path) -> Vec<serde_json::Value> {
    std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn questions_manifest_and_rejections_stand_beside_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("golden.jsonl");
    let paths = golden(&["a", "b"], &["x.txt", "y.txt"]).write(&path, false).unwrap();
    let names = paths.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
    assert_eq!(names, ["golden.jsonl", "golden.manifest.json", "golden.rejected.jsonl"]);
    assert_eq!(lines(&path).iter().map(|line| line["id"].as_str().unwrap()).collect::<Vec<_>>(), ["a", "b"]);
    let rejected: Vec<serde_json::Value> = lines(&path.with_extension("rejected.jsonl"));
    assert_eq!(rejected.iter().map(|line| line["document"].as_str().unwrap()).collect::<Vec<_>>(), ["x.txt", "y.txt"]);
    let manifest = read_manifest(&path);
    assert_eq!((manifest.previous, manifest.version), (None, golden(&["a", "b"], &[]).generated.dataset.version()));
}

#[test]
fn questions_that_are_there_are_replaced_only_on_request_and_their_version_is_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("golden.jsonl");
    golden(&["a"], &[]).write(&path, false).unwrap();
    let before = std::fs::read(&path).unwrap();
    let refused = golden(&["b"], &[]).write(&path, false).unwrap_err();
    assert!(matches!(refused, Error::File { operation: "write", .. }), "{refused}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    golden(&["b"], &[]).write(&path, true).unwrap();
    assert_eq!(lines(&path)[0]["id"], "b");
    assert_eq!(read_manifest(&path).previous, Some(golden(&["a"], &[]).generated.dataset.version()));
}

#[test]
fn a_manifest_of_another_origin_is_not_overwritten_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("golden.jsonl");
    let manifest = path.with_extension("manifest.json");
    std::fs::write(&manifest, r#"{"name":"a web app"}"#).unwrap();
    let refused = golden(&["a"], &[]).write(&path, false).unwrap_err();
    let text = crate::error_chain(&refused);
    assert!(text.contains("it is there already, and is no manifest of generated questions"), "{text}");
    assert!(!path.exists(), "nothing was written");
    golden(&["a"], &[]).write(&path, true).unwrap();
    assert_eq!(read_manifest(&path).passages, 3);
    // A manifest of generated questions whose questions were removed is overwritten.
    std::fs::remove_file(&path).unwrap();
    golden(&["b"], &[]).write(&path, false).unwrap();
    assert_eq!(lines(&path)[0]["id"], "b");
}

#[test]
fn what_a_person_rejected_stays_before_the_new_rejections() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("golden.jsonl");
    let rejected = path.with_extension("rejected.jsonl");
    assert!(rejected_by_a_person(&rejected).unwrap().is_empty(), "no file");
    let kept = r#"{"reason":"review","id":"old"}"#;
    std::fs::write(&rejected, format!("{{\"reason\":\"too_short\"}}\n{kept}\nno JSON\n{{}}\n")).unwrap();
    assert_eq!(rejected_by_a_person(&rejected).unwrap(), format!("{kept}\n").into_bytes());
    golden(&["a"], &["x.txt"]).write(&path, false).unwrap();
    let reasons: Vec<serde_json::Value> = lines(&rejected).into_iter().map(|mut line| line["reason"].take()).collect();
    assert_eq!(reasons, ["review", "too_short"]);
    golden(&["b"], &["y.txt", "z.txt"]).write(&path, true).unwrap();
    assert_eq!(lines(&rejected).len(), 3, "only the person's and the new ones");
}

#[test]
fn a_name_that_tells_no_format_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["golden.txt", "golden"] {
        let path = folder.path().join(name);
        let Err(Error::Refused(mistakes)) = golden(&["a"], &[]).write(&path, false) else { panic!("{name}") };
        assert!(mistakes.len() == 1 && mistakes[0].contains("let the name end in"), "{mistakes:?}");
        assert!(!path.exists() && !path.with_extension("manifest.json").exists());
    }
}
