//! What has changed since a run: one line for each change.

use super::{RunRecord, experiment_of};
use crate::{
    Error, Session,
    plan::trial,
    prepare::questions::{ImportedDataset, import},
    spec::{Experiment, Spaces},
};
use eval::{Evidence, Question};
use futures::{StreamExt, stream};
use rag::{Axis, Choice, load::SourceFile};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use store::Key;

/// The most names in a line.
const NAMED: usize = 3;
/// The most files that are read at once.
const READS: usize = 16;
/// A file that was last changed at least this long before the documents were read
/// counts as unchanged, so the clocks of two machines may differ by less than this.
const SLACK_MS: i64 = 60_000;
/// Sections of an experiment that are compared as wholes, and their names.
const SECTIONS: [(&str, &str); 4] =
    [("corpus", "[corpus]"), ("dataset", "[dataset]"), ("search", "[search]"), ("evaluate", "[evaluate]")];

/// What changed since a run: in the experiment file, the documents and the dataset. None of it
/// affects the run's results.
///
/// Files of an object store are compared by name and size only.
pub async fn changed_since(session: &Session, record: &RunRecord) -> Vec<String> {
    let (provenance, then) = match (record.provenance(), experiment_of(&session.experiment, record)) {
        (Ok(provenance), Ok(then)) => (provenance, then),
        (Err(error), _) | (_, Err(error)) => return vec![format!("what changed since is not known: {error}")],
    };
    let mut lines = of_experiment(&then, &session.experiment);
    match documents_since(session, record, provenance.read_ms).await {
        Ok(more) => lines.extend(more),
        Err(error) => lines.push(format!("the documents cannot be looked at now: {}", crate::error_chain(&error))),
    }
    if then.dataset == session.experiment.dataset && then.dataset.is_some() {
        let mut mistakes = Vec::new();
        match import(session, &mut mistakes).await {
            Ok(ImportedDataset { dataset: Some(dataset), .. }) if mistakes.is_empty() => {
                lines.extend(of_dataset(record.questions(), &dataset.questions));
            }
            _ => lines.push("the dataset cannot be read now".to_owned()),
        }
    }
    lines
}

async fn documents_since(session: &Session, record: &RunRecord, read_ms: i64) -> Result<Vec<String>, Error> {
    let mut mistakes = Vec::new();
    let Some(source) = session.corpus_source(&mut mistakes) else {
        return Err(Error::Refused(mistakes));
    };
    let listed = source.survey().await?.files;
    let is_local = !store::is_url(&session.experiment.corpus.source);
    let now: HashMap<&str, usize> = listed.iter().enumerate().map(|(at, file)| (file.path.as_str(), at)).collect();
    let mut known = vec![false; listed.len()];
    let (mut changed, mut removed, mut may_have_changed) = (Vec::new(), Vec::new(), Vec::new());
    record.visit_documents(|then| match now.get(then.path.as_str()) {
        None => removed.push(then.path),
        Some(&at) => {
            known[at] = true;
            if listed[at].bytes != then.bytes {
                changed.push(then.path);
            } else if is_local && !is_older(&listed[at], read_ms - SLACK_MS) {
                may_have_changed.push((at, then.key));
            }
        }
    })?;
    let limits = &session.experiment.corpus.limits;
    let looks = may_have_changed.into_iter().map(|(at, key)| {
        let (source, file) = (&source, &listed[at]);
        async move {
            let differs = source.read(file, limits).await.is_ok_and(|bytes| Key::of_bytes(&bytes) != key);
            differs.then(|| file.path.clone())
        }
    });
    let looked: Vec<Option<String>> = stream::iter(looks).buffer_unordered(READS).collect().await;
    changed.extend(looked.into_iter().flatten());
    let new = listed.iter().zip(known).filter(|(_, known)| !known);
    let mut added: Vec<String> = new.map(|(file, _)| file.path.clone()).collect();
    [&mut added, &mut changed, &mut removed].into_iter().for_each(|paths| paths.sort_unstable());
    let mut lines = Vec::new();
    let mut add_line = |paths: &[String], what: &str| {
        if !paths.is_empty() {
            lines.push(format!("{} {what}: {}", n_documents(paths.len()), some_of(paths)));
        }
    };
    let verb = |paths: &[String], rest: &str| format!("{} {rest}", if paths.len() == 1 { "was" } else { "were" });
    let is = |paths: &[String]| if paths.len() == 1 { "is" } else { "are" };
    add_line(&added, &format!("{} and {} not searched (run again)", verb(&added, "added"), is(&added)));
    add_line(&changed, &format!("{}; the old text is still searched (run again)", verb(&changed, "changed")));
    add_line(&removed, &format!("{} and {} still searched (run again)", verb(&removed, "removed"), is(&removed)));
    Ok(lines)
}

/// Whether a file of a local disk is known not to have changed since that time.
fn is_older(file: &SourceFile, than_ms: i64) -> bool {
    file.state.is_some_and(|state| state.was_changed_before(than_ms))
}

