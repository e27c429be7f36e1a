//! Describes a metric by its settings alone, before it is built: what it needs, to
//! which questions it applies, and how often it asks its judges.

use super::{Error, JudgeCalls, Needs};
use crate::verdict::VerdictKind;
use crate::{Missing, Question};
use store::registry::Read;

/// The part of a metric in an objective that the experiment does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectiveRole {
    /// It is in the objective.
    Preferred,
    /// It is in the objective if no metric of its kind is preferred.
    Candidate,
    /// It is never in the objective: a cost, or a metric that applies to few
    /// questions.
    Excluded,
}

/// A description of a metric by its settings.
pub(super) trait Describe {
    /// What it needs of a sample and of an evaluation.
    fn needs(&self) -> Needs;

    /// Its label, if that is not its name.
    fn label(&self) -> Option<String> {
        None
    }

    /// Whether its settings may give it a name.
    fn is_named(&self) -> bool {
        false
    }

    /// Settings that work, for a metric whose default settings do not.
    #[cfg(test)]
    fn example() -> Self
    where
        Self: Sized + Default,
    {
        Self::default()
    }

    /// The lowest and the highest score.
    fn range(&self) -> (f64, f64) {
        (0.0, 1.0)
    }

    /// Whether more of it is better.
    fn higher_is_better(&self) -> bool {
        true
    }

    /// Settings that do not affect its scores; they are not part of keys.
    fn unkeyed(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether it calls a user's function.
    fn runs_function(&self) -> bool {
        false
    }

    /// Reads the files that the settings name, as [`MetricConfig::load`].
    ///
    /// [`MetricConfig::load`]: super::MetricConfig::load
    fn read_files(&mut self, _: Read<'_>) -> Result<(), Error> {
        Ok(())
    }

    /// Whether it is measured if the experiment names no metrics.
    fn is_default(&self) -> bool {
        false
    }

    /// Its part in the objective if the experiment names none.
    fn objective_role(&self) -> ObjectiveRole {
        ObjectiveRole::Candidate
    }

    /// How many calls of a user's function may run at once; 0 if it calls none.
    fn functions_at_once(&self) -> usize {
        0
    }

    /// The kind of verdict that judges give for it, if there are labelled
    /// cases of that kind.
    fn verdict(&self) -> Option<VerdictKind> {
        None
    }

    /// Estimates how often judges are asked, for metrics that need them.
    fn judge_calls(&self, _passages: u64) -> JudgeCalls {
        JudgeCalls::default()
    }

    /// Whether each question to a judge shows one passage, and not all of them.
    fn reads_one_passage(&self) -> bool {
        false
    }

    /// Whether an unanswerable question has a score: not if it is compared with
    /// something that such a question cannot have.
    fn scores_unanswerable(&self) -> bool {
        let needs = self.needs();
        !(needs.reference || needs.evidence)
    }
}

pub(super) fn unanswerable() -> Missing {
    Missing::NotApplicable("the question is marked as unanswerable: there is nothing to hold the result against".into())
}

/// The reference answer of a question. A missing one is no failure of a trial.
pub(super) fn reference(question: &Question) -> Result<&str, Missing> {
    match question.reference.as_deref().map(str::trim) {
        _ if !question.answerable => Err(unanswerable()),
        Some(reference) if !reference.is_empty() => Ok(reference),
        _ => Err(Missing::NotApplicable("the question has no reference answer".into())),
    }
}
