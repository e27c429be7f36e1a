//! What a trial costs: the calls of all its stages, by model, each priced with
//! that model's price. Judges are no part of it.

use crate::{
    Error, PreparedRun,
    engine::PlanOutcome,
    plan::{
        Plan, Task, TaskId, Trial,
        work::{Purpose, Work},
    },
    results::TrialUsage,
    task::{RunContext, TaskUsage, answers_by_question, load_usage, usage_of},
};
use models::{Ledger, ModelConfig, ModelUsage, ledger};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The usage of a trial, and what follows from it.
pub(super) struct TrialPrice {
    pub(super) usage: TrialUsage,
    pub(super) tokens_per_question: Option<f64>,
    /// Dollars for all questions, none if they are not known.
    pub(super) cost_usd: Option<f64>,
    /// Dollars for the index, none if they are not known.
    pub(super) index_cost_usd: Option<f64>,
    /// The seconds of the calls before the answer, by question.
    pub(super) search_seconds: BTreeMap<String, f64>,
}

/// Reads what all tasks of a plan used.
pub(super) async fn load(prepared: &PreparedRun, plan: &Plan, outcome: &PlanOutcome) -> Result<(), Error> {
    let paid = plan.tasks.iter().enumerate().filter(|(_, task)| counts(task));
    load_usage(&prepared.run_context, paid.map(|(id, task)| artifact(outcome, id, task))).await
}

/// Whether the calls of a task are part of a trial's price.
fn counts(task: &Task) -> bool {
    Purpose::of(task.operator()) != Purpose::Evaluation && task.work.describe().counts_in_price()
}

fn artifact(outcome: &PlanOutcome, id: TaskId, task: &Task) -> String {
    outcome.outputs.get(&id).cloned().unwrap_or_else(|| task.artifact())
}

/// Adds up what the tasks of a trial used.
pub(super) async fn of_trial(
    prepared: &PreparedRun,
    plan: &Plan,
    outcome: &PlanOutcome,
    trial: &Trial,
    index: usize,
) -> Result<TrialPrice, Error> {
    let run_context = &prepared.run_context;
    let prices = prices(run_context, prepared, trial);
    let mut usage = TrialUsage::default();
    let mut unknown: BTreeMap<_, Purpose> = BTreeMap::new();
    let mut search_seconds: BTreeMap<String, f64> = BTreeMap::new();
    // Tokens and questions of each operator: a search strategy may answer only some questions.
    let mut tokens: BTreeMap<_, (u64, usize)> = BTreeMap::new();
    for id in plan.tasks_of(&plan.trials[index]) {
        let task = &plan.tasks[id];
        if !counts(task) {
            continue;
        }
        let (operator, purpose) = (task.operator(), Purpose::of(task.operator()));
        let used = match usage_of(run_context, &artifact(outcome, id, task)).await? {
            Some(used) => used,
            None if outcome.failed.contains_key(&id) => continue,
            None => match of_answers(prepared, trial, outcome, id, &task.work).await? {
                Some(used) => Arc::new(used),
                None => {
                    unknown.insert(operator, purpose);
                    continue;
                }
            },
        };
        match purpose {
            Purpose::Index => usage.index.merge(&used.all),
            Purpose::Questions => {
                usage.questions.merge(&used.all);
                let (sum, asked) = tokens.entry(operator).or_default();
                *sum += used.all.tokens();
                *asked += match &task.work {
                    Work::Generate(work) => work.questions.len(),
                    _ => prepared.questions.len(),
                };
                if !matches!(task.work, Work::Generate(_)) {
                    add_seconds(&mut search_seconds, prepared, &used);
                }
            }
            Purpose::Evaluation => {}
        }
    }
    usage.questions = at_present_prices(&usage.questions, &prices);
    usage.index = at_present_prices(&usage.index, &prices);
    usage.unknown = unknown.keys().map(|operator| operator.name().to_owned()).collect();
    usage.unpriced = unpriced(&usage, &prices, prepared, trial);
    let is_known = |purpose| !unknown.values().any(|other| *other == purpose) || is_free(run_context, trial);
    let per_question = tokens.values().map(|&(sum, asked)| sum as f64 / asked.max(1) as f64).sum::<f64>();
    Ok(TrialPrice {
        tokens_per_question: (!prepared.questions.is_empty()).then_some(per_question + 0.0),
        cost_usd: cost(&usage.questions, &prices).filter(|_| is_known(Purpose::Questions)),
        index_cost_usd: cost(&usage.index, &prices).filter(|_| is_known(Purpose::Index)),
        search_seconds,
        usage,
    })
}

/// The seconds of calls for each question; those of calls for many questions
/// at once are shared evenly.
fn add_seconds(seconds: &mut BTreeMap<String, f64>, prepared: &PreparedRun, used: &TaskUsage) {
    let of_questions: f64 = used.questions.values().map(Ledger::seconds).sum();
    let shared = (used.all.seconds() - of_questions).max(0.0) / prepared.questions.len().max(1) as f64;
    for question in &prepared.questions {
        let own = used.questions.get(&question.id).map_or(0.0, Ledger::seconds);
        *seconds.entry(question.id.clone()).or_default() += own + shared;
    }
}

