//! What the replies of a system mean: where the answer, the passages and the costs stand in them.

use super::{
    ReplyPassage, SystemPrice, SystemQuestion, SystemReply,
    path::{ReplyPath, kind_of, shown},
};
use models::{Error, StatedUsage, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// No call reads or writes more tokens.
const MOST_TOKENS: u64 = 10_000_000;
/// No call costs more dollars.
const MOST_USD: f64 = 1000.0;

/// Where the parts of a passage stand in it. A passage may also be a plain text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PassagePaths {
    /// The path to its text. Default `text`; empty if a system returns no texts, but only names of documents or ids.
    pub text: String,
    /// The path to the document, as the system names it, such as `metadata.source`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document: Option<String>,
    /// The path to the position in the document where it begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// The path to the position where it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// The path to the page, a number from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
    /// The path to the system's own id of the passage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The path to the system's own score.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<String>,
}

impl Default for PassagePaths {
    fn default() -> Self {
        Self { text: "text".to_owned(), document: None, start: None, end: None, page: None, id: None, score: None }
    }
}

/// Where a reply states what it cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct UsagePaths {
    /// The path to the number of tokens read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<String>,
    /// The path to the number of tokens written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_tokens: Option<String>,
    /// The path to the cost in dollars. It counts before any price of the experiment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<String>,
}

/// The paths of a system as its settings write them; an empty one is unset.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReplySettings<'a> {
    pub(super) answer: &'a str,
    pub(super) passages: &'a str,
    pub(super) passage: &'a PassagePaths,
    pub(super) trace: &'a str,
    pub(super) question: &'a str,
}

/// Reads the replies of a system.
#[derive(Debug)]
pub(super) struct ReplyReader {
    answer: Option<ReplyPath>,
    passages: Option<PassageReader>,
    trace: Option<ReplyPath>,
    question: Option<ReplyPath>,
}

/// Reads the passages of a reply.
#[derive(Debug)]
struct PassageReader {
    list: ReplyPath,
    text: Option<ReplyPath>,
    document: Option<ReplyPath>,
    start: Option<ReplyPath>,
    end: Option<ReplyPath>,
    page: Option<ReplyPath>,
    id: Option<ReplyPath>,
    score: Option<ReplyPath>,
}

/// Reads what replies state of their cost.
#[derive(Debug)]
pub(super) struct UsageReader {
    prompt_tokens: Option<ReplyPath>,
    completion_tokens: Option<ReplyPath>,
    cost_usd: Option<ReplyPath>,
    price: SystemPrice,
}

/// The path that a setting holds; none if it is unset.
fn read_path(setting: &str, text: &str) -> Result<Option<ReplyPath>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    ReplyPath::parse(text).map(Some).map_err(|error| format!("`{setting}`: {error}"))
}

/// The path of a setting that may be left out.
fn read_optional(setting: &str, text: Option<&String>) -> Result<Option<ReplyPath>, String> {
    read_path(setting, text.map_or("", String::as_str))
}

impl ReplyReader {
    /// A reader for these settings.
    ///
    /// # Errors
    /// A sentence that names the setting.
    pub(super) fn new(settings: &ReplySettings<'_>) -> Result<Self, String> {
        let passages = PassageReader::new(settings)?;
        let answer = read_path("answer", settings.answer)?;
        if answer.is_none() && passages.is_none() {
            return Err("`answer` and `passages` are both empty: name at least one place of the reply".to_owned());
        }
        Ok(Self {
            answer,
            passages,
            trace: read_path("trace", settings.trace)?,
            question: read_path("question", settings.question)?,
        })
    }

    /// What a reply says; `section` is the system's, for messages. Usage and version are left out.
    ///
    /// # Errors
    /// What the reply lacks, or that it is to another question.
    pub(super) fn read(
        &self,
        question: &SystemQuestion<'_>,
        reply: &Value,
        section: &str,
    ) -> Result<SystemReply, Error> {
        self.parts(question, reply, section).map_err(|reason| Error::Malformed { model: section.to_owned(), reason })
    }

