//! What the tasks of a plan used, as a table, and the price that follows from it.

use super::*;
use crate::{
    operator::Operator,
    plan::{PlanInputs, QuestionViews, trial},
    prepare::ModelsAndCorpus,
    spec::Experiment,
    task::fixture,
};
use eval::Question;
use models::Identity;
use rag::load::SourceFile;
use serde_json::json;
use store::Key;

/// Dollars per million tokens read and written.
const CHAT: (f64, f64) = (2.0, 8.0);
const EMBEDDING: f64 = 0.5;

const QUESTIONS: usize = 4;

/// Every stage that calls models: dense vectors, queries that are written, a reranker and a generator.
const ALL_STAGES: &str = "chunker = \"sentence\"\nembedder = \"remote\"\nretriever = \"dense\"\n\
                          query = { multi_query = { model = \"gpt\" } }\nreranker = { pointwise = { model = \"gpt\" } }\n\
                          generator = { compact = { model = \"gpt\" } }\n";

pub(in crate::gather) const GENERATES: &str =
    "chunker = \"sentence\"\nretriever = \"bm25\"\ngenerator = { compact = { model = \"gpt\" } }\n";

/// What each task of an operator used: model, calls, tokens read and written.
type Used = (Operator, &'static str, u64, u64, u64);

const REWRITE: Operator = Operator::Stage(rag::Axis::Query);
const RERANK: Operator = Operator::Stage(rag::Axis::Reranker);

/// One trial that was run: its tasks used nothing, but what is said of them.
pub(in crate::gather) struct Fixture {
    pub(in crate::gather) prepared: PreparedRun,
    pub(in crate::gather) plan: Plan,
    pub(in crate::gather) outcome: PlanOutcome,
    _folder: tempfile::TempDir,
}

fn identity(name: &str) -> Identity {
    let (provider, revision) = ("test".to_owned(), "1".to_owned());
    Identity { provider, model: name.to_owned(), revision, parameters: json!({}) }
}

/// The identity of each model of the experiment; `twin` is another entry for the same model as `gpt`, ten times
/// as expensive if both have a price.
fn identities() -> BTreeMap<String, Identity> {
    [("gpt", "gpt"), ("twin", "gpt"), ("remote", "remote"), ("small", "small")]
        .map(|(name, model)| (name.to_owned(), identity(model)))
        .into()
}

fn usage((_, model, calls, prompt_tokens, completion_tokens): Used) -> TaskUsage {
    // What it cost then does not matter where there is a price now.
    let (model, cost_usd) = (model.to_owned(), 0.25);
    let account = ledger::ledger_id(&identity(&model));
    let used = ModelUsage { model, calls, prompt_tokens, completion_tokens, cost_usd, ..ModelUsage::default() };
    let mut task = TaskUsage::default();
    task.all.add(&account, &used);
    task
}

impl Fixture {
    pub(in crate::gather) async fn new(space: &str, prices: Prices, asked: Option<&[Vec<usize>]>) -> Self {
        Self::asking(space, prices, asked, QUESTIONS).await
    }

    async fn asking(space: &str, prices: Prices, asked: Option<&[Vec<usize>]>, questions: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let chat = |priced: bool, times: f64| match priced {
            true => format!(", price = {{ input = {}, output = {} }}", CHAT.0 * times, CHAT.1 * times),
            false => String::new(),
        };
        let embedding = if prices.remote { format!(", price = {EMBEDDING}") } else { String::new() };
        let text = format!(
            "name = \"x\"\n[corpus]\nsource = \"docs\"\n[models.gpt]\nchat.openai = {{ model = \"gpt\", base_url = \
             \"http://127.0.0.1:1/v1\"{} }}\n[models.twin]\nchat.openai = {{ model = \"gpt\", base_url = \
             \"http://127.0.0.1:1/v1\"{} }}\n[models.remote]\nembedding.openai = {{ model = \"remote\", base_url = \
             \"http://127.0.0.1:1/v1\"{embedding} }}\n[models.small]\nembedding.static = {{ model = \"small\" }}\n\
             [space]\n{space}[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\"]\n",
            chat(prices.gpt, 1.0),
            chat(prices.twin, if prices.gpt { 10.0 } else { 1.0 }),
        );
        let experiment = Experiment::parse(&text, folder.path()).unwrap_or_else(|errors| panic!("{errors:?}"));
        let question =
            |i: usize| Question { id: format!("q{i}"), question: format!("Why {i}?"), ..Question::default() };
        let questions: Vec<Question> = (0..questions).map(question).collect();
        let trials = trial::grid(&experiment);
        assert_eq!(trials.len(), 1);
        let file = |name: &str| -> (SourceFile, Key) {
            // Each is a shard of its own.
            let file = json!({ "path": name, "bytes": 700_000, "place": 0, "location": name });
            (serde_json::from_value(file).unwrap(), Key::of_bytes(name.as_bytes()))
        };
        let plan = Plan::new(&PlanInputs {
            experiment: &experiment,
            given: &BTreeMap::new(),
            trials: &trials,
            identities: &identities(),
            files: &["a.txt", "b.txt", "c.txt"].map(file).to_vec().into(),
            loading: None,
            metadata: &BTreeMap::new(),
            unread: &[],
            pdf_library: "none",
            questions: &questions,
            views: &QuestionViews::NONE,
            asked,
        });
        let run_context = Arc::new(fixture::run_context(folder.path(), experiment, questions.clone()));
        let prepared = PreparedRun {
            similar_names: Vec::new(),
            trials,
            plan: Arc::new(plan.clone()),
            questions,
            documents: 3,
            text_bytes: 2_100_000,
            text_sample: Arc::default(),
            rejected: Vec::new(),
            unread: Vec::new(),
            left_out: Vec::new(),
            lost_questions: Vec::new(),
            dataset: None,
            concurrent_runs: 0,
            warnings: Vec::new(),
            run: "x-1".to_owned(),
            run_context,
            sources: ModelsAndCorpus::of_models(identities()),
            facts: crate::warning::RunFacts::default(),
        };
        let fixture = Self { prepared, plan, outcome: PlanOutcome::default(), _folder: folder };
        for task in fixture.plan.tasks.iter().filter(|task| counts(task)) {
            fixture.keep(task, &TaskUsage::default()).await;
        }
        fixture
    }

    async fn keep(&self, task: &Task, usage: &TaskUsage) {
        let name = crate::layout::usage(&task.artifact());
        self.prepared.run_context.store.replace(&name, serde_json::to_vec(usage).unwrap()).await.unwrap();
    }

    fn of(&self, operator: Operator) -> impl Iterator<Item = (TaskId, &Task)> {
        self.plan.tasks.iter().enumerate().filter(move |(_, task)| task.operator() == operator)
    }

    async fn used(self, table: &[Used]) -> Self {
        for used in table {
            assert!(self.of(used.0).count() > 0, "{:?}", used.0);
            for (_, task) in self.of(used.0) {
                self.keep(task, &usage(*used)).await;
            }
        }
        self
    }

    /// Forgets what the tasks of an operator used, as of an earlier version.
    async fn forget(self, operator: Operator) -> Self {
        for (_, task) in self.of(operator) {
            self.prepared.run_context.store.remove(&crate::layout::usage(&task.artifact())).await.unwrap();
        }
        self
    }

    fn fail(mut self, operator: Operator) -> Self {
        let failed: Vec<TaskId> = self.of(operator).map(|(id, _)| id).collect();
        self.outcome.failed.extend(failed.into_iter().map(|id| (id, "down".to_owned())));
        self
    }

    pub(in crate::gather) async fn price(&self) -> TrialPrice {
        load(&self.prepared, &self.plan, &self.outcome).await.unwrap();
        of_trial(&self.prepared, &self.plan, &self.outcome, &self.prepared.trials[0], 0).await.unwrap()
    }
}

/// Which models have a price.
#[derive(Clone, Copy)]
pub(in crate::gather) struct Prices {
    gpt: bool,
    twin: bool,
    remote: bool,
}

pub(in crate::gather) const ALL: Prices = Prices { gpt: true, twin: false, remote: true };
const NONE: Prices = Prices { gpt: false, twin: false, remote: false };

#[track_caller]
fn close(found: Option<f64>, expected: f64) {
    assert!(found.is_some_and(|found| (found - expected).abs() < 1e-12), "{found:?}, not {expected}");
}

#[tokio::test]
async fn the_calls_of_all_stages_are_priced_and_those_of_the_index_count_apart() {
    let fixture = Fixture::new(ALL_STAGES, ALL, None).await.used(&[
        // Three shards.
        (Operator::EMBED, "remote", 10, 1_000, 0),
        (REWRITE, "gpt", 4, 400, 40),
        (Operator::EmbedQueries, "remote", 1, 20, 0),
        (RERANK, "gpt", 16, 1_600, 16),
        (Operator::GENERATE, "gpt", 4, 2_000, 100),
    ]);
    let fixture = fixture.await;
    assert_eq!((fixture.of(Operator::EMBED).count(), fixture.of(Operator::EmbedQueries).count()), (3, 1));
    let price = fixture.price().await;
    close(price.index_cost_usd, 3.0 * 1_000.0 * EMBEDDING / 1e6);
    let chat = (400.0 + 1_600.0 + 2_000.0) * CHAT.0 + (40.0 + 16.0 + 100.0) * CHAT.1;
    close(price.cost_usd, (chat + 20.0 * EMBEDDING) / 1e6);
    close(price.tokens_per_question, (440.0 + 20.0 + 1_616.0 + 2_100.0) / 4.0);
    assert_eq!((price.usage.index.calls(), price.usage.index.tokens(), price.usage.questions.calls()), (30, 3_000, 25));
    assert!(price.usage.unknown.is_empty() && price.usage.unpriced.is_empty());
}

#[tokio::test]
async fn tokens_of_answers_are_divided_by_the_questions_that_were_answered() {
    let used = [(RERANK, "gpt", 4, 390, 10), (Operator::GENERATE, "gpt", 2, 1_000, 50)];
    let price = Fixture::new(ALL_STAGES, ALL, Some(&[vec![0, 2]])).await.used(&used).await.price().await;
    // All four are reranked, two are answered.
    close(price.tokens_per_question, 400.0 / 4.0 + 1_050.0 / 2.0);

    // Ten questions are two ranges, of eight and of two.
    let generated = [(Operator::GENERATE, "gpt", 5, 900, 100)];
    let fixture = Fixture::asking(GENERATES, ALL, None, 10).await.used(&generated).await;
    assert_eq!(fixture.of(Operator::GENERATE).count(), 2);
    close(fixture.price().await.tokens_per_question, 2_000.0 / 10.0);

    let price = Fixture::asking("chunker = \"sentence\"\nretriever = \"bm25\"\n", ALL, None, 0).await.price().await;
    assert_eq!(price.tokens_per_question, None, "no question");
    assert_eq!((price.cost_usd, price.index_cost_usd), (Some(0.0), Some(0.0)));
    let price = Fixture::new("chunker = \"sentence\"\nretriever = \"bm25\"\n", ALL, None).await.price().await;
    assert_eq!(price.tokens_per_question, Some(0.0), "four questions without a call");
}

#[tokio::test]
async fn the_cost_of_calls_to_a_model_without_a_price_is_not_known() {
    const CALLS: [Used; 3] = [
        (Operator::EMBED, "remote", 1, 1_000, 0),
        (Operator::EmbedQueries, "remote", 1, 20, 0),
        (Operator::GENERATE, "gpt", 4, 2_000, 100),
    ];
    let index = 3_000.0 * EMBEDDING / 1e6;
    let answers = (2_000.0 * CHAT.0 + 100.0 * CHAT.1) / 1e6;
    let search = 20.0 * EMBEDDING / 1e6;
    // Which models have a price, what was used, and the dollars of questions and index; the models without a price.
    let prices = |gpt, remote| Prices { gpt, remote, twin: false };
    type Case = (Prices, &'static [Used], Option<f64>, Option<f64>, &'static [&'static str]);
    let table: [Case; 6] = [
        (prices(true, true), &CALLS, Some(answers + search), Some(index), &[]),
        (prices(false, true), &CALLS, None, Some(index), &["gpt"]),
        (prices(true, false), &CALLS, None, None, &["remote"]),
        (prices(false, false), &CALLS, None, None, &["gpt", "remote"]),
        (prices(true, false), &CALLS[2..], Some(answers), Some(0.0), &[]),
        // A provider that counted neither calls nor tokens was not called.
        (prices(false, true), &[(Operator::GENERATE, "gpt", 0, 0, 0)], Some(0.25), Some(0.0), &[]),
    ];
    for (number, (prices, used, cost, index, unpriced)) in table.into_iter().enumerate() {
        let price = Fixture::new(ALL_STAGES, prices, None).await.used(used).await.price().await;
        for (found, expected) in [(price.cost_usd, cost), (price.index_cost_usd, index)] {
            match expected {
                Some(expected) => close(found, expected),
                None => assert_eq!(found, None, "case {number}"),
            }
        }
        assert_eq!(price.usage.unpriced, unpriced, "case {number}");
        assert!(price.usage.unknown.is_empty(), "case {number}");
    }
}

#[tokio::test]
async fn usage_is_told_at_the_present_price_or_else_at_the_price_of_the_time() {
    let used = [(Operator::GENERATE, "gpt", 4, 2_000, 100)];
    for (prices, expected) in [(ALL, (2_000.0 * CHAT.0 + 100.0 * CHAT.1) / 1e6), (NONE, 0.25)] {
        let price = Fixture::new(GENERATES, prices, None).await.used(&used).await.price().await;
        let costs: Vec<f64> = price.usage.questions.models().map(|(_, used)| used.cost_usd).collect();
        assert_eq!(costs.len(), 1);
        close(Some(costs[0]), expected);
    }
}

#[tokio::test]
async fn two_entries_for_one_model_share_its_price_and_the_trials_own_name_is_told() {
    let twins = GENERATES.replace("gpt", "twin");
    let used = [(Operator::GENERATE, "gpt", 4, 2_000, 100)];
    let cost = (2_000.0 * CHAT.0 + 100.0 * CHAT.1) / 1e6;
    let price = Fixture::new(&twins, ALL, None).await.used(&used).await.price().await;
    close(price.cost_usd, cost);
    let price = Fixture::new(&twins, NONE, None).await.used(&used).await.price().await;
    assert_eq!((price.cost_usd, price.usage.unpriced), (None, vec!["twin".to_owned()]));
    let price = Fixture::new(GENERATES, NONE, None).await.used(&used).await.price().await;
    assert_eq!(price.usage.unpriced, ["gpt"]);
}

#[tokio::test]
async fn what_an_earlier_version_did_not_count_is_unknown_and_so_is_its_cost() {
    let used = [(Operator::EMBED, "remote", 1, 1_000, 0), (Operator::GENERATE, "gpt", 4, 2_000, 100)];
    let new = async || Fixture::new(ALL_STAGES, ALL, None).await.used(&used).await;
    let index = 3_000.0 * EMBEDDING / 1e6;

    let price = new().await.forget(RERANK).await.price().await;
    assert_eq!((price.usage.unknown, price.cost_usd), (vec!["rerank".to_owned()], None));
    close(price.index_cost_usd, index);
    close(price.tokens_per_question, 2_100.0 / 4.0);

    let price = new().await.forget(Operator::EMBED).await.price().await;
    assert_eq!((price.usage.unknown, price.index_cost_usd), (vec!["embed".to_owned()], None));
    close(price.cost_usd, (2_000.0 * CHAT.0 + 100.0 * CHAT.1) / 1e6);

    // All its models are in this process: whatever the calls were, they cost nothing.
    let local = "chunker = \"sentence\"\nembedder = \"small\"\nretriever = \"dense\"\n";
    let free = Fixture::new(local, NONE, None).await.forget(Operator::EMBED).await;
    let price = free.forget(Operator::EmbedQueries).await.price().await;
    assert_eq!(price.usage.unknown, ["embed", "embed queries"]);
    assert_eq!((price.cost_usd, price.index_cost_usd), (Some(0.0), Some(0.0)));
}

#[tokio::test]
async fn of_two_entries_for_one_model_the_price_is_that_of_the_entry_which_the_trial_asks() {
    let used = [(Operator::GENERATE, "gpt", 4, 2_000, 100)];
    for (space, times) in [(GENERATES.to_owned(), 1.0), (GENERATES.replace("gpt", "twin"), 10.0)] {
        let price = Fixture::new(&space, Prices { twin: true, ..ALL }, None).await.used(&used).await.price().await;
        close(price.cost_usd, times * (2_000.0 * CHAT.0 + 100.0 * CHAT.1) / 1e6);
    }
}

#[tokio::test]
async fn a_task_that_failed_is_left_out_and_its_cost_is_not_called_unknown() {
    let used = [(RERANK, "gpt", 4, 390, 10), (Operator::GENERATE, "gpt", 4, 2_000, 100)];
    let fixture = Fixture::new(ALL_STAGES, ALL, None).await.used(&used).await;
    let price = fixture.forget(Operator::GENERATE).await.fail(Operator::GENERATE).price().await;
    assert!(price.usage.unknown.is_empty());
    close(price.cost_usd, (390.0 * CHAT.0 + 10.0 * CHAT.1) / 1e6);
    close(price.tokens_per_question, 100.0);
}

#[tokio::test]
async fn the_usage_of_a_partial_output_is_that_of_this_run() {
    let mut fixture = Fixture::new(GENERATES, ALL, None).await.used(&[(Operator::GENERATE, "gpt", 4, 2_000, 0)]).await;
    let (id, partial) = (fixture.of(Operator::GENERATE).next().unwrap().0, "partial/run/1-artifacts-ab-x.parquet");
    let usage = serde_json::to_vec(&usage((Operator::GENERATE, "gpt", 1, 500, 0))).unwrap();
    fixture.prepared.run_context.store.replace(&crate::layout::usage(partial), usage).await.unwrap();
    fixture.outcome.outputs.insert(id, partial.to_owned());
    close(fixture.price().await.cost_usd, 500.0 * CHAT.0 / 1e6);
}

#[tokio::test]
async fn seconds_before_the_answer_are_those_of_each_question_and_an_even_share_of_the_rest() {
    let fixture = Fixture::new(ALL_STAGES, ALL, None).await;
    let ledger = |seconds: f64| {
        let mut ledger = Ledger::default();
        ledger.add("a", &ModelUsage { seconds, ..ModelUsage::default() });
        ledger
    };
    let of = |all: f64, questions: &[(&str, f64)]| {
        let questions = questions.iter().map(|(id, seconds)| ((*id).to_owned(), ledger(*seconds))).collect();
        TaskUsage { all: ledger(all), questions, ..TaskUsage::default() }
    };
    for (operator, usage) in [
        // Two seconds are of calls for all four questions.
        (RERANK, of(5.0, &[("q0", 1.0), ("q1", 2.0)])),
        (REWRITE, of(8.0, &[("q0", 2.0), ("q1", 2.0), ("q2", 2.0), ("q3", 2.0)])),
        (Operator::GENERATE, of(100.0, &[("q0", 100.0)])),
        (Operator::EMBED, of(100.0, &[])),
    ] {
        for (_, task) in fixture.of(operator) {
            fixture.keep(task, &usage).await;
        }
    }
    let seconds: Vec<f64> = fixture.price().await.search_seconds.into_values().collect();
    assert_eq!(seconds, [1.0 + 0.5 + 2.0, 2.0 + 0.5 + 2.0, 0.5 + 2.0, 0.5 + 2.0]);
}
