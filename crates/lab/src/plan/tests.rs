//! What is planned for an experiment, without a corpus and without models.

use super::*;
use crate::{
    engine::tasks_to_run,
    operator::Operator,
    plan::{ranges::question_order, trial, work::KeyContext},
    spec::Experiment,
};
use eval::Question;
use models::Identity;
use rag::{Axis, Metadata, index::IndexKind, load::SourceFile};
use serde_json::json;
use std::collections::BTreeMap;

const SPACE: &str = "chunker = [{ sentence = { chunk_size = 300 } }, { sentence = { chunk_size = 600 } }]\n\
    embedder = [\"small\", \"large\"]\nretriever = [\"bm25\", \"hybrid\"]\n";

fn experiment(space: &str, evaluate: &str) -> Experiment {
    let text = format!(
        "name = \"x\"\n[corpus]\nsource = \"docs\"\n[dataset]\npath = \"golden.jsonl\"\n\
         [models.small]\nembedding.static = {{ model = \"small\" }}\n\
         [models.large]\nembedding.static = {{ model = \"large\" }}\n\
         [models.ranker]\nrerank.local = {{ model = \"ranker\" }}\n\
         [models.gpt]\nchat.openai = {{ model = \"m\", base_url = \"http://127.0.0.1:1/v1\" }}\n\
         [space]\n{space}[evaluate]\n{evaluate}"
    );
    Experiment::parse(&text, ".").unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn identity(model: &str) -> Identity {
    let (provider, revision) = ("test".to_owned(), "1".to_owned());
    Identity { provider, model: model.to_owned(), revision, parameters: json!({}) }
}

/// What a plan is made from, owned.
pub(crate) struct Fixture {
    pub(super) experiment: Experiment,
    identities: BTreeMap<String, Identity>,
    pub(super) files: Vec<(SourceFile, Key)>,
    pub(super) metadata: BTreeMap<String, Metadata>,
    pub(super) pdf_library: &'static str,
    pub(super) questions: Vec<Question>,
}

impl Fixture {
    pub(crate) fn new(space: &str) -> Self {
        Self::evaluating(space, "metrics = [\"recall\"]\n")
    }

    pub(super) fn evaluating(space: &str, evaluate: &str) -> Self {
        let file = |name: &str| {
            let file = json!({ "path": name, "bytes": 700_000, "place": 0, "location": name });
            (serde_json::from_value(file).unwrap(), Key::of_bytes(name.as_bytes()))
        };
        let question =
            |i: usize| Question { id: format!("q{i}"), question: format!("Why {i}?"), ..Question::default() };
        Self {
            experiment: experiment(space, evaluate),
            identities: ["small", "large", "ranker", "gpt"].map(|name| (name.to_owned(), identity(name))).into(),
            files: ["a.txt", "b.txt", "c.txt"].map(file).into(),
            metadata: BTreeMap::new(),
            pdf_library: "none",
            questions: (0..20).map(question).collect(),
        }
    }

    fn planned(&self, asked: Option<&[Vec<usize>]>) -> Plan {
        Plan::new(&PlanInputs {
            experiment: &self.experiment,
            given: &BTreeMap::new(),
            trials: &trial::grid(&self.experiment),
            identities: &self.identities,
            files: &self.files.clone().into(),
            loading: None,
            metadata: &self.metadata,
            unread: &[],
            pdf_library: self.pdf_library,
            questions: &self.questions,
            views: &QuestionViews::NONE,
            asked,
        })
    }

    /// Another model stands behind this name.
    pub(super) fn is_now(&mut self, name: &str) {
        self.identities.insert(name.to_owned(), identity("another"));
    }

    pub(crate) fn plan(&self) -> Plan {
        self.planned(None)
    }
}

fn plan(space: &str) -> Plan {
    Fixture::new(space).plan()
}

fn count(plan: &Plan, operator: Operator) -> usize {
    plan.tasks.iter().filter(|task| task.operator() == operator).count()
}

/// The keys of the tasks of an operator.
fn keys(plan: &Plan, operator: Operator) -> Vec<Key> {
    plan.tasks.iter().filter(|task| task.operator() == operator).map(|task| task.key).collect()
}

#[test]
fn what_trials_have_in_common_is_planned_once() {
    let plan = plan(SPACE);
    // 700 kB each: a task of its own for each file.
    assert_eq!(count(&plan, Operator::Load), 3);
    assert_eq!(count(&plan, Operator::CHUNK), 6, "two chunkers");
    assert_eq!(count(&plan, Operator::EMBED), 12, "two chunkers and two models");
    assert_eq!(count(&plan, Operator::EmbedQueries), 2, "two models");
    assert_eq!(count(&plan, Operator::Index), 2 + 4, "BM25 of each chunker, vectors of each pair");
    // BM25 alone has no embedder, so that it stands once for each chunker.
    assert_eq!((plan.trials.len(), count(&plan, Operator::RETRIEVE), count(&plan, Operator::Score)), (6, 6, 6));
    assert!(plan.unshared > plan.tasks.len());
}

#[test]
fn inputs_come_before_the_tasks_that_use_them() {
    let space = format!(
        "{SPACE}reranker = [\"none\", \"late_interaction\"]\ngenerator = {{ compact = {{ model = \"gpt\" }} }}\n"
    );
    let plan = plan(&space);
    for (id, task) in plan.tasks.iter().enumerate() {
        assert!(task.inputs().iter().all(|input| *input < id), "{}", task.label);
    }
    let numbers: std::collections::HashSet<Key> = plan.tasks.iter().map(|task| task.key).collect();
    assert_eq!(numbers.len(), plan.tasks.len(), "no task twice");
}

#[test]
fn a_retrieval_is_what_it_searches_whatever_comes_after_it() {
    let space = "chunker = \"sentence\"\nembedder = \"small\"\nretriever = \"bm25\"\n";
    let alone = keys(&plan(space), Operator::RETRIEVE);
    // Late interaction needs vectors, which BM25 does not look at.
    let reranked = plan(&format!("{space}reranker = {{ late_interaction = {{ candidates = 5 }} }}\n"));
    assert_eq!(keys(&reranked, Operator::RETRIEVE), alone);
    assert_eq!(count(&reranked, Operator::Stage(Axis::Reranker)), 1);
}

#[test]
fn a_stage_that_does_nothing_is_not_planned() {
    let space = "chunker = \"sentence\"\nretriever = \"bm25\"\n";
    let plain = plan(space);
    let named = plan(&format!("{space}reranker = \"none\"\nquery = \"none\"\n"));
    assert_eq!(plain.key(), named.key());
    // One that cuts does something.
    let cut = plan(&format!("{space}reranker = {{ none = {{ top_n = 1 }} }}\n"));
    assert_eq!(count(&cut, Operator::Stage(Axis::Reranker)), 1);
}

#[test]
fn another_setting_model_text_or_question_is_another_task() {
    let space = "chunker = \"sentence\"\nembedder = \"small\"\nretriever = \"dense\"\n";
    let generator = "generator = { compact = { model = \"gpt\" } }\n";
    let base = Fixture::new(&format!("{space}{generator}"));
    let before = base.plan();
    let differ = |after: &Plan| -> Vec<&'static str> {
        let changed = |operator: &Operator| keys(&before, *operator) != keys(after, *operator);
        Operator::all().filter(changed).map(Operator::name).collect()
    };
    let mut other =
        Fixture::new(&format!("{space}generator = {{ compact = {{ model = \"gpt\", max_tokens = 9 }} }}\n"));
    assert_eq!(differ(&other.plan()), ["generate"], "recall looks at no answer");
    other = Fixture::new(&format!("{space}{generator}"));
    other.identities.insert("gpt".to_owned(), identity("another"));
    assert_eq!(differ(&other.plan()), ["generate"]);
    other.identities = base.identities.clone();
    other.identities.insert("small".to_owned(), identity("another"));
    assert_eq!(differ(&other.plan()), ["embed", "embed queries", "index", "retrieve", "generate", "score"]);
    other.identities = base.identities.clone();
    other.questions[3].question = "Why not?".to_owned();
    assert_eq!(differ(&other.plan()), ["embed queries", "retrieve", "generate", "score"]);
    other.questions = base.questions.clone();
    other.files[0].1 = Key::of_bytes(b"other words");
    assert_eq!(differ(&other.plan()), ["load", "chunk", "embed", "index", "retrieve", "generate", "score"]);
    other.files = base.files.clone();
    assert_eq!(differ(&other.plan()), Vec::<&str>::new());
}

