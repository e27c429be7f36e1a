//! Context tokens: how much text the generator is given.
//!
//! When to use it: beside the metrics of retrieval, as the price of their
//! scores: every token of context is paid for and read with each question. Less
//! is better. It chooses no trial unless the objective names it. It needs no
//! model.
//!
//! The tokens of the texts of all passages together, as `cl100k_base` counts
//! them: the same count that sizes chunks, whatever tokenizer the generator has. 0
//! where nothing was retrieved. More than `most` count as `most`, because scores
//! need an end of their range; the detail has the number that was counted.
//!
//! Source: our own.

use super::{Describe, Description, Error, FormulaMetric, Metric, MetricContext, Needs, ObjectiveRole, Sample, refuse};
use crate::{Score, Scored};
use rag::chunk::TokenCounter;
use serde::{Deserialize, Serialize};

pub(super) const VERSION: u32 = 1;

/// Settings of this metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The greatest score, in tokens. In an objective that names this metric, this
    /// number of tokens counts as 0, and no tokens count as 1.
    pub most: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { most: 131_072 }
    }
}

impl Config {
    pub(super) fn build(&self, _: &MetricContext<'_>) -> Result<Box<dyn Metric>, Error> {
        if self.most == 0 {
            return refuse("context_tokens", "most must be at least 1: it is the greatest score");
        }
        let most = self.most as usize;
        Ok(Box::new(FormulaMetric(move |sample: &Sample<'_>| {
            let tokens: usize = sample.texts().map(|text| TokenCounter::shared().count(text)).sum();
            let detail = serde_json::json!({ "passages": sample.passages.len(), "tokens": tokens });
            Ok(Scored { score: Score::finite(tokens.min(most) as f64), detail })
        })))
    }
}

impl Describe for Config {
    fn describe(&self) -> Description {
        Description {
            needs: Needs { passages: true, ..Needs::default() },
            range: Some((0.0, f64::from(self.most))),
            lower_is_better: true,
            objective_role: ObjectiveRole::Excluded,
            ..Description::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{passage, question, sample, score};
    use super::*;
    use rag::Passage;

    fn tokens(most: u32, texts: &[&str]) -> f64 {
        let metric = Config { most }.build(&MetricContext::default()).unwrap();
        let of = |text: &&str| Passage { text: (*text).to_owned(), ..passage("a.txt", 0, 9) };
        let passages: Vec<Passage> = texts.iter().map(of).collect();
        score(&*metric, &sample(&question("What?", None), &passages, None)).score.value().unwrap()
    }

    #[test]
    fn the_tokens_of_all_passages_are_added_up_with_repeats() {
        assert_eq!(tokens(100, &["The old mill.", "The old mill."]), 8.0);
        assert_eq!(tokens(100, &[]), 0.0);
    }

    #[test]
    fn the_score_stays_in_its_range() {
        assert_eq!(tokens(5, &["The old mill.", "The old mill."]), 5.0);
        assert!(Config { most: 0 }.build(&MetricContext::default()).is_err());
    }

    #[test]
    fn fewer_are_better_and_nothing_is_chosen_by_it() {
        let description = Config::default().describe();
        assert!(description.lower_is_better && description.objective_role == ObjectiveRole::Excluded);
    }
}
