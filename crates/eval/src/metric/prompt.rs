//! Prompt: a metric from a prompt of the user's own, kept in a file.
//!
//! When to use it: where a criterion needs more than a sentence: definitions,
//! examples, another language. It needs a judge and the file, whose path is
//! relative to the experiment file:
//!
//! ```toml
//! { prompt = { name = "tone", file = "prompts/tone.txt" } }
//! { prompt = { file = "prompts/grade.txt", output = { number = { min = 1, max = 5 } } } }
//! { prompt = { file = "prompts/style.txt", output = { choice = { poor = 0.0, fair = 0.5, good = 1.0 } } } }
//! ```
//!
//! In the file, `{question}`, `{answer}`, `{reference}` and `{passages}` stand
//! for those of a sample, at least one of them. They are put between tags and
//! escaped, also against the tags of the file itself; citations are taken off
//! the answer. `{{answer}}` becomes the text `{answer}`. How to reply is said
//! after the prompt and need not be in the file.
//!
//! What the file holds is part of the metric: its score is computed anew when
//! the file changes, and only then.
//!
//! score = 1 or 0 (`yes_no`), the number (`number`), or that of the label
//! (`choice`: the judge is shown the labels in the order of their scores, 2 to
//! 9 of them, and gives a number). Yes, no and labels are chosen by token
//! probability where offered. A reply that is none of these is no score
//! (`judge_unparsable`).
//!
//! Calls for a score: one.
//!
//! For code in the place of a judge there is `python`.
//!
//! Source: the placeholders of a sample are those of Ragas' and Phoenix' custom
//! metrics, by other names.

use super::judge::{self, Judge, Options, Transcript};
use super::judged::JudgedMetric;
use super::{Describe, Description, Error, Metric, MetricContext, Needs, Sample, check_name};
use crate::words::{Pattern, pattern};
use crate::{Missing, prompt};
use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use store::{Key, registry::ReadSettingsFile};

pub(super) const VERSION: u32 = 2;

const METRIC: &str = "prompt";

const QUESTION: &str = "question";
const ANSWER: &str = "answer";
const REFERENCE: &str = "reference";
const PASSAGES: &str = "passages";
const PLACEHOLDERS: [&str; 4] = [QUESTION, ANSWER, REFERENCE, PASSAGES];

/// A number of one digit stands for a label.
const MOST_LABELS: usize = 9;

/// What the judge gives.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Output")]
pub enum PromptOutput {
    /// Yes or no: 1 or 0.
    #[default]
    YesNo,
    /// A number between two others.
    Number {
        /// The lowest.
        min: f64,
        /// The highest.
        max: f64,
    },
    /// One of these labels, each with its score.
    Choice(BTreeMap<String, f64>),
}

/// Settings of a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The metric's name; `prompt` if left out. Needed where there are several.
    pub name: Option<String>,
    /// The file with the prompt, relative to the experiment file.
    pub file: String,
    /// The prompt itself, in the place of a file. What a file holds is put
    /// here when the experiment is read.
    pub template: String,
    /// What the judge gives: `yes_no`, `{ number = { min, max } }` or
    /// `{ choice = { label = score, … } }`.
    pub output: PromptOutput,
    /// Whether a higher score is better.
    pub higher_is_better: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: None,
            file: String::new(),
            template: String::new(),
            output: PromptOutput::YesNo,
            higher_is_better: true,
        }
    }
}

