//! Traces evidence through a run whose chunks, index and passages are in a store.

use super::*;
use crate::{
    artifact::{self, ArtifactTable, DocumentRow, PassageRow},
    gather::price::tests::{ALL, Fixture},
    layout,
    results::{EvidenceLoss, fixture},
};
use eval::Evidence;
use rag::{Chunk, Document, Passage, Span, index::Bm25Index};

const SPACE: &str = "chunker = \"sentence\"\nretriever = { bm25 = { top_k = 1 } }\n";

/// The texts of three files. The last has no chunk.
const TEXTS: [(&str, &[&str]); 3] = [
    ("a.txt", &["Why owls sleep?", "Owls hunt at night."]),
    ("b.txt", &["Why the mills of the valley turn slowly in winter, nobody knows.", "They are old."]),
    ("c.txt", &[]),
];

fn chunks((document, texts): (&str, &[&str])) -> Vec<Chunk> {
    let mut start = 0;
    let chunk = |(number, text): (u32, &&str)| {
        let span = Span { start, end: start + text.len() };
        start = span.end + 1;
        Chunk {
            document: document.to_owned(),
            number,
            span,
            text: (*text).to_owned(),
            searchable: true,
            space: " ".into(),
            ..Chunk::default()
        }
    };
    (0u32..).zip(texts).map(chunk).collect()
}

fn document(path: &str) -> DocumentRow {
    DocumentRow::Document(Document {
        path: path.to_owned(),
        content: store::Key::of_bytes(path.as_bytes()),
        format: rag::Format::Text,
        title: None,
        author: None,
        text: "text".to_owned(),
        pages: Vec::new(),
        headings: Vec::new(),
        metadata: Default::default(),
        tables: Vec::new(),
        problems: Vec::new(),
    })
}

async fn keep<T: ArtifactTable>(fixture: &Fixture, id: TaskId, rows: &[T]) {
    let name = fixture.plan.tasks[id].artifact();
    fixture.prepared.run_context.store.replace(&name, artifact::encode(rows).unwrap()).await.unwrap();
}

/// A run of four questions. The search found the first chunk of `a.txt` for all of them.
async fn finished(evidence: [(&str, usize, usize); 4]) -> Fixture {
    let mut fixture = Fixture::new(SPACE, ALL, None).await;
    let tasks = fixture.plan.trials[0].clone();
    for (question, (document, start, end)) in fixture.prepared.questions.iter_mut().zip(evidence) {
        let span = Some(Span { start, end });
        question.evidence = vec![Evidence { document: document.to_owned(), quote: "quote".to_owned(), span }];
    }
    let mut texts = Vec::new();
    for (&shard, file) in tasks.corpus.chunks.iter().zip(TEXTS) {
        let rows = chunks(file);
        texts.extend(rows.iter().map(|chunk| chunk.text.clone()));
        keep(&fixture, shard, &rows).await;
        let Work::Chunk(work) = &fixture.plan.tasks[shard].work else { panic!("chunks") };
        keep(&fixture, work.documents, &[document(file.0)]).await;
    }
    for &file in tasks.corpus.indexes.values().flatten() {
        let name = fixture.plan.tasks[file].artifact();
        let store = &fixture.prepared.run_context.store;
        store.replace(&name, Bm25Index::build(&texts).to_bytes()).await.unwrap();
    }
    let first = chunks(TEXTS[0]).swap_remove(0);
    let passage = Passage { document: first.document, span: first.span, ..Passage::default() };
    let row = |question: &Question| PassageRow {
        question: question.id.clone(),
        rank: 1,
        passage: Some(passage.clone()),
        remarks: Vec::new(),
    };
    let rows: Vec<PassageRow> = fixture.prepared.questions.iter().map(row).collect();
    keep(&fixture, tasks.passages, &rows).await;
    fixture
}

