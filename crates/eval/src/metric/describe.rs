//! Describes a metric by its settings alone, before it is built: what it needs, to
//! which questions it applies, and how often it asks its judges.

use super::{Error, Needs, labelled::JudgedList};
use crate::verdict::VerdictKind;
use crate::{Missing, Question};
use store::registry::ReadSettingsFile;

/// The part of a metric in the default objective.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ObjectiveRole {
    /// It is in the objective.
    Preferred,
    /// It is in the objective if no metric of its kind, retrieval or answer, is preferred.
    #[default]
    Candidate,
    /// It is never in the objective: a cost, or a metric that applies to few
    /// questions.
    Excluded,
}

/// A description of a metric.
#[derive(Default)]
pub(super) struct Description {
    pub(super) needs: Needs,
    /// Its label, if that is not its name.
    pub(super) label: Option<String>,
    /// Whether its settings may give it a name.
    pub(super) can_be_named: bool,
    /// The lowest and the highest score; 0 and 1 if left out.
    pub(super) range: Option<(f64, f64)>,
    pub(super) lower_is_better: bool,
    /// Settings that do not affect its scores; they are not part of keys.
    pub(super) settings_outside_key: &'static [&'static str],
    /// Whether it is measured if the experiment names no metrics.
    pub(super) is_default: bool,
    pub(super) objective_role: ObjectiveRole,
    /// Whether an unanswerable question has no score even if the metric needs
    /// neither a reference nor evidence.
    pub(super) needs_answerable: bool,
    /// The kind of verdict that judges give for it, and the probability of yes from
    /// which on a verdict is yes; `None` if labelled cases cannot be made for it.
    pub(super) verdict: Option<(VerdictKind, f64)>,
    /// The lists of verdicts in the detail of a score that people can label.
    pub(super) judged_lists: &'static [JudgedList],
    /// The estimated calls that write texts, by the first judge.
    pub(super) writing: u64,
    /// The estimated calls that vote, by each judge, apart from those per passage.
    pub(super) voting: u64,
    pub(super) voting_per_passage: u64,
    /// Whether each question to a judge shows one passage, and not all of them.
    pub(super) reads_one_passage: bool,
}

/// Settings that describe their metric.
pub(super) trait Describe {
    /// The description of the metric with these settings.
    fn describe(&self) -> Description;

    /// Reads the files that the settings name, as [`MetricConfig::load`].
    ///
    /// [`MetricConfig::load`]: super::MetricConfig::load
    fn read_files(&mut self, _: ReadSettingsFile<'_>) -> Result<(), Error> {
        Ok(())
    }

    /// How many calls of a user's function may run at once; 0 if it calls none.
    fn functions_at_once(&self) -> usize {
        0
    }

    /// Settings that work, for a metric whose default settings do not.
    #[cfg(test)]
    fn example() -> Self
    where
        Self: Sized + Default,
    {
        Self::default()
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