    fn parts(&self, question: &SystemQuestion<'_>, reply: &Value, section: &str) -> Result<SystemReply, String> {
        let answer = self.answer.as_ref().map(|path| text_at(path, reply, ("answer", section))).transpose()?;
        let passages = self.passages.as_ref().map(|reader| reader.read(reply, section)).transpose()?;
        if let Some(path) = &self.question {
            check_echo(path, question, reply, section)?;
        }
        let trace = self.trace.as_ref().and_then(|path| name_of(path.find(reply)?));
        Ok(SystemReply { answer, passages, trace, ..SystemReply::default() })
    }
}

/// The text at a path.
fn text_at(path: &ReplyPath, reply: &Value, setting: (&str, &str)) -> Result<String, String> {
    match path.find(reply) {
        Some(Value::String(text)) => Ok(text.clone()),
        _ => Err(path.describe_mismatch(reply, setting, "a text", Value::is_string)),
    }
}

/// Refuses a reply that repeats another question than the one that was asked.
fn check_echo(path: &ReplyPath, question: &SystemQuestion<'_>, reply: &Value, section: &str) -> Result<(), String> {
    let echo = text_at(path, reply, ("question", section))?;
    let folded = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (echo, asked) = (folded(&echo), folded(question.text));
    match echo == asked {
        true => Ok(()),
        false => Err(format!(
            "it replied to another question: `{path}` is \u{201c}{}\u{201d}, but \u{201c}{}\u{201d} was asked; check whether it mixes up \
             requests that it gets at the same time",
            shown(&echo),
            shown(&asked)
        )),
    }
}

impl PassageReader {
    /// A reader for these settings; none if replies hold no passages.
    fn new(settings: &ReplySettings<'_>) -> Result<Option<Self>, String> {
        let at = settings.passage;
        // All paths are checked, also if they are not used.
        let list = read_path("passages", settings.passages)?;
        let (text, document) =
            (read_path("passage.text", &at.text)?, read_optional("passage.document", at.document.as_ref())?);
        let (start, end) =
            (read_optional("passage.start", at.start.as_ref())?, read_optional("passage.end", at.end.as_ref())?);
        let (page, id) =
            (read_optional("passage.page", at.page.as_ref())?, read_optional("passage.id", at.id.as_ref())?);
        let score = read_optional("passage.score", at.score.as_ref())?;
        Ok(list.map(|list| Self { list, text, document, start, end, page, id, score }))
    }

    fn read(&self, reply: &Value, section: &str) -> Result<Vec<ReplyPassage>, String> {
        let Some(Value::Array(items)) = self.list.find(reply) else {
            return Err(self.list.describe_mismatch(reply, ("passages", section), "a list", Value::is_array));
        };
        let passage = |(i, item)| {
            self.passage(item, section).map_err(|reason| format!("passage {} of `{}`: {reason}", i + 1, self.list))
        };
        items.iter().enumerate().map(passage).collect()
    }

    fn passage(&self, item: &Value, section: &str) -> Result<ReplyPassage, String> {
        let text = match (item, &self.text) {
            (Value::String(text), _) => return Ok(ReplyPassage { text: text.clone(), ..ReplyPassage::default() }),
            (Value::Object(_), Some(path)) => text_at(path, item, ("passage.text", section))?,
            (Value::Object(_), None) => String::new(),
            (other, _) => return Err(format!("it is {}, and neither a text nor an object", kind_of(other))),
        };
        let find = |path: &Option<ReplyPath>| path.as_ref().and_then(|path| path.find(item));
        let document = match find(&self.document) {
            Some(value @ (Value::Object(_) | Value::Array(_))) => {
                return Err(format!("`passage.document` leads to {}, and not to a name", kind_of(value)));
            }
            value => value.and_then(name_of),
        };
        Ok(ReplyPassage {
            text,
            document,
            start: find(&self.start).and_then(count_of),
            end: find(&self.end).and_then(count_of),
            page: find(&self.page).and_then(count_of).and_then(|page| page.try_into().ok()),
            id: find(&self.id).and_then(name_of),
            score: find(&self.score).and_then(number_of),
        })
    }
}

