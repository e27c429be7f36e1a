//! Response groundedness: whether the answer as a whole stands on what was
//! retrieved.
//!
//! When to use it: as a cheap `faithfulness` (two calls an answer). It needs a
//! judge and no reference. It does not tell which part of the answer is made
//! up.
//!
//! Two prompts, worded differently, ask for a rating of the answer: 0 not
//! supported by the passages, 1 in part, 2 fully. score = mean of both
//! ratings / 2.
//!
//! Calls for a score: two.
//!
//! Differences from Ragas 0.4.3 (`collections`, Nvidia's metric):
//! - a rating that cannot be read means no score (`judge_unparsable`); there,
//!   the other rating alone becomes the score;
//! - the ratings come from token probabilities where offered (the most
//!   probable one), and each is asked for once (there, up to five times);
//! - the passages are numbered, fenced and escaped; citations are taken off
//!   the answer;
//! - an empty answer and an empty retrieval count as 0, as in `faithfulness`;
//!   there, they are 0 or raise.
//!
//! Source: Ragas' documentation.

use super::{Describe, Description, Error, Metric, MetricContext, Needs, Sample, two_ratings};
use crate::{Missing, prompt};
use serde::{Deserialize, Serialize};

pub(super) const VERSION: u32 = 2;

/// Settings of response groundedness: there are none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {}

impl Config {
    pub(super) fn build(&self, cx: &MetricContext<'_>) -> Result<Box<dyn Metric>, Error> {
        two_ratings::build("response_groundedness", cx, [0, 1, 2], prompts)
    }
}

impl Describe for Config {
    fn describe(&self) -> Description {
        Description {
            needs: Needs { answer: true, passages: true, judge: true, ..Needs::default() },
            voting: two_ratings::CALLS,
            ..Description::default()
        }
    }
}

fn prompts(sample: &Sample<'_>) -> Result<Option<[String; 2]>, Missing> {
    let answer = sample.answer_with_words()?;
    if sample.passages.is_empty() {
        return Err(Missing::EmptyInput("nothing was retrieved that could support the answer".into()));
    }
    let shared = format!("{}\n\n{}", sample.fenced_context(), prompt::fence("answer", &answer));
    Ok(Some([
        format!(
            "{shared}\n\nRate how far the context supports what the answer says. 0: not at all. 1: in part, some of \
             it does not stand there. 2: fully, all of it stands there or follows from it."
        ),
        format!(
            "{shared}\n\nCheck the answer against the context, which is all that its writer had. 2: nothing was \
             added to what the context says. 1: some of it was taken from the context, some was added. 0: it was \
             made up, or the context says otherwise."
        ),
    ]))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeJudge, answer, judged_by, passage, question, sample, score};
    use super::*;
    use crate::{Score, Scored};

    fn groundedness(fake: FakeJudge, text: &str, n_passages: usize) -> Scored {
        let passages: Vec<_> = (0..n_passages).map(|i| passage("a.txt", i * 10, i * 10 + 10)).collect();
        let metric = Config::default().build(&judged_by(fake).context()).unwrap();
        score(&*metric, &sample(&question("What is APT?", None), &passages, Some(&answer(text))))
    }

    #[test]
    fn the_score_is_the_mean_of_two_ratings() {
        for (ratings, wanted) in [("22", 1.0), ("12", 0.75), ("00", 0.0)] {
            let fake = FakeJudge::new().ratings(ratings);
            let seen = fake.seen();
            assert_eq!(groundedness(fake, "A tool [1].", 1).score, Score::Value(wanted), "{ratings}");
            assert!(seen.lock().unwrap().iter().all(|request| !request.messages[1].content.contains("[1]")));
        }
    }

    #[test]
    fn without_answer_text_or_passages_there_is_no_score() {
        for (text, n_passages) in [("[1]", 1), ("A tool.", 0)] {
            let scored = groundedness(FakeJudge::new(), text, n_passages);
            assert!(matches!(scored.score, Score::Missing(Missing::EmptyInput(_))), "{:?}", scored.score);
        }
    }
}
