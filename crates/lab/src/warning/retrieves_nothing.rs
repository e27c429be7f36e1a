//! `retrieves-nothing`: questions for which a trial found no passage at all.

use super::{Finding, RunFacts, WarningKind, WarningTime};
use crate::number::{count, counted};

pub(super) const KIND: WarningKind = WarningKind {
    title: "questions that retrieve nothing",
    meaning: "The trial found no passage for these questions, so its answers to them come from nothing, and its scores of \
              retrieval there are 0. With `bm25` it means that a question shares no word with any chunk: often the text \
              was cut into other words than the question, for example in a language that is written without spaces. With \
              a filter, a threshold or a step that drops passages it means that nothing was left. If no trial finds \
              anything, no trial leads.",
    action: "look at one of the questions; search by vectors with a model for the language, change how words are cut \
             (`language` and `tokens` of the retriever), or loosen the filter or threshold",
    found: WarningTime::After,
    needs_chunks: false,
    find,
};

fn find(facts: &RunFacts) -> Vec<Finding> {
    facts.find_in_trials(|trial, found| {
        (found.empty > 0).then(|| {
            // A search by words returns nothing for one of two reasons: no chunk shares a word with the question, or a
            // filter or a later step removed all chunks.
            let shares_nothing = trial.retriever == "bm25" && found.without_shared_words == Some(found.empty);
            let why = if shares_nothing { ", which share no word with any chunk" } else { "" };
            let text = format!(
                "nothing was retrieved for {} of {}{why}",
                count(found.empty),
                counted(found.searched, "question")
            );
            Finding::of_trial(trial, text, found.empty, Some(found.searched))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::{
        TrialFindings, WarningCode,
        fixture::{only, run, told, trial},
    };

    const CODE: WarningCode = WarningCode::RetrievesNothing;

    fn found(searched: usize, empty: usize, without_shared_words: Option<usize>) -> TrialFindings {
        TrialFindings { searched, empty, without_shared_words, ..TrialFindings::default() }
    }

    #[test]
    fn questions_without_passages_are_counted_for_the_trials_that_share_the_count() {
        let facts = run(vec![
            trial("t01", found(15, 14, Some(14))),
            trial("t02", found(15, 14, Some(14))),
            trial("t03", found(15, 1, None)),
        ]);
        assert_eq!(
            told(CODE, &facts),
            [
                "t01 and t02: nothing was retrieved for 14 of 15 questions, which share no word with any chunk",
                "t03: nothing was retrieved for 1 of 15 questions",
            ]
        );
    }

    #[test]
    fn a_cause_is_told_only_where_words_alone_were_searched() {
        let mut other = trial("t01", found(15, 14, Some(14)));
        other.retriever = "hybrid".to_owned();
        assert_eq!(told(CODE, &run(vec![other])), ["t01: nothing was retrieved for 14 of 15 questions"]);
        // For three of the 14 questions, a filter removed everything that was found.
        let filtered = run(vec![trial("t01", found(15, 14, Some(11)))]);
        assert_eq!(only(CODE, &filtered).text, "t01: nothing was retrieved for 14 of 15 questions");
        assert_eq!((only(CODE, &filtered).count, only(CODE, &filtered).total), (Some(14), Some(15)));
    }

    #[test]
    fn a_trial_that_finds_something_everywhere_or_searches_nothing_is_not_told() {
        assert!(
            told(CODE, &run(vec![trial("t01", found(15, 0, Some(0))), trial("t02", found(0, 0, None))])).is_empty()
        );
        let mut planned = trial("t01", found(15, 15, None));
        planned.found = None;
        assert!(told(CODE, &run(vec![planned])).is_empty(), "nothing is known before a run");
    }
}
