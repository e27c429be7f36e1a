//! How results look: in the terminal and as a page.

mod catalogue;
mod check;
mod comparison;
mod components;
mod databases;
mod document;
mod effects;
mod excerpt;
mod files;
mod forget;
mod functions;
mod golden;
mod journal;
mod judges;
mod leaderboard;
mod live;
mod live_answer;
mod live_run;
mod losses;
mod noise;
mod plan;
mod progress_lines;
mod pull;
mod question;
mod runs;
mod sampled_plan;
mod scores;
mod store;
mod versions;
mod visible;
mod votes;
mod warning_lines;
mod warnings;

pub use catalogue::{catalogue, catalogue_entry};
pub use check::{check, check_junit, check_markdown};
pub use comparison::comparison;
pub use components::{ComponentDocs, component, component_list, components};
pub use databases::{alias_swap, database_check, database_collections, promoted_index};
pub use document::{WordSurplus, different_words, document, page, problems, side_by_side};
pub use effects::effects;
pub use files::file_lines;
pub use forget::{forgetting, forgotten, forgotten_before};
pub use functions::{function_failures, function_failures_of_scores};
pub use golden::{
    GoldenBar, dataset, dataset_report, difference, golden, golden_estimate, ignored_columns, traffic_report,
};
pub use journal::{journal, journal_damage, sweep};
pub use judges::{calibration, qualifications};
pub use leaderboard::{TableLayout, leaderboard, trial};
pub use live::LiveTable;
pub use live_answer::LiveAnswer;
pub use live_run::live_run;
pub use losses::losses;
pub use noise::noise;
pub use plan::{estimate, inputs, plan};
pub use pull::PullBars;
pub use question::{answer, means, question, sources, sources_of, turns};
pub use runs::{RunListEntry, runs};
pub use sampled_plan::sampled_plan;
pub use scores::{scores, scoring};
pub use store::{ByteBar, copy_plan, copy_result, garbage, inventory, verification};
pub use ui::{EvidencePage, ReportFiles, ReportForm, plot, report, report_with_pages};
pub use versions::{corpus_update, pipeline_versions};
pub use visible::{visible, visible_json, visible_line};
pub use votes::votes;
pub use warning_lines::warning_lines;
pub use warnings::{WarningDocs, warning_docs, warning_kind, warning_list};

pub use lab::board::{count, counted};

use crate::environment::Audience;
use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use eval::statistics::{Interval, Summary};
use indicatif::{ProgressBar, ProgressStyle};
use std::{collections::BTreeMap, fmt::Display};

/// A line below the header and around the table, none between rows.
const STYLE: TableStyle = TableStyle::new()
    .top_border(LineStyle::none().fill('─').junction('─'))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));

/// The components of a trial, axis by axis; an axis without a component is left out.
fn combination(labels: &BTreeMap<String, String>) -> String {
    let names = lab::label_names([labels]);
    let there = names.iter().filter_map(|name| Some((name, labels.get(name)?)));
    let there = there.filter(|(_, label)| *label != "none");
    there.map(|(name, label)| format!("{name} {label}")).collect::<Vec<_>>().join(", ")
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

/// A number with this many decimals, or `–` if there is none.
fn number_or_dash(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| number(value, digits))
}

/// A mean with its interval, if there are any: `0.512 [0.431, 0.593]`.
fn mean(summary: &Summary) -> String {
    match (summary.mean, summary.low, summary.high) {
        (Some(mean), Some(low), Some(high)) => {
            format!("{} [{}, {}]", number(mean, 3), number(low, 3), number(high, 3))
        }
        (mean, ..) => number_or_dash(mean, 3),
    }
}

/// A difference with its interval, if there are any: `+0.081 [-0.012, +0.174]`.
fn difference_of_means(mean: Option<f64>, interval: Option<Interval>) -> String {
    let mean = mean.map_or_else(|| "–".to_owned(), |mean| signed_number(mean, 3));
    let interval = interval.map(|each| format!(" [{}, {}]", signed_number(each.low, 3), signed_number(each.high, 3)));
    mean + &interval.unwrap_or_default()
}

/// A p-value; never `0.000`, but `< 0.001`.
fn p_value(p: Option<f64>) -> String {
    if p.is_some_and(|p| p < 0.001) { "< 0.001".to_owned() } else { number_or_dash(p, 3) }
}

/// A table with the given header; columns from `first_number` on hold numbers.
fn table(header: &[&str], first_number: usize) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    table.column_iter_mut().skip(first_number).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}

/// The cells of a row.
fn row(cells: &[&dyn Display]) -> Vec<String> {
    cells.iter().map(ToString::to_string).collect()
}

/// A cell that is aligned to the left, also in a column of numbers.
fn left(text: impl ToString) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Left)
}

/// A progress bar of this form, if somebody reads it at a terminal.
fn progress_bar(length: usize, template: &str, audience: Audience) -> ProgressBar {
    let bar = if audience == Audience::Terminal { ProgressBar::new(length as u64) } else { ProgressBar::hidden() };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// A duration in seconds, minutes or hours, whichever are enough.
fn duration(seconds: f64) -> String {
    match seconds {
        ..100.0 => format!("{seconds:.0} s"),
        ..6000.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}
