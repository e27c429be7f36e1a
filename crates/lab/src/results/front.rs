//! The trials that no other one beats on quality, cost and latency together.
//!
//! When to use it: where the best answers are too expensive or too slow. A trial is on the front if
//! none is at least as good in all three and better in one. Cost is money where there is any, else
//! tokens: for the questions, and for the index. Latency counts in hundredths of a second: less is
//! noise of the measurement. A number that is not known counts as the worst.

use super::{Results, SEED, TrialResult};
use eval::statistics::front_shares;
use std::collections::BTreeMap;

/// Marks the trials on the front. Those that a search stopped are not on it:
/// their means are of fewer questions.
pub(super) fn mark(trials: &mut [TrialResult]) {
    let all_costs = costs(trials);
    // Smaller is better in each.
    let costs: Vec<Option<[f64; 4]>> = trials
        .iter()
        .zip(&all_costs)
        .map(|(trial, [cost, index, latency])| Some([-quality(trial)?, *cost, *index, *latency]))
        .collect();
    let beats = |a: &[f64; 4], b: &[f64; 4]| a.iter().zip(b).all(|(a, b)| a <= b) && a != b;
    for (trial, own) in trials.iter_mut().zip(&costs) {
        trial.front = own.as_ref().is_some_and(|own| !costs.iter().flatten().any(|other| beats(other, own)));
    }
}

/// Money or tokens for the questions and for the index, and latency in hundredths of a second. What is not known is
/// infinite.
fn costs(trials: &[TrialResult]) -> Vec<[f64; 3]> {
    let is_money = counts_money(trials);
    let or_worst = |number: Option<f64>| number.unwrap_or(f64::INFINITY);
    let of_trial = |trial: &TrialResult| {
        let all_known = trial.usage.unknown.is_empty();
        let (cost, index) = match is_money {
            true => (trial.cost_usd, trial.index_cost_usd),
            false => (trial.tokens.filter(|_| all_known), all_known.then_some(trial.index_tokens as f64)),
        };
        let latency = trial.latency_p50.map(|seconds| (seconds * 100.0).round());
        [or_worst(cost), or_worst(index), or_worst(latency)]
    };
    trials.iter().map(of_trial).collect()
}

impl Results {
    /// Finds how sure it is that each trial is on the front: the share of resamples of the questions in which it is
    /// ([`front_shares`]). Trials that were stopped have none.
    pub(crate) fn measure_front(&mut self) {
        let contributions = self.contributions(&BTreeMap::new());
        let is_open = |trial: &TrialResult| quality(trial).is_some();
        let places: Vec<usize> = (0..self.trials.len()).filter(|&place| is_open(&self.trials[place])).collect();
        let all = costs(&self.trials);
        let scores = |place: &usize| contributions[&self.trials[*place].trial.id].clone();
        let shares = front_shares(
            &places.iter().map(scores).collect::<Vec<_>>(),
            &places.iter().map(|&place| all[place]).collect::<Vec<_>>(),
            SEED,
        );
        for (place, share) in places.into_iter().zip(shares) {
            self.trials[place].front_share = Some(share);
        }
    }
}

/// The quality of a trial that may be on the front.
fn quality(trial: &TrialResult) -> Option<f64> {
    trial.objective.as_ref().filter(|_| trial.stopped.is_none())?.mean
}

