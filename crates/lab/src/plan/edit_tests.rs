//! One thing is changed, and the tasks that a plan then has anew.

use super::*;
use crate::plan::{ranges::question_order, tests::Fixture};
use eval::statistics::Random;
use rag::load::SourceFile;
use serde_json::json;
use std::collections::{BTreeMap, HashSet};

/// Both kinds of indexes, and answers: 3 files are 3 shards, 20 questions are 3 ranges of answers and one of scores.
const SPACE: &str = "chunker = \"sentence\"\nembedder = \"small\"\nretriever = \"hybrid\"\n\
                     generator = { compact = { model = \"gpt\" } }\n";
const EVALUATE: &str = "metrics = [\"recall\", \"token_f1\"]\n";

fn fixture() -> Fixture {
    Fixture::evaluating(SPACE, EVALUATE)
}

/// The tasks that a plan has and an earlier one had not, by operator.
pub(super) fn new_tasks(before: &Plan, after: &Plan) -> String {
    let known: HashSet<Key> = before.tasks.iter().map(|task| task.key).collect();
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    for task in after.tasks.iter().filter(|task| !known.contains(&task.key)) {
        *counts.entry(task.operator()).or_default() += 1;
    }
    counts.into_iter().map(|(operator, n)| format!("{} {n}", operator.name())).collect::<Vec<_>>().join(", ")
}

fn file(name: &str, content: &str) -> (SourceFile, Key) {
    let file = json!({ "path": name, "bytes": 700_000, "place": 0, "location": name });
    (serde_json::from_value(file).unwrap(), Key::of_bytes(content.as_bytes()))
}

#[test]
fn a_change_makes_only_that_anew_which_depends_on_it() {
    type Change = fn(&mut Fixture);
    let one_shard = "load 1, chunk 1, embed 1, index 2, retrieve 1, generate 3, score 2";
    let table: [(&str, Change, &str); 19] = [
        ("nothing", |_| {}, ""),
        ("a file is added", |it| it.files.push(file("d.txt", "d")), one_shard),
        ("a file is removed", |it| drop(it.files.remove(1)), "index 2, retrieve 1, generate 3, score 2"),
        ("a file has other words", |it| it.files[1] = file("b.txt", "other words"), one_shard),
        ("a file has another name", |it| it.files[1] = file("bb.txt", "b.txt"), one_shard),
        ("files are listed in another order", |it| it.files.reverse(), ""),
        ("the size is told otherwise, and the words are the same", |it| it.files[1].0.bytes = 700_001, ""),
        (
            "a file has metadata",
            |it| drop(it.metadata.insert("b.txt".to_owned(), [("year".to_owned(), json!(1700))].into())),
            one_shard,
        ),
        (
            "a file that is not there has metadata",
            |it| drop(it.metadata.insert("z.txt".to_owned(), [("year".to_owned(), json!(1700))].into())),
            "",
        ),
        (
            "another PDF library",
            |it| it.pdf_library = "pdfium",
            "load 3, chunk 3, embed 3, index 2, retrieve 1, generate 3, score 2",
        ),
        (
            "the embedder is another model",
            |it| it.is_now("small"),
            "embed 3, embed queries 1, index 1, retrieve 1, generate 3, score 2",
        ),
        ("the generator is another model", |it| it.is_now("gpt"), "generate 3, score 1"),
        ("a model that no trial uses is another", |it| it.is_now("large"), ""),
        (
            "a question has other words",
            |it| it.questions[3].question.push('?'),
            "embed queries 1, retrieve 1, generate 3, score 2",
        ),
        ("a question has another id", |it| it.questions[3].id.push('x'), "retrieve 1, generate 3, score 2"),
        // Answers are made without it.
        ("a question has a reference", |it| it.questions[3].reference = Some("Because.".to_owned()), "score 2"),
        ("a question is removed", |it| drop(it.questions.pop()), "embed queries 1, retrieve 1, generate 3, score 2"),
        (
            "questions stand in another order",
            |it| it.questions.swap(0, 1),
            "embed queries 1, retrieve 1, generate 3, score 2",
        ),
        ("there are no questions", |it| it.questions.clear(), "retrieve 1"),
    ];
    let before = fixture().plan();
    assert_eq!(
        new_tasks(&Plan::default(), &before),
        "load 3, chunk 3, embed 3, embed queries 1, index 2, retrieve 1, generate 3, score 2"
    );
    for (case, change, expected) in table {
        let mut changed = fixture();
        change(&mut changed);
        assert_eq!(new_tasks(&before, &changed.plan()), expected, "{case}");
    }
}