#[test]
fn keys_are_what_they_were() {
    let space = "chunker = [\"sentence\", \"sentence_window\"]\nembedder = \"small\"\nretriever = [\"bm25\", \"dense\", \"hybrid\"]\n\
        reranker = [\"none\", { late_interaction = { candidates = 5 } }, { cross_encoder = { model = \"ranker\", candidates = 5 } }, { listwise = { model = \"gpt\", candidates = 5 } }]\n\
        generator = [{ compact = { model = \"gpt\" } }, { refine = { model = \"gpt\" } }]\n";
    let evaluate = "metrics = [\"recall\", \"token_f1\", \"faithfulness\", \"answer_similarity\"]\njudge = \"gpt\"\n\
        embedder = \"large\"\nobjective = [\"recall\"]\njudged = 5\n";
    let plan = Fixture::evaluating(space, evaluate).plan();
    assert_eq!((plan.trials.len(), plan.tasks.len(), plan.unshared), (48, 362, 960));
    // What is stored under other keys is made anew: no change of structure may change them.
    assert_eq!(plan.key().hex(), "91f92af3aba1e4167a48a04c1ccdddd28e74b6a4b29dfe942d189d3039b5ccb6");
}

#[test]
fn answers_are_made_in_shards_and_judged_as_far_as_the_experiment_wants() {
    let space = "chunker = \"sentence\"\nretriever = \"bm25\"\ngenerator = { compact = { model = \"gpt\" } }\n";
    let evaluate = "metrics = [\"recall\", \"faithfulness\"]\njudge = \"gpt\"\nobjective = [\"recall\"]\nanswered = 12\njudged = 5\n";
    let fixture = Fixture::evaluating(space, evaluate);
    let rows = |plan: &Plan, operator: Operator| -> Vec<usize> {
        plan.tasks.iter().filter(|task| task.operator() == operator).filter_map(|task| task.rows).collect()
    };
    let whole = fixture.plan();
    // Parts of three ranges of eight questions.
    assert_eq!(rows(&whole, Operator::GENERATE).iter().sum::<usize>(), 12);
    assert_eq!(rows(&whole, Operator::Score), [20], "retrieval is scored for all questions");
    assert_eq!(rows(&whole, Operator::Judge), [5]);
    // What is judged depends on the order of the dataset, not on the order in which a search asks.
    let asked = fixture.planned(Some(&[vec![11, 3, 4]]));
    assert_eq!((rows(&asked, Operator::GENERATE).iter().sum::<usize>(), rows(&asked, Operator::Judge)), (3, vec![2]));
    assert_eq!(fixture.planned(Some(&[vec![4, 11, 3]])).key(), asked.key());
}

