//! Estimates what the calls of a plan should cost, before any of them is made.
//!
//! Passages are taken to be as many and as large as the settings allow, and
//! answers as long as `max_tokens`; answers that are in the journal already are
//! not subtracted. So a run mostly costs less. How many statements a judge
//! finds is known only later. Each metric tells how often it asks its judges. If
//! there are several judges, each is asked, but only the first writes statements.

use crate::{
    Prepared,
    operator::Operator,
    plan::TaskId,
    spec::{EvaluateSpec, Experiment},
    task::Task,
};
use eval::{MetricConfig, Question, Sample};
use models::{Cap, Caps, ModelConfig};
use rag::{Ask, Component, INSTRUCTION_TOKENS, Item, Passage};
use serde::Serialize;
use std::collections::BTreeMap;

/// Bytes of text per token.
const BYTES_PER_TOKEN: u64 = 4;
/// Tokens of texts that are embedded by one call.
const TOKENS_PER_EMBEDDING_CALL: u64 = 16_384;
/// Tokens that a prompt has for each passage besides its text: number, file and heading.
const LABEL_TOKENS: u64 = 24;
/// Tokens of a judge's reply.
const VERDICT_TOKENS: u64 = 60;

/// The estimated cost of the tasks that are left to run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CostEstimate {
    /// By model, in alphabetical order.
    pub models: Vec<ModelEstimate>,
    /// Calls of all models.
    pub calls: u64,
    /// Tokens read and written, of all models.
    pub tokens: u64,
    /// Dollars of all models, if every price is known.
    pub cost_usd: Option<f64>,
    /// What a run may cost.
    pub budget: Caps,
    /// The caps that the run should reach before it ends.
    pub exceeds: Vec<Cap>,
}

/// The estimated cost of one model's calls.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelEstimate {
    /// The model's name in the experiment.
    pub model: String,
    /// Calls.
    pub calls: u64,
    /// Tokens read.
    pub prompt_tokens: u64,
    /// Tokens written, at most.
    pub completion_tokens: u64,
    /// Dollars, if the price is known; 0 for a model of this process.
    pub cost_usd: Option<f64>,
    /// Whether the model runs in this process: its calls cost time only.
    pub here: bool,
}

/// The calls and tokens that a model is asked.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Load {
    calls: u64,
    read: u64,
    written: u64,
}

impl Load {
    fn new(calls: u64, read: u64, written: u64) -> Self {
        Self { calls, read, written }
    }

    /// The load of a component's calls.
    pub(crate) fn of(ask: &Ask<'_>) -> Self {
        Self::new(ask.calls, ask.prompt_tokens, ask.completion_tokens)
    }

    /// The load of embedding texts with this many tokens.
    pub(crate) fn embedding(tokens: u64) -> Self {
        Self::new(tokens.div_ceil(TOKENS_PER_EMBEDDING_CALL), tokens, 0)
    }
}

/// The call of a judge about one thing with this many bytes of text.
pub(crate) fn verdict(bytes: usize) -> Load {
    Load::new(1, INSTRUCTION_TOKENS + bytes as u64 / BYTES_PER_TOKEN, VERDICT_TOKENS)
}

/// A component's load for one question and its passages.
pub(crate) fn of_item<'a, C: Component + ?Sized>(
    component: &'a C,
    question: &Question,
    passages: &[Passage],
) -> Vec<(&'a str, Load)> {
    let bytes: usize = passages.iter().map(|passage| passage.text.len()).sum();
    let item = Item {
        text_tokens: question.question.len() as u64 / BYTES_PER_TOKEN + 1,
        passages: passages.len() as u64,
        passage_tokens: bytes as u64 / BYTES_PER_TOKEN,
    };
    component.asks(item).into_iter().map(|ask| (ask.model, Load::of(&ask))).collect()
}

/// The sizes that are known before a run.
pub(crate) struct Sizes<'a> {
    pub(crate) experiment: &'a Experiment,
    pub(crate) questions: &'a [Question],
    tasks: &'a [Task],
    /// Tokens of all documents.
    text_tokens: u64,
    /// Shards that the documents are in; at least one.
    shards: u64,
}

impl<'a> Sizes<'a> {
    fn of(prepared: &'a Prepared, experiment: &'a Experiment) -> Self {
        let loads = prepared.plan.tasks.iter().filter(|task| task.operator() == Operator::Load).count();
        let text_tokens = prepared.text_bytes as u64 / BYTES_PER_TOKEN;
        let (questions, tasks) = (&prepared.questions, &prepared.plan.tasks);
        Self { experiment, questions, tasks, text_tokens, shards: loads.max(1) as u64 }
    }

    /// A shard of the documents.
    pub(crate) fn shard(&self) -> Item {
        Item { text_tokens: self.text_tokens.div_ceil(self.shards), ..Item::default() }
    }

    /// What a task gives to those after it.
    pub(crate) fn given(&self, task: TaskId) -> Item {
        self.tasks[task].work.kind().gives(self)
    }

    /// Passages that hold no more than there is: a small corpus fills no context.
    pub(crate) fn within_corpus(&self, item: Item) -> Item {
        Item { passage_tokens: item.passage_tokens.min(self.text_tokens), ..item }
    }

    fn question(&self, i: usize) -> u64 {
        self.questions[i].question.len() as u64 / BYTES_PER_TOKEN + 1
    }

