//! Estimates what the calls of a plan should cost, before any of them is made.
//!
//! Tokens are those of the model that is called. The estimate assumes as many passages as the settings allow, passages
//! as large as the chunks of a sample of the documents, and answers as long as `max_tokens`. Answers that are in the
//! journal already are not subtracted. So most runs cost less. How many statements an answer will have is not known
//! yet: each metric estimates how often it calls its judges. If there are several judges, only the first divides
//! answers into statements; all of them vote.

use super::{
    Plan,
    graph::TaskId,
    model_load::ModelLoad,
    text_sizes::TextSizes,
    trial::identity_name,
    work::{Sizes, Task},
};
use crate::spec::{Experiment, SystemSpec};
use eval::Question;
use models::{Cap, Caps, ModelConfig, TotalSpending};
use serde::Serialize;
use std::collections::BTreeMap;

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
    /// The run's caps.
    pub budget: Caps,
    /// The caps that the run will probably reach before it ends.
    pub exceeds: Vec<Cap>,
    /// The caps over all starts and what was spent of them; none without such caps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<TotalSpending>,
    /// The caps over all starts that the run will probably reach before it ends.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exceeds_total: Vec<Cap>,
}

/// The estimated cost of one model's calls.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelEstimate {
    /// The model's name in the experiment.
    pub model: String,
    /// Calls.
    pub calls: u64,
    /// Tokens read; 0 for a system, whose tokens are not known before it replies.
    pub prompt_tokens: u64,
    /// Tokens written, at most; 0 for a system.
    pub completion_tokens: u64,
    /// Whether it is a system, whose tokens are not known before it replies.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_system: bool,
    /// Dollars, if the price is known; 0 for a model of this process.
    pub cost_usd: Option<f64>,
    /// Whether the model runs in this process: its calls cost time only.
    pub here: bool,
}

impl CostEstimate {
    /// The estimated cost of the tasks `to_run` of a plan.
    pub(crate) fn of(
        experiment: &Experiment,
        budget: Caps,
        plan: &Plan,
        questions: &[Question],
        texts: &TextSizes,
        to_run: &[TaskId],
    ) -> Self {
        let sizes = Sizes::new(experiment, questions, &plan.tasks, texts);
        Self::of_tasks(&sizes, budget, to_run.iter().map(|&id| (&plan.tasks[id], 1)))
    }

    /// The estimated cost of tasks. Each comes with a number, and counts as that many equal tasks.
    pub(crate) fn of_tasks<'a>(
        sizes: &Sizes<'a>,
        budget: Caps,
        to_run: impl IntoIterator<Item = (&'a Task, u64)>,
    ) -> Self {
        let experiment = sizes.experiment;
        let loads = to_run.into_iter().flat_map(|(task, times)| {
            let loads = task.work.describe().estimate_calls(sizes);
            loads.into_iter().map(move |(model, load)| (model, load.times(times)))
        });
        Self::with_systems((&experiment.models, &experiment.systems), budget, loads)
    }

    /// The cost of all loads together.
    pub(crate) fn sum<'a>(
        configs: &BTreeMap<String, ModelConfig>,
        budget: Caps,
        asked: impl Iterator<Item = (&'a str, ModelLoad)>,
    ) -> Self {
        Self::with_systems((configs, &BTreeMap::new()), budget, asked)
    }

