//! The trials that no other one beats on quality, cost and latency together.
//!
//! When to use it: where the best answers are too expensive or too slow. A trial is on the front if
//! none is at least as good in all three and better in one. Cost is money where there is any, else
//! tokens: for the questions, and for the index. Latency counts in hundredths of a second: less is
//! noise of the measurement. A number that is not known counts as the worst.

use super::TrialResult;

/// Marks the trials on the front. Those that a search stopped are not on it:
/// their means are of fewer questions.
pub(super) fn mark(trials: &mut [TrialResult]) {
    let is_money = counts_money(trials);
    let or_worst = |number: Option<f64>| number.unwrap_or(f64::INFINITY);
    // Smaller is better in each.
    let costs: Vec<Option<[f64; 4]>> = trials
        .iter()
        .map(|trial| {
            let quality = quality(trial)?;
            let all_known = trial.usage.unknown.is_empty();
            let (cost, index) = match is_money {
                true => (trial.cost_usd, trial.index_cost_usd),
                false => (trial.tokens.filter(|_| all_known), all_known.then_some(trial.index_tokens as f64)),
            };
            let latency = trial.latency_p50.map(|seconds| (seconds * 100.0).round());
            Some([-quality, or_worst(cost), or_worst(index), or_worst(latency)])
        })
        .collect();
    let beats = |a: &[f64; 4], b: &[f64; 4]| a.iter().zip(b).all(|(a, b)| a <= b) && a != b;
    for (trial, own) in trials.iter_mut().zip(&costs) {
        trial.front = own.as_ref().is_some_and(|own| !costs.iter().flatten().any(|other| beats(other, own)));
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
}
