//! What is in the key of each kind of task and what is not, and what each kind says of itself.

use super::{
    edit_tests::new_tasks,
    tests::Fixture,
    text_sizes::TextSizes,
    work::{Purpose, Sizes},
    *,
};
use crate::{layout::Format, operator::Operator};
use eval::Question;
use models::Message;
use rag::index::IndexKind;
use serde_json::json;

const RECALL: &str = "metrics = [\"recall\"]\n";

/// The tasks that are new after a change of what a plan is made from.
fn after(space: &str, evaluate: &str, change: impl FnOnce(&mut Fixture)) -> String {
    let mut changed = Fixture::evaluating(space, evaluate);
    let before = changed.plan();
    change(&mut changed);
    new_tasks(&before, &changed.plan())
}

#[test]
fn a_model_is_in_the_keys_of_the_tasks_that_ask_it_and_of_those_that_use_their_outputs() {
    let bm25 = "retriever = \"bm25\"\n";
    let dense = "chunker = \"sentence\"\nembedder = \"small\"\nretriever = \"dense\"\n";
    let sentence = format!("chunker = \"sentence\"\n{bm25}");
    let table = [
        (
            "the chunker asks it",
            format!("chunker = \"semantic\"\nembedder = \"small\"\n{bm25}"),
            RECALL,
            "small",
            "chunk 3, index 1, retrieve 1, score 1",
        ),
        (
            "the enricher asks it",
            format!("{sentence}enrich = {{ contextual = {{ model = \"gpt\" }} }}\n"),
            RECALL,
            "gpt",
            "enrich 3, index 1, retrieve 1, score 1",
        ),
        (
            "the enricher makes vectors with it",
            format!("{dense}enrich = \"late_chunking\"\n"),
            RECALL,
            "small",
            "embed 3, embed queries 1, index 1, retrieve 1, score 1",
        ),
        (
            "it writes queries that are searched by words",
            format!("{sentence}query = {{ hyde = {{ model = \"gpt\" }} }}\n"),
            RECALL,
            "gpt",
            "query 1, retrieve 1, score 1",
        ),
        (
            "it writes queries that are searched by vectors",
            format!("{dense}query = {{ hyde = {{ model = \"gpt\" }} }}\n"),
            RECALL,
            "gpt",
            "query 1, embed queries 1, retrieve 1, score 1",
        ),
        (
            "the reranker asks it",
            format!("{sentence}reranker = {{ cross_encoder = {{ model = \"ranker\" }} }}\n"),
            RECALL,
            "ranker",
            "rerank 1, score 1",
        ),
        (
            "a step asks it",
            format!("{sentence}refine = {{ corrective = {{ model = \"gpt\" }} }}\n"),
            RECALL,
            "gpt",
            "refine 1, score 1",
        ),
        (
            "it judges",
            sentence.clone(),
            "metrics = [\"recall\", \"context_precision\"]\njudge = \"gpt\"\n",
            "gpt",
            "judge 1",
        ),
        (
            "a metric that no model judges has a judge beside it",
            sentence.clone(),
            "metrics = [\"recall\"]\njudge = \"gpt\"\n",
            "gpt",
            "",
        ),
        (
            "it compares answers",
            format!("{sentence}generator = {{ compact = {{ model = \"gpt\" }} }}\n"),
            "metrics = [\"recall\", \"answer_similarity\", \"token_f1\"]\nembedder = \"large\"\n",
            "large",
            "score 1",
        ),
    ];
    for (case, space, evaluate, model, expected) in table {
        assert_eq!(after(&space, evaluate, |fixture| fixture.is_now(model)), expected, "{case}");
    }
}