#[test]
fn a_search_and_a_grid_have_the_tasks_of_the_ranges_that_both_ask() {
    let space = "chunker = \"sentence\"\nretriever = \"bm25\"\ngenerator = { compact = { model = \"gpt\" } }\n";
    let fixture = Fixture::evaluating(space, "metrics = [\"recall\", \"token_f1\"]\n");
    let order = question_order(20);
    let new_in = |earlier: &Plan, later: &Plan, operator| -> Vec<usize> {
        let earlier = keys(earlier, operator);
        let new = later.tasks.iter().filter(|task| task.operator() == operator && !earlier.contains(&task.key));
        new.filter_map(|task| task.rows).collect()
    };
    let (grid, first) = (fixture.plan(), fixture.planned(Some(&[order[..8].to_vec()])));
    let more = fixture.planned(Some(&[order[..11].to_vec()]));
    assert_eq!(new_in(&first, &more, Operator::GENERATE), [3], "a whole range is not asked again");
    assert_eq!(new_in(&first, &grid, Operator::GENERATE).iter().sum::<usize>(), 12);
    assert_eq!(new_in(&grid, &first, Operator::GENERATE), Vec::<usize>::new());
    // 20 questions are one range of scores: the rows of its parts are taken from the store.
    assert_eq!(new_in(&first, &grid, Operator::Score), [20]);
    let all = fixture.planned(Some(&[order]));
    assert_eq!(all.key(), grid.key(), "asking everything is the grid");
}

#[test]
fn what_a_stored_task_was_made_from_is_not_needed() {
    let plan = plan("chunker = \"sentence\"\nretriever = \"bm25\"\n");
    let retrieval = plan.trials[0].passages;
    let stored: Vec<bool> = (0..plan.tasks.len()).map(|id| id == retrieval).collect();
    let (to_run, reused) = tasks_to_run(&plan, &stored, &[]);
    assert_eq!((to_run, reused), (plan.trials[0].scores[0].1.clone(), vec![retrieval]));
    let (to_run, _) = tasks_to_run(&plan, &vec![false; plan.tasks.len()], &[]);
    assert_eq!(to_run.len(), plan.tasks.len());
}

