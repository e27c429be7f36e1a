//! How a run that goes on is doing, as text.

use super::{count, duration};
use lab::{LiveRun, LiveTrialState, OperatorStatus, seconds_left};
use std::fmt::Write as _;

/// A few lines: the state, each operator that is not done, what was spent, and the trials so far.
pub fn live_run(live: &LiveRun) -> String {
    let state = serde_json::to_value(live.state).unwrap_or_default();
    let left =
        seconds_left(&live.operators).map_or_else(String::new, |left| format!(", about {} left", duration(left)));
    let mut text = format!("{}: {}{left}", live.run, state.as_str().unwrap_or_default());
    for operator in live.operators.iter().filter(|operator| operator.status != OperatorStatus::Finished) {
        let all = operator.rows_estimated.map_or_else(|| "?".to_owned(), count);
        let _ = write!(
            text,
            "\n{:<14}{} of {all} rows, {} queued, {} active",
            operator.operator.name(),
            count(operator.rows_done),
            count(operator.queued),
            count(operator.active)
        );
    }
    let spending = &live.spending;
    let cap = spending.caps.usd.map_or_else(String::new, |cap| format!(" of ${cap:.2}"));
    let _ = write!(text, "\nspent ${:.2}{cap}, {} calls", spending.cost_usd, count(spending.calls as usize));
    let in_state = |state| live.trials.iter().filter(|trial| trial.state == state).count();
    let _ = write!(
        text,
        "\n{} trials: {} scored, {} stopped",
        live.trials.len(),
        in_state(LiveTrialState::Finished),
        in_state(LiveTrialState::Stopped)
    );
    for failure in &live.failures {
        let _ = write!(text, "\n{} × {}: {}", failure.count, failure.operator.name(), failure.reason);
    }
    for act in &live.acts {
        let _ = write!(text, "\n{act}");
    }
    text
}