#[test]
fn a_setting_is_in_the_keys_of_its_own_stage_and_of_those_that_use_its_output() {
    let base = "chunker = \"sentence\"\nretriever = \"bm25\"\n";
    let table = [
        (
            "enrich = { heading = { title = false } }",
            "enrich = { heading = { title = true } }",
            "enrich 3, index 1, retrieve 1, score 1",
        ),
        (
            "query = { hyde = { model = \"gpt\" } }",
            "query = { hyde = { model = \"gpt\", n = 2 } }",
            "query 1, retrieve 1, score 1",
        ),
        ("query = \"none\"", "query = { hyde = { model = \"gpt\" } }", "query 1, retrieve 1, score 1"),
        (
            "reranker = { cross_encoder = { model = \"ranker\", candidates = 20, top_n = 3 } }",
            "reranker = { cross_encoder = { model = \"ranker\", candidates = 20, top_n = 4 } }",
            "rerank 1, score 1",
        ),
        (
            "reranker = { cross_encoder = { model = \"ranker\", candidates = 20 } }",
            "reranker = { cross_encoder = { model = \"ranker\", candidates = 21 } }",
            // So many are retrieved.
            "retrieve 1, rerank 1, score 1",
        ),
        ("refine = { threshold = { least = 0.5 } }", "refine = { threshold = { least = 0.25 } }", "refine 1, score 1"),
        ("refine = \"none\"", "refine = [\"none\"]", ""),
        (
            "generator = { compact = { model = \"gpt\" } }\nprompt = \"grounded\"",
            "generator = { compact = { model = \"gpt\" } }\nprompt = \"brief\"",
            "generate 3",
        ),
    ];
    for (before, after, expected) in table {
        let plan = |rest: &str| Fixture::new(&format!("{base}{rest}\n")).plan();
        assert_eq!(new_tasks(&plan(before), &plan(after)), expected, "{before} → {after}");
    }
}

