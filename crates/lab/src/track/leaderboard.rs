//! The leaderboard as the trackers' tables show it.

use crate::{
    board::{self, Board, BoardRow, ColumnKind},
    plan::Trial,
};
use serde_json::{Value, json};

/// The trials, best first, with their components and the mean of each metric: the names of the columns, and the rows.
pub(super) fn table(board: &Board) -> (Vec<String>, Vec<Vec<Value>>) {
    let is_shown = |kind| matches!(kind, ColumnKind::Axis | ColumnKind::Objective | ColumnKind::Metric);
    let names = board.columns.iter().filter(|column| is_shown(column.kind)).map(|column| column.name.clone());
    let row = |row: &BoardRow| {
        let cells = board.columns.iter().zip(&row.cells).filter(|(column, _)| is_shown(column.kind));
        let values = cells.map(|(_, cell)| cell.text().map_or_else(|| json!(cell.number()), |text| json!(text)));
        std::iter::once(json!(row.id)).chain(values).collect()
    };
    let columns = std::iter::once("trial".to_owned()).chain(names).collect();
    (columns, board.rows.iter().map(row).collect())
}

/// The differences between a trial and the others, in a few words.
pub(super) fn pipeline(trial: &Trial, trials: &[Trial]) -> String {
    let labels = board::varying(trials).into_iter().filter_map(|name| trial.labels.get(&name));
    labels.map(String::as_str).collect::<Vec<_>>().join(" · ")
}
