//! What is estimated from a sample of files: beside a plan that reads everything, and beside the truth.

use super::*;
use crate::{
    plan_summary,
    record::fixture::{UNREACHABLE, endpoint, session, text},
};
use std::{collections::BTreeSet, fs, path::Path};

const SPACE: &str = "chunker = [{ sentence = { chunk_size = 64, chunk_overlap = 0 } }, \"sentence_window\"]\n\
    enrich = { contextual = { model = \"gpt\" } }\nretriever = [{ bm25 = { top_k = 2 } }]\n\
    generator = { compact = { model = \"gpt\", max_tokens = 16 } }";

/// Writes the documents of a corpus, and two golden questions about one of them.
fn write(folder: &Path, files: impl IntoIterator<Item = (String, String)>) {
    fs::create_dir_all(folder.join("docs")).unwrap();
    for (name, text) in files {
        fs::write(folder.join("docs").join(name), text).unwrap();
    }
    let question =
        |id: &str| serde_json::json!({ "id": id, "question": "Where is the mill?", "reference": "By the river." });
    fs::write(folder.join("golden.jsonl"), format!("{}\n{}\n", question("a"), question("b"))).unwrap();
}

/// A text of so many sentences.
fn sentences(n: usize) -> String {
    "The old mill stands by the river and grinds corn. ".repeat(n)
}

/// An experiment whose models answer.
fn experiment(evaluate: &str) -> String {
    text(SPACE, &format!("metrics = [\"token_f1\"]\n{evaluate}")).replace(UNREACHABLE, &endpoint("So it is."))
}

/// 400 files of two formats and many sizes. One in twenty holds only white space.
fn many_files() -> Vec<(String, String)> {
    let file = |i: usize| {
        let text = sentences(1 + (i * 37) % 60 + if i % 50 == 3 { 400 } else { 0 });
        let text = if i % 20 == 7 { " ".repeat(text.len()) } else { text };
        (format!("{i:03}.{}", if i.is_multiple_of(4) { "md" } else { "txt" }), text)
    };
    (0..400).map(file).collect()
}

/// The names of all files below a folder, without the journal's.
fn names(folder: &Path) -> BTreeSet<String> {
    let files = walkdir::WalkDir::new(folder).into_iter().flatten().filter(|entry| entry.file_type().is_file());
    let names = files.map(|entry| entry.path().display().to_string());
    names.filter(|name| !name.contains("journal.db")).collect()
}

fn holds(estimate: &Estimate<u64>, truth: u64) -> bool {
    (estimate.low..=estimate.high).contains(&truth)
}

#[tokio::test]
async fn a_small_corpus_is_read_as_a_whole_and_costs_what_its_plan_says() {
    let folder = tempfile::tempdir().unwrap();
    let texts = [("a.txt", 5), ("b.md", 40), ("c.txt", 12)];
    write(folder.path(), texts.map(|(name, n)| (name.to_owned(), sentences(n))));
    let session = session(folder.path(), &experiment(""));
    let found = sample_plan(&session, 200).await.unwrap();
    let prepared = session.prepare().await.unwrap();
    let planned = plan_summary(&session, &prepared).await.unwrap();
    let expected = planned.cost.unwrap();
    assert!(found.is_whole && found.sampled_files == 3 && found.documents.is_exact());
    assert_eq!((found.trials, found.documents.estimate), (planned.trials, 3));
    assert_eq!(found.text_bytes.estimate, prepared.text_bytes as u64);
    assert!(found.cost.calls.is_exact() && found.cost.tokens.is_exact());
    assert_eq!((found.cost.calls.estimate, found.cost.tokens.estimate), (expected.calls, expected.tokens));
    assert_eq!(found.cost.cost_usd.map(|usd| usd.estimate), expected.cost_usd);
    assert_eq!(found.cost.models.len(), expected.models.len());
    for (found, expected) in found.cost.models.iter().zip(&expected.models) {
        let of = |estimate: &Estimate<u64>| estimate.estimate;
        assert_eq!(found.model, expected.model);
        assert_eq!(
            (of(&found.calls), of(&found.prompt_tokens), of(&found.completion_tokens)),
            (expected.calls, expected.prompt_tokens, expected.completion_tokens)
        );
    }
    assert!(found.chunks.iter().all(|chunker| chunker.chunks.estimate > 0), "{:?}", found.chunks);
}

