//! `few-passages`: a filter that leaves fewer chunks than the retriever should find.

use super::{Finding, RunFacts, WarningKind, WarningTime};
use crate::number::{count, counted};

pub(super) const KIND: WarningKind = WarningKind {
    title: "a filter that leaves too few chunks",
    meaning: "The search for these questions was restricted by a filter, and found fewer passages than `top_k`. Metrics \
              that divide by the number of passages then compare lists of different lengths, and a filter that is too \
              strict loses the answer. It is counted for trials in which no step after the retriever changes the number \
              of passages.",
    action: "loosen the filter, or check that the documents have the field",
    found: WarningTime::After,
    needs_chunks: false,
    find,
};

fn find(facts: &RunFacts) -> Vec<Finding> {
    facts.find_in_trials(|trial, found| {
        let filter = Some(found.filter).filter(|filter| filter.short > 0)?;
        let (n, all) = (count(filter.short), counted(filter.questions, "question"));
        let text =
            format!("the filter left fewer than {} passages for {n} of {all} with a filter", count(filter.wanted));
        Some(Finding::of_trial(trial, text, filter.short, Some(filter.questions)))
    })
}

#[cfg(test)]
mod tests {
    use super::super::{
        FilterFacts, TrialFindings, WarningCode,
        fixture::{run, told, trial},
    };

    const CODE: WarningCode = WarningCode::FewPassages;

    fn found(questions: usize, short: usize) -> TrialFindings {
        TrialFindings { filter: FilterFacts { questions, short, wanted: 5 }, ..TrialFindings::default() }
    }

    #[test]
    fn questions_with_a_filter_that_find_too_little_are_counted() {
        let expected = "t01: the filter left fewer than 5 passages for 2 of 8 questions with a filter";
        assert_eq!(told(CODE, &run(vec![trial("t01", found(8, 2))])), [expected]);
    }

    #[test]
    fn filters_that_leave_enough_are_not_told() {
        assert!(told(CODE, &run(vec![trial("t01", found(8, 0)), trial("t02", found(0, 0))])).is_empty());
    }
}