    /// Tokens of all questions.
    pub(crate) fn all_questions(&self) -> u64 {
        (0..self.questions.len()).map(|i| self.question(i)).sum()
    }

    /// The calls that a component makes for some questions, with these passages for each.
    pub(crate) fn of_questions<'b, C: Component + ?Sized>(
        &self,
        component: &'b C,
        found: Item,
        questions: impl Iterator<Item = usize>,
    ) -> Vec<(&'b str, Load)> {
        let passage_tokens = found.passage_tokens + found.passages * LABEL_TOKENS;
        let item = |i| Item { text_tokens: self.question(i), passage_tokens, ..found };
        questions.flat_map(|i| component.asks(item(i))).map(|ask| (ask.model, Load::of(&ask))).collect()
    }
}

impl CostEstimate {
    pub(crate) fn of(experiment: &Experiment, budget: Caps, prepared: &Prepared, to_run: &[TaskId]) -> Self {
        let sizes = Sizes::of(prepared, experiment);
        let tasks = to_run.iter().map(|&id| &prepared.plan.tasks[id]);
        Self::sum(&experiment.models, budget, tasks.flat_map(|task| task.work.kind().asks(&sizes)))
    }

    /// The sum of what models are asked.
    pub(crate) fn sum<'a>(
        configs: &BTreeMap<String, ModelConfig>,
        budget: Caps,
        asked: impl Iterator<Item = (&'a str, Load)>,
    ) -> Self {
        let mut loads: BTreeMap<&str, Load> = BTreeMap::new();
        for (model, load) in asked {
            let sum = loads.entry(model).or_default();
            *sum = Load::new(sum.calls + load.calls, sum.read + load.read, sum.written + load.written);
        }
        let models: Vec<ModelEstimate> = loads
            .into_iter()
            .filter(|(_, load)| load.calls > 0)
            .map(|(model, Load { calls, read, written })| {
                let prices = configs.get(model).and_then(ModelConfig::prices);
                let cost_usd = prices.map(|(input, output)| (read as f64 * input + written as f64 * output) / 1e6);
                ModelEstimate {
                    model: model.to_owned(),
                    calls,
                    prompt_tokens: read,
                    completion_tokens: written,
                    cost_usd,
                    here: configs.get(model).is_some_and(ModelConfig::is_here),
                }
            })
            .collect();
        let calls = models.iter().map(|model| model.calls).sum();
        let tokens = models.iter().map(|model| model.prompt_tokens + model.completion_tokens).sum();
        // The sum of nothing is -0.
        let cost_usd = models.iter().map(|model| model.cost_usd).sum::<Option<f64>>().map(|cost| cost + 0.0);
        let exceeds = [
            (Cap::Usd, budget.usd.zip(cost_usd).is_some_and(|(limit, cost)| cost > limit)),
            (Cap::Tokens, budget.tokens.is_some_and(|limit| tokens > limit)),
            (Cap::Calls, budget.calls.is_some_and(|limit| calls > limit)),
        ];
        let exceeds = exceeds.into_iter().filter(|(_, exceeds)| *exceeds).map(|(cap, _)| cap).collect();
        Self { models, calls, tokens, cost_usd, budget, exceeds }
    }
}

/// The tokens of a question and its reference answer.
pub(crate) fn asked_tokens(question: &Question) -> u64 {
    let bytes = question.question.len() + question.reference.as_ref().map_or(0, String::len);
    bytes as u64 / BYTES_PER_TOKEN + 1
}

/// The calls for one score. The text of the item is that of question, reference
/// and answer.
pub(crate) fn score<'a>(evaluate: &'a EvaluateSpec, metric: &MetricConfig, item: Item) -> Vec<(&'a str, Load)> {
    let needs = metric.needs();
    let calls = metric.judge_calls(item.passages);
    let passages = if needs.passages { item.passages } else { 0 };
    let read_at_once = if metric.reads_one_passage() { passages.min(1) } else { passages };
    let passage_tokens = item.passage_tokens.checked_div(item.passages).unwrap_or_default() + LABEL_TOKENS;
    let tokens = INSTRUCTION_TOKENS + item.text_tokens + read_at_once * passage_tokens;
    let judge = |calls: u64| Load::new(calls, calls * tokens, calls * VERDICT_TOKENS);
    let judges = evaluate.judges.iter().filter(|_| needs.judge).enumerate().map(|(seat, model)| {
        let writing = if seat == 0 { calls.writing } else { 0 };
        (model.as_str(), judge(calls.voting + writing))
    });
    let embedder = evaluate.embedder.as_deref().filter(|_| needs.embedder);
    judges.chain(embedder.map(|model| (model, Load::new(1, INSTRUCTION_TOKENS, 0)))).collect()
}

/// The calls for the score of a sample that exists already.
pub(crate) fn score_of<'a>(
    evaluate: &'a EvaluateSpec,
    metric: &MetricConfig,
    sample: &Sample<'_>,
) -> Vec<(&'a str, Load)> {
    let answer = sample.answer.map_or(0, |answer| answer.text.len());
    let passages: usize = sample.passages.iter().map(|passage| passage.text.len()).sum();
    let item = Item {
        text_tokens: asked_tokens(sample.question) + answer as u64 / BYTES_PER_TOKEN,
        passages: sample.passages.len() as u64,
        passage_tokens: passages as u64 / BYTES_PER_TOKEN,
    };
    score(evaluate, metric, item)
}
