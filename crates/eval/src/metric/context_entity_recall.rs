//! Context entity recall: how many of the things that the reference names are
//! named by the retrieved passages.
//!
//! When to use it: where answers hang on names (people, places, products,
//! dates, amounts) and there is no golden evidence. It needs a judge and a
//! reference. That a name is there does not mean that the passage says the
//! right thing about it: that is `context_recall`.
//!
//! 1. The judge lists the entities of the reference, E.
//! 2. An entity is found where its words stand in a row in a passage (lower
//!    case, no punctuation, no articles). For the others the judge is asked
//!    whether the passages name them in other words; with `matching = "words"`
//!    they are not found.
//!
//! score = found entities / |E|. An empty retrieval is 0.
//!
//! Calls for a score: one that lists the entities, and one for each entity
//! whose words do not stand in a passage. A judge that tells no token
//! probabilities gets all of these in one call. With `matching = "words"` there
//! is one call in all.
//!
//! Differences from Ragas 0.4.3 (`collections`):
//! - there, the entities of all passages are listed by a second call, and both
//!   lists are compared letter by letter: `the Eiffel Tower` and `Eiffel
//!   Tower` differ, and what a long list leaves out counts as not retrieved.
//!   Here the reference's entities are looked for in the passages themselves;
//! - no 1e-8 in the denominator: all found is 1;
//! - a reference without entities has no score (`not_applicable`) instead of 0:
//!   no retriever could do better. An empty retrieval is 0 without a call.
//!
//! Source: Ragas' documentation.

use super::judge::{self, ITEMS, Transcript};
use super::judged::{Judged, JudgedMetric};
use super::{Describe, Description, Error, Metric, MetricContext, Needs, Sample};
use crate::verdict::Inquiry;
use crate::{Missing, prompt, words};
use serde::{Deserialize, Serialize};
use serde_json::json;

pub(super) const VERSION: u32 = 3;

/// When an entity counts as found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Matching {
    /// Its words are there, or the judge finds it in other words.
    #[default]
    Judge,
    /// Its words are there.
    Words,
}

/// Settings of context entity recall.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// When an entity counts as found: `judge` or `words`.
    pub matching: Matching,
    /// The probability of yes from which on a verdict is yes; for models that
    /// offer token probabilities.
    pub threshold: f64,
    /// The most entities of a reference.
    pub max_entities: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { matching: Matching::Judge, threshold: 0.5, max_entities: 30 }
    }
}

impl Config {
    pub(super) fn build(&self, cx: &MetricContext<'_>) -> Result<Box<dyn Metric>, Error> {
        let metric = "context_entity_recall";
        judge::check_not_zero(metric, "max_entities", self.max_entities)?;
        Judged::build(cx, metric, self.threshold, self.clone())
    }
}

impl Describe for Config {
    fn describe(&self) -> Description {
        Description {
            needs: Needs { reference: true, passages: true, judge: true, ..Needs::default() },
            writing: 1,
            voting: if self.matching == Matching::Judge { ITEMS } else { 0 },
            ..Description::default()
        }
    }
}

