//! Where a trial stands on a leaderboard.

use crate::{
    results::{EqualTrial, Results, TrialResult, Winner, nothing_retrieved},
    search::{Stop, StopKind},
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
    /// A person stopped it. It may be as good.
    Stopped,
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
                StopKind::ByPerson => Self::Stopped,
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
            Self::Stopped => "stopped",
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
            Self::OutOfCalls | Self::NotTried | Self::Stopped => "…",
            Self::Behind | Self::NotRanked => "",
        }
    }
}

/// A row's standing in a word or two. A trial that is behind shows its group instead. If the first trial found nothing
/// for half of the questions or more, its label also says for how many.
pub(super) fn label(standing: TrialStanding, trial: &TrialResult) -> String {
    let label = match (standing, trial.group) {
        (TrialStanding::Behind, Some(group)) => format!("group {group}"),
        (TrialStanding::NotRanked, _) => String::new(),
        _ => standing.name().to_owned(),
    };
    let is_first = matches!(standing, TrialStanding::Winner | TrialStanding::Leads);
    match trial.retrieval.filter(|count| is_first && count.empty > 0 && count.empty * 2 >= count.questions) {
        Some(count) => format!("{label}, nothing found for {} of {}", count.empty, count.questions),
        None => label,
    }
}

/// A sentence about a trial: its place in the run, the trial that it equals, and the number of questions without
/// passages.
pub(super) fn place(standing: TrialStanding, trial: &TrialResult) -> String {
    let has_answers = trial.questions.iter().any(|question| question.answer.is_some());
    let equal = trial.equal_to.as_ref().map(|EqualTrial { trial, same_output }| {
        let what = match same_output {
            true if has_answers => "passages and answers",
            true => "passages",
            false => "scores",
        };
        format!("the same {what} as {trial} for every question")
    });
    let limits = equal.into_iter().chain(nothing_retrieved(trial));
    std::iter::once(place_alone(standing, trial)).chain(limits).collect::<Vec<_>>().join("; ")
}

fn place_alone(standing: TrialStanding, trial: &TrialResult) -> String {
    match &trial.stopped {
        Some(Stop { kind: StopKind::ByPerson, reason, .. }) => return reason.clone(),
        Some(stop) => return format!("stopped by the search: {}", stop.reason),
        None => {}
    }
    let p_value = trial.p_value.map_or_else(String::new, |p| format!(" ({})", p_value_text(p)));
    match trial.group {
        None => "without scores to choose by".to_owned(),
        Some(1) if !trial.tied && standing == TrialStanding::NotRanked => {
            "not ranked: no trial is named first".to_owned()
        }
        Some(1) if !trial.tied => "leads, in the group that holds the best trial with 95 % confidence".to_owned(),
        Some(1) => format!("in the group that holds the best trial with 95 % confidence{p_value}"),
        Some(group) => format!("in group {group}: worse than the best{p_value}"),
    }
}