#[tokio::test]
async fn one_shard_stands_for_all_shards_of_a_larger_corpus() {
    let folder = tempfile::tempdir().unwrap();
    // The samples of a plan and of this estimate differ, but the files are equal.
    write(folder.path(), (0..150).map(|i| (format!("{i}.txt"), sentences(20))));
    let session = session(folder.path(), &experiment(""));
    let found = sample_plan(&session, 200).await.unwrap().cost;
    let prepared = session.prepare().await.unwrap();
    assert!(prepared.plan.tasks.iter().filter(|task| task.operator() == crate::Operator::Load).count() > 1);
    let expected = plan_summary(&session, &prepared).await.unwrap().cost.unwrap();
    let is_close = |found: u64, expected: u64| found.abs_diff(expected) * 100 <= expected;
    assert!(is_close(found.calls.estimate, expected.calls), "{} {}", found.calls.estimate, expected.calls);
    assert!(is_close(found.tokens.estimate, expected.tokens), "{} {}", found.tokens.estimate, expected.tokens);
}

#[tokio::test]
async fn the_intervals_of_a_sample_hold_what_the_whole_corpus_has_and_costs() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), many_files());
    let session = session(folder.path(), &experiment(""));
    let before = names(&folder.path().join("store"));
    let truth = sample_plan(&session, 400).await.unwrap();
    let found = sample_plan(&session, 80).await.unwrap();
    assert_eq!(names(&folder.path().join("store")), before, "nothing was stored");
    assert!(truth.is_whole && !found.is_whole && found.sampled_files == 80);
    assert_eq!((found.files, found.bytes), (400, truth.bytes));
    assert_eq!((truth.documents.estimate, truth.rejected.files.estimate), (380, 20));
    assert!(holds(&found.documents, 380), "{:?}", found.documents);
    assert!(holds(&found.rejected.files, 20), "{:?}", found.rejected);
    assert!(holds(&found.text_bytes, truth.text_bytes.estimate), "{:?} {:?}", found.text_bytes, truth.text_bytes);
    assert!(holds(&found.tokens, truth.tokens.estimate), "{:?} {:?}", found.tokens, truth.tokens);
    assert!(holds(&found.cost.calls, truth.cost.calls.estimate), "{:?} {:?}", found.cost.calls, truth.cost.calls);
    assert!(holds(&found.cost.tokens, truth.cost.tokens.estimate), "{:?} {:?}", found.cost.tokens, truth.cost.tokens);
    assert!(!found.cost.calls.is_exact() && !found.tokens.is_exact());
    let usd = (found.cost.cost_usd.unwrap(), truth.cost.cost_usd.unwrap());
    assert!((usd.0.low..=usd.0.high).contains(&usd.1.estimate), "{usd:?}");
    let [txt, md] = [".txt", ".md"].map(|name| found.endings.iter().find(|it| it.ending == name).unwrap());
    assert_eq!((txt.files, md.files, txt.sampled + md.sampled), (300, 100, 80));
    assert!(md.sampled >= 5);

    let again = sample_plan(&session, 80).await.unwrap();
    assert_eq!((again.cost, again.text_bytes), (found.cost, found.text_bytes), "the seed is fixed");
}

#[tokio::test]
async fn the_interval_of_the_documents_knows_that_few_mailboxes_hold_most_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let mail = |i: usize| {
        format!("From a@b.c Tue Mar  5 09:30:00 2024\nFrom: a@b.c\nSubject: Letter {i}\n\n{}\n\n", sentences(2))
    };
    let mut truth = 0;
    let file = |i: usize| match i % 25 {
        3 => {
            let mails = 2 + i * 7 % 90;
            truth += mails;
            (format!("{i:03}.mbox"), (0..mails).map(mail).collect())
        }
        _ => {
            truth += 1;
            (format!("{i:03}.txt"), sentences(2 + i % 9))
        }
    };
    write(folder.path(), (0..400).map(file).collect::<Vec<_>>());
    let session = session(folder.path(), &experiment(""));
    let found = sample_plan(&session, 100).await.unwrap();
    assert!(!found.is_whole && holds(&found.documents, truth as u64), "{:?} of {truth}", found.documents);
    assert!(found.documents.high > found.documents.low + 20, "{:?}", found.documents);
    let whole = sample_plan(&session, 1000).await.unwrap();
    assert_eq!((whole.documents.estimate, whole.documents.is_exact()), (truth as u64, true));
}

