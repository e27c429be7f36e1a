//! `unanchored-passages`: passages of a system that are in no document of the corpus.

use super::{Finding, RunFacts, WarningKind, WarningTime};
use crate::number::{count, counted};

pub(super) const KIND: WarningKind = WarningKind {
    title: "passages of a system that are in no document",
    meaning: "The place of a system's passage is found by its text: at least 80 % of it must stand in one document, in the \
              same order. A passage without a place counts as irrelevant at its rank, or as unknown with \
              `unanchored = \"unknown\"`.",
    action: "check that the system's index was made from these documents as they are now, and that its passages are quoted \
             and not rewritten",
    found: WarningTime::After,
    needs_chunks: false,
    find,
};

fn find(facts: &RunFacts) -> Vec<Finding> {
    facts.find_in_trials(|trial, found| {
        let replies = found.replies.as_ref().filter(|replies| replies.unanchored > 0)?;
        let (unanchored, all) = (replies.unanchored, replies.passages);
        let text = format!("{} of {} are in no document of the corpus", count(unanchored), counted(all, "passage"));
        Some(Finding::of_trial(trial, text, unanchored, Some(all)))
    })
}

#[cfg(test)]
mod tests {
    use super::super::{
        ReplyFacts, TrialFindings, WarningCode,
        fixture::{run, told, trial},
    };

    const CODE: WarningCode = WarningCode::UnanchoredPassages;

    #[test]
    fn passages_without_a_place_are_counted() {
        let found = |passages, unanchored| TrialFindings {
            replies: Some(ReplyFacts { passages, unanchored, ..ReplyFacts::default() }),
            ..TrialFindings::default()
        };
        let expected = "t01: 12 of 60 passages are in no document of the corpus";
        assert_eq!(told(CODE, &run(vec![trial("t01", found(60, 12)), trial("t02", found(60, 0))])), [expected]);
    }
}
