//! Decides at which step the golden evidence of a question was lost, on the way from the files to
//! the answer. It only compares what was recorded and found before, and calls no model.

#[cfg(test)]
mod tests;

use super::{EvidenceChunk, EvidenceLoss, LossStep, MetricResult, QuestionLoss};
use eval::{Question, Scored, metric::find_evidence};
use rag::{Passage, Span};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The lowest score of a right answer. The score is the mean of the metrics that compare answers
/// with references, each on a scale from 0 to 1.
pub const RIGHT_FROM: f64 = 0.5;

/// Facts about a piece of evidence that show why the search did not find it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SearchedEvidence {
    /// Whether its document was read.
    pub(crate) is_read: bool,
    /// Whether one chunk holds enough of it.
    pub(crate) is_held: bool,
    /// Whether such a chunk was among the candidates that the retriever chose from.
    pub(crate) is_candidate: bool,
    /// The best rank of such a chunk in a deeper search; none if it was not found there.
    pub(crate) rank: Option<usize>,
    /// The number of chunks that the deeper search found.
    pub(crate) depth: usize,
    /// The chunk with that rank. Without a rank, the chunk that holds most of the evidence.
    pub(crate) chunk: Option<EvidenceChunk>,
}

/// The passages of a question after a stage. The first stage is the search.
pub(crate) struct StagePassages<'a> {
    /// The step to name if this stage no longer holds the evidence.
    pub(crate) step: LossStep,
    /// The stage's component.
    pub(crate) component: &'a str,
    pub(crate) passages: &'a [Passage],
}

/// How a question's answer was judged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum AnswerOutcome {
    /// There is nothing to judge: no generator, the answer or score was not asked for, no
    /// reference, or no metric that compares answers.
    None,
    /// A call failed: there is no answer, or no score.
    Failed,
    /// The mean score is below [`RIGHT_FROM`].
    Wrong {
        /// Whether it declines to answer.
        declines: bool,
    },
    Right,
}

/// The answer of a question, and how it was judged.
pub(crate) struct JudgedAnswer<'a> {
    pub(crate) verdict: AnswerOutcome,
    /// The generator's component.
    pub(crate) generator: &'a str,
    /// The numbers of the passages that it cites, from 1.
    pub(crate) citations: &'a [u32],
    /// How many of the last passages the generator left out, because the budget of the prompt was
    /// spent.
    pub(crate) dropped_passages: usize,
}

/// Everything that decides where a question's evidence was lost.
pub(crate) struct EvidenceTrace<'a> {
    pub(crate) question: &'a Question,
    /// The share of an evidence item's bytes that passages must hold for the item to count as held.
    pub(crate) min_overlap: f64,
    /// What reads the files, if the trial is a pipeline.
    pub(crate) parser: Option<&'a str>,
    /// The stages in their order; empty if the trial reads no passages.
    pub(crate) stages: &'a [StagePassages<'a>],
    /// For each piece of evidence, the facts that show why the search did not find it. Empty if the
    /// search found all of them, or if nothing is known.
    pub(crate) searched: &'a [SearchedEvidence],
    pub(crate) answer: JudgedAnswer<'a>,
}

