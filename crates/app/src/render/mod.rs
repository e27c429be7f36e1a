//! How results look: in the terminal and as a page.

mod catalogue;
mod check;
mod comparison;
mod components;
mod document;
mod duration;
mod effects;
mod excerpt;
mod functions;
mod golden;
mod journal;
mod judges;
mod leaderboard;
mod live;
mod live_answer;
mod noise;
mod plan;
mod progress_lines;
mod pull;
mod question;
mod report;
mod runs;
mod scores;
mod store;
mod visible;

pub use catalogue::{catalogue, catalogue_entry};
pub use check::{check, check_junit, check_markdown};
pub use comparison::comparison;
pub use components::{ComponentDocs, component, component_list, components};
pub use document::document;
pub use effects::effects;
pub use functions::{function_failures, function_failures_of_scores};
pub use golden::{
    GoldenBar, dataset, dataset_report, difference, golden, golden_estimate, ignored_columns, traffic_report,
};
pub use journal::{journal, sweep};
pub use judges::{calibration, qualifications};
pub use leaderboard::{TableLayout, leaderboard, trial};
pub use live::LiveTable;
pub use live_answer::LiveAnswer;
pub use noise::noise;
pub use plan::{estimate, inputs, plan};
pub use pull::PullBars;
pub use question::{answer, means, question, sources, sources_of, turns};
pub use report::{ReportFiles, ReportForm, plot, report};
pub use runs::{RunListEntry, runs};
pub use scores::{scores, scoring};
pub use store::{ByteBar, copy_plan, copy_result, garbage, inventory, verification};
pub use visible::{visible, visible_json, visible_line};

pub use lab::board::count;

use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use std::collections::BTreeMap;

/// A line below the header and around the table, none between rows.
const STYLE: TableStyle = TableStyle::new()
    .top_border(LineStyle::none().fill('─').junction('─'))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));

/// The components of a trial, axis by axis; an axis without a component is left out.
fn combination(labels: &BTreeMap<String, String>) -> String {
    let there = lab::Axis::NAMES.iter().filter_map(|axis| Some((axis, labels.get(*axis)?)));
    let there = there.filter(|(_, label)| *label != "none");
    there.map(|(axis, label)| format!("{axis} {label}")).collect::<Vec<_>>().join(", ")
}

/// A number with this many decimals. A zero has no sign.
fn number(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let is_nothing = text.chars().all(|character| matches!(character, '-' | '0' | '.'));
    if is_nothing { text.trim_start_matches('-').to_owned() } else { text }
}

/// A number with its sign.
fn signed_number(value: f64, digits: usize) -> String {
    let text = number(value, digits);
    if text.starts_with('-') { text } else { format!("+{text}") }
}

/// A table with the given header; columns from `first_number` on hold numbers.
fn table(header: &[&str], first_number: usize) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.iter().enumerate().map(|(i, name)| aligned(name, i >= first_number)));
    table
}

fn aligned(text: impl ToString, number: bool) -> Cell {
    let cell = Cell::new(text.to_string());
    if number { cell.set_alignment(CellAlignment::Right) } else { cell }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rounds_to_nothing_has_no_sign() {
        assert_eq!(
            (number(-0.0004, 3), number(-0.0, 2), number(-0.0006, 3)),
            ("0.000".into(), "0.00".into(), "-0.001".into())
        );
        assert_eq!((signed_number(-0.0004, 3), signed_number(0.25, 2)), ("+0.000".into(), "+0.25".into()));
    }
}
