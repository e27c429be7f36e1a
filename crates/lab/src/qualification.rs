//! Records how judges did on labelled cases, and decides which judged metrics may choose a winner.
//!
//! A record is kept in the store under the model's identity, because another
//! revision or other settings make another judge; if the store is elsewhere,
//! also in the folder of this machine. A judged metric may choose a winner if
//! all its judges are qualified for the kind of verdict that the metric takes,
//! with the threshold that the metric uses.

use crate::{
    Error, Session,
    clock::now_ms,
    layout,
    plan::{CostEstimate, model_load::verdict},
    results::{JudgeResult, QualificationRecord},
    session::used_models::{priced_and_ready, unknown_model},
    settlement::settle,
};
use eval::{MetricConfig, Missing, Question, qualify, verdict::Case};
use models::Identity;
use std::{collections::BTreeSet, path::Path};
use store::KeyBuilder;

/// The default number of planted cases of each kind: enough for an interval of about a tenth on
/// each side.
const PLANTED: usize = 60;
const SEED: u64 = 0x5EED;

/// How many cases of each kind are planted. Default: enough if there are no labelled cases,
/// otherwise none.
pub fn planted_count(asked: Option<usize>, labelled: &[Case]) -> usize {
    asked.unwrap_or(if labelled.is_empty() { PLANTED } else { 0 })
}

/// Planted cases: golden questions with their own evidence, reference or quote, which are true, and
/// with those of another question, which are false ([`qualify::plant_cases`]). The same for equal
/// questions.
pub fn planted_cases(questions: &[Question], n: usize) -> Vec<Case> {
    qualify::plant_cases(questions, n, SEED)
}

/// What trying judges on labelled cases should cost. Calls that are in the
/// journal already are not subtracted.
///
/// # Errors
/// A model is not in the experiment.
pub fn qualify_cost(session: &Session, judges: &[String], cases: &[Case]) -> Result<CostEstimate, Error> {
    let models = &session.experiment.models;
    let unknown = judges.iter().filter(|judge| !models.contains_key(*judge));
    Error::refuse(unknown.map(|judge| unknown_model(judge)).collect())?;
    let handles = session.models();
    let tokens = |judge: &str, case: &Case| -> u64 {
        [&case.question, &case.against, &case.item].into_iter().map(|text| handles.count_tokens(judge, text)).sum()
    };
    let pairs = judges.iter().flat_map(|judge| cases.iter().map(move |case| (judge.as_str(), case)));
    let asked = pairs.map(|(judge, case)| (judge, verdict(tokens(judge, case))));
    Ok(CostEstimate::sum(models, session.budget().caps(), asked))
}

/// Tries a judge on labelled cases and keeps how it did.
///
/// # Errors
/// The model is not there or failed, the budget does not know its price, or the
/// record cannot be written.
pub async fn qualify(session: &Session, judge: &str, cases: &[Case]) -> Result<QualificationRecord, Error> {
    priced_and_ready(session, &session.experiment, &BTreeSet::from([judge.to_owned()])).await?;
    let models = session.models();
    let chat = models.chat(judge)?;
    let kinds = qualify::qualify(&chat, cases).await.map_err(|missing| {
        let (label, reason) = (format!("trying the judge `{judge}`"), missing.to_string());
        match missing {
            Missing::Cancelled => models::Error::Cancelled.into(),
            Missing::FunctionError(failure) => Error::Function { reason: format!("{label} failed: {reason}"), failure },
            _ => Error::Task { label, reason },
        }
    });
    let kinds = settle(models.client(), &session.setup().control.progress, kinds).await?;
    let record = QualificationRecord {
        judge: judge.to_owned(),
        model: chat.identity().clone(),
        cases: KeyBuilder::new("cases").field("cases", cases).finish().short(),
        n_cases: cases.len(),
        time_ms: now_ms(),
        kinds,
    };
    let bytes = serde_json::to_vec_pretty(&record).map_err(Error::table)?;
    session.workspace().keep_qualification(&record_name(&record.model), bytes).await?;
    Ok(record)
}

/// The experiment's judges with their records, also those made on other machines.
///
/// # Errors
/// If the store cannot be read.
pub async fn judges(session: &Session) -> Result<Vec<JudgeResult>, Error> {
    let mut judges = Vec::new();
    for judge in &session.experiment.evaluate.judges {
        judges.push(JudgeResult { judge: judge.clone(), record: record_of(session, judge).await? });
    }
    Ok(judges)
}

/// The newest record of a judge; records that cannot be read are skipped.
async fn record_of(session: &Session, judge: &str) -> Result<Option<QualificationRecord>, Error> {
    let Some(model) = session.experiment.models.get(judge) else { return Ok(None) };
    let Ok(identity) = model.identity(session.context()) else { return Ok(None) };
    let found = session.workspace().qualifications(&record_name(&identity)).await?;
    Ok(found.iter().filter_map(|bytes| parse_record(bytes, &identity)).max_by_key(|record| record.time_ms))
}

fn parse_record(bytes: &[u8], model: &Identity) -> Option<QualificationRecord> {
    serde_json::from_slice::<QualificationRecord>(bytes).ok().filter(|record| record.model == *model)
}

/// How a model did as a judge, by the record in this folder; none without a record.
pub(crate) fn record(root: &Path, model: &Identity) -> Option<QualificationRecord> {
    parse_record(&std::fs::read(root.join(record_name(model))).ok()?, model)
}

fn record_name(model: &Identity) -> String {
    layout::qualification(&KeyBuilder::new("judge").field("model", model).finish())
}

/// Judged metrics in the objective that may not choose a winner.
pub(crate) async fn check_judges(session: &Session) -> Result<Vec<String>, Error> {
    let evaluate = &session.experiment.evaluate;
    let chosen: Vec<&MetricConfig> = evaluate
        .metrics
        .iter()
        .filter(|metric| metric.needs_judge() && evaluate.objective.contains(&metric.label()))
        .collect();
    // Records are only read where one is asked for.
    let judges = if chosen.is_empty() { Vec::new() } else { judges(session).await? };
    let objections = chosen.into_iter().flat_map(|metric| {
        judges.iter().filter_map(|judge| {
            Some(format!(
                "evaluate.objective: `{}` cannot choose a winner: {}",
                metric.label(),
                judge.objection(metric)?
            ))
        })
    });
    Ok(objections.collect())
}

#[cfg(test)]
mod tests;