impl EvidenceTrace<'_> {
    /// The step at which the evidence was lost. All pieces are needed: if several were lost, the
    /// earliest step counts.
    pub(crate) fn loss(&self) -> QuestionLoss {
        let evidence = self.evidence();
        let lost = evidence.iter().filter_map(|item| Some((item.step?, item.component.clone())));
        let (step, component) = match lost.min_by_key(|(step, _)| *step) {
            _ if self.question.evidence.is_empty() => (self.ending_without_evidence(), None),
            _ if self.stages.is_empty() => (self.ending_without_passages(), None),
            Some(_) if self.answer.verdict == AnswerOutcome::Right => (LossStep::RightWithoutEvidence, None),
            Some(lost) => lost,
            None => (self.ending(&evidence), None),
        };
        QuestionLoss { step, component, rank: rank_of_lost(&evidence), evidence }
    }

    /// Where each piece of the evidence was lost before the answer.
    fn evidence(&self) -> Vec<EvidenceLoss> {
        let Some(first) = self.stages.first() else { return Vec::new() };
        let golden = &self.question.evidence;
        let of_stage = |stage: &StagePassages<'_>| find_evidence(golden, stage.passages, self.min_overlap);
        let found: Vec<_> = self.stages.iter().map(of_stage).collect();
        let prompt = self.prompt(self.stages.last().map_or(&[][..], |stage| stage.passages));
        let in_prompt = find_evidence(golden, prompt, self.min_overlap);
        let item = |number: usize| {
            let rank = found[0][number].rank;
            let known = self.searched.get(number);
            let mut item = EvidenceLoss { rank, searched: first.passages.len(), ..EvidenceLoss::default() };
            // A later stage may find again what an earlier one lost.
            let (step, component) = match found.iter().rposition(|stage| stage[number].rank.is_some()) {
                Some(last) if last + 1 == found.len() => match in_prompt[number].rank {
                    Some(_) => return item,
                    None => (LossStep::CutFromPrompt, self.answer.generator),
                },
                Some(last) => (self.stages[last + 1].step, self.stages[last + 1].component),
                // Another parser's text holds it, so this one lost it.
                None if golden[number].is_nowhere() => (LossStep::NotRead, self.parser.unwrap_or_default()),
                None => (search_step(golden[number].span.is_some(), known), first.component),
            };
            let is_of_component =
                golden[number].is_nowhere() || !matches!(step, LossStep::NotRead | LossStep::CutApart);
            item.component = Some(component.to_owned()).filter(|component| is_of_component && !component.is_empty());
            item.step = Some(step);
            item.rank = rank.or(known.and_then(|known| known.rank));
            item.depth = known.map_or(0, |known| known.depth);
            item.chunk = known.and_then(|known| known.chunk.clone());
            item
        };
        (0..golden.len()).map(item).collect()
    }

    /// The passages that the generator showed to its model.
    fn prompt<'a>(&self, passages: &'a [Passage]) -> &'a [Passage] {
        &passages[..passages.len().saturating_sub(self.answer.dropped_passages)]
    }

    /// How a question ended if no piece of its evidence was lost.
    fn ending(&self, evidence: &[EvidenceLoss]) -> LossStep {
        debug_assert!(evidence.iter().all(|item| item.step.is_none()));
        match self.answer.verdict {
            AnswerOutcome::Right => LossStep::AnsweredRight,
            AnswerOutcome::Wrong { declines: true } => LossStep::NotUsed,
            AnswerOutcome::Wrong { declines: false } if self.cites_no_evidence() => LossStep::NotUsed,
            AnswerOutcome::Wrong { declines: false } => LossStep::AnsweredWrong,
            AnswerOutcome::Failed => LossStep::FailedCall,
            AnswerOutcome::None => LossStep::InPassages,
        }
    }

    /// Whether the answer cites passages, and none of them overlaps the evidence.
    fn cites_no_evidence(&self) -> bool {
        let passages = self.stages.last().map_or(&[][..], |stage| stage.passages);
        let cited = || self.answer.citations.iter().filter_map(|&n| passages.get((n as usize).checked_sub(1)?));
        let overlaps = |passage: &Passage| {
            let of_document = self.question.evidence.iter().filter(|item| item.document == passage.document);
            let spans: Vec<Span> = of_document.filter_map(|item| item.span).collect();
            passage.spans().iter().any(|own| spans.iter().any(|span| span.overlap(*own) > 0))
        };
        cited().next().is_some() && !cited().any(overlaps)
    }

    fn ending_without_evidence(&self) -> LossStep {
        match self.answer.verdict {
            AnswerOutcome::Right => LossStep::AnsweredRight,
            AnswerOutcome::Failed => LossStep::FailedCall,
            AnswerOutcome::Wrong { .. } | AnswerOutcome::None => LossStep::NoEvidence,
        }
    }

    /// How a question ended if the trial reads no passages.
    fn ending_without_passages(&self) -> LossStep {
        match self.answer.verdict {
            AnswerOutcome::Right => LossStep::RightWithoutEvidence,
            AnswerOutcome::Failed => LossStep::FailedCall,
            AnswerOutcome::Wrong { .. } | AnswerOutcome::None => LossStep::NotSearched,
        }
    }
}