/// Whether trials are compared by money: something cost money, or the costs of
/// only some trials are known. Otherwise tokens take its place.
pub(crate) fn counts_money(trials: &[TrialResult]) -> bool {
    let costs: [fn(&TrialResult) -> Option<f64>; 2] = [|trial| trial.cost_usd, |trial| trial.index_cost_usd];
    costs.iter().any(|cost| {
        let is_paid = trials.iter().filter_map(cost).any(|cost| cost > 0.0);
        let mut known = trials.iter().filter(|trial| quality(trial).is_some()).map(|trial| cost(trial).is_some());
        let first = known.next();
        is_paid || known.any(|known| Some(known) != first)
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    /// What differs between the trials of one case.
    enum Cost {
        /// Dollars for the questions.
        Priced(f64),
        /// A remote model has no price.
        Unpriced,
        /// All models are in this process.
        Local,
        /// An earlier version did not count the calls.
        UnknownUsage,
    }
    use Cost::{Local, Priced, UnknownUsage, Unpriced};

    /// Which trials are on the front, of trials with these objectives, costs and tokens.
    fn front(cases: &[(f64, Cost, f64)]) -> Vec<bool> {
        let mut results = fixture::results(cases.len());
        let scores: Vec<_> = cases.iter().map(|(quality, ..)| vec![Some(*quality); 5]).collect();
        fixture::score(&mut results, "recall", &scores);
        fixture::choose(&mut results, "recall", &vec![1; cases.len()]);
        for (trial, (_, cost, tokens)) in results.trials.iter_mut().zip(cases) {
            (trial.tokens, trial.latency_p50) = (Some(*tokens), Some(1.0));
            trial.cost_usd = match cost {
                Priced(dollars) => Some(*dollars),
                Local => Some(0.0),
                Unpriced | UnknownUsage => None,
            };
            match cost {
                Unpriced => trial.usage.unpriced = vec!["gpt".to_owned()],
                UnknownUsage => trial.usage.unknown = vec!["generate".to_owned()],
                Priced(_) | Local => {}
            }
        }
        mark(&mut results.trials);
        results.trials.iter().map(|trial| trial.front).collect()
    }

    /// What is tried, trials with their quality, cost and tokens, and which of them
    /// are on the front.
    type Case<'a> = (&'a str, &'a [(f64, Cost, f64)], &'a [bool]);

    #[test]
    fn a_cost_that_is_not_known_counts_as_the_worst() {
        let table: [Case<'_>; 10] = [
            ("less money", &[(0.5, Priced(2.0), 1.0), (0.5, Priced(1.0), 9.0)], &[false, true]),
            ("unpriced of equal quality", &[(0.5, Priced(2.0), 9.0), (0.5, Unpriced, 1.0)], &[true, false]),
            ("unpriced of better quality", &[(0.5, Priced(2.0), 9.0), (0.6, Unpriced, 1.0)], &[true, true]),
            ("unknown usage beside a price", &[(0.5, Priced(2.0), 9.0), (0.5, UnknownUsage, 1.0)], &[true, false]),
            ("local costs nothing", &[(0.5, Priced(2.0), 1.0), (0.5, Local, 9.0)], &[false, true]),
            ("local beside unpriced", &[(0.5, Local, 9.0), (0.5, Unpriced, 1.0)], &[true, false]),
            (
                "unpriced ones beside a price",
                &[(0.5, Unpriced, 1.0), (0.5, Unpriced, 9.0), (0.4, Priced(1.0), 1.0)],
                &[true, true, true],
            ),
            ("no price at all: tokens", &[(0.5, Unpriced, 1.0), (0.5, Unpriced, 9.0)], &[true, false]),
            ("no money at all: tokens", &[(0.5, Local, 9.0), (0.5, Local, 1.0)], &[false, true]),
            (
                "nothing known: nobody is separated",
                &[(0.5, UnknownUsage, 1.0), (0.5, UnknownUsage, 9.0)],
                &[true, true],
            ),
        ];
        for (case, trials, expected) in table {
            assert_eq!(front(trials), expected, "{case}");
        }
    }

    #[test]
    fn the_cost_of_the_index_counts_apart() {
        let mut results = fixture::results(2);
        fixture::score(&mut results, "recall", &[vec![Some(0.5); 5], vec![Some(0.5); 5]]);
        fixture::choose(&mut results, "recall", &[1, 1]);
        (results.trials[0].index_cost_usd, results.trials[1].index_cost_usd) = (None, Some(3.0));
        mark(&mut results.trials);
        assert_eq!(results.trials.iter().map(|trial| trial.front).collect::<Vec<_>>(), [false, true]);
    }

    /// A trial's quality, dollars for the questions, and seconds, as far as they are known.
    type Row = (Option<f64>, Option<f64>, Option<f64>);

    /// Results with these trials; all else is equal.
    fn rows(rows: &[Row]) -> Vec<TrialResult> {
        let mut results = fixture::results(rows.len());
        let scores: Vec<_> = rows.iter().map(|(quality, ..)| vec![*quality; 5]).collect();
        fixture::score(&mut results, "recall", &scores);
        fixture::choose(&mut results, "recall", &vec![1; rows.len()]);
        for (trial, (quality, cost, seconds)) in results.trials.iter_mut().zip(rows) {
            trial.objective = trial.objective.take().filter(|_| quality.is_some());
            (trial.cost_usd, trial.latency_p50, trial.tokens) = (*cost, *seconds, Some(1.0));
        }
        results.trials
    }

    fn on_front(mut trials: Vec<TrialResult>) -> Vec<bool> {
        mark(&mut trials);
        trials.iter().map(|trial| trial.front).collect()
    }

    #[test]
    fn a_trial_is_on_the_front_unless_another_is_as_good_in_all_and_better_in_one() {
        let row = |quality, cost, seconds| (Some(quality), Some(cost), Some(seconds));
        let table: [(&str, &[Row], &[bool]); 9] = [
            ("one trial", &[row(0.1, 9.0, 9.0)], &[true]),
            ("equal trials", &[row(0.5, 1.0, 1.0), row(0.5, 1.0, 1.0)], &[true, true]),
            ("each is best in one", &[row(0.9, 3.0, 3.0), row(0.5, 1.0, 3.0), row(0.5, 3.0, 1.0)], &[true, true, true]),
            ("worse in one and equal in two", &[row(0.5, 1.0, 1.0), row(0.5, 1.0, 2.0)], &[true, false]),
            ("slower by less than half a hundredth", &[row(0.5, 1.0, 0.101), row(0.5, 1.0, 0.104)], &[true, true]),
            ("slower by a hundredth", &[row(0.5, 1.0, 0.104), row(0.5, 1.0, 0.106)], &[true, false]),
            ("an unknown latency is the worst", &[row(0.5, 1.0, 900.0), (Some(0.5), Some(1.0), None)], &[true, false]),
            ("but may be paid for by quality", &[row(0.5, 1.0, 900.0), (Some(0.6), Some(1.0), None)], &[true, true]),
            (
                "without scores it neither stands there nor beats",
                &[row(0.5, 2.0, 2.0), (None, Some(1.0), Some(1.0))],
                &[true, false],
            ),
        ];
        for (case, trials, expected) in table {
            assert_eq!(on_front(rows(trials)), expected, "{case}");
        }
    }

    #[test]
    fn a_stopped_trial_is_not_on_the_front_and_beats_nobody() {
        let mut trials = rows(&[(Some(0.5), Some(2.0), Some(2.0)), (Some(0.9), Some(1.0), Some(1.0))]);
        assert_eq!(on_front(trials.clone()), [false, true]);
        let kind = crate::search::StopKind::OutOfCalls;
        trials[1].stopped = Some(crate::search::Stop { kind, questions: 2, reason: "late".to_owned() });
        assert_eq!(on_front(trials), [true, false]);
    }

    #[test]
    fn money_counts_where_something_cost_money_or_only_some_costs_are_known() {
        let trial = |quality, cost| (quality, cost, Some(1.0));
        let scored = Some(0.5);
        let table: [(&str, [Row; 2], bool); 6] = [
            ("all free", [trial(scored, Some(0.0)), trial(scored, Some(0.0))], false),
            ("one paid", [trial(scored, Some(0.0)), trial(scored, Some(0.1))], true),
            ("one paid, without scores", [trial(scored, Some(0.0)), trial(None, Some(0.1))], true),
            ("none known", [trial(scored, None), trial(scored, None)], false),
            ("one known", [trial(scored, Some(0.0)), trial(scored, None)], true),
            ("the unknown one has no scores", [trial(scored, Some(0.0)), trial(None, None)], false),
        ];
        for (case, trials, expected) in table {
            assert_eq!(counts_money(&rows(&trials)), expected, "{case}");
        }
        let mut index = rows(&[trial(scored, Some(0.0)), trial(scored, Some(0.0))]);
        index[1].index_cost_usd = Some(0.1);
        assert!(counts_money(&index), "an index that cost money");
        assert!(!counts_money(&[]));
    }
}
