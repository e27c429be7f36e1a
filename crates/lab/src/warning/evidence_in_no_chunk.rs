//! `evidence-in-no-chunk`: evidence of which no single chunk of a trial holds enough (`min_overlap` of the metrics).

use super::{Finding, RunFacts, WarningKind, WarningTime};
use crate::number::{count, counted};

pub(super) const KIND: WarningKind = WarningKind {
    title: "evidence that no chunk holds",
    meaning: "No single searchable chunk holds enough of the evidence (the metrics' `min_overlap`, a half unless set) \
              of these questions, because the chunks are small or are cut there. The evidence is found only if several \
              chunks are retrieved, or if a step adds what stands around a chunk. A trial with larger chunks has an \
              easier task.",
    action: "use larger chunks or an overlap, or a step that adds neighbours or parents (`refine`)",
    found: WarningTime::After,
    needs_chunks: true,
    find,
};

fn find(facts: &RunFacts) -> Vec<Finding> {
    facts.find_in_trials(|trial, found| {
        let evidence = found.evidence.filter(|evidence| evidence.in_no_chunk > 0)?;
        let (n, all) = (count(evidence.in_no_chunk), counted(evidence.questions, "question"));
        let text = format!("no single chunk holds enough of the evidence of {n} of {all}");
        Some(Finding::of_trial(trial, text, evidence.in_no_chunk, Some(evidence.questions)))
    })
}

#[cfg(test)]
mod tests {
    use super::super::{
        EvidenceFacts, TrialFindings, WarningCode,
        fixture::{run, told, trial},
    };

    const CODE: WarningCode = WarningCode::EvidenceInNoChunk;

    fn found(evidence: Option<(usize, usize)>) -> TrialFindings {
        let evidence = evidence.map(|(questions, in_no_chunk)| EvidenceFacts { questions, in_no_chunk });
        TrialFindings { evidence, ..TrialFindings::default() }
    }

    #[test]
    fn questions_whose_evidence_is_cut_apart_are_counted() {
        let facts = run(vec![trial("t01", found(Some((20, 3)))), trial("t02", found(Some((20, 0))))]);
        assert_eq!(told(CODE, &facts), ["t01: no single chunk holds enough of the evidence of 3 of 20 questions"]);
    }

    #[test]
    fn chunks_that_hold_everything_or_were_not_looked_at_are_not_told() {
        assert!(told(CODE, &run(vec![trial("t01", found(Some((20, 0)))), trial("t02", found(None))])).is_empty());
    }
}