fn n_documents(n: usize) -> String {
    if n == 1 { "1 document".to_owned() } else { format!("{n} documents") }
}

fn some_of(names: &[String]) -> String {
    let more = if names.len() > NAMED { ", …" } else { "" };
    format!("{}{more}", names[..names.len().min(NAMED)].join(", "))
}

/// The differences of two experiments that could change what a run finds.
fn of_experiment(then: &Experiment, now: &Experiment) -> Vec<String> {
    let mut lines = Vec::new();
    let (was, is) = (&then.space, &now.space);
    for &on in Axis::ALL {
        let values = |space: &Spaces| space.on(on).into_iter().map(Choice::value).collect::<Vec<Value>>();
        axis(&mut lines, on.name(), &values(was), &values(is));
    }
    if lines.is_empty() && was != is {
        lines.push("the values of the axes are combined in another way under [space]".to_owned());
    }
    let (was, is) = (then.comparable(), now.comparable());
    let models = |root: &Value| root["models"].as_object().cloned().unwrap_or_default();
    let (models_then, models_now) = (models(&was), models(&is));
    for (name, model) in &models_then {
        match models_now.get(name) {
            None => lines.push(format!("models.{name} was removed")),
            Some(now) if now != model => lines.push(format!("models.{name} was changed")),
            Some(_) => {}
        }
    }
    let systems = |root: &Value| root.get("systems").and_then(Value::as_object).cloned().unwrap_or_default();
    let (systems_then, systems_now) = (systems(&was), systems(&is));
    for (name, system) in &systems_then {
        match systems_now.get(name) {
            None => lines.push(format!("systems.{name} was removed")),
            Some(now) if now != system => lines.push(format!("systems.{name} was changed")),
            Some(_) => {}
        }
    }
    let added = systems_now.keys().filter(|name| !systems_then.contains_key(*name));
    lines.extend(added.map(|name| format!("systems.{name} was added")));
    lines.extend(
        SECTIONS.iter().filter(|(key, _)| was[*key] != is[*key]).map(|(_, name)| format!("{name} was changed")),
    );
    lines
}

/// The changes of an axis.
fn axis(lines: &mut Vec<String>, axis: &str, then: &[Value], now: &[Value]) {
    let added: Vec<&Value> = now.iter().filter(|value| !then.contains(value)).collect();
    // Labels are made of all values together, so that values which differ only
    // in settings get different labels.
    let all: Vec<&Value> = then.iter().chain(added.iter().copied()).collect();
    let labels = trial::labels(&all);
    for (value, label) in all.iter().zip(&labels) {
        match (then.contains(value), now.contains(value)) {
            (true, false) => lines.push(format!("{axis} `{label}` was removed from the experiment file")),
            (false, true) => lines.push(format!("{axis} `{label}` was added")),
            _ => {}
        }
    }
    let kept_then: Vec<&Value> = then.iter().filter(|value| now.contains(value)).collect();
    let kept_now: Vec<&Value> = now.iter().filter(|value| then.contains(value)).collect();
    if kept_then != kept_now {
        lines.push(format!(
            "the values of `{axis}` are in another order: a next run would number its trials differently"
        ));
    }
}

/// The changes of the questions.
fn of_dataset<'a>(then: &'a [Question], now: &'a [Question]) -> Option<String> {
    let by_id = |questions: &'a [Question]| -> BTreeMap<&str, &Question> {
        questions.iter().map(|question| (question.id.as_str(), question)).collect()
    };
    let (was, is) = (by_id(then), by_id(now));
    let differ = |one: &Question, other: &Question| what_differs(one, other).is_some();
    let added = is.keys().filter(|id| !was.contains_key(*id)).count();
    let removed = was.keys().filter(|id| !is.contains_key(*id)).count();
    let changed = was.iter().filter(|(id, question)| is.get(*id).is_some_and(|now| differ(question, now))).count();
    let counts = [(added, "added"), (removed, "removed"), (changed, "changed")];
    let changes: Vec<String> = counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    (!changes.is_empty()).then(|| format!("the dataset was changed: questions {}", changes.join(", ")))
}

/// What differs between two questions with the same id, in words; none if they ask and expect the
/// same. Not compared: the span, which is found anew, and a document that only one of them names.
pub(crate) fn what_differs(one: &Question, other: &Question) -> Option<&'static str> {
    let same_place = |(one, other): (&Evidence, &Evidence)| {
        let same_document = one.document == other.document || one.document.is_empty() || other.document.is_empty();
        one.quote == other.quote && same_document
    };
    let same_evidence =
        one.evidence.len() == other.evidence.len() && one.evidence.iter().zip(&other.evidence).all(same_place);
    let parts = [
        (one.question == other.question, "its text"),
        (one.turns == other.turns, "what was said before it"),
        (one.reference == other.reference, "its reference answer"),
        (same_evidence, "its evidence"),
        (one.answerable == other.answerable, "whether it can be answered"),
        (one.filter == other.filter, "its filter"),
    ];
    parts.into_iter().find(|(same, _)| !same).map(|(_, what)| what)
}

#[cfg(test)]
mod tests;
