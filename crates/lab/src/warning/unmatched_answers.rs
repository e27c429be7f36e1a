//! `unmatched-answers`: questions to which a system gave no reply.

use super::{Finding, RunFacts, WarningKind, WarningTime};
use crate::number::{count, counted};

pub(super) const KIND: WarningKind = WarningKind {
    title: "questions that a system did not answer",
    meaning: "A call failed, or answers that exist already have none to the question. Such a question has no score, so \
              differences to other trials are over the questions that both have. If the missing ones are the hard ones, the \
              trial looks better than it is.",
    action: "run again if calls failed: what was answered is kept; add the missing answers to the file",
    found: WarningTime::After,
    needs_chunks: false,
    find,
};

fn find(facts: &RunFacts) -> Vec<Finding> {
    facts.find_in_trials(|trial, found| {
        let replies = found.replies.as_ref().filter(|replies| replies.without_reply > 0)?;
        let (missing, all) = (replies.without_reply, replies.questions);
        let text = format!("{} of {} have no reply", count(missing), counted(all, "question"));
        Some(Finding::of_trial(trial, text, missing, Some(all)))
    })
}

#[cfg(test)]
mod tests {
    use super::super::{
        ReplyFacts, TrialFindings, WarningCode,
        fixture::{run, told, trial},
    };

    const CODE: WarningCode = WarningCode::UnmatchedAnswers;

    #[test]
    fn questions_without_a_reply_are_counted() {
        let found = |without_reply| TrialFindings {
            replies: Some(ReplyFacts { questions: 60, without_reply, ..ReplyFacts::default() }),
            ..TrialFindings::default()
        };
        let expected = "t01: 20 of 60 questions have no reply";
        assert_eq!(told(CODE, &run(vec![trial("t01", found(20)), trial("t02", found(0))])), [expected]);
    }
}