#[test]
fn vectors_of_whole_documents_are_tasks_of_their_own_and_words_are_shared() {
    let space = "chunker = \"sentence\"\nembedder = \"small\"\nretriever = \"hybrid\"\n";
    let late = |settings: &str| format!("{space}enrich = [\"none\", {{ late_chunking = {{ {settings} }} }}]\n");
    let both = plan(&late(""));
    assert_eq!(both.trials.len(), 2);
    assert_eq!(count(&both, Operator::Stage(Axis::Enrich)), 0, "no text is written");
    assert_eq!(count(&both, Operator::EMBED), 6, "three shards, with and without their documents");
    assert_eq!(count(&both, Operator::Index), 3, "one of words, two of vectors");
    let labels: Vec<&str> = both.tasks.iter().map(|task| task.label.as_str()).collect();
    assert!(labels.contains(&"embed small on sentence with late_chunking"), "{labels:?}");
    let of = |settings: &str| keys(&plan(&late(settings)), Operator::EMBED);
    assert_eq!(of("overlap = 256"), of(""), "the default");
    assert_eq!(of("least_window = 64"), of(""), "it changes no vector");
    assert_ne!(of("overlap = 128"), of(""));
    let mut other = Fixture::new(&late(""));
    other.identities.insert("small".to_owned(), identity("another"));
    assert!(keys(&other.plan(), Operator::EMBED).iter().all(|key| !of("").contains(key)));
    // Where nobody compares vectors, there is no other trial.
    assert_eq!(plan(&late("").replace("hybrid", "bm25")).trials.len(), 1);
}

#[test]
fn a_file_that_cannot_be_read_now_moves_no_other_to_another_task() {
    let mut fixture = Fixture::new("chunker = \"sentence\"\nretriever = \"bm25\"\n");
    let (absent, _) = fixture.files.remove(1);
    let grid = trial::grid(&fixture.experiment);
    let inputs = |unread: &[SourceFile]| {
        let plan = Plan::loading(&PlanInputs {
            experiment: &fixture.experiment,
            given: &BTreeMap::new(),
            trials: &grid,
            identities: &fixture.identities,
            files: &fixture.files.clone().into(),
            loading: None,
            metadata: &BTreeMap::new(),
            unread,
            pdf_library: "none",
            questions: &[],
            views: &QuestionViews::NONE,
            asked: None,
        });
        keys(&plan, Operator::Load)
    };
    assert_eq!(inputs(&[absent]).len(), 2);
}

#[test]
fn records_of_earlier_versions_say_where_indexes_are_and_are_written_as_then() {
    let written = r#"{"chunks":[0,1],"dense":3,"bm25":null,"tokens":[4,5],"queries":null}"#;
    let inputs: CorpusInputs = serde_json::from_str(written).unwrap();
    assert_eq!(inputs.indexes, [(IndexKind::Dense, vec![3]), (IndexKind::Tokens, vec![4, 5])].into());
    let again = serde_json::to_value(&inputs).unwrap();
    for (name, value) in serde_json::from_str::<serde_json::Map<_, _>>(written).unwrap() {
        assert_eq!(again[&name], value, "{name}");
    }
    let inputs = CorpusInputs { question_vectors: Some(2), ..inputs };
    assert_eq!(inputs.all(), [0, 1, 3, 2, 4, 5], "this order is part of keys");
    let both = [(IndexKind::Dense, vec![3]), (IndexKind::Bm25, vec![6]), (IndexKind::Tokens, vec![4, 5])].into();
    let inputs = CorpusInputs { indexes: both, ..inputs };
    assert_eq!(inputs.all(), [0, 1, 6, 3, 2, 4, 5], "indexes are in the order of their names");
}

#[test]
fn earlier_messages_are_in_no_key_of_questions_that_have_none() {
    let fixture = Fixture::new(SPACE);
    let writer = work::WriteQueriesWork { writer: rag::query::QueryConfig::None(Default::default()), embedder: None };
    let key = |questions: &[Question]| {
        let (experiment, identities) = (&fixture.experiment, &fixture.identities);
        let inputs = PlanInputs {
            experiment,
            given: &BTreeMap::new(),
            trials: &[],
            identities,
            metadata: &BTreeMap::new(),
            files: &fixture.files.clone().into(),
            loading: None,
            unread: &[],
            pdf_library: "none",
            questions,
            views: &QuestionViews::NONE,
            asked: None,
        };
        work::Work::from(writer.clone()).describe().key(&KeyContext { tasks: &[], inputs: &inputs })
    };
    let (alone, mut talk) = (fixture.questions.clone(), fixture.questions.clone());
    talk[3].turns = vec![models::Message::user("Who built it?")];
    let with = key(&talk);
    assert_ne!(key(&alone), with, "another conversation is searched otherwise");
    talk[3].turns.clear();
    assert_eq!(key(&alone), key(&talk));
}
