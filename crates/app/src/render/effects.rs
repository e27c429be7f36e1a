//! The effect of each axis on the objective.

use super::{row, table};
use lab::{Board, Effect};

/// A table of effects, or a sentence where there are none.
pub fn effects(board: &Board) -> String {
    if board.effects.is_empty() {
        return "no axis has several values, or nothing is scored: there are no effects to show".to_owned();
    }
    let mut rows = table(&["axis", "value", "instead of", "objective", "95 % interval", "pairs"], 3);
    for effect in &board.effects {
        let Effect { axis, value, baseline, pairs, difference, interval, .. } = effect;
        let difference = difference.map_or_else(|| "–".to_owned(), |difference| format!("{difference:+.3}"));
        let interval = interval.map_or_else(|| "–".to_owned(), |each| format!("{:+.3} to {:+.3}", each.low, each.high));
        rows.add_row(row(&[axis, value, baseline, &difference, &interval, pairs]));
    }
    format!(
        "what each axis changes, in trials that are equal on all other axes (no pairs: no otherwise equal trials)\n{}",
        rows
    )
}
