//! Answer accuracy: whether the answer agrees with the reference, as a mark.
//!
//! When to use it: as a cheap overall mark of an answer (two calls) where there
//! is a reference. It needs a judge. It does not tell what is wrong or missing:
//! that is `factual_correctness`.
//!
//! Two prompts, worded differently, ask for a rating: 0 does not say what the
//! reference says, 2 in part, 4 fully. The second prompt has both texts in
//! each other's place, so that a judge which favours one place does not decide.
//! score = mean of both ratings / 4.
//!
//! Calls for a score: two.
//!
//! Differences from Ragas 0.4.3 (`collections`, Nvidia's metric):
//! - a rating that cannot be read means no score (`judge_unparsable`); there,
//!   the other rating alone becomes the score;
//! - the ratings come from token probabilities where offered (the most
//!   probable one), and each is asked for once (there, up to five times);
//! - both texts are fenced and escaped; citations are taken off the answer;
//! - an empty answer counts as the worst value.
//!
//! Source: Ragas' documentation.

use super::{Describe, Description, Error, Metric, MetricContext, Needs, Sample, two_ratings};
use crate::{Missing, prompt};
use serde::{Deserialize, Serialize};

pub(super) const VERSION: u32 = 2;

/// Settings of answer accuracy: there are none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {}

impl Config {
    pub(super) fn build(&self, cx: &MetricContext<'_>) -> Result<Box<dyn Metric>, Error> {
        two_ratings::build("answer_accuracy", cx, [0, 2, 4], prompts)
    }
}

impl Describe for Config {
    fn describe(&self) -> Description {
        Description {
            needs: Needs { reference: true, answer: true, judge: true, ..Needs::default() },
            voting: two_ratings::CALLS,
            ..Description::default()
        }
    }
}

fn prompts(sample: &Sample<'_>) -> Result<Option<[String; 2]>, Missing> {
    let reference = sample.reference()?;
    let answer = sample.answer_with_words()?;
    let question = sample.fenced_question();
    Ok(Some([
        format!(
            "{question}\n\n{}\n\n{}\n\nThe reference answers the question rightly. Rate how far the answer says \
             the same. 0: it says something else, or nothing of it. 2: a part of it, or all of it with something \
             wrong beside it. 4: the same, in whatever words.",
            prompt::fence("answer", &answer),
            prompt::fence("reference", reference)
        ),
        // The texts change places, and so do their names.
        format!(
            "{question}\n\n{}\n\n{}\n\nTwo people answered the question; the second text is what the first is \
             compared with. Do they agree? 4: yes, whoever believes one believes the other. 2: in part, one of \
             them leaves out or adds something that matters. 0: no, they contradict each other or are about \
             different things.",
            prompt::fence("answer", reference),
            prompt::fence("reference", &answer)
        ),
    ]))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeJudge, answer, judged_by, question, sample, score};
    use super::*;
    use crate::{Score, Scored};

    fn accuracy(fake: FakeJudge, text: &str) -> Scored {
        let question = question("What is APT?", Some("A manager of packages."));
        let metric = Config::default().build(&judged_by(fake).context()).unwrap();
        score(&*metric, &sample(&question, &[], Some(&answer(text))))
    }

    #[test]
    fn the_score_is_the_mean_of_two_ratings() {
        for (ratings, wanted) in [("44", 1.0), ("42", 0.75), ("20", 0.25), ("00", 0.0)] {
            assert_eq!(accuracy(FakeJudge::new().ratings(ratings), "A tool.").score, Score::Value(wanted));
            let written = FakeJudge::new().ratings(ratings).without_probabilities();
            assert_eq!(accuracy(written, "A tool.").score, Score::Value(wanted), "{ratings}");
        }
    }

    #[test]
    fn a_rating_between_those_of_the_scale_is_none() {
        let scored = accuracy(FakeJudge::new().ratings("43").without_probabilities(), "A tool.");
        assert!(matches!(scored.score, Score::Missing(Missing::JudgeUnparsable(_))), "{:?}", scored.score);
    }

    #[test]
    fn the_second_prompt_has_both_texts_in_each_others_place() {
        let fake = FakeJudge::new();
        let seen = fake.seen();
        accuracy(fake, "A tool [1].");
        let prompts: Vec<String> = seen.lock().unwrap().iter().map(|r| r.messages[1].content.clone()).collect();
        assert!(prompts[0].contains("<answer>\nA tool.\n</answer>"), "{}", prompts[0]);
        assert!(prompts[1].contains("<reference>\nA tool.\n</reference>"), "{}", prompts[1]);
    }
}
