//! Context relevance: whether what was retrieved has to do with the question.
//!
//! When to use it: as a cheap mark of a retriever (two calls a question,
//! however many passages) where there is neither evidence nor a reference.
//! It needs a judge. It does not see the order of the passages, nor how many of
//! them are useless: that is `context_precision`.
//!
//! Two prompts, worded differently, ask for a rating of all passages together:
//! 0 nothing that helps to answer, 1 a part of it, 2 all of it.
//! score = mean of both ratings / 2. An empty retrieval is 0.
//!
//! Calls for a score: two.
//!
//! Differences from Ragas 0.4.3 (`collections`, Nvidia's metric):
//! - a rating that cannot be read means no score (`judge_unparsable`); there,
//!   the other rating alone becomes the score;
//! - the ratings come from token probabilities where offered (the most
//!   probable one), and each is asked for once (there, up to five times);
//! - the passages are numbered, fenced and escaped;
//! - an empty retrieval is 0 without a call, where `collections` raises. Whether
//!   passages that only repeat the question are 0 is for the judge; there, a rule.
//!
//! Source: Ragas' documentation.

use super::{Describe, Description, Error, Metric, MetricContext, Needs, Sample, two_ratings};
use crate::Missing;
use serde::{Deserialize, Serialize};

pub(super) const VERSION: u32 = 2;

/// Settings of context relevance: there are none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {}

impl Config {
    pub(super) fn build(&self, cx: &MetricContext<'_>) -> Result<Box<dyn Metric>, Error> {
        two_ratings::build("context_relevance", cx, [0, 1, 2], prompts)
    }
}

impl Describe for Config {
    fn describe(&self) -> Description {
        Description {
            needs: Needs { passages: true, judge: true, ..Needs::default() },
            // Nothing relevant can be retrieved.
            needs_answerable: true,
            voting: two_ratings::CALLS,
            ..Description::default()
        }
    }
}

fn prompts(sample: &Sample<'_>) -> Result<Option<[String; 2]>, Missing> {
    if sample.passages.is_empty() {
        return Ok(None);
    }
    let shared = format!("{}\n\n{}", sample.fenced_context(), sample.fenced_question());
    Ok(Some([
        format!(
            "{shared}\n\nRate how much of what is needed to answer the question stands in the context. 0: nothing \
             of it. 1: a part of it, so that the answer would stay incomplete. 2: all of it."
        ),
        format!(
            "{shared}\n\nSomebody has to answer the question and may use the context alone. Would they succeed? \
             2: yes, the context tells all they need. 1: only in part, something would be missing. 0: no, the \
             context is about something else or does not help."
        ),
    ]))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeJudge, judged_by, passage, question, sample, score};
    use super::*;
    use crate::{Score, Scored};

    fn relevance(fake: FakeJudge, n_passages: usize) -> Scored {
        let passages: Vec<_> = (0..n_passages).map(|i| passage("a.txt", i * 10, i * 10 + 10)).collect();
        let metric = Config::default().build(&judged_by(fake).context()).unwrap();
        score(&*metric, &sample(&question("What is APT?", None), &passages, None))
    }

    #[test]
    fn the_score_is_the_mean_of_two_ratings() {
        for (ratings, wanted) in [("22", 1.0), ("21", 0.75), ("20", 0.5), ("01", 0.25), ("00", 0.0)] {
            assert_eq!(relevance(FakeJudge::new().ratings(ratings), 2).score, Score::Value(wanted), "{ratings}");
            let written = relevance(FakeJudge::new().ratings(ratings).without_probabilities(), 2);
            assert_eq!(written.score, Score::Value(wanted), "{ratings}");
            assert_eq!(written.detail["ratings"][0]["reason"], "so");
        }
    }

    #[test]
    fn one_rating_alone_is_no_score() {
        let scored = relevance(FakeJudge::new().ratings("2?").without_probabilities(), 1);
        assert!(matches!(scored.score, Score::Missing(Missing::JudgeUnparsable(_))), "{:?}", scored.score);
        assert_eq!(scored.detail["ratings"][0]["chosen"], 2);
    }

    #[test]
    fn both_prompts_begin_with_the_passages_and_ask_differently() {
        let fake = FakeJudge::new();
        let seen = fake.seen();
        relevance(fake, 2);
        let prompts: Vec<String> = seen.lock().unwrap().iter().map(|r| r.messages[1].content.clone()).collect();
        let shared = prompts[0].split("</question>").next().unwrap();
        assert!(prompts[1].starts_with(shared) && prompts[0] != prompts[1]);
        assert_eq!(prompts.len(), 2);
    }

    #[test]
    fn nothing_retrieved_is_zero_and_asks_nobody() {
        let fake = FakeJudge::new();
        let seen = fake.seen();
        assert_eq!(relevance(fake, 0).score, Score::Value(0.0));
        assert!(seen.lock().unwrap().is_empty());
    }
}
