//! What is known of the replies of a system: their cost, tokens and seconds as far as they are stated, the versions that
//! they name, and how many passages are in no document. What is not stated is not known: nothing is taken to be 0.

use super::price::TrialPrice;
use crate::{
    Error, PreparedRun,
    artifact::{self, ReplyRow},
    engine::PlanOutcome,
    plan::{Plan, SystemTrial, TrialTasks, trial::identity_name, work::version_of},
    results::{QuestionResult, ReplyFindings, RetrievalCount, TrialUsage},
    spec::{ReplySource, SystemSpec},
    task::usage_of,
};
use models::{Ledger, ModelUsage, Usage, ledger};
use rag::PassagesWithRemarks;
use std::collections::{BTreeMap, HashMap};

/// The name by which [`TrialUsage::unknown`] knows the calls of systems.
const ASK: &str = "ask";

/// The replies of a trial.
pub(super) struct TrialReplies<'a> {
    /// The name of its identity.
    called: String,
    spec: &'a SystemSpec,
    version: String,
    rows: Vec<ReplyRow>,
    /// The ids under which the system's own tracing knows its replies, by question.
    pub(super) traces: HashMap<String, String>,
}

/// Reads the replies of a trial.
pub(super) async fn read<'a>(
    prepared: &'a PreparedRun,
    outcome: &PlanOutcome,
    tasks: &TrialTasks,
    trial: &SystemTrial,
) -> Result<TrialReplies<'a>, Error> {
    let run_context = &prepared.run_context;
    let spec = run_context.experiment.systems.get(&trial.system);
    let spec = spec.ok_or_else(|| Error::NotFound(format!("there is no system `{}`", trial.system)))?;
    let mut rows: Vec<ReplyRow> = Vec::new();
    for &id in tasks.answers.iter().filter(|id| !outcome.failed.contains_key(id)) {
        rows.extend(artifact::decode::<ReplyRow>(run_context.read(&outcome.outputs, id).await?)?);
    }
    let traces = rows.iter().filter_map(|row| Some((row.answer.question.clone(), row.trace.clone()?))).collect();
    let called = identity_name(&trial.system);
    let version = prepared.sources.identities.get(&called).map(version_of).unwrap_or_default();
    Ok(TrialReplies { called, spec, version, rows, traces })
}

impl TrialReplies<'_> {
    /// What the trial costs, and the seconds of its replies, sorted.
    pub(super) async fn price_and_seconds(
        &self,
        prepared: &PreparedRun,
        (plan, outcome): (&Plan, &PlanOutcome),
        tasks: &TrialTasks,
    ) -> Result<(TrialPrice, Vec<f64>), Error> {
        let mut questions = Ledger::default();
        for &id in &tasks.answers {
            let artifact = outcome.outputs.get(&id).cloned().unwrap_or_else(|| plan.tasks[id].artifact());
            if let Some(used) = usage_of(&prepared.run_context, &artifact).await? {
                questions.merge(&used.all);
            }
        }
        let (tokens, cost_usd) = (self.tokens(), self.cost_usd());
        if let (Some(cost_usd), Some(identity)) = (cost_usd, prepared.sources.identities.get(&self.called)) {
            questions = with_cost(&questions, &ledger::ledger_id(identity), cost_usd);
        }
        let is_asked = matches!(self.spec.source, ReplySource::Asked(_));
        let unpriced = (is_asked && cost_usd.is_none()).then(|| self.called.clone());
        let usage = TrialUsage {
            questions,
            unknown: tokens.is_none().then(|| ASK.to_owned()).into_iter().collect(),
            unpriced: unpriced.into_iter().collect(),
            ..TrialUsage::default()
        };
        let price = TrialPrice {
            usage,
            tokens_per_question: tokens,
            cost_usd,
            // What its index cost is its own matter.
            index_cost_usd: None,
            search_seconds: BTreeMap::new(),
        };
        let answered = self.rows.iter().filter_map(|row| row.answer.answer.as_ref().ok());
        // Answers that exist already took a time that nobody knows.
        let mut seconds: Vec<f64> = answered.map(|answer| answer.seconds).filter(|seconds| *seconds > 0.0).collect();
        seconds.sort_by(f64::total_cmp);
        Ok((price, seconds))
    }

    /// What the replies say of the system, once their passages have places.
    pub(super) fn findings(&self, questions: &[QuestionResult]) -> ReplyFindings {
        let passages = || questions.iter().flat_map(|question| &question.passages);
        let mut versions: BTreeMap<String, usize> = BTreeMap::new();
        for version in self.rows.iter().filter_map(|row| row.version.clone()) {
            *versions.entry(version).or_default() += 1;
        }
        ReplyFindings {
            questions: self.rows.len(),
            without_reply: self.rows.iter().filter(|row| row.answer.answer.is_err()).count(),
            passages: passages().count(),
            unanchored: passages().filter(|passage| passage.document.is_empty()).count(),
            versions,
            version: self.version.clone(),
        }
    }

    /// Tokens per reply, if every reply states them.
    fn tokens(&self) -> Option<f64> {
        let stated = self.replied().map(|(row, usage)| row.states_tokens.then(|| usage.total()));
        let stated: Vec<u64> = stated.collect::<Option<_>>()?;
        (!stated.is_empty()).then(|| stated.iter().sum::<u64>() as f64 / stated.len() as f64)
    }

    /// Dollars of all replies, if each states its cost or has a price.
    fn cost_usd(&self) -> Option<f64> {
        let cost = |(row, usage): (&ReplyRow, &Usage)| {
            let tokens = row.states_tokens.then_some(*usage);
            row.cost_usd.or_else(|| self.spec.price?.cost_usd(tokens))
        };
        let costs: Vec<f64> = self.replied().map(cost).collect::<Option<_>>()?;
        (!costs.is_empty()).then(|| costs.iter().sum())
    }

    fn replied(&self) -> impl Iterator<Item = (&ReplyRow, &Usage)> {
        self.rows.iter().filter_map(|row| Some((row, &row.answer.answer.as_ref().ok()?.usage)))
    }
}

/// The same usage, of which the calls with this id cost so much.
fn with_cost(usage: &Ledger, ledger_id: &str, cost_usd: f64) -> Ledger {
    let mut priced = Ledger::default();
    for (id, used) in usage.models() {
        let cost_usd = if id == ledger_id { cost_usd } else { used.cost_usd };
        priced.add(id, &ModelUsage { cost_usd, ..used.clone() });
    }
    priced
}

/// The questions for which the system returned passages, or said that it found none; none if no reply has passages.
pub(super) fn retrieval_count(passages: &HashMap<String, PassagesWithRemarks>) -> Option<RetrievalCount> {
    let empty = passages.values().filter(|found| found.passages.is_empty()).count();
    (!passages.is_empty()).then_some(RetrievalCount { questions: passages.len(), empty })
}