/// A piece of a template.
#[derive(Debug, Clone, PartialEq)]
enum TemplatePiece {
    Text(String),
    Placeholder(&'static str),
}

/// `{word}` or `{{word}}`.
static PLACEHOLDER: Pattern = LazyLock::new(|| pattern(r"\{\{([A-Za-z_]+)\}\}|\{([A-Za-z_]+)\}"));

/// The tags of a template.
static TAG: Pattern = LazyLock::new(|| pattern(r"<\s*/?\s*([A-Za-z][\w-]*)"));

/// All placeholders, as they are written.
fn placeholders() -> String {
    PLACEHOLDERS.map(|name| format!("{{{name}}}")).join(", ")
}

fn refusal(reason: String) -> Error {
    Error::Config { metric: METRIC, reason }
}

/// The pieces of a template.
fn pieces(template: &str) -> Result<Vec<TemplatePiece>, Error> {
    let unknown = |name: &str| {
        let list = placeholders();
        refusal(format!(
            "the prompt has {{{name}}}, which stands for nothing: there are {list}; write {{{{{name}}}}} for the word in braces"
        ))
    };
    let mut pieces = Vec::new();
    let mut end = 0;
    for found in PLACEHOLDER.captures_iter(template) {
        let Some(whole) = found.get(0) else { continue };
        pieces.push(TemplatePiece::Text(template[end..whole.start()].to_owned()));
        end = whole.end();
        if let Some(literal) = found.get(1) {
            pieces.push(TemplatePiece::Text(format!("{{{}}}", literal.as_str())));
        } else if let Some(name) = found.get(2) {
            let known = PLACEHOLDERS.into_iter().find(|known| *known == name.as_str());
            pieces.push(TemplatePiece::Placeholder(known.ok_or_else(|| unknown(name.as_str()))?));
        }
    }
    pieces.push(TemplatePiece::Text(template[end..].to_owned()));
    Ok(pieces)
}

impl Config {
    pub(super) fn build(&self, cx: &MetricContext<'_>) -> Result<Box<dyn Metric>, Error> {
        let refuse = |reason: String| Err(refusal(reason));
        check_name(METRIC, self.name.as_deref())?;
        match (self.file.is_empty(), self.template.trim().is_empty()) {
            (true, true) => return refuse("`file` is missing: the path of a file with the prompt".into()),
            (false, true) => return refuse(format!("the file {} is empty, or was not read", self.file)),
            (false, false) => return refuse("`file` and `template` exclude each other".into()),
            (true, false) => {}
        }
        let pieces = pieces(&self.template)?;
        if !pieces.iter().any(|piece| matches!(piece, TemplatePiece::Placeholder(_))) {
            let list = placeholders();
            return refuse(format!("the prompt shows the judge nothing: put {list} into it, or some of them"));
        }
        let labels = match &self.output {
            PromptOutput::YesNo => Vec::new(),
            PromptOutput::Number { min, max } if min.is_finite() && max.is_finite() && min < max => Vec::new(),
            PromptOutput::Number { min, max } => {
                return refuse(format!("`min` must be below `max`, not {min} and {max}"));
            }
            PromptOutput::Choice(labels) => ordered(labels)?,
        };
        let tags: Vec<String> = TAG.captures_iter(&self.template).map(|found| regex::escape(&found[1])).collect();
        let own_tags = if tags.is_empty() {
            None
        } else {
            let pattern = Regex::new(&format!(r"(?i)<(\s*/?\s*(?:{})\b)", tags.join("|")));
            match pattern {
                Ok(pattern) => Some(pattern),
                Err(error) => return refuse(format!("the tags of the prompt cannot be searched for: {error}")),
            }
        };
        let judge = super::judge(cx, METRIC, judge::DEFAULT_THRESHOLD)?;
        let content = Key::of_bytes(self.template.as_bytes()).short();
        Ok(Box::new(PromptMetric { judge, config: self.clone(), pieces, labels, own_tags, content }))
    }
}

/// Labels in the order of their scores.
fn ordered(labels: &BTreeMap<String, f64>) -> Result<Vec<(String, f64)>, Error> {
    if !(2..=MOST_LABELS).contains(&labels.len()) {
        return Err(refusal(format!("`choice` needs 2 to {MOST_LABELS} labels, not {}", labels.len())));
    }
    let mut labels: Vec<(String, f64)> =
        labels.iter().map(|(label, score)| (label.trim().to_owned(), *score)).collect();
    if let Some((label, score)) = labels.iter().find(|(label, score)| label.is_empty() || !score.is_finite()) {
        let reason = format!("`choice` has the label `{label}` with the score {score}: a name and a number are needed");
        return Err(refusal(reason));
    }
    labels.sort_by(|a, b| a.1.total_cmp(&b.1));
    if labels.first().map(|label| label.1) == labels.last().map(|label| label.1) {
        return Err(refusal("all labels of `choice` have the same score".to_owned()));
    }
    Ok(labels)
}

impl Describe for Config {
    fn describe(&self) -> Description {
        let pieces = pieces(&self.template).unwrap_or_default();
        let has = |name: &'static str| pieces.contains(&TemplatePiece::Placeholder(name));
        let (answer, reference, passages) = (has(ANSWER), has(REFERENCE), has(PASSAGES));
        let range = match &self.output {
            PromptOutput::YesNo => None,
            PromptOutput::Number { min, max } => Some((*min, *max)),
            PromptOutput::Choice(labels) => {
                let (low, high) = labels
                    .values()
                    .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), score| (low.min(*score), high.max(*score)));
                (low < high).then_some((low, high))
            }
        };
        Description {
            needs: Needs { answer, reference, passages, judge: true, ..Needs::default() },
            voting: 1,
            can_be_named: true,
            label: self.name.clone(),
            range,
            lower_is_better: !self.higher_is_better,
            ..Description::default()
        }
    }

    fn read_files(&mut self, read: ReadSettingsFile<'_>) -> Result<(), Error> {
        if self.file.is_empty() || !self.template.is_empty() {
            return Ok(());
        }
        self.template = read(&self.file).map_err(|error| refusal(error.to_string()))?;
        if self.template.trim().is_empty() {
            return Err(refusal(format!("the file {} is empty", self.file)));
        }
        // A file that is moved is still the same prompt.
        self.file.clear();
        Ok(())
    }

    #[cfg(test)]
    fn example() -> Self {
        let template = "Look at this.\n<document>\n{passages}\n</document>\n{question}\n{reference}\n{answer}\nIs the answer polite?";
        Self { template: template.to_owned(), ..Self::default() }
    }
}