/// A p-value in words: one that rounds to zero is not zero.
fn p_value_text(p: f64) -> String {
    if p < 0.001 { "p < 0.001".to_owned() } else { format!("p = {p:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        results::{RetrievalCount, fixture},
        search::Stop,
    };

    /// What is known of the second of two trials.
    fn trial(stopped: Option<StopKind>, tied: bool, group: Option<usize>, p_value: Option<f64>) -> TrialResult {
        let found = fixture::results(2).trials.remove(1);
        let stopped = stopped.map(|kind| Stop { kind, questions: 2, reason: "behind t01".to_owned() });
        TrialResult { stopped, tied, group, p_value, ..found }
    }

    #[test]
    fn a_trial_stands_by_what_stopped_it_then_by_the_winner_then_by_its_group() {
        use TrialStanding as Of;
        let winner = |id: &str| Winner::Trial(id.to_owned());
        let leads = |id: &str| Winner::Leads(id.to_owned());
        let refused = || Winner::Refused("scores are missing".to_owned());
        let table = [
            (Some(StopKind::Eliminated), winner("t02"), true, Some(1), Of::Eliminated),
            (Some(StopKind::OutOfCalls), leads("t02"), true, Some(1), Of::OutOfCalls),
            (Some(StopKind::NotTried), refused(), false, None, Of::NotTried),
            (None, winner("t02"), false, Some(1), Of::Winner),
            (None, leads("t02"), true, Some(1), Of::Leads),
            (None, refused(), true, Some(1), Of::NotRanked),
            (None, leads("t01"), true, Some(1), Of::Tied),
            (None, leads("t01"), true, None, Of::Tied),
            (None, winner("t01"), false, Some(2), Of::Behind),
            (None, winner("t01"), false, None, Of::NotRanked),
        ];
        for (stopped, winner, tied, group, expected) in table {
            let mut results = fixture::results(2);
            results.winner = winner;
            let found = TrialStanding::of(&results, &trial(stopped, tied, group, None));
            assert_eq!(found, expected, "{stopped:?} {:?} {tied} {group:?}", results.winner);
        }
    }

    #[test]
    fn every_standing_has_a_name_and_at_most_one_character() {
        use TrialStanding as Of;
        let table = [
            (Of::Winner, "winner", "★"),
            (Of::Leads, "leads", "="),
            (Of::Tied, "tied", "="),
            (Of::Behind, "behind", ""),
            (Of::Eliminated, "eliminated", "×"),
            (Of::OutOfCalls, "out of calls", "…"),
            (Of::NotTried, "not tried", "…"),
            (Of::NotRanked, "not ranked", ""),
        ];
        for (standing, name, mark) in table {
            assert_eq!((standing.name(), standing.mark()), (name, mark));
            let written = serde_json::to_value(standing).unwrap();
            assert_eq!(written, name.replace(' ', "_"), "programs read it in one word");
        }
    }

    #[test]
    fn a_row_names_its_standing_and_a_trial_behind_its_group() {
        let label = |standing, group| label(standing, &trial(None, false, group, None));
        assert_eq!(label(TrialStanding::Behind, Some(3)), "group 3");
        assert_eq!(label(TrialStanding::Behind, None), "behind");
        assert_eq!(label(TrialStanding::NotRanked, Some(3)), "");
        assert_eq!(label(TrialStanding::OutOfCalls, Some(3)), "out of calls");
        assert_eq!(label(TrialStanding::Winner, Some(1)), "winner");
    }

    #[test]
    fn a_place_is_told_with_the_probability_where_it_is_compared() {
        let table = [
            (Some(StopKind::Eliminated), false, Some(2), Some(0.5), "stopped by the search: behind t01"),
            (None, false, None, Some(0.5), "without scores to choose by"),
            (None, false, Some(1), Some(0.5), "leads, in the group that holds the best trial with 95 % confidence"),
            (None, true, Some(1), None, "in the group that holds the best trial with 95 % confidence"),
            (None, true, Some(1), Some(0.5), "in the group that holds the best trial with 95 % confidence (p = 0.500)"),
            (None, true, Some(2), Some(0.001), "in group 2: worse than the best (p = 0.001)"),
            (None, false, Some(3), Some(0.000_999), "in group 3: worse than the best (p < 0.001)"),
            (None, false, Some(3), Some(0.0), "in group 3: worse than the best (p < 0.001)"),
        ];
        for (stopped, tied, group, p_value, expected) in table {
            assert_eq!(place(TrialStanding::Leads, &trial(stopped, tied, group, p_value)), expected);
        }
        let refused = place(TrialStanding::NotRanked, &trial(None, false, Some(1), None));
        assert_eq!(refused, "not ranked: no trial is named first");
    }

    #[test]
    fn a_trial_that_finds_nothing_is_never_called_first_without_that() {
        let found = |questions, empty| {
            let count = RetrievalCount { questions, empty };
            TrialResult { retrieval: Some(count), ..trial(None, false, Some(1), None) }
        };
        for (standing, questions, empty, expected) in [
            (TrialStanding::Leads, 15, 14, "leads, nothing found for 14 of 15"),
            (TrialStanding::Winner, 4, 2, "winner, nothing found for 2 of 4"),
            (TrialStanding::Winner, 15, 1, "winner"),
            (TrialStanding::Leads, 0, 0, "leads"),
            (TrialStanding::Tied, 15, 14, "tied"),
        ] {
            assert_eq!(label(standing, &found(questions, empty)), expected);
        }
        let leads = "leads, in the group that holds the best trial with 95 % confidence";
        let text = place(TrialStanding::Leads, &found(15, 1));
        assert_eq!(text, format!("{leads}; nothing was retrieved for 1 of 15 questions"), "however few they are");
        assert_eq!(place(TrialStanding::Leads, &found(15, 0)), leads);
    }

    #[test]
    fn the_place_of_a_trial_names_the_one_that_it_equals() {
        let equal = |same_output, has_answers: bool| {
            let equal = EqualTrial { trial: "t01".to_owned(), same_output };
            let mut trial = TrialResult { equal_to: Some(equal), ..trial(None, true, Some(1), None) };
            trial.questions[0].answer = has_answers.then(rag::Answer::default);
            place(TrialStanding::Tied, &trial)
        };
        let group = "in the group that holds the best trial with 95 % confidence";
        assert_eq!(equal(true, true), format!("{group}; the same passages and answers as t01 for every question"));
        assert_eq!(equal(true, false), format!("{group}; the same passages as t01 for every question"));
        assert_eq!(equal(false, true), format!("{group}; the same scores as t01 for every question"));
    }
}
