//! `cut-prompt`: answers whose prompt left out passages, because the budget of tokens was used up.

use super::{Finding, RunFacts, WarningKind, WarningTime};
use crate::number::{count, counted};

pub(super) const KIND: WarningKind = WarningKind {
    title: "passages that did not fit into the prompt",
    meaning: "Passages were retrieved and left out of the prompt, because the model's context or `context_tokens` was used \
              up. The scores of retrieval count them, and the answer could not use them.",
    action: "raise `context_tokens` as far as the model reads, retrieve fewer or smaller passages, or use a generator that \
             reads in several calls (`refine`, `tree_summarize`)",
    found: WarningTime::After,
    needs_chunks: false,
    find,
};

fn find(facts: &RunFacts) -> Vec<Finding> {
    facts.find_in_trials(|trial, found| {
        let prompts = Some(found.prompts).filter(|prompts| prompts.cut > 0)?;
        let (passages, n) = (counted(prompts.passages, "passage"), count(prompts.cut));
        let text = format!("{passages} did not fit into the prompts of {n} of {}", counted(prompts.answers, "answer"));
        Some(Finding::of_trial(trial, text, prompts.cut, Some(prompts.answers)))
    })
}

#[cfg(test)]
mod tests {
    use super::super::{
        PromptFacts, TrialFindings, WarningCode,
        fixture::{run, told, trial},
    };

    const CODE: WarningCode = WarningCode::CutPrompt;

    fn found(answers: usize, cut: usize, passages: usize) -> TrialFindings {
        TrialFindings { prompts: PromptFacts { answers, cut, passages }, ..TrialFindings::default() }
    }

    #[test]
    fn answers_without_all_of_their_passages_are_counted() {
        let expected = "t01: 31 passages did not fit into the prompts of 12 of 20 answers";
        assert_eq!(told(CODE, &run(vec![trial("t01", found(20, 12, 31))])), [expected]);
        let one = "t01: 1 passage did not fit into the prompts of 1 of 20 answers";
        assert_eq!(told(CODE, &run(vec![trial("t01", found(20, 1, 1))])), [one]);
    }

    #[test]
    fn prompts_that_hold_everything_are_not_told() {
        assert!(told(CODE, &run(vec![trial("t01", found(20, 0, 0)), trial("t02", found(0, 0, 0))])).is_empty());
    }
}