/// The rank by which the deeper search finds all pieces that were lost. None if it does not find one of them, or if
/// another step lost one.
fn rank_of_lost(evidence: &[EvidenceLoss]) -> Option<usize> {
    let lost = evidence.iter().filter(|item| item.step.is_some());
    let ranks: Option<Vec<usize>> = lost.map(|item| item.rank.filter(|_| item.depth > 0)).collect();
    ranks?.into_iter().max()
}

/// The step at which evidence was lost if no stage holds it: the search, or a step before it.
fn search_step(has_place: bool, known: Option<&SearchedEvidence>) -> LossStep {
    match known {
        _ if !has_place => LossStep::NotRead,
        Some(known) if !known.is_read => LossStep::NotRead,
        Some(known) if !known.is_held => LossStep::CutApart,
        Some(known) if known.is_candidate => LossStep::RankedOut,
        _ => LossStep::NotFound,
    }
}

/// The metrics that say whether an answer is right: those of the objective that compare answers with
/// references, or all of this kind if the objective has none.
pub(crate) fn answer_metrics(metrics: &[MetricResult]) -> Vec<&MetricResult> {
    let comparing = || metrics.iter().filter(|metric| metric.correctness);
    let chosen: Vec<&MetricResult> = comparing().filter(|metric| metric.objective).collect();
    if chosen.is_empty() { comparing().collect() } else { chosen }
}

/// How the answer to a question is judged by these metrics. It is [`AnswerOutcome::None`] if no
/// metric applies, or if no score was asked for. If the range of a metric begins below 0, its
/// scores count from 0: otherwise a cosine of 0 would be half right.
pub(crate) fn judge_answer(
    metrics: &[&MetricResult],
    scores: &BTreeMap<String, Scored>,
    declines: impl FnOnce() -> bool,
) -> AnswerOutcome {
    let of_metrics = metrics.iter().filter_map(|metric| Some((*metric, scores.get(&metric.name)?)));
    let (mut shares, mut has_failed) = (Vec::new(), false);
    for (metric, scored) in of_metrics {
        has_failed |= scored.score.is_failure();
        shares.extend(scored.score.value().map(|value| share_of_best(metric, value)));
    }
    match eval::statistics::mean(&shares) {
        Some(mean) if mean >= RIGHT_FROM => AnswerOutcome::Right,
        Some(_) => AnswerOutcome::Wrong { declines: declines() },
        None if has_failed => AnswerOutcome::Failed,
        None => AnswerOutcome::None,
    }
}

/// A score on a scale from 0 for the worst to 1 for the best.
fn share_of_best(metric: &MetricResult, value: f64) -> f64 {
    let (low, high) = metric.range;
    let low = if high > 0.0 { low.max(0.0) } else { low };
    let share = ((value - low) / (high - low)).clamp(0.0, 1.0);
    if metric.higher_is_better { share } else { 1.0 - share }
}

/// The number of these questions for each step. A step without questions is left out.
pub(crate) fn count_losses<'a>(losses: impl Iterator<Item = &'a QuestionLoss>) -> BTreeMap<LossStep, usize> {
    let mut counts = BTreeMap::new();
    for loss in losses {
        *counts.entry(loss.step).or_default() += 1;
    }
    counts
}