    pub(crate) fn with_systems<'a>(
        (configs, systems): (&BTreeMap<String, ModelConfig>, &BTreeMap<String, SystemSpec>),
        budget: Caps,
        asked: impl Iterator<Item = (&'a str, ModelLoad)>,
    ) -> Self {
        let systems: BTreeMap<String, &SystemSpec> =
            systems.iter().map(|(name, spec)| (identity_name(name), spec)).collect();
        let mut loads: BTreeMap<&str, ModelLoad> = BTreeMap::new();
        for (model, load) in asked {
            loads.entry(model).or_default().add(load);
        }
        let models: Vec<ModelEstimate> = loads
            .into_iter()
            .filter(|(_, load)| load.calls > 0)
            .map(|(model, ModelLoad { calls, read, written })| {
                let prices = configs.get(model).and_then(ModelConfig::prices);
                let of_tokens = prices.map(|(input, output)| (read as f64 * input + written as f64 * output) / 1e6);
                let system = systems.get(model);
                let price = system.and_then(|system| system.price).filter(|price| price.is_of_calls_alone());
                let of_calls = price.map(|price| calls as f64 * price.call.unwrap_or_default());
                ModelEstimate {
                    model: model.to_owned(),
                    calls,
                    prompt_tokens: read,
                    completion_tokens: written,
                    is_system: system.is_some(),
                    cost_usd: of_tokens.or(of_calls),
                    here: configs.get(model).is_some_and(ModelConfig::is_here),
                }
            })
            .collect();
        let calls = models.iter().map(|model| model.calls).sum();
        let tokens = models.iter().map(|model| model.prompt_tokens + model.completion_tokens).sum();
        // The sum of nothing is -0.
        let cost_usd = models.iter().map(|model| model.cost_usd).sum::<Option<f64>>().map(|cost| cost + 0.0);
        let estimate = Self {
            models,
            calls,
            tokens,
            cost_usd,
            budget,
            exceeds: Vec::new(),
            total: None,
            exceeds_total: Vec::new(),
        };
        let exceeds = |cap: Cap, amount: f64| cap_of_run(&budget, cap).is_some_and(|limit| amount > limit);
        let exceeds = estimate.amounts().into_iter().filter(|(cap, amount)| exceeds(*cap, *amount));
        Self { exceeds: exceeds.map(|(cap, _)| cap).collect(), ..estimate }
    }

    /// The amounts that count for the caps of a run; dollars only if they are known.
    pub(crate) fn amounts(&self) -> Vec<(Cap, f64)> {
        self.amounts_of(self.models.iter())
    }

    /// The amounts that count for the caps over all starts, in which models of this process do not count.
    pub(crate) fn amounts_of_all_starts(&self) -> Vec<(Cap, f64)> {
        self.amounts_of(self.models.iter().filter(|model| !model.here))
    }

    fn amounts_of<'a>(&self, models: impl Iterator<Item = &'a ModelEstimate> + Clone) -> Vec<(Cap, f64)> {
        let calls = models.clone().map(|model| model.calls).sum::<u64>() as f64;
        let tokens = models.map(|model| model.prompt_tokens + model.completion_tokens).sum::<u64>() as f64;
        let dollars = self.cost_usd.map(|cost| (Cap::Usd, cost));
        dollars.into_iter().chain([(Cap::Tokens, tokens), (Cap::Calls, calls)]).collect()
    }

    /// Compares this estimate with what is left of the caps over all starts, in which models of this process do not count.
    #[must_use]
    pub(crate) fn within(self, total: Option<TotalSpending>) -> Self {
        let Some(total) = total.filter(|total| !total.caps.is_empty()) else { return self };
        let exceeds = |cap: Cap, amount: f64| total.left(cap).is_some_and(|left| amount > left);
        let exceeded = self.amounts_of_all_starts().into_iter().filter(|(cap, amount)| exceeds(*cap, *amount));
        Self { exceeds_total: exceeded.map(|(cap, _)| cap).collect(), total: Some(total), ..self }
    }
}

