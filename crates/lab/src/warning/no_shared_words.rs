//! `no-shared-words`: questions that share no word with any chunk, in a trial that searches by words and by vectors.

use super::{Finding, RunFacts, WarningKind, WarningTime};
use crate::number::{count, counted};

pub(super) const KIND: WarningKind = WarningKind {
    title: "questions that share no word with any chunk",
    meaning: "The trial searches by words and by vectors, and no word of these questions stands in any chunk, so only the \
              vectors find anything for them. The comparison with a trial by vectors alone then says nothing about \
              joining the two. Trials that search by words alone are told by `retrieves-nothing`.",
    action: "change how words are cut (`language` and `tokens` of the retriever), or search by vectors alone",
    found: WarningTime::After,
    needs_chunks: true,
    find,
};

fn find(facts: &RunFacts) -> Vec<Finding> {
    facts.find_in_trials(|trial, found| {
        let is_joined = trial.searches_words && trial.retriever != "bm25";
        let without = found.without_shared_words.filter(|without| is_joined && *without > 0)?;
        let (n, all) = (count(without), counted(found.searched, "question"));
        let text = format!("{n} of {all} share no word with any chunk, so only vectors find anything for them");
        Some(Finding::of_trial(trial, text, without, Some(found.searched)))
    })
}

#[cfg(test)]
mod tests {
    use super::super::{
        TrialFacts, TrialFindings, WarningCode,
        fixture::{run, told, trial},
    };

    const CODE: WarningCode = WarningCode::NoSharedWords;

    fn hybrid(without_shared_words: Option<usize>) -> TrialFacts {
        let found = TrialFindings { searched: 15, without_shared_words, ..TrialFindings::default() };
        TrialFacts { retriever: "hybrid".to_owned(), searches_words: true, ..trial("t01", found) }
    }

    #[test]
    fn a_hybrid_search_of_which_words_find_nothing_is_told() {
        let expected = "t01: 14 of 15 questions share no word with any chunk, so only vectors find anything for them";
        assert_eq!(told(CODE, &run(vec![hybrid(Some(14))])), [expected]);
    }

    #[test]
    fn nothing_is_told_where_words_are_shared_or_were_not_looked_at_or_are_all_that_is_searched() {
        for found in [Some(0), None] {
            assert!(told(CODE, &run(vec![hybrid(found)])).is_empty(), "{found:?}");
        }
        let bm25 = TrialFacts { retriever: "bm25".to_owned(), ..hybrid(Some(14)) };
        assert!(told(CODE, &run(vec![bm25])).is_empty(), "`retrieves-nothing` says it");
        let reranked = TrialFacts { retriever: "dense".to_owned(), searches_words: false, ..hybrid(Some(14)) };
        assert!(told(CODE, &run(vec![reranked])).is_empty(), "only its reranker reads words");
    }
}
