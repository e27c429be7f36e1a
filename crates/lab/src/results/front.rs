//! The trials that no other one beats on quality, cost and latency together.
//!
//! When to use it: where the best answers are too dear or too slow. A trial is
//! on the front if none is at least as good in all three and better in one.
//! Cost is money where there is any, else tokens: for the questions, and for the
//! index. Latency counts in hundredths of a second: less is noise of the
//! measurement, and nobody notices it. A number that is not known counts as the worst.

use super::TrialResult;

/// Marks the trials on the front. Those that a search stopped are not on it:
/// their means are of fewer questions.
pub(super) fn mark(trials: &mut [TrialResult]) {
    let paid = trials.iter().any(|trial| trial.cost_usd > 0.0 || trial.index_cost_usd > 0.0);
    // Smaller is better in each.
    let costs: Vec<Option<[f64; 4]>> = trials
        .iter()
        .map(|trial| {
            let quality = trial.objective.as_ref().and_then(|summary| summary.mean)?;
            let (cost, index) = match paid {
                true => (trial.cost_usd, trial.index_cost_usd),
                false => (trial.tokens.unwrap_or(f64::INFINITY), trial.index_tokens as f64),
            };
            let latency = trial.latency_p50.map_or(f64::INFINITY, |seconds| (seconds * 100.0).round());
            trial.stopped.is_none().then_some([-quality, cost, index, latency])
        })
        .collect();
    let beats = |a: &[f64; 4], b: &[f64; 4]| a.iter().zip(b).all(|(a, b)| a <= b) && a != b;
    for (trial, own) in trials.iter_mut().zip(&costs) {
        trial.front = own.as_ref().is_some_and(|own| !costs.iter().flatten().any(|other| beats(other, own)));
    }
}