impl UsageReader {
    /// A reader for these settings, which knows what the experiment states of the price.
    ///
    /// # Errors
    /// A sentence that names the setting.
    pub(super) fn new(usage: &UsagePaths, price: SystemPrice) -> Result<Self, String> {
        let stated = [("call", price.call), ("input", price.input), ("output", price.output)];
        for (name, price) in stated {
            if price.is_some_and(|price| !(price.is_finite() && price >= 0.0)) {
                return Err(format!("`price.{name}` must not be below 0"));
            }
        }
        let counts = [
            ("input", price.input, "prompt_tokens", &usage.prompt_tokens),
            ("output", price.output, "completion_tokens", &usage.completion_tokens),
        ];
        for (name, price, count, path) in counts {
            if price.is_some() && path.as_ref().is_none_or(String::is_empty) {
                return Err(format!(
                    "`price.{name}` is for tokens, and no setting says where a reply counts them: set `usage.{count}`, \
                     or `price.call` for a price per call"
                ));
            }
        }
        Ok(Self {
            prompt_tokens: read_optional("usage.prompt_tokens", usage.prompt_tokens.as_ref())?,
            completion_tokens: read_optional("usage.completion_tokens", usage.completion_tokens.as_ref())?,
            cost_usd: read_optional("usage.cost_usd", usage.cost_usd.as_ref())?,
            price,
        })
    }

    /// What one call costs at least, if the experiment states it.
    pub(super) fn price_of_call(&self) -> Option<f64> {
        self.price.call
    }

    /// What a reply cost. Numbers that no call can have are unknown.
    pub(super) fn read(&self, reply: &Value) -> StatedUsage {
        let tokens = self.tokens(reply);
        let stated = self.cost_usd.as_ref().and_then(|path| path.find(reply)).and_then(number_of);
        let stated = stated.filter(|usd| (0.0..=MOST_USD).contains(usd));
        StatedUsage { tokens, cost_usd: stated.or_else(|| self.price.cost_usd(tokens)) }
    }

    /// Tokens read and written; none if a reply lacks one that the settings name.
    fn tokens(&self, reply: &Value) -> Option<Usage> {
        let count = |path: &Option<ReplyPath>| match path {
            None => Some(0),
            Some(path) => path.find(reply).and_then(count_of).filter(|count| *count <= MOST_TOKENS),
        };
        if self.prompt_tokens.is_none() && self.completion_tokens.is_none() {
            return None;
        }
        let (prompt_tokens, completion_tokens) = (count(&self.prompt_tokens)?, count(&self.completion_tokens)?);
        Some(Usage { prompt_tokens, completion_tokens, ..Usage::default() })
    }
}

/// A name or an id, which may be written as a number; none if it is neither.
pub(super) fn name_of(value: &Value) -> Option<String> {
    match value {
        Value::String(name) => Some(name.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A whole number from 0, which may be written as text or with `.0`.
fn count_of(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        // Larger whole numbers are not exact as floats.
        Value::Number(number) => number.as_u64().or_else(|| {
            number
                .as_f64()
                .filter(|float| float.fract() == 0.0 && (0.0..=1e15).contains(float))
                .map(|float| float as u64)
        }),
        _ => None,
    }
}

/// A finite number, which may be written as text.
fn number_of(value: &Value) -> Option<f64> {
    let number = match value {
        Value::String(text) => text.trim().parse().ok(),
        value => value.as_f64(),
    };
    number.filter(|number| number.is_finite())
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