/// The usage that answers of earlier versions hold themselves, as calls of one model.
async fn of_answers(
    prepared: &PreparedRun,
    trial: &Trial,
    outcome: &PlanOutcome,
    id: TaskId,
    work: &Work,
) -> Result<Option<TaskUsage>, Error> {
    let (Work::Generate(_), Some(_)) = (work, outcome.outputs.get(&id)) else { return Ok(None) };
    let generator = trial.pipeline().and_then(|pipeline| pipeline.generator.as_ref());
    let model = generator.and_then(rag::generate::GeneratorConfig::model);
    let Some(identity) = model.and_then(|model| prepared.sources.identities.get(model)) else { return Ok(None) };
    let answers = answers_by_question(&prepared.run_context, &outcome.outputs, &[id]).await?;
    let mut used = TaskUsage::default();
    for (_, answer) in answers {
        let Ok(answer) = answer else { continue };
        let usage = ModelUsage {
            model: identity.model.clone(),
            calls: answer.calls.into(),
            prompt_tokens: answer.usage.prompt_tokens,
            completion_tokens: answer.usage.completion_tokens,
            seconds: answer.seconds,
            ..ModelUsage::default()
        };
        used.all.add(&ledger::ledger_id(identity), &usage);
    }
    Ok(Some(used))
}

/// The prices of the experiment's models, by their ids in ledgers. Where several models share an id,
/// the price is that of the model that the trial asks.
fn prices(run_context: &RunContext, prepared: &PreparedRun, trial: &Trial) -> BTreeMap<String, (f64, f64)> {
    let own: BTreeSet<&str> = trial.models().collect();
    let (own, others): (Vec<_>, Vec<_>) =
        prepared.sources.identities.iter().partition(|(name, _)| own.contains(name.as_str()));
    let price = |(name, identity): (&String, &models::Identity)| {
        let config = run_context.experiment.models.get(name)?;
        Some((ledger::ledger_id(identity), config.prices()?))
    };
    others.into_iter().chain(own).filter_map(price).collect()
}

/// Whether no call of a trial costs money, so that its cost is 0 even if its
/// calls are unknown.
fn is_free(run_context: &RunContext, trial: &Trial) -> bool {
    trial.models().all(|name| run_context.experiment.models.get(name).and_then(ModelConfig::prices) == Some((0.0, 0.0)))
}

/// The names of the models that a trial called and that have no price.
fn unpriced(
    used: &TrialUsage,
    prices: &BTreeMap<String, (f64, f64)>,
    prepared: &PreparedRun,
    trial: &Trial,
) -> Vec<String> {
    let own: Vec<&str> = trial.models().collect();
    let name = |ledger_id: &str, used: &ModelUsage| {
        let identities = prepared.sources.identities.iter();
        let names = identities.filter(|(_, identity)| ledger::ledger_id(identity) == ledger_id).map(|(name, _)| name);
        // Several models of the experiment may share an id.
        let name = names.min_by_key(|name| !own.contains(&name.as_str()));
        name.unwrap_or(&used.model).clone()
    };
    let calls = used.questions.models().chain(used.index.models());
    let without = calls.filter(|(ledger_id, used)| !has_price(ledger_id, used, prices));
    without.map(|(ledger_id, used)| name(ledger_id, used)).collect::<BTreeSet<String>>().into_iter().collect()
}

/// Whether it is known what the calls to one model cost.
fn has_price(ledger_id: &str, used: &ModelUsage, prices: &BTreeMap<String, (f64, f64)>) -> bool {
    prices.contains_key(ledger_id) || (used.calls, used.tokens()) == (0, 0)
}

/// The same usage at the present prices; that of models without a price keeps
/// what it cost when the calls were made.
fn at_present_prices(usage: &Ledger, prices: &BTreeMap<String, (f64, f64)>) -> Ledger {
    let mut priced = Ledger::default();
    for (ledger_id, used) in usage.models() {
        let cost_usd = prices.get(ledger_id).map_or(used.cost_usd, |&price| used.cost_at(price));
        priced.add(ledger_id, &ModelUsage { cost_usd, ..used.clone() });
    }
    priced
}

/// The dollars of calls; none if a model among them has no price.
fn cost(usage: &Ledger, prices: &BTreeMap<String, (f64, f64)>) -> Option<f64> {
    let cost = |(ledger_id, used): (&str, &ModelUsage)| has_price(ledger_id, used, prices).then_some(used.cost_usd);
    // The sum of nothing is -0.
    usage.models().map(cost).sum::<Option<f64>>().map(|cost| cost + 0.0)
}

#[cfg(test)]
pub(super) mod tests;
