//! Verdicts in the detail of a score that people can label, and the labelled case that a label makes of one.
//!
//! A metric lists them in its description: the lists of its detail whose verdicts are of a kind on which judges are
//! qualified. A case then holds the texts that the judge compared.

use super::{MetricConfig, Sample};
use crate::verdict::{Case, VerdictKind};
use rag::Passage;
use serde_json::Value;

/// The text that the items of a list are compared with.
#[derive(Debug, Clone, Copy)]
pub(super) enum ComparedWith {
    /// All passages.
    Passages,
    /// The passages that the item of the same place cites: `citations` in the detail.
    CitedPassages,
    /// The reference answer.
    Reference,
    /// The answer.
    Answer,
}

/// A list of verdicts in the detail of a score. Each item is a text; in a list of [`VerdictKind::Relevant`], the passage of
/// the same place.
#[derive(Debug, Clone, Copy)]
pub(super) struct JudgedList {
    /// Its name in the detail.
    pub(super) name: &'static str,
    /// The kind of its verdicts.
    pub(super) kind: VerdictKind,
    pub(super) with: ComparedWith,
}

/// A verdict of judges, and what it is about.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedItem {
    /// The case, labelled as the judges said.
    pub case: Case,
    /// What each of several judges said; empty if there is one judge.
    pub votes: Vec<(String, bool)>,
}

impl MetricConfig {
    /// The lists of verdicts in the details of its scores that people can label.
    pub fn judged_lists(&self) -> Vec<&'static str> {
        if self.needs_judge() {
            self.describe().judged_lists.iter().map(|list| list.name).collect()
        } else {
            Vec::new()
        }
    }

    /// The verdict at a place of a list, from 0, in the detail of the score of a sample; none if there is no such verdict, or
    /// if the sample lacks a text that it is about.
    pub fn judged_item(&self, sample: &Sample<'_>, detail: &Value, list: &str, place: usize) -> Option<JudgedItem> {
        let description = self.describe();
        let judged = description.judged_lists.iter().find(|judged| judged.name == list)?;
        let row = detail.get(list)?.get(place)?;
        let label = row.get("verdict")?.as_bool()?;
        let item = match judged.kind {
            VerdictKind::Relevant => sample.passages.get(place)?.text.clone(),
            VerdictKind::Supported | VerdictKind::Correct => row.get("text")?.as_str()?.to_owned(),
        };
        let against = match judged.with {
            ComparedWith::Passages => joined(sample.passages.iter()),
            ComparedWith::CitedPassages => {
                let numbers = detail.get("citations")?.get(place)?.as_array()?;
                let cited =
                    |number: &Value| sample.passages.get(usize::try_from(number.as_u64()?).ok()?.checked_sub(1)?);
                joined(numbers.iter().filter_map(cited))
            }
            ComparedWith::Reference => sample.reference().ok()?.to_owned(),
            ComparedWith::Answer => sample.answer_with_words().ok()?,
        };
        if against.trim().is_empty() {
            return None;
        }
        let vote = |vote: &Value| Some((vote.get("judge")?.as_str()?.to_owned(), vote.get("verdict")?.as_bool()?));
        let votes = row.get("votes").and_then(Value::as_array).map(|votes| votes.iter().filter_map(vote).collect());
        let question = sample.question.question.clone();
        let case = Case { kind: judged.kind, question, against, item, label };
        Some(JudgedItem { case, votes: votes.unwrap_or_default() })
    }
}

/// The texts of passages as one text.
fn joined<'a>(passages: impl Iterator<Item = &'a Passage>) -> String {
    passages.map(|passage| passage.text.as_str()).collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{answer, passage, question, sample};
    use super::*;
    use serde_json::json;

    #[test]
    fn every_list_of_a_metric_is_of_a_kind_on_which_judges_are_qualified() {
        let mut listed = Vec::new();
        for metric in MetricConfig::examples() {
            for list in metric.judged_lists() {
                assert!(metric.verdict().is_some(), "{}", metric.name());
                listed.push((metric.name(), list));
            }
        }
        let wanted = [
            ("faithfulness", "statements"),
            ("context_precision", "passages"),
            ("context_recall", "sentences"),
            ("answer_correctness", "answer_statements"),
            ("factual_correctness", "answer_claims"),
            ("factual_correctness", "reference_claims"),
            ("noise_sensitivity", "answer_statements"),
            ("citation_recall", "sentences"),
        ];
        assert_eq!(listed, wanted);
    }

    #[test]
    fn a_verdict_becomes_a_case_with_the_texts_that_the_judge_compared() {
        let question = question("What is APT?", Some("A package manager."));
        let passages = [passage("a.txt", 0, 10), passage("a.txt", 20, 30)];
        let said = answer("APT is a manager [2].");
        let sample = sample(&question, &passages, Some(&said));
        let texts: Vec<&str> = passages.iter().map(|passage| passage.text.as_str()).collect();
        let detail = json!({
            "statements": [{ "text": "It is old.", "verdict": false, "votes": [
                { "judge": "one", "verdict": false }, { "judge": "two", "verdict": null }, { "judge": "three", "verdict": true },
            ] }],
            "passages": [{ "text": "a.txt 0..10", "verdict": true }, { "text": "a.txt 20..30", "verdict": null }],
            "sentences": [{ "text": "It manages.", "verdict": true }, { "text": "It is.", "verdict": false }],
            "citations": [[2], []],
            "answer_statements": [{ "text": "It manages.", "verdict": true }],
        });
        let found = |metric: &str, list: &str, place: usize| {
            MetricConfig::with_defaults(metric).unwrap().judged_item(&sample, &detail, list, place)
        };
        let case = |metric: &str, list: &str| found(metric, list, 0).unwrap().case;
        let statement = found("faithfulness", "statements", 0).unwrap();
        assert_eq!((statement.case.item.as_str(), statement.case.label), ("It is old.", false));
        assert_eq!(statement.case.against, texts.join("\n\n"));
        assert_eq!(statement.votes, [("one".to_owned(), false), ("three".to_owned(), true)]);
        let relevant = case("context_precision", "passages");
        assert_eq!((relevant.item.as_str(), relevant.against.as_str()), (texts[0], "A package manager."));
        assert_eq!(case("citation_recall", "sentences").against, texts[1], "only what the sentence cites");
        let correct = case("answer_correctness", "answer_statements");
        assert_eq!((correct.kind, correct.against.as_str()), (VerdictKind::Correct, "A package manager."));
        for (metric, list, place) in [
            ("context_precision", "passages", 1),
            ("citation_recall", "sentences", 1),
            ("faithfulness", "statements", 1),
            ("faithfulness", "sentences", 0),
            ("recall", "statements", 0),
        ] {
            assert_eq!(found(metric, list, place), None, "{metric} {list} {place}");
        }
    }
}
