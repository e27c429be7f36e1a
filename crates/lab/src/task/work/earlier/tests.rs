//! Which rows a task takes from outputs of other parts of its range.

use super::*;
use crate::{
    artifact::ScoreRow,
    layout::Format,
    plan::{
        Outputs, Task,
        ranges::{Ranges, question_order},
        work::ScoreWork,
    },
    progress::Progress,
    spec::Experiment,
    task::{CallTurn, TaskUsage, fixture},
};
use eval::{Question, Score, Scored};
use models::ModelUsage;
use std::sync::Mutex;
use store::Key;

/// Seventy questions: a whole range of scores, and six questions of another one.
struct Bench {
    _folder: tempfile::TempDir,
    run_context: RunContext,
    ranges: Ranges,
    /// The questions in the order in which they are asked.
    order: Vec<usize>,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = "name = \"x\"\n[corpus]\nsource = \"d\"\n[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n";
        let questions: Vec<Question> =
            (0..70).map(|i| Question { id: format!("q{i}"), ..Question::default() }).collect();
        let (ranges, order) = (Ranges::new(&questions), question_order(questions.len()));
        let run_context = fixture::run_context(folder.path(), Experiment::parse(text, ".").unwrap(), questions);
        Self { _folder: folder, run_context, ranges, order }
    }

    /// The part of the questions from one place of the order to before another, which are in one range.
    fn part(&self, stem: &str, from: usize, to: usize) -> RangePart {
        let shards = self.ranges.to_score(&self.order[from..to]);
        assert_eq!(shards.len(), 1);
        self.ranges.part_to_score(&shards[0], &Key::of_bytes(stem.as_bytes()))
    }

    /// The questions of such a part, in the order of the dataset.
    fn asked(&self, from: usize, to: usize) -> Vec<usize> {
        let mut asked = self.order[from..to].to_vec();
        asked.sort_unstable();
        asked
    }

    fn row(&self, question: usize, value: f64) -> ScoreRow {
        ScoreRow { question: format!("q{question}"), scored: Scored::plain(Score::Value(value)) }
    }

    fn name(part: &RangePart) -> String {
        layout::artifact(&part.key(), Format::Parquet)
    }

    /// Stores the output of a part, with one value for all its questions.
    async fn store(&self, stem: &str, from: usize, to: usize, value: f64) -> String {
        let rows: Vec<ScoreRow> = self.asked(from, to).into_iter().map(|question| self.row(question, value)).collect();
        let name = Self::name(&self.part(stem, from, to));
        self.run_context.store.put(&name, artifact::encode(&rows).unwrap()).await.unwrap();
        name
    }

    /// What a task that does this part finds: rows, questions without one, usage.
    async fn find(&self, stem: &str, from: usize, to: usize) -> EarlierRows<ScoreRow> {
        let part = self.part(stem, from, to);
        let work = ScoreWork {
            metric: serde_json::from_value(serde_json::json!({ "recall": {} })).unwrap(),
            passages: 0,
            answers: Vec::new(),
            questions: self.asked(from, to),
            parser: 0,
            without_passages: false,
            replies: None,
            part: Some(part),
        };
        let task = Task { key: part.key(), work: work.into(), rows: None, label: String::new(), trials: Vec::new() };
        let (inputs, progress, usage) = (Outputs::new(), Progress::default(), Mutex::default());
        let calls = Mutex::default();
        let context = TaskContext {
            task: &task,
            inputs: &inputs,
            partial: false,
            turn: CallTurn::default(),
            run_context: &self.run_context,
            progress: &progress,
            usage_by_question: &usage,
            calls: &calls,
        };
        let found = context.earlier_rows(&part, &self.asked(from, to), |row: &ScoreRow| &row.question).await.unwrap();
        let told = progress.take_rows().into_values().sum::<usize>();
        assert_eq!(told, found.rows.len(), "the live table is told of each");
        found
    }
}

/// How many rows have each of these values.
fn counts(found: &EarlierRows<ScoreRow>, values: &[f64]) -> Vec<usize> {
    let with = |value: f64| found.rows.iter().filter(|row| row.scored.score.value() == Some(value)).count();
    values.iter().map(|value| with(*value)).collect()
}

#[tokio::test]
async fn rows_of_parts_of_the_same_range_are_taken_and_the_rest_is_missing() {
    let bench = Bench::new();
    let nothing = bench.find("score", 0, 8).await;
    assert_eq!((nothing.rows.len(), nothing.missing), (0, bench.asked(0, 8)));
    bench.store("score", 0, 5, 0.5).await;
    let some = bench.find("score", 0, 8).await;
    assert_eq!((counts(&some, &[0.5]), some.missing), (vec![5], bench.asked(5, 8)));
    let whole = bench.find("score", 1, 4).await;
    assert_eq!((counts(&whole, &[0.5]), whole.missing), (vec![3], vec![]), "others of its rows are left");
    bench.store("score", 40, 64, 0.25).await;
    let both = bench.find("score", 0, 64).await;
    assert_eq!((counts(&both, &[0.5, 0.25]), both.missing), (vec![5, 24], bench.asked(5, 40)));
}