/// Traces the fixture's only trial.
async fn traced(fixture: &Fixture) -> Vec<Option<QuestionLoss>> {
    traced_by(fixture, false).await
}

async fn traced_by(fixture: &Fixture, only_stored: bool) -> Vec<Option<QuestionLoss>> {
    let prepared = &fixture.prepared;
    let blank = fixture::results(1).trials[0].questions[0].clone();
    let of = |question: &Question| QuestionResult { question: question.id.clone(), ..blank.clone() };
    let mut questions: Vec<QuestionResult> = prepared.questions.iter().map(of).collect();
    let metrics = super::super::metrics(&prepared.run_context.experiment);
    let (trial, tasks) = (&prepared.trials[0], &fixture.plan.trials[0]);
    let traced = TracedTrial::new(prepared, (&fixture.plan, &fixture.outcome), (trial, tasks), only_stored);
    traced.trace(&metrics, &mut questions).await;
    questions.into_iter().map(|question| question.loss).collect()
}

#[tokio::test]
async fn evidence_that_was_not_found_is_looked_for_in_files_chunks_and_a_deeper_search() {
    let fixture = finished([("a.txt", 0, 15), ("b.txt", 4, 20), ("c.txt", 0, 4), ("d.txt", 0, 4)]).await;
    let found = traced(&fixture).await;
    let steps: Vec<_> =
        found.iter().map(|loss| loss.as_ref().map(|loss| (loss.step, loss.component.as_deref()))).collect();
    let expected = [
        Some((LossStep::InPassages, None)),
        Some((LossStep::NotFound, Some("bm25"))),
        Some((LossStep::CutApart, None)),
        Some((LossStep::NotRead, None)),
    ];
    assert_eq!(steps, expected);
    let EvidenceLoss { rank, depth, searched, chunk, .. } = found[1].clone().unwrap().evidence.swap_remove(0);
    // Two chunks have the word `why`. The longer one holds the evidence and is second.
    assert_eq!((rank, depth, searched), (Some(2), 2, 1));
    let chunk = chunk.unwrap();
    assert_eq!((chunk.document.as_str(), chunk.number, chunk.share), ("b.txt", 0, 1.0));
    assert_eq!(chunk.shared_terms, rag::analysis::shared_terms(&Default::default(), "Why 1?", TEXTS[1].1[0]));
    assert_eq!(chunk.shared_terms.len(), 1);
    assert_eq!(found[0].clone().unwrap().evidence[0].chunk, None, "what was kept needs no chunk");
}

#[tokio::test]
async fn what_was_found_out_is_stored_and_later_runs_read_no_chunk() {
    let mut fixture = finished([("a.txt", 0, 15), ("b.txt", 4, 20), ("c.txt", 0, 4), ("d.txt", 0, 4)]).await;
    let before = traced(&fixture).await;
    let store = fixture.prepared.run_context.store.clone();
    let path = layout::evidence(&fixture.plan.tasks[fixture.plan.trials[0].passages].artifact());
    assert!(store.exists(&path).await.unwrap());
    // The chunks in the store are now empty, which changes nothing, because they are not read.
    let shard = fixture.plan.trials[0].corpus.chunks[1];
    keep::<Chunk>(&fixture, shard, &[]).await;
    assert_eq!(traced(&fixture).await, before);
    // If the location of the evidence changes, the chunks are read again.
    fixture.prepared.questions[1].evidence[0].span = Some(Span { start: 5, end: 20 });
    let after = traced(&fixture).await;
    assert_eq!(after[1].as_ref().unwrap().step, LossStep::CutApart, "no chunk is left that holds it");
    // If the stored file cannot be read, the chunks are read again for all questions.
    store.replace(&path, "cut o").await.unwrap();
    assert_eq!(traced(&fixture).await, after);
}