/// The cap of a kind, in its unit.
pub(crate) fn cap_of_run(budget: &Caps, cap: Cap) -> Option<f64> {
    match cap {
        Cap::Usd => budget.usd,
        Cap::Tokens => budget.tokens.map(|limit| limit as f64),
        Cap::Calls => budget.calls.map(|limit| limit as f64),
        Cap::Minutes => budget.minutes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{operator::Operator, plan::tests::Fixture};
    use models::{TotalCaps, TotalSpent};
    use rag::INSTRUCTION_TOKENS;

    const MODELS: &str = "[models.gpt]\nchat.openai = { model = \"m\", base_url = \"http://127.0.0.1:1/v1\", price = { input \
                          = 2, output = 8 } }\n[models.free]\nchat.openai = { model = \"m\", base_url = \
                          \"http://127.0.0.1:1/v1\" }\n[models.small]\nembedding.static = { model = \"small\" }\n";

    /// The sum of calls, as (model, calls, tokens read, tokens written).
    fn sum(budget: Caps, asked: &[(&str, u64, u64, u64)]) -> CostEstimate {
        let text = format!(
            "name = \"x\"\n[corpus]\nsource = \"d\"\n{MODELS}[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n"
        );
        let models = Experiment::parse(&text, ".").unwrap().models;
        let load = |&(model, calls, read, written)| (model, ModelLoad { calls, read, written });
        CostEstimate::sum(&models, budget, asked.iter().map(load))
    }

    #[test]
    fn the_calls_of_each_model_are_added_up_and_priced() {
        type Case = (&'static [(&'static str, u64, u64, u64)], &'static [&'static str], u64, u64, Option<f64>);
        let table: [Case; 6] = [
            (&[], &[], 0, 0, Some(0.0)),
            (&[("gpt", 1, 100, 10), ("gpt", 2, 200, 20)], &["gpt"], 3, 330, Some((300.0 * 2.0 + 30.0 * 8.0) / 1e6)),
            (&[("small", 5, 900, 0)], &["small"], 5, 900, Some(0.0)),
            (&[("small", 5, 900, 0), ("gpt", 1, 0, 1_000_000)], &["gpt", "small"], 6, 1_000_900, Some(8.0)),
            (&[("free", 1, 100, 10), ("gpt", 1, 100, 10)], &["free", "gpt"], 2, 220, None),
            (&[("free", 0, 0, 0), ("gpt", 1, 0, 0)], &["gpt"], 1, 0, Some(0.0)),
        ];
        for (asked, models, calls, tokens, cost_usd) in table {
            let found = sum(Caps::default(), asked);
            assert_eq!(found.models.iter().map(|model| model.model.as_str()).collect::<Vec<_>>(), models);
            assert_eq!((found.calls, found.tokens), (calls, tokens), "{asked:?}");
            match (found.cost_usd, cost_usd) {
                (Some(found), Some(expected)) => assert!((found - expected).abs() < 1e-12, "{asked:?}: {found}"),
                (found, expected) => assert_eq!(found, expected, "{asked:?}"),
            }
            assert!(found.models.iter().all(|model| model.here == (model.model == "small")));
        }
    }

    #[test]
    fn a_cap_is_exceeded_only_by_more_than_it() {
        // 10 calls, 1,100 tokens, and 0.0028 dollars.
        let asked = [("gpt", 10, 1_000, 100)];
        let caps = |usd, tokens, calls| Caps { usd, tokens, calls, ..Caps::default() };
        let table: [(Caps, &[Cap]); 6] = [
            (Caps::default(), &[]),
            (caps(Some(0.0029), Some(1_100), Some(10)), &[]),
            (caps(Some(0.0027), None, None), &[Cap::Usd]),
            (caps(None, Some(1_099), None), &[Cap::Tokens]),
            (caps(None, None, Some(9)), &[Cap::Calls]),
            (caps(Some(0.0), Some(0), Some(0)), &[Cap::Usd, Cap::Tokens, Cap::Calls]),
        ];
        for (budget, expected) in table {
            let found = sum(budget, &asked);
            assert_eq!((found.exceeds.as_slice(), found.budget), (expected, budget));
        }
        let unpriced = sum(caps(Some(0.0), None, Some(0)), &[("free", 10, 1_000, 100)]);
        assert_eq!(unpriced.exceeds, [Cap::Calls], "dollars that are not known exceed nothing");
    }

    #[test]
    fn what_is_left_of_all_starts_is_exceeded_only_by_calls_that_count_there() {
        // 0.0028 dollars, 10 calls and 1,100 tokens of a remote model.
        let estimate = || sum(Caps::default(), &[("gpt", 10, 1_000, 100), ("small", 90, 9_000, 0)]);
        let total = |usd, tokens, calls| {
            let caps = TotalCaps { usd, tokens, calls };
            let earlier = TotalSpent { usd: 1.0, tokens: 500, calls: 5 };
            Some(TotalSpending { caps, earlier, ..TotalSpending::default() })
        };
        assert_eq!(estimate().within(total(None, None, None)).total, None);
        assert!(estimate().within(total(Some(1.0029), Some(1_600), Some(15))).exceeds_total.is_empty());
        let found = estimate().within(total(Some(1.0027), Some(1_599), Some(14)));
        assert_eq!(found.exceeds_total, [Cap::Usd, Cap::Tokens, Cap::Calls]);
    }

    /// The estimated calls, tokens read and written of each operator of a plan: by all its tasks, of one model.
    fn of_operator(fixture: &Fixture, operator: Operator) -> Vec<(String, u64, u64, u64)> {
        let plan = fixture.plan();
        let to_run: Vec<TaskId> = (0..plan.tasks.len()).filter(|&id| plan.tasks[id].operator() == operator).collect();
        let (experiment, questions) = (&fixture.experiment, &fixture.questions);
        let texts = TextSizes::of_tokens(525_000);
        let estimate = CostEstimate::of(experiment, Caps::default(), &plan, questions, &texts, &to_run);
        let of = |model: ModelEstimate| (model.model, model.calls, model.prompt_tokens, model.completion_tokens);
        estimate.models.into_iter().map(of).collect()
    }

    #[test]
    fn each_kind_of_work_is_estimated_by_its_questions_passages_and_settings() {
        let space = "chunker = \"sentence\"\nembedder = \"small\"\nretriever = { hybrid = { top_k = 7 } }\n\
                     query = { multi_query = { model = \"gpt\", max_tokens = 50 } }\n\
                     reranker = { pointwise = { model = \"gpt\", candidates = 9, top_n = 2 } }\n\
                     generator = { compact = { model = \"gpt\", max_tokens = 40, context_tokens = 300 } }\n";
        let fixture = Fixture::evaluating(space, "metrics = [\"recall\"]\n");
        // The tokens of a question such as `Why 1?`: the word, a space, the number, and the question mark.
        let question = 4;
        let questions = 20;
        let asked = INSTRUCTION_TOKENS + question;
        assert_eq!(
            of_operator(&fixture, Operator::Stage(rag::Axis::Query)),
            [("gpt".to_owned(), questions, questions * asked, questions * 50)]
        );
        let reranked = of_operator(&fixture, Operator::Stage(rag::Axis::Reranker));
        assert_eq!((reranked[0].0.as_str(), reranked[0].1), ("gpt", questions * 9), "a call for each candidate");
        assert!(reranked[0].2 > questions * 9 * asked, "with the passages: {reranked:?}");
        assert_eq!(
            of_operator(&fixture, Operator::GENERATE),
            [("gpt".to_owned(), questions, questions * (300 + asked), questions * 40)],
            "passages up to what the context takes"
        );
        // All questions, and all queries that are written, in one call each.
        let queries = of_operator(&fixture, Operator::EmbedQueries);
        let tasks = fixture.plan().tasks.iter().filter(|task| task.operator() == Operator::EmbedQueries).count() as u64;
        assert_eq!(queries, [("small".to_owned(), tasks, tasks * questions * question, 0)]);
        // The whole text once: 525,000 tokens, in calls of 16,384, shard by shard.
        let embedded = of_operator(&fixture, Operator::EMBED);
        assert!(embedded[0].2 >= 525_000 && embedded[0].1 >= embedded[0].2 / 16_384, "{embedded:?}");
        for operator in [Operator::Load, Operator::CHUNK, Operator::Index, Operator::RETRIEVE, Operator::Score] {
            assert_eq!(of_operator(&fixture, operator), [], "{operator:?}");
        }
    }

    #[test]
    fn only_the_tasks_that_are_left_are_estimated() {
        let space = "chunker = \"sentence\"\nretriever = \"bm25\"\ngenerator = { compact = { model = \"gpt\" } }\n";
        let fixture = Fixture::evaluating(space, "metrics = [\"recall\"]\n");
        let plan = fixture.plan();
        let calls = |to_run: &[TaskId]| {
            let (experiment, questions) = (&fixture.experiment, &fixture.questions);
            let texts = TextSizes::of_tokens(525_000);
            CostEstimate::of(experiment, Caps::default(), &plan, questions, &texts, to_run).calls
        };
        let answers = &plan.trials[0].answers;
        // Twenty questions are ranges of eight, eight and four.
        assert_eq!(answers.iter().map(|&id| calls(&[id])).collect::<Vec<_>>(), [8, 8, 4]);
        assert_eq!((calls(answers), calls(&answers[1..]), calls(&[])), (20, 12, 0));
    }
}
