//! Where a trial stands on a leaderboard.

use crate::{
    results::{Results, TrialResult, Winner},
    search::StopKind,
};
use serde::{Deserialize, Serialize};

/// Where a trial stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialStanding {
    /// It is the best: all other trials are worse.
    Winner,
    /// It is first by the objective, but another may be as good, or there is no other.
    Leads,
    /// It may be as good as the trial that leads.
    Tied,
    /// Another trial is better.
    Behind,
    /// A search stopped it, because another trial is better.
    Eliminated,
    /// A search stopped it when the calls ran out. It may be as good.
    OutOfCalls,
    /// A search never tried it.
    NotTried,
    /// It has no scores to choose by, or scores are missing that could change the order.
    NotRanked,
}

impl TrialStanding {
    pub(super) fn of(results: &Results, trial: &TrialResult) -> Self {
        if let Some(stop) = &trial.stopped {
            return match stop.kind {
                StopKind::Eliminated => Self::Eliminated,
                StopKind::OutOfCalls => Self::OutOfCalls,
                StopKind::NotTried => Self::NotTried,
            };
        }
        match &results.winner {
            Winner::Trial(id) if *id == trial.trial.id => Self::Winner,
            Winner::Leads(id) if *id == trial.trial.id => Self::Leads,
            Winner::Refused(_) => Self::NotRanked,
            _ if trial.tied => Self::Tied,
            _ if trial.group.is_some() => Self::Behind,
            _ => Self::NotRanked,
        }
    }

    /// The standing in a word or two.
    pub fn name(self) -> &'static str {
        match self {
            Self::Winner => "winner",
            Self::Leads => "leads",
            Self::Tied => "tied",
            Self::Behind => "behind",
            Self::Eliminated => "eliminated",
            Self::OutOfCalls => "out of calls",
            Self::NotTried => "not tried",
            Self::NotRanked => "not ranked",
        }
    }

    /// The standing as one character; empty where there is nothing to say.
    /// Remarks on searches use the same characters.
    pub fn mark(self) -> &'static str {
        match self {
            Self::Winner => "★",
            Self::Leads | Self::Tied => "=",
            Self::Eliminated => "×",
            Self::OutOfCalls | Self::NotTried => "…",
            Self::Behind | Self::NotRanked => "",
        }
    }
}

/// A row's standing in a word or two; for a trial that is behind, its group.
pub(super) fn label(standing: TrialStanding, trial: &TrialResult) -> String {
    match (standing, trial.group) {
        (TrialStanding::Behind, Some(group)) => format!("group {group}"),
        (TrialStanding::NotRanked, _) => String::new(),
        _ => standing.name().to_owned(),
    }
}

/// Where a trial stands among all of its run, in a sentence.
pub(super) fn place(trial: &TrialResult) -> String {
    if let Some(stop) = &trial.stopped {
        return format!("stopped by the search: {}", stop.reason);
    }
    let p_value = trial.p_value.map_or_else(String::new, |p| format!(" ({})", p_value_text(p)));
    match trial.group {
        None => "without scores to choose by".to_owned(),
        Some(1) if !trial.tied => "leads, in the group that holds the best trial with 95 %".to_owned(),
        Some(1) => format!("in the group that holds the best trial with 95 %{p_value}"),
        Some(group) => format!("in group {group}: worse than the best{p_value}"),
    }
}

/// A p-value in words: one that rounds to zero is not zero.
fn p_value_text(p: f64) -> String {
    if p < 0.001 { "p < 0.001".to_owned() } else { format!("p = {p:.3}") }
}