#[test]
fn a_setting_makes_only_that_anew_which_depends_on_it() {
    let answer = "compact = { model = \"gpt\" }";
    let table = [
        ("chunker", SPACE.replace("\"sentence\"", "{ sentence = { chunk_size = 300 } }"), EVALUATE),
        ("retriever", SPACE.replace("\"hybrid\"", "{ hybrid = { top_k = 3 } }"), EVALUATE),
        ("generator", SPACE.replace(answer, "compact = { model = \"gpt\", max_tokens = 7 }"), EVALUATE),
        ("retriever that compares no vectors", SPACE.replace("hybrid", "bm25"), EVALUATE),
        (
            "a reranker, for which four times as much is found",
            format!("{SPACE}reranker = {{ pointwise = {{ model = \"gpt\" }} }}\n"),
            EVALUATE,
        ),
        ("one metric more", SPACE.to_owned(), "metrics = [\"recall\", \"token_f1\", \"precision\"]\n"),
        ("one metric less", SPACE.to_owned(), "metrics = [\"recall\"]\n"),
        ("metrics in another order", SPACE.to_owned(), "metrics = [\"token_f1\", \"recall\"]\n"),
        ("fewer answers", SPACE.to_owned(), "metrics = [\"recall\", \"token_f1\"]\nanswered = 19\n"),
    ];
    let expected = [
        "chunk 3, embed 3, index 2, retrieve 1, generate 3, score 2",
        "retrieve 1, generate 3, score 2",
        "generate 3, score 1",
        "retrieve 1, generate 3, score 2",
        "retrieve 1, rerank 1, generate 3, score 2",
        "score 1",
        "",
        "",
        // The question that is left out is in one range of answers, and in the range of scores.
        "generate 1, score 1",
    ];
    let before = fixture().plan();
    for ((case, space, evaluate), expected) in table.into_iter().zip(expected) {
        assert_eq!(new_tasks(&before, &Fixture::evaluating(&space, evaluate).plan()), expected, "{case}");
    }
}

fn questions(n: usize) -> Vec<eval::Question> {
    (0..n).map(|i| eval::Question { id: format!("q{i}"), ..Default::default() }).collect()
}

#[test]
fn the_parts_of_asked_questions_hold_each_of_them_once() {
    let (n, mut random) = (150, Random::new(5));
    let ranges = Ranges::new(&questions(n));
    for _ in 0..300 {
        let asked: Vec<usize> = (0..n).filter(|_| random.below(4) == 0).collect();
        let stem = Key::of_bytes(b"stem");
        for (shards, size) in [(ranges.to_answer(&asked), 8), (ranges.to_score(&asked), 64)] {
            let mut all = shards.iter().flat_map(|shard| shard.questions.clone()).collect::<Vec<_>>();
            all.sort_unstable();
            assert_eq!(all, asked);
            for shard in &shards {
                let part =
                    if size == 8 { ranges.part_to_answer(shard, &stem) } else { ranges.part_to_score(shard, &stem) };
                assert_eq!(part.part.count_ones() as usize, shard.questions.len());
                assert!(shard.range < n.div_ceil(size) && shard.questions.len() <= size);
                assert!(shard.questions.is_sorted(), "in the order of the dataset");
            }
            assert!(shards.is_sorted_by_key(|shard| shard.range));
        }
    }
}

#[test]
fn a_question_decides_the_key_of_its_own_range_only() {
    let order = question_order(150);
    let all: Vec<usize> = (0..150).collect();
    let keys = |questions: &[eval::Question]| {
        let (ranges, stem) = (Ranges::new(questions), Key::of_bytes(b"stem"));
        let answers = ranges.to_answer(&all).iter().map(|shard| ranges.part_to_answer(shard, &stem).key()).collect();
        let scores = ranges.to_score(&all).iter().map(|shard| ranges.part_to_score(shard, &stem).key()).collect();
        [answers, scores]
    };
    let changed = |change: fn(&mut eval::Question)| {
        let (before, mut after) = (questions(150), questions(150));
        // The hundredth question of the order: in range 100 / 8 of answers and 100 / 64 of scores.
        change(&mut after[order[100]]);
        let [before, after]: [[Vec<Key>; 2]; 2] = [keys(&before), keys(&after)];
        let differ = |kind: usize| {
            (0..before[kind].len()).filter(|&i| before[kind][i] != after[kind][i]).collect::<Vec<usize>>()
        };
        (differ(0), differ(1))
    };
    assert_eq!(changed(|_| {}), (vec![], vec![]));
    assert_eq!(changed(|it| it.question = "Why?".to_owned()), (vec![12], vec![1]));
    assert_eq!(changed(|it| it.id.push('x')), (vec![12], vec![1]));
    assert_eq!(
        changed(|it| it.reference = Some("Because.".to_owned())),
        (vec![], vec![1]),
        "answers are made without it"
    );
}

#[test]
fn the_range_of_scores_of_an_answer_is_that_of_its_questions() {
    let ranges = Ranges::new(&questions(150));
    let all: Vec<usize> = (0..150).collect();
    for shard in ranges.to_answer(&all) {
        assert!(shard.questions.iter().all(|&question| ranges.range_of_scores(question) == shard.range_of_scores()));
    }
    assert_eq!(ranges.to_answer(&[]), []);
}
