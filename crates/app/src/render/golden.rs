//! Golden questions in the terminal: their cost, the result of generating them,
//! and the content of a dataset.

use super::{progress_bar, visible_line};
use crate::environment::Audience;
use eval::{
    GenerateEstimate, GenerateProgress,
    dataset::{DatasetDifference, DatasetReport, DatasetStatistics, IgnoredColumn, TrafficReport},
};
use indicatif::ProgressBar;
use lab::{GenerateSpec, GoldenManifest};
use std::{collections::BTreeMap, path::Path, path::PathBuf};

/// What generating should cost.
pub fn golden_estimate(estimate: &GenerateEstimate, spec: &GenerateSpec, prices: Option<(f64, f64)>) -> String {
    let GenerateEstimate { attempts, calls, prompt_tokens, completion_tokens, most_calls, n_passages } = *estimate;
    let cost = match prices {
        Some((0.0, 0.0)) => "free (a local model)".to_owned(),
        Some(prices) => format!("${:.2}", estimate.cost_usd(prices)),
        None => "of unknown price".to_owned(),
    };
    format!(
        "{} questions with `{}` from {n_passages} passages: about {attempts} drafts, {calls} calls, {} tokens, {cost}; at most {most_calls} calls",
        spec.options.size,
        spec.model,
        prompt_tokens + completion_tokens,
    )
}

/// A bar for questions that are being written.
pub struct GoldenBar(ProgressBar);

impl GoldenBar {
    /// Begins.
    pub fn start(size: usize, audience: Audience) -> Self {
        Self(progress_bar(size, "{bar:30} {pos}/{len} questions, {msg} drafts, {elapsed}", audience))
    }

    /// Shows how far it is.
    pub fn show(&self, progress: GenerateProgress) {
        self.0.set_message(progress.attempted.to_string());
        self.0.set_position(progress.accepted as u64);
    }

