//! The leaderboard for people: lays out what `lab::Board` says.

use super::{aligned, table, visible_line};
use eval::statistics::Summary;
use lab::{
    Board, Results, TrialResult,
    board::{About, Cell, Column, ColumnKind, Note, Row, Scores},
};
use std::fmt::Write;

/// All trials, best first, with intervals and what is tied.
pub fn leaderboard(board: &Board) -> String {
    let mut text = format!("{}: {}", board.experiment, board.corpus);
    if let Some(partial) = &board.partial {
        let _ = write!(text, "\nPARTIAL: {partial} (--budget-usd, or `budget` under [evaluate])");
    }
    if let Some(unscored) = &board.unscored {
        let trial = board.answering.as_ref().map_or("t01", |answering| &answering.trial);
        let _ = write!(text, "\n{unscored}\nask: reverie query \"…\" --trial {trial}");
        return text;
    }
    let _ = write!(text, "\n{}", trials(board));
    for sentence in &board.verdict {
        let _ = write!(text, "\n{sentence}");
    }
    for (number, note) in board.notes.iter().enumerate() {
        let is_first = number == 0 || board.notes[number - 1].about != note.about;
        let _ = write!(text, "\n{}", line(note, is_first));
    }
    text
}

/// The table.
fn trials(board: &Board) -> comfy_table::Table {
    let columns: Vec<&Column> = board.columns.iter().filter(|column| column.shown).collect();
    let names: Vec<String> = columns.iter().map(|column| heading(column)).collect();
    let header: Vec<&str> = ["", "trial"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let words = columns.iter().filter(|column| column.kind == ColumnKind::Axis).count();
    let mut rows = table(&header, words + 2);
    for row in &board.rows {
        rows.add_row(cells(board, row));
    }
    rows
}

/// Words below each other keep the table narrow enough for a terminal.
fn heading(column: &Column) -> String {
    match column.kind {
        ColumnKind::Objective => format!("{} [95 %]", column.title),
        ColumnKind::Test => column.title.replace(" questions", "\nquestions"),
        ColumnKind::Metric => column.title.replace('_', "\n") + if column.judged { "*" } else { "" },
        _ => column.title.clone(),
    }
}

fn cells(board: &Board, row: &Row) -> Vec<comfy_table::Cell> {
    let first = [aligned(row.standing.mark(), false), aligned(&row.id, false)];
    let others = board.shown(row).map(|(column, cell)| aligned(shown(column, cell), column.kind != ColumnKind::Axis));
    first.into_iter().chain(others).collect()
}

fn shown(column: &Column, cell: &Cell) -> String {
    match (cell, column.kind) {
        (Cell::Text(text), _) => text.clone(),
        (Cell::Number(number), _) => format!("{number:.*}", column.digits),
        (Cell::Scores(Scores { summary, .. }), ColumnKind::Metric) => value(summary),
        (Cell::Scores(Scores { summary, .. }), _) => interval(summary),
        (Cell::Empty, ColumnKind::Axis | ColumnKind::Metric) => String::new(),
        (Cell::Empty, _) => "–".to_owned(),
    }
}

fn interval(summary: &Summary) -> String {
    match (summary.mean, summary.low, summary.high) {
        (Some(mean), Some(low), Some(high)) => format!("{mean:.3} [{low:.3}, {high:.3}]"),
        (Some(mean), _, _) => format!("{mean:.3}"),
        _ => "–".to_owned(),
    }
}

/// The mean, and n scored of n total where some are missing.
fn value(summary: &Summary) -> String {
    match summary.mean {
        Some(mean) if summary.n_failed == 0 => format!("{mean:.3}"),
        Some(mean) => format!("{mean:.3} ({}/{})", summary.n_scored, summary.n_total),
        None => format!("– (0/{})", summary.n_total),
    }
}

/// A note, with what its reader can do here.
fn line(note: &Note, is_first: bool) -> String {
    let (text, subject) = (&note.text, note.subject.as_deref().unwrap_or_default());
    match note.about {
        About::Search => format!("{text}. Why, for each: reverie leaderboard --json | jq .search.stops"),
        About::Judge => format!("* {text}"),
        About::UntriedJudge => format!("* {text}: `reverie judge {subject}`"),
        About::Failure if is_first => format!("failed:\n  {text}"),
        About::Failure => format!("  {text}"),
        // A path must not look like several lines.
        About::Unread => match text.strip_prefix(subject) {
            Some(rest) => format!("{}{rest}", visible_line(subject)),
            None => text.clone(),
        },
        About::Journal => format!("{text}: see `reverie journal verify`"),
        _ => text.clone(),
    }
}

/// One trial, a line per question.
pub fn trial(results: &Results, trial: &TrialResult) -> String {
    let labels: Vec<String> = trial.trial.labels.iter().map(|(axis, label)| format!("{axis} {label}")).collect();
    let mut header = vec!["question"];
    header.extend(results.metrics.iter().map(|metric| metric.name.as_str()));
    let mut rows = table(&header, 1);
    for result in &trial.questions {
        let mut row = vec![aligned(&result.question, false)];
        row.extend(results.metrics.iter().map(|metric| {
            let score = result.scores.get(&metric.name).and_then(|scored| scored.score.value());
            aligned(score.map_or_else(|| "–".to_owned(), |value| format!("{value:.3}")), true)
        }));
        rows.add_row(row);
    }
    let mut text = format!("{}: {}\n{rows}", trial.trial.id, labels.join(", "));
    let _ = write!(text, "\none question in full: reverie show {} QUESTION", trial.trial.id);
    text
}