#[tokio::test]
async fn without_what_is_read_no_step_is_named_and_nothing_fails() {
    let fixture = Fixture::new(SPACE, ALL, None).await;
    assert_eq!(traced(&fixture).await, vec![None; 4], "there is no passage");
    let mut fixture = finished([("a.txt", 0, 15), ("b.txt", 4, 20), ("c.txt", 0, 4), ("d.txt", 0, 4)]).await;
    let passages = fixture.plan.trials[0].passages;
    fixture.outcome.failed.insert(passages, "down".to_owned());
    let steps: Vec<_> = traced(&fixture).await.into_iter().map(|loss| loss.unwrap().step).collect();
    assert_eq!(steps, [LossStep::FailedCall; 4]);
}

#[tokio::test]
async fn an_index_that_is_gone_leaves_the_rank_open() {
    let fixture = finished([("b.txt", 4, 20), ("b.txt", 4, 20), ("b.txt", 4, 20), ("a.txt", 0, 15)]).await;
    let store = &fixture.prepared.run_context.store;
    for &file in fixture.plan.trials[0].corpus.indexes.values().flatten() {
        store.remove(&fixture.plan.tasks[file].artifact()).await.unwrap();
    }
    let found = traced(&fixture).await.swap_remove(0).unwrap();
    assert_eq!((found.step, found.evidence[0].rank, found.evidence[0].depth), (LossStep::NotFound, None, 0));
    assert_eq!(found.evidence[0].chunk.as_ref().map(|chunk| chunk.number), Some(0));
}

#[tokio::test]
async fn what_a_missing_index_left_open_is_looked_for_again() {
    let fixture = finished([("b.txt", 4, 20), ("c.txt", 0, 4), ("a.txt", 0, 15), ("a.txt", 0, 15)]).await;
    let store = &fixture.prepared.run_context.store;
    let file = fixture.plan.trials[0].corpus.indexes.values().flatten().next().copied().unwrap();
    let name = fixture.plan.tasks[file].artifact();
    let index = store.get(&name).await.unwrap().unwrap();
    store.remove(&name).await.unwrap();
    let rank = |losses: &[Option<QuestionLoss>]| losses[0].as_ref().unwrap().evidence[0].rank;
    assert_eq!(rank(&traced(&fixture).await), None);
    store.replace(&name, index).await.unwrap();
    assert_eq!(rank(&traced(&fixture).await), Some(2));
}

#[tokio::test]
async fn an_interrupted_run_reads_what_is_stored_and_looks_for_nothing() {
    let fixture = finished([("a.txt", 0, 15), ("b.txt", 4, 20), ("c.txt", 0, 4), ("d.txt", 0, 4)]).await;
    assert_eq!(traced_by(&fixture, true).await, vec![None; 4]);
    let path = layout::evidence(&fixture.plan.tasks[fixture.plan.trials[0].passages].artifact());
    assert!(!fixture.prepared.run_context.store.exists(&path).await.unwrap());
    let all = traced(&fixture).await;
    assert_eq!(traced_by(&fixture, true).await, all);
}

#[test]
fn the_share_that_counts_is_that_of_the_metrics() {
    let share = |metrics: &str| {
        let text = format!(
            "name = \"x\"\n[corpus]\nsource = \"d\"\n[dataset]\npath = \"g\"\n[space]\nchunker = \"sentence\"\nretriever = \
             \"bm25\"\n[evaluate]\n{metrics}\n"
        );
        let experiment = crate::Experiment::parse(&text, ".").unwrap_or_else(|errors| panic!("{errors:?}"));
        min_overlap(&experiment.evaluate)
    };
    assert_eq!(share("metrics = [\"recall\"]"), 0.5);
    assert_eq!(share("metrics = [\"context_tokens\", { recall = { min_overlap = 0.8 } }]"), 0.8);
    let chosen =
        "metrics = [{ recall = { min_overlap = 0.8 } }, { ndcg = { min_overlap = 0.25 } }]\nobjective = [\"ndcg\"]";
    assert_eq!(share(chosen), 0.25);
}