#[test]
fn a_filter_or_an_earlier_message_of_a_question_is_in_the_keys_of_the_tasks_that_read_it() {
    let plain = "chunker = \"sentence\"\nretriever = \"bm25\"\n";
    let stages = format!(
        "{plain}reranker = {{ cross_encoder = {{ model = \"ranker\" }} }}\ngenerator = {{ compact = {{ model = \"gpt\" }} }}\n"
    );
    let condense = format!("{stages}query = {{ condense = {{ model = \"gpt\" }} }}\n");
    let filter = |questions: &mut Vec<Question>| {
        questions[3].filter = Some(serde_json::from_value(json!({ "year": 1700 })).unwrap());
    };
    let talk = |questions: &mut Vec<Question>| questions[3].turns = vec![Message::user("Who built it?")];
    type Change<'a> = &'a dyn Fn(&mut Vec<Question>);
    let table: [(&str, &str, Change<'_>, &str); 6] = [
        ("a filter", plain, &filter, "retrieve 1, score 1"),
        ("a filter, with stages after the search", &stages, &filter, "retrieve 1, rerank 1, generate 3, score 1"),
        ("a message, which nobody reads", &stages, &talk, "score 1"),
        (
            "a message, which the query component reads",
            &condense,
            &talk,
            "query 1, retrieve 1, rerank 1, generate 3, score 1",
        ),
        (
            "a message, where vectors of questions are compared",
            "chunker = \"sentence\"\nembedder = \"small\"\nretriever = \"dense\"\nquery = { condense = { model = \"gpt\" } }\n",
            &talk,
            "query 1, embed queries 1, retrieve 1, score 1",
        ),
        ("nothing", &condense, &|_| {}, ""),
    ];
    for (case, space, change, expected) in table {
        assert_eq!(after(space, RECALL, |fixture| change(&mut fixture.questions)), expected, "{case}");
    }
}

/// A plan with a task of every kind but that of vectors in context.
fn of_all_kinds() -> Plan {
    let space = "chunker = \"sentence\"\nembedder = \"small\"\nretriever = \"hybrid\"\n\
                 enrich = { contextual = { model = \"gpt\" } }\nquery = { hyde = { model = \"gpt\" } }\n\
                 reranker = \"late_interaction\"\ngenerator = { compact = { model = \"gpt\" } }\n";
    Fixture::evaluating(space, "metrics = [\"recall\", \"faithfulness\"]\njudge = \"gpt\"\n").plan()
}

#[test]
fn each_kind_of_work_says_whether_it_is_done_once_counts_in_price_and_for_what() {
    use Purpose::{Evaluation, Index, Questions};
    // (operator, done by one run only, may call models, what its calls are paid for, rows of its first task)
    let expected = [
        ("load", true, false, Index, Some(1)),
        ("chunk", true, false, Index, None),
        ("enrich", true, true, Index, None),
        ("embed", true, true, Index, None),
        ("query", true, true, Questions, Some(20)),
        // Late interaction compares the questions as they are; the written queries are more.
        ("embed queries", true, true, Questions, Some(20)),
        ("index", true, false, Index, None),
        ("retrieve", false, true, Questions, Some(20)),
        ("rerank", true, true, Questions, Some(20)),
        ("generate", true, true, Questions, Some(8)),
        ("score", false, false, Evaluation, Some(20)),
        ("judge", true, false, Evaluation, Some(20)),
    ];
    let plan = of_all_kinds();
    let mut found: Vec<(Operator, _)> = Vec::new();
    for task in &plan.tasks {
        let work = task.work.describe();
        assert!(!work.runs_function() && task.trials.is_empty(), "{}", task.label);
        if found.iter().all(|(operator, _)| *operator != task.operator()) {
            found.push((
                task.operator(),
                (work.is_exclusive(), work.counts_in_price(), Purpose::of(task.operator()), task.rows),
            ));
        }
    }
    found.sort_by_key(|(operator, _)| *operator);
    let found: Vec<_> = found
        .into_iter()
        .map(|(operator, (one, calls, purpose, rows))| (operator.name(), one, calls, purpose, rows))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn a_task_that_cuts_or_searches_counts_in_price_where_its_component_or_the_embedder_does() {
    let calls = |space: &str, operator: Operator| {
        let plan = Fixture::new(space).plan();
        plan.tasks.iter().find(|task| task.operator() == operator).unwrap().work.describe().counts_in_price()
    };
    let bm25 = "chunker = \"sentence\"\nretriever = \"bm25\"\n";
    assert!(!calls(bm25, Operator::CHUNK) && !calls(bm25, Operator::RETRIEVE));
    let semantic = "chunker = \"semantic\"\nembedder = \"small\"\nretriever = \"bm25\"\n";
    assert!(calls(semantic, Operator::CHUNK) && calls(semantic, Operator::RETRIEVE));
}

#[test]
fn an_output_is_a_table_or_an_index_of_its_kind() {
    let plan = of_all_kinds();
    let mut endings: std::collections::BTreeMap<&str, std::collections::BTreeSet<&str>> = Default::default();
    for task in &plan.tasks {
        let ending = task.artifact().rsplit('.').next().map(str::to_owned).unwrap();
        let ending = ["parquet", "bm25", "dense", "tokens"].into_iter().find(|known| *known == ending).unwrap();
        endings.entry(task.operator().name()).or_default().insert(ending);
    }
    assert_eq!(endings["index"], ["bm25", "dense"].into());
    assert_eq!(endings["embed"], ["parquet", "tokens"].into(), "vectors of texts, and of their tokens");
    for operator in ["load", "chunk", "enrich", "query", "embed queries", "retrieve", "rerank", "generate", "score"] {
        assert_eq!(endings[operator], ["parquet"].into(), "{operator}");
    }
    let tokens = Format::Index(IndexKind::Tokens);
    assert!(plan.tasks.iter().any(|task| task.work.describe().format() == tokens));
}

#[test]
fn a_task_that_runs_a_users_function_knows_the_trials_that_need_it() {
    let python = "{ python = { source = \"def chunk(text):\\n    return [text]\\n\" } }";
    let space = format!("chunker = [\"sentence\", {python}]\nretriever = [\"bm25\", {{ bm25 = {{ top_k = 3 }} }}]\n");
    let plan = Fixture::new(&space).plan();
    let mut with_trials = 0;
    for task in &plan.tasks {
        let expected: &[&str] = if task.work.describe().runs_function() { &["t03", "t04"] } else { &[] };
        assert_eq!(task.trials, expected, "{}", task.label);
        with_trials += usize::from(!expected.is_empty());
    }
    assert_eq!(with_trials, 3, "the chunks of three shards");
    // Who needs a task is no part of what it is.
    let alone = Fixture::new(&format!("chunker = {python}\nretriever = \"bm25\"\n")).plan();
    assert_eq!(new_tasks(&plan, &alone), "");
}

#[test]
fn the_outputs_that_are_results_are_passages_queries_answers_and_scores_each_once() {
    let plan = of_all_kinds();
    let sinks = plan.sinks();
    assert!(sinks.is_sorted_by(|one, other| one < other), "each once");
    let mut operators: Vec<&str> = sinks.iter().map(|&id| plan.tasks[id].operator().name()).collect();
    operators.dedup();
    operators.sort_unstable();
    assert_eq!(operators, ["generate", "judge", "query", "rerank", "score"]);
    let trial = &plan.trials[0];
    let mut of_trial = plan.tasks_of(trial);
    of_trial.sort_unstable();
    assert_eq!(of_trial, (0..plan.tasks.len()).collect::<Vec<_>>(), "its only trial needs all");
    let mut without = Plan { trials: Vec::new(), ..plan.clone() };
    assert_eq!(without.sinks(), (0..plan.tasks.len()).collect::<Vec<_>>(), "without trials all outputs are results");
    without.tasks.clear();
    assert_eq!(without.sinks(), Vec::<TaskId>::new());
}

#[test]
fn the_key_of_a_plan_is_that_of_its_tasks_in_their_order() {
    let plan = of_all_kinds();
    let mut other = plan.clone();
    other.trials.clear();
    other.tasks[0].label.push('x');
    assert_eq!(other.key(), plan.key());
    other.tasks.swap(0, 1);
    assert_ne!(other.key(), plan.key());
    assert_ne!(Plan::default().key(), plan.key());
}

#[test]
fn sizes_are_those_of_the_text_in_shards_and_of_the_questions() {
    let mut fixture = Fixture::new("chunker = \"sentence\"\nretriever = \"bm25\"\n");
    let plan = fixture.plan();
    fixture.questions.truncate(3);
    for (question, text) in fixture.questions.iter_mut().zip(["", "1234", "1234567"]) {
        question.question = text.to_owned();
    }
    let [thousand, nothing] = [1_000, 0].map(TextSizes::of_tokens);
    let sizes = |tasks, texts| Sizes::new(&fixture.experiment, &fixture.questions, tasks, texts);
    let numbers = |sizes: &Sizes<'_>| (sizes.shard().text_tokens, sizes.all_question_tokens("small"));
    // The questions have 0, 2 and 3 tokens: `cl100k_base` makes one token of up to three digits.
    assert_eq!(numbers(&sizes(&[], &thousand)), (1_000, 5), "without a shard, all is one");
    assert_eq!(numbers(&sizes(&plan.tasks, &thousand)), (334, 5), "a third of it, rounded up");
    assert_eq!(numbers(&sizes(&plan.tasks, &nothing)), (0, 5));
    let whole = sizes(&plan.tasks, &thousand);
    let item = |passage_tokens| rag::InputSize { passages: 7, passage_tokens, ..rag::InputSize::default() };
    for (tokens, expected) in [(999, 999), (1_000, 1_000), (1_001, 1_000)] {
        assert_eq!(whole.within_corpus(item(tokens)).passage_tokens, expected);
    }
    assert_eq!(whole.within_corpus(item(5_000)).passages, 7);
}