struct PromptMetric {
    judge: Judge,
    config: Config,
    pieces: Vec<TemplatePiece>,
    labels: Vec<(String, f64)>,
    /// What looks like a tag of the template.
    own_tags: Option<Regex>,
    /// The short key of the template, for the detail of a score.
    content: String,
}

impl JudgedMetric for PromptMetric {
    async fn try_score(&self, sample: &Sample<'_>, transcript: &mut Transcript) -> Result<f64, Missing> {
        transcript.show("template", json!(self.content));
        let filled = self.filled(sample)?;
        let filled = filled.trim();
        match &self.config.output {
            PromptOutput::YesNo => {
                let options = Options::Words(&["Yes", "No"]);
                let choice = self.judge.choose("verdict", filled, &options, transcript).await?;
                transcript.show("verdict", choice.detail());
                Ok(if choice.complete()? == 0 { 1.0 } else { 0.0 })
            }
            PromptOutput::Number { min, max } => {
                let measure = self.judge.measure("number", filled, (*min, *max), transcript).await?;
                transcript.show("number", measure.detail());
                measure.complete()
            }
            PromptOutput::Choice(_) => {
                let numbers: Vec<u8> = (1..).take(self.labels.len()).collect();
                let labels: Vec<String> =
                    numbers.iter().zip(&self.labels).map(|(number, (label, _))| format!("{number}: {label}")).collect();
                let prompt = format!("{filled}\n\nChoose one:\n{}\n", labels.join("\n"));
                let choice = self.judge.choose("choice", &prompt, &Options::Numbers(numbers), transcript).await?;
                transcript.show("choice", choice.detail());
                let (label, score) = &self.labels[choice.complete()?];
                transcript.show("label", json!(label));
                Ok(*score)
            }
        }
    }
}

impl PromptMetric {
    /// The template with a sample in its places.
    fn filled(&self, sample: &Sample<'_>) -> Result<String, Missing> {
        let mut filled = String::new();
        for piece in &self.pieces {
            match piece {
                TemplatePiece::Text(text) => filled.push_str(text),
                TemplatePiece::Placeholder(ANSWER) => {
                    filled.push_str(&self.fence(ANSWER, &sample.answer_with_words()?));
                }
                TemplatePiece::Placeholder(REFERENCE) => filled.push_str(&self.fence(REFERENCE, sample.reference()?)),
                TemplatePiece::Placeholder(PASSAGES) => {
                    let texts: Vec<String> = sample.texts().map(|text| self.without_tags(text)).collect();
                    filled.push_str(&prompt::fence_all("context", "passage", texts.iter().map(String::as_str)));
                }
                TemplatePiece::Placeholder(_) => filled.push_str(&self.fence(QUESTION, &sample.question.question)),
            }
        }
        Ok(filled)
    }

    fn fence(&self, tag: &str, text: &str) -> String {
        prompt::fence(tag, &self.without_tags(text))
    }

    fn without_tags(&self, text: &str) -> String {
        match &self.own_tags {
            Some(pattern) => pattern.replace_all(text, "&lt;$1").into_owned(),
            None => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