    /// Ends.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}

/// What was generated.
pub fn golden(manifest: &GoldenManifest, paths: &[PathBuf]) -> String {
    let written: usize = manifest.kinds.values().sum();
    let mut text = format!(
        "{written} of {} questions, version {}, from {} drafts over {} passages, which share {} names and terms\n",
        manifest.options.size, manifest.version, manifest.attempts, manifest.passages, manifest.entities
    );
    text.push_str(&counts("kinds", &manifest.kinds));
    let lacking = manifest.lacking.iter().map(|(kind, n)| (kind.name().to_owned(), *n)).collect();
    text.push_str(&counts("fewer than their share by", &lacking));
    text.push_str(&counts("rejected", &manifest.rejected));
    for persona in &manifest.personas {
        text.push_str(&format!("asked by: {}: {}\n", persona.name, persona.description));
    }
    for path in paths {
        text.push_str(&format!("{}\n", path.display()));
    }
    text.push_str("these are drafts: look through them with `reverie golden review`");
    text
}

/// What a run can use of a dataset, and what not.
pub fn dataset_report(report: &DatasetReport) -> Vec<String> {
    let DatasetReport { questions, with_evidence, with_reference, without_evidence, unanswerable, .. } = report;
    let mut line =
        format!("{questions} questions: {with_evidence} with evidence, {with_reference} with a reference answer");
    if *unanswerable > 0 {
        line.push_str(&format!(", {unanswerable} without an answer in the documents"));
    }
    if *without_evidence > 0 {
        line.push_str(&format!("; what is retrieved for the {without_evidence} without evidence cannot be scored"));
    }
    let mut lines = vec![line];
    lines.extend(ignored_columns(&report.ignored_columns));
    lines
}

/// How many lines of traffic were used, and why others were not.
pub fn traffic_report(report: &TrafficReport) -> Vec<String> {
    let some = |count: usize, what: String| (count > 0).then_some(what);
    let TrafficReport { lines, questions, shadows, equal, similar, follow_ups, drafts, .. } = *report;
    let mut sentences = vec![format!("{questions} questions from {lines} lines")];
    let bad = report.bad_lines.len();
    sentences.extend(some(bad, format!("{bad} lines could not be used")));
    sentences.extend(some(shadows, format!("{shadows} are answers of a shadow, which are not used")));
    sentences.extend(some(equal, format!("{equal} are duplicates")));
    sentences.extend(some(similar, format!("{similar} are near duplicates")));
    let (unwanted, beyond) = (report.without_verdict, report.beyond_size);
    sentences.extend(some(unwanted, format!("{unwanted} left out: no feedback of this kind")));
    sentences.extend(some(beyond, format!("{beyond} left out: --size was reached")));
    sentences.extend(some(
        follow_ups,
        format!("{follow_ups} of the questions come after earlier messages, which they keep"),
    ));
    if report.feedback > 0 {
        let (bad, elsewhere) = (report.bad_feedback.len(), report.feedback_elsewhere);
        sentences.push(format!(
            "{} lines of feedback: {bad} could not be used, {elsewhere} are about requests that are not in the traffic",
            report.feedback
        ));
        let without = report.without_id;
        sentences
            .extend(some(without, format!("{without} lines of traffic have no id, so that no feedback is about them")));
    }
    sentences.push(match drafts {
        0 => "they have neither reference nor evidence: look through them with `reverie golden review`".to_owned(),
        _ => format!(
            "{drafts} have a draft of an answer, and none has a reference or evidence: look through them with `reverie golden \
             review`"
        ),
    });
    sentences
}

/// Columns that are not used, a line each.
pub fn ignored_columns(columns: &[IgnoredColumn]) -> impl Iterator<Item = String> {
    columns.iter().map(|column| {
        let hint = column.hint.as_deref().map_or(String::new(), |hint| format!(": {hint}"));
        format!("column not used: `{}` ({} rows){hint}", visible_line(&column.name), column.rows)
    })
}

/// What is in a dataset.
pub fn dataset(path: &Path, statistics: &DatasetStatistics) -> String {
    let found = statistics;
    let mut text = format!(
        "{}: {} questions, version {}\n{} with a reference answer, {} with evidence, {} without an answer in the documents\n",
        path.display(),
        found.report.questions,
        found.version,
        found.report.with_reference,
        found.report.with_evidence,
        found.report.unanswerable
    );
    if found.with_turns > 0 {
        text.push_str(&format!("{} come after earlier messages of a conversation\n", found.with_turns));
    }
    if found.report.without_evidence > 0 {
        text.push_str(&format!(
            "{} are answered by the documents but have no evidence: what is retrieved for them cannot be scored\n",
            found.report.without_evidence
        ));
    }
    for line in ignored_columns(&found.report.ignored_columns) {
        text.push_str(&line);
        text.push('\n');
    }
    text.push_str(&format!("words (median): question {}, reference {}\n", found.question_words, found.reference_words));
    text.push_str(&format!("reviewed: {} accepted, {} edited\n", found.accepted, found.edited));
    if found.tune + found.test > 0 {
        text.push_str(&format!("split: {} tune, {} test\n", found.tune, found.test));
    }
    for (name, values) in [
        ("kinds", &found.kinds),
        ("styles", &found.styles),
        ("personas", &found.personas),
        ("documents", &found.documents),
    ] {
        text.push_str(&counts(name, values));
    }
    text.trim_end().to_owned()
}

/// What changed between two versions.
pub fn difference(difference: &DatasetDifference) -> String {
    let mut text = String::new();
    for question in &difference.added {
        text.push_str(&format!("+ {} {}\n", question.id, question.question));
    }
    for question in &difference.removed {
        text.push_str(&format!("- {} {}\n", question.id, question.question));
    }
    for changed in &difference.changed {
        text.push_str(&format!("~ {} {} ({})\n", changed.id, changed.after.question, changed.fields.join(", ")));
    }
    let [added, removed] = [&difference.added, &difference.removed].map(Vec::len);
    let (changed, unchanged) = (difference.changed.len(), difference.unchanged);
    text + &format!("{added} added, {removed} removed, {changed} changed, {unchanged} the same")
}

/// `name: a 3, b 2`, largest first; empty without values.
fn counts(name: &str, values: &BTreeMap<String, usize>) -> String {
    if values.is_empty() {
        return String::new();
    }
    let mut sorted: Vec<(&String, &usize)> = values.iter().collect();
    sorted.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let list: Vec<String> = sorted.into_iter().map(|(value, count)| format!("{value} {count}")).collect();
    format!("{name}: {}\n", list.join(", "))
}