impl JudgedMetric for Judged<Config> {
    async fn try_score(&self, sample: &Sample<'_>, transcript: &mut Transcript) -> Result<f64, Missing> {
        let reference = sample.reference()?;
        if sample.passages.is_empty() {
            return Ok(0.0);
        }
        let prompt = format!(
            "{}\n\n{}\n\nList the entities that the reference names: people, organisations, places, products, works, \
             events, technical terms, dates and amounts. Write each as it stands in the reference, without an \
             article, and each once. If it names none, give an empty list.",
            sample.fenced_question(),
            prompt::fence("reference", reference)
        );
        let limit = self.config.max_entities as usize;
        let entities = self.judge.texts("entities", prompt, reference.len(), limit, transcript).await?;
        if entities.is_empty() {
            return Err(Missing::NotApplicable("the judge found no entity in the reference".into()));
        }
        let language = sample.language();
        let passages: Vec<Vec<String>> = sample.texts().map(|text| words::answer_words(text, language)).collect();
        let stands = |entity: &String| {
            let entity = words::answer_words(entity, language);
            !entity.is_empty() && passages.iter().any(|words| words.windows(entity.len()).any(|run| run == entity))
        };
        let (found, others): (Vec<String>, Vec<String>) = entities.into_iter().partition(stands);
        let mut n_found = found.len();
        transcript.show("found_by_words", json!(found));
        match self.config.matching {
            Matching::Words => transcript.show("not_found", json!(others)),
            Matching::Judge => {
                let inquiry = Inquiry {
                    shared: sample.fenced_context(),
                    tag: "entity",
                    items: &others,
                    question: "Does the context name this very thing, be it in other words or in another spelling?",
                    per_call: others.len(),
                };
                let verdicts = self.judge.decide(&inquiry, "others", transcript).await?;
                n_found += verdicts.iter().filter(|found| **found).count();
            }
        }
        Ok(n_found as f64 / (found.len() + others.len()) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeJudge, judged_by, passage, question, sample, score};
    use super::*;
    use crate::{Score, Scored};
    use rag::Passage;

    fn recall(config: &Config, fake: FakeJudge, passages: &[&str]) -> Scored {
        let question = question("What did he build?", Some("Gustave Eiffel built the Eiffel Tower in 1889."));
        let passages: Vec<Passage> =
            passages.iter().map(|text| Passage { text: (*text).to_owned(), ..passage("a.txt", 0, 10) }).collect();
        let metric = config.build(&judged_by(fake).context()).unwrap();
        score(&*metric, &sample(&question, &passages, None))
    }

    const PASSAGES: &[&str] = &["The Eiffel Tower stands in Paris.", "It was opened, in 1889."];

    #[test]
    fn words_in_a_passage_ask_nobody_and_the_judge_finds_other_words() {
        let fake = FakeJudge::new().statements(&["Gustave Eiffel", "the Eiffel Tower", "1889"]).verdicts("0");
        let seen = fake.seen();
        let scored = recall(&Config::default(), fake, PASSAGES);
        assert!((scored.score.value().unwrap() - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(scored.detail["found_by_words"], json!(["the Eiffel Tower", "1889"]));
        assert_eq!(scored.detail["others"][0]["text"], "Gustave Eiffel");
        assert_eq!(seen.lock().unwrap().len(), 2, "the list, and one verdict");
        for fake in [FakeJudge::new(), FakeJudge::new().without_probabilities()] {
            let fake = fake.statements(&["Gustave Eiffel", "the Eiffel Tower", "1889"]).verdicts("1");
            assert_eq!(recall(&Config::default(), fake, PASSAGES).score, Score::Value(1.0));
        }
    }

    #[test]
    fn by_words_alone_no_verdict_is_asked_for() {
        let config = Config { matching: Matching::Words, ..Config::default() };
        let fake = FakeJudge::new().statements(&["a", "b", "c"]);
        assert_eq!(recall(&config, fake, &["b and c", "and d"]).score.value(), Some(2.0 / 3.0));
        let apart = FakeJudge::new().statements(&["Eiffel Paris"]);
        assert_eq!(recall(&config, apart, PASSAGES).score, Score::Value(0.0), "words in a row");
    }

    #[test]
    fn a_reference_that_names_nothing_is_no_failure_and_nothing_retrieved_is_zero() {
        let scored = recall(&Config::default(), FakeJudge::new().statements(&[]), PASSAGES);
        assert!(matches!(scored.score, Score::Missing(Missing::NotApplicable(_))), "{:?}", scored.score);
        let fake = FakeJudge::new();
        let seen = fake.seen();
        assert_eq!(recall(&Config::default(), fake, &[]).score, Score::Value(0.0));
        assert!(seen.lock().unwrap().is_empty());
    }

    #[test]
    fn an_entity_without_a_verdict_means_no_score() {
        let fake = FakeJudge::new().statements(&["x", "y"]).verdicts("1?").without_probabilities();
        let scored = recall(&Config::default(), fake, PASSAGES);
        assert!(matches!(scored.score, Score::Missing(Missing::JudgeUnparsable(_))), "{:?}", scored.score);
    }
}