#[tokio::test]
async fn rows_of_other_work_and_of_other_ranges_are_not_taken() {
    let bench = Bench::new();
    bench.store("another metric", 0, 8, 0.5).await;
    bench.store("score", 64, 70, 0.5).await;
    let found = bench.find("score", 0, 8).await;
    assert_eq!((found.rows.len(), found.missing), (0, bench.asked(0, 8)));
    assert_eq!(bench.find("score", 64, 66).await.rows.len(), 2, "they are there");
}

#[tokio::test]
async fn of_outputs_that_hold_the_same_question_the_one_with_the_most_is_taken() {
    let bench = Bench::new();
    bench.store("score", 0, 3, 0.25).await;
    bench.store("score", 2, 8, 0.5).await;
    bench.store("score", 5, 7, 0.75).await;
    let found = bench.find("score", 0, 8).await;
    // Six of the second, two of the first; the third has nothing that the second has not.
    assert_eq!((counts(&found, &[0.25, 0.5, 0.75]), found.missing), (vec![2, 6, 0], vec![]));
}

#[tokio::test]
async fn an_output_that_cannot_be_read_counts_as_absent() {
    let bench = Bench::new();
    let name = bench.store("score", 0, 6, 0.5).await;
    bench.store("score", 0, 2, 0.25).await;
    bench.run_context.store.replace(&name, "no table").await.unwrap();
    let found = bench.find("score", 0, 8).await;
    assert_eq!((counts(&found, &[0.25, 0.5]), found.missing), (vec![2, 0], bench.asked(2, 8)));
}

#[tokio::test]
async fn what_the_calls_behind_a_row_used_comes_with_it() {
    let bench = Bench::new();
    let name = bench.store("score", 0, 4, 0.5).await;
    let used = |calls| {
        let mut ledger = Ledger::default();
        ledger.add("gpt", &ModelUsage { calls, ..ModelUsage::default() });
        ledger
    };
    let asked = bench.asked(0, 4);
    let questions = [(format!("q{}", asked[0]), used(3)), (format!("q{}", asked[1]), used(4))].into();
    let usage = TaskUsage { all: used(7), questions, ..TaskUsage::default() };
    let bytes = serde_json::to_vec(&usage).unwrap();
    bench.run_context.store.replace(&layout::usage(&name), bytes).await.unwrap();
    let found = bench.find("score", 0, 8).await;
    assert_eq!(found.used, usage.questions, "by question, for those that made calls");
    let alone = bench.part("score", 0, 1);
    let question = bench.order[0];
    let expected = usage.questions.get(&format!("q{question}")).cloned();
    let found = bench.find("score", 0, 1).await;
    assert_eq!((found.used.values().next().cloned(), found.rows.len()), (expected, 1), "{alone:?}");
}

#[tokio::test]
async fn an_output_is_in_the_order_of_the_dataset_and_says_what_was_there_before() {
    let bench = Bench::new();
    bench.store("score", 0, 4, 0.5).await;
    let made = |found: EarlierRows<ScoreRow>| {
        let new: Vec<ScoreRow> = found.missing.iter().rev().map(|&question| bench.row(question, 1.0)).collect();
        TaskOutput::with_earlier(new, found, &bench.run_context, |row| &row.question).unwrap()
    };
    let questions = |output: &TaskOutput| {
        let crate::task::work::OutputContent::Bytes(bytes) = &output.content else { panic!("it is not written yet") };
        let rows = artifact::decode::<ScoreRow>(bytes.clone()).unwrap();
        rows.iter().map(|row| row.question[1..].parse::<usize>().unwrap()).collect::<Vec<_>>()
    };
    let output = made(bench.find("score", 0, 8).await);
    assert_eq!(questions(&output), bench.asked(0, 8));
    assert_eq!((output.rows, output.resumed, output.reused), (8, 4, false));
    let all = made(bench.find("score", 0, 4).await);
    assert_eq!((all.rows, all.resumed, all.reused), (4, 4, true), "nothing was left to do");
    let none = made(bench.find("another metric", 0, 4).await);
    assert_eq!((none.rows, none.resumed, none.reused), (4, 0, false));
    let nothing = TaskOutput::with_earlier(Vec::new(), EarlierRows::none(&[]), &bench.run_context, |row: &ScoreRow| {
        &row.question
    });
    let nothing = nothing.unwrap();
    assert_eq!((nothing.rows, nothing.reused), (0, false), "an output without rows is no earlier one");
}