#[tokio::test]
async fn rejected_files_are_counted_by_reason_with_the_first_of_each() {
    let folder = tempfile::tempdir().unwrap();
    let page = "<html><head><title>Not found</title></head><body>No.</body></html>";
    let files = [("a.txt", "An owl."), ("b.txt", ""), ("c.txt", " "), ("d.pdf", page), ("e.md", "# Owls\n\nAn owl.")];
    write(folder.path(), files.map(|(name, text)| (name.to_owned(), text.to_owned())));
    // No PDF library is here, which is a mistake for a corpus with PDF files.
    fs::rename(folder.path().join("docs/d.pdf"), folder.path().join("docs/d.docx")).unwrap();
    let session = session(folder.path(), &experiment(""));
    let found = sample_plan(&session, 200).await.unwrap();
    assert_eq!((found.documents.estimate, found.rejected.files.estimate), (2, 3));
    assert!((found.rejected.share.estimate - 0.6).abs() < 1e-9);
    let reasons: Vec<_> = found.rejected.reasons.iter().map(|it| (it.files, it.path.as_str())).collect();
    assert_eq!(reasons, [(2, "b.txt"), (1, "d.docx")]);
    assert!(found.rejected.reasons[0].reason.starts_with("no text"), "{:?}", found.rejected.reasons);
}

#[tokio::test]
async fn a_file_that_is_too_large_is_known_to_be_rejected_without_being_drawn() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), [("a.txt".to_owned(), sentences(2)), ("b.txt".to_owned(), sentences(2_000))]);
    let limited = experiment("") + "[corpus.limits]\nfile_bytes = 50000\n";
    let session = session(folder.path(), &limited);
    let found = sample_plan(&session, 10).await.unwrap();
    assert_eq!((found.sampled_files, found.documents.estimate), (1, 1));
    assert_eq!((found.rejected.files.estimate, found.rejected.reasons[0].path.as_str()), (1, "b.txt"));
}

#[tokio::test]
async fn mistakes_are_told_as_a_plan_tells_them() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), [("a.txt".to_owned(), sentences(2))]);
    let refused = |error: Error| match error {
        Error::Refused(mistakes) => mistakes,
        other => panic!("{other}"),
    };
    let texts = [
        experiment("").replace("source = \"docs\"", "source = \"nowhere\""),
        experiment("").replace("golden.jsonl", "none.jsonl"),
        experiment("").replace("source = \"docs\"", "source = \"docs\"\nmetadata = \"metadata.csv\""),
        experiment("budget = { usd = 1 }").replace("model = \"gpt\" }", "model = \"unpriced\" }"),
    ];
    fs::write(folder.path().join("metadata.csv"), "path,year\nother.txt,1901\n").unwrap();
    for text in texts {
        let session = session(folder.path(), &text);
        let planned = refused(session.prepare().await.err().unwrap());
        assert_eq!(refused(sample_plan(&session, 200).await.err().unwrap()), planned);
    }
}

#[tokio::test]
async fn questions_that_are_not_generated_yet_and_a_corpus_without_text_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), [("a.txt".to_owned(), String::new())]);
    let refused = async |text: &str| match sample_plan(&session(folder.path(), text), 200).await {
        Err(Error::Refused(mistakes)) => mistakes.join("\n"),
        other => panic!("{other:?}"),
    };
    let found = refused(&experiment("")).await;
    assert!(found.contains("holds no readable document") && found.contains("a.txt: no text"), "{found}");
    let generate = "path = \"none.jsonl\"\ngenerate = { model = \"gpt\" }";
    let found = refused(&experiment("").replace("path = \"golden.jsonl\"", generate)).await;
    assert!(found.contains("to be generated"), "{found}");
}

#[tokio::test]
async fn a_cap_between_the_ends_of_an_interval_may_be_exceeded() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), many_files());
    let tokens = |text: &str| {
        let session = session(folder.path(), text);
        async move { sample_plan(&session, 80).await.unwrap().cost }
    };
    let Estimate { estimate, low, high } = tokens(&experiment("")).await.tokens;
    assert!(low < estimate && estimate < high);
    let cap = |tokens: u64| experiment(&format!("budget = {{ tokens = {tokens} }}"));
    let exceeded = async |limit: u64| {
        let cost = tokens(&cap(limit)).await;
        (cost.exceeds.len(), cost.may_exceed.len())
    };
    assert_eq!(exceeded(low - 2).await, (1, 0));
    assert_eq!(exceeded(estimate).await, (0, 1));
    assert_eq!(exceeded(high + 1).await, (0, 0));
}
