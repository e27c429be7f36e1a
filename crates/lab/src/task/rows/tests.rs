//! Outputs of tasks, put into a store and read by question.

use super::*;
use crate::{
    artifact::{ArtifactTable, NoAnswer, encode, encode_vectors},
    spec::Experiment,
    task::fixture,
};
use eval::{Score, Scored};
use models::Message;
use rag::Passage;
use std::collections::HashMap;

struct Bench {
    _folder: tempfile::TempDir,
    run_context: RunContext,
    outputs: Outputs,
}

impl Bench {
    /// Two questions, `a` and `b`.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = "name = \"x\"\n[corpus]\nsource = \"d\"\n[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n";
        let question = |id: &str| Question {
            id: id.to_owned(),
            question: format!("Why {id}?"),
            turns: vec![Message::user("Who built the mill?")],
            ..Question::default()
        };
        let questions = ["a", "b"].map(question).to_vec();
        let run_context = fixture::run_context(folder.path(), Experiment::parse(text, ".").unwrap(), questions);
        Self { _folder: folder, run_context, outputs: Outputs::new() }
    }

    /// Stores the output of a task.
    async fn put<R: ArtifactTable>(&mut self, id: TaskId, rows: &[R]) {
        let name = format!("artifacts/ab/{id}.parquet");
        self.run_context.store.put(&name, encode(rows).unwrap()).await.unwrap();
        self.outputs.insert(id, name);
    }
}

fn passage(question: &str, rank: u32, text: Option<&str>, remarks: &[&str]) -> PassageRow {
    PassageRow {
        question: question.to_owned(),
        rank,
        passage: text.map(|text| Passage::of_text("a.md".to_owned(), text.to_owned())),
        remarks: remarks.iter().map(|remark| (*remark).to_owned()).collect(),
    }
}

#[tokio::test]
async fn the_passages_of_each_question_are_in_their_order_with_all_remarks() {
    let mut bench = Bench::new();
    let rows = [
        passage("a", 1, Some("one"), &["cut"]),
        passage("a", 2, Some("two"), &[]),
        passage("b", 0, None, &["nothing", "found"]),
    ];
    bench.put(3, &rows).await;
    let found = passages_by_question(&bench.run_context, &bench.outputs, 3).await.unwrap();
    let texts = |id: &str| found[id].passages.iter().map(|passage| passage.text.clone()).collect::<Vec<_>>();
    assert_eq!((texts("a"), &found["a"].remarks), (vec!["one".to_owned(), "two".to_owned()], &vec!["cut".to_owned()]));
    assert_eq!((texts("b").len(), found["b"].remarks.len(), found.len()), (0, 2, 2));
    let again = passages_by_question(&bench.run_context, &bench.outputs, 3).await.unwrap();
    assert!(Arc::ptr_eq(&found, &again), "they stay in memory");
}

#[tokio::test]
async fn answers_and_scores_are_found_by_question_over_all_shards() {
    let mut bench = Bench::new();
    let answered = |question: &str, text: &str| AnswerRow {
        question: question.to_owned(),
        answer: Ok(Answer { text: text.to_owned(), ..Answer::default() }),
    };
    let failed = NoAnswer { reason: "down".to_owned(), function: None, budget: false };
    bench.put(1, &[answered("a", "oats")]).await;
    bench.put(2, &[AnswerRow { question: "b".to_owned(), answer: Err(failed.clone()) }]).await;
    let answers = answers_by_question(&bench.run_context, &bench.outputs, &[1, 2]).await.unwrap();
    assert_eq!(answers["a"].as_ref().map(|answer| answer.text.as_str()), Ok("oats"));
    assert_eq!(answers["b"], Err(failed));
    assert_eq!(answers_by_question(&bench.run_context, &bench.outputs, &[]).await.unwrap(), HashMap::new());
    let score =
        |question: &str, value| ScoreRow { question: question.to_owned(), scored: Scored::plain(Score::Value(value)) };
    bench.put(4, &[score("b", 0.25), score("a", 0.5)]).await;
    let scores = scores_by_question(&bench.run_context, &bench.outputs, 4).await.unwrap();
    assert_eq!((scores["a"].score.value(), scores["b"].score.value()), (Some(0.5), Some(0.25)));
}

#[tokio::test]
async fn a_question_is_searched_as_it_was_asked_unless_queries_were_written() {
    let mut bench = Bench::new();
    let texts = |found: &[SearchableQuestion]| {
        let of = |question: &SearchableQuestion| question.queries.iter().map(|query| query.text.clone()).collect();
        found.iter().map(of).collect::<Vec<Vec<String>>>()
    };
    let asked = searchable_questions(&bench.run_context, &bench.outputs, None, false).await.unwrap();
    assert_eq!(texts(&asked), [["Why a?"], ["Why b?"]]);
    let query = |question: &str, number, text: &str| QueryRow {
        question: question.to_owned(),
        number,
        query: text.into(),
        fallback: None,
    };
    // The rows are not in the order of the questions.
    bench.put(5, &[query("b", 1, "the mill"), query("a", 1, "oats"), query("b", 2, "grain")]).await;
    let written = searchable_questions(&bench.run_context, &bench.outputs, Some(5), false).await.unwrap();
    assert_eq!(texts(&written), [vec!["oats"], vec!["the mill", "grain"]]);
    let rows = queries_by_question(&bench.run_context, &bench.outputs, 5).await.unwrap();
    assert_eq!((rows["a"].len(), rows["b"].len()), (1, 2));
    bench.put(6, &[query("a", 1, "oats")]).await;
    let lacking = searchable_questions(&bench.run_context, &bench.outputs, Some(6), false).await.unwrap();
    assert_eq!(lacking[1].queries.len(), 0, "nothing was written for it");
}

#[tokio::test]
async fn an_output_that_is_not_known_or_gone_is_named() {
    let mut bench = Bench::new();
    let read = async |bench: &Bench, id| bench.run_context.read(&bench.outputs, id).await.unwrap_err().to_string();
    let unusable = "a table of the store cannot be used";
    assert_eq!(read(&bench, 7).await, format!("{unusable}: the output of task 7 is not known"));
    bench.outputs.insert(7, "artifacts/ab/gone.parquet".to_owned());
    let gone = "artifacts/ab/gone.parquet is gone from the store; run again to make it anew";
    assert_eq!(read(&bench, 7).await, format!("{unusable}: {gone}"));
    bench.put(8, &[passage("a", 1, Some("one"), &[])]).await;
    let other = scores_by_question(&bench.run_context, &bench.outputs, 8).await.unwrap_err().to_string();
    assert_eq!(other, format!("{unusable}: the column `value` is missing or of another type"));
}

#[tokio::test]
async fn vectors_are_read_where_there_are_some() {
    let mut bench = Bench::new();
    assert_eq!(decode_matrix(&bench.run_context, &bench.outputs, None).await.unwrap(), None);
    let matrix = Matrix { columns: 2, data: vec![1.0, 2.0, 3.0, 4.0] };
    let name = "artifacts/ab/vectors.parquet".to_owned();
    bench.run_context.store.put(&name, encode_vectors(&matrix).unwrap()).await.unwrap();
    bench.outputs.insert(2, name);
    assert_eq!(decode_matrix(&bench.run_context, &bench.outputs, Some(2)).await.unwrap(), Some(matrix));
}
